/*
 * Keeps the statistics of an arena, its device and each of its streams, under
 * the arena's lock. Peaks are exact.
 */
#include "allocator/account/counters.h"

#include <stddef.h>
#include <string.h>

#include <weir/host.h>

#include "base/meta.h"
#include "base/status.h"

_Static_assert(offsetof(struct weir_stats, requested_bytes) -
	    offsetof(struct weir_stats, allocation) ==
	STAT3_requested_bytes * sizeof(struct weir_stat3),
    "stats_at() counts from the first to the last");
_Static_assert(offsetof(struct weir_stats, num_plans_dropped) -
	    offsetof(struct weir_stats, num_alloc_retries) ==
	(COUNTERS - 1) * sizeof(uint64_t),
    "counter_at() counts from the first to the last");
_Static_assert(offsetof(struct weir_stat3, large_pool) -
	    offsetof(struct weir_stat3, small_pool) ==
	sizeof(struct weir_stat),
    "stats_part() counts from small to large");
_Static_assert(POOL_SMALL % 2 == 0 && POOL_LARGE % 2 == 1 && POOL_FINE % 2 == 0,
    "fine pools count as small in stats_part()");

_Static_assert(offsetof(struct weir_stat3, small_pool) ==
	    PART_SMALL * sizeof(struct weir_stat) &&
	offsetof(struct weir_stat3, large_pool) ==
	    PART_LARGE * sizeof(struct weir_stat),
    "parts are numbered as they lie");

/* ---- Tallies ----------------------------------------------------------- */

void
tally_raise_peak(struct tally_part *part, enum tallied which)
{
	part->peak[which] -= part->headroom[which];
	part->headroom[which] = 0;
}

__attribute__((noinline)) void
stats_count_in_totals(const struct pool *pool, uint64_t size,
    uint64_t requested, tally_count count)
{
	struct totals *totals = pool->owner->arena->account.totals;

	ASSERT(totals != NULL && size >= requested);
	lock_enter(&totals->lock);
	totals->changes++;
	tally_in(&totals->tally, pool, size, requested, count);
	lock_leave(&totals->lock);
}

void
stats_free_pending(struct pool *pool, uint64_t size)
{
	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(size > 0);
	stats_count(pool, size, 0, tally_freed);
}

void
stats_inactive(struct pool *pool, uint64_t size, uint64_t requested)
{
	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(size >= requested);
	stats_count(pool, size, requested, tally_inactive);
}

void
stats_move(
    struct pool *from, struct pool *to, uint64_t size, uint64_t requested)
{
	lock_assert_held(&from->owner->arena->lock);
	ASSERT(from != to && from->owner->arena == to->owner->arena);
	tally_in(&from->owner->tally, from, size, requested, tally_free);
	tally_in(&to->owner->tally, to, size, requested, tally_malloc);
}

static void
count_flow(
    struct tally_part *part, const struct sums *out, const struct sums *in)
{
	ASSERT(out->count >= 0 && out->bytes >= 0 && out->requested >= 0);
#define TALLIED_FLOW(name, sum)                                                \
	part->headroom[TALLIED_##name] += in->sum - out->sum;
	TALLIED_STATS(TALLIED_FLOW)
#undef TALLIED_FLOW
}

static void
flow_in(struct tally *tally, const struct pool *pool, const struct sums *out,
    const struct sums *in)
{
	struct tally_part *part = tally_part_for(tally, pool);

	part->up = sums_plus(part->up, *out);
	count_flow(&tally->part[PART_ALL], out, in);
	count_flow(part, out, in);
}

void
stats_flow(struct pool *pool, const struct sums *out, const struct sums *in)
{
	struct arena *arena = pool->owner->arena;
	struct totals *totals = arena->account.totals;

	ASSERT(pool->kind < POOL_KINDS);
	lock_assert_held(&pool->owner->arena->lock);
	flow_in(&arena->account.tally, pool, out, in);
	flow_in(&pool->owner->tally, pool, out, in);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->changes++;
	flow_in(&totals->tally, pool, out, in);
	lock_leave(&totals->lock);
}

void
stats_note_peaks(struct tally *tally)
{
	for (int part = 0; part < PARTS; part++)
		for (int i = 0; i < TALLIED; i++)
			tally_use_headroom(
			    &tally->part[part], (enum tallied)i, 0);
}

void
stats_note_arena_peaks(struct arena *arena)
{
	struct totals *totals = arena->account.totals;

	lock_assert_held(&arena->lock);
	stats_note_peaks(&arena->account.tally);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	stats_note_peaks(&totals->tally);
	lock_leave(&totals->lock);
}

/* Compute one statistic of a part. */
static struct weir_stat
stat_of(const struct tally_part *part, enum tallied which, int64_t up)
{
	int64_t now = part->peak[which] - part->headroom[which];

	return (struct weir_stat){ .current = (uint64_t)now,
		.peak = (uint64_t)part->peak[which],
		.allocated = (uint64_t)up,
		.freed = (uint64_t)(up - (now - part->began[which])) };
}

struct weir_stats
stats_all(const struct weir_stats *stats, const struct tally *tally)
{
	struct weir_stats out = *stats;
	const struct tally_part *parts = tally->part;
	struct sums up = sums_plus(parts[PART_SMALL].up, parts[PART_LARGE].up);

	for (int i = 0; i < PARTS; i++) {
		const struct tally_part *part = &parts[i];
		if (i != PART_ALL)
			up = part->up;
#define TALLIED_FILL(name, sum)                                                \
	(&out.name.all)[i] = stat_of(part, TALLIED_##name, up.sum);
		TALLIED_STATS(TALLIED_FILL)
#undef TALLIED_FILL
	}
	return out;
}

/* ---- The others --------------------------------------------------------- */

static struct weir_stat *
stat1_at(struct weir_stats *stats, enum stat1 which)
{
	return which == STAT1_oversize_segments ? &stats->oversize_segments :
						  &stats->oversize_allocations;
}

static void
change1(struct weir_stat *stat, int delta)
{
	if (delta > 0)
		stats_add(stat, (uint64_t)delta);
	else
		stats_sub(stat, (uint64_t)-delta);
}

void
stats_change1(struct arena *arena, enum stat1 which, int delta)
{
	struct totals *totals = arena->account.totals;

	lock_assert_held(&arena->lock);
	ASSERT(delta == 1 || delta == -1);
	change1(stat1_at(&arena->account.stats, which), delta);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	change1(stat1_at(&totals->stats, which), delta);
	lock_leave(&totals->lock);
}

/* ---- Reading ----------------------------------------------------------- */

size_t
stats_pending_bytes(const struct tally *tally)
{
	return tally_now(tally, PART_ALL, TALLIED_active_bytes) -
	    tally_now(tally, PART_ALL, TALLIED_allocated_bytes);
}

/* ---- Plain counters ----------------------------------------------------- */

void
stats_zero_counters(struct weir_stats *stats)
{
#define COUNTER_ZERO(name) stats->name = 0;
	WEIR_COUNTERS(COUNTER_ZERO)
#undef COUNTER_ZERO
}

void
stats_served(struct stream_heap *heap, enum served_by by, size_t bytes)
{
	struct weir_stats *all = &heap->arena->account.stats;
	struct weir_stats *own = &heap->stats;

	lock_assert_held(&heap->arena->lock);
	switch (by) {
#define COUNT_SERVED(name, word)                                               \
	case SERVED_##name:                                                    \
		all->num_served_##name++;                                      \
		all->served_##name##_bytes += bytes;                           \
		own->num_served_##name++;                                      \
		own->served_##name##_bytes += bytes;                           \
		break;
		SERVED_BEYOND(COUNT_SERVED)
#undef COUNT_SERVED
	default:
		break;
	}
}

void
stats_add_counters(struct weir_stats *to, const struct weir_stats *from)
{
#define COUNTER_ADD(name) to->name += from->name;
	WEIR_COUNTERS(COUNTER_ADD)
#undef COUNTER_ADD
}

void
stats_add_current(struct weir_stats *to, const struct weir_stats *from)
{
#define STAT3_ADD(name) to->name.all.current += from->name.all.current;
	WEIR_STAT3S(STAT3_ADD)
#undef STAT3_ADD
}

/* ---- Resets ------------------------------------------------------------ */

static void
reset_stat(struct weir_stat *stat, enum reset what)
{
	if (what == RESET_PEAKS) {
		stat->peak = stat->current;
	} else {
		stat->allocated = 0;
		stat->freed = 0;
	}
}

static void
reset_part(struct tally_part *part, enum reset what)
{
	for (int i = 0; i < TALLIED; i++) {
		int64_t now = part->peak[i] - part->headroom[i];

		if (what == RESET_SUMS) {
			part->began[i] = now;
		} else {
			part->peak[i] = now;
			part->headroom[i] = 0;
		}
	}
	if (what == RESET_SUMS)
		part->up = (struct sums){ 0 };
}

static void
reset_all(struct weir_stats *stats, struct tally *tally, enum reset what)
{
	for (int i = 0; i < STAT3S; i++) {
		struct weir_stat3 *stat = stats_at(stats, (enum stat3)i);
		reset_stat(&stat->all, what);
		reset_stat(&stat->small_pool, what);
		reset_stat(&stat->large_pool, what);
	}
	reset_stat(&stats->oversize_allocations, what);
	reset_stat(&stats->oversize_segments, what);
	for (int i = 0; i < PARTS; i++)
		reset_part(&tally->part[i], what);
	if (what == RESET_SUMS)
		stats_zero_counters(stats);
}

void
stats_reset(struct arena *arena, enum reset what)
{
	lock_assert_held(&arena->lock);
	reset_all(&arena->account.stats, &arena->account.tally, what);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		reset_all(&heap->stats, &heap->tally, what);
	}
}

void
totals_reset(struct totals *totals, enum reset what)
{
	ASSERT(what == RESET_PEAKS || what == RESET_SUMS);
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	reset_all(&totals->stats, &totals->tally, what);
	lock_leave(&totals->lock);
}
