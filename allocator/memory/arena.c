/*
 * Arenas by device, the pools of each stream in them, and leaving an arena's
 * lock. lifecycle.c makes and forgets the arena of a device.
 */
#include "allocator/memory/arena.h"

#include "allocator/cache/depot.h"
#include "allocator/memory/source.h"
#include "allocator/memory/trees.h"
#include "base/meta.h"
#include "base/status.h"
#include "streams/event.h"

/* ---- Arenas ------------------------------------------------------------ */

static _Atomic(struct arena *) arenas[DEVICES_MAX];

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
	return arena->stats.reserved_bytes.all.current + arena->promised;
}

size_t guard_zone;

/* ---- The lock ---------------------------------------------------------- */

void
arena_leave_for_driver(struct arena *arena) UNCHECKED
{
	lock_leave(&arena->lock);
}

void
arena_enter_from_driver(struct arena *arena) UNCHECKED
{
	lock_enter(&arena->lock);
}

/* ---- Pools of a stream ------------------------------------------------- */

static int
compare_index(const struct tree_node *a, const struct tree_node *b)
{
	unsigned x = CONTAINER_OF(a, struct pools, free_node)->index;
	unsigned y = CONTAINER_OF(b, struct pools, free_node)->index;

	return (x > y) - (x < y);
}

static void
pool_init(struct pool *pool, struct pools *owner, enum pool_kind kind)
{
	pool->owner = owner;
	pool->kind = kind;
	tree_init(&pool->free, compare_run_address);
	tree_init(&pool->unmapped, compare_address);
}

enum weir_status
pools_make(struct arena *arena, struct stream *stream, struct pools **out)
{
	struct pools *pools = meta_zalloc(sizeof(*pools));

	if (pools == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for the pools of stream %p",
		    (void *)stream->handle);
	pools->arena = arena;
	pools->stream = stream_ref(stream);
	for (int kind = 0; kind < POOL_KINDS; kind++)
		pool_init(&pools->pool[kind], pools, (enum pool_kind)kind);
	list_init(&pools->freed);
	list_init(&pools->ended_link);
	list_push_back(&arena->pools, &pools->link);
	pools->index = arena->pools_made++;
	arena->streams += stream->handle != WEIR_STREAM_ANY;
	if (arena == arena->main)
		stream->pools = pools;
	/* It may have ended since it was found; a later poll records the end.
	 */
	if (atomic_load(&stream->ended))
		pools_end(pools);
	*out = pools;
	return WEIR_OK;
}

struct pools *
pools_peek(const struct arena *arena, const struct stream *stream)
{
	if (arena == arena->main)
		return stream->pools;
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		if (pools->stream == stream)
			return pools;
	}
	return NULL;
}

void
marks_drop(struct pools *pools)
{
	for (unsigned i = 0; i < pools->mark_count; i++)
		event_give(pools->stream->context, pools->marks[i].event);
	pools->mark_count = 0;
}

void
marks_forget(struct pools *pools)
{
	pools->mark_count = 0;
	pools->end_event = NULL;
}

void
pools_drop(struct pools *pools)
{
	struct arena *arena = pools->arena;

	if (pools->blocks > 0 || pools->pins > 0 || pools->caches > 0)
		return;
	marks_drop(pools);
	delay_drop(pools->stream);
	if (pools->end_event != NULL)
		event_give(pools->stream->context, pools->end_event);
	if (pools->ended && !pools->passed)
		pools_passed(pools);
	pools_remove_freed(pools);
	list_remove(&pools->link);
	arena->streams--;
	if (arena == arena->main)
		pools->stream->pools = NULL;
	stream_put(pools->stream);
	depot_delete(pools->depot);
	meta_free(pools, sizeof(*pools));
}

/* ---- A new arena ------------------------------------------------------- */

enum weir_status
arena_set_up(struct arena *arena, struct arena *main)
{
	arena->main = main;
	arena->in_use = true;
	arena->owners = 1;
	arena->began_ns = driver_time_ns();
	lock_init(&arena->lock, LOCK_RANK_ARENA);
	list_init(&arena->pools);
	list_init(&arena->ended);
	tree_init(&arena->having_freed, compare_index);
	list_init(&arena->segments);
	list_init(&arena->left);
	list_init(&arena->caches);
	tree_init(&arena->pins, compare_pins);
	waiting_init(&arena->waiting);
	arena->source = source_driver;
	arena->granule = WEIR_GRANULE;
	lock_enter(&arena->lock);
	enum weir_status status =
	    pools_make(arena, arena->any, &arena->any_pools);
	lock_leave(&arena->lock);
	if (status != WEIR_OK) {
		lock_destroy(&arena->lock);
		return status;
	}
	arena->any_pools->passed_at = UINT64_MAX;
	return WEIR_OK;
}
