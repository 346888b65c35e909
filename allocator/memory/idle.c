/*
 * The index of idle memory: idle.h, Note [Idle memory].
 */
#include "allocator/memory/idle.h"

#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/lookup.h"

static struct idle_index *
index_of(const struct block *block)
{
	return &block->pool->owner->idle;
}

/* The place that can stand for a block, or NULL: the block is not idle. */
static struct idle *
find_place(const struct block *block)
{
	struct segment *segment = block->segment;

	ASSERT(block->size > 0);
	if (!segment->expandable)
		return segment->pins == 0 && block->size == segment->size ?
		    &segment->idle :
		    NULL;
	struct handle *handle =
	    handle_first_within(segment, block->addr, block->size);
	return handle != NULL ? &handle->idle : NULL;
}

static void
enter_index(struct block *block, struct idle *idle)
{
	struct idle_index *index = index_of(block);

	ASSERT(idle->block == NULL && block->idle == NULL);
	ASSERT(block_state(block) == BLOCK_FREE);
	idle->since = block->freed_at;
	idle->block = block;
	block->idle = idle;
	index->since_sum += idle->since;
	tree_insert(&index->tree, &idle->node);
}

/* Remove a place from the index of a heap. */
static struct idle *
leave_index(struct block *block)
{
	struct idle_index *index = index_of(block);
	struct idle *idle = block->idle;

	ASSERT(idle != NULL && idle->block == block);
	tree_remove(&index->tree, &idle->node);
	index->since_sum -= idle->since;
	idle->block = NULL;
	block->idle = NULL;
	return idle;
}

void
idle_put(struct block *block)
{
	struct idle *idle = block->idle;

	lock_assert_held(&block->arena->lock);
	ASSERT(block_is_in_run(block));
	if (idle == NULL) {
		idle = find_place(block);
		if (idle != NULL)
			enter_index(block, idle);
		return;
	}
	struct idle_index *index = index_of(block);
	index->since_sum += block->freed_at - idle->since;
	idle->since = block->freed_at;
	tree_raised(&index->tree, &idle->node);
}

void
idle_take(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	leave_index(block);
}

void
idle_cut_past(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block->idle != NULL);
	leave_index(block);
	if (block->size >= idle_least(block->segment))
		idle_put(block);
}

bool
idle_is_right(const struct block *block)
{
	const struct segment *segment = block->segment;

	ASSERT(block_is_in_run(block));
	if (!segment->expandable)
		return segment->pins == 0 && block->size == segment->size;
	const struct handle *handle = handle_of_idle(block->idle);
	return handle->pins == 0 && handle->addr >= block->addr &&
	    handle->addr + handle->size <= block->addr + block->size;
}

void
idle_absorb(struct block *block, struct block *gone)
{
	struct idle *idle = gone->idle;

	lock_assert_held(&block->arena->lock);
	ASSERT(idle != NULL && idle->block == gone);
	if (block->idle != NULL || !block->segment->expandable) {
		leave_index(gone);
		return;
	}
	gone->idle = NULL;
	block->idle = idle;
	idle->block = block;
}

void
idle_unpin(const struct segment *segment, CUdeviceptr addr, size_t size)
{
	CUdeviceptr end = addr + size;

	ASSERT(size > 0 && addr >= segment->addr);
	ASSERT(end <= segment->addr + segment->size);
	lock_assert_held(&segment->arena->lock);
	for (struct block *b = lookup_floor(addr);
	     b != NULL && b->segment == segment && b->addr < end; b = b->next)
		if (block_is_in_run(b) && b->idle == NULL) {
			lock_assert_held(&b->arena->lock);
			idle_put(b);
		}
}

void
idle_put_off(struct block *block, uint64_t tick)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block_is_in_run(block));
	block->freed_at = tick;
	block->pool->owner->freed_at = tick;
	if (block->idle != NULL)
		idle_put(block);
}

struct block *
idle_first(struct stream_heap *heap)
{
	struct tree_node *first;

	lock_assert_held(&heap->arena->lock);
	while ((first = tree_first(&heap->idle.tree)) != NULL) {
		struct idle *idle = idle_of_node(first);
		struct block *block = idle->block;
		if (idle->since == block->freed_at && idle_is_right(block))
			return block;
		leave_index(block);
		lock_assert_held(&block->arena->lock);
		idle_put(block);
	}
	return NULL;
}

void
idle_forget(struct stream_heap *heap)
{
	ASSERT(heap->arena->memory.forgotten);
	lock_assert_held(&heap->arena->lock);
	heap->idle.tree.root = NULL;
	heap->idle.tree.count = 0;
	heap->idle.since_sum = 0;
}
