/*
 * Arenas by device, their stream heaps, and the release of an arena's lock.
 * lifecycle.c makes and forgets the arena of a device.
 */
#include "allocator/memory/arena.h"

#include <stddef.h>
#include <string.h>

#include "allocator/allocator.h"
#include "allocator/cache/depot.h"
#include "allocator/memory/idle.h"
#include "allocator/memory/pin.h"
#include "allocator/memory/source.h"
#include "base/meta.h"
#include "base/status.h"
#include "streams/event.h"

/* ---- Arenas ------------------------------------------------------------ */

static _Atomic(struct arena *) arenas[DEVICES_MAX];

atomic_bool arena_keeps_apart;

void
allocator_keep_apart(void)
{
	atomic_store(&arena_keeps_apart, true);
}

struct arena *
arena_peek(int device)
{
	if (device < 0 || device >= DEVICES_MAX)
		return NULL;
	return atomic_load_explicit(&arenas[device], memory_order_acquire);
}

void
arena_publish(int device, struct arena *arena)
{
	atomic_store(&arenas[device], arena);
}

size_t
arena_held(const struct arena *arena)
{
	return arena->memory.stats.reserved_bytes.all.current +
	    arena->memory.promised;
}

size_t guard_zone;

/* ---- The lock ---------------------------------------------------------- */

void
arena_leave_for_driver(struct arena *arena)
{
	ASSERT(arena->memory.jobs > 0);
	lock_leave(&arena->lock);
}

void
arena_enter_from_driver(struct arena *arena)
{
	lock_enter(&arena->lock);
}

/* ---- Stream heaps ------------------------------------------------------ */

static void
pool_init(struct pool *pool, struct stream_heap *owner, enum pool_kind kind)
{
	pool->owner = owner;
	pool->kind = kind;
	tree_init(&pool->free, TREE_KEY(struct block, node, run, addr));
	tree_init(&pool->unmapped, TREE_KEY(struct block, node, size, addr));
	list_init(&pool->freed);
}

enum weir_status
heap_make(struct arena *arena, struct stream *stream, struct stream_heap **out)
{
	struct stream_heap *heap = meta_alloc(sizeof(*heap));
	char name[STREAM_PHRASE];

	lock_assert_held(&arena->lock);
	if (heap == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for the pools of %s",
		    stream_name((weir_stream)stream->handle, name));
	memset(heap, 0, offsetof(struct stream_heap, fences));
	heap->arena = arena;
	heap->stream = stream_ref(stream);
	for (int kind = 0; kind < POOL_KINDS; kind++)
		pool_init(&heap->pool[kind], heap, (enum pool_kind)kind);
	idle_init(&heap->idle);
	list_init(&heap->freed_link);
	list_init(&heap->ended_link);
	list_push_back(&arena->memory.heaps, &heap->link);
	heap->index = arena->memory.heaps_made++;
	arena->memory.streams += stream->handle != WEIR_STREAM_ANY;
	if (arena == arena->main)
		stream->heap = heap;
	/* The stream may have ended since it was found; a later poll records
	 * the event of its end. */
	if (atomic_load(&stream->ended)) {
		lock_assert_held(&heap->arena->lock);
		heap_end(heap);
	}
	*out = heap;
	return WEIR_OK;
}

struct stream_heap *
heap_peek(const struct arena *arena, const struct stream *stream)
{
	if (arena == arena->main)
		return stream->heap;
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap->stream == stream)
			return heap;
	}
	return NULL;
}

void
fences_drop(struct stream_heap *heap)
{
	lock_assert_held(&heap->arena->lock);
	ASSERT(heap->fence_count <= FENCES);
	for (unsigned i = 0; i < heap->fence_count; i++)
		event_release(heap->stream->context, heap->fences[i].event);
	heap->fence_count = 0;
}

void
fences_forget(struct stream_heap *heap)
{
	lock_assert_held(&heap->arena->lock);
	heap->fence_count = 0;
	heap->end_event = NULL;
}

void
heap_drop(struct stream_heap *heap)
{
	struct arena *arena = heap->arena;

	lock_assert_held(&heap->arena->lock);
	ASSERT(heap != arena->memory.any_heap);
	if (heap->blocks > 0 || heap->pins > 0 || heap->caches > 0)
		return;
	fences_drop(heap);
	delay_drop(heap->stream);
	if (heap->end_event != NULL)
		event_release(heap->stream->context, heap->end_event);
	if (!list_empty(&heap->ended_link))
		heap_remove_ended(heap);
	list_remove(&heap->freed_link);
	list_remove(&heap->link);
	arena->memory.streams--;
	if (arena == arena->main)
		heap->stream->heap = NULL;
	stream_put(heap->stream);
	depot_delete(heap->depot);
	if (arena->fences.due == heap)
		arena->fences.due = NULL;
	meta_free(heap, sizeof(*heap));
}

/* ---- A new arena ------------------------------------------------------- */

enum weir_status
arena_set_up(struct arena *arena, struct arena *main)
{
	ASSERT(main != NULL);
	arena->main = main;
	arena->private.in_use = true;
	arena->private.owners = 1;
	arena->policy.paid_ns = driver_time_ns();
	arena->fences.late_ns = delay_lost_ns();
	lock_init(&arena->lock, LOCK_RANK_ARENA);
	list_init(&arena->memory.heaps);
	list_init(&arena->memory.ended);
	list_init(&arena->memory.emptied);
	list_init(&arena->memory.having_freed);
	list_init(&arena->memory.segments);
	list_init(&arena->memory.ranges);
	list_init(&arena->memory.vacated);
	list_init(&arena->cache.all);
	tree_init(&arena->memory.pins, TREE_KEY(struct pin, node, addr, addr));
	waiting_init(&arena->memory.waiting);
	arena->memory.source = source_driver;
	arena->memory.granule = WEIR_GRANULE;
	arena->memory.page = WEIR_GRANULE;
	lock_enter(&arena->lock);
	enum weir_status status =
	    heap_make(arena, arena->any, &arena->memory.any_heap);
	lock_leave(&arena->lock);
	if (status != WEIR_OK) {
		lock_destroy(&arena->lock);
		return status;
	}
	arena->memory.any_heap->completed_at = UINT64_MAX;
	return WEIR_OK;
}
