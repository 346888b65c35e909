/*
 * <weir/weir.h>: weir_pin() and weir_unpin().
 */
#include "allocator/memory/pin.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/arenas.h"
#include "allocator/private/suspension.h"
#include "base/os.h"
#include "base/status.h"

/* Return the live block that starts at an address, with its arena's lock taken;
 * or NULL, with no lock. */
static struct block *
find_live(CUdeviceptr addr)
{
	struct block *block = lookup_exact(addr);

	if (block == NULL)
		return NULL;
	struct arena *arena = block->arena;
	lock_enter(&arena->lock);
	if (lookup_exact(addr) == block && block->segment != NULL &&
	    block_state(block) == BLOCK_ACTIVE) {
		lock_hand_over(&arena->lock);
		return block;
	}
	lock_leave(&arena->lock);
	return NULL;
}

enum weir_status
weir_pin(const void *ptr)
{
	if (os_forked())
		return status_forked("weir_pin");
	struct block *block = find_live((CUdeviceptr)(uintptr_t)ptr);
	if (block == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_pin(%p): no live block of weir starts at this "
		    "address",
		    ptr);
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	enum weir_status status = arena_is_suspended(arena) ?
	    status_set(
		WEIR_EINVAL, "weir_pin(%p): its pool is suspended", ptr) :
	    pin_block(block);
	lock_leave(&arena->lock);
	return status;
}

static bool
unpin_in(struct arena *arena, CUdeviceptr addr)
{
	lock_enter(&arena->lock);
	bool found = pin_drop(arena, addr);
	bool unowned = arena->private.owners == 0;
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
		return status_forked("weir_unpin");
	/* The block may be gone, so it cannot name its arena. */
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
