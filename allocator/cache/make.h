/*
 * Caches are made, retired and freed.
 */
#ifndef ALLOCATOR_CACHE_MAKE_H
#define ALLOCATOR_CACHE_MAKE_H

#include "allocator/cache/own.h"

/*
 * Begin a slow call of the calling thread for `pools`: report the counts of its
 * caches, and make it a cache for the pools if it has none. Returns that cache.
 * NULL if there is no host memory, or the thread's cache for these pools keeps
 * no blocks.
 */
struct cache *tcache_come_with(struct stream_heap *heap, struct cache *cache);

/* As tcache_come_with(), which is not called where no cache keeps blocks: there
 * is nothing to report. `cache` is the result of tcache_of(). */
static inline struct cache *
tcache_come(struct stream_heap *heap, struct cache *cache)
{
	return cache != NULL && !cache->keeps && heap->arena->keeping == 0 ?
	    NULL :
	    tcache_come_with(heap, cache);
}

/* Report the counts of the calling thread's caches; none is made. */
void tcache_tell_news(struct arena *arena);

/*
 * From now on no thread gets a cache for a stream that `may_match` says yes to,
 * on the thread that asks, with an arena's lock held. There is one such
 * function; route.c has it.
 */
void tcache_avoid(bool (*may_match)(const struct stream *stream));

/* Take caches out of use: those of a stream (NULL: all), or of them only the
 * calling thread's own. Under the arena's lock. */
void tcache_retire(struct arena *arena, const struct stream *stream, bool own);

/* The pools end: empty their caches and retire them. Under the arena's lock. */
void tcache_end(struct stream_heap *heap);

/* The context is gone, and all blocks with it. Under the arena's lock. */
void tcache_forget(struct arena *arena);

/* The calling thread ends. Holds no lock. */
void tcache_thread_ends(void);

/* Options have changed: empty all caches; they are made anew when needed. Holds
 * no lock. */
void tcache_renew(void);

#endif
