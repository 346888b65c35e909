/*
 * Random programs of four threads, on streams of their own and shared ones,
 * that free each other's blocks. model.h and crew.c describe them.
 */
#include <stdlib.h>

#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

TEST_TIMEOUT(random_programs_of_four_threads_keep_every_promise, 600)
{
	static const struct mix mix = {
		.name = "four threads",
		.slots = 9,
		.live = 20,
		.small = 65,
		.large = 2,
		.any = 8,
		.weight = { [STEP_allocate] = 200,
		    [STEP_release] = 130,
		    [STEP_hand_over] = 30,
		    [STEP_drain] = 2,
		    [STEP_write] = 160,
		    [STEP_read] = 90,
		    [STEP_name_use] = 20,
		    [STEP_wait] = 20,
		    [STEP_event] = 20,
		    [STEP_busy] = 20,
		    [STEP_sync] = 12,
		    [STEP_pass_time] = 30,
		    [STEP_change] = 16,
		    [STEP_trim] = 3,
		    [STEP_misuse] = 8,
		    [STEP_ask] = 20,
		    [STEP_swap] = 100 },
	};

	model_run_threads(
	    &mix, test_effort(device_is_simulated() ? 160000 : 2000));
}

TEST_TIMEOUT(random_programs_of_four_threads_share_too_little_memory, 600)
{
	static const struct mix mix = {
		.name = "four threads, short of memory",
		.limit = (size_t)512 << 20,
		.slots = 9,
		.live = 20,
		.small = 50,
		.large = 5,
		.any = 8,
		.weight = { [STEP_allocate] = 200,
		    [STEP_release] = 130,
		    [STEP_hand_over] = 30,
		    [STEP_drain] = 2,
		    [STEP_write] = 120,
		    [STEP_read] = 60,
		    [STEP_name_use] = 40,
		    [STEP_wait] = 20,
		    [STEP_event] = 20,
		    [STEP_busy] = 30,
		    [STEP_sync] = 6,
		    [STEP_pass_time] = 20,
		    [STEP_change] = 16,
		    [STEP_trim] = 6,
		    [STEP_ask] = 10,
		    [STEP_swap] = 60 },
	};

	model_run_threads(
	    &mix, test_effort(device_is_simulated() ? 40000 : 1000));
}

TEST_TIMEOUT(the_history_of_four_threads_gives_the_snapshot, 600)
{
	static const struct mix mix = {
		.name = "history of four threads",
		.limit = (size_t)512 << 20,
		.slots = 9,
		.live = 20,
		.small = 60,
		.large = 5,
		.any = 8,
		.history = true,
		.weight = { [STEP_allocate] = 200,
		    [STEP_release] = 130,
		    [STEP_hand_over] = 30,
		    [STEP_drain] = 2,
		    [STEP_write] = 60,
		    [STEP_name_use] = 40,
		    [STEP_wait] = 20,
		    [STEP_busy] = 20,
		    [STEP_pass_time] = 20,
		    [STEP_change] = 16,
		    [STEP_trim] = 6,
		    [STEP_swap] = 100 },
	};

	model_run_threads(
	    &mix, test_effort(device_is_simulated() ? 40000 : 1000));
}

/* One thread checks zones while others free the blocks between them, and
 * allocate at the same addresses. */
TEST_TIMEOUT(guarded_blocks_of_four_threads_are_never_reported_as_damaged, 600)
{
	static const struct mix mix = {
		.name = "guarded blocks of four threads",
		.slots = 9,
		.live = 20,
		.small = 65,
		.large = 1,
		.any = 8,
		.weight = { [STEP_allocate] = 200,
		    [STEP_release] = 130,
		    [STEP_hand_over] = 30,
		    [STEP_write] = 60,
		    [STEP_name_use] = 20,
		    [STEP_wait] = 20,
		    [STEP_sync] = 12,
		    [STEP_pass_time] = 30,
		    [STEP_trim] = 6,
		    [STEP_swap] = 100 },
	};

	setenv("WEIR_CONF", "guard:64", 1);
	model_run_threads(
	    &mix, test_effort(device_is_simulated() ? 2000 : 300));
}
