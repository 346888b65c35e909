/*
 * Physical memory: the one place that calls the driver for it.
 */
#ifndef ALLOCATOR_MEMORY_SEGMENT_H
#define ALLOCATOR_MEMORY_SEGMENT_H

#include "allocator/memory/types.h"

/*
 * Note [Growing]
 *
 * A pool grows ahead of its requests, by a part of what is held, so that it
 * calls the driver a bounded number of times for each doubling. Of a device
 * with one stream every byte ahead is one more at the peak, so the part is
 * small. Where several streams allocate, what one of them has free is often of
 * no use to the others, and growth goes on for longer: steps and handles are
 * larger there, but near the limit, where what cannot be moved is missing.
 *
 * A handle goes back to the driver, or to another place, only when all of it is
 * free, and costs the driver 35 us to make accessible and to unmap, whatever
 * its size. So what it holds for nothing is in proportion to its size, and that
 * to the limit: at the limit itself, where nothing else is left, it is what
 * fails requests. With prefer:memory it is no more than may be held beyond what
 * was ever alive: what is mapped ahead stays within that too.
 */
enum { AHEAD_SHARE = 128 };      /* one stream: of what its pools hold */
enum { STEP_SHARE = 20 };        /* several: of what the device holds */
enum { STEP_TIMES = 8 };         /* and this times growth_mb at most */
enum { HANDLE_ALONE_SHARE = 5 }; /* one stream: of handle_mb, a handle */
enum { LEFT_SHARE = 64 };        /* and of what is left of the limit */
enum { HANDLES_LEAST = 1024 };   /* to come to the limit */

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

/* ---- handle.c ----------------------------------------------------------- */

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

int compare_handles(const struct tree_node *a, const struct tree_node *b);

/* ---- segment.c ---------------------------------------------------------- */

/* The blocks that taking the middle out of a block leaves around it. */
struct cut {
	struct block *middle; /* where it starts, or NULL: with the block */
	struct block *after;  /* behind it, or NULL */
};

/* Make the blocks to cut [start, start + size) out of the blocks from `first`
 * to `last`. WEIR_EHOSTMEM. */
enum weir_status cut_prepare(const struct block *first,
    const struct block *last, CUdeviceptr start, size_t size, struct cut *cut);
void cut_drop(struct cut *cut);

/* Cut a free block that is in no tree; the parts around the middle become
 * FREE, the middle is returned LEAVING. */
struct block *cut_make(
    struct block *block, CUdeviceptr start, size_t size, struct cut *cut);

/* A new segment, all unmapped, in the pool. WEIR_ENOMEM, WEIR_EHOSTMEM,
 * WEIR_EDRIVER. */
enum weir_status segment_reserve(struct pool *pool, size_t rounded);

/* Give back the addresses of a segment that has nothing mapped. If the driver
 * refuses, the segment stays and can be grown again. */
void segment_unreserve_if_empty(struct segment *segment);

/* ---- remap.c ------------------------------------------------------------ */

/* segment_grow() for an expandable segment: Note [Remapping]. */
enum weir_status map_for(struct pool *pool, const struct options *options,
    size_t rounded, enum grow_how how, size_t *need);

#endif
