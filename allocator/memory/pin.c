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

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/arenas.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

int
compare_pins(const struct tree_node *a, const struct tree_node *b)
{
	CUdeviceptr x = CONTAINER_OF(a, struct pin, node)->addr;
	CUdeviceptr y = CONTAINER_OF(b, struct pin, node)->addr;

	return (x > y) - (x < y);
}

static struct pin *
find(const struct arena *arena, CUdeviceptr addr)
{
	struct pin key = { .addr = addr };
	struct tree_node *node = tree_lower_bound(&arena->pins, &key.node);
	struct pin *pin =
	    node != NULL ? CONTAINER_OF(node, struct pin, node) : NULL;

	return pin != NULL && pin->addr == addr ? pin : NULL;
}

/* Count a pin, or no longer, where it lies. */
static void
count(const struct pin *pin, int delta)
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

/* The live block that starts at ptr, with its arena's lock taken; or NULL. */
static struct block *
find_live(CUdeviceptr addr) UNCHECKED
{
	struct block *block = lookup_exact(addr);

	if (block == NULL)
		return NULL;
	struct arena *arena = block->arena;
	lock_enter(&arena->lock);
	if (lookup_exact(addr) == block && block->segment != NULL &&
	    block_state(block) == BLOCK_ACTIVE)
		return block;
	lock_leave(&arena->lock);
	return NULL;
}

/* A block may be longer than the one that was pinned at this address before. */
static enum weir_status
pin_block(const struct block *block)
{
	struct arena *arena = block->arena;
	struct pin *pin = find(arena, block->addr);

	if (pin == NULL) {
		pin = meta_zalloc(sizeof(*pin));
		if (pin == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for a pin");
		pin->addr = block->addr;
		tree_insert(&arena->pins, &pin->node);
	} else {
		count(pin, -1);
	}
	pin->segment = block->segment;
	if (pin->size < block->size)
		pin->size = block->size;
	pin->times++;
	count(pin, 1);
	return WEIR_OK;
}

enum weir_status
weir_pin(const void *ptr) UNCHECKED
{
	if (os_forked())
		return status_set(
		    WEIR_EFORK, "weir_pin: %s", weir_status_text(WEIR_EFORK));
	struct block *block = find_live((CUdeviceptr)(uintptr_t)ptr);
	if (block == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_pin(%p): no live block of weir starts at this "
		    "address",
		    ptr);
	struct arena *arena = block->arena;
	enum weir_status status = atomic_load(&arena->suspended) ?
	    status_set(WEIR_EINVAL,
		"weir_pin(%p): the pool it is of is suspended", ptr) :
	    pin_block(block);
	lock_leave(&arena->lock);
	return status;
}

static bool
unpin_in(struct arena *arena, CUdeviceptr addr)
{
	lock_enter(&arena->lock);
	struct pin *pin = find(arena, addr);
	bool found = pin != NULL;
	bool unowned = arena->owners == 0;
	if (found && --pin->times == 0) {
		count(pin, -1);
		tree_remove(&arena->pins, &pin->node);
		meta_free(pin, sizeof(*pin));
	}
	lock_leave(&arena->lock);
	if (found && unowned)
		arena_empty(arena);
	return found;
}

enum weir_status
weir_unpin(const void *ptr)
{
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;

	if (os_forked())
		return status_set(
		    WEIR_EFORK, "weir_unpin: %s", weir_status_text(WEIR_EFORK));
	/* The block may be gone: it is not asked for its arena. */
	for (int device = 0; device < DEVICES_MAX; device++)
		for (struct arena *a = arena_peek(device); a != NULL;
		     a = arena_next(a))
			if (unpin_in(a, addr))
				return WEIR_OK;
	return status_set(WEIR_EINVAL,
	    "weir_unpin(%p): no block is pinned that starts or started at "
	    "this address",
	    ptr);
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
