/*
 * Sharing memory with another process by the driver's handles.
 */
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/tools/start.h"

TEST(a_program_may_ask_for_memory_that_can_be_shared)
{
	struct start how = { .program = "driver_ipc" };
	struct command_result bare = start(&how);
	struct command_result loaded;

	how.preload = true;
	how.variable = "WEIR_PRELOAD_IPC=1";
	loaded = start(&how);
	EXPECT_EQ(bare.status, 0);
	EXPECT_STR_HAS(bare.out, "handle of block 2: 0\nwrong words: 0\n");
	EXPECT_STR_EQ(loaded.err, "");
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	command_free(&bare);
	command_free(&loaded);
}

/* What begins an allocation of the driver can be shared as it is; the rest is
 * refused rather than given with the wrong contents. */
TEST(a_handle_leads_to_the_memory_it_was_asked_for_or_is_refused)
{
	struct start how = { .program = "driver_ipc", .preload = true };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out,
	    "handle of block 0: 0\nhandle of block 1: 1\n"
	    "handle of block 2: 1\nwrong words: 0\n");
	EXPECT_STR_HAS(result.err, "WEIR_PRELOAD_IPC=1");
	command_free(&result);
}
