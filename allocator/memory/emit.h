/*
 * Events for trace/: the history is written under the arena's lock, where the
 * change was made; callbacks are called with no lock held.
 */
#ifndef ALLOCATOR_MEMORY_EMIT_H
#define ALLOCATOR_MEMORY_EMIT_H

#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "trace/observe.h"

/* ---- Under the arena's lock -------------------------------------------- */

/* The slow halves of what follows. */
void tell_new(struct block *block);
void tell_request(const struct block *block);
void tell_completion(struct block *block);
void tell_both(struct block *block);
void tell_memory(const struct segment *segment, CUdeviceptr addr, size_t size,
    enum trace_action action);
void tell_failure(struct arena *arena, const struct stream *stream,
    size_t free_bytes, size_t rounded);
void tell_snapshot(struct arena *arena);

/* The history of an arena's device, to be read by who holds the arena's lock.
 */
struct history_ring *tell_ring_enter(struct arena *arena);
void tell_ring_leave(struct arena *arena);

/* A block has been handed out. */
static inline void
tell_alloc(struct block *block)
{
	if (history_on())
		tell_new(block);
}

/* Its caller has given it back. */
static inline void
tell_free_requested(const struct block *block)
{
	if (history_on())
		tell_request(block);
}

/* Its memory can serve again. */
static inline void
tell_free_completed(struct block *block)
{
	if (history_on())
		tell_completion(block);
}

/* Both at one moment. */
static inline void
tell_freed(struct block *block)
{
	if (history_on())
		tell_both(block);
}

/* Memory has been mapped at addresses that are now part of `block`, or is
 * gone from them. */
static inline void
tell_range(
    const struct block *block, CUdeviceptr addr, size_t size, bool mapped)
{
	if (history_on())
		tell_memory(block->segment, addr, size,
		    mapped ? TRACE_segment_map : TRACE_segment_unmap);
}

/* A segment of the driver has come, or is about to go. */
static inline void
tell_segment(const struct segment *segment, bool come)
{
	if (history_on())
		tell_memory(segment, segment->addr, segment->size,
		    come ? TRACE_segment_alloc : TRACE_segment_free);
}

/* A request has failed. */
static inline void
tell_oom(struct arena *arena, const struct stream *stream, size_t free_bytes,
    size_t rounded)
{
	if (history_on())
		tell_failure(arena, stream, free_bytes, rounded);
}

/* ---- With no lock ------------------------------------------------------ */

/* Is every allocation and free to be told? */
static inline bool
tell_all(void)
{
	return history_on() || observed(WEIR_TRACE_MEMORY_ALLOCATION) ||
	    observed(WEIR_TRACE_MEMORY_DEALLOCATION);
}

/* Describe a live block to callbacks. The block is the caller's, or the arena's
 * lock is held. */
struct weir_trace tell_trace(
    const struct block *block, enum weir_trace_kind kind);

/* Memory has been allocated: callbacks. */
static inline void
tell_allocated(const struct block *block)
{
	if (observed(WEIR_TRACE_MEMORY_ALLOCATION) &&
	    !arena_is_host(block->arena))
		observe(tell_trace(block, WEIR_TRACE_MEMORY_ALLOCATION));
}

/* Report an allocation by its address. */
static inline void
tell_allocated_at(const void *ptr)
{
	if (observed(WEIR_TRACE_MEMORY_ALLOCATION))
		tell_allocated(lookup_exact((CUdeviceptr)(uintptr_t)ptr));
}

#endif
