/*
 * Emits events to trace/: to the history under the arena's lock, where the
 * change is made; to callbacks with no lock held.
 */
#ifndef ALLOCATOR_MEMORY_EMIT_H
#define ALLOCATOR_MEMORY_EMIT_H

#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "trace/observe.h"

/* ---- Under the arena's lock -------------------------------------------- */

/* The slow paths of the inline functions below. */
void emit_alloc_slow(struct block *block) HOLDS(block->arena->lock);
void emit_free_requested_slow(const struct block *block)
    HOLDS(block->arena->lock);
void emit_free_completed_slow(struct block *block) HOLDS(block->arena->lock);
void emit_freed_slow(struct block *block) HOLDS(block->arena->lock);
void emit_memory(const struct segment *segment, CUdeviceptr addr, size_t size,
    enum trace_action action) HOLDS(segment->arena->lock);
void emit_oom_slow(struct arena *arena, const struct stream *stream,
    size_t free_bytes, size_t rounded) HOLDS(arena->lock);
void emit_snapshot(struct arena *arena) HOLDS(arena->lock);

/* Enter and leave the history of an arena's device, under the arena's lock. */
struct history_ring *emit_ring_enter(struct arena *arena) HOLDS(arena->lock);
void emit_ring_leave(struct arena *arena) HOLDS(arena->lock);

/* Emit that a block was allocated. */
static inline void
emit_alloc(struct block *block) HOLDS(block->arena->lock)
{
	if (history_on())
		emit_alloc_slow(block);
}

/* Emit that its caller has freed it. */
static inline void
emit_free_requested(const struct block *block) HOLDS(block->arena->lock)
{
	if (history_on())
		emit_free_requested_slow(block);
}

/* Emit that its memory can be used again. */
static inline void
emit_free_completed(struct block *block) HOLDS(block->arena->lock)
{
	if (history_on())
		emit_free_completed_slow(block);
}

/* Emit both at once. */
static inline void
emit_freed(struct block *block) HOLDS(block->arena->lock)
{
	if (history_on())
		emit_freed_slow(block);
}

/* Emit that memory was mapped at addresses that are now part of `block`, or
 * unmapped there. */
static inline void
emit_range(const struct block *block, CUdeviceptr addr, size_t size,
    bool mapped) HOLDS(block->arena->lock)
{
	if (history_on()) {
		lock_assert_held(&block->segment->arena->lock);
		emit_memory(block->segment, addr, size,
		    mapped ? TRACE_segment_map : TRACE_segment_unmap);
	}
}

/* Emit that a driver segment was allocated, or is about to be freed. */
static inline void
emit_segment(const struct segment *segment, bool come)
    HOLDS(segment->arena->lock)
{
	if (history_on())
		emit_memory(segment, segment->addr, segment->size,
		    come ? TRACE_segment_alloc : TRACE_segment_free);
}

/* Emit that a request has failed. */
static inline void
emit_oom(struct arena *arena, const struct stream *stream, size_t free_bytes,
    size_t rounded) HOLDS(arena->lock)
{
	if (history_on())
		emit_oom_slow(arena, stream, free_bytes, rounded);
}

/* ---- With no lock ------------------------------------------------------ */

/* Does the history or a callback want every allocation and free? */
static inline bool
emit_is_wanted(void)
{
	return history_on() || observed(WEIR_TRACE_MEMORY_ALLOCATION) ||
	    observed(WEIR_TRACE_MEMORY_DEALLOCATION);
}

/* Describe a live block to callbacks. The block is the caller's, or the arena's
 * lock is held. */
struct weir_trace emit_trace(
    const struct block *block, enum weir_trace_kind kind);

/* Call the callbacks about an allocation. */
static inline void
emit_allocated(const struct block *block)
{
	if (observed(WEIR_TRACE_MEMORY_ALLOCATION) &&
	    block->arena->traits.is_observed)
		observe(emit_trace(block, WEIR_TRACE_MEMORY_ALLOCATION));
}

/* Call the callbacks about an allocation, by its address. */
static inline void
emit_allocated_at(const void *ptr)
{
	if (observed(WEIR_TRACE_MEMORY_ALLOCATION))
		emit_allocated(lookup_exact((CUdeviceptr)(uintptr_t)ptr));
}

#endif
