/*
 * Accounts for blocks that bypass a cache, and fills bins from the pool.
 */
#ifndef ALLOCATOR_CACHE_REFILL_H
#define ALLOCATOR_CACHE_REFILL_H

#include "allocator/cache/types.h"

/* Account for a block that bypassed the cache: the pool allocated it for the
 * calling thread, or freed it. The cache's budget falls or rises by it. A free
 * also empties a magazine of its class into the pool if the bin is full. NULL:
 * the thread has no cache for the block. */
static inline void tcache_account_alloc(
    struct cache *cache, const struct block *block) HOLDS(block->arena->lock);
static inline void tcache_account_free(
    struct cache *cache, const struct block *block) HOLDS(block->arena->lock);

/* The slow paths of these functions; the second is not called with NULL. */
void tcache_account_alloc_slow(struct cache *cache, const struct block *block)
    HOLDS(block->arena->lock);
void tcache_account_free_slow(struct cache *cache, const struct block *block)
    HOLDS(block->arena->lock);

static inline void
tcache_account_alloc(struct cache *cache, const struct block *block)
{
	/* Otherwise no cache has a budget. */
	if (block->arena->cache.keeping > 0)
		tcache_account_alloc_slow(cache, block);
}

static inline void
tcache_account_free(struct cache *cache, const struct block *block)
{
	if (cache != NULL)
		tcache_account_free_slow(cache, block);
}

/* The pool has served a request of the calling thread for a class. If that
 * happens often, move more blocks of the class into the cache. tcache_refill()
 * calls it if other threads free the blocks that this thread allocates. NULL
 * does nothing. */
void tcache_refill_bin(struct cache *cache, const struct options *options,
    size_t rounded) HOLDS(cache->arena->lock);

static inline void
tcache_refill(
    struct cache *cache, const struct options *options, size_t rounded)
{
	if (cache != NULL && cache->handed_over) {
		lock_assert_held(&cache->arena->lock);
		tcache_refill_bin(cache, options, rounded);
	}
}

/* Count requests that the pools serve, or whose blocks a cache gets ahead. */
static inline void
tcache_count_served(struct arena *arena, uint64_t n) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->cache.served += n;
}

#endif
