/*
 * Drains caches and depots into the pools.
 */
#ifndef ALLOCATOR_CACHE_DRAIN_H
#define ALLOCATOR_CACHE_DRAIN_H

#include "allocator/cache/slots.h"
#include "allocator/cache/types.h"

/* Drain a cache, which is stopped or the caller's; all depots of an arena. True
 * if there was any block. */
bool cache_empty(struct cache *cache) HOLDS(cache->arena->lock);
bool depots_empty(struct arena *arena) HOLDS(arena->lock);

/* Drain the depot of a heap, until *most blocks or a few more are freed, which
 * *most is lowered by. True if there was any. The heap stays. */
bool depot_empty_some(struct stream_heap *heap, size_t *most)
    HOLDS(heap->arena->lock);

/* Drain all caches and depots of an arena into the pools; or only idle blocks,
 * for a request to this pool: of its stream or, with `widely`, of all streams.
 * tcache.h, Note [What is in use stays]. True if there was any block. */
bool tcache_drain(struct arena *arena) HOLDS(arena->lock);
bool tcache_drain_idle(const struct pool *pool, bool widely)
    HOLDS(pool->owner->arena->lock);

/* Bytes in the caches and the depot of a heap, which are stopped, for
 * weir_check(). */
size_t tcache_bytes(const struct stream_heap *heap) HOLDS(heap->arena->lock);

#endif
