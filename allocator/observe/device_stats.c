/*
 * Computes the statistics of a device and of its page-locked host memory.
 * Thread caches first report their counts.
 */
#include "allocator/observe/device_stats.h"

#include <stddef.h>
#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/account/outside.h"
#include "allocator/allocator.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "base/status.h"

/* Copy the sums over all arenas of the device, or over those of its page-locked
 * memory. The lock of `main` is held. Not inlined, because the threads of some
 * programs have small stacks. */
static __attribute__((noinline)) void
begin_stats(struct arena *main, bool host, struct weir_stats *out)
{
	struct totals *totals =
	    host ? main->account.host_totals : main->account.totals;

	if (totals != NULL) {
		lock_enter(&totals->lock);
		*out = stats_all(&totals->stats, &totals->tally);
		lock_leave(&totals->lock);
	}
	if (totals == NULL && !host)
		*out = stats_all(&main->account.stats, &main->account.tally);
	else if (!host)
		stats_add_counters(out, &main->account.stats);
}

void
device_stats(struct arena *main, struct weir_stats *out)
{
	ASSERT(main == main->main);
	lock_enter(&main->lock);
	tcache_report(main);
	begin_stats(main, false, out);
	out->pending_bytes = stats_pending_bytes(&main->account.tally);
	lock_leave(&main->lock);
	outside_read(main->device, out);
	for (struct arena *a = arena_next(main); a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		if (arena_is_counted(a)) {
			stats_add_counters(out, &a->account.stats);
			out->pending_bytes +=
			    stats_pending_bytes(&a->account.tally);
		}
		lock_leave(&a->lock);
	}
}

/* Add the counters of all arenas of page-locked memory of the device, or of all
 * others. */
static void
add_counters(struct arena *main, bool host, struct weir_stats *out)
{
	for (struct arena *a = arena_next(main); a != NULL; a = arena_next(a)) {
		bool is_host = a->traits.account == ACCOUNT_HOST;

		lock_enter(&a->lock);
		if (host ? is_host : arena_is_counted(a))
			stats_add_counters(out, &a->account.stats);
		lock_leave(&a->lock);
	}
}

bool
allocator_glance(int device, bool host, struct weir_stats *out)
{
	struct arena *main = arena_peek(device);

	*out = (struct weir_stats){ .struct_size = sizeof(*out) };
	if (main != NULL) {
		lock_enter(&main->lock);
		begin_stats(main, host, out);
		lock_leave(&main->lock);
		add_counters(main, host, out);
	}
	if (!host && device < DEVICES_MAX)
		outside_read(device, out);
	return main != NULL || !host;
}

void
device_host_stats(struct arena *main, struct weir_stats *out)
{
	struct weir_stats counters = { 0 };

	ASSERT(main == main->main);
	lock_enter(&main->lock);
	struct totals *totals = main->account.host_totals;
	lock_leave(&main->lock);
	if (totals == NULL)
		return;
	for (struct arena *a = arena_next(main); a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		if (a->traits.account == ACCOUNT_HOST) {
			tcache_report(a);
			stats_add_counters(&counters, &a->account.stats);
			counters.pending_bytes +=
			    stats_pending_bytes(&a->account.tally);
		}
		lock_leave(&a->lock);
	}
	lock_enter(&totals->lock);
	*out = stats_all(&totals->stats, &totals->tally);
	lock_leave(&totals->lock);
	stats_add_counters(out, &counters);
	out->pending_bytes = counters.pending_bytes;
}

/* ---- Names ------------------------------------------------------------- */

struct item {
	const char *name;
	size_t offset;
};

#define ITEM_STAT(name, field)                                                 \
	{ name ".current", offsetof(struct weir_stats, field.current) },       \
	    { name ".peak", offsetof(struct weir_stats, field.peak) },         \
	    { name ".allocated",                                               \
		    offsetof(struct weir_stats, field.allocated) },            \
	    { name ".freed", offsetof(struct weir_stats, field.freed) },
#define ITEM_STAT3(name)                                                       \
	ITEM_STAT(#name ".all", name.all)                                      \
	ITEM_STAT(#name ".small_pool", name.small_pool)                        \
	ITEM_STAT(#name ".large_pool", name.large_pool)
#define ITEM_OUTSIDE(name, label) ITEM_STAT("outside_" #name, outside_##name)
#define ITEM_COUNTER(name) { #name, offsetof(struct weir_stats, name) },

static const struct item items[] = { WEIR_STAT3S(ITEM_STAT3)
	    ITEM_STAT("oversize_allocations", oversize_allocations)
		ITEM_STAT("oversize_segments", oversize_segments)
		    WEIR_COUNTERS(ITEM_COUNTER) ITEM_COUNTER(max_split_size)
			ITEM_COUNTER(pending_bytes) ITEM_COUNTER(metadata_bytes)
			    WEIR_OUTSIDE_KINDS(ITEM_OUTSIDE) };

bool
weir_stats_item(const struct weir_stats *stats, size_t i, const char **name,
    uint64_t *value)
{
	if (i >= sizeof(items) / sizeof(items[0]) || stats == NULL ||
	    name == NULL || value == NULL)
		return false;
	*name = items[i].name;
	memcpy(value, (const char *)stats + items[i].offset, sizeof(*value));
	return true;
}
