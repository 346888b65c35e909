/*
 * Random programs of one thread; model.h describes them and the checks. Each
 * mix is a test, so that each has a separate time limit.
 */
#include "tests/model/model.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

/* The weight of each step, unless a mix has another. */
#define ORDINARY                                                               \
	[STEP_allocate] = 200, [STEP_release] = 130, [STEP_hand_over] = 30,    \
	[STEP_drain] = 2, [STEP_write] = 160, [STEP_read] = 90,                \
	[STEP_name_use] = 20, [STEP_wait] = 20, [STEP_busy] = 30,              \
	[STEP_sync] = 12, [STEP_pass_time] = 40, [STEP_trim] = 4,              \
	[STEP_misuse] = 12, [STEP_ask] = 20

/* The weights of steps on streams. */
#define STREAMS                                                                \
	[STEP_event] = 20, [STEP_change] = 16, [STEP_capture] = 3,             \
	[STEP_pin] = 6

static const char *const growths[] = { "handle_mb:4", "handle_mb:64",
	"garbage_collection_threshold:0.01", "garbage_collection_threshold:0",
	"roundup_power2_divisions:4", "roundup_power2_divisions:0",
	"prefer:speed", "prefer:memory", "prefer:balance", "handle_mb:2",
	"handle_mb:320", "tcache:0", "tcache:4", "prefer:balance", NULL };

/* Options that change neither which memory can be moved nor how much a request
 * needs: when memory is short, requests are not rounded up. */
static const char *const small_pieces[] = { "garbage_collection_threshold:0.5",
	"garbage_collection_threshold:0", "roundup_power2_divisions:4",
	"roundup_power2_divisions:0", "tcache:0", "tcache:1", "prefer:speed",
	"prefer:memory", "prefer:memory", "prefer:balance", NULL };

static const char *const segments[] = { "expandable_segments:False",
	"expandable_segments:False", "expandable_segments:True",
	"max_split_size_mb:20", "max_split_size_mb:64",
	"max_split_size_mb:unlimited", "max_non_split_rounding_mb:20",
	"max_non_split_rounding_mb:100", "garbage_collection_threshold:0.01",
	"garbage_collection_threshold:0", "prefer:speed", "prefer:memory",
	"prefer:balance", "handle_mb:2", "handle_mb:320", NULL };

/* On a GPU time is real, so results that the simulation has are not repeated
 * there. */
static uint64_t
steps_of(uint64_t steps)
{
	return test_effort(device_is_simulated() ? steps : steps / 50 + 1);
}

TEST_TIMEOUT(random_programs_on_one_stream_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "one stream",
		.limit = (size_t)704 << 20,
		.slots = 1,
		.live = 60,
		.small = 65,
		.large = 3,
		.confs = growths,
		.weight = { ORDINARY,
		    STREAMS, [STEP_configure] = 1, [STEP_bound] = 5 },
	};

	model_run(&mix, steps_of(150000));
}

TEST_TIMEOUT(random_programs_on_several_streams_keep_every_promise, 600)
{
	static const struct mix mix = {
		.name = "several streams",
		.slots = 12,
		.live = 60,
		.small = 65,
		.large = 3,
		.any = 8,
		.late_ns = 200000,
		.confs = growths,
		.weight = { ORDINARY, STREAMS, [STEP_configure] = 1 },
	};

	model_run(&mix, steps_of(200000));
}

TEST_TIMEOUT(random_programs_in_segments_of_the_driver_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "driver segments",
		.conf = "expandable_segments:False",
		.slots = 9,
		.live = 60,
		.small = 65,
		.large = 3,
		.any = 20,
		.confs = segments,
		.weight = { ORDINARY, STREAMS, [STEP_configure] = 2 },
	};

	model_run(&mix, steps_of(150000));
}

TEST_TIMEOUT(random_programs_short_of_memory_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "short of memory",
		.limit = (size_t)640 << 20,
		.slots = 10,
		.live = 50,
		.small = 50,
		.large = 6,
		.any = 6,
		.late_ns = 1000000,
		.confs = segments,
		.weight = { ORDINARY, STREAMS, [STEP_bound] = 4,
		    [STEP_configure] = 1, [STEP_crowd] = 6 },
	};

	model_run(&mix, steps_of(150000));
}

/* The program gets as much memory as the device can have at all, with pieces of
 * 2 MiB, and prefer:memory. A failure needs a reason. A pin would be one, so
 * there are none. */
TEST_TIMEOUT(random_programs_get_all_memory_that_there_is, 300)
{
	static const struct mix mix = {
		.name = "pieces",
		.conf = "prefer:memory,handle_mb:2",
		.limit = (size_t)320 << 20,
		.slots = 14,
		.live = 50,
		.small = 50,
		.large = 5,
		.late_ns = 500000,
		.pieces = true,
		.confs = small_pieces,
		.weight = { ORDINARY, [STEP_event] = 20, [STEP_change] = 16,
		    [STEP_capture] = 3, [STEP_bound] = 4,
		    [STEP_configure] = 1 },
	};

	model_run(&mix, steps_of(150000));
}

static const char *const sources[] = { "pinned_source:handles",
	"pinned_source:handles", "pinned_source:system", "pinned_source:driver",
	"pinned_idle_mb:8", "pinned_idle_mb:unlimited", "prefer:speed",
	"prefer:memory", "prefer:balance", "tcache:0", "tcache:4",
	"delay_percent:0.01", "delay_percent:100", NULL };

TEST_TIMEOUT(random_programs_with_page_locked_memory_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "page-locked memory",
		.slots = 10,
		.live = 30,
		.small = 65,
		.large = 2,
		.any = 6,
		.late_ns = 200000,
		.confs = sources,
		.weight = { ORDINARY,
		    STREAMS, [STEP_configure] = 6, [STEP_host] = 800 },
	};

	model_run(&mix, steps_of(20000));
}

/* More streams than a stream remembers to be ordered after, which share too
 * little. */
TEST_TIMEOUT(random_programs_on_very_many_streams_keep_every_promise, 300)
{
	static const struct mix mix = {
		.name = "many streams",
		.conf = "prefer:memory",
		.limit = (size_t)512 << 20,
		.slots = SLOTS,
		.live = 60,
		.small = 50,
		.large = 4,
		.any = 3,
		.late_ns = 200000,
		.confs = growths,
		.weight = { ORDINARY, [STEP_event] = 60, [STEP_change] = 60,
		    [STEP_capture] = 3, [STEP_bound] = 2,
		    [STEP_configure] = 1 },
	};

	model_run(&mix, steps_of(100000));
}

/* Frees that wait, streams that are created and destroyed, segments of both
 * kinds. */
TEST_TIMEOUT(replaying_the_history_gives_the_snapshot, 300)
{
	static const struct mix mix = {
		.name = "history",
		.limit = (size_t)512 << 20,
		.slots = 12,
		.live = 60,
		.small = 60,
		.large = 4,
		.any = 8,
		.late_ns = 200000,
		.history = true,
		.confs = segments,
		.weight = { ORDINARY, STREAMS, [STEP_configure] = 2,
		    [STEP_bound] = 4, [STEP_crowd] = 4, [STEP_snapshot] = 8 },
	};

	model_run(&mix, steps_of(60000));
}

TEST_TIMEOUT(replaying_the_history_of_moved_memory_gives_the_snapshot, 300)
{
	static const struct mix mix = {
		.name = "history of moves",
		.conf = "prefer:memory,handle_mb:2",
		.limit = (size_t)320 << 20,
		.slots = 14,
		.live = 50,
		.small = 50,
		.large = 5,
		.late_ns = 500000,
		.pieces = true,
		.history = true,
		.confs = small_pieces,
		.weight = { ORDINARY, [STEP_event] = 20, [STEP_change] = 16,
		    [STEP_capture] = 3, [STEP_bound] = 4, [STEP_configure] = 1,
		    [STEP_snapshot] = 8 },
	};

	model_run(&mix, steps_of(60000));
}

static const char *const apart[] = { "tcache:0", "tcache:4", "prefer:memory",
	"prefer:balance", "prefer:speed", "expandable_segments:False",
	"expandable_segments:True", "max_split_size_mb:20",
	"max_split_size_mb:unlimited", "roundup_power2_divisions:4",
	"roundup_power2_divisions:0", "handle_mb:2", "handle_mb:320", NULL };

/* Many streams that wait for each other, so that free neighbours have different
 * epochs. Each snapshot is checked by the command, as weir_check() checks the
 * memory. */
TEST_TIMEOUT(the_command_finds_no_fault_in_a_healthy_snapshot, 300)
{
	static const struct mix mix = {
		.name = "checked snapshots",
		.conf = "tcache:0,prefer:memory",
		.limit = (size_t)512 << 20,
		.slots = 12,
		.live = 60,
		.small = 50,
		.large = 5,
		.any = 6,
		.late_ns = 200000,
		.history = true,
		.confs = apart,
		.weight = { ORDINARY, [STEP_event] = 60, [STEP_change] = 30,
		    [STEP_capture] = 3, [STEP_configure] = 2,
		    [STEP_snapshot] = 20 },
	};

	model_run(&mix, steps_of(15000));
}
