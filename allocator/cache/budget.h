/*
 * Counts of thread caches, and when they are reported to the statistics.
 *
 * A cache counts by itself what it hands out and takes back, as long as that
 * cannot pass a peak. For this it is given a share of the room below the peaks.
 * It reports before it would use more than that, when its thread takes the
 * arena's lock, and when somebody asks.
 *
 * A report of a thread looks at the caches that are awake. One that has counted
 * nothing since the report before gives its room back and dozes: it keeps its
 * blocks, but the hit paths do not find it. Its thread takes blocks from it and
 * puts blocks into it by the slower way. To hand out a block it needs room, and
 * the report for that opens it to the hit paths again. A block that is put into
 * it brings room, and counts it among those that are awake; the second one
 * between two reports opens it, too. So a report costs what was used, however
 * many streams the thread allocates on.
 *
 * For tcache.c. All under the arena's lock, but where it says otherwise; caches
 * are the calling thread's own, or stopped.
 */
#ifndef ALLOCATOR_CACHE_BUDGET_H
#define ALLOCATOR_CACHE_BUDGET_H

#include "allocator/cache/own.h"

/* Is a cache in use, and counts? */
static inline bool
is_counting(const struct cache *cache)
{
	return cache->keeps && tcache_is_alive(cache);
}

/* Is it one of the calling thread's, through ->own_link, that is in use and
 * counts? */
static inline bool
is_own(const struct cache *cache, const struct arena *arena)
{
	return cache->arena == arena && is_counting(cache);
}

/* Frees since the last report: the mallocs, less what the room has fallen by.
 */
static inline struct sums
counts_frees(const struct cache *cache)
{
	return sums_minus(
	    cache->out, sums_minus(cache->room_given, cache->room));
}

static inline void
counts_give_room(struct cache *cache, struct sums room)
{
	cache->room = room;
	cache->room_given = room;
}

/* Has it anything to report, itself or in a depot? */
static inline bool
counts_has_news(const struct cache *cache)
{
	/* Without a branch for each, since mostly there is nothing. */
	return (cache->brought | cache->out.count |
		   (cache->room.count ^ cache->room_given.count)) != 0;
}

/* Report the counts of a cache. True if it has allocated anything: the caller
 * then notes the arena's peaks, after the last of its reports. */
bool counts_tell(struct cache *cache);

/* Report the frees that magazines have brought to a depot. */
void counts_tell_depot(struct stream_heap *heap);

/* Report the counts of all depots and caches; they are stopped. */
void counts_tell_all(struct arena *arena);

/*
 * Report the counts of the calling thread's caches. Then give the one in use
 * all the room below the peaks that the thread's others do not have, so that
 * together they cannot pass a peak unseen; if they have most of it, divide it
 * anew. Room of other threads is not counted: their caches together may pass a
 * peak by that much unseen.
 *
 * @param used  NULL: none is in use
 */
void counts_tell_own(struct arena *arena, struct cache *used);

/* A cache of the calling thread that may doze has counted something: the next
 * report looks at it. */
void counts_note_awake(struct cache *cache);

/* One that dozes has taken a block in: as above; after the second time it is
 * awake. Takes the lock. */
void counts_stir(struct cache *cache);

/* Report as above when a cache of the calling thread would pass a peak. Takes
 * the lock. */
void counts_tell_peak(struct cache *cache);

/* The calling thread is about to allocate in another arena of the device:
 * report the counts of its caches and take their room, so that they compare
 * with the peaks again before they hand out more. Takes the lock. */
void tcache_come_elsewhere(struct arena *main);

#endif
