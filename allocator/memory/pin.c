/*
 * Pins: physical pages that stay where they are, whatever becomes of the block
 * they were pinned for (invariant I-16).
 *
 * A pin is a range of addresses, in arena->pins by its first byte. Each handle
 * counts the pins it lies under, in part or whole, and each segment those in
 * it; a handle with a pin is left out where handles are looked for that could
 * move or go back (handles_within()), a driver segment with one does not go
 * back. That is all: a live block does not move anyway, and a freed one may be
 * handed out again, on the same pages.
 */
#include "allocator/memory/pin.h"

#include "allocator/memory/handle.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

static struct pin *
find_pin(const struct arena *arena, CUdeviceptr addr)
{
	struct pin key = { .addr = addr };
	struct tree_node *node = tree_lower_bound(&arena->pins, &key.node);
	struct pin *pin =
	    node != NULL ? CONTAINER_OF(node, struct pin, node) : NULL;

	return pin != NULL && pin->addr == addr ? pin : NULL;
}

/* Count a pin, or no longer, where it lies. */
static void
count_pin(const struct pin *pin, int delta)
{
	struct segment *segment = pin->segment;
	CUdeviceptr end = pin->addr + pin->size;
	struct handle *handle;

	segment->pins += (unsigned)delta;
	if (!segment->expandable)
		return;
	for (CUdeviceptr at = end; at > pin->addr; at = handle->addr) {
		handle = handle_floor(segment, at - 1);
		handle->pins += (unsigned)delta;
	}
}

/* A block may be longer than the one that was pinned at this address before. */
enum weir_status
pin_block(const struct block *block)
{
	struct arena *arena = block->arena;
	struct pin *pin = find_pin(arena, block->addr);

	if (pin == NULL) {
		pin = meta_zalloc(sizeof(*pin));
		if (pin == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for a pin");
		pin->addr = block->addr;
		tree_insert(&arena->pins, &pin->node);
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

	if (pin != NULL && --pin->times == 0) {
		count_pin(pin, -1);
		tree_remove(&arena->pins, &pin->node);
		meta_free(pin, sizeof(*pin));
	}
	return pin != NULL;
}

void
pins_forget(struct arena *arena)
{
	struct tree_node *node;

	while ((node = tree_first(&arena->pins)) != NULL) {
		tree_remove(&arena->pins, node);
		meta_free(
		    CONTAINER_OF(node, struct pin, node), sizeof(struct pin));
	}
}
