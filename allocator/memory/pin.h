/*
 * Pins: physical pages that stay where they are.
 */
#ifndef ALLOCATOR_MEMORY_PIN_H
#define ALLOCATOR_MEMORY_PIN_H

#include "allocator/state.h"

/* A pin by weir_pin(): all pages that overlap [addr, addr + size), in one
 * segment, stay where they are. */
struct pin {
	struct tree_node node; /* in arena->memory.pins */
	CUdeviceptr addr;
	size_t size;
	struct segment *segment;
	unsigned times; /* weir_unpin() calls still to come */
};

/* Pin a live block once more. WEIR_EHOSTMEM. */
enum weir_status pin_block(const struct block *block) HOLDS(block->arena->lock);

/* Unpin the range that begins at an address, once; false: there is no pin. */
bool pin_drop(struct arena *arena, CUdeviceptr addr) HOLDS(arena->lock);

/* Forget all pins, because their memory is gone. */
void pins_forget(struct arena *arena) HOLDS(arena->lock);

#endif
