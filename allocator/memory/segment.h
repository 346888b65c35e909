/*
 * Segments: gets memory for pools from the driver, and gives it back.
 */
#ifndef ALLOCATOR_MEMORY_SEGMENT_H
#define ALLOCATOR_MEMORY_SEGMENT_H

#include "allocator/memory/block.h"
#include "allocator/memory/tuning.h"
#include "allocator/state.h"

/*
 * Note [Growing]
 *
 * A pool grows by exactly the bytes that its request lacks. Memory that is
 * allocated ahead of requests raises the peak, and with several streams much of
 * it would be of no use to the others.
 *
 * A handle can move, or go back to the driver, only when all of it is free. To
 * make it accessible and to unmap it costs 35 us, whatever its size. Large
 * handles therefore cost less time but hold more unused memory: one small block
 * pins all of its handle. So a handle has an eighth of the request that it is
 * made for: a large request costs few driver calls, and a small block, which
 * lies in the memory of requests of its size mostly, pins little. A handle has
 * at least HANDLE_USUAL, because smaller ones cost many calls and hold hardly
 * less. The option handle_mb is the largest size.
 *
 * Near the limit, large handles make requests fail. Therefore the size is also
 * bounded by the memory that is left of the limit (LEFT_SHARE), by the limit
 * itself (HANDLES_LEAST), whoever sets one means to come near it, and by the
 * device's memory (HANDLES_OF_DEVICE); and with prefer:memory, by the bytes
 * that may be held beyond the peak of live bytes.
 */

/* Allocate a driver segment for a request and put it into the pool. If one of
 * the usual size cannot be had and `exact` is set, try one that just fits.
 * *need as for pool_grow(). */
enum weir_status segment_grow_driver(struct pool *pool,
    const struct options *options, size_t rounded, bool exact, size_t *need)
    HOLDS(pool->owner->arena->lock);

/*
 * Give memory of a span back to the driver: at least `want` bytes if the span
 * has as many in whole handles. All work on it must be done. Its blocks may be
 * deleted, joined or cut afterwards. Releases the lock in between.
 *
 * @return bytes given back; 0 also if the driver refuses
 */
size_t segment_release(const struct span *span, size_t want)
    HOLDS(span->first->arena->lock);

/* Enter a VACATED block whose old work is done, to be unmapped. */
static inline void
segment_add_vacated(struct block *block) HOLDS(block->arena->lock)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_VACATED);
	list_push_back(&block->arena->memory.vacated, &block->pending.link);
}

/* Unmap at most `max` blocks of arena->memory.vacated. Releases the lock in
 * between. */
void segment_unmap_vacated(struct arena *arena, size_t max) HOLDS(arena->lock);

/* Free the addresses of segments without mapped memory. */
void segment_unreserve(struct arena *arena) HOLDS(arena->lock);

/* The arena that has a segment over an address, or NULL. Takes that arena's
 * lock. */
struct arena *segment_owner(CUdeviceptr addr);

/* The size of a new driver segment for a size class. */
size_t segment_size_for(
    const struct arena *arena, const struct options *options, size_t rounded);

/* Bytes of whole handles (or of a whole driver segment) in a span. */
size_t segment_releasable(const struct span *span);

/* The middle that is cut out of a block, and the records for that. */
struct cut {
	CUdeviceptr start;
	size_t size;
	struct block *middle; /* the middle; NULL: it starts with the block */
	struct block *after;  /* the part after it, or NULL */
};

/* Make the records to cut [start, start + size) out of the blocks from `first`
 * to `last`. WEIR_EHOSTMEM. */
enum weir_status cut_prepare(const struct block *first,
    const struct block *last, CUdeviceptr start, size_t size, struct cut *cut)
    HOLDS(first->arena->lock);
void cut_drop(struct cut *cut);

/* Cut a free block that is in no tree. The parts around the middle become FREE;
 * returns the middle, which is UNMAPPING. */
struct block *cut_make(struct block *block, struct cut *cut)
    HOLDS(block->arena->lock);

/* Cut the free blocks from `first` to `last`, likewise, and remove the handles
 * that tile the middle from its segment: *handles, through ->next. */
struct block *cut_with_handles(struct block *first, struct block *last,
    struct cut *cut, struct handle **handles) HOLDS(first->arena->lock);

/* Reserve a new expandable segment for the pool, all unmapped. WEIR_ENOMEM,
 * WEIR_EHOSTMEM, WEIR_EDRIVER. */
enum weir_status segment_reserve(struct pool *pool, size_t rounded)
    HOLDS(pool->owner->arena->lock);

/* Reserve a segment of places: pool_reserve_places(). */
enum weir_status segment_reserve_places(struct pool *pool, size_t bytes,
    CUdeviceptr *out) HOLDS(pool->owner->arena->lock);

/* The segment of places with an address, or NULL. */
struct segment *segment_of_places(const struct arena *arena, CUdeviceptr addr)
    HOLDS(arena->lock);

/* Free the addresses of a segment without mapped memory. If the driver refuses,
 * the segment stays and can grow again. */
void segment_unreserve_if_empty(struct segment *segment)
    HOLDS(segment->arena->lock);

#endif
