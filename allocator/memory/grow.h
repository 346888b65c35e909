/*
 * More memory for a pool: segment.h, Note [Growing].
 */
#ifndef ALLOCATOR_MEMORY_GROW_H
#define ALLOCATOR_MEMORY_GROW_H

#include "allocator/memory/types.h"

/* The memory that growing may map. */
enum grow_how {
	GROW_MOVED, /* what is free elsewhere and may be used already, only */
	GROW_MIXED, /* that, where it is no far larger, and new memory */
	GROW_NEW,   /* new memory only */
	GROW_EXACT, /* whatever there is */
};

/*
 * Get memory into a pool so that a block of `rounded` bytes fits. Leaves the
 * lock in between, so another thread may be faster to take it.
 *
 * @param view  of the request: free memory that may be moved for it
 * @param need  on WEIR_ENOMEM: bytes that are missing under the limit or in
 *              the device
 * @return WEIR_ENOMEM; WEIR_EHOSTMEM; WEIR_EDRIVER. Nothing has changed then.
 */
enum weir_status pool_grow(struct view *view, struct pool *pool,
    const struct options *options, size_t rounded, enum grow_how how,
    size_t *need);

#endif
