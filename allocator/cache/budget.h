/*
 * The statistics of thread caches: each counts within a budget, and reports.
 *
 * A cache counts the blocks that it allocates and frees by itself, as long as
 * it cannot pass a peak of the statistics unseen. For this it has a budget,
 * `budget`: a share of the distance below the peaks. It reports before it would
 * exceed the budget, when its thread takes the arena's lock, and when a caller
 * asks for statistics.
 *
 * A report of a thread looks only at its caches that are awake. A cache that
 * has counted nothing since the report before gives its budget back and is
 * idle: it keeps its blocks, but the hit paths do not find it. Its thread
 * allocates from it and frees into it by the slow path. To allocate it needs a
 * budget, and the report for that opens it to the hit paths again. A free into
 * it raises its budget and counts it among the caches that are awake; the
 * second free between two reports opens it too. Thus the cost of a report
 * follows the caches in use, however many streams the thread allocates on.
 *
 * These functions are for the files of allocator/cache. They are called under
 * the arena's lock unless a comment says otherwise, and on caches of the
 * calling thread or stopped ones.
 */
#ifndef ALLOCATOR_CACHE_BUDGET_H
#define ALLOCATOR_CACHE_BUDGET_H

#include "allocator/cache/own.h"

/* Is the cache in use, and does it keep blocks? */
static inline bool
is_counting(const struct cache *cache)
{
	return cache->keeps && tcache_is_alive(cache);
}

/* Is the cache, one of the calling thread's, of this arena, and does it
 * count? */
static inline bool
counts_own(const struct cache *cache, const struct arena *arena)
{
	return cache->arena == arena && is_counting(cache);
}

/* The frees since the last report: the mallocs, less the fall of the budget. */
static inline struct sums
counts_frees(const struct cache *cache)
{
	return sums_minus(
	    cache->out, sums_minus(cache->budget_given, cache->budget));
}

static inline void
counts_set_budget(struct cache *cache, struct sums budget)
{
	cache->budget = budget;
	cache->budget_given = budget;
}

/* Has the cache anything to report, itself or in its depot? */
static inline bool
counts_has_unreported(const struct cache *cache)
{
	/* One branch for all three, because mostly there is nothing. */
	return (cache->brought | cache->out.count |
		   (cache->budget.count ^ cache->budget_given.count)) != 0;
}

/* Report the counts of a cache. True if it has allocated anything: after its
 * last report the caller then notes the arena's peaks. */
bool counts_report(struct cache *cache) HOLDS(cache->arena->lock);

/* Report the frees that magazines have brought to a heap's depot. */
void counts_report_depot(struct stream_heap *heap) HOLDS(heap->arena->lock);

/* Report the counts of all depots and caches, which are stopped. */
void counts_report_all(struct arena *arena) HOLDS(arena->lock);

/*
 * Report the counts of the calling thread's caches. Then give `used` the whole
 * distance below the peaks that the thread's other caches do not have, so that
 * together they cannot pass a peak unseen. If the others have most of it,
 * divide it again. Budgets of other threads are not subtracted: caches of
 * several threads may together pass a peak by that much unseen.
 *
 * @param used  the cache of the present call; NULL: none
 */
void counts_report_own(struct arena *arena, struct cache *used)
    HOLDS(arena->lock);

/* Note that a cache of the calling thread, which may be idle, has counted
 * something, so that the next report looks at it. */
void counts_note_awake(struct cache *cache);

/* Note that an idle cache has taken a block in. The second time it wakes.
 * Takes the lock. */
void counts_stir(struct cache *cache);

/* As counts_report_own(), when a cache of the calling thread would pass a peak.
 * Takes the lock. */
void counts_report_peak(struct cache *cache);

/* The calling thread is about to allocate in another arena of the device.
 * Report the counts of its caches and take their budgets, so that they report
 * again before they allocate more. Takes the lock. */
void tcache_enter_elsewhere(struct arena *main);

#endif
