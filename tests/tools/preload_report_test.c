/*
 * The report of a preloaded program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/start.h"

TEST(the_report_counts_what_was_asked_and_what_was_served)
{
	json_t *report = start_twice("driver_query", NULL);
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemAlloc_v2");
	const json_t *made = json_object_get(report, "driver_calls");

	EXPECT_NOT_NULL(alloc);
	/* Two of the exercise's requests are wrong on purpose, one is for more
	 * than there is. */
	EXPECT_EQ(
	    report_number(alloc, "seen"), report_number(alloc, "served") + 3);
	EXPECT_GT(report_number(made, "cuMemAlloc"), 0);
	EXPECT_LT(report_number(made, "cuMemAlloc"),
	    report_number(alloc, "served") / 10);
	EXPECT_STR_HAS(json_string_value(json_object_get(report, "program")),
	    "driver_query");
	EXPECT_EQ(report_number(report, "ooms"), 1);
	/* 64 MiB is the largest that was alive. */
	EXPECT_EQ(report_number(report, "peak_live_bytes"), 64 << 20);
	json_decref(report);
}

TEST(a_report_can_go_to_stderr)
{
	struct start how = {
		.program = "driver_dlsym", .preload = true, .report = "-"
	};
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "weir: ");
	EXPECT_STR_HAS(result.err, "peak live                 64.00 MiB\n");
	EXPECT_STR_HAS(result.err, "live at exit                0 bytes\n");
	EXPECT_STR_HAS(result.err, "allocations served");
	command_free(&result);
}

/* The files that a program with "%p" in its report leaves, as one text with a
 * line "files: N" before it. */
static struct command_result
reports_of(const char *program, const char *argument)
{
	char *path = report_path();
	char *named;
	struct start how = {
		.program = program,
		.argument = argument,
		.preload = true,
	};
	struct command_result result;

	if (asprintf(&named, "%s.%%p", path) < 0)
		FAIL("out of memory");
	how.report = named;
	result = start(&how);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	result = command_run((const char *const[]){ "sh", "-c",
	    "set -- \"$0\".[0-9]*; echo files: $#; cat \"$@\"", path, NULL });
	free(named);
	free(path);
	return result;
}

/* exec keeps the process, so the second part's report stands. */
TEST(a_report_can_be_named_after_its_process)
{
	struct command_result result = reports_of("driver_exec", NULL);

	EXPECT_STR_HAS(result.out, "files: 1\n");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 50,");
	command_free(&result);
}

TEST(a_child_reports_what_it_does_itself)
{
	struct command_result result = reports_of("driver_fork", NULL);

	/* The parent and the child that was made before the driver's use. */
	EXPECT_STR_HAS(result.out, "files: 2\n");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 50,");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 101,");
	command_free(&result);
}

TEST(a_child_that_does_nothing_reports_nothing)
{
	struct command_result result = reports_of("driver_query", "fork");

	EXPECT_STR_HAS(result.out, "files: 1\n");
	EXPECT_STR_HAS(result.out, "\"allocations_served\": 620,");
	command_free(&result);
}

TEST(a_report_that_cannot_be_written_is_told)
{
	struct start how = { .program = "driver_dlsym",
		.preload = true,
		.report = "/no/such/folder/report" };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "/no/such/folder/report");
	EXPECT_STR_HAS(result.err, "No such file");
	command_free(&result);
}
