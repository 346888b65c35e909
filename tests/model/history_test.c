/*
 * Replaying the history gives the snapshot: cases that random programs rarely
 * reach, and the result of `weir check` for the same file.
 */
#include "tests/model/history.h"

#include <stdlib.h>

#include <weir/graph.h>
#include <weir/trace.h>

#include "tests/support/command.h"
#include "tests/support/device.h"

static void
expect_replay(struct history_replay *replay)
{
	char fault[256];

	if (!history_replay_check(replay, fault, sizeof(fault)))
		FAIL("%s", fault);
}

/* Run `weir check` on a snapshot with all its events. */
static void
expect_checked(void)
{
	char *path = test_file("checked.pickle", "", 0);

	EXPECT_OK(weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL));
	struct command_result result = command_weir("check", path, NULL);
	EXPECT_STR_HAS(result.out, "0 faults");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(path);
}

/* A pool with blocks of two streams, some of them freed, and a hole. */
static void
suspend_and_resume(struct history_replay *replay, bool looked_at)
{
	struct weir_pool *pool = NULL;
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block[4];

	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	for (int i = 0; i < 4; i++)
		block[i] = weir_pool_malloc(
		    pool, i == 3 ? 1000 : 4 * MIB, i == 1 ? b : a);
	void *beside = take(4 * MIB, a);
	give(block[0]);
	finish(a);
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	EXPECT_OK(weir_pool_suspend(pool, true, NULL));
	if (looked_at) {
		expect_checked();
		expect_replay(replay);
	}
	give(block[1]); /* memory that is not mapped may be freed */
	if (looked_at)
		expect_replay(replay);
	EXPECT_OK(weir_pool_resume(pool));
	give(weir_pool_malloc(pool, 4 * MIB, b));
	expect_checked();
	expect_replay(replay);
	/* The same, without a resume. */
	EXPECT_OK(weir_pool_suspend(pool, false, NULL));
	weir_pool_release(pool);
	give(block[2]);
	give(block[3]);
	give(beside);
	expect_replay(replay);
	trim(0);
	expect_replay(replay);
	expect_healthy();
}

TEST(the_history_records_memory_that_a_suspended_pool_gives_back)
{
	struct history_replay *replay = history_replay_new();

	suspend_and_resume(replay, true);
	suspend_and_resume(replay, false);
	history_replay_delete(replay);
}

/* A failed resume is not in the history. */
TEST(a_pool_that_could_not_be_resumed_is_still_reported_as_suspended)
{
	struct history_replay *replay = history_replay_new();
	struct weir_pool *pool = NULL;
	weir_stream stream = new_stream();

	device_need_sim("calls fail");
	EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
	void *block = weir_pool_malloc(pool, 4 * MIB, stream);
	conf("pinned_source:system");
	sim()->fail("cuMemHostRegister", 1, 100, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_EHOSTMEM);
	sim()->reset();
	expect_replay(replay);
	EXPECT_OK(weir_pool_suspend(pool, true, NULL));
	sim()->fail("cuMemCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_STATUS(weir_pool_resume(pool), WEIR_ENOMEM);
	expect_replay(replay);
	EXPECT_OK(weir_pool_resume(pool));
	expect_replay(replay);
	give(block);
	weir_pool_release(pool);
	expect_replay(replay);
	history_replay_delete(replay);
	expect_healthy();
}
