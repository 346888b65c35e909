/*
 * Gathers the statistics for watchers. It reads each arena under its lock, as
 * weir_stats() does, and calls no driver.
 */
#include "allocator/observe/live_stats.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "allocator/observe/device_stats.h"
#include "base/meta.h"
#include "base/os.h"
#include "driver/driver.h"

static uint64_t began_ns;

void
live_begin(void)
{
	began_ns = os_monotonic_ns();
}

/* ---- Rows -------------------------------------------------------------- */

static bool
stream_is_more(const struct watch_stream *a, const struct watch_stream *b)
{
	uint64_t x = a->live_bytes + a->pending_bytes;
	uint64_t y = b->live_bytes + b->pending_bytes;

	return x != y ? x > y : a->allocations > b->allocations;
}

/* Insert a row into the device's list of its largest streams. */
static void
add_stream(struct watch_device *device, struct watch_stream row)
{
	uint32_t i = device->stream_count;

	device->streams_all++;
	if (i == WATCH_ROWS && !stream_is_more(&row, &device->streams[i - 1]))
		return;
	if (i == WATCH_ROWS)
		i--;
	else
		device->stream_count++;
	for (; i > 0 && stream_is_more(&row, &device->streams[i - 1]); i--)
		device->streams[i] = device->streams[i - 1];
	device->streams[i] = row;
}

static void
add_pool(struct watch_device *device, struct watch_pool row)
{
	uint32_t i = device->pool_count;

	device->pools_all++;
	if (i == WATCH_ROWS &&
	    row.held_bytes <= device->pools[i - 1].held_bytes)
		return;
	if (i == WATCH_ROWS)
		i--;
	else
		device->pool_count++;
	for (; i > 0 && row.held_bytes > device->pools[i - 1].held_bytes; i--)
		device->pools[i] = device->pools[i - 1];
	device->pools[i] = row;
}

static uint64_t
pending_of(const struct weir_stats *stats)
{
	return stats->active_bytes.all.current -
	    stats->allocated_bytes.all.current;
}

/* Add the streams that have allocated in an arena; under its lock. */
static void
look_at_streams(struct watch_device *device, const struct arena *arena)
{
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		const struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		const struct weir_stats all =
		    stats_all(&heap->stats, &heap->tally);
		const struct weir_stats *stats = &all;

		if (stats->allocation.all.allocated == 0)
			continue;
		add_stream(device,
		    (struct watch_stream){
			.stream = (uint64_t)(uintptr_t)heap->stream->handle,
			.pool = { arena->memory.pool.graph,
			    arena->memory.pool.user },
			.live_bytes = stats->allocated_bytes.all.current,
			.pending_bytes = pending_of(stats),
			.live_blocks = stats->allocation.all.current,
			.allocations = stats->allocation.all.allocated });
	}
}

static void
gather_arena(struct watch_device *device, struct arena *arena)
{
	lock_enter(&arena->lock);
	if (arena->private.in_use && arena_is_counted(arena)) {
		tcache_report(arena);
		look_at_streams(device, arena);
		struct weir_stats stats =
		    stats_all(&arena->account.stats, &arena->account.tally);
		if (arena != arena->main)
			add_pool(device,
			    (struct watch_pool){
				.pool = { arena->memory.pool.graph,
				    arena->memory.pool.user },
				.held_bytes = stats.reserved_bytes.all.current,
				.live_bytes = stats.allocated_bytes.all.current,
				.pending_bytes = pending_of(&stats),
				.live_blocks = stats.allocation.all.current });
	}
	lock_leave(&arena->lock);
}

/* ---- Devices ----------------------------------------------------------- */

static void
look_at_history(struct watch_device *device, struct arena *main)
{
	lock_enter(&main->lock);
	const struct history_ring *ring = emit_ring_enter(main);
	device->events_recorded = ring->next - ring->first;
	device->events_dropped = history_oldest(ring) - ring->first;
	emit_ring_leave(main);
	lock_leave(&main->lock);
}

static void
gather_device(struct watch_device *device, struct arena *main)
{
	struct weir_stats stats = { 0 };

	ASSERT(main == main->main);
	memset(device, 0, sizeof(*device));
	device->device = (uint32_t)main->device;
	device->total_bytes = main->account.total_bytes;
	device_stats(main, &stats);
	counters_read(
	    &device->memory, &stats, atomic_load(&main->account.limit));
	stats = (struct weir_stats){ 0 };
	device_host_stats(main, &stats);
	counters_read(
	    &device->pinned, &stats, atomic_load(&main->account.host_limit));
	look_at_history(device, main);
	for (struct arena *a = main; a != NULL; a = arena_next(a))
		gather_arena(device, a);
}

size_t
live_gather(struct watch_reply *reply)
{
	reply->time_ns = os_monotonic_ns();
	reply->began_ns = began_ns;
	reply->metadata_bytes = meta_bytes();
	reply->history = history_is_kept() ? (uint32_t)history_level() + 1 : 0;
	for (int i = 0; i < DEVICES_MAX && reply->device_count < WATCH_DEVICES;
	     i++) {
		struct arena *main = arena_peek(i);

		if (main != NULL)
			gather_device(
			    &reply->devices[reply->device_count++], main);
	}
	return watch_reply_size(reply->device_count);
}
