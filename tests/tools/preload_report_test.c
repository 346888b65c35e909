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

TEST(a_report_can_be_named_after_its_process)
{
	char *path = report_path();
	char *named;
	struct start how = { .program = "driver_exec", .preload = true };
	struct command_result result;

	/* exec keeps the process, so the second part's report stands. */
	if (asprintf(&named, "%s.%%p", path) < 0)
		FAIL("out of memory");
	how.report = named;
	result = start(&how);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	result = command_run((const char *const[]){
	    "sh", "-c", "cat \"$0\".[0-9]*", path, NULL });
	EXPECT_STR_HAS(result.out, "\"allocations_served\": ");
	command_free(&result);
	free(named);
	free(path);
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
