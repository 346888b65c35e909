/*
 * Keeps complete device-scope blocks of a thread: tcache.h, Note [Complete
 * memory].
 */
#ifndef ALLOCATOR_CACHE_COMPLETE_H
#define ALLOCATOR_CACHE_COMPLETE_H

#include "allocator/cache/types.h"

/* Has a cache of the calling thread a complete block of a size? */
bool tcache_has_complete(const struct cache *cache, size_t rounded);

/* The calling thread's complete blocks. Keep a block for a request of its size;
 * false: not kept. Allocate a block of a size, which becomes ACTIVE, or NULL.
 * Give all back to the pool; false: there was none. */
bool tcache_keep_complete(struct block *block) HOLDS(block->arena->lock);
struct block *tcache_take_complete(
    const struct stream_heap *heap, size_t rounded) HOLDS(heap->arena->lock);
bool tcache_flush_complete(const struct stream_heap *heap)
    HOLDS(heap->arena->lock);

#endif
