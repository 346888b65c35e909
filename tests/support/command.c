/*
 * Running a program in a test.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

enum { ARGUMENTS_MAX = 32 };

static char *test_folder; /* of the running test's files */

/* Where the build of this test program is, "build/release". */
static void
build_folder(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *tests;

	if (length < 0)
		FAIL("cannot read /proc/self/exe: %s", strerror(errno));
	path[length] = '\0';
	tests = strstr(path, "/tests/");
	for (char *next = tests; next != NULL;) {
		next = strstr(tests + 1, "/tests/");
		if (next != NULL)
			tests = next;
	}
	if (tests == NULL)
		FAIL("%s is not in the tests of a build", path);
	*tests = '\0';
}

static char *
joined(const char *folder, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		FAIL("out of memory");
	return path;
}

char *
test_build(const char *part)
{
	char folder[PATH_MAX];

	build_folder(folder);
	return joined(folder, part);
}

char *
test_data(const char *name)
{
	char folder[PATH_MAX];

	/* build/NAME is two folders below the sources. */
	build_folder(folder);
	*strrchr(folder, '/') = '\0';
	*strrchr(folder, '/') = '\0';
	strcat(folder, "/tests/data");
	return joined(folder, name);
}

static int
remove_one(
    const char *path, const struct stat *about, int kind, struct FTW *walk)
{
	(void)about;
	(void)kind;
	(void)walk;
	return remove(path);
}

static void
remove_test_files(void)
{
	nftw(test_folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

char *
test_file(const char *name, const void *text, size_t length)
{
	FILE *file;
	char *path;

	if (test_folder == NULL) {
		char template[] = "/tmp/weir-test-XXXXXX";

		if (mkdtemp(template) == NULL)
			FAIL("mkdtemp: %s", strerror(errno));
		test_folder = strdup(template);
		atexit(remove_test_files);
	}
	path = joined(test_folder, name);
	file = fopen(path, "wb");
	if (file == NULL || fwrite(text, 1, length, file) != length ||
	    fclose(file) != 0)
		FAIL("cannot write %s", path);
	return path;
}

void
use_comma(void)
{
	static const char source[] = "LC_NUMERIC\n"
				     "decimal_point \",\"\n"
				     "thousands_sep \".\"\n"
				     "grouping 3;3\n"
				     "END LC_NUMERIC\n";
	char *path = test_file("comma.source", source, sizeof(source) - 1);
	char *made = joined(test_folder, "comma");
	struct command_result result = command_run(
	    (const char *const[]){ "localedef", "-c", "-i", path, made, NULL });

	/* It warns of all that is missing. */
	if (access(made, F_OK) != 0)
		SKIP("there is no localedef that makes a locale");
	EXPECT_EQ(setenv("LOCPATH", test_folder, 1), 0);
	EXPECT_NOT_NULL(setlocale(LC_NUMERIC, "comma"));
	command_free(&result);
	free(made);
	free(path);
}

/* The contents of a memory file, as text; closes it. */
static char *
text_of(int fd)
{
	struct stat about;
	char *text;
	ssize_t got;

	if (fstat(fd, &about) != 0)
		FAIL("fstat: %s", strerror(errno));
	text = malloc((size_t)about.st_size + 1);
	EXPECT_NOT_NULL(text);
	got = pread(fd, text, (size_t)about.st_size, 0);
	EXPECT_EQ(got, about.st_size);
	text[got] = '\0';
	close(fd);
	return text;
}

struct command_result
command_run(const char *const argv[])
{
	struct command_result result = { .status = -1 };
	int out = memfd_create("out", MFD_CLOEXEC);
	int err = memfd_create("err", MFD_CLOEXEC);
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		FAIL("cannot run %s: %s", argv[0], strerror(errno));
	if (WIFEXITED(status))
		result.status = WEXITSTATUS(status);
	else
		result.signal = WTERMSIG(status);
	result.out = text_of(out);
	result.err = text_of(err);
	return result;
}

char *
command_on_terminal(const char *const argv[])
{
	const char *line[ARGUMENTS_MAX + 6] = { "sh", "-c",
		"exec 2>\"$0\" \"$@\"" };
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	size_t room = (16 << 10) - 1;
	char *text = calloc(1, room + 1);
	struct command_result result;
	size_t length = 0;
	ssize_t n;
	int other;

	EXPECT(terminal >= 0 && text != NULL);
	EXPECT_EQ(grantpt(terminal), 0);
	EXPECT_EQ(unlockpt(terminal), 0);
	line[3] = ptsname(terminal);
	for (size_t i = 0; argv[i] != NULL; i++) {
		EXPECT_LT(i, ARGUMENTS_MAX);
		line[4 + i] = argv[i];
	}
	/* While it is open the text stays there; after that reading ends. */
	other = open(line[3], O_RDWR | O_NOCTTY);
	EXPECT(other >= 0);
	result = command_run(line);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	close(other);
	while ((n = read(terminal, text + length, room - length)) > 0)
		length += (size_t)n;
	close(terminal);
	return text;
}

struct command_result
command_weir(const char *argument, ...)
{
	const char *argv[ARGUMENTS_MAX + 2] = { getenv("WEIR_BIN") };
	struct command_result result;
	char *built = test_build("bin/weir");
	size_t count = 1;
	va_list args;

	if (argv[0] == NULL)
		argv[0] = built;
	va_start(args, argument);
	for (; argument != NULL; argument = va_arg(args, const char *)) {
		EXPECT_LE(count, ARGUMENTS_MAX);
		argv[count++] = argument;
	}
	va_end(args);
	if (access(argv[0], X_OK) != 0)
		FAIL("%s: %s", argv[0], strerror(errno));
	result = command_run(argv);
	free(built);
	return result;
}

void
command_free(struct command_result *result)
{
	free(result->out);
	free(result->err);
	*result = (struct command_result){ .status = -1 };
}
