/*
 * Frees a block: puts it into the pool that it belongs to by now, with its free
 * tick.
 */
#ifndef ALLOCATOR_FENCES_FREE_H
#define ALLOCATOR_FENCES_FREE_H

#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/view.h"

/* Free a block whose free tick is set already. */
static inline void
block_free_since(struct block *block) HOLDS(block->arena->lock)
{
	struct stream_heap *owner = block->pool->owner;
	struct stream_heap *home = owner;

	if (__builtin_expect(owner->completed, 0)) {
		home = block->arena->memory.any_heap;
		block_move(block, &home->pool[block->pool->kind]);
	}
	if (home->freed_at < block->freed_at)
		home->freed_at = block->freed_at;
	lock_assert_held(&home->arena->lock);
	fences_note(home, block->size);
	if (block->arena->memory.several || block->arena->memory.lends)
		block_set_epoch(block);
	block_put_free(block);
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
}

/* Free a block with the stream's present position as its free tick. */
static inline void
block_free(struct block *block) HOLDS(block->arena->lock)
{
	lock_assert_held(&block->pool->owner->arena->lock);
	block->freed_at = heap_position(block->pool->owner).tick;
	block_free_since(block);
}

#endif
