/*
 * A block becomes free.
 */
#ifndef ALLOCATOR_FENCES_FREE_H
#define ALLOCATOR_FENCES_FREE_H

#include "allocator/memory/types.h"

/* A block becomes free: into the pool it belongs in by now. */
void block_free(struct block *block);

/* Free a block whose free was earlier, at block->freed_at. */
void block_free_since(struct block *block);

#endif
