/*
 * How memory becomes free, and goes back to the driver.
 */
#ifndef ALLOCATOR_REQUEST_RECLAIM_H
#define ALLOCATOR_REQUEST_RECLAIM_H

#include "allocator/memory/types.h"

/* How many late fences of a stream a search for memory looks past. */
enum { RECLAIM_SKIPS = 64 };

/* Free the pending blocks whose uses have ended and take over from streams
 * that have; true if any memory became free. `skips` as for waiting_poll(). */
bool reclaim_poll(struct arena *arena, unsigned skips);
/* Poll as above, but keep memory of no stream for requests of its size where
 * that may help: tcache.h, Note [Complete memory]. */
void reclaim_poll_complete(struct arena *arena);

/* See to a few of the streams that pending blocks wait for; as the second. */
void reclaim_glance(struct arena *arena);

/* A pending block whose uses are gone becomes free, of another pool. */
void reclaim_pending_to(struct block *block, struct pool *pool);

/* See which streams are idle, where that takes no wait. */
void reclaim_refresh(struct arena *arena);
/* See which streams are idle and free what can be freed; before and after a
 * capture. Takes the lock. */
void reclaim_look(struct arena *arena);

/* Give back what the collector finds old. */
void reclaim_collect(struct arena *arena, const struct options *options);

/* Host memory: before more is taken for a request, give back what is held
 * beyond an eighth more than the most that was ever asked for at once. */
void reclaim_bound(
    struct arena *arena, const struct options *options, size_t rounded);

/* Host memory: give back what is unused beyond the cap. */
void reclaim_tidy(struct arena *arena, const struct options *options);

/* Give back at least `want` bytes of what no work uses, the longest unused
 * first; returns the bytes given back. */
size_t reclaim_shed(struct arena *arena, size_t want);

/* Give back all that no work uses and that was freed no later than a tick;
 * returns the bytes given back. */
size_t reclaim_shed_old(struct arena *arena, uint64_t latest);

/* Wait on the host, with the lock left, for the oldest pending block or for the
 * stream that holds back most; false if there is nothing to wait for. */
bool reclaim_wait(struct arena *arena);

/* weir_trim() of one arena: all but *keep bytes of what is unused, which falls
 * by what has stayed. Takes the lock. Returns the bytes given back. */
size_t reclaim_trim(struct arena *arena, size_t *keep);

/* The stream of these pools is about to go: Note [A stream ends]. */
void reclaim_end(struct stream_heap *heap);
/* End these pools without a call to the driver: a later poll records the end.
 */
void reclaim_end_later(struct stream_heap *heap);

#endif
