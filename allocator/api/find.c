/*
 * Finds the live block that a caller's address names, or the reason why there
 * is none.
 */
#include "allocator/api/find.h"

#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "base/status.h"

/* Is the address in this live block? */
static bool
holds(const struct block *block, CUdeviceptr addr) HOLDS(block->arena->lock)
{
	ASSERT(block->size > 0 || block->segment == NULL);
	return block_is_live(block) && addr - block->addr < block->size;
}

struct block *
find_exact_locked(const void *ptr)
{
	return find_lock(lookup_exact(address(ptr)), ptr);
}

/* Look the block up without the lock, and again under the lock, when it cannot
 * change. */
struct block *
find_locked(const void *ptr)
{
	struct block *block = find_exact_locked(ptr);

	if (block != NULL) /* the usual case */
		return block;
	block = lookup_floor(address(ptr));
	while (block != NULL) {
		struct arena *arena = block->arena;
		lock_enter(&arena->lock);
		lock_assert_held(&block->arena->lock);
		struct block *again = lookup_floor(address(ptr));
		if (again == block && holds(block, address(ptr))) {
			lock_hand_over(&arena->lock);
			return block;
		}
		lock_leave(&arena->lock);
		if (again == block)
			return NULL;
		block = again;
	}
	return NULL;
}

bool
allocator_find(const void *ptr, struct allocator_block *out)
{
	struct block *block = lookup_exact(address(ptr));

	if (block == NULL || block_state(block) != BLOCK_ACTIVE)
		return false;
	out->device = block->arena->device;
	out->host = block->arena->traits.is_page_locked;
	out->host_flags = block->arena->host.flags;
	out->requested_bytes = block->requested;
	out->of_no_stream =
	    heap_owns(block->arena->memory.any_heap, block->pool);
	return true;
}

/* Refuse an address that is in no live block. It may be in a block that was
 * freed, or just past the end of one. */
static enum weir_status
refuse_unused(const char *call, const void *ptr)
{
	struct block *block = lookup_floor(address(ptr));
	struct arena *arena = block != NULL ? block->arena : NULL;
	bool ours = false;
	bool mapped = false;
	size_t ends_here = 0; /* bytes of the block that ends there */

	if (arena != NULL) {
		lock_enter(&arena->lock);
		ours = block->segment != NULL &&
		    address(ptr) - block->addr < block->size;
		mapped = ours && block_state(block) != BLOCK_UNMAPPED;
		if (ours && block->addr == address(ptr) &&
		    block->prev != NULL &&
		    block_state(block->prev) == BLOCK_ACTIVE)
			ends_here = block->prev->size;
		lock_leave(&arena->lock);
	}
	if (!ours)
		return status_set(
		    WEIR_EINVAL, "%s(%p): not allocated by weir", call, ptr);
	if (ends_here != 0)
		return status_set(WEIR_EINVAL,
		    "%s(%p): freed before, or one past a block: the block of "
		    "%zu bytes before it is allocated",
		    call, ptr, ends_here);
	return status_set(WEIR_EINVAL,
	    mapped ? "%s(%p): freed before or never allocated: it lies in "
		     "memory that is cached" :
		     "%s(%p): freed before or never allocated: its memory has "
		     "been given back to the driver",
	    call, ptr);
}

enum weir_status
find_refuse(const char *call, const void *ptr)
{
	struct block *block = find_locked(ptr);

	if (block != NULL) {
		lock_take_over(&block->arena->lock);
		CUdeviceptr base = block->addr;
		size_t size = block->size;
		lock_leave(&block->arena->lock);
		if (base == address(ptr)) /* it was allocated just now */
			return status_set(
			    WEIR_EINVAL, "%s(%p): freed before", call, ptr);
		return status_set(WEIR_EINVAL,
		    "%s(%p): not the start of a block: it is "
		    "%llu bytes into the block of %zu bytes "
		    "at %#llx",
		    call, ptr, (unsigned long long)(address(ptr) - base), size,
		    (unsigned long long)base);
	}
	return refuse_unused(call, ptr);
}
