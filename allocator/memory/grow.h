/*
 * Gets memory for a pool: segment.h, Note [Growing].
 */
#ifndef ALLOCATOR_MEMORY_GROW_H
#define ALLOCATOR_MEMORY_GROW_H

#include "allocator/state.h"

/* The memory that pool_grow() may map. */
enum grow_how {
	GROW_MOVED, /* usable free memory from elsewhere only */
	GROW_MIXED, /* such memory in handles that are not far too large, and
		       new */
	GROW_NEW,   /* new memory only */
	GROW_EXACT, /* any of it */
};

/*
 * Get memory into a pool so that a block of `rounded` bytes fits. Releases the
 * lock in between, so another thread may allocate the memory first.
 *
 * @param view the request's: free memory that it may use may be moved
 * @param need on WEIR_ENOMEM: the bytes missing under the limit or in the
 * device
 * @return WEIR_ENOMEM; WEIR_EHOSTMEM; WEIR_EDRIVER. Nothing has changed then.
 */
enum weir_status pool_grow(struct view *view, struct pool *pool,
    const struct options *options, size_t rounded, enum grow_how how,
    size_t *need) HOLDS(pool->owner->arena->lock);

/* Get new memory of `size` bytes into a pool before any request needs it.
 * Releases the lock in between. Fails as pool_grow(). */
enum weir_status pool_prepare(struct pool *pool, const struct options *options,
    size_t size) HOLDS(pool->owner->arena->lock);

#endif
