/*
 * Handles: physical memory mapped into expandable segments.
 */
#ifndef ALLOCATOR_MEMORY_HANDLE_H
#define ALLOCATOR_MEMORY_HANDLE_H

#include "allocator/state.h"

/* One physical allocation, mapped whole. */
struct handle {
	struct tree_node node; /* in segment->handles */
	struct idle idle;
	struct segment *segment;
	CUdeviceptr addr;
	size_t size;
	CUmemGenericAllocationHandle id; /* 0: released */
	unsigned pins;                   /* pins over it: it must not move */

	/* Used while it moves into a segment or out of one. */
	struct handle *next;
	CUdeviceptr to;
	bool mapped; /* at `to` */

	/* Its arena is suspended, and its memory has left: written by
	 * graphs/suspend.c under the arena's lock. */
	bool absent;
};

static inline struct handle *
handle_of_idle(struct idle *idle)
{
	return CONTAINER_OF(idle, struct handle, idle);
}

/* The size of the next new handle for a request if `missing` bytes must be
 * mapped: Note [Growing]. */
size_t handle_size(const struct arena *arena, const struct options *options,
    size_t request, size_t missing);

/* Driver calls, with no lock held. handle_unmap() and handle_release() undo the
 * first two if they were done. A handle that cannot be released keeps its
 * id. */
enum weir_status handle_create(
    struct handle *handle, const struct arena *arena);
enum weir_status handle_map(struct handle *handle);
void handle_unmap(struct handle *handle);
void handle_release(struct handle *handle);

/* Drop a hold on a handle. Tries once more if the driver refuses, because
 * nobody would try again, and the memory would be lost. */
void handle_drop_hold(CUmemGenericAllocationHandle id);

/* Unmap a range, or free its addresses, likewise. */
void addresses_drop_mapping(CUdeviceptr addr, size_t size);
void addresses_drop(CUdeviceptr addr, size_t size);

/* Release the handles in arena->memory.unreleased again; under the lock. If the
 * context is gone, they are dropped. */
void handles_release_again(struct arena *arena) HOLDS(arena->lock);
/* Make mapped memory of a device readable and writable by it and its peers. */
enum weir_status handles_open(int device, CUdeviceptr addr, size_t size);
/* Do so with memory of an arena, which may have more users. Page-locked memory
 * is opened to the host and all devices. */
enum weir_status handles_open_in(
    const struct arena *arena, CUdeviceptr addr, size_t size);
/* Allow a peer to read and write mapped memory, or withdraw its access. A
 * withdrawal is tried once more if the driver refuses. */
enum weir_status handles_set_peer(
    CUdeviceptr addr, size_t size, int peer, bool allow);
/* Set the one function that does this with further memory of a device, for
 * weir_peer_access(). */
void handles_follow_peers(
    enum weir_status (*follow)(int device, int peer, bool allow));

/* Enter a handle at `to` into a segment, or remove it from its segment. */
void handle_insert(struct segment *segment, struct handle *handle)
    HOLDS(segment->arena->lock);
void handle_remove(struct handle *handle) HOLDS(handle->segment->arena->lock);

/* Remove the handles that tile a range from their segment; returns them through
 * ->next. */
struct handle *handles_take(struct segment *segment, CUdeviceptr addr,
    size_t size) HOLDS(segment->arena->lock);

/* Find the largest range of whole, unpinned handles within [addr, addr + size).
 * Returns its size, or 0. */
size_t handles_within(const struct segment *segment, CUdeviceptr addr,
    size_t size, CUdeviceptr *start);

/* The first whole, unpinned handle within [addr, addr + size), or NULL. */
struct handle *handle_first_within(
    const struct segment *segment, CUdeviceptr addr, size_t size);

/* The range of handles around an address that lie side by side. Returns its
 * size, or 0. */
size_t handles_around(
    const struct segment *segment, CUdeviceptr addr, CUdeviceptr *start);

/* Bytes of a block that are on the device: all that it holds, but for absent
 * handles of a suspended arena. */
size_t block_present_some(const struct block *block) HOLDS(block->arena->lock);
static inline size_t
block_present(const struct block *block) HOLDS(block->arena->lock)
{
	return __builtin_expect(block->arena->account.uncounted, 0) ?
	    block_present_some(block) :
	    block->size;
}

/* Walk all handles of an arena: segment by segment, by address. */
struct handle *handles_first(const struct arena *arena);
struct handle *handles_next(const struct handle *handle);

/* The last handle that starts at or below addr, or NULL. */
struct handle *handle_floor(const struct segment *segment, CUdeviceptr addr);

#endif
