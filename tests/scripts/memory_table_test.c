/*
 * scripts/memory-table: a row a trace in the first table, one for each policy
 * in the second, with the figures that `weir replay` gives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* The table of two traces, or of the given arguments. */
static struct command_result
table_of(const char *first, const char *second)
{
	char *weir = test_build("bin/weir");
	char script[4096];
	const char *const argv[] = { script, "--seed", "7", "--events", "500",
		weir, first, second, NULL };
	struct command_result result;

	snprintf(script, sizeof(script), "%s/../../scripts/memory-table",
	    test_build_dir());
	result = command_run(argv);
	free(weir);
	return result;
}

static unsigned
lines_with(const char *text, const char *start)
{
	unsigned n = 0;

	for (; text != NULL; text = strchr(text, '\n')) {
		text += *text == '\n';
		n += strncmp(text, start, strlen(start)) == 0;
	}
	return n;
}

TEST(each_trace_has_a_row_and_one_for_each_policy)
{
	char *path = test_data("moe_start.csv");
	struct command_result result = table_of(path, "pipeline");

	if (result.status != 0)
		FAIL("exit status %d: %s", result.status, result.err);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_HAS(result.out, "\n| moe_start | 2400 | 6.08 | - | ");
	EXPECT_EQ(lines_with(result.out, "| moe_start | "), 4);
	EXPECT_EQ(lines_with(result.out, "| pipeline | "), 4);
	EXPECT_EQ(lines_with(result.out, "| moe_start | speed | 0 | "), 1);
	EXPECT_EQ(lines_with(result.out, "| pipeline | default | "), 1);
	EXPECT_EQ(lines_with(result.out, "| pipeline | memory | "), 1);
	command_free(&result);
	free(path);
}

TEST(the_recorded_allocator_s_held_bytes_are_printed)
{
	static const char trace[] = "# {\"peak_reserved\": 10533994496}\n"
				    "action,addr,size,stream,time_us\n"
				    "a,1000,1905000448,0,0\n"
				    "f,1000,1905000448,0,1\n";
	char *path = test_file("held.csv", trace, sizeof(trace) - 1);
	struct command_result result = table_of(path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "| held | 2 | 1.91 | 10.53 |");
	command_free(&result);
	free(path);
}

TEST(an_argument_that_is_neither_a_file_nor_a_kind_is_named)
{
	struct command_result result = table_of("pipelin", NULL);

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "pipelin: no file and no kind");
	command_free(&result);
}
