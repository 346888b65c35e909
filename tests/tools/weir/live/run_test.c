/*
 * weir run: the environment of the program, and the failures to start it.
 */
#include <jansson.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static void
plain_environment(void)
{
	unsetenv("LD_PRELOAD");
	unsetenv("LD_LIBRARY_PATH");
	unsetenv("WEIR_LIBCUDA");
	unsetenv("WEIR_CONF");
	unsetenv("WEIR_REPORT");
	unsetenv("PYTORCH_CUDA_ALLOC_CONF");
	unsetenv("PYTORCH_ALLOC_CONF");
	unsetenv("ASAN_OPTIONS");
}

/* A program that prints what it gets. */
static const char *
show(void)
{
	static char path[PATH_MAX];
	char *built = test_build("tests/programs/show");

	snprintf(path, sizeof(path), "%s", built);
	free(built);
	return path;
}

/* A part of the build in the command's form: a path without links. */
static char *
real_build(const char *part)
{
	char *path = test_build(part);
	char *real = realpath(path, NULL);

	if (real == NULL)
		FAIL("%s is not built", path);
	free(path);
	return real;
}

/* Valgrind puts its own libraries before all others. */
static void
expect_preload(const char *found, const char *expected)
{
	size_t length = strlen(expected);

	EXPECT_STR_HAS(found, expected);
	EXPECT_STR_EQ(found + strlen(found) - length, expected);
	if (strstr(found, "vgpreload") == NULL)
		EXPECT_STR_EQ(found, expected);
}

TEST(the_library_is_preloaded)
{
	char *library = real_build("lib/libweir_preload.so");
	struct command_result result;

	plain_environment();
	result = command_weir("run", "--sim", show(), "$LD_PRELOAD", NULL);
	EXPECT_EQ(result.status, 0);
	expect_preload(result.out, library);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	free(library);
}

TEST(the_library_is_really_in_the_program)
{
	struct command_result result;

	plain_environment();
	result = command_weir("run", "--sim", show(), "maps", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "/libweir_preload.so");
	command_free(&result);
}

TEST(other_preloaded_libraries_stay_preloaded_before_it)
{
	char *library = real_build("lib/libweir_preload.so");
	struct command_result result;
	char expected[PATH_MAX + 32];

	if (test_is_watched())
		SKIP("the tool's library has to be the first");
	plain_environment();
	setenv("LD_PRELOAD", "libm.so.6", 1);
	result = command_weir("run", "--sim", show(), "$LD_PRELOAD", NULL);
	snprintf(expected, sizeof(expected), "libm.so.6:%s", library);
	EXPECT_EQ(result.status, 0);
	expect_preload(result.out, expected);
	command_free(&result);
	free(library);
}

TEST(sim_puts_the_simulated_libraries_first)
{
	char *driver = real_build("lib/sim/libcuda.so.1");
	struct command_result result;
	char expected[2 * PATH_MAX];

	plain_environment();
	setenv("LD_LIBRARY_PATH", "/opt/other", 1);
	setenv("WEIR_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
	result = command_weir("run", "--sim", show(), "$WEIR_LIBCUDA", "and",
	    "$LD_LIBRARY_PATH", NULL);
	snprintf(expected, sizeof(expected), "%s[and]%.*s:/opt/other", driver,
	    (int)(strrchr(driver, '/') - driver), driver);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, expected);
	command_free(&result);
	free(driver);
}

TEST(without_a_gpu_the_simulated_libraries_are_used)
{
	char *driver = real_build("lib/sim/libcuda.so.1");
	struct command_result result;

	plain_environment();
	result = command_weir("info", "--quiet", NULL);
	if (result.status == 0)
		SKIP("there is a GPU");
	command_free(&result);
	result = command_weir("run", show(), "$WEIR_LIBCUDA", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, driver);
	command_free(&result);
	free(driver);
}

TEST(a_driver_that_is_named_is_kept)
{
	struct command_result result;

	plain_environment();
	setenv("WEIR_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
	result = command_weir("run", show(), "$WEIR_LIBCUDA", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "/nonexistent/libcuda.so.1");
	command_free(&result);
}

TEST(the_command_finds_its_libraries_without_proc)
{
	/* This is before any allocation, which a skipped test would leak. */
	if (test_is_watched())
		SKIP("what watches the command needs /proc");
	char *library = real_build("lib/libweir_preload.so");
	char *command = test_build("bin/weir");
	const char *const argv[] = { command, "run", "--sim", show(),
		"$LD_PRELOAD", NULL };
	int apart = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS;
	struct command_result result;

	plain_environment();
	if (unshare(apart) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) != 0)
		SKIP("file systems cannot be mounted here");
	result = command_run(argv);
	EXPECT_EQ(result.status, 0);
	expect_preload(result.out, library);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	free(command);
	free(library);
}

TEST(options_and_report_reach_the_program)
{
	struct command_result result;
	char folder[PATH_MAX];
	char expected[PATH_MAX + 64];

	plain_environment();
	setenv("WEIR_CONF", "handle_mb:4", 1);
	result = command_weir("run", "--sim", "--conf",
	    "expandable_segments:False", "--report", "no/such/r.json", "--",
	    show(), "$WEIR_CONF", "and", "$WEIR_REPORT", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_NOT_NULL(getcwd(folder, sizeof(folder)));
	snprintf(expected, sizeof(expected),
	    "expandable_segments:False[and]%s/no/such/r.json", folder);
	EXPECT_STR_EQ(result.out, expected);
	command_free(&result);
}

TEST(an_absolute_report_stays_as_it_is)
{
	struct command_result result;

	plain_environment();
	result = command_weir(
	    "run", "--sim", "--report=/dev/null", show(), "$WEIR_REPORT", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "/dev/null");
	command_free(&result);
}

/* The value of a variable in the environment of a program that `weir run`
 * starts with flags. */
static char *
found_after(const char *flag, const char *other, const char *variable)
{
	struct command_result result;
	char *found;

	/* The first NULL ends the arguments, so that the flags are filled from
	 * the front. */
	if (other != NULL)
		result = command_weir(
		    "run", "--sim", flag, other, show(), variable, NULL);
	else if (flag != NULL)
		result =
		    command_weir("run", "--sim", flag, show(), variable, NULL);
	else
		result = command_weir("run", "--sim", show(), variable, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	found = strdup(result.out);
	command_free(&result);
	return found;
}

static void
expect_found(const char *flag, const char *other, const char *variable,
    const char *expected)
{
	char *found = found_after(flag, other, variable);

	EXPECT_STR_EQ(found, expected);
	free(found);
}

TEST(a_report_goes_to_stderr_unless_another_place_is_named)
{
	plain_environment();
	expect_found(NULL, NULL, "$WEIR_REPORT", "-");
	expect_found("--report", "-", "$WEIR_REPORT", "-");
	expect_found("--quiet", NULL, "$WEIR_REPORT", "");
	setenv("WEIR_REPORT", "/dev/null", 1);
	expect_found(NULL, NULL, "$WEIR_REPORT", "/dev/null");
	expect_found("--report=-", NULL, "$WEIR_REPORT", "-");
	expect_found("--quiet", NULL, "$WEIR_REPORT", "");
}

TEST(leaks_and_sites_are_asked_for)
{
	plain_environment();
	expect_found("--leaks", NULL, "$WEIR_REPORT_LEAKS", "1");
	expect_found("--sites", NULL, "$WEIR_REPORT_SITES", "10");
	expect_found("--sites=25", "--leaks", "$WEIR_REPORT_SITES", "25");
}

TEST(wrong_flags_of_a_report_are_named)
{
	static const char *const wrong[] = { "--sites=0",
		"--sites=", "--sites=x", "--sites=-3", "--sites=1x",
		"--sites=99999999999" };
	struct command_result result;

	plain_environment();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		result = command_weir("run", wrong[i], show(), NULL);
		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, wrong[i]);
		EXPECT_STR_EQ(result.out, "");
		command_free(&result);
	}
	result = command_weir("run", "--quiet", "--leaks", show(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--quiet");
	command_free(&result);
}

TEST(wrong_flags_of_a_group_are_named)
{
	static const struct {
		const char *flag, *second, *said;
	} wrong[] = {
		{ "--group=a/b", "--", "a name has 1 to 47 letters" },
		{ "--group=", "--", "a name has 1 to 47 letters" },
		{ "--group=..", "--", "begins with no '.'" },
		{ "--limit=1G", "--", "of a --group" },
		{ "--limit=0", "--", "--limit=0: not a size from 1M" },
		{ "--priority=-5", "--", "--priority=-5: not a number" },
		{ "--limit=1G", "--guarantee=2G",
		    "--guarantee is above --limit" },
	};
	struct command_result result;

	plain_environment();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const char *group = i == 3 ? "--sim" : "--group=g";

		result = command_weir(
		    "run", group, wrong[i].flag, wrong[i].second, show(), NULL);
		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, wrong[i].said);
		EXPECT_STR_EQ(result.out, "");
		command_free(&result);
	}
}

TEST(a_cuda_program_is_reported_on_stderr)
{
	struct command_result result;
	char *program = test_build("tests/programs/runtime_report");

	plain_environment();
	result = command_weir(
	    "run", "--sim", "--leaks", "--sites=1", program, "leak", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "rounds: 100\n");
	EXPECT_STR_HAS(result.err, "weir: ");
	EXPECT_STR_HAS(result.err, "peak live");
	EXPECT_STR_HAS(result.err, "1 of 4 sites\n");
	EXPECT_STR_HAS(result.err, "not freed: 2 blocks, 4.00 MiB\n");
	command_free(&result);
	free(program);
}

TEST(a_program_that_is_linked_with_weir_is_reported_with_its_numbers)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_weir");

	plain_environment();
	result = command_weir("run", "--sim", program, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, " (served by its own libweir)\n");
	EXPECT_STR_HAS(result.err, "peak live                8.00 MiB");
	EXPECT_STR_HAS(result.err, "allocations served              3\n");
	EXPECT_STR_HAS(result.err, "frees served                    2\n");
	EXPECT_NULL(strstr(result.err, "served nothing"));
	command_free(&result);
	free(program);
}

/* weir's own calls of the driver are not served by weir again. */
TEST(a_linked_program_is_served_once_in_segments_of_the_driver)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_weir");

	plain_environment();
	result = command_weir("run", "--sim", "--conf",
	    "expandable_segments:False", program, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, " (served by its own libweir)\n");
	EXPECT_STR_HAS(result.err, "peak live                8.00 MiB");
	EXPECT_STR_HAS(result.err, "allocations served              3\n");
	command_free(&result);
	free(program);
}

/* streams/delay.h, Note [Lost time]. */
TEST(what_the_host_loses_by_waiting_for_late_streams_is_counted)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_lost_time");

	plain_environment();
	result = command_weir("run", "--sim", "--quiet", "--conf",
	    "prefer:memory", program, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "delayed: yes\n");
	command_free(&result);
	free(program);
}

/* weir serves none of its calls, so that no call begins the preload. */
TEST(the_order_of_a_linked_program_is_seen_from_its_first_wait_on)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_order");

	plain_environment();
	result = command_weir(
	    "run", "--sim", "--quiet", "--conf", "prefer:speed", program, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "the same memory: yes\n");
	command_free(&result);
	free(program);
}

/* A library's handle, made while requests are routed, is in no pool that does
 * not want it. */
TEST(what_a_program_asks_of_the_driver_is_in_no_pool_of_weir_s)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_route");

	plain_environment();
	result = command_weir("run", "--sim", "--quiet", program, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out,
	    "weir's requests alone: yes\n"
	    "in a pool that serves the driver: no\n");
	command_free(&result);
	free(program);
}

TEST(memory_of_named_nvtx_ranges_is_in_pools_of_their_names)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_range");

	plain_environment();
	unsetenv("NVTX_INJECTION64_PATH");
	result = command_weir("run", "--sim", "--quiet", "--may-sleep",
	    "--conf", "pool_ranges:weights;kv cache", program, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "tool 1\ndiscarded 104, copied 22\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	/* The inner one of nested ranges decides. */
	result = command_weir("run", "--sim", "--quiet", "--may-sleep",
	    "--conf", "pool_ranges:step;kv cache", program, NULL);
	EXPECT_STR_EQ(result.out, "tool 1\ndiscarded 104, copied 22\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(program);
}

TEST(the_error_of_a_linked_program_at_its_limit_names_the_limit)
{
	struct command_result result;
	char *program = test_build("tests/programs/with_weir");

	plain_environment();
	result = command_weir(
	    "run", "--sim", "--conf", "memory_limit_mb:6", program, NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "The limit is the cause, not the device");
	command_free(&result);
	free(program);
}

TEST(a_cuda_program_runs_and_leaves_a_report)
{
	struct command_result result;
	char *program = test_build("tests/programs/driver_query");
	char *report = test_file("report.json", "", 0);
	json_t *json;

	plain_environment();
	EXPECT_EQ(unlink(report), 0);
	result =
	    command_weir("run", "--sim", "--report", report, program, NULL);
	if (result.status != 0)
		FAIL("exit status %d: %s", result.status, result.err);
	json = json_load_file(report, 0, NULL);
	EXPECT_NOT_NULL(json);
	json_decref(json);
	command_free(&result);
	free(program);
	free(report);
}

TEST(arguments_after_the_program_are_the_programs)
{
	struct command_result result;

	plain_environment();
	result =
	    command_weir("run", "--sim", show(), "--sim", "--help", "--", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "[--sim][--help][--]");
	command_free(&result);
	result = command_weir("run", "--sim", "--", show(), "--conf", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "[--conf]");
	command_free(&result);
}

TEST(the_status_is_that_of_the_program)
{
	struct command_result result;

	plain_environment();
	result = command_weir("run", "--sim", show(), "exit=42", NULL);
	EXPECT_EQ(result.status, 42);
	command_free(&result);
	result = command_weir("run", "--sim", show(), "kill", NULL);
	EXPECT_EQ(result.signal, SIGTERM);
	command_free(&result);
}

/* ---- Programs that end without writing their report ---------------------- */

static struct command_result
run_to_the_end(const char *report, const char *how)
{
	char *program = test_build("tests/programs/driver_ends");
	struct command_result result;

	plain_environment();
	result = command_weir(
	    "run", "--sim", "--report", report, program, how, NULL);
	free(program);
	return result;
}

static long long
number(const json_t *report, const char *key)
{
	const json_t *value = json_object_get(report, key);

	if (!json_is_integer(value))
		FAIL("the report has no number %s", key);
	return json_integer_value(value);
}

/* Check the calls that driver_ends has counted until its end. */
static json_t *
expect_counted(const char *path, const char *ended)
{
	json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	const char *end;

	if (json == NULL)
		FAIL("%s: there is no report", path);
	end = json_string_value(json_object_get(json, "ended"));
	EXPECT_STR_EQ(end, ended);
	EXPECT_STR_HAS(
	    json_string_value(json_object_get(json, "program")), "driver_ends");
	EXPECT(json_is_true(json_object_get(json, "serving")));
	EXPECT_EQ(number(json, "allocations_served"), 10);
	EXPECT_EQ(number(json, "frees_served"), 4);
	EXPECT_EQ(number(json, "peak_live_bytes"), 10 << 20);
	EXPECT_EQ(number(json, "live_bytes_at_exit"), 6 << 20);
	EXPECT_EQ(number(json, "live_blocks_at_exit"), 6);
	EXPECT_GE(number(json, "peak_held_bytes"), 10 << 20);
	EXPECT_GT(number(json, "driver_calls_made"), 0);
	return json;
}

TEST(a_program_that_a_signal_ends_is_reported)
{
	static const struct {
		const char *how;
		int signal;
	} ways[] = { { "abort", SIGABRT }, { "segv", SIGSEGV },
		{ "term", SIGTERM }, { "kill", SIGKILL } };
	char *path = test_file("report.json", "", 0);

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct command_result result =
		    run_to_the_end(path, ways[i].how);
		json_t *json;

		EXPECT_EQ(result.signal, ways[i].signal);
		command_free(&result);
		json = expect_counted(path, "signal");
		EXPECT_EQ(number(json, "signal"), ways[i].signal);
		json_decref(json);
		EXPECT_EQ(unlink(path), 0);
	}
	free(path);
}

TEST(a_program_that_runs_no_exit_handlers_is_reported)
{
	char *path = test_file("report.json", "", 0);
	struct command_result result = run_to_the_end(path, "_exit");
	json_t *json;

	EXPECT_EQ(result.status, 5);
	EXPECT_STR_EQ(result.err, "");
	json = expect_counted(path, "status");
	EXPECT_EQ(number(json, "status"), 5);
	json_decref(json);
	command_free(&result);
	free(path);
}

TEST(a_child_that_is_killed_is_reported_too)
{
	char *path = test_file("report.json", "", 0);
	struct command_result result = run_to_the_end(path, "child");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	json_decref(expect_counted(path, "lost"));
	command_free(&result);
	free(path);
}

TEST(the_report_of_a_killed_program_is_on_stderr)
{
	struct command_result result = run_to_the_end("-", "term");

	EXPECT_EQ(result.signal, SIGTERM);
	EXPECT_STR_HAS(result.err, "ended by SIGTERM\n");
	EXPECT_STR_HAS(result.err, "  live at exit             6.00 MiB");
	command_free(&result);
}

/* The stacks ended with the process, so --leaks is no advice. */
TEST(leaks_of_a_killed_program_are_said_to_be_lost)
{
	char *program = test_build("tests/programs/driver_ends");
	struct command_result result;

	plain_environment();
	result = command_weir(
	    "run", "--sim", "--leaks", "--", program, "term", NULL);
	EXPECT_EQ(result.signal, SIGTERM);
	EXPECT_STR_HAS(result.err, "  live at exit             6.00 MiB");
	EXPECT_NULL(strstr(result.err, "--leaks"));
	EXPECT_STR_HAS(result.err, "not freed: the stacks were lost");
	EXPECT_STR_HAS(result.err, "--history --snapshot FILE");
	command_free(&result);
	result = command_weir("run", "--sim", "--", program, "term", NULL);
	EXPECT_STR_HAS(result.err, "; --leaks shows the stacks");
	EXPECT_NULL(strstr(result.err, "not freed"));
	command_free(&result);
	free(program);
}

/* weir's own frames say nothing to the reader of a report. */
TEST(a_damaged_block_is_reported_with_the_program_s_frames)
{
	char *program = test_build("tests/programs/driver_overrun");
	struct command_result result;
	const char *first;

	if (test_is_watched())
		SKIP("a sanitizer has frames of its own");
	plain_environment();
	result = command_weir("run", "--sim", "--quiet",
	    "--conf=guard:64,history:all", "--", program, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "4 bytes behind the block of 1000 bytes");
	EXPECT_STR_HAS(result.err, " (no stream) were overwritten");
	first = strstr(result.err, "allocated at: ");
	EXPECT_NOT_NULL(first);
	EXPECT_EQ(strncmp(first, "allocated at: take_for_overrun (", 32), 0);
	command_free(&result);
	free(program);
}

/* `weir run` passes signals on to the program. */
TEST(a_signal_to_run_ends_the_program_and_the_report_is_there)
{
	char *path = test_file("report.json", "", 0);
	char *weir = test_build("bin/weir");
	char *program = test_build("tests/programs/driver_ends");
	char said[16] = "";
	int from[2];
	int status;
	pid_t pid;

	plain_environment();
	EXPECT_EQ(pipe(from), 0);
	pid = fork();
	if (pid == 0) {
		dup2(from[1], STDOUT_FILENO);
		close(from[0]);
		close(from[1]);
		execl(weir, "weir", "run", "--sim", "--report", path, program,
		    "wait", (char *)NULL);
		_exit(127);
	}
	close(from[1]);
	EXPECT_EQ(read(from[0], said, sizeof(said) - 1), 6);
	EXPECT_STR_EQ(said, "ready\n");
	EXPECT_EQ(kill(pid, SIGTERM), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGTERM);
	/* The program has ended: no other process has the pipe open. */
	EXPECT_EQ(read(from[0], said, 1), 0);
	json_decref(expect_counted(path, "signal"));
	close(from[0]);
	free(program);
	free(weir);
	free(path);
}

TEST(a_program_that_is_not_there_is_127)
{
	struct command_result result;

	plain_environment();
	/* With other folders, one that this user cannot search might have the
	 * program, and the error would be another. */
	setenv("PATH", "/usr/bin:/bin", 1);
	result = command_weir("run", "--sim", "no-such-program-here", NULL);
	EXPECT_EQ(result.status, 127);
	EXPECT_STR_HAS(
	    result.err, "no-such-program-here: No such file or directory");
	command_free(&result);
}

TEST(a_program_that_cannot_be_run_is_126)
{
	struct command_result result;

	plain_environment();
	result = command_weir("run", "--sim", "/etc/passwd", NULL);
	EXPECT_EQ(result.status, 126);
	EXPECT_STR_HAS(result.err, "/etc/passwd: Permission denied");
	command_free(&result);
}

TEST(a_wrong_option_is_reported_before_the_program_starts)
{
	struct command_result result;

	plain_environment();
	result = command_weir("run", "--sim", "--conf", "no_such_option:1",
	    "echo", "started", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "no_such_option");
	command_free(&result);
}

TEST(a_wrong_value_is_reported_before_the_program_starts)
{
	struct command_result result;

	plain_environment();
	result = command_weir("run", "--sim", "--conf",
	    "expandable_segments:perhaps", "echo", "started", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "expandable_segments");
	EXPECT_STR_HAS(result.err, "perhaps");
	command_free(&result);
}

TEST(a_wrong_environment_is_reported_before_the_program_starts)
{
	struct command_result result;

	plain_environment();
	setenv("WEIR_CONF", "no_such_option:1", 1);
	result = command_weir("run", "--sim", "echo", "started", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "no_such_option");
	command_free(&result);
}

TEST(no_program_is_a_usage_error)
{
	struct command_result result = command_weir("run", "--sim", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "no PROGRAM");
	command_free(&result);
}
