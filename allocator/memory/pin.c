/*
 * Pins: physical pages that stay where they are, even after the block that they
 * were pinned for is freed (invariant I-16).
 *
 * A pin is a range of addresses, in arena->memory.pins by its first byte. Each
 * handle counts the pins that overlap it, and each segment the pins in it.
 * handles_within(), which finds handles to move or give back, leaves out
 * handles with pins; a driver segment with a pin is not given back. No more is
 * needed: a live block does not move, and a freed block may be allocated again
 * on these pages.
 */
#include "allocator/memory/pin.h"

#include "allocator/memory/block.h"

#include "allocator/memory/handle.h"
#include "allocator/memory/idle.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

static struct pin *
find_pin(const struct arena *arena, CUdeviceptr addr)
{
	struct pin key = { .addr = addr };
	struct tree_node *node =
	    tree_lower_bound(&arena->memory.pins, &key.node);
	struct pin *pin =
	    node != NULL ? CONTAINER_OF(node, struct pin, node) : NULL;

	return pin != NULL && pin->addr == addr ? pin : NULL;
}

/* Add `delta` to the pins of the segment and the handles under a pin. */
static void
count_pin(const struct pin *pin, int delta)
{
	struct segment *segment = pin->segment;
	CUdeviceptr end = pin->addr + pin->size;
	struct handle *handle;

	ASSERT(delta == 1 || delta == -1);
	segment->pins += (unsigned)delta;
	if (!segment->expandable)
		return;
	for (CUdeviceptr at = end; at > pin->addr; at = handle->addr) {
		handle = handle_floor(segment, at - 1);
		handle->pins += (unsigned)delta;
	}
}

/* Pin a block. An earlier pin at this address may have been for a shorter
 * block, so extend it. */
enum weir_status
pin_block(const struct block *block)
{
	struct arena *arena = block->arena;
	struct pin *pin = find_pin(arena, block->addr);

	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_ACTIVE);
	if (pin == NULL) {
		pin = meta_zalloc(sizeof(*pin));
		if (pin == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for a pin");
		pin->addr = block->addr;
		tree_insert(&arena->memory.pins, &pin->node);
	} else {
		count_pin(pin, -1);
	}
	pin->segment = block->segment;
	if (pin->size < block->size)
		pin->size = block->size;
	pin->times++;
	count_pin(pin, 1);
	return WEIR_OK;
}

bool
pin_drop(struct arena *arena, CUdeviceptr addr)
{
	struct pin *pin = find_pin(arena, addr);

	lock_assert_held(&arena->lock);
	if (pin != NULL && --pin->times == 0) {
		count_pin(pin, -1);
		lock_assert_held(&pin->segment->arena->lock);
		idle_unpin(pin->segment, pin->addr, pin->size);
		tree_remove(&arena->memory.pins, &pin->node);
		meta_free(pin, sizeof(*pin));
	}
	return pin != NULL;
}

void
pins_forget(struct arena *arena)
{
	struct tree_node *node;

	lock_assert_held(&arena->lock);
	while ((node = tree_first(&arena->memory.pins)) != NULL) {
		tree_remove(&arena->memory.pins, node);
		meta_free(
		    CONTAINER_OF(node, struct pin, node), sizeof(struct pin));
	}
}
