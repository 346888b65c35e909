/*
 * Makes, retires and frees caches.
 */
#ifndef ALLOCATOR_CACHE_MAKE_H
#define ALLOCATOR_CACHE_MAKE_H

#include "allocator/cache/own.h"

/*
 * Begin a slow call of the calling thread for `heap`: report the counts of its
 * caches, and make a cache for the heap if it has none. Returns that cache.
 * NULL if there is no host memory, or the thread's cache for this heap keeps no
 * freed blocks.
 */
struct cache *tcache_enter_slow_with(
    struct stream_heap *heap, struct cache *cache) HOLDS(heap->arena->lock);

/* As tcache_enter_slow_with(), which is not called if no cache of the arena
 * keeps blocks, because there is nothing to report. `cache` is the result of
 * tcache_of(). */
static inline struct cache *
tcache_enter_slow(struct stream_heap *heap, struct cache *cache)
    HOLDS(heap->arena->lock)
{
	return cache != NULL && !cache->keeps &&
		heap->arena->cache.keeping == 0 ?
	    NULL :
	    tcache_enter_slow_with(heap, cache);
}

/* Begin with no caches; begin to count requests again, of an arena that goes
 * out of use. */
void tcache_begin(struct arena *arena);
void tcache_begin_again(struct arena *arena) HOLDS(arena->lock);

/* Report the counts of the calling thread's caches, without making one. */
void tcache_report_own(struct arena *arena) HOLDS(arena->lock);

/*
 * From now on no thread gets a cache for a stream for which `may_match` returns
 * true, on that thread and with an arena's lock held. There is one such
 * function, in route.c.
 */
void tcache_avoid(bool (*may_match)(const struct stream *stream));

/* Retire the caches of a stream (NULL: of all streams); with `own` only those
 * of the calling thread. */
void tcache_retire(struct arena *arena, const struct stream *stream, bool own)
    HOLDS(arena->lock);

/* Empty and retire the caches of a heap that ends. Of its depot, so many blocks
 * as a call may pay for: depot_empty_some() frees the others. */
void tcache_end(struct stream_heap *heap) HOLDS(heap->arena->lock);

/* Retire all caches of an arena whose context, and all blocks with it, is gone.
 */
void tcache_forget(struct arena *arena) HOLDS(arena->lock);

/* Free the caches of the calling thread, which ends. The caller holds no
 * lock. */
void tcache_thread_ends(void);

/* Empty and retire all caches, because options have changed. They are made
 * again when needed. The caller holds no lock. */
void tcache_refresh(void);

#endif
