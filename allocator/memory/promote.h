/*
 * Moves free blocks that have become complete to the heap of WEIR_STREAM_ANY.
 */
#ifndef ALLOCATOR_MEMORY_PROMOTE_H
#define ALLOCATOR_MEMORY_PROMOTE_H

#include "allocator/memory/tuning.h"
#include "allocator/state.h"

/* Are complete blocks of this arena moved? Only in a device's own arena, and
 * while it is not kept: requests to other arenas must get their addresses again
 * after a restoration. */
static inline bool
arena_promotes(const struct arena *arena)
{
	return arena == arena->main && arena->memory.kept == 0;
}

/* From now on a second stream, or device-scope requests, may use the arena's
 * memory. */
void arena_begin_several(struct arena *arena) HOLDS(arena->lock);

/* Move a portion of the blocks that are complete, mostly all of them, or sets
 * arena->memory.behind; move all of them. */
void arena_promote(struct arena *arena) HOLDS(arena->lock);
void arena_promote_all(struct arena *arena) HOLDS(arena->lock);

/* Move free blocks of a heap whose stream has ended and is done, the largest
 * runs first, until *left blocks are moved, which *left is lowered by. */
void heap_empty_some(struct stream_heap *heap, size_t *left)
    HOLDS(heap->arena->lock);

#endif
