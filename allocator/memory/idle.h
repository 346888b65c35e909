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
 * A pair of a malloc and a free that cuts an idle block and joins it again is
 * frequent and must be cheap. So a block from which a request has cut the front
 * stays in the index as long as it overlaps the handle or segment that stands
 * for it, though it is perhaps no longer idle; and a free tick that has risen
 * meanwhile is noted only if the block is large enough to be idle. idle_first()
 * corrects what it comes across.
 */
#ifndef ALLOCATOR_MEMORY_IDLE_H
#define ALLOCATOR_MEMORY_IDLE_H

#include "allocator/state.h"

static inline void
idle_init(struct idle_index *index)
{
	tree_init(&index->tree, TREE_KEY(struct idle, node, since, place));
}

/* The least size of an idle block in a segment. */
static inline size_t
idle_least(const struct segment *segment)
{
	return segment->expandable ? segment->arena->memory.granularity :
				     segment->size;
}

/* Enter a FREE block of its pool, if it is idle; or note that its free tick has
 * risen. */
void idle_put(struct block *block) HOLDS(block->arena->lock);
static inline QUICK void
idle_put_large(struct block *block, bool expandable) HOLDS(block->arena->lock)
{
	struct idle *idle = block->idle;

	if (block->size < (expandable ? block->arena->memory.granularity :
					block->segment->size))
		return;
	struct idle_index *index = &block->pool->owner->idle;
	if (idle == NULL || index->tree.count != 1) {
		idle_put(block);
	} else { /* the only one has no order to keep */
		idle->since = block->freed_at;
		index->since_sum = block->freed_at;
	}
}

/* Remove a block that is in the index. */
void idle_take(struct block *block) HOLDS(block->arena->lock);

/* The front of a block that is in the index was cut off. */
void idle_cut_past(struct block *block) HOLDS(block->arena->lock);
static inline void
idle_cut(struct block *block) HOLDS(block->arena->lock)
{
	if (block->addr >= block->idle->end)
		idle_cut_past(block);
}

/* Is a block of the index idle, by the handle or segment that stands for it? */
bool idle_is_right(const struct block *block);

/* A block absorbs a neighbour that is in the index. */
void idle_absorb(struct block *block, struct block *gone)
    HOLDS(block->arena->lock);

/* A block was pinned or unpinned, or had its pins counted again: enter the FREE
 * blocks over a range that are idle by now. */
void idle_unpin(const struct segment *segment, CUdeviceptr addr, size_t size)
    HOLDS(segment->arena->lock);

/* Give a FREE block a later free tick. */
void idle_put_off(struct block *block, uint64_t tick) HOLDS(block->arena->lock);

/* The block of a heap that has been free for the longest time; NULL: none is
 * idle. */
struct block *idle_first(struct stream_heap *heap) HOLDS(heap->arena->lock);

/* Empty the index of a heap whose memory is gone. */
void idle_forget(struct stream_heap *heap) HOLDS(heap->arena->lock);

static inline struct idle *
idle_of_node(struct tree_node *node)
{
	return CONTAINER_OF(node, struct idle, node);
}

#endif
