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

/* The addresses that pool_grow_at() fills, within a range of
 * pool_reserve_places(). */
struct grow_at {
	CUdeviceptr addr;
	size_t size;
	size_t request;  /* new handles are as for one of this size */
	size_t new_most; /* bytes of new memory, at most */
	size_t mapped;   /* the result: bytes that came to be mapped */
};

/*
 * Map what the addresses lack, with memory as for pool_grow(). Releases the
 * lock in between.
 *
 * @return as pool_grow(); also WEIR_ENOMEM: some of the addresses are in use,
 *         or the request may not use them without a wait; or more new memory
 *         is needed than allowed
 */
enum weir_status pool_grow_at(struct view *view, struct pool *pool,
    const struct options *options, struct grow_at *at, enum grow_how how)
    HOLDS(pool->owner->arena->lock);

/*
 * Reserve a range of addresses that is mapped by pool_grow_at() only. Its free
 * memory is like any other. The addresses stay reserved while no memory is
 * there, until arena_open_places().
 *
 * @return WEIR_ENOMEM, WEIR_EHOSTMEM, WEIR_EDRIVER; also WEIR_ENOMEM: the pool
 *         maps no memory
 */
enum weir_status pool_reserve_places(struct pool *pool,
    const struct options *options, size_t bytes, CUdeviceptr *out)
    HOLDS(pool->owner->arena->lock);

/* From now on the range is like any other of the arena. `addr` is its start;
 * one that is gone already is ignored. */
void arena_open_places(struct arena *arena, CUdeviceptr addr)
    HOLDS(arena->lock);

/* Does free memory of such ranges stay there from now on, but for a request
 * that would fail otherwise? */
void arena_keep_places(struct arena *arena, bool stays) HOLDS(arena->lock);

/* Get new memory of `size` bytes into a pool before any request needs it.
 * Releases the lock in between. Fails as pool_grow(). */
enum weir_status pool_prepare(struct pool *pool, const struct options *options,
    size_t size) HOLDS(pool->owner->arena->lock);

#endif
