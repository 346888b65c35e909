/*
 * Stops caches: tcache.h, Note [Stopping a cache].
 */
#ifndef ALLOCATOR_CACHE_STOP_H
#define ALLOCATOR_CACHE_STOP_H

#include "allocator/cache/types.h"

/* Stop the caches of a heap, or all of the arena (NULL), of other threads.
 * Their owners are out when this returns. */
void caches_stop(struct arena *arena, const struct stream_heap *heap)
    HOLDS(arena->lock);

/* tcache_stop(): stop all caches and report all counts. tcache_go(): let the
 * owners in again. */
void tcache_stop(struct arena *arena) HOLDS(arena->lock);
void tcache_go(struct arena *arena) HOLDS(arena->lock);

/* Make all caches report their counts to the statistics. */
void tcache_report(struct arena *arena) HOLDS(arena->lock);

#endif
