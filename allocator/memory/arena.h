/*
 * An arena and the pools of each stream in it; leaving its lock for calls to
 * the driver.
 */
#ifndef ALLOCATOR_MEMORY_ARENA_H
#define ALLOCATOR_MEMORY_ARENA_H

#include "allocator/memory/types.h"
#include "allocator/policy/policy.h"

/* The arena of a device, or NULL if it has none yet. One load. */
struct arena *arena_peek(int device);

/* The arena of a device is this one from now on. Under lifecycle.c's lock. */
void arena_publish(int device, struct arena *arena);

/* The arena after this one of the same device; NULL at the end. Begin with
 * arena_peek(). Arenas are never freed, so this takes no lock. */
static inline struct arena *
arena_next(const struct arena *arena)
{
	return arena == arena->main ?
	    atomic_load_explicit(&arena->others, memory_order_acquire) :
	    arena->next;
}

/* Make the pools of a stream that has none. WEIR_EHOSTMEM. */
enum weir_status heap_make(
    struct arena *arena, struct stream *stream, struct stream_heap **out);

/* The pools of a stream, or NULL if it has none. */
struct stream_heap *heap_peek(
    const struct arena *arena, const struct stream *stream);

/* Is it one of these? Told from where it lies. */
static inline bool
heap_have(const struct stream_heap *heap, const struct pool *pool)
{
	return (uintptr_t)pool - (uintptr_t)heap->pool < sizeof(heap->pool);
}

static inline unsigned
arena_flags(const struct arena *arena)
{
	return atomic_load_explicit(&arena->flags, memory_order_relaxed);
}

static inline bool
arena_is_host(const struct arena *arena)
{
	return (arena_flags(arena) & ARENA_HOST) != 0;
}

/* Does it count for the device's totals and limit? */
static inline bool
arena_is_counted(const struct arena *arena)
{
	return (arena_flags(arena) & (ARENA_UNCOUNTED | ARENA_HOST)) == 0;
}

/* The size class of a request in an arena. */
static inline size_t
arena_class(
    const struct arena *arena, const struct options *options, size_t size)
{
	return arena_is_host(arena) ? size_of_granule(arena->granule, size) :
				      size_class(options, size);
}

/* The kind of pool for a size class. */
static inline enum pool_kind
arena_kind(const struct arena *arena, size_t rounded)
{
	return rounded < FINE_END && arena->granule < WEIR_GRANULE ?
	    POOL_FINE :
	    size_kind(rounded);
}

/* The granule of what is in pools of a kind. */
static inline size_t
arena_granule(const struct arena *arena, enum pool_kind kind)
{
	return kind == POOL_FINE ? arena->granule : WEIR_GRANULE;
}

/*
 * Leave the lock for calls to the driver, and take it again. A job that does so
 * raises arena->jobs before and ends with arena_job_done(), under the lock:
 * segments and blocks outlast it even if the context goes.
 */
void arena_leave_for_driver(struct arena *arena);
void arena_enter_from_driver(struct arena *arena);

/* Bytes held, or about to be. */
size_t arena_held(const struct arena *arena);

/* Bytes that prefer:memory holds at most before it moves all free memory
 * together; from the most that was ever live: docs/adr/0004. */
static inline size_t
arena_memory_most(const struct arena *arena)
{
	return policy_memory_most(arena->most_live);
}

/* Pools that have freed blocks, in the order in which they were made; NULL: no
 * more. */
static inline struct stream_heap *
heap_of_free_node(struct tree_node *node)
{
	return node != NULL ?
	    CONTAINER_OF(node, struct stream_heap, free_node) :
	    NULL;
}

static inline struct stream_heap *
heap_first_freed(const struct arena *arena)
{
	return heap_of_free_node(tree_first(&arena->having_freed));
}

static inline struct stream_heap *
heap_next_freed(const struct stream_heap *heap)
{
	return heap_of_free_node(tree_next(&heap->free_node));
}

static inline void
heap_insert_freed(struct stream_heap *heap)
{
	if (__builtin_expect(!heap->in_having_freed, 0)) {
		heap->in_having_freed = true;
		tree_insert(&heap->arena->having_freed, &heap->free_node);
	}
}

/* Add a block to the end of its heap's freed blocks. */
static inline void
heap_add_freed(struct block *block)
{
	struct stream_heap *heap = block->pool->owner;

	list_push_back(&heap->freed, &block->pending.link);
	heap_insert_freed(heap);
}

/* A block of the heap, freed at a tick, becomes pending. Whoever wants its
 * memory comes after the heap's stream, too. */
static inline void
heap_add_pending(struct stream_heap *heap, uint64_t tick)
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

/* Take out a heap that has nothing freed any more, or that goes. */
static inline void
heap_remove_freed(struct stream_heap *heap)
{
	if (!heap->in_having_freed || !list_empty(&heap->freed))
		return;
	heap->in_having_freed = false;
	tree_remove(&heap->arena->having_freed, &heap->free_node);
}

/* The stream of these pools has ended; and all its work is done, or they go. */
static inline void
heap_end(struct stream_heap *heap)
{
	heap->ended = true;
	list_push_back(&heap->arena->ended, &heap->ended_link);
	heap->arena->ending++;
}
static inline void
heap_is_over(struct stream_heap *heap)
{
	list_remove(&heap->ended_link);
	heap->arena->ending--;
}

/* Drop pools that hold no block and that nobody uses. */
void heap_drop(struct stream_heap *heap);
/* Drop pools that have ended and passed, as above. */
static inline void
heap_drop_if_done(struct stream_heap *heap)
{
	if (__builtin_expect(heap->completed, 0))
		heap_drop(heap);
}

/* Fill a new arena but for its limit and its place in lists; `main` may be it.
 * WEIR_EHOSTMEM, WEIR_EDRIVER. */
enum weir_status arena_set_up(struct arena *arena, struct arena *main);

/* Drop the fences of pools; of those whose context is gone. */
void fences_drop(struct stream_heap *heap);
void fences_forget(struct stream_heap *heap);

/* Bytes of a zone of guarded blocks (observe/guard.h); 0: none. Set before the
 * first block is made. */
#pragma GCC visibility push(hidden)
extern size_t guard_zone;
#pragma GCC visibility pop

/* Private pools have no zones: checkpoints and replays rely on where their
 * blocks lie. Nor has host memory. */
static inline bool
guard_is_for(const struct arena *arena)
{
	return __builtin_expect(guard_zone != 0, 0) && arena == arena->main;
}

#endif
