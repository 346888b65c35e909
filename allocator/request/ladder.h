/*
 * The ladder of a request.
 */
#ifndef ALLOCATOR_REQUEST_LADDER_H
#define ALLOCATOR_REQUEST_LADDER_H

#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/promote.h"
#include "allocator/request/decay.h"

/* Where several streams allocate, what is complete is looked up for the next
 * large request once in so many requests, and whenever memory is missed. */
enum { REQUESTS_A_POLL = 4 };

/* A request that its own pool does not serve, or is not the first to be asked.
 */
enum weir_status take_further(struct stream_heap *heap,
    const struct options *options, size_t size, struct block **out);

/* Do the upkeep that is due once in many requests, and not for this one. May
 * leave and retake the lock. */
void take_now_and_then(struct arena *arena, const struct options *options);

/* Ask the driver which memory is complete by now, and which stream comes after
 * which, so that a large request finds all memory that is ready. */
void take_poll(struct stream_heap *heap);

/* Is the best fit looked for among all that is ready, and not in the stream's
 * own memory first? Where one stream allocates there is nothing else. Private
 * arenas must give the same addresses again, whatever is complete by then. */
static inline bool
take_is_for_runs(const struct stream_heap *heap, enum pool_kind kind)
{
	const struct arena *arena = heap->arena;

	return kind == POOL_LARGE && arena->streams >= 2 &&
	    heap != arena->any_heap && arena_promotes(arena);
}

/* Is more than the stream's own memory searched before that? */
static inline bool
take_is_own_last(const struct stream_heap *heap, const struct options *options,
    enum pool_kind kind)
{
	return __builtin_expect(options->prefer == PREFER_MEMORY, 0) ||
	    take_is_for_runs(heap, kind);
}

/* A block for a request, by every means there is: Note [Reclaim ladder].
 * `plain`: for device memory of no stream. WEIR_ENOMEM, WEIR_EHOSTMEM,
 * WEIR_EDRIVER. May leave and retake the lock. */
static inline QUICK enum weir_status
take_block(struct stream_heap *heap, const struct options *options, size_t size,
    bool plain, struct block **out)
{
	struct arena *arena = heap->arena;
	size_t rounded = arena_class(arena, options, size);
	enum pool_kind kind = arena_kind(arena, rounded);

	if (arena->served % DECAY_REQUESTS == 0 || arena_is_host(arena) ||
	    options->reclaim_always)
		take_now_and_then(arena, options);
	fences_keep(heap);
	if (kind == POOL_LARGE &&
	    arena->served - arena->polled >= REQUESTS_A_POLL &&
	    take_is_for_runs(heap, kind))
		take_poll(heap);
	if (!take_is_own_last(heap, options, kind)) {
		enum weir_status status =
		    pool_take(&heap->pool[kind], options, rounded, plain, out);
		if (status != WEIR_OK || *out != NULL)
			return status;
	}
	return take_further(heap, options, size, out);
}

/* Serve a request from free memory that may be used at once. WEIR_ENOMEM is
 * returned without a report of it. */
enum weir_status take_idle(struct stream_heap *heap,
    const struct options *options, size_t size, struct block **out);

#endif
