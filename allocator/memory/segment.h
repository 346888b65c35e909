/*
 * Segments: where the memory of pools comes from, and how it goes back.
 */
#ifndef ALLOCATOR_MEMORY_SEGMENT_H
#define ALLOCATOR_MEMORY_SEGMENT_H

#include "allocator/memory/types.h"

/*
 * Note [Growing]
 *
 * A pool grows by what its request lacks. Memory ahead of requests would be one
 * more byte at the peak, and of several streams' memory much is of no use to
 * the others.
 *
 * A handle goes back to the driver, or to another place, only when all of it is
 * free, and costs the driver 35 us to make accessible and to unmap, whatever
 * its size. So what it holds for nothing is in proportion to its size, and that
 * to the limit: at the limit itself, where nothing else is left, it is what
 * fails requests. With prefer:memory it is no more than may be held beyond what
 * was ever alive.
 */
enum { LEFT_SHARE = 64 };      /* a handle, of what is left of the limit */
enum { HANDLES_LEAST = 1024 }; /* to come to the limit */

/* A segment of the driver for a request, in the pool. With `exact` a smaller
 * one too, where there is no room for one of the usual size: nothing is gained
 * by a failure for the sake of later requests. *need as for pool_grow(). */
enum weir_status segment_grow_driver(struct pool *pool,
    const struct options *options, size_t rounded, bool exact, size_t *need);

/*
 * Give memory of a span back to the driver: at least `want` bytes if it has as
 * many to give. The caller has seen to it that all work on it is done. Its
 * blocks may be gone, joined or cut afterwards. Leaves the lock in between.
 *
 * @return bytes given back; 0 also if the driver refuses
 */
size_t segment_release(const struct span *span, size_t want);

/* Unmap at most `max` blocks of arena->vacated. Leaves the lock in between. */
void segment_unmap_vacated(struct arena *arena, size_t max);

/* Give back the addresses of segments that have nothing mapped. */
void segment_unreserve(struct arena *arena);

/* The arena whose segment an address lies in, or NULL. Takes that arena's lock.
 */
struct arena *segment_owner(CUdeviceptr addr);

/* Bytes of the driver segment that would be made for a size class. */
size_t segment_size_for(
    const struct arena *arena, const struct options *options, size_t rounded);

/* Bytes of whole handles (or of a whole driver segment) in a span. */
size_t segment_releasable(const struct span *span);

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
 * FREE, the middle is returned UNMAPPING. */
struct block *cut_make(
    struct block *block, CUdeviceptr start, size_t size, struct cut *cut);

/* A new segment, all unmapped, in the pool. WEIR_ENOMEM, WEIR_EHOSTMEM,
 * WEIR_EDRIVER. */
enum weir_status segment_reserve(struct pool *pool, size_t rounded);

/* Give back the addresses of a segment that has nothing mapped. If the driver
 * refuses, the segment stays and can be grown again. */
void segment_unreserve_if_empty(struct segment *segment);

#endif
