/*
 * Records fences on streams, and makes streams wait for memory that they may
 * not use yet: fence.c, Note [Fences].
 */
#ifndef ALLOCATOR_FENCES_FENCE_H
#define ALLOCATOR_FENCES_FENCE_H

#include "allocator/fences/tuning.h"
#include "allocator/memory/view.h"
#include "allocator/policy/policy.h"

/* Begin with a lateness that is known already. */
static inline void
fences_begin(struct arena *arena, uint64_t late_ns) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->fences.late_ns = late_ns;
}

/* Drop the fences of a heap that gets no more. The second: the context is gone,
 * and with it all fences. */
void fences_drop(struct stream_heap *heap) HOLDS(heap->arena->lock);
void fences_forget(struct arena *arena) HOLDS(arena->lock);

/* Account for bytes that a stream has freed, or allocates by a large request,
 * for fences_upkeep(). */
static inline void
fences_note(struct stream_heap *heap, size_t bytes) HOLDS(heap->arena->lock)
{
	heap->fences.unfenced_bytes += bytes;
	if (heap->fences.unfenced_bytes >= FENCES_LEAST &&
	    heap != heap->arena->memory.any_heap)
		heap->arena->fences.due = heap;
}

static inline void
fences_note_request(struct stream_heap *mine, size_t bytes)
    HOLDS(mine->arena->lock)
{
	if (mine->arena->memory.streams <= 1 || mine->completed)
		return;
	fences_note(mine, bytes);
	mine->fences.served_at = order_now();
}

/* Fence the streams for which it is due, of a request's stream and the one that
 * freed latest: fence.c, Note [Fences]. */
void fences_upkeep_due(struct stream_heap *mine) HOLDS(mine->arena->lock);
static inline void
fences_upkeep(struct stream_heap *mine) HOLDS(mine->arena->lock)
{
	if (mine->arena->memory.streams > 1 &&
	    (mine->fences.unfenced_bytes >= FENCES_LEAST ||
		mine->arena->fences.due != NULL))
		fences_upkeep_due(mine);
}

/* Poll how far the streams have come, and fence those that are not done, for
 * the next request. */
void fences_poll(struct stream_heap *mine) HOLDS(mine->arena->lock);

/* Poll and fence all streams so, for requests of other processes. */
void fences_poll_all(struct arena *arena) HOLDS(arena->lock);

/* How late the heap's stream is, in ns; 0 if it has nothing left to do. */
uint64_t fences_see_late(struct stream_heap *heap) HOLDS(heap->arena->lock);

/* Ask each stream that may have uncompleted frees whether it has nothing left
 * to do, and if so raise its completed tick. */
void fences_ask_all(struct arena *arena) HOLDS(arena->lock);

/* Find since when the view's stream has been busy: since the record of its
 * oldest fence or use that is not met. */
void fences_see_busy(struct view *view) HOLDS(view->mine->arena->lock);

/* The cost of a wait of the view's stream for all work up to a tick of another
 * stream, after fences_see_busy(). `is_use`: the wait is for a use, else for
 * frees. */
enum wait_cost fences_cost(const struct view *view, const struct stream *other,
    uint64_t tick, bool is_use);

/* Forecast a wait for all frees of `other` up to a tick, or for an unmet use.
 * False: no event covers them yet. */
bool fences_forecast(const struct view *view, const struct stream_heap *other,
    uint64_t tick, struct forecast *out);
bool fences_forecast_use(const struct use *use, struct forecast *out);

/* Do the wait limits allow a wait for all frees of `other` up to a tick? False:
 * no fence covers them yet. */
bool fences_allow(const struct view *view, const struct stream_heap *other,
    uint64_t tick, enum waits waits);

/* Order the view's stream after all frees of `other` up to a tick, by a wait on
 * the device if it is not so already. False: no allowed wait does that. */
bool fences_follow(const struct view *view, struct stream_heap *other,
    uint64_t tick, enum waits waits) HOLDS(view->mine->arena->lock);

/*
 * Order the view's stream after the next fence of `other` beyond the tick
 * `*followed_until`, and set that to the fence's tick. False: there is none, or
 * the wait failed. The caller starts with 0. The tick makes a loop of calls
 * end: order facts may be lost (ORDER_KNOWN), so by order alone the same fence
 * could come again.
 */
bool fences_follow_next(const struct view *view, struct stream_heap *other,
    uint64_t *followed_until) HOLDS(view->mine->arena->lock);

#endif
