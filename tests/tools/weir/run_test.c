/*
 * weir run: what the program finds in its environment, and what happens when
 * it cannot be started.
 */
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	/* A sanitizer's runtime comes with the program, so not first. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
}

/* The program that shows what it is given. */
static const char *
show(void)
{
	static char path[PATH_MAX];
	char *built = test_build("tests/programs/show");

	snprintf(path, sizeof(path), "%s", built);
	free(built);
	return path;
}

/* A part of the build as the command names it: with no links in its path. */
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

/* Valgrind puts libraries of its own before all others. */
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

TEST(what_was_preloaded_stays_preloaded_behind_it)
{
	char *library = real_build("lib/libweir_preload.so");
	struct command_result result;
	char expected[PATH_MAX + 32];

	plain_environment();
	setenv("LD_PRELOAD", "libm.so.6", 1);
	result = command_weir("run", "--sim", show(), "$LD_PRELOAD", NULL);
	snprintf(expected, sizeof(expected), "%s:libm.so.6", library);
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

TEST(options_and_report_reach_the_program)
{
	struct command_result result;
	char folder[PATH_MAX];
	char expected[PATH_MAX + 64];

	plain_environment();
	setenv("WEIR_CONF", "growth_mb:4", 1);
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

/* What the program finds in a variable after `weir run` with some flags. */
static char *
found_after(const char *flag, const char *other, const char *variable)
{
	struct command_result result;
	char *found;

	/* The first NULL ends the arguments, so flags come from the front. */
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

TEST(a_program_that_is_not_there_is_127)
{
	struct command_result result;

	plain_environment();
	/* In a folder that this user may not look into it could be. */
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

TEST(a_wrong_option_is_told_before_the_program_starts)
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

TEST(a_wrong_value_is_told_before_the_program_starts)
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

TEST(a_wrong_environment_is_told_before_the_program_starts)
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
