/*
 * Releases blocks that no cache takes: a block becomes free, or pending if
 * other streams use it.
 */
#ifndef ALLOCATOR_REQUEST_RELEASE_H
#define ALLOCATOR_REQUEST_RELEASE_H

#include "allocator/account/counters.h"
#include "allocator/cache/drain.h"
#include "allocator/cache/make.h"
#include "allocator/cache/refill.h"
#include "allocator/fences/free.h"
#include "allocator/memory/emit.h"

/* Release a live block. */
void release_block(struct block *block) HOLDS(block->arena->lock);

/* Release a block with uses. True if they hold it back, and it is pending now;
 * false if they are over, and the caller goes on. */
bool release_waits(struct block *block) HOLDS(block->arena->lock);

/* Free the guard zones around a block. */
void release_zones(struct block *block) HOLDS(block->arena->lock);

/* As release_block(). `guess` may be the thread's cache for the block. */
static inline QUICK void
release_with(struct block *block, struct cache *guess) HOLDS(block->arena->lock)
{
	struct pool *pool = block->pool;

	lock_assert_held(&pool->owner->arena->lock);
	struct cache *cache =
	    tcache_enter_slow(pool->owner, tcache_of_guess(pool->owner, guess));
	tcache_flush(cache);
	if (__builtin_expect(block->guarded != GUARD_NONE, 0))
		release_zones(block);
	stats_take_back(block);
	if (block->pending.uses != NULL && release_waits(block))
		return;
	emit_freed(block);
	stats_free(pool, block->size, block->requested);
	tcache_account_free(cache, block);
	block_free(block);
}

#endif
