/*
 * Blocks on their way from a cache to the pools, one by one, and the larger
 * ones in its slots.
 */
#ifndef ALLOCATOR_CACHE_SLOTS_H
#define ALLOCATOR_CACHE_SLOTS_H

#include "allocator/cache/types.h"

/* Free a block of a cache or depot. If another thread has freed it, too, the
 * second free is no longer counted. */
void cache_free_block(struct stream_heap *heap, struct block *block,
    size_t bytes) HOLDS(heap->arena->lock);

/* Give the blocks in the slots back to the pool, so that a request that goes to
 * the pool finds them there. Were there any? tcache_flush(NULL) does nothing.
 */
bool tcache_empty_slots(struct cache *cache) HOLDS(cache->arena->lock);
static inline void
tcache_flush(struct cache *cache)
{
	if (cache != NULL && cache->slots > 0) {
		lock_assert_held(&cache->arena->lock);
		tcache_empty_slots(cache);
	}
}

#endif
