/*
 * Enters the starts of an arena's blocks into the address table, mostly by the
 * leaf of the latest start.
 */
#ifndef ALLOCATOR_MEMORY_STARTS_H
#define ALLOCATOR_MEMORY_STARTS_H

#include "allocator/state.h"

/* The leaf of a place, or NULL. */
static inline struct leaf *
start_leaf(struct arena *arena, CUdeviceptr place) HOLDS(arena->lock)
{
	struct nearby *nearby = &arena->memory.starts;

	return __builtin_expect(nearby->base == lookup_base(place), 1) ?
	    nearby->leaf :
	    lookup_turn_to(nearby, place);
}

/* Enter the start of a block, where no block started before. */
static inline void
start_name(struct block *block) HOLDS(block->arena->lock)
{
	CUdeviceptr place = lookup_place(block->addr);

	lookup_set_in_leaf(start_leaf(block->arena, place), place, block,
	    block->segment->alone);
}

/* Enter the start of a block, where another block started before. */
static inline void
start_rename(struct block *block) HOLDS(block->arena->lock)
{
	CUdeviceptr place = lookup_place(block->addr);

	lookup_replace_in_leaf(start_leaf(block->arena, place), place, block);
}

/* Remove the start of a block. */
static inline void
start_unname(const struct block *block) HOLDS(block->arena->lock)
{
	CUdeviceptr place = lookup_place(block->addr);

	lookup_set_in_leaf(start_leaf(block->arena, place), place, NULL,
	    block->segment->alone);
}

#endif
