/*
 * Handles: physical memory mapped into expandable segments.
 */
#ifndef ALLOCATOR_MEMORY_HANDLE_H
#define ALLOCATOR_MEMORY_HANDLE_H

#include "allocator/memory/types.h"

/* One physical allocation, mapped whole. */
struct handle {
	struct tree_node node; /* in segment->handles */
	struct segment *segment;
	CUdeviceptr addr;
	size_t size;
	CUmemGenericAllocationHandle id; /* 0: its reference is given up */
	unsigned pins; /* that it lies under: it stays where it is */

	/* While it is on its way into a segment or out of one. */
	struct handle *next;
	CUdeviceptr to;
	bool mapped; /* at `to` */
};

/* Bytes of the next new handle where `missing` are to be mapped: Note
 * [Growing]. */
size_t handle_size(
    const struct arena *arena, const struct options *options, size_t missing);

/* Calls to the driver, with no lock. handle_unmap() and handle_release() undo
 * what has been done, if it has; what cannot be released keeps its id. */
enum weir_status handle_create(struct handle *handle, int device);
enum weir_status handle_map(struct handle *handle);
void handle_unmap(struct handle *handle);
void handle_release(struct handle *handle);
/* Those that the driver did not take back when they could not be used; with the
 * lock. If their context is gone they are forgotten all the same. */
void handles_release_again(struct arena *arena);
/* Make mapped memory readable and writable by its device. */
enum weir_status handles_open(int device, CUdeviceptr addr, size_t size);
/* Who else has memory that weir_peer_access() is to open: called with the
 * memory's device when a peer has been added. One, set once. */
void handles_follow_peers(enum weir_status (*reopen)(int device));

/* A handle now belongs at `to` of a segment, or to none. */
void handle_insert(struct segment *segment, struct handle *handle);
void handle_remove(struct handle *handle);

/* Take the handles that tile a range out of their segment. */
struct handle *handles_take(
    struct segment *segment, CUdeviceptr addr, size_t size);

/* The largest range of whole handles within [addr, addr + size) that are not
 * pinned; 0 bytes if there is none. */
size_t handles_within(const struct segment *segment, CUdeviceptr addr,
    size_t size, CUdeviceptr *start);

/* All handles of an arena, one after the other: segment by segment, by
 * address. */
struct handle *handles_first(const struct arena *arena);
struct handle *handles_next(const struct handle *handle);

/* The last handle that starts at or below addr, or NULL. */
struct handle *handle_floor(const struct segment *segment, CUdeviceptr addr);

#endif
