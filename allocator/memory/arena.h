/*
 * Arenas by device, their stream heaps, and the release of an arena's lock for
 * driver calls.
 */
#ifndef ALLOCATOR_MEMORY_ARENA_H
#define ALLOCATOR_MEMORY_ARENA_H

#include "allocator/memory/tuning.h"
#include "allocator/policy/policy.h"
#include "allocator/state.h"

/* The arena of a device, or NULL if it has none yet. One load. */
struct arena *arena_peek(int device);

/* Make this arena, or none, the one of a device. Under lifecycle.c's lock. */
void arena_publish(int device, struct arena *arena);

/* The next arena of a device, after arena_peek(); NULL at the end. Takes no
 * lock, because arenas are never freed. */
static inline struct arena *
arena_next(const struct arena *arena)
{
	return arena == arena->main ?
	    atomic_load_explicit(&arena->private.others, memory_order_acquire) :
	    arena->private.next;
}

/* Make the heap of a stream that has none. WEIR_EHOSTMEM. */
enum weir_status heap_make(struct arena *arena, struct stream *stream,
    struct stream_heap **out) HOLDS(arena->lock);

/* The heap of a stream, or NULL if it has none. */
struct stream_heap *heap_peek(
    const struct arena *arena, const struct stream *stream);

/* Is it a pool of this heap? Compares addresses only. */
static inline bool
heap_owns(const struct stream_heap *heap, const struct pool *pool)
{
	return (uintptr_t)pool - (uintptr_t)heap->pool < sizeof(heap->pool);
}

static inline unsigned
arena_flags(const struct arena *arena)
{
	return atomic_load_explicit(&arena->memory.flags, memory_order_relaxed);
}

/* Clear and set flags of an arena. */
static inline void
arena_change_flags(struct arena *arena, unsigned clear, unsigned set)
    HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	atomic_store(&arena->memory.flags, (arena_flags(arena) & ~clear) | set);
}

/* Does the arena count for the device's totals and limit? */
static inline bool
arena_is_counted(const struct arena *arena)
{
	return arena->traits.account == ACCOUNT_DEVICE;
}

/* Is a block of the heap device-scope, so that all streams may use it? */
static inline bool
heap_is_device_scope(const struct stream_heap *heap)
{
	return heap == heap->arena->memory.any_heap &&
	    heap->arena->traits.has_streams;
}

/* Is memory of cuMemAlloc kept from streams that have mapped memory?
 * segment.c, Note [One kind of memory]. */
extern atomic_bool arena_keeps_apart;

/* Do the streams of the arena get their memory in expandable segments? */
static inline bool
arena_maps(const struct arena *arena, const struct options *options)
{
	return options->expandable_segments && arena->traits.can_map &&
	    (arena_flags(arena) & ARENA_NO_SPLIT) == 0;
}

/* Does the heap get its memory in expandable segments? Then its free memory,
 * of any kind, can be mapped where a request needs it. */
static inline bool
heap_maps(const struct stream_heap *heap, const struct options *options)
{
	if (!heap->arena->traits.has_streams)
		return heap->arena->traits.can_map;
	return (heap != heap->arena->memory.any_heap || options->may_sleep) &&
	    arena_maps(heap->arena, options);
}

/* Are FREE blocks of one stream kept apart that were freed before and after an
 * event? block.c, Note [Free ticks]. */
static inline bool
arena_heeds_fences(const struct arena *arena)
{
	return arena->memory.streams >= 2 || arena->memory.lends;
}

/* From now on they are, also with one stream. */
static inline void
arena_begin_lending(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->memory.lends = true;
}

static inline bool
arena_has_many_streams(const struct arena *arena)
{
	return arena->memory.streams >= STREAMS_MANY;
}

/* The size class of a request that no option rounds. */
static inline size_t
arena_size(const struct arena *arena, size_t size)
{
	return size > arena->traits.small_max ?
	    round_up(size, arena->memory.page) :
	    size_of_granule(arena->memory.granule, size);
}

/* The size class of a request in an arena. */
static inline size_t
arena_class(
    const struct arena *arena, const struct options *options, size_t size)
{
	return arena->traits.has_rounding ? size_class(options, size) :
					    arena_size(arena, size);
}

/* The kind of pool for a size class. */
static inline enum pool_kind
arena_kind(const struct arena *arena, size_t rounded)
{
	if (rounded < FINE_END && arena->memory.granule < WEIR_GRANULE)
		return POOL_FINE;
	return rounded <= arena->traits.small_max ? POOL_SMALL : POOL_LARGE;
}

/* The granule of blocks in pools of a kind. */
static inline size_t
arena_granule(const struct arena *arena, enum pool_kind kind)
{
	return kind == POOL_FINE ? arena->memory.granule : WEIR_GRANULE;
}

/*
 * Release the lock for driver calls, and take it again. A job that does so
 * raises arena->memory.jobs before and ends with arena_job_done(), both under
 * the lock, so that segments and blocks outlast the job even if the context
 * goes.
 */
void arena_leave_for_driver(struct arena *arena) LEAVES(arena->lock);
void arena_enter_from_driver(struct arena *arena) ENTERS(arena->lock);

/* With prefer:memory, the most bytes held before all free memory is moved
 * together. Follows from the peak of live bytes: docs/adr/0004. */
static inline size_t
arena_memory_most(const struct arena *arena)
{
	return arena->policy.most_live +
	    policy_memory_spare(arena->policy.most_live);
}

/* Walk the heaps that have freed blocks; NULL: the end. They come in the order
 * in which they were made, or, where there are many streams, in that of their
 * first free. */
static inline struct stream_heap *
heap_of_freed_link(const struct arena *arena, const struct list *link)
{
	return link != &arena->memory.having_freed ?
	    CONTAINER_OF(link, struct stream_heap, freed_link) :
	    NULL;
}

static inline struct stream_heap *
heap_first_freed(const struct arena *arena) HOLDS(arena->lock)
{
	return heap_of_freed_link(arena, arena->memory.having_freed.next);
}

static inline struct stream_heap *
heap_next_freed(const struct stream_heap *heap)
{
	return heap_of_freed_link(heap->arena, heap->freed_link.next);
}

/* Enter a heap that has freed a block into arena->having_freed. */
static inline void
heap_note_freed(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	struct arena *arena = heap->arena;
	struct list *at = &arena->memory.having_freed;

	while (!arena_has_many_streams(arena) &&
	    at->prev != &arena->memory.having_freed &&
	    heap_of_freed_link(arena, at->prev)->index > heap->index)
		at = at->prev;
	list_insert_before(at, &heap->freed_link);
}

/* Enter a heap that has freed or pending blocks into arena->having_freed. */
static inline void
heap_insert_freed(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	if (__builtin_expect(list_empty(&heap->freed_link), 0))
		heap_note_freed(heap);
}

/* Append a block to its pool's freed blocks. */
static inline void
heap_add_freed(struct block *block) HOLDS(block->arena->lock)
{
	list_push_back(&block->pool->freed, &block->pending.link);
	lock_assert_held(&block->pool->owner->arena->lock);
	heap_insert_freed(block->pool->owner);
}

/* Note that a block of the heap, freed at a tick, becomes pending. A stream
 * that gets its memory must be ordered after the heap's stream too. */
static inline void
heap_add_pending(struct stream_heap *heap, uint64_t tick)
    HOLDS(heap->arena->lock)
{
	if (heap->freed_at < tick)
		heap->freed_at = tick;
	if (heap->pended_at < tick)
		heap->pended_at = tick;
	if (tick > heap->completed_at)
		heap_insert_freed(heap);
}

/* May a block of the heap be pending, with work of the heap's own stream on it
 * that was not seen to be complete? */
static inline bool
heap_may_hold_pending(const struct stream_heap *heap)
{
	return heap->pended_at > heap->completed_at;
}

/* Has the heap freed blocks, in a list or yet to be listed? */
static inline bool
heap_has_freed(const struct stream_heap *heap)
{
	for (int kind = 0; kind < POOL_KINDS; kind++)
		if (heap->pool[kind].unlisted ||
		    !list_empty(&heap->pool[kind].freed))
			return true;
	return false;
}

/* Remove a heap that has no freed blocks any more from arena->having_freed. */
static inline void
heap_remove_freed(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	if (!heap_has_freed(heap))
		list_remove(&heap->freed_link);
}

/* heap_end(): the heap's stream has ended. heap_complete(): all its work is
 * done. heap_remove_ended(): it has no free or cached blocks any more, or is
 * dropped. */
static inline void
heap_end(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	heap->ended = true;
	list_push_back(&heap->arena->memory.ended, &heap->ended_link);
	heap->arena->memory.ending++;
}
/* Make an ended heap the last to be polled. */
static inline void
heap_poll_later(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	ASSERT(heap->ended && !heap->completed);
	list_remove(&heap->ended_link);
	list_push_back(&heap->arena->memory.ended, &heap->ended_link);
}
static inline void
heap_complete(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	heap->completed = true;
	list_remove(&heap->ended_link);
	list_push_back(&heap->arena->memory.emptied, &heap->ended_link);
}
static inline void
heap_remove_ended(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	list_remove(&heap->ended_link);
	heap->arena->memory.ending--;
}

/* Drop a heap if it has no block, no pin and no cache. It has no fence. */
void heap_drop(struct stream_heap *heap) HOLDS(heap->arena->lock);
/* Do so if the heap's stream has ended and its work is done. */
static inline void
heap_drop_if_done(struct stream_heap *heap) HOLDS(heap->arena->lock)
{
	if (__builtin_expect(heap->completed, 0))
		heap_drop(heap);
}

/* Begin the memory of a new arena whose constants are set, with no limit, and
 * make the heap of WEIR_STREAM_ANY. WEIR_EHOSTMEM. */
enum weir_status memory_begin(struct arena *arena);
/* Ask the driver about the memory of a device, given its own arena, which knows
 * its device and traits. WEIR_EDRIVER. */
enum weir_status memory_ask_device(struct arena *arena);

/*
 * Begin a use of an arena besides the device's own, which has no memory.
 *
 * @param source of its segments; NULL: the driver
 * @param flags  of enum arena_flags
 * @param totals that it counts in
 * @param forgotten the context is gone
 */
void memory_begin_use(struct arena *arena, const struct source *source,
    unsigned flags, struct totals *totals, bool forgotten) HOLDS(arena->lock);
/* End the use: its counters go to the totals. It has no memory left. */
void memory_end_use(struct arena *arena) HOLDS(arena->lock);

/* Say where page-locked memory lies, by NUMA node, and the index of the arena's
 * only heap. Before others know the arena. */
void memory_set_host(struct arena *arena, int node, uint64_t index);

/* Bytes of a guard zone (observe/guard.h); 0: none. Set before the first block
 * is made. */
#pragma GCC visibility push(hidden)
extern size_t guard_zone;
#pragma GCC visibility pop

/* Do blocks of this arena have guard zones? Those of private pools have none,
 * because checkpoints and replays rely on their addresses. Host memory has none
 * either. */
static inline bool
guard_is_for(const struct arena *arena)
{
	return __builtin_expect(guard_zone != 0, 0) && arena == arena->main;
}

#endif
