/*
 * Random programs (model.h) in which driver calls fail and host memory is
 * exhausted at any moment. They need the simulated device. fault_test.c fails
 * each call on each path in turn.
 */
#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

#define OFTEN                                                                  \
	[STEP_allocate] = 200, [STEP_release] = 130, [STEP_hand_over] = 40,    \
	[STEP_drain] = 3, [STEP_write] = 160, [STEP_read] = 80,                \
	[STEP_name_use] = 30, [STEP_wait] = 20, [STEP_event] = 20,             \
	[STEP_busy] = 30, [STEP_capture] = 3, [STEP_sync] = 20,                \
	[STEP_pass_time] = 40, [STEP_change] = 30, [STEP_trim] = 10,           \
	[STEP_misuse] = 10, [STEP_ask] = 30, [STEP_configure] = 2

static const char *const confs[] = { "expandable_segments:False",
	"expandable_segments:True", "expandable_segments:True",
	"max_split_size_mb:20", "max_split_size_mb:unlimited",
	"garbage_collection_threshold:0.01", "garbage_collection_threshold:0",
	"reclaim_always:True", "reclaim_always:False", "reclaim_always:False",
	"prefer:speed", "prefer:memory", "prefer:balance", "handle_mb:2",
	"handle_mb:320", NULL };

TEST_TIMEOUT(random_programs_with_failing_drivers_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "driver faults",
		.limit = (size_t)1 << 30,
		.slots = 10,
		.live = 50,
		.small = 60,
		.large = 4,
		.any = 8,
		.confs = confs,
		.weight = { OFTEN, [STEP_fault] = 40, [STEP_refusal] = 30,
		    [STEP_bound] = 2 },
	};

	device_need_sim("a GPU's calls cannot be made to fail");
	model_run(&mix, test_effort(100000));
}

TEST_TIMEOUT(random_programs_short_of_host_memory_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "host memory",
		.slots = 10,
		.live = 50,
		.small = 60,
		.large = 4,
		.any = 8,
		.confs = confs,
		.weight = { OFTEN, [STEP_starve] = 60 },
	};

	device_need_sim("a GPU's driver may need host memory itself");
	model_run(&mix, test_effort(100000));
}

static const char *const sources[] = { "pinned_source:handles",
	"pinned_source:handles", "pinned_source:system", "pinned_source:driver",
	"prefer:memory", "prefer:balance", "delay_percent:0.01",
	"delay_percent:100", NULL };

TEST_TIMEOUT(random_programs_with_faults_of_page_locked_memory_keep_it, 300)
{
	static const struct mix mix = {
		.name = "faults of page-locked memory",
		.slots = 8,
		.live = 20,
		.small = 70,
		.any = 8,
		.confs = sources,
		.weight = { OFTEN, [STEP_fault] = 40, [STEP_starve] = 20,
		    [STEP_host] = 800 },
	};

	device_need_sim("a GPU's calls cannot be made to fail");
	model_run(&mix, test_effort(20000));
}

TEST_TIMEOUT(the_history_of_calls_that_failed_gives_the_snapshot, 300)
{
	static const struct mix mix = {
		.name = "history with faults",
		.limit = (size_t)1 << 30,
		.slots = 10,
		.live = 50,
		.small = 60,
		.large = 4,
		.any = 8,
		.history = true,
		.confs = confs,
		.weight = { OFTEN, [STEP_fault] = 40, [STEP_refusal] = 30,
		    [STEP_bound] = 2, [STEP_snapshot] = 10 },
	};

	device_need_sim("a GPU's calls cannot be made to fail");
	model_run(&mix, test_effort(60000));
}
