/*
 * The end of every free that no cache takes: the block is free, or pending if
 * it is used on other streams. Under the arena's lock.
 */
#ifndef ALLOCATOR_REQUEST_RELEASE_H
#define ALLOCATOR_REQUEST_RELEASE_H

#include "allocator/cache/drain.h"
#include "allocator/cache/make.h"
#include "allocator/cache/refill.h"
#include "allocator/fences/free.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"

/* End the life of a live block. */
void release_block(struct block *block);

/* A block has uses. True if they hold it back: it is pending from now on. */
bool release_waits(struct block *block);

/* A block lies between guard zones, which are free memory from now on. */
void release_zones(struct block *block);

/* As release_block(), where `guess` may be the thread's cache for the block. */
static inline QUICK void
release_with(struct block *block, struct cache *guess)
{
	struct pool *pool = block->pool;
	struct cache *cache =
	    tcache_come(pool->owner, tcache_of_guess(pool->owner, guess));

	tcache_settle(cache);
	if (__builtin_expect(block->guarded != GUARD_NONE, 0))
		release_zones(block);
	stats_take_back(block);
	if (block->pending.uses != NULL && release_waits(block))
		return;
	tell_freed(block);
	stats_free(pool, block->size, block->requested);
	tcache_came_in(cache, block);
	block_free(block);
}

#endif
