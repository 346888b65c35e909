/*
 * Keeps the statistics of an arena, its device and each of its streams.
 */
#ifndef ALLOCATOR_ACCOUNT_COUNTERS_H
#define ALLOCATOR_ACCOUNT_COUNTERS_H

#include "allocator/account/tally.h"
#include "allocator/account/totals.h"
#include "allocator/options.h"
#include "trace/served.h"

/* A statistic of the type struct weir_stat3. They are adjacent members. */
static inline struct weir_stat3 *
stats_at(struct weir_stats *stats, enum stat3 which)
{
	return &(&stats->allocation)[which];
}

/*
 * The current value. Thread caches report their counts one after the other, so
 * a free may be reported before its malloc: until all have reported, the value
 * may be below 0, and 0 is returned.
 */
static inline uint64_t
tally_now(const struct tally *tally, enum stat_part part, enum tallied which)
{
	const struct tally_part *p = &tally->part[part];
	int64_t now = p->peak[which] - p->headroom[which];

	return now > 0 ? (uint64_t)now : 0;
}

static inline enum stat_part
part_of(enum pool_kind kind)
{
	return kind == POOL_LARGE ? PART_LARGE : PART_SMALL;
}

/* The counters of struct weir_stats that only rise. */
enum counter {
#define COUNTER_ENUM(name) COUNTER_##name,
	WEIR_COUNTERS(COUNTER_ENUM)
#undef COUNTER_ENUM
	    COUNTERS
};

/* A counter of either statistics. They are adjacent members. */
static inline uint64_t *
counter_at(struct weir_stats *stats, enum counter which)
{
	return &(&stats->num_alloc_retries)[which];
}

/* Add to a counter of an arena; the second, of a stream and of its arena. */
static inline void
counter_add(struct arena *arena, enum counter which, uint64_t n)
    HOLDS(arena->lock)
{
	ASSERT(which < COUNTERS);
	lock_assert_held(&arena->lock);
	*counter_at(&arena->account.stats, which) += n;
}
static inline void
counter_add_of(struct stream_heap *heap, enum counter which, uint64_t n)
    HOLDS(heap->arena->lock)
{
	counter_add(heap->arena, which, n);
	*counter_at(&heap->stats, which) += n;
}

/* Compute all statistics. */
struct weir_stats stats_all(
    const struct weir_stats *stats, const struct tally *tally);

static inline void
stats_note_peak(struct weir_stat *stat)
{
	if ((int64_t)stat->current > (int64_t)stat->peak)
		stat->peak = stat->current;
}

static inline void
stats_add(struct weir_stat *stat, uint64_t n)
{
	stat->current += n;
	stat->allocated += n;
	stats_note_peak(stat);
}

static inline void
stats_sub(struct weir_stat *stat, uint64_t n)
{
	stat->current -= n;
	stat->freed += n;
}

/* The part of a statistic for a kind of pools. The parts are adjacent, and only
 * POOL_LARGE is odd. */
static inline struct weir_stat *
stats_part(struct weir_stat3 *stat, enum pool_kind kind)
{
	return &(&stat->small_pool)[(unsigned)kind % 2];
}

static inline void
stats_change3(struct weir_stat3 *stat, enum pool_kind kind, int64_t delta)
{
	struct weir_stat *part = stats_part(stat, kind);

	if (delta >= 0) {
		stats_add(&stat->all, (uint64_t)delta);
		stats_add(part, (uint64_t)delta);
	} else {
		stats_sub(&stat->all, (uint64_t)-delta);
		stats_sub(part, (uint64_t)-delta);
	}
}

/* Change a statistic of a stream only, because memory has moved between
 * streams. This function and the next two are for statistics that are not
 * tallied. */
static inline void
stats_change_stream(struct pool *pool, enum stat3 which, int64_t delta)
    HOLDS(pool->owner->arena->lock)
{
	stats_change3(stats_at(&pool->owner->stats, which), pool->kind, delta);
}

/* Change a statistic of the arena and its device, but of no stream. */
static inline void
stats_change_arena(struct arena *arena, enum pool_kind kind, enum stat3 which,
    int64_t delta) HOLDS(arena->lock)
{
	stats_change3(stats_at(&arena->account.stats, which), kind, delta);
	if (arena->account.totals != NULL)
		totals_change(arena->account.totals, kind, which, delta);
}

/* Change a statistic of a pool's stream and of its arena. */
static inline void
stats_change(struct pool *pool, enum stat3 which, int64_t delta)
    HOLDS(pool->owner->arena->lock)
{
	stats_change_arena(pool->owner->arena, pool->kind, which, delta);
	stats_change_stream(pool, which, delta);
}

/* Count a block by `count` for a pool's stream, its arena and its device. */
void stats_count_in_totals(const struct pool *pool, uint64_t size,
    uint64_t requested, tally_count count) HOLDS(pool->owner->arena->lock);
static inline QUICK void
stats_count(const struct pool *pool, uint64_t size, uint64_t requested,
    tally_count count) HOLDS(pool->owner->arena->lock)
{
	struct stream_heap *owner = pool->owner;
	struct arena *arena = owner->arena;

	tally_in(&arena->account.tally, pool, size, requested, count);
	tally_in(&owner->tally, pool, size, requested, count);
	if (__builtin_expect(arena->account.totals != NULL, 0))
		stats_count_in_totals(pool, size, requested, count);
}

/* Count a block that was allocated, or freed. For a pending block the first two
 * halves of a free are apart: stats_free_pending() at the free,
 * stats_inactive() once it is complete. */
static inline QUICK void
stats_malloc(const struct pool *pool, uint64_t size, uint64_t requested)
    HOLDS(pool->owner->arena->lock)
{
	stats_count(pool, size, requested, tally_malloc);
}
static inline QUICK void
stats_free(const struct pool *pool, uint64_t size, uint64_t requested)
    HOLDS(pool->owner->arena->lock)
{
	stats_count(pool, size, requested, tally_free);
}
void stats_free_pending(struct pool *pool, uint64_t size)
    HOLDS(pool->owner->arena->lock);
void stats_inactive(struct pool *pool, uint64_t size, uint64_t requested)
    HOLDS(pool->owner->arena->lock);

/* Count the sums that a cache has counted. This does not look at peaks: caches
 * report one after the other, and only the sum of all was ever true. */
void stats_flow(struct pool *pool, const struct sums *out,
    const struct sums *in) HOLDS(pool->owner->arena->lock);
void stats_note_peaks(struct tally *tally);
/* Note the peaks of an arena, and of its device. */
void stats_note_arena_peaks(struct arena *arena) HOLDS(arena->lock);

/* Move the counts of a live block to another stream. */
void stats_move(struct pool *from, struct pool *to, uint64_t size,
    uint64_t requested) HOLDS(from->owner->arena->lock);

/* Statistics of the type struct weir_stat, of an arena and its device. */
enum stat1 { STAT1_oversize_allocations, STAT1_oversize_segments };
void stats_change1(struct arena *arena, enum stat1 which, int delta)
    HOLDS(arena->lock);

/* Count a block that is allocated now. */
static inline QUICK void
stats_hand_out(const struct options *options, struct block *block)
    HOLDS(block->arena->lock)
{
	struct pool *pool = block->pool;

	lock_assert_held(&pool->owner->arena->lock);
	stats_malloc(pool, block->size, block->requested);
	block->oversize = block->size >= options->max_split_size;
	if (block->oversize) {
		stats_change1(block->arena, STAT1_oversize_allocations, 1);
		stats_add(&pool->owner->stats.oversize_allocations, 1);
	}
}

/* Uncount an oversize block that is freed now. */
static inline void
stats_take_back(struct block *block) HOLDS(block->arena->lock)
{
	if (!block->oversize)
		return;
	stats_change1(block->arena, STAT1_oversize_allocations, -1);
	stats_sub(&block->pool->owner->stats.oversize_allocations, 1);
}

/* Move the counts of a live block to another stream, oversize too. */
static inline void
stats_move_live(struct block *block, struct pool *to)
{
	struct pool *from = block->pool;

	lock_assert_held(&from->owner->arena->lock);
	stats_move(from, to, block->size, block->requested);
	if (block->oversize) {
		stats_sub(&from->owner->stats.oversize_allocations, 1);
		stats_add(&to->owner->stats.oversize_allocations, 1);
	}
}

/* Count a request of a heap for some bytes by the way in which it was served,
 * except SERVED_own. */
void stats_served(struct stream_heap *heap, enum served_by by, size_t bytes)
    HOLDS(heap->arena->lock);

/* The effect of a reset: peaks become the current values, or sums and counters
 * become 0. */
enum reset { RESET_PEAKS, RESET_SUMS };

/* Reset the statistics of an arena and of its streams; or of totals. */
void stats_reset(struct arena *arena, enum reset what) HOLDS(arena->lock);
void totals_reset(struct totals *totals, enum reset what);

/* Add plain counters, or make them 0. */
void stats_add_counters(struct weir_stats *to, const struct weir_stats *from);
void stats_zero_counters(struct weir_stats *stats);

/* Add the current values. */
void stats_add_current(struct weir_stats *to, const struct weir_stats *from);

/* Bytes of pending blocks, of an arena or of a heap. */
size_t stats_pending_bytes(const struct tally *tally);

#endif
