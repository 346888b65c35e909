/*
 * <weir/weir.h> and <weir/host.h>: statistics, and their resets.
 */
#include "allocator/api/stats.h"

#include <stddef.h>
#include <string.h>

#include <weir/host.h>

#include "allocator/account/counters.h"
#include "allocator/account/outside.h"
#include "allocator/cache/tcache.h"
#include "allocator/magazines/depot.h"
#include "allocator/memory/arena.h"
#include "allocator/observe/device_stats.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

/* ---- Reading ----------------------------------------------------------- */

static enum weir_status
check_out(const struct weir_stats *out, const char *call)
{
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "%s: out is NULL or its struct_size is not "
		    "set",
		    call);
	return WEIR_OK;
}

static enum weir_status
read_stats(int device, struct weir_stats *out, const char *call,
    void (*read)(struct arena *, struct weir_stats *))
{
	const struct options *options;
	struct weir_stats copy = { 0 };
	enum weir_status status = check_out(out, call);
	if (status != WEIR_OK)
		return status;
	status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	if (arena != NULL)
		read(arena, &copy);
	else if (read == device_stats && device < DEVICES_MAX)
		outside_read(device, &copy);
	copy.struct_size = out->struct_size;
	copy.max_split_size = options->max_split_size;
	copy.metadata_bytes = meta_bytes();
	*out = copy;
	return WEIR_OK;
}

enum weir_status
weir_stats(int device, struct weir_stats *out)
{
	if (os_forked())
		return status_forked("weir_stats");
	return read_stats(device, out, "weir_stats", device_stats);
}

enum weir_status
weir_host_stats(int device, struct weir_stats *out)
{
	if (os_forked())
		return status_forked("weir_host_stats");
	return read_stats(device, out, "weir_host_stats", device_host_stats);
}

enum weir_status
arena_stats(struct arena *arena, struct weir_stats *out)
{
	const struct options *options;
	enum weir_status status = check_out(out, "weir_pool_stats");
	if (status == WEIR_OK)
		status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	size_t struct_size = out->struct_size;
	lock_enter(&arena->lock);
	tcache_report(arena);
	*out = stats_all(&arena->account.stats, &arena->account.tally);
	out->pending_bytes = stats_pending_bytes(&arena->account.tally);
	lock_leave(&arena->lock);
	out->struct_size = struct_size;
	out->max_split_size = options->max_split_size;
	return WEIR_OK;
}

static void
add_stat(struct weir_stat *to, const struct weir_stat *from)
{
	to->current += from->current;
	to->peak += from->peak;
	to->allocated += from->allocated;
	to->freed += from->freed;
}

/* Add all statistics. Peaks of two arenas may be of different times, so the sum
 * is an upper bound. */
static void
add_all(struct weir_stats *to, const struct weir_stats *from)
{
	ASSERT(to != from);
	for (int i = 0; i < STAT3S; i++) {
		struct weir_stat3 *stat = stats_at(to, (enum stat3)i);
		const struct weir_stat3 *part =
		    stats_at((struct weir_stats *)from, (enum stat3)i);
		add_stat(&stat->all, &part->all);
		add_stat(&stat->small_pool, &part->small_pool);
		add_stat(&stat->large_pool, &part->large_pool);
	}
	add_stat(&to->oversize_allocations, &from->oversize_allocations);
	add_stat(&to->oversize_segments, &from->oversize_segments);
	stats_add_counters(to, from);
}

enum weir_status
weir_stats_stream(int device, weir_stream handle, struct weir_stats *out)
{
	if (os_forked())
		return status_forked("weir_stats_stream");
	const struct options *options;
	struct weir_stats copy = { 0 };
	struct stream *stream;
	enum weir_status status = check_out(out, "weir_stats_stream");
	if (status != WEIR_OK)
		return status;
	status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	status = stream_lookup(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	struct arena *arena =
	    stream != NULL ? arena_peek(stream->device) : NULL;
	for (; arena != NULL; arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		tcache_report(arena);
		struct stream_heap *heap = heap_peek(arena, stream);
		if (heap != NULL && arena_is_counted(arena)) {
			struct weir_stats part =
			    stats_all(&heap->stats, &heap->tally);
			add_all(&copy, &part);
			copy.pending_bytes += stats_pending_bytes(&heap->tally);
		}
		lock_leave(&arena->lock);
	}
	if (stream != NULL)
		stream_put(stream);
	copy.struct_size = out->struct_size;
	copy.max_split_size = options->max_split_size;
	*out = copy;
	return WEIR_OK;
}

/* ---- Resets ------------------------------------------------------------ */

static void
reset_arena(struct arena *arena, enum reset what)
{
	lock_enter(&arena->lock);
	tcache_report(arena);
	stats_reset(arena, what);
	if (arena == arena->main)
		totals_reset(arena->account.totals, what);
	tcache_report(arena); /* caches note the new peaks */
	lock_leave(&arena->lock);
}

static void
reset_host_totals(struct arena *main, enum reset what)
{
	lock_enter(&main->lock);
	struct totals *totals = main->account.host_totals;
	lock_leave(&main->lock);
	totals_reset(totals, what);
}

static void
reset_outside(int device, enum reset what)
{
	if (what == RESET_PEAKS)
		outside_reset_peaks(device);
	else
		outside_reset_sums(device);
}

static enum weir_status
reset(int device, enum account account, enum reset what)
{
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	if (account == ACCOUNT_DEVICE && device < DEVICES_MAX)
		reset_outside(device, what);
	struct arena *arena = arena_peek(device);
	if (arena == NULL)
		return WEIR_OK;
	for (struct arena *a = arena; a != NULL; a = arena_next(a))
		if (a->traits.account == account)
			reset_arena(a, what);
	if (account == ACCOUNT_HOST)
		reset_host_totals(arena, what);
	return WEIR_OK;
}

enum weir_status
weir_stats_reset_peak(int device)
{
	if (os_forked())
		return status_forked("weir_stats_reset_peak");
	return reset(device, ACCOUNT_DEVICE, RESET_PEAKS);
}

enum weir_status
weir_host_stats_reset_peak(int device)
{
	if (os_forked())
		return status_forked("weir_host_stats_reset_peak");
	return reset(device, ACCOUNT_HOST, RESET_PEAKS);
}

enum weir_status
weir_stats_reset_accumulated(int device)
{
	if (os_forked())
		return status_forked("weir_stats_reset_accumulated");
	return reset(device, ACCOUNT_DEVICE, RESET_SUMS);
}

enum weir_status
weir_host_stats_reset_accumulated(int device)
{
	if (os_forked())
		return status_forked("weir_host_stats_reset_accumulated");
	return reset(device, ACCOUNT_HOST, RESET_SUMS);
}
