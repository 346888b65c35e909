/*
 * What it takes to use memory that a stream may not use yet.
 */
#ifndef ALLOCATOR_FENCES_FENCE_H
#define ALLOCATOR_FENCES_FENCE_H

#include "allocator/memory/view.h"
#include "allocator/policy/policy.h"

/* How many streams one request asks about. */
enum { FENCES_ASKED = 64 };

/* A stream that allocates is fenced each time so much has been freed on it. */
enum { FENCES_LEAST = 4 << 20 };

/* Fence the stream of a request now and then, so that others can tell what of
 * its memory is done with. */
void fences_keep_due(struct stream_heap *mine);
static inline void
fences_keep(struct stream_heap *mine)
{
	if (mine->arena->streams > 1 && mine->freed_bytes >= FENCES_LEAST)
		fences_keep_due(mine);
}

/* See how far the streams have come, and fence those that are not done for the
 * next time. */
void fences_poll(struct stream_heap *mine);

/* See which of weir's waits are over, and count how long they took and how late
 * they have made the latest stream: streams/delay.h, Note [Measured delay]. */
void fences_see_delay(struct arena *arena);

/* How late the stream is, in ns: 0 as soon as it has nothing left to do. */
uint64_t fences_see_late(struct stream_heap *heap);

/* Ask a stream whether it has nothing left to do, and remember it. */
bool fences_ask(struct stream_heap *heap);

/* What a wait of `mine` for a tick of another stream costs; `is_use`: for a use
 * that was made then, else for what was freed by then. */
enum wait_cost fences_cost(const struct stream_heap *mine,
    const struct stream *other, uint64_t tick, bool is_use);

/* The age of the oldest fence of a stream that is not met; 0: there is none. */
uint64_t fences_busy_ns(const struct stream_heap *heap);

/* Forecast a wait for all that `other` freed until a tick, or for a use that is
 * not met. False: no event tells of it yet. */
bool fences_forecast(const struct view *view, const struct stream_heap *other,
    uint64_t tick, struct forecast *out);
bool fences_forecast_use(const struct use *use, struct forecast *out);

/* Put the view's stream behind what `other` freed until a tick, by a wait on
 * the device if that is not known. */
bool fences_follow(const struct view *view, struct stream_heap *other,
    uint64_t tick, enum waits waits);

/* The best block for a request that the earliest fence of `other` lets go that
 * is waited for; NULL: none does. Wait by fences_follow(). */
struct block *fences_find(const struct view *view, struct stream_heap *other,
    size_t rounded, enum waits waits);

/*
 * Put the view's stream behind the next fence of `other` after the tick
 * `*followed_until`, which becomes the fence's; false if nothing comes of it.
 * The tick starts at 0. It makes a loop of calls end: what a stream is behind
 * is not known for good (ORDER_KNOWN), so order alone would offer the same
 * fence again.
 */
bool fences_follow_next(const struct view *view, struct stream_heap *other,
    uint64_t *followed_until, enum waits waits);

#endif
