/*
 * Pins: physical pages that stay where they are.
 */
#ifndef ALLOCATOR_MEMORY_PIN_H
#define ALLOCATOR_MEMORY_PIN_H

#include "allocator/memory/types.h"

/* Pages that weir_pin() keeps where they are: those that lie, in part or whole,
 * under [addr, addr + size) of one segment. */
struct pin {
	struct tree_node node; /* in arena->pins */
	CUdeviceptr addr;
	size_t size;
	struct segment *segment;
	unsigned times; /* weir_unpin() calls that are to come */
};

/* One pin more of a live block. WEIR_EHOSTMEM. */
enum weir_status pin_block(const struct block *block);

/* One pin less of what begins at an address; false: there is none. */
bool pin_drop(struct arena *arena, CUdeviceptr addr);

/* Forget all pins: the memory they are of is gone. */
void pins_forget(struct arena *arena);

#endif
