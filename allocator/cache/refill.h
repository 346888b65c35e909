/*
 * Blocks between the pool and a cache, one by one and several at once. Under
 * the arena's lock.
 */
#ifndef ALLOCATOR_CACHE_REFILL_H
#define ALLOCATOR_CACHE_REFILL_H

#include "allocator/cache/types.h"

/* Account for a block that bypassed the cache: the pool handed it out to the
 * calling thread, or took it back. The cache's room shrinks or grows by it. If
 * the bin of its class is full, a magazine of it follows to the pool. NULL: the
 * thread has no cache for the block. */
static inline void tcache_went_out(
    struct cache *cache, const struct block *block);
static inline void tcache_came_in(
    struct cache *cache, const struct block *block);

/* The slow halves of the above; NULL does not come in. */
void tcache_take_out(struct cache *cache, const struct block *block);
void tcache_take_in(struct cache *cache, const struct block *block);

static inline void
tcache_went_out(struct cache *cache, const struct block *block)
{
	/* Else no cache was given room. */
	if (block->arena->keeping > 0)
		tcache_take_out(cache, block);
}

static inline void
tcache_came_in(struct cache *cache, const struct block *block)
{
	if (cache != NULL)
		tcache_take_in(cache, block);
}

/* The pools have served the calling thread's request for a class. If that
 * happens often, and other threads free what this one allocates, move more
 * blocks of the class into the cache. NULL does nothing. */
void tcache_refill_bin(
    struct cache *cache, const struct options *options, size_t rounded);

static inline void
tcache_refill(
    struct cache *cache, const struct options *options, size_t rounded)
{
	if (cache != NULL && cache->handed_over)
		tcache_refill_bin(cache, options, rounded);
}

#endif
