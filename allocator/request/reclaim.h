/*
 * Makes pending memory free, and gives free memory back to the driver.
 */
#ifndef ALLOCATOR_REQUEST_RECLAIM_H
#define ALLOCATOR_REQUEST_RECLAIM_H

#include "allocator/request/tuning.h"
#include "allocator/state.h"

/* Free the pending blocks whose uses have ended, and the memory of streams that
 * have ended and completed. True if any memory became free. `skips` is as for
 * waiting_poll(). */
bool reclaim_poll(struct arena *arena, unsigned skips) HOLDS(arena->lock);
/* As reclaim_poll(), but keep device-scope blocks for requests of their size:
 * tcache.h, Note [Complete memory]. */
void reclaim_poll_complete(struct arena *arena) HOLDS(arena->lock);

/* Poll only a few of the streams that pending blocks wait for, and keep blocks
 * as reclaim_poll_complete() does. */
void reclaim_glance(struct arena *arena) HOLDS(arena->lock);

/* Make a pending block whose uses are gone a free block of another pool. */
void reclaim_pending_to(struct block *block, struct pool *pool)
    HOLDS(block->arena->lock);

/* Poll which streams are idle, without a wait. */
void reclaim_refresh(struct arena *arena) HOLDS(arena->lock);
/* Poll pending blocks and streams, before and after a capture. Takes the
 * lock. */
void reclaim_look(struct arena *arena);

/* Begin to wait for streams: each may be waited for again. */
static inline void
reclaim_begin_waits(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->request.tries++;
}

/* Collect garbage: garbage_collection_threshold. */
void reclaim_collect(struct arena *arena, const struct options *options)
    HOLDS(arena->lock);

/* Note the peak of requested bytes, with a request, and return it: for memory
 * with a bound. */
size_t reclaim_note_live(struct arena *arena, size_t rounded)
    HOLDS(arena->lock);

/* Memory with a bound: how much may be held beyond the peak of requested bytes;
 * and how far beyond that the arena would be with new memory for so many
 * bytes. */
size_t reclaim_spare(const struct arena *arena, const struct options *options);
size_t reclaim_beyond(
    const struct arena *arena, const struct options *options, size_t bytes);

/* Memory has been given back: if it has a bound, the peak starts again. */
void reclaim_bound_again(struct arena *arena) HOLDS(arena->lock);

/* Give back unused memory beyond the limit on it, pinned_idle_mb. */
void reclaim_tidy(struct arena *arena, const struct options *options)
    HOLDS(arena->lock);

/* Give back at least `want` bytes of complete free memory, the longest unused
 * first. Returns the bytes given back. */
size_t reclaim_shed(struct arena *arena, size_t want) HOLDS(arena->lock);

/* Give back a portion of the complete free memory with free ticks up to
 * `latest`. Returns the bytes given back; *all is false if there may be more of
 * it. */
size_t reclaim_shed_old(struct arena *arena, uint64_t latest, bool *all)
    HOLDS(arena->lock);

/* Wait on the host, with the lock released, for the oldest pending block or for
 * the stream that holds back the most memory. False if there is nothing to wait
 * for. */
bool reclaim_wait(struct arena *arena) HOLDS(arena->lock);

/* weir_trim() of one arena: give back all unused memory but *keep bytes, and
 * lower *keep by the bytes that stay. Takes the lock. Returns the bytes given
 * back. */
size_t reclaim_trim(struct arena *arena, size_t *keep);

/* End a heap whose stream is about to end: Note [A stream ends]. */
void reclaim_end(struct stream_heap *heap) HOLDS(heap->arena->lock);
/* End a heap without a driver call; a later poll records the event of the
 * end. */
void reclaim_end_later(struct stream_heap *heap) HOLDS(heap->arena->lock);

#endif
