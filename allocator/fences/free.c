/*
 * A block becomes free: it joins the pool it belongs in by now, with the tick
 * of the free as its fence.
 */
#include "allocator/fences/free.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/view.h"

static inline QUICK void
put_since(struct block *block)
{
	struct pools *owner = block->pool->owner;

	block_move(block, block_home(block));
	struct pools *home = block->pool->owner;
	if (home->freed_at < block->freed_at)
		home->freed_at = block->freed_at;
	home->freed_bytes += block->size;
	if (block->arena->several)
		block_set_fence(block);
	block_put(block, BLOCK_FREE);
	pools_drop_if_done(owner);
}

void
block_free_since(struct block *block)
{
	put_since(block);
}

void
block_free(struct block *block)
{
	block->freed_at = pools_position(block->pool->owner).tick;
	put_since(block);
}
