/*
 * Sharing memory with another process by the driver's handles.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

TEST(two_programs_share_memory_as_they_do_without_weir)
{
	json_t *report = start_twice("driver_ipc", NULL);
	const json_t *calls = json_object_get(report, "calls");

	EXPECT_EQ(report_number(report, "allocations_served"), 3);
	EXPECT_EQ(report_number(
		      json_object_get(calls, "cuIpcGetMemHandle"), "served"),
	    6);
	json_decref(report);
}

TEST(a_program_may_ask_for_memory_of_the_driver)
{
	struct start how = { .program = "driver_ipc" };
	struct command_result bare = start(&how);
	struct command_result loaded;

	how.preload = true;
	how.variable = "WEIR_PRELOAD_IPC=1";
	loaded = start(&how);
	EXPECT_EQ(bare.status, 0);
	EXPECT_STR_HAS(bare.out, "handle of block 2: 0, the same again 1\n");
	EXPECT_STR_EQ(loaded.err, "");
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	command_free(&bare);
	command_free(&loaded);
}

/* A reader without weir can open a block at the start of an allocation of the
 * driver. It cannot open other blocks, and gets no other memory instead. */
TEST(a_stranger_opens_the_memory_that_was_meant_or_none)
{
	struct start how = { .program = "driver_ipc",
		.argument = "WEIR_DISABLE=1",
		.preload = true };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "block 0: opened 0, again 1, whole 1");
	EXPECT_STR_HAS(result.out, "block 1: opened 1, again 0, whole 0");
	EXPECT_STR_HAS(result.out, "block 2: opened 1, again 0, whole 0");
	EXPECT_STR_HAS(result.out, "wrong words: 0\n");
	command_free(&result);
}

/* The peer knows the whole format, and sends one wrong fact at a time. */
TEST(data_of_another_process_is_not_trusted)
{
	struct start how = { .program = "driver_ipc_hostile", .preload = true };
	struct command_result result = start(&how);
	unsigned refused = 0;

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "the truth: opened\n");
	EXPECT_NULL(strstr(result.out, "it covers other memory"));
	for (const char *line = result.out;
	     (line = strstr(line, ": refused\n")) != NULL; line++)
		refused++;
	/* Giving a file to another user takes root. */
	if (strstr(result.out, "cannot be tried") != NULL)
		refused++;
	EXPECT_EQ(refused, 22);
	EXPECT_STR_HAS(result.err, "its file is no plain file\n");
	EXPECT_STR_HAS(result.err, "its file is not sealed\n");
	EXPECT_STR_HAS(result.err, "another process shares less memory than ");
	command_free(&result);
}
