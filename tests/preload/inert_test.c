/*
 * In the cases where weir must not interfere it does not, and prints a message
 * if a person should know.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

TEST(a_program_without_cuda_is_not_touched)
{
	char *path = report_path();
	char *folder = test_build("lib"); /* no other test writes there now */
	struct start how = { .program = "/bin/ls", .argument = folder };
	struct command_result bare = start(&how);
	struct command_result loaded;

	how.preload = true;
	how.report = path;
	loaded = start(&how);
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	EXPECT_STR_EQ(loaded.err, "");
	/* The program never called the driver, so there is nothing to
	 * report. */
	EXPECT_NE(access(path, F_OK), 0);
	command_free(&bare);
	command_free(&loaded);
	free(folder);
	free(path);
}

TEST(loading_weir_does_not_load_the_driver)
{
	struct start how = { .program = "/bin/cat",
		.argument = "/proc/self/maps",
		.preload = true };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "libweir_preload.so");
	EXPECT(strstr(result.out, "libcuda") == NULL);
	command_free(&result);
}

TEST(a_program_that_does_not_use_its_driver_calls_nothing_of_it)
{
	struct start how = { .program = "linked_idle", .preload = true };
	struct command_result result = start(&how);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "calls: 0\n");
	command_free(&result);
	/* The driver can count. */
	how.argument = "init";
	result = start(&how);
	if (start_simulated())
		EXPECT_STR_EQ(result.out, "calls: 1\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* Run the exercise, and check that the driver served it. */
static void
not_served(const char *variable, const char *complaint)
{
	char *path = report_path();
	struct start how = { .program = "linked_driver" };
	struct command_result bare = start(&how);
	struct command_result loaded;
	json_t *report;

	how.preload = true;
	how.report = path;
	how.variable = variable;
	loaded = start(&how);
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	if (complaint == NULL) {
		EXPECT_STR_EQ(loaded.err, "");
	} else {
		char *end = strchr(loaded.err, '\n');

		EXPECT_STR_HAS(loaded.err, complaint);
		/* The complaint is one line, printed once. */
		EXPECT(end != NULL && end[1] == '\0');
	}
	report = report_read(path);
	EXPECT(json_is_false(json_object_get(report, "serving")));
	EXPECT_EQ(report_number(report, "allocations_served"), 0);
	EXPECT_EQ(report_number(report, "peak_held_bytes"), 0);
	json_decref(report);
	command_free(&bare);
	command_free(&loaded);
	free(path);
}

TEST(weir_disable_leaves_everything_to_the_driver)
{
	not_served("WEIR_DISABLE=1", NULL);
}

TEST(a_memory_checker_sees_every_allocation)
{
	not_served("NV_SANITIZER_INJECTION_PORT_BASE=49152", NULL);
}

TEST(weir_can_be_asked_for_under_a_memory_checker)
{
	char *path = report_path();
	struct start how = { .program = "linked_driver",
		.preload = true,
		.report = path,
		.variable = "NV_SANITIZER_INJECTION_PORT_BASE=49152",
		.second = "WEIR_DISABLE=0" };
	struct command_result result = start(&how);
	json_t *report = report_read(path);

	EXPECT_EQ(result.status, 0);
	EXPECT_GT(report_number(report, "allocations_served"), 0);
	json_decref(report);
	command_free(&result);
	free(path);
}

TEST(a_wrong_option_is_reported_once_and_the_program_runs)
{
	not_served("WEIR_CONF=no_such_option:1", "no_such_option");
}

TEST(a_disabled_weir_is_in_no_lookup)
{
	struct start how = { .program = "doors",
		.preload = true,
		.variable = "WEIR_DISABLE=1" };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "dlsym cuMemAlloc_v2: driver\n");
	EXPECT(strstr(result.out, "libweir_preload") == NULL);
	command_free(&result);
}

/* Options reach a preloaded weir, here expandable_segments. */
TEST(options_reach_a_preloaded_program)
{
	char *path = report_path();
	struct start how = { .program = "linked_driver",
		.preload = true,
		.report = path,
		.variable = "WEIR_CONF=expandable_segments:false" };
	struct command_result bare =
	    start(&(struct start){ .program = "linked_driver" });
	struct command_result result = start(&how);
	json_t *report = report_read(path);
	const json_t *calls = json_object_get(report, "driver_calls");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, bare.out);
	EXPECT_GT(report_number(report, "allocations_served"), 0);
	/* Segments that are not expandable are plain allocations of the
	 * driver. */
	EXPECT_NOT_NULL(json_object_get(calls, "cuMemAlloc"));
	EXPECT_NULL(json_object_get(calls, "cuMemCreate"));
	json_decref(report);
	command_free(&bare);
	command_free(&result);
	free(path);
}
