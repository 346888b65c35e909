/*
 * Arenas by device, their stream heaps, and the release of an arena's lock.
 * lifecycle.c makes and forgets the arena of a device.
 */
#include "allocator/memory/arena.h"

#include <stddef.h>
#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/allocator.h"
#include "allocator/magazines/depot.h"
#include "allocator/memory/idle.h"
#include "allocator/memory/pin.h"
#include "allocator/memory/source.h"
#include "base/meta.h"
#include "base/os.h"
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
	ASSERT(device >= 0 && device < DEVICES_MAX);
	atomic_store(&arenas[device], arena);
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
	ASSERT(arena->memory.jobs > 0);
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

	ASSERT(heap_peek(arena, stream) == NULL);
	ASSERT(stream->device == arena->device);
	lock_assert_held(&arena->lock);
	if (heap == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for the pools of %s",
		    stream_name((weir_stream)stream->handle, name));
	memset(heap, 0, offsetof(struct stream_heap, fences.ring));
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
	else
		tree_insert(&arena->memory.by_stream, &heap->node);
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
	const struct tree *tree = &arena->memory.by_stream;
	struct tree_node *node;

	if (arena == arena->main)
		return stream->heap;
	node = tree_find(tree, (uintptr_t)stream);
	return node != NULL ? CONTAINER_OF(node, struct stream_heap, node) :
			      NULL;
}

void
heap_drop(struct stream_heap *heap)
{
	struct arena *arena = heap->arena;

	lock_assert_held(&heap->arena->lock);
	ASSERT(heap != arena->memory.any_heap);
	if (heap->blocks > 0 || heap->pins > 0 || heap->caches > 0)
		return;
	ASSERT(heap->fences.count == 0 && arena->fences.due != heap);
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
	else
		tree_remove(&arena->memory.by_stream, &heap->node);
	stream_put(heap->stream);
	depot_delete(heap->depot);
	meta_free(heap, sizeof(*heap));
}

/* ---- A new arena ------------------------------------------------------- */

static enum weir_status
ask_granularity(struct arena *arena)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = arena->device },
	};
	CUresult code = driver_peek()->cuMemGetAllocationGranularity(
	    &arena->memory.granularity, &prop,
	    CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	ASSERT(arena->traits.can_map);
	return driver_status(
	    code, "cuMemGetAllocationGranularity(device %d)", arena->device);
}

enum weir_status
memory_ask_device(struct arena *arena)
{
	enum weir_status status = account_ask_device(arena);

	if (status != WEIR_OK)
		return status;
	if (arena->traits.can_map)
		return ask_granularity(arena);
	arena->memory.granularity = SEGMENT_STEP;
	return WEIR_OK;
}

enum weir_status
memory_begin(struct arena *arena)
{
	struct arena_memory *memory = &arena->memory;

	ASSERT(arena->main != NULL);
	if (arena != arena->main)
		memory->granularity = arena->main->memory.granularity;
	account_begin(arena);
	list_init(&memory->heaps);
	list_init(&memory->ended);
	list_init(&memory->emptied);
	list_init(&memory->having_freed);
	tree_init(&memory->by_stream,
	    TREE_KEY(struct stream_heap, node, stream, stream));
	list_init(&memory->segments);
	list_init(&memory->ranges);
	list_init(&memory->vacated);
	tree_init(&memory->pins, TREE_KEY(struct pin, node, addr, addr));
	memory->source = source_driver;
	memory->granule = WEIR_GRANULE;
	memory->page = WEIR_GRANULE;
	lock_enter(&arena->lock);
	enum weir_status status =
	    heap_make(arena, arena->any, &memory->any_heap);
	lock_leave(&arena->lock);
	if (status != WEIR_OK)
		return status;
	memory->any_heap->completed_at = UINT64_MAX;
	return WEIR_OK;
}

/* ---- The use of an arena ----------------------------------------------- */

void
memory_begin_use(struct arena *arena, const struct source *source,
    unsigned flags, struct totals *totals, bool forgotten)
{
	static atomic_uint begun; /* so far; the number names the pool */
	struct arena_memory *memory = &arena->memory;
	bool locked = arena->traits.is_page_locked;

	lock_assert_held(&arena->lock);
	ASSERT(arena != arena->main && list_empty(&memory->segments));
	memory->source = source != NULL ? *source : source_driver;
	memory->own_source = source != NULL && source != &source_driver;
	memory->page = locked ? os_page_size() : WEIR_GRANULE;
	memory->granule =
	    memory->source.granule != 0 ? memory->source.granule : WEIR_GRANULE;
	atomic_store(&memory->flags, flags);
	memory->pool =
	    (struct trace_pool){ .user = 1 + atomic_fetch_add(&begun, 1) };
	account_begin_use(arena, totals);
	memory->forgotten = forgotten;
	for (int i = 0; i < DEVICES_MAX / 64; i++)
		atomic_store(&memory->users[i], 0);
}

void
memory_end_use(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena != arena->main && list_empty(&arena->memory.segments));
	account_end_use(arena);
}

void
memory_set_host(struct arena *arena, int node, uint64_t index)
{
	ASSERT(node >= 0);
	ASSERT(arena->traits.is_page_locked);
	arena->memory.node = node;
	arena->memory.any_heap->index = index;
}
