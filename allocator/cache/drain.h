/*
 * Draining caches and depots into the pools. Under the arena's lock.
 */
#ifndef ALLOCATOR_CACHE_DRAIN_H
#define ALLOCATOR_CACHE_DRAIN_H

#include "allocator/cache/types.h"

/* Free a block of a cache or depot. If another thread has freed it, too, the
 * second free is no longer counted. */
void cache_put_back(
    struct stream_heap *heap, struct block *block, size_t bytes);

/* Drain a cache that is stopped or the caller's; a depot; all depots of an
 * arena. True if there was anything. */
bool cache_empty(struct cache *cache);
bool depot_empty(struct stream_heap *heap, enum drain which);
bool depots_empty(struct arena *arena);

/* Give the blocks in the slots back to the pool, so that a request that goes to
 * the pool finds them there. NULL does nothing. */
bool tcache_empty_slots(struct cache *cache); /* were there any? */
static inline void
tcache_settle(struct cache *cache)
{
	if (cache != NULL && cache->slots > 0)
		tcache_empty_slots(cache);
}

/* Drain all caches and depots of an arena into the pools; or only what is idle,
 * for a request to this pool: of its stream, or, `widely`, of all streams.
 * tcache.h, Note [What is in use stays]. True if there was anything. */
bool tcache_drain(struct arena *arena);
bool tcache_drain_idle(const struct pool *pool, bool widely);

/* Bytes in caches and depots of these pools, for weir_check(); stopped. */
size_t tcache_bytes(const struct stream_heap *heap);

#endif
