/*
 * Releases blocks that no cache takes.
 */
#include "allocator/request/release.h"

#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/view.h"

/* Make a block with uses pending. */
static void
release_later(struct block *block, uint64_t freed_at) HOLDS(block->arena->lock)
{
	ASSERT(block_state(block) == BLOCK_ACTIVE);
	ASSERT(block->pending.uses != NULL);
	lock_assert_held(&block->pool->owner->arena->lock);
	stats_free_pending(block->pool, block->size);
	block_set_state(block, BLOCK_PENDING);
	block->freed_at = freed_at;
	heap_add_pending(block->pool->owner, freed_at);
	block->pending.bytes = block->size;
	waiting_add(&block->arena->waiting, &block->pending);
}

/* Are all uses of a block over? In a capture: is the block's stream ordered
 * after them all? */
static bool
is_over(struct block *block, struct position place)
{
	if (__builtin_expect(block->pending.has_past, 0)) {
		use_drop_met(&block->arena->waiting, &block->pending);
		if (block->pending.uses == NULL)
			return true;
	}
	return place.capture != 0 && arena_is_kept(block->arena) &&
	    use_is_over(
		&block->pending, block->pool->owner->stream, place.capture);
}

bool
release_waits(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(
	    block->pending.uses != NULL && block_state(block) == BLOCK_ACTIVE);
	lock_assert_held(&block->pool->owner->arena->lock);
	struct position place = heap_position(block->pool->owner);

	if (!is_over(block, place)) {
		emit_free_requested(block);
		release_later(block, place.tick);
		return true;
	}
	use_clear(&block->arena->waiting, &block->pending);
	return false;
}

void
release_zones(struct block *block)
{
	struct block *front = block->prev;
	struct block *back = block->next;

	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(front) == BLOCK_GUARD &&
	    block_state(back) == BLOCK_GUARD);
	block->guarded = GUARD_NONE;
	lock_assert_held(&front->arena->lock);
	block_free(front);
	lock_assert_held(&back->arena->lock);
	block_free(back);
}

void
release_block(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_ACTIVE);
	release_with(block, tcache_for(block));
}
