/*
 * Makes and retires caches. A cache is made at the first slow call of a thread
 * for a stream, and retired under the arena's lock, by its owner or another
 * thread.
 */
#include "allocator/cache/make.h"

#include <stddef.h>
#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/cache/budget.h"
#include "allocator/cache/drain.h"
#include "allocator/cache/stop.h"
#include "allocator/cache/tcache.h"
#include "allocator/cache/tuning.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/promote.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

static _Thread_local bool ended;

/* Names the streams that get no cache; NULL: all get one. */
static _Atomic(bool (*)(const struct stream *)) avoided;

static void
delete_magazines(struct cache *cache)
{
	for (size_t n = cache_next_bin(cache, 1); n <= TCACHE_CLASSES;
	     n = cache_next_bin(cache, n + 1))
		bin_delete(&cache->bins[n]);
	memset(cache->made, 0, sizeof(cache->made));
}

/* Retire a cache, which is stopped or the caller's own. It stays wanted,
 * because its owner may have found it already and must stay out. */
static void
retire_cache(struct cache *cache) HOLDS(cache->arena->lock)
{
	struct stream_heap *heap = cache->heap;

	ASSERT(heap->caches > 0 && tcache_is_alive(cache));
	ASSERT(cache->arena == heap->arena);
	if (counts_report(cache))
		stats_note_arena_peaks(cache->arena);
	cache_empty(cache);
	delete_magazines(cache);
	list_remove(&cache->link);
	cache->arena->cache.keeping -= cache->keeps;
	cache_close(cache);
	atomic_store_explicit(&cache->handle, NOBODY, memory_order_relaxed);
	for (int kind = 0; kind < POOL_KINDS; kind++)
		cache->pool[kind] = NULL;
	atomic_store_explicit(&cache->dead, true, memory_order_release);
	heap->caches--;
}

void
tcache_end(struct stream_heap *heap)
{
	struct arena *arena = heap->arena;
	size_t most = BLOCKS_AT_ONCE;
	struct list *next;

	ASSERT(heap != arena->memory.any_heap);
	lock_assert_held(&arena->lock);
	caches_stop(arena, heap);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = next) {
		next = l->next;
		if (cache_of(l)->heap == heap) {
			lock_assert_held(&cache_of(l)->arena->lock);
			retire_cache(cache_of(l));
		}
	}
	depot_empty_some(heap, &most);
}

void
tcache_begin(struct arena *arena)
{
	ASSERT(arena->cache.keeping == 0);
	list_init(&arena->cache.all);
	arena->cache.served = 0;
}

void
tcache_begin_again(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena->cache.keeping == 0);
	arena->cache.served = 0;
	arena->cache.looked = 0;
}

void
tcache_retire(struct arena *arena, const struct stream *stream, bool own)
{
	struct list *next;

	lock_assert_held(&arena->lock);
	if (!own)
		caches_stop(arena, stream != NULL ? stream->heap : NULL);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = next) {
		struct cache *cache = cache_of(l);
		struct stream_heap *heap = cache->heap;
		next = l->next;
		if ((own && cache->owner != tcache_own) ||
		    (stream != NULL && heap->stream != stream))
			continue;
		lock_assert_held(&cache->arena->lock);
		retire_cache(cache);
		lock_assert_held(&heap->arena->lock);
		heap_drop_if_done(heap);
	}
	tcache_go(arena);
}

void
tcache_forget(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	caches_stop(arena, NULL);
	while (!list_empty(&arena->cache.all)) {
		struct cache *cache = cache_of(arena->cache.all.next);
		cache->slots = 0;
		delete_magazines(cache);
		lock_assert_held(&cache->arena->lock);
		retire_cache(cache);
	}
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct depot *depot =
		    CONTAINER_OF(l, struct stream_heap, link)->depot;
		if (depot == NULL)
			continue;
		size_t most = SIZE_MAX;
		struct magazine *list =
		    depot_take_many(depot, DRAIN_ALL, &most);
		while (list != NULL) {
			struct magazine *next = list->next;
			magazine_delete(list);
			list = next;
		}
	}
}

/* Remove a dead cache from its owner's tables. The owner keeps the structure
 * for another stream, because most of it need not be zeroed again. */
static void
drop_cache(struct tcache *t, struct cache *cache)
{
	ASSERT(!tcache_is_alive(cache) && cache != &t->none);
	if (t->by_handle[cache->way_of_handle] == cache)
		t->by_handle[cache->way_of_handle] = &t->none;
	if (t->by_heap[cache->way] == cache)
		t->by_heap[cache->way] = &t->none;
	if (t->last == cache)
		t->last = &t->none;
	if (t->last_host == cache)
		t->last_host = &t->none;
	if (t->latest_host.cache == cache)
		t->latest_host.cache = &t->none;
	list_remove(&cache->awake);
	list_remove(&cache->own_link);
	list_push_back(&t->spare, &cache->own_link);
}

/* Free a place of a table for a new cache: retire the cache that is there.
 * False: that cache is of another arena, which is not locked, so it stays. */
static bool
make_place(struct tcache *t, struct cache **place, const struct arena *arena)
{
	struct cache *cache = *place;

	if (cache == &t->none)
		return true;
	if (tcache_is_alive(cache)) {
		if (cache->arena != arena)
			return false;
		lock_assert_held(&cache->arena->lock);
		retire_cache(cache);
	}
	drop_cache(t, cache);
	return true;
}

/* Make a cache that is all zero; NULL: no host memory. */
static struct cache *
cache_new(struct tcache *t)
{
	struct cache *cache;

	if (list_empty(&t->spare))
		return meta_zalloc(sizeof(*cache));
	cache = own_of(t->spare.next);
	list_remove(&cache->own_link);
	memset(cache, 0, offsetof(struct cache, slot));
	memset(
	    cache->misses, 0, sizeof(*cache) - offsetof(struct cache, misses));
	return cache;
}

/* The key by which the hit paths find a cache. A default stream of another
 * context than the primary one has none, because that context may not be
 * current. */
static weir_stream
usual_key(const struct stream_heap *heap, CUcontext context)
{
	if (context == NULL)
		return tcache_key(heap);
	return context == heap->arena->context ?
	    tcache_primary_key(heap->stream->handle) :
	    NOBODY;
}

static void
set_up(struct cache *cache, struct tcache *t, struct stream_heap *heap,
    const struct options *options) HOLDS(heap->arena->lock)
{
	struct stream *stream = heap->stream;
	const struct traits *traits = &heap->arena->traits;
	bool for_all = traits->has_streams && stream->handle == WEIR_STREAM_ANY;
	/* A limit on unused memory counts cached blocks too, so there are
	 * none. */
	bool keeps = options->tcache > 0 && !for_all &&
	    (!traits->has_idle_limit ||
		options->pinned_idle == OPTION_UNLIMITED);

	ASSERT(heap->arena->device == heap->stream->device);
	atomic_init(&cache->handle, tcache_key(heap));
	cache->device = stream->device;
	cache->granule = heap->arena->memory.granule;
	cache->small_max = traits->small_max;
	cache->context =
	    stream_is_default(stream->handle) ? stream->context : NULL;
	cache->rounding =
	    options->rounds && traits->has_rounding ? options : NULL;
	cache->keeps = keeps;
	cache->complete = options->tcache > 0 && for_all;
	cache->traced = keeps && traits->is_observed && emit_is_wanted();
	cache->usual = keeps && tcache_asymmetric && cache->rounding == NULL &&
		!cache->traced ?
	    usual_key(heap, cache->context) :
	    NOBODY;
	for (int kind = 0; kind < POOL_KINDS; kind++)
		cache->pool[kind] = &heap->pool[kind];
	/* request/plan.h: no large blocks are kept beside a plan. */
	if (heap->arena->request.plan != NULL)
		cache->pool[POOL_LARGE] = NULL;
	cache->depot_max = options->tcache;
	cache->arena = heap->arena;
	cache->heap = heap;
	cache->owner = t;
	lock_assert_held(&cache->arena->lock);
	cache_open(cache);
}

static bool
is_place_used(const struct tcache *t, const struct cache *place)
{
	return place != &t->none && tcache_is_alive(place);
}

/* Does the cache at a place keep it from a stream of an arena? */
static bool
keeps_place(
    const struct tcache *t, struct cache *place, const struct arena *arena)
{
	if (!is_place_used(t, place))
		return false;
	if (place->arena != arena)
		return true;
	place->claims += place->claims < CLAIMS;
	return place->claims < CLAIMS;
}

/* May the calling thread make a cache for this heap, in place of another?
 * tcache.h, Note [Places]. */
static bool
has_place(const struct stream_heap *heap)
{
	const struct arena *arena = heap->arena;
	const struct tcache *t = tcache_own;

	return !keeps_place(t, t->by_heap[heap->index % TCACHE_WAYS], arena) &&
	    !keeps_place(t, t->by_handle[tcache_way(tcache_key(heap))], arena);
}

static void
make_cache(struct tcache *t, struct stream_heap *heap,
    const struct options *options) HOLDS(heap->arena->lock)
{
	bool by_stream = heap->arena->traits.has_streams;
	unsigned way_of_handle = tcache_way(tcache_key(heap));
	unsigned way = heap->index % TCACHE_WAYS;
	struct cache **by_handle = &t->by_handle[way_of_handle];
	struct cache **by_heap = &t->by_heap[way];

	ASSERT(!heap->ended);
	/* A cache for WEIR_STREAM_ANY, which keeps no freed blocks, must not
	 * replace another. */
	if (by_stream && heap->stream->handle == WEIR_STREAM_ANY &&
	    (is_place_used(t, *by_handle) || is_place_used(t, *by_heap)))
		return;
	if ((by_stream && !make_place(t, by_handle, heap->arena)) ||
	    !make_place(t, by_heap, heap->arena))
		return;
	struct cache *cache = cache_new(t);
	if (cache == NULL)
		return;
	cache->way = (uint8_t)way;
	cache->way_of_handle = (uint8_t)way_of_handle;
	set_up(cache, t, heap, options);
	heap->caches++;
	list_push_back(&heap->arena->cache.all, &cache->link);
	heap->arena->cache.keeping += cache->keeps;
	list_push_back(&t->caches, &cache->own_link);
	list_push_back(&t->awake, &cache->awake);
	if (by_stream)
		*by_handle = cache;
	*by_heap = cache;
}

void
tcache_avoid(bool (*may_match)(const struct stream *stream))
{
	atomic_store(&avoided, may_match);
}

static bool
is_avoided(const struct stream *stream)
{
	bool (*may_match)(const struct stream *) = atomic_load(&avoided);

	return may_match != NULL && may_match(stream);
}

/* May a thread cache blocks of this heap? Not if there can be oversize blocks,
 * which are counted when they are freed, or if some are left from before the
 * option was changed. */
static bool
is_cacheable(const struct stream_heap *heap, const struct options *options)
{
	const struct stream *stream = heap->stream;

	if (options->reclaim_always || guard_is_for(heap->arena) ||
	    options->max_split_size != OPTION_UNLIMITED ||
	    heap->arena->account.stats.oversize_allocations.current != 0 ||
	    heap->ended || ended || os_forked())
		return false;
	if (!heap->arena->traits.has_streams)
		return true;
	return heap->arena == heap->arena->main && !is_avoided(stream) &&
	    (stream->thread == 0 || stream->thread == os_thread_id());
}

/* Has the calling thread anything to report? */
static bool
has_unreported(const struct arena *arena)
{
	struct list *awake = &tcache_own->awake;

	for (struct list *l = awake->next; l != awake; l = l->next) {
		const struct cache *cache = awake_of(l);
		/* The counts of another arena's cache are under that arena's
		 * lock. */
		if (cache->arena == arena && counts_has_unreported(cache) &&
		    is_counting(cache))
			return true;
	}
	return false;
}

void
tcache_report_own(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	if (has_unreported(arena))
		counts_report_own(arena, NULL);
}

static __attribute__((noinline)) struct cache *
come(struct stream_heap *heap, struct cache *cache)
{
	const struct options *options;

	if (cache == NULL && options_get(&options) == WEIR_OK &&
	    is_cacheable(heap, options)) {
		tcache_own = tcache_make_own();
		if (tcache_own != &tcache_nobody) {
			lock_assert_held(&heap->arena->lock);
			make_cache(tcache_own, heap, options);
		}
		cache = tcache_of(heap);
	}
	if (cache != NULL && !cache->keeps) {
		if (!cache->complete) /* it keeps no blocks at all */
			return NULL;
		cache = NULL;
	}
	if (has_unreported(heap->arena)) {
		lock_assert_held(&heap->arena->lock);
		counts_report_own(heap->arena, cache);
	}
	return cache;
}

struct cache *
tcache_enter_slow_with(struct stream_heap *heap, struct cache *cache)
{
	lock_assert_held(&heap->arena->lock);
	if (cache != NULL || has_place(heap))
		return come(heap, cache);
	tcache_report_own(heap->arena);
	return NULL;
}

static void
retire_all(struct arena *arena) HOLDS(arena->lock)
{
	caches_stop(arena, NULL);
	while (!list_empty(&arena->cache.all)) {
		struct cache *cache = cache_of(arena->cache.all.next);
		lock_assert_held(&cache->arena->lock);
		retire_cache(cache);
	}
	depots_empty(arena);
}

void
tcache_refresh(void)
{
	for (int device = 0; device < DEVICES_MAX; device++) {
		for (struct arena *a = arena_peek(device); a != NULL;
		     a = arena_next(a)) {
			lock_enter(&a->lock);
			retire_all(a);
			lock_leave(&a->lock);
		}
	}
}

static void
end_cache(struct cache *cache)
{
	struct arena *arena = cache->arena;

	ASSERT(cache->owner == tcache_own);
	lock_enter(&arena->lock);
	if (!atomic_load_explicit(&cache->dead, memory_order_acquire)) {
		struct stream_heap *heap = cache->heap;
		lock_assert_held(&cache->arena->lock);
		retire_cache(cache);
		lock_assert_held(&heap->arena->lock);
		heap_drop_if_done(heap);
	}
	lock_leave(&arena->lock);
}

void
tcache_thread_ends(void)
{
	struct tcache *t = tcache_own;

	ended = true;
	if (t == &tcache_nobody)
		return;
	while (!list_empty(&t->caches)) {
		struct cache *cache = own_of(t->caches.next);
		end_cache(cache);
		drop_cache(t, cache);
	}
	tcache_own = &tcache_nobody;
	while (!list_empty(&t->spare)) {
		struct cache *cache = own_of(t->spare.next);
		list_remove(&cache->own_link);
		meta_free(cache, sizeof(*cache));
	}
	meta_free(t, sizeof(*t));
}
