/*
 * Finds the live block that a caller's address names, or the reason why there
 * is none.
 */
#ifndef ALLOCATOR_API_FIND_H
#define ALLOCATOR_API_FIND_H

#include "allocator/memory/block.h"

static inline CUdeviceptr
address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* Is the block in use? */
static inline bool
block_is_live(const struct block *block) HOLDS(block->arena->lock)
{
	return block->segment != NULL && block_state(block) == BLOCK_ACTIVE;
}

/* Return the live block that starts at an address, with its arena's lock taken;
 * or NULL, with no lock. `block` is the result of a lookup without the lock, or
 * NULL. It is checked again under the lock: a struct block is never freed, so
 * that it can be read. The caller calls lock_take_over(). */
static inline QUICK struct block *
find_lock(struct block *block, const void *ptr)
{
	if (block == NULL)
		return NULL;
	struct arena *arena = block->arena;
	lock_enter(&arena->lock);
	lock_assert_held(&block->arena->lock);
	if (block->addr == address(ptr) && block_is_live(block)) {
		lock_hand_over(&arena->lock);
		return block;
	}
	lock_leave(&arena->lock);
	return NULL;
}

/* Return the live block that starts at an address, or, the second, that
 * contains it, with its arena's lock taken; or NULL, with no lock. The caller
 * calls lock_take_over(). */
struct block *find_exact_locked(const void *ptr);
struct block *find_locked(const void *ptr);

/* Set the status to the reason why `call` cannot free an address. */
enum weir_status find_refuse(const char *call, const void *ptr);

#endif
