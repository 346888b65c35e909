#include "tests/tools/weir/stepped.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* Programs start without options of weir. A sanitizer's runtime is loaded with
 * them, and so not first, and would sleep at their ends. */
static void
plain_environment(void)
{
	unsetenv("WEIR_CONF");
	unsetenv("WEIR_REPORT");
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 1);
}

const char *
runtime_folder(void)
{
	static char path[4096];
	char *file = test_file("x", "", 0);

	snprintf(path, sizeof(path), "%s", file);
	*strrchr(path, '/') = '\0';
	setenv("XDG_RUNTIME_DIR", path, 1);
	free(file);
	plain_environment();
	return path;
}

const char *program_report = "";

enum { FLAGS_MOST = 16 };

static void
run_program(const char *const *flags)
{
	const char *arguments[FLAGS_MOST + 8] = { "weir", "run", "--report",
		program_report, "--sim" };
	int n = 5;

	for (int i = 0; i < FLAGS_MOST && flags[i] != NULL; i++)
		arguments[n++] = flags[i];
	arguments[n++] = "--";
	arguments[n++] = test_build("tests/programs/driver_steps");
	execv(test_build("bin/weir"), (char *const *)arguments);
	_exit(127);
}

struct program
program_start(const char *flag)
{
	return program_start_with((const char *const[]){ flag, NULL });
}

struct program
program_start_with(const char *const *flags)
{
	struct program program;
	int to[2];
	int from[2];

	EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
	EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	program.pid = fork();
	if (program.pid == 0) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		run_program(flags);
	}
	close(to[0]);
	close(from[1]);
	program.to = fdopen(to[1], "w");
	program.from = fdopen(from[0], "r");
	return program;
}

char program_pid[32];

struct program
program_start_watched(void)
{
	struct program program;

	runtime_folder();
	program = program_start("--watch");
	program_step(&program, 'a', 0);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)program.pid);
	return program;
}

const char *
program_name(const struct program *program)
{
	static char name[32];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)program->pid);
	file = fopen(path, "r");
	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(fgets(name, sizeof(name), file));
	fclose(file);
	name[strcspn(name, "\n")] = '\0';
	return name;
}

void
program_step(const struct program *program, char letter, int answer)
{
	char line[32];
	char expected[32];

	fprintf(program->to, "%c\n", letter);
	fflush(program->to);
	EXPECT_NOT_NULL(fgets(line, sizeof(line), program->from));
	snprintf(expected, sizeof(expected), "%c %d\n", letter, answer);
	EXPECT_STR_EQ(line, expected);
}

int
program_finish(struct program *program)
{
	int status;

	fclose(program->to);
	EXPECT_EQ(waitpid(program->pid, &status, 0), program->pid);
	fclose(program->from);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
