/*
 * The index of idle memory: which free blocks could go back to the driver, and
 * since when they have been free.
 *
 * Note [Idle memory]
 *
 * A free block is idle if it has a whole handle without a pin, or if it is a
 * whole driver segment without a pin. One of its handles, or its segment,
 * stands for it in the index of its heap, which is sorted by free tick. So the
 * index needs no host memory of its own, and a block's free cannot fail for
 * want of it. A release finds the longest unused memory by one look-up, however
 * many blocks there are.
 *
 * While a block is in the index, its free tick only rises: it absorbs blocks
 * that were freed later. Its memory only grows, except that a request may cut
 * its front off: idle_cut().
 */
#ifndef ALLOCATOR_MEMORY_IDLE_H
#define ALLOCATOR_MEMORY_IDLE_H

#include "allocator/memory/types.h"

void idle_init(struct idle_index *index);

/* The least size of an idle block in a segment. */
static inline size_t
idle_least(const struct segment *segment)
{
	return segment->expandable ? segment->arena->granularity :
				     segment->size;
}

/* Enter a FREE block of its pool, if it is idle; or note that its free tick has
 * risen. */
void idle_put(struct block *block);

/* Remove a block that is in the index. */
void idle_take(struct block *block);

/* The front of a block that is in the index was cut off. */
void idle_cut(struct block *block);

/* A block absorbs a neighbour that is in the index. */
void idle_absorb(struct block *block, struct block *gone);

/* A block was pinned or unpinned, or had its pins counted again: enter the FREE
 * blocks over a range that are idle by now. */
void idle_unpin(const struct segment *segment, CUdeviceptr addr, size_t size);

/* Give a FREE block a later free tick. */
void idle_put_off(struct block *block, uint64_t tick);

/* The block of a heap that has been free for the longest time; NULL: none is
 * idle. */
struct block *idle_first(const struct stream_heap *heap);

/* Empty the index of a heap whose memory is gone. */
void idle_forget(struct stream_heap *heap);

static inline struct idle *
idle_of_node(struct tree_node *node)
{
	return CONTAINER_OF(node, struct idle, node);
}

#endif
