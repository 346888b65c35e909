/*
 * What it takes to use memory that a stream may not use yet.
 */
#ifndef ALLOCATOR_FENCES_FENCE_H
#define ALLOCATOR_FENCES_FENCE_H

#include "allocator/memory/view.h"
#include "allocator/policy/policy.h"

/* How many streams one request asks about. */
enum { MARKS_ASKED = 64 };

/* A stream that allocates is marked each time so much has been freed on it. */
enum { MARKS_LEAST = 4 << 20 };

/* Mark the stream of a request now and then, so that others can tell what of
 * its memory is done with. */
void marks_keep_due(struct pools *mine);
static inline void
marks_keep(struct pools *mine)
{
	if (mine->arena->streams > 1 && mine->freed_bytes >= MARKS_LEAST)
		marks_keep_due(mine);
}

/* See how far the streams have come, and mark those that are not done for the
 * next time. */
void marks_poll(struct pools *mine);

/* See which of weir's waits are over, and count how long they took and how late
 * they have made the latest stream: streams/delay.h, Note [Measured delay]. */
void marks_see_delay(struct arena *arena);

/* How late the stream is, in ns: 0 as soon as it has nothing left to do. */
uint64_t marks_see_late(struct pools *pools);

/* Ask a stream whether it has nothing left to do, and remember it. */
bool marks_ask(struct pools *pools);

/* What a wait of `mine` for a tick of another stream costs; `is_use`: for a use
 * that was made then, else for what was freed by then. */
enum wait_cost marks_cost(const struct pools *mine, const struct stream *other,
    uint64_t tick, bool is_use);

/* Forecast a wait for all that `other` freed until a tick, or for a use that is
 * not met. False: no event tells of it yet. */
bool marks_forecast(const struct view *view, const struct pools *other,
    uint64_t tick, struct forecast *out);
bool marks_forecast_use(const struct use *use, struct forecast *out);

/* Put the view's stream behind what `other` freed until a tick, by a wait on
 * the device if that is not known. */
bool marks_follow(const struct view *view, struct pools *other, uint64_t tick,
    enum waits waits);

/* The best block for a request that the earliest mark of `other` lets go that
 * is waited for; NULL: none does. Wait by marks_follow(). */
struct block *marks_find(const struct view *view, struct pools *other,
    size_t rounded, enum waits waits);

/*
 * Put the view's stream behind the next mark of `other` after the tick
 * `*followed_until`, which becomes the mark's; false if nothing comes of it.
 * The tick starts at 0. It makes a loop of calls end: what a stream is behind
 * is not known for good (ORDER_KNOWN), so order alone would offer the same mark
 * again.
 */
bool marks_follow_next(const struct view *view, struct pools *other,
    uint64_t *followed_until, enum waits waits);

#endif
