/*
 * Serves a request that no cache serves.
 */
#ifndef ALLOCATOR_REQUEST_LADDER_H
#define ALLOCATOR_REQUEST_LADDER_H

#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/promote.h"
#include "allocator/request/decay.h"
#include "allocator/request/tuning.h"

/* Serve a request that its own pool did not serve, or that does not begin with
 * it. `rounded` is its size class. */
enum weir_status ladder_climb(struct stream_heap *heap,
    const struct options *options, size_t size, size_t rounded,
    struct block **out) HOLDS(heap->arena->lock);

/* Do the upkeep that is due once in many requests. May release and retake the
 * lock. */
void ladder_upkeep(struct arena *arena, const struct options *options)
    HOLDS(arena->lock);

/* Poll which memory is complete by now, so that a large request finds all
 * memory that it may use. */
void ladder_poll(struct stream_heap *heap) HOLDS(heap->arena->lock);

/* Does a request look for the best fit among all usable runs, instead of in its
 * own pool first? Not if only one stream allocates, because there is no other
 * memory. Not in private arenas either, which must give the same addresses
 * again whatever memory is complete. */
static inline bool
ladder_prefers_runs(const struct stream_heap *heap, enum pool_kind kind)
{
	const struct arena *arena = heap->arena;

	return kind == POOL_LARGE && arena->memory.streams >= 2 &&
	    heap != arena->memory.any_heap && arena_promotes(arena);
}

/* Is other memory searched before the stream's own pool? */
static inline bool
ladder_is_own_last(const struct stream_heap *heap,
    const struct options *options, enum pool_kind kind)
{
	return __builtin_expect(options->prefer == PREFER_MEMORY, 0) ||
	    ladder_prefers_runs(heap, kind);
}

/* Does a request look at its planned place first? plan.h, Note [A placement
 * made ahead]. */
static inline bool
ladder_is_planned(const struct stream_heap *heap, enum pool_kind kind)
{
	const struct arena *arena = heap->arena;

	return kind == POOL_LARGE &&
	    __builtin_expect(arena->request.plan != NULL, 0) &&
	    heap != arena->memory.any_heap;
}

/* Allocate a block for a request, by every step of Note [Reclaim ladder].
 * `plain`: the request is device-scope. WEIR_ENOMEM, WEIR_EHOSTMEM,
 * WEIR_EDRIVER. May release and retake the lock. */
static inline QUICK enum weir_status
ladder_allocate(struct stream_heap *heap, const struct options *options,
    size_t size, bool plain, struct block **out) HOLDS(heap->arena->lock)
{
	struct arena *arena = heap->arena;
	size_t rounded = arena_class(arena, options, size);
	enum pool_kind kind = arena_kind(arena, rounded);

	if (decay_is_due(arena) || options->reclaim_always) {
		lock_assert_held(&arena->lock);
		ladder_upkeep(arena, options);
	}
	fences_upkeep(heap);
	if (kind == POOL_LARGE)
		fences_note_request(heap, rounded);
	if (kind == POOL_LARGE &&
	    arena->cache.served - arena->request.polled >= REQUESTS_A_POLL &&
	    ladder_prefers_runs(heap, kind))
		ladder_poll(heap);
	if (!ladder_is_own_last(heap, options, kind) &&
	    !ladder_is_planned(heap, kind)) {
		lock_assert_held(&heap->pool[kind].owner->arena->lock);
		enum weir_status status =
		    pool_take(&heap->pool[kind], options, rounded, plain, out);
		if (status != WEIR_OK || *out != NULL)
			return status;
	}
	return ladder_climb(heap, options, size, rounded, out);
}

/* Serve a request from free memory that may be used at once. Returns
 * WEIR_ENOMEM without setting the status. */
enum weir_status ladder_allocate_idle(struct stream_heap *heap,
    const struct options *options, size_t size, struct block **out)
    HOLDS(heap->arena->lock);

/* Forget the notes of requests of an arena whose context is gone. */
void ladder_forget(struct arena *arena) HOLDS(arena->lock);

#endif
