/*
 * Random programs of graphs beside ordinary work, with every kind of failure,
 * under a limit, with moved memory, and with a history.
 */
#include <stdlib.h>

#include "tests/model/model.h"
#include "tests/support/device.h"

/* The weight of each step, unless a mix has another. */
#define ORDINARY                                                               \
	[STEP_allocate] = 100, [STEP_release] = 70, [STEP_hand_over] = 15,     \
	[STEP_drain] = 2, [STEP_write] = 80, [STEP_read] = 50,                 \
	[STEP_name_use] = 10, [STEP_wait] = 10, [STEP_event] = 10,             \
	[STEP_busy] = 15, [STEP_sync] = 6, [STEP_pass_time] = 20,              \
	[STEP_change] = 8, [STEP_capture] = 2, [STEP_pin] = 3, [STEP_trim] = 4

#define GRAPHS                                                                 \
	[STEP_graph] = 60, [STEP_replay] = 60, [STEP_reset] = 12,              \
	[STEP_suspend] = 16, [STEP_pool] = 40

static const char *const prefers[] = { "prefer:memory", "prefer:balance",
	"prefer:speed", NULL };

TEST_TIMEOUT(random_programs_with_graphs_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "graphs",
		.slots = 9,
		.live = 30,
		.small = 65,
		.large = 3,
		.any = 6,
		.late_ns = 200000,
		.confs = prefers,
		.weight = { ORDINARY, GRAPHS, [STEP_configure] = 2 },
	};

	model_run(&mix, test_effort(device_is_simulated() ? 20000 : 1000));
}

TEST_TIMEOUT(random_programs_with_graphs_short_of_memory, 300)
{
	static const struct mix mix = {
		.name = "graphs short of memory",
		.conf = "prefer:memory,handle_mb:2",
		.limit = (size_t)256 << 20,
		.slots = 9,
		.live = 30,
		.small = 50,
		.large = 2,
		.late_ns = 500000,
		.confs = prefers,
		.weight = { ORDINARY, GRAPHS, [STEP_configure] = 1,
		    [STEP_bound] = 2, [STEP_crowd] = 2 },
	};

	model_run(&mix, test_effort(device_is_simulated() ? 12000 : 600));
}

TEST_TIMEOUT(random_programs_with_graphs_and_failures, 300)
{
	static const struct mix mix = {
		.name = "graphs and failures",
		.slots = 9,
		.live = 30,
		.small = 65,
		.large = 3,
		.late_ns = 200000,
		.confs = prefers,
		.weight = { ORDINARY, GRAPHS, [STEP_configure] = 2,
		    [STEP_fault] = 20, [STEP_refusal] = 8, [STEP_starve] = 8 },
	};

	device_need_sim("calls fail");
	model_run(&mix, test_effort(12000));
}

TEST_TIMEOUT(replaying_the_history_of_graphs_gives_the_snapshot, 300)
{
	static const struct mix mix = {
		.name = "history of graphs",
		.slots = 9,
		.live = 30,
		.small = 60,
		.large = 3,
		.late_ns = 200000,
		.history = true,
		.confs = prefers,
		.weight = { ORDINARY,
		    GRAPHS, [STEP_configure] = 1, [STEP_snapshot] = 8 },
	};

	model_run(&mix, test_effort(device_is_simulated() ? 6000 : 300));
}

TEST_TIMEOUT(devices_that_sleep_beside_graphs_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "devices that sleep",
		.conf = "may_sleep:True,handle_mb:2",
		.slots = 9,
		.live = 30,
		.small = 85,
		.any = 6,
		.late_ns = 200000,
		.history = true,
		.confs = prefers,
		.weight = { ORDINARY, GRAPHS, [STEP_configure] = 1,
		    [STEP_snapshot] = 8, [STEP_sleep] = 30 },
	};

	model_run(&mix, test_effort(device_is_simulated() ? 6000 : 300));
}

TEST_TIMEOUT(devices_that_sleep_keep_every_promise_if_calls_fail, 300)
{
	static const struct mix mix = {
		.name = "sleep and failures",
		.conf = "handle_mb:2",
		.slots = 9,
		.live = 30,
		.small = 85,
		.any = 6,
		.late_ns = 200000,
		.confs = prefers,
		.weight = { ORDINARY, GRAPHS, [STEP_fault] = 20,
		    [STEP_refusal] = 8, [STEP_starve] = 8, [STEP_sleep] = 60 },
	};

	device_need_sim("calls fail");
	model_run(&mix, test_effort(6000));
}

/* weir fills and reads zones on a stream of its own. While a stream is captured
 * it cannot wait for the device, which must not make it write too early. */
TEST_TIMEOUT(guarded_blocks_beside_captures_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "guarded blocks beside captures",
		.slots = 6,
		.live = 20,
		.small = 80,
		.any = 6,
		.late_ns = 200000,
		.weight = { GRAPHS, [STEP_allocate] = 60, [STEP_release] = 60,
		    [STEP_hand_over] = 15, [STEP_write] = 160, [STEP_read] = 60,
		    [STEP_name_use] = 10, [STEP_wait] = 10, [STEP_event] = 10,
		    [STEP_busy] = 100, [STEP_change] = 8, [STEP_capture] = 200,
		    [STEP_trim] = 4 },
	};

	setenv("WEIR_CONF", "guard:64", 1);
	model_run(&mix, test_effort(device_is_simulated() ? 3000 : 300));
}
