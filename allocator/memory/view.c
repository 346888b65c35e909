/*
 * Views: how far a request may use the free memory of each stream.
 *
 * Note [Memory in a capture]
 *
 * Memory that stream A frees while it is captured may serve stream B in the
 * same capture if B is ordered after A there. If memory is short, a new edge of
 * the graph orders B after A. That order does not cover memory that A freed
 * before the capture, which may have been merged with it. Therefore it is used
 * only if all that A freed before the capture is complete. Streams are polled
 * before a capture begins, because they cannot be polled in it. A graph's
 * memory must stay where it is, so the order of a capture is used only in an
 * arena that is kept.
 */
#include "allocator/memory/view.h"

#include "base/status.h"
#include "streams/capture.h"

/* ---- Captures ---------------------------------------------------------- */

struct position
heap_position_captured(struct stream_heap *heap)
{
	struct position place = order_position(heap->stream);

	lock_assert_held(&heap->arena->lock);
	if (place.capture != 0 && place.capture != heap->seen_in) {
		heap->seen_in = place.capture;
		heap->freed_before = heap->freed_at;
	}
	return place;
}

bool
heap_order_covers(const struct stream_heap *heap, uint64_t capture)
{
	return capture == 0 ||
	    (heap->seen_in == capture &&
		heap->freed_before <= heap->completed_at);
}

static bool
is_captured(struct stream *stream)
{
	struct capture_guard guard;
	bool captured = true; /* if the driver does not say */

	if (capture_none())
		return false;
	status_mute();
	if (capture_enter(stream->context, &guard) == WEIR_OK) {
		captured = stream_capturing(stream);
		capture_leave(&guard);
	}
	status_unmute();
	return captured;
}

/* ---- A view ------------------------------------------------------------ */

void
view_begin(struct view *view, struct stream_heap *mine)
{
	ASSERT(mine != NULL);
	view->mine = mine;
	view->ordered = false;
	view->capture = 0;
	view->busy_since = 0;
	view_renew(view);
}

void
view_renew(struct view *view)
{
	view->asked = 0;
}

bool
view_can_wait(struct view *view)
{
	struct stream_heap *mine = view->mine;

	lock_assert_held(&view->mine->arena->lock);
	view->capture = 0;
	view->ordered = false;
	if (mine->stream->handle == WEIR_STREAM_ANY || mine->ended)
		return false;
	if (mine->arena->memory.kept > 0) {
		lock_assert_held(&mine->arena->lock);
		view->capture = heap_position(mine).capture;
	}
	view->ordered = view->capture != 0 || !is_captured(mine->stream);
	return view->ordered;
}

uint64_t
view_ask(const struct view *view, const struct stream_heap *heap)
{
	uint64_t until = heap->completed_at;

	ASSERT(heap->arena == view->mine->arena);
	if (heap == view->mine)
		return UINT64_MAX;
	if (view->ordered && heap_order_covers(heap, view->capture)) {
		uint64_t behind = order_after(
		    view->mine->stream, heap->stream, view->capture);
		until = behind > until ? behind : until;
	}
	return until;
}

void
view_put_behind(
    struct view *view, const struct stream_heap *heap, uint64_t tick)
{
	unsigned i = (unsigned)(heap->index % VIEW_KEPT);

	ASSERT(heap->arena == view->mine->arena);
	view->asked |= 1u << i;
	view->kept[i].heap = heap;
	view->kept[i].until = tick;
}
