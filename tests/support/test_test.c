/*
 * The runner is tested: this program runs itself with a list of victims, tests
 * that fail in every way there is, and reads what is reported about them. The
 * victims exist only in that second run, when WEIR_TEST_VICTIMS is set.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { OUTPUT_MAX = 64 * 1024 };

static void
pass(void)
{
	EXPECT_EQ(1u + 1, 2L);
}

static void
fail_equal(void)
{
	int left = -1;

	EXPECT_EQ(left, SIZE_MAX);
}

static void
fail_texts(void)
{
	EXPECT_STR_EQ("weir", "river");
}

static void
fail_nan(void)
{
	EXPECT_GE(strtod("nan", NULL), 0);
}

static void
crash(void)
{
	EXPECT(true);
	abort();
}

static void
hang(void)
{
	for (;;)
		pause();
}

static void
skip(void)
{
	SKIP("no second device");
}

static void
leave_early(void)
{
	exit(0);
}

static void
fail_in_child(void)
{
	pid_t child = fork();

	if (child == 0)
		FAIL("the child says %s", "no");
	waitpid(child, NULL, 0);
}

static void
print_tap(void)
{
	puts("not ok 1 - a line of the test's own");
}

static void
need_default_signals(void)
{
	sigset_t blocked;

	EXPECT_EQ(sigprocmask(SIG_SETMASK, NULL, &blocked), 0);
	for (int number = 1; number <= SIGRTMAX; number++) {
		struct sigaction now;

		if (sigaction(number, NULL, &now) != 0)
			continue;
		if (now.sa_handler == SIG_IGN)
			FAIL("signal %d is ignored", number);
		if (sigismember(&blocked, number) == 1)
			FAIL("signal %d is blocked", number);
	}
}

static struct test victims[] = {
	{ .name = "it_passes", .body = pass },
	{ .name = "it_fails_equal", .body = fail_equal },
	{ .name = "it_fails_texts", .body = fail_texts },
	{ .name = "it_fails_nan", .body = fail_nan },
	{ .name = "it_crashes", .body = crash },
	{ .name = "it_hangs", .body = hang, .seconds = 1 },
	{ .name = "it_skips", .body = skip },
	{ .name = "it_leaves_early", .body = leave_early },
	{ .name = "it_fails_in_a_child", .body = fail_in_child },
	{ .name = "it_prints_tap", .body = print_tap },
	{ .name = "it_needs_default_signals", .body = need_default_signals },
};

__attribute__((constructor)) static void
register_victims(void)
{
	if (getenv("WEIR_TEST_VICTIMS") == NULL)
		return;
	for (size_t i = 0; i < sizeof(victims) / sizeof(victims[0]); i++) {
		victims[i].file = "victim.c";
		victims[i].line = 7;
		if (victims[i].seconds == 0)
			victims[i].seconds = 60;
		test_register(&victims[i]);
	}
}

/* "yes" or "no", whatever this run itself was started with. */
static const char *fork_mode = "yes";

/* The shell runs this before. */
static const char *before = "";

/* Run this program on `arguments`; its stdout, and its exit status. */
static const char *
run_victims(const char *arguments, int *status)
{
	static char output[OUTPUT_MAX];
	char program[PATH_MAX] = "";
	char command[PATH_MAX + 256];
	size_t length;
	FILE *pipe;

	EXPECT_GT(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
	snprintf(command, sizeof(command),
	    "%sWEIR_TEST_VICTIMS=1 WEIR_TEST_TIMEOUT_SCALE=1 CK_FORK=%s "
	    "'%s' %s 2>/dev/null",
	    before, fork_mode, program, arguments);
	pipe = popen(command, "r");
	EXPECT_NOT_NULL(pipe);
	length = fread(output, 1, sizeof(output) - 1, pipe);
	output[length] = '\0';
	*status = WEXITSTATUS(pclose(pipe));
	return output;
}

TEST(a_passing_test_is_ok_and_the_status_is_0)
{
	int status;
	const char *output = run_victims("it_passes", &status);

	EXPECT_STR_EQ(output, "1..1\nok 1 - it passes\n");
	EXPECT_EQ(status, 0);
}

TEST(a_failed_comparison_shows_place_expressions_and_values)
{
	int status;
	const char *output = run_victims("it_fails_equal", &status);

	EXPECT_STR_HAS(output, "not ok 1 - it fails equal\n# ");
	EXPECT_STR_HAS(output, "tests/support/test_test.c:");
	EXPECT_STR_HAS(output, "expected left == SIZE_MAX: left is -1, ");
	EXPECT_STR_HAS(output, "18446744073709551615 (0xffffffffffffffff)");
	EXPECT_EQ(status, 1);
}

TEST(a_failed_text_comparison_shows_both_texts)
{
	int status;
	const char *output = run_victims("it_fails_texts", &status);

	EXPECT_STR_HAS(output, "left is \"weir\", right is \"river\"");
	EXPECT_EQ(status, 1);
}

TEST(a_crash_is_a_failure_that_names_the_signal_and_the_last_place)
{
	int status;
	const char *output = run_victims("it_crashes", &status);

	EXPECT_STR_HAS(output, "not ok 1 - it crashes\n");
	EXPECT_STR_HAS(output, "tests/support/test_test.c:");
	EXPECT_STR_HAS(output, "signal 6");
	EXPECT_EQ(status, 1);
}

TEST(a_hang_is_a_failure_after_its_time)
{
	int status;
	const char *output = run_victims("it_hangs", &status);

	EXPECT_STR_HAS(output, "not ok 1 - it hangs\n# victim.c:7: ");
	EXPECT_STR_HAS(output, "timeout");
	EXPECT_EQ(status, 1);
}

TEST(a_skip_is_reported_with_its_reason_and_is_no_failure)
{
	int status;
	const char *output = run_victims("it_skips", &status);

	EXPECT_STR_EQ(
	    output, "1..1\nok 1 - it skips # SKIP no second device\n");
	EXPECT_EQ(status, 0);
}

TEST(leaving_the_process_before_the_end_is_a_failure)
{
	int status;
	const char *output = run_victims("it_leaves_early", &status);

	EXPECT_STR_HAS(output, "not ok 1 - it leaves early\n");
	EXPECT_STR_HAS(output, "left its process before its end");
	EXPECT_EQ(status, 1);
}

TEST(a_failure_in_a_child_process_fails_the_test)
{
	int status;
	const char *output = run_victims("it_fails_in_a_child", &status);

	EXPECT_STR_HAS(output, "not ok 1 - it fails in a child\n");
	EXPECT_STR_HAS(output, "the child says no");
	EXPECT_EQ(status, 1);
}

TEST(the_output_of_a_test_is_not_taken_for_a_report)
{
	int status;
	const char *output = run_victims("it_prints_tap", &status);

	EXPECT_STR_EQ(output, "1..1\nok 1 - it prints tap\n");
	EXPECT_EQ(status, 0);
}

TEST(a_test_does_not_inherit_what_signals_do)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE,
		SIGCHLD, SIGTSTP, SIGUSR1 };
	sigset_t all;
	const char *output;
	int status;

	/* popen() and the shell wait for children, so SIGCHLD comes last. */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		if (ignored[i] != SIGCHLD)
			signal(ignored[i], SIG_IGN);
	before = "trap '' CHLD; ";
	sigfillset(&all);
	EXPECT_EQ(sigprocmask(SIG_BLOCK, &all, NULL), 0);
	output = run_victims("it_needs_default_signals it_hangs", &status);
	EXPECT_STR_HAS(output, "ok 1 - it hangs");
	EXPECT_STR_HAS(output, "timeout");
	EXPECT_STR_HAS(output, "\nok 2 - it needs default signals\n");
}

TEST(one_bad_test_does_not_keep_the_others_from_running)
{
	int status;
	const char *output =
	    run_victims("it_crashes it_skips 'it fails*' it_passes", &status);

	EXPECT_STR_HAS(output, "1..7\n");
	EXPECT_STR_HAS(output, "ok 1 - it passes\n");
	EXPECT_STR_HAS(output, "not ok 2 - it fails equal\n");
	EXPECT_STR_HAS(output, "not ok 3 - it fails texts\n");
	EXPECT_STR_HAS(output, "not ok 4 - it fails nan\n");
	EXPECT_STR_HAS(output, "left is nan, right is 0");
	EXPECT_STR_HAS(output, "not ok 5 - it crashes\n");
	EXPECT_STR_HAS(output, "ok 6 - it skips # SKIP");
	EXPECT_STR_HAS(output, "not ok 7 - it fails in a child\n");
	EXPECT_EQ(status, 1);
}

TEST(an_unknown_name_is_an_error_and_runs_nothing)
{
	int status;
	const char *output = run_victims("it_passes it_pases", &status);

	EXPECT_STR_EQ(output, "");
	EXPECT_EQ(status, 2);
}

TEST(the_list_names_every_test_and_runs_none)
{
	int status;
	const char *output = run_victims("--list", &status);

	EXPECT_STR_HAS(output, "it_hangs\n");
	EXPECT_STR_HAS(output, "the_list_names_every_test_and_runs_none\n");
	EXPECT_EQ(status, 0);
}

TEST(without_fork_a_failure_does_not_end_the_runner)
{
	int status;
	const char *output;

	fork_mode = "no";
	output = run_victims("it_passes it_fails_equal it_skips", &status);
	EXPECT_STR_HAS(output, "ok 1 - it passes\n");
	EXPECT_STR_HAS(output, "not ok 2 - it fails equal\n");
	EXPECT_STR_HAS(output, "ok 3 - it skips # SKIP no second device\n");
	EXPECT_EQ(status, 1);
}

TEST(values_compare_by_value_whatever_their_types)
{
	struct {
		unsigned bits : 3;
	} packed = { 5 };
	enum { FIVE = 5 } five = FIVE;
	const char *text = "x";
	unsigned char narrow = 5;

	EXPECT_EQ(packed.bits, five);
	EXPECT_EQ(narrow, 5ull);
	EXPECT_NE(-1, UINT64_MAX);
	EXPECT_LT(-1, 0u);
	EXPECT_LE(-1, SIZE_MAX);
	EXPECT_GT(UINT64_MAX, INT64_MAX);
	EXPECT_GE(INT64_MIN, INT64_MIN);
	EXPECT_EQ(text, (void *)(uintptr_t)text);
	EXPECT_NULL(NULL);
	EXPECT_NOT_NULL(text);
	EXPECT_MEM_EQ("abc", "abd", 2);
}

TEST(the_build_folder_is_the_one_above_tests)
{
	char path[PATH_MAX];

	snprintf(
	    path, sizeof(path), "%s/tests/support/test_test", test_build_dir());
	EXPECT_EQ(access(path, X_OK), 0);
}

TEST(reals_compare_with_each_other_and_with_integers)
{
	double nan = strtod("nan", NULL);

	EXPECT_EQ(0.5, 0.5f);
	EXPECT_GT(0.5, 0);
	EXPECT_LT(-1, -0.5);
	EXPECT_GE(2.0, 2u);
	EXPECT_NE(nan, nan);
}

TEST(effort_scales_the_steps_of_a_long_test)
{
	unsetenv("WEIR_TEST_EFFORT");
	EXPECT_EQ(test_effort(1000), 1000);
	setenv("WEIR_TEST_EFFORT", "0.01", 1);
	EXPECT_EQ(test_effort(1000), 10);
	EXPECT_EQ(test_effort(10), 1);
	setenv("WEIR_TEST_EFFORT", "much", 1);
	EXPECT_EQ(test_effort(1000), 1000);
}

TEST(a_stride_of_cases_is_one_unless_asked_for)
{
	unsetenv("WEIR_TEST_STRIDE");
	EXPECT_EQ(test_stride(), 1);
	setenv("WEIR_TEST_STRIDE", "16", 1);
	EXPECT_EQ(test_stride(), 16);
	setenv("WEIR_TEST_STRIDE", "0.5", 1);
	EXPECT_EQ(test_stride(), 1);
}

TEST(as_many_turns_as_the_stride_begin_at_all_cases)
{
	unsetenv("WEIR_TEST_TURN");
	setenv("WEIR_TEST_STRIDE", "16", 1);
	EXPECT_EQ(test_offset(), 0);
	setenv("WEIR_TEST_TURN", "35", 1);
	EXPECT_EQ(test_offset(), 3);
	unsetenv("WEIR_TEST_STRIDE");
	EXPECT_EQ(test_offset(), 0);
}

TEST(an_argument_is_evaluated_once)
{
	int calls = 0;

	EXPECT_EQ(++calls, 1);
	EXPECT_GE(++calls, 2);
	EXPECT(++calls == 3);
}
