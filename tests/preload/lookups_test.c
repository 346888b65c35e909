/*
 * The four ways to look up driver symbols: which of them find a hook. All other
 * lookups must find the same as without weir.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

/*
 * The output of `lookups` with the preload's name replaced by "driver", so that
 * a hook counts as the driver's function. The caller frees the text.
 */
static char *
without_names(const char *out)
{
	static const char weir[] = "libweir_preload.so";
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	EXPECT_NOT_NULL(file);
	while (*out != '\0') {
		if (strncmp(out, weir, strlen(weir)) != 0) {
			fputc(*out++, file);
			continue;
		}
		fputs("driver", file);
		out += strlen(weir);
		/* Skip the preload's name of the entry point; the driver's line
		 * has none. */
		if (strncmp(out, " cu", 3) == 0) {
			fputc(' ', file);
			out += strcspn(out, "\n");
		}
	}
	fclose(file);
	return text;
}

TEST(lookups_find_the_driver_s_entry_points_and_no_others)
{
	struct start how = { .program = "doors" };
	struct command_result bare = start(&how);
	struct command_result loaded;
	char *expected;
	char *found;

	how.preload = true;
	loaded = start(&how);
	EXPECT_EQ(bare.status, 0);
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.err, "");
	EXPECT(strstr(bare.out, "weir") == NULL);
	EXPECT_STR_HAS(bare.out, "dlsym cuMemAlloc_v2: driver\n");
	EXPECT_STR_HAS(bare.out, "dlsym cuNoSuchEntry: -\n");
	expected = without_names(bare.out);
	found = without_names(loaded.out);
	EXPECT_STR_EQ(found, expected);
	free(expected);
	free(found);
	command_free(&bare);
	command_free(&loaded);
}

TEST(hooks_are_found_by_every_lookup)
{
	static const char *const lines[] = {
		"dlsym cuGetProcAddress: libweir_preload.so\n",
		"dlsym cuGetProcAddress_v2: libweir_preload.so\n",
		"dlsym cuMemAlloc_v2: libweir_preload.so\n",
		"dlsym cuMemFreeAsync_ptsz: libweir_preload.so\n",
		"dlsym cuStreamEndCapture: libweir_preload.so\n",
		"dlsym cuInit: driver\n",
		"dlsym cuCtxGetCurrent: driver\n",
		"query cuMemAlloc 3020 0: 0 0 libweir_preload.so "
		"cuMemAlloc_v2\n",
		"query cuMemAlloc 13000 2: 0 0 libweir_preload.so "
		"cuMemAlloc_v2\n",
		"query cuMemAlloc 13000 1: 0 0 libweir_preload.so "
		"cuMemAlloc_v2\n",
		"query cuMemFree 11020 1: 0 0 libweir_preload.so "
		"cuMemFree_v2\n",
		"query cuMemAllocAsync 11020 0: 0 0 libweir_preload.so "
		"cuMemAllocAsync\n",
		"query cuMemAllocAsync 11020 1: 0 0 libweir_preload.so "
		"cuMemAllocAsync\n",
		"query cuMemAllocAsync 11020 2: 0 0 libweir_preload.so "
		"cuMemAllocAsync_ptsz\n",
		"query cuMemFreeAsync 12000 2: 0 0 libweir_preload.so "
		"cuMemFreeAsync_ptsz\n",
		"query cuStreamBeginCapture 13000 2: 0 0 libweir_preload.so "
		"cuStreamBeginCapture_v2_ptsz\n",
		"query cuGetProcAddress 11030 0: 0 0 libweir_preload.so "
		"cuGetProcAddress\n",
		"query cuGetProcAddress 12000 0: 0 0 libweir_preload.so "
		"cuGetProcAddress_v2\n",
		"query cuInit 13000 0: 0 0 driver \n",
		"old: 0 0 0 libweir_preload.so\n",
	};
	struct start how = { .program = "doors", .preload = true };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		EXPECT_STR_HAS(result.out, lines[i]);
	/* Forms with sizes of 32 bits are left to the driver. */
	EXPECT(
	    strstr(result.out, "query cuMemAlloc 2000 0: 0 0 libweir") == NULL);
	command_free(&result);
}

/* The argument of driver_symbols: a number of queries, and what is behind it.
 */
static const char *
queries(const char *word)
{
	static char argument[32];

	snprintf(argument, sizeof(argument), "%d %s", (int)test_effort(100000),
	    word);
	return argument;
}

TEST(a_hundred_thousand_queries_have_the_answers_they_had)
{
	struct start how = { .program = "driver_symbols",
		.argument = queries("") };
	struct command_result bare = start(&how);
	struct command_result loaded;

	how.preload = true;
	loaded = start(&how);
	EXPECT_STR_HAS(bare.out, "names 1, queries ");
	EXPECT_STR_HAS(bare.out, ", different 0, ");
	EXPECT_EQ(bare.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	EXPECT_EQ(loaded.status, 0);
	command_free(&loaded);
	/* weir answered many of them. */
	how.argument = queries("count");
	loaded = start(&how);
	EXPECT_STR_HAS(loaded.out, "replaced 1\n");
	command_free(&loaded);
	command_free(&bare);
}

TEST(lookups_depend_on_who_asks_as_they_did_before)
{
	char *a = test_build("tests/preload/fake/door_a.so");
	char *b = test_build("tests/preload/fake/door_b.so");
	char *both;
	struct start how = { .program = "lookups" };
	struct command_result bare;
	struct command_result loaded;

	if (asprintf(&both, "%s:%s", a, b) < 0)
		FAIL("out of memory");
	how.after = both;
	bare = start(&how);
	how.preload = true;
	loaded = start(&how);
	EXPECT_EQ(bare.status, 0);
	EXPECT_STR_HAS(bare.out, "library, next door_here: door_b.so\n");
	EXPECT_STR_HAS(bare.out, "library, next cuDoorHere: door_b.so\n");
	EXPECT_STR_HAS(bare.out, "next door_here: door_a.so\n");
	EXPECT_STR_HAS(bare.out, "default cuMemAlloc_v2: -, error\n");
	EXPECT_STR_EQ(loaded.out, bare.out);
	EXPECT_EQ(loaded.status, 0);
	command_free(&bare);
	command_free(&loaded);
	free(both);
	free(a);
	free(b);
}

/* A disabled weir takes part in no lookup; with a report it takes part in
 * more. */
TEST(lookups_are_the_same_with_and_without_a_report)
{
	struct start how = { .program = "driver_symbols",
		.argument = queries("") };
	struct command_result bare = start(&how);
	struct command_result loaded;

	how.preload = true;
	how.report = "/dev/null";
	loaded = start(&how);
	EXPECT_STR_EQ(loaded.out, bare.out);
	EXPECT_STR_EQ(loaded.err, "");
	command_free(&loaded);
	how.variable = "WEIR_DISABLE=1";
	loaded = start(&how);
	EXPECT_STR_EQ(loaded.out, bare.out);
	command_free(&loaded);
	how.argument = queries("count");
	loaded = start(&how);
	EXPECT_STR_HAS(loaded.out, "replaced 0\n");
	command_free(&loaded);
	command_free(&bare);
}

/* Another tool's hook, before or behind weir, is called once and calls the
 * next. */
static void
other_tool(bool first)
{
	char *path = report_path();
	char *tool = test_build("tests/preload/fake/interposer.so");
	struct start how = { .program = "linked_driver" };
	struct command_result bare = start(&how);
	struct command_result loaded;
	json_t *report;

	how.preload = true;
	how.report = path;
	how.before = first ? tool : NULL;
	how.after = first ? NULL : tool;
	loaded = start(&how);
	EXPECT_EQ(bare.status, 0);
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	EXPECT_STR_EQ(
	    loaded.err, first ? "interposer: 1\n" : "interposer: 0\n");
	report = report_read(path);
	EXPECT_GT(report_number(report, "allocations_served"), 0);
	json_decref(report);
	command_free(&bare);
	command_free(&loaded);
	free(tool);
	free(path);
}

TEST(a_tool_that_is_loaded_before_weir_works)
{
	other_tool(true);
}

TEST(a_tool_that_is_loaded_after_weir_does_no_harm)
{
	other_tool(false);
}
