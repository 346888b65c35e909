/*
 * Views: how far a request may use the free memory of each stream.
 */
#ifndef ALLOCATOR_MEMORY_VIEW_H
#define ALLOCATOR_MEMORY_VIEW_H

#include "allocator/memory/block.h"
#include "streams/order.h"

/* Begin a view without answers. It uses no order before view_can_wait(). */
void view_begin(struct view *view, struct stream_heap *mine);

/* Drop the answers, because more may be known, or the lock was released. */
void view_renew(struct view *view);

/* May the request use the order of its stream, and can the stream be made to
 * wait? Sets `ordered` and `capture`. */
bool view_can_wait(struct view *view) HOLDS(view->mine->arena->lock);

/* Note that the request's stream has just been ordered after the frees in
 * `heap` up to a tick. */
void view_put_behind(
    struct view *view, const struct stream_heap *heap, uint64_t tick);

/* The tick up to which the request may use memory that was freed in `heap`,
 * without a wait. */
uint64_t view_ask(const struct view *view, const struct stream_heap *heap);
static inline uint64_t
view_until(struct view *view, const struct stream_heap *heap)
{
	unsigned i = (unsigned)(heap->index % VIEW_KEPT);

	if ((view->asked >> i & 1) == 0 || view->kept[i].heap != heap)
		view_put_behind(view, heap, view_ask(view, heap));
	return view->kept[i].until;
}

/* Is the block FREE, and may the request use it without a wait? */
static inline bool
block_is_usable(struct view *view, const struct block *block)
{
	return block != NULL && block_state(block) == BLOCK_FREE &&
	    block->freed_at <= view_until(view, block->pool->owner);
}

/* The position of the heap's stream, for a free or a request in a capture. */
struct position heap_position_captured(struct stream_heap *heap)
    HOLDS(heap->arena->lock);
static inline struct position
heap_position(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	if (heap->arena->waiting.in_captures)
		return heap_position_captured(heap);
	return (struct position){ .tick = stream_worked_at(heap->stream) };
}

/* Does the order in a capture cover every free block of this heap? True if
 * `capture` is 0. */
bool heap_order_covers(const struct stream_heap *heap, uint64_t capture);

#endif
