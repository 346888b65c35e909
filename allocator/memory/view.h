/*
 * What a request knows of the memory it may use.
 */
#ifndef ALLOCATOR_MEMORY_VIEW_H
#define ALLOCATOR_MEMORY_VIEW_H

#include "allocator/memory/block.h"
#include "streams/order.h"

/* Begin with nothing known: no order either, before view_can_wait(). */
void view_begin(struct view *view, struct stream_heap *mine);

/* Look anew at each stream: more is known, or the lock was left. */
void view_renew(struct view *view);

/* May the request rely on what its stream is behind, and can the stream be put
 * behind more? Sets `ordered` and `capture`. */
bool view_can_wait(struct view *view);

/* The tick until which memory freed in `pools` may be used without a wait. */
uint64_t view_ask(const struct view *view, const struct stream_heap *heap);
static inline uint64_t
view_until(struct view *view, const struct stream_heap *heap)
{
	unsigned i = (unsigned)(heap->index % VIEW_KEPT);

	if (view->kept[i].heap != heap) {
		view->kept[i].heap = heap;
		view->kept[i].until = view_ask(view, heap);
	}
	return view->kept[i].until;
}

/* The stream has just been put behind what was freed there until a tick. */
void view_put_behind(
    struct view *view, const struct stream_heap *heap, uint64_t tick);

/* Is it free, and may the request use it? */
static inline bool
block_is_usable(struct view *view, const struct block *block)
{
	return block != NULL && block_state(block) == BLOCK_FREE &&
	    block->freed_at <= view_until(view, block->pool->owner);
}

/* Where the stream is: for a free, and a request in a capture. */
struct position heap_position_captured(struct stream_heap *heap);
static inline struct position
heap_position(struct stream_heap *heap)
{
	if (heap->arena->waiting.in_captures)
		return heap_position_captured(heap);
	return (struct position){ .tick = stream_worked_at(heap->stream) };
}

/* Is all that the order of a capture says of them true of all their free
 * memory? 0: in no capture. */
bool heap_are_of(const struct stream_heap *heap, uint64_t capture);

#endif
