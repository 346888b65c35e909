/*
 * weir run --plan: a program that was recorded is planned, and follows its plan
 * when it runs again.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/start.h"
#include "tests/support/test.h"

/* As tests/programs/driver_planned.c has them: its large requests in a round.
 */
enum { KEPT = 9, ROUND = 12 };

enum { BAD_FILE_SECONDS = 30 }; /* a run that waits for a file takes longer */

static void
plain_environment(void)
{
	unsetenv("LD_PRELOAD");
	unsetenv("WEIR_CONF");
	unsetenv("WEIR_REPORT");
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
}

static char *
no_file(const char *name)
{
	char *path = test_file(name, "", 0);

	unlink(path);
	return path;
}

/* Run the program without a plan, and plan what it has recorded. The caller
 * frees the path of the plan. */
static char *
plan_of_program(void)
{
	char *program = test_build("tests/programs/driver_planned");
	char *snapshot = no_file("run.pickle");
	char *plan = no_file("run.plan");

	plain_environment();
	struct command_result result =
	    command_weir("run", "--sim", "--quiet", "--history=alloc",
		"--snapshot", snapshot, program, "stays", "1", NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	result = command_weir("plan", snapshot, "-o", plan, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "12 large requests a round");
	command_free(&result);
	unlink(snapshot);
	free(snapshot);
	free(program);
	return plan;
}

static void
drop_plan(char *plan)
{
	unlink(plan);
	free(plan);
}

/* Run the program with the plan. So many requests follow it, it is dropped so
 * many times, and none fails. The caller frees the result. */
static struct command_result
follow(const char *plan, const char *how, const char *seed, long long planned,
    long long dropped)
{
	char *program = test_build("tests/programs/driver_planned");
	char *path = report_path();
	struct command_result result = command_weir("run", "--sim", "--report",
	    path, "--plan", plan, program, how, seed, NULL);

	EXPECT_EQ(result.status, 0);
	json_t *report = report_read(path);
	EXPECT_EQ(report_number(report, "planned"), planned);
	EXPECT_EQ(report_number(report, "plans_dropped"), dropped);
	EXPECT_EQ(report_number(report, "ooms"), 0);
	json_decref(report);
	free(path);
	free(program);
	return result;
}

TEST(each_process_with_any_seed_follows_the_plan_in_all_rounds)
{
	static const char *const seeds[] = { "1", "7", "1234567" };
	char *plan = plan_of_program();

	for (int i = 0; i < 3; i++) {
		struct command_result result =
		    follow(plan, "stays", seeds[i], KEPT + 12 * ROUND, 0);
		EXPECT_STR_EQ(result.out, "moved: 0 of 120\n");
		EXPECT_STR_EQ(result.err, "");
		command_free(&result);
	}
	drop_plan(plan);
}

TEST(a_program_that_leaves_its_plan_is_served_on_and_the_report_says_so)
{
	char *plan = plan_of_program();
	/* A seventh round is as planned: its blocks are 0 MiB larger. */
	struct command_result result =
	    follow(plan, "leaves", "1", KEPT + 7 * ROUND, 1);

	EXPECT_STR_EQ(result.out, "moved: 0 of 48\n");
	EXPECT_STR_HAS(result.err, "the program has left it");
	command_free(&result);
	drop_plan(plan);
}

TEST(after_a_reset_of_the_device_the_plan_begins_again)
{
	char *plan = plan_of_program();
	struct command_result result =
	    follow(plan, "resets", "1", 3 * (KEPT + 6 * ROUND), 0);

	EXPECT_STR_EQ(result.out, "moved: 0 of 144\n");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	drop_plan(plan);
}

TEST(the_report_on_stderr_says_how_the_plan_was_followed)
{
	char *plan = plan_of_program();
	char *program = test_build("tests/programs/driver_planned");
	struct command_result result = command_weir(
	    "run", "--sim", "--plan", plan, program, "leaves", "1", NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "\n  as planned                     93   ");
	EXPECT_STR_HAS(result.err, "\n  dropped                         1   ");
	command_free(&result);
	drop_plan(plan);
	free(program);
}

/* ---- Bad files --------------------------------------------------------- */

/* The option, as a program has it that `weir run --plan` did not start: the
 * program goes on without a plan, soon, with an error that names the file. */
static void
expect_goes_on(const char *path, const char *why)
{
	char *program = test_build("tests/programs/driver_planned");
	char *report = report_path();
	char conf[4096];
	time_t begin = time(NULL);

	snprintf(conf, sizeof(conf), "plan:%s", path);
	struct command_result result = command_weir("run", "--sim", "--report",
	    report, "--conf", conf, program, "stays", "1", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, " of 120\n");
	EXPECT_STR_HAS(result.err, path);
	EXPECT_STR_HAS(result.err, why);
	EXPECT_LE(time(NULL) - begin, BAD_FILE_SECONDS);
	json_t *figures = report_read(report);
	EXPECT_EQ(report_number(figures, "planned"), 0);
	json_decref(figures);
	command_free(&result);
	free(report);
	free(program);
}

/* `weir run --plan` does not start the program. */
static void
expect_not_run(const char *path, const char *why)
{
	struct command_result result =
	    command_weir("run", "--sim", "--plan", path, "true", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, path);
	EXPECT_STR_HAS(result.err, why);
	command_free(&result);
}

static void
expect_refused(const char *path, const char *why)
{
	expect_goes_on(path, why);
	expect_not_run(path, why);
}

/* Write four bytes into the plan. */
static void
change(const char *path, off_t at, uint32_t value)
{
	int fd = open(path, O_WRONLY);

	EXPECT_EQ(pwrite(fd, &value, sizeof(value), at), sizeof(value));
	close(fd);
}

TEST(a_damaged_plan_is_named_and_the_program_goes_on)
{
	enum { VERSION_AT = 8, COUNT_AT = 12, ENTRY_AT = 68 };
	char *plan = plan_of_program();
	struct stat about;

	EXPECT_EQ(stat(plan, &about), 0);
	change(plan, VERSION_AT, 77);
	expect_refused(plan, "another version");
	change(plan, VERSION_AT, 2);
	change(plan, COUNT_AT, UINT32_MAX);
	expect_refused(plan, "another size");
	change(plan, COUNT_AT, KEPT + ROUND);
	change(plan, ENTRY_AT, 1);
	expect_refused(plan, "checksum");
	EXPECT_EQ(truncate(plan, about.st_size - 1), 0);
	expect_refused(plan, "another size");
	EXPECT_EQ(truncate(plan, 0), 0);
	expect_refused(plan, "this is no plan");
	drop_plan(plan);
}

TEST(what_is_no_file_is_named_and_the_program_goes_on)
{
	char *path = no_file("run.plan");

	plain_environment();
	expect_refused(path, "No such file");
	EXPECT_EQ(mkdir(path, 0700), 0);
	expect_refused(path, "a plan is a file");
	rmdir(path);
	EXPECT_EQ(mkfifo(path, 0600), 0);
	expect_refused(path, "a plan is a file");
	unlink(path);
	free(path);
}

TEST(a_plan_that_may_not_be_read_is_named_and_the_program_goes_on)
{
	if (geteuid() == 0)
		SKIP("root may read each file");
	char *path = test_file("run.plan", "weirplan", 8);

	plain_environment();
	EXPECT_EQ(chmod(path, 0), 0);
	expect_refused(path, "Permission denied");
	free(path);
}
