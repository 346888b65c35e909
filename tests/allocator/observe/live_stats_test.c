/*
 * The figures that watchers get, as weir gathers them.
 */
#include "allocator/observe/live_stats.h"

#include <stdlib.h>
#include <string.h>

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/trace.h>

#include "tests/support/device.h"

static struct watch_reply reply;

/* The present reply about the first device. */
static const struct watch_device *
device_now(void)
{
	memset(&reply, 0, sizeof(reply));
	size_t size = live_gather(&reply);
	EXPECT_EQ(size, watch_reply_size(reply.device_count));
	EXPECT_GT(reply.device_count, 0);
	return &reply.devices[0];
}

TEST(before_the_first_allocation_there_is_no_device)
{
	EXPECT_EQ(live_gather(&reply), watch_reply_size(0));
	EXPECT_EQ(reply.device_count, 0);
	EXPECT_EQ(reply.history, 0);
}

TEST(live_pending_and_held_are_those_of_the_statistics)
{
	void *kept = take(MIB, NULL);
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	void *pending = take(3 * MIB, stream);
	const struct watch_device *device;

	busy(other, LATE_MS);
	record(pending, other);
	give(pending);
	device = device_now();
	EXPECT_GE(reply.time_ns, reply.began_ns);
	EXPECT_GT(reply.began_ns, 0);
	EXPECT_EQ(device->device, 0);
	EXPECT_EQ(device->total_bytes, device_total(0));
	EXPECT_EQ(device->memory.live_bytes, MIB);
	EXPECT_EQ(device->memory.live_blocks, 1);
	EXPECT_EQ(device->memory.limit_bytes, UINT64_MAX);
	EXPECT_EQ(
	    device->memory.held_bytes, stats().reserved_bytes.all.current);
	EXPECT_EQ(device->memory.allocations, 2);
	EXPECT_EQ(device->memory.frees, 1);
	EXPECT_EQ(device->streams_all, 2);
	EXPECT_EQ(device->pool_count, 0);
	EXPECT_EQ(device->pinned.held_bytes, 0);
	if (device_is_simulated()) {
		EXPECT_EQ(device->memory.pending_bytes, 3 * MIB);
		EXPECT_EQ(device->streams[0].pending_bytes, 3 * MIB);
		EXPECT_EQ(
		    device->streams[0].stream, (uint64_t)(uintptr_t)stream);
		EXPECT_EQ(device->streams[1].live_bytes, MIB);
	}
	give(kept);
	expect_healthy();
}

TEST(pinned_memory_is_reported_separately)
{
	const struct watch_device *device;

	take(MIB, NULL);
	EXPECT_NOT_NULL(weir_host_malloc(MIB));
	device = device_now();
	EXPECT_EQ(device->pinned.live_bytes, MIB);
	EXPECT_GE(device->pinned.held_bytes, MIB);
	EXPECT_EQ(device->memory.live_bytes, MIB);
	EXPECT_EQ(device->streams_all, 1);
	EXPECT_EQ(device->pools_all, 0);
}

TEST(the_streams_that_have_most_come_first)
{
	const struct watch_device *device;

	for (unsigned i = 1; i <= 2 * WATCH_ROWS; i++)
		take(i * MIB, new_stream());
	device = device_now();
	EXPECT_EQ(device->streams_all, 2 * WATCH_ROWS);
	EXPECT_EQ(device->stream_count, WATCH_ROWS);
	for (unsigned i = 0; i < WATCH_ROWS; i++)
		EXPECT_EQ(device->streams[i].live_bytes,
		    (2 * WATCH_ROWS - i) * (uint64_t)MIB);
}

TEST(the_private_pools_that_hold_most_come_first)
{
	const struct watch_device *device;
	weir_stream stream = new_stream();
	struct weir_pool *pools[WATCH_ROWS + 2];

	for (unsigned i = 0; i < WATCH_ROWS + 2; i++) {
		EXPECT_OK(weir_pool_create(0, NULL, 0, &pools[i]));
		EXPECT_NOT_NULL(
		    weir_pool_malloc(pools[i], (4 * i + 2) * MIB, stream));
	}
	device = device_now();
	EXPECT_EQ(device->pools_all, WATCH_ROWS + 2);
	EXPECT_EQ(device->pool_count, WATCH_ROWS);
	for (unsigned i = 0; i < WATCH_ROWS; i++) {
		EXPECT_EQ(device->pools[i].live_bytes,
		    (4 * (WATCH_ROWS + 1 - i) + 2) * (uint64_t)MIB);
		EXPECT_GE(
		    device->pools[i].held_bytes, device->pools[i].live_bytes);
		EXPECT_NE(
		    device->pools[i].pool[0] + device->pools[i].pool[1], 0);
	}
}

TEST(events_of_the_history_are_counted)
{
	const struct weir_history history = { .struct_size = sizeof(history),
		.max_entries = 4 };
	const struct watch_device *device;

	EXPECT_OK(weir_history_start(&history));
	for (int i = 0; i < 5; i++)
		give(take(MIB, NULL));
	device = device_now();
	EXPECT_EQ(reply.history, WEIR_HISTORY_NONE + 1);
	EXPECT_GE(device->events_recorded, 15);
	EXPECT_EQ(device->events_dropped, device->events_recorded - 4);
}
