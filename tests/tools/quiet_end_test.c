/*
 * What weir does at the end of a program, the report and the snapshot, changes
 * neither the program's status nor its files, whatever has become of its
 * stderr, its rights, its limits and its locale.
 */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* How the program gets the preload. */
enum way { RUN, PRELOAD };

static const char *const way_names[] = { "weir run", "LD_PRELOAD" };

struct start {
	enum way way;
	const char *how;    /* the program's; NULL: nothing special */
	const char *report; /* "-", or a file */
	const char *conf;   /* NULL: none */
	int error;          /* the descriptor that becomes stderr; -1: none */
};

static char *file; /* the program's own */

static void
plain_environment(void)
{
	unsetenv("LD_PRELOAD");
	unsetenv("WEIR_CONF");
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 1);
	file = test_file("own", "", 0);
}

static _Noreturn void
become(const struct start *start)
{
	char *program = test_build("tests/programs/driver_odd");
	char *weir = test_build("bin/weir");

	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (start->conf != NULL)
		setenv("WEIR_CONF", start->conf, 1);
	if (start->error < 0)
		close(STDERR_FILENO);
	else
		dup2(start->error, STDERR_FILENO);
	if (start->way == RUN)
		execl(weir, "weir", "run", "--sim", "--report", start->report,
		    "--", program, file, start->how, (char *)NULL);
	setenv("WEIR_REPORT", start->report, 1);
	setenv("WEIR_LIBCUDA", test_build("lib/sim/libcuda.so.1"), 1);
	setenv("LD_LIBRARY_PATH", test_build("lib/sim"), 1);
	setenv("LD_PRELOAD", test_build("lib/libweir_preload.so"), 1);
	execl(program, program, file, start->how, (char *)NULL);
	_exit(127);
}

static char *
read_file(const char *path)
{
	char *text = calloc(1, 64 << 10);
	FILE *from = fopen(path, "r");

	EXPECT_NOT_NULL(text);
	if (from == NULL)
		FAIL("%s is not there", path);
	text[fread(text, 1, (64 << 10) - 1, from)] = '\0';
	fclose(from);
	return text;
}

/* Run the program. It must end as it does without weir. */
static void
expect_plain_end(const struct start *start)
{
	char *text;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(start);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		FAIL("%s: the wait status is %#x", way_names[start->way],
		    status);
	text = read_file(file);
	EXPECT_STR_EQ(text, "the result\n");
	free(text);
}

static void
expect_plain_ends(struct start start)
{
	for (start.way = RUN; start.way <= PRELOAD; start.way++)
		expect_plain_end(&start);
}

TEST(a_report_for_nobody_ends_no_program)
{
	int ends[2];

	plain_environment();
	EXPECT_EQ(pipe(ends), 0);
	close(ends[0]);
	expect_plain_ends((struct start){ .report = "-", .error = ends[1] });
}

TEST(a_full_pipe_holds_no_program_up)
{
	static const char byte;
	struct timespec from;
	struct timespec to;
	int ends[2];

	plain_environment();
	EXPECT_EQ(pipe(ends), 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], &byte, 1) == 1)
		;
	fcntl(ends[1], F_SETFL, 0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	expect_plain_ends((struct start){ .report = "-", .error = ends[1] });
	clock_gettime(CLOCK_MONOTONIC, &to);
	EXPECT_LT(to.tv_sec - from.tv_sec, 30);
}

TEST(a_program_without_stderr_ends_plainly)
{
	if (test_is_under_valgrind())
		SKIP("valgrind runs no program without stderr");
	plain_environment();
	expect_plain_ends((struct start){ .report = "-", .error = -1 });
}

/* The report goes where stderr was. */
TEST(a_file_in_the_place_of_stderr_gets_nothing_of_weir)
{
	char *error = test_file("error", "", 0);

	plain_environment();
	for (enum way way = RUN; way <= PRELOAD; way++) {
		int fd = open(error, O_WRONLY | O_TRUNC);
		char *text;

		expect_plain_end(&(struct start){
		    .way = way, .report = "-", .error = fd, .how = "reuse" });
		text = read_file(error);
		if (way == RUN) {
			EXPECT_STR_HAS(text, "out of memory");
			EXPECT_STR_HAS(text, "peak live");
		}
		free(text);
		close(fd);
	}
	free(error);
}

TEST(a_log_in_the_place_of_stderr_gets_the_report)
{
	char log[4096];
	char *text;

	plain_environment();
	snprintf(log, sizeof(log), "%s.log", file);
	expect_plain_end(&(struct start){ .way = PRELOAD,
	    .report = "-",
	    .error = open("/dev/null", O_WRONLY),
	    .how = "redirect" });
	text = read_file(log);
	EXPECT_STR_HAS(text, "peak live");
	free(text);
}

TEST(a_limit_for_files_ends_no_program)
{
	char *report = test_file("report", "", 0);
	char conf[4096];

	plain_environment();
	snprintf(conf, sizeof(conf), "history:all,snapshot:%s.pickle", report);
	expect_plain_ends((struct start){ .report = report,
	    .error = open(report, O_WRONLY),
	    .how = "limit" });
	expect_plain_ends((struct start){ .report = "-",
	    .error = open(report, O_WRONLY),
	    .how = "limit",
	    .conf = conf });
	free(report);
}

TEST(a_full_disk_ends_no_program)
{
	plain_environment();
	if (access("/dev/full", W_OK) != 0)
		SKIP("there is no /dev/full");
	expect_plain_ends((struct start){
	    .report = "-", .error = open("/dev/full", O_WRONLY) });
	expect_plain_ends((struct start){
	    .report = "/dev/full", .error = open("/dev/null", O_WRONLY) });
}

TEST(a_pipe_without_a_reader_takes_no_report)
{
	char *report = test_file("fifo", "", 0);

	plain_environment();
	EXPECT_EQ(unlink(report), 0);
	EXPECT_EQ(mkfifo(report, 0600), 0);
	expect_plain_ends((struct start){
	    .report = report, .error = open("/dev/null", O_WRONLY) });
	free(report);
}

TEST(a_report_is_written_for_a_program_that_may_not_write_it)
{
	char *error = test_file("error", "", 0);
	struct start start = { .way = RUN,
		.report = "-",
		.error = open(error, O_WRONLY),
		.how = "filter" };
	char *text;

	if (test_is_watched())
		SKIP("what watches the program makes system calls of its own");
	plain_environment();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitizer makes system calls of its own");
#endif
	expect_plain_end(&start);
	text = read_file(error);
	EXPECT_STR_HAS(text, "peak live                4.00 MiB");
	EXPECT_NULL(strstr(text, "ended"));
	free(text);
	free(error);
}

TEST(a_relative_report_stays_in_the_folder_of_the_start)
{
	char *report = test_file("report", "", 0);
	char *text;

	plain_environment();
	for (enum way way = RUN; way <= PRELOAD; way++) {
		EXPECT_EQ(unlink(report), 0);
		*strrchr(report, '/') = '\0';
		EXPECT_EQ(chdir(report), 0);
		report[strlen(report)] = '/';
		expect_plain_end(&(struct start){ .way = way,
		    .report = "report",
		    .error = open("/dev/null", O_WRONLY),
		    .how = "folder" });
		text = read_file(report);
		EXPECT_STR_HAS(text, "\"peak_live_bytes\": 4194304");
		free(text);
	}
	free(report);
}

TEST(a_report_has_points_in_every_locale)
{
	char *error = test_file("error", "", 0);
	char *text;

	plain_environment();
	use_comma();
	for (enum way way = RUN; way <= PRELOAD; way++) {
		expect_plain_end(&(struct start){ .way = way,
		    .report = "-",
		    .error = open(error, O_WRONLY | O_TRUNC),
		    .how = "comma" });
		text = read_file(error);
		EXPECT_STR_HAS(text, "4.00 MiB");
		EXPECT_NULL(strstr(text, "0,"));
		free(text);
	}
	free(error);
}
