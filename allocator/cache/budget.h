/*
 * What thread caches have counted, and when the statistics are told of it.
 *
 * A cache counts by itself what it hands out and takes back, as long as no peak
 * can be passed by it: it is given the room below the peaks, tells before it
 * would go beyond, and when its thread comes to the lock or somebody asks.
 *
 * For tcache.c. All under the arena's lock, but where it says otherwise; caches
 * are the calling thread's own, or stopped.
 */
#ifndef ALLOCATOR_CACHE_BUDGET_H
#define ALLOCATOR_CACHE_BUDGET_H

#include "allocator/cache/tcache.h"

/* By its links: in an arena's list, and in its owner's. */
static inline struct cache *
cache_of(struct list *link)
{
	return CONTAINER_OF(link, struct cache, link);
}

static inline struct cache *
own_of(struct list *link)
{
	return CONTAINER_OF(link, struct cache, own_link);
}

/* Is it one of the calling thread's, through ->own_link, that is in use and
 * counts? */
static inline bool
is_own(const struct cache *cache, const struct arena *arena)
{
	return cache->arena == arena && cache->keeps && tcache_is_alive(cache);
}

/* Frees since they were told: mallocs less what the room has fallen by. */
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

/* A cache tells. True if something has been allocated: the caller looks at the
 * arena's peaks when all that is to be told has been. */
bool counts_tell(struct cache *cache);

/* The frees that magazines have brought to a depot are told. */
void counts_tell_depot(struct pools *pools);

/* All depots and caches tell; they are stopped. */
void counts_tell_all(struct arena *arena);

/*
 * The calling thread's caches tell. Then the one in use is given all the room
 * below the peaks that the others do not have, so that together they cannot
 * pass a peak unseen; or, if they have most of it, it is shared out anew. Room
 * that another thread has is not taken into account: a peak may be missed by
 * that.
 *
 * @param used  NULL: none is in use
 */
void counts_tell_own(struct arena *arena, struct cache *used);

/* The same for a cache of the calling thread's that has passed a peak. Takes
 * the lock. */
void counts_tell_peak(struct cache *cache);

#endif
