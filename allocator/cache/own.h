/*
 * The calling thread's table of caches.
 */
#ifndef ALLOCATOR_CACHE_OWN_H
#define ALLOCATOR_CACHE_OWN_H

#include "allocator/cache/types.h"

/* Its address names no stream. It is the key of caches that are closed to the
 * hit paths. */
extern char tcache_no_stream;
#define NOBODY ((weir_stream)(void *)&tcache_no_stream)

/* Hidden symbols, so that other units reach them without an indirection. */
#pragma GCC visibility push(hidden)
extern _Thread_local struct tcache *tcache_own; /* or tcache_nobody */
extern struct tcache tcache_nobody;
extern bool tcache_asymmetric; /* membarrier() works */
#pragma GCC visibility pop

/* Find out whether membarrier() works. The first table of a thread does so. */
void tcache_prepare(void);

/* The calling thread's table, made if need be; tcache_nobody if there is no
 * host memory. */
struct tcache *tcache_make_own(void);

/* Make every running thread of the process pass a memory barrier. Does nothing
 * without tcache_asymmetric. */
void tcache_barrier(void);

/* The keys of caches for default streams of a primary context, by handle. */
extern char tcache_primary_keys[3];

static inline QUICK weir_stream
tcache_primary_key(weir_stream handle)
{
	return (weir_stream)(void *)&tcache_primary_keys[(uintptr_t)handle];
}

/* Open a cache to the hit paths, as far as its mode allows and unless it is
 * idle. Both functions are called under the arena's lock. */
void cache_open(struct cache *cache) HOLDS(cache->arena->lock);

/* Close a cache to its owner, once the owner has left it. */
void cache_close(struct cache *cache) HOLDS(cache->arena->lock);

/* The place of a stream's key in a table. */
static inline unsigned
tcache_way(weir_stream handle)
{
	uint32_t hash = (uint32_t)(uintptr_t)handle * UINT32_C(0x9e3779b1);

	return hash >> 26;
}

static inline bool
tcache_is_alive(const struct cache *cache)
{
	return !atomic_load_explicit(&cache->dead, memory_order_acquire);
}

/* The calling thread's cache for this heap, or NULL. */
static inline struct cache *
tcache_of(const struct stream_heap *heap)
{
	struct cache *cache = tcache_own->by_heap[heap->index % TCACHE_WAYS];
	return cache->pool[POOL_SMALL] == &heap->pool[POOL_SMALL] ? cache :
								    NULL;
}

/* As tcache_of(). `guess` may be that cache. */
static inline struct cache *
tcache_of_guess(const struct stream_heap *heap, struct cache *guess)
{
	return guess->pool[POOL_SMALL] == &heap->pool[POOL_SMALL] ?
	    guess :
	    tcache_of(heap);
}

/* The large requests that the thread's caches have served since the last
 * call. */
static inline uint64_t
tcache_take_large_hits(void)
{
	struct tcache *t = tcache_own;
	uint64_t hits = t->large_hits;

	if (hits > 0) /* tcache_nobody is never written */
		t->large_hits = 0;
	return hits;
}

/* Note that the bin of a class has magazines. */
static inline void
cache_note_bin(struct cache *cache, size_t n)
{
	cache->made[n / 64] |= (uint64_t)1 << n % 64;
}

/* The first class from `n` on whose bin has magazines; above TCACHE_CLASSES if
 * there is none. */
static inline size_t
cache_next_bin(const struct cache *cache, size_t n)
{
	for (; n <= TCACHE_CLASSES; n = (n / 64 + 1) * 64) {
		uint64_t bits = cache->made[n / 64] >> n % 64;
		if (bits != 0)
			return n + (size_t)__builtin_ctzll(bits);
	}
	return n;
}

/* A cache by its links: in its arena's list, in its owner's list, and in the
 * list of caches that are awake. */
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

static inline struct cache *
awake_of(struct list *link)
{
	return CONTAINER_OF(link, struct cache, awake);
}

#endif
