/*
 * Complete memory of no stream that a thread keeps whole: tcache.h, Note
 * [Complete memory]. Under the arena's lock.
 */
#ifndef ALLOCATOR_CACHE_COMPLETE_H
#define ALLOCATOR_CACHE_COMPLETE_H

#include "allocator/cache/types.h"

/* Is there complete memory of a size in a cache of the calling thread? */
bool tcache_has_complete(const struct cache *cache, size_t rounded);

/* The calling thread's complete memory, Note [Complete memory]: keep a complete
 * block of no stream for a request of its size, or return false; take one of
 * that size, ACTIVE, or NULL; give all back to the pool, false if there was
 * none. */
bool tcache_keep_complete(struct block *block);
struct block *tcache_take_complete(
    const struct stream_heap *heap, size_t rounded);
bool tcache_settle_complete(const struct stream_heap *heap);

#endif
