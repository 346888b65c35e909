/*
 * The live block that a caller's address names, or what is wrong with it.
 */
#ifndef ALLOCATOR_API_FIND_H
#define ALLOCATOR_API_FIND_H

#include "allocator/memory/block.h"

static inline CUdeviceptr
address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* Under its arena's lock. */
static inline bool
block_is_live(const struct block *block)
{
	return block->segment != NULL && block_state(block) == BLOCK_ACTIVE;
}

/* The live block that starts at an address, with its arena's lock taken; or
 * NULL, with none. `block` was looked up without the lock, or is NULL: a struct
 * block is never freed, so it is checked again under the lock. */
static inline QUICK struct block *
find_lock(struct block *block, const void *ptr) UNCHECKED
{
	if (block == NULL)
		return NULL;
	struct arena *arena = block->arena;
	lock_enter(&arena->lock);
	if (block->addr == address(ptr) && block_is_live(block))
		return block;
	lock_leave(&arena->lock);
	return NULL;
}

/* The live block that starts at an address, or that holds it, with its arena's
 * lock taken; or NULL, with none. */
struct block *find_exact_locked(const void *ptr);
struct block *find_locked(const void *ptr);

/* Set the status that says why an address cannot be freed by a call. */
enum weir_status find_refuse(const char *call, const void *ptr);

#endif
