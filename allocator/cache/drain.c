/*
 * Drains caches and depots into the pools: all blocks, or the idle ones.
 */
#include "allocator/cache/drain.h"

#include "allocator/account/counters.h"
#include "allocator/cache/budget.h"
#include "allocator/cache/own.h"
#include "allocator/cache/stop.h"
#include "allocator/cache/tuning.h"
#include "allocator/memory/arena.h"

static bool
empty_magazine(struct stream_heap *heap, struct magazine *magazine)
    HOLDS(heap->arena->lock)
{
	ASSERT(magazine != NULL);
	if (magazine->count == 0)
		return false;
	size_t bytes = class_bytes(magazine->n);
	while (magazine->count > 0)
		cache_free_block(
		    heap, magazine->blocks[--magazine->count], bytes);
	return true;
}

static bool
empty_bin(struct stream_heap *heap, struct bin *bin, size_t n)
    HOLDS(heap->arena->lock)
{
	bool any = !bin_empty(bin);

	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	while (!bin_empty(bin))
		cache_free_block(heap, *--bin->top, class_bytes(n));
	if (bin->second != NULL)
		any |= empty_magazine(heap, bin->second);
	return any;
}

static bool
empty_bins(struct cache *cache) HOLDS(cache->arena->lock)
{
	bool any = false;

	for (size_t n = cache_next_bin(cache, 1); n <= TCACHE_CLASSES;
	     n = cache_next_bin(cache, n + 1)) {
		lock_assert_held(&cache->heap->arena->lock);
		any |= empty_bin(cache->heap, &cache->bins[n], n);
	}
	return any;
}

bool
cache_empty(struct cache *cache)
{
	bool any = tcache_empty_slots(cache);

	lock_assert_held(&cache->arena->lock);
	ASSERT(cache->heap->arena == cache->arena);
	return empty_bins(cache) || any;
}

static bool
empty_depot(struct stream_heap *heap, enum drain which, size_t *most)
    HOLDS(heap->arena->lock)
{
	if (heap->depot == NULL)
		return false;
	struct magazine *list = depot_take_many(heap->depot, which, most);
	bool any = list != NULL;
	counts_report_depot(heap);
	heap->pins++; /* it may have ended, and lose its last block */
	while (list != NULL) {
		struct magazine *magazine = list;
		list = magazine->next;
		empty_magazine(heap, magazine);
		magazine_delete(magazine);
	}
	heap->pins--;
	return any;
}

static bool
depot_empty(struct stream_heap *heap, enum drain which) HOLDS(heap->arena->lock)
{
	size_t most = SIZE_MAX;

	return empty_depot(heap, which, &most);
}

bool
depot_empty_some(struct stream_heap *heap, size_t *most)
{
	lock_assert_held(&heap->arena->lock);
	return empty_depot(heap, DRAIN_ALL, most);
}

bool
depots_empty(struct arena *arena)
{
	bool any = false;

	lock_assert_held(&arena->lock);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		lock_assert_held(&heap->arena->lock);
		any |= depot_empty(heap, DRAIN_ALL);
	}
	return any;
}

bool
tcache_drain(struct arena *arena)
{
	bool any = false;

	lock_assert_held(&arena->lock);
	caches_stop(arena, NULL);
	counts_report_all(arena);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next) {
		lock_assert_held(&cache_of(l)->arena->lock);
		any |= cache_empty(cache_of(l));
	}
	tcache_go(arena);
	return depots_empty(arena) || any;
}

/* Have the bins of a stopped cache, which has reported, not been used since the
 * last inspection? */
static bool
was_idle(struct cache *cache)
{
	bool idle = !cache->used;

	ASSERT(
	    !cache->complete || cache->keeps || cache->slots <= TCACHE_SLOTS);
	cache->used = false;
	return idle;
}

/* Has only the calling thread used the heap's depot since the last
 * inspection? */
static bool
has_own_depot(const struct stream_heap *heap, bool look)
{
	return heap->depot != NULL &&
	    depot_is_own(heap->depot, tcache_of(heap), look);
}

/* Drain the caches and depots that only the calling thread uses. */
static bool
drain_own(struct arena *arena)
{
	struct list *own = &tcache_own->caches;
	bool any = false;

	for (struct list *l = own->next; l != own; l = l->next) {
		struct cache *cache = own_of(l);
		if (!counts_own(cache, arena))
			continue;
		lock_assert_held(&cache->arena->lock);
		any |= cache_empty(cache);
		if (has_own_depot(cache->heap, false)) {
			lock_assert_held(&cache->heap->arena->lock);
			any |= depot_empty(cache->heap, DRAIN_ALL);
		}
	}
	return any;
}

/* Drain the complete blocks of all threads, for which no thread need be
 * stopped. */
static bool
drain_complete(struct arena *arena)
{
	bool any = false;

	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next)
		if (cache_of(l)->complete) {
			lock_assert_held(&cache_of(l)->arena->lock);
			any |= tcache_empty_slots(cache_of(l));
		}
	return any;
}

/* Has the arena served enough requests since the last inspection? Then note
 * that another one begins. */
static bool
look_is_due(struct arena *arena)
{
	uint64_t wait = 0;

	ASSERT(arena->cache.looked <= arena->cache.served);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next)
		if (cache_of(l)->owner != tcache_own && cache_of(l)->keeps)
			wait += REQUESTS_A_LOOK;
	if (arena->cache.served - arena->cache.looked < wait)
		return false;
	arena->cache.looked = arena->cache.served;
	return true;
}

bool
tcache_drain_idle(const struct pool *pool, bool widely)
{
	const struct stream_heap *heap = pool->owner;
	struct arena *arena = heap->arena;
	bool any = drain_complete(arena);

	if (pool->kind == POOL_SMALL && !look_is_due(arena))
		return drain_own(arena) || any;
	lock_assert_held(&arena->lock);
	caches_stop(arena, NULL);
	counts_report_all(arena);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		lock_assert_held(&cache->arena->lock);
		any |= tcache_empty_slots(cache);
		if (cache->owner == tcache_own ||
		    ((widely || cache->heap == heap) && was_idle(cache)))
			any |= empty_bins(cache);
	}
	tcache_go(arena);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *p =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (has_own_depot(p, true)) {
			lock_assert_held(&p->arena->lock);
			any |= depot_empty(p, DRAIN_ALL);
		} else if (widely || p == heap) {
			lock_assert_held(&p->arena->lock);
			any |= depot_empty(p, DRAIN_IDLE);
		}
	}
	return any;
}

/* Bytes of a bin. */
static size_t
bin_bytes(const struct bin *bin, size_t n)
{
	size_t count = (size_t)(bin->top - bin->bottom);

	if (bin->second != NULL)
		count += bin->second->count;
	return count * class_bytes(n);
}

size_t
tcache_bytes(const struct stream_heap *heap)
{
	const struct arena *arena = heap->arena;
	size_t bytes = heap->depot != NULL ? heap->depot->bytes : 0;

	lock_assert_held(&heap->arena->lock);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next) {
		const struct cache *cache = cache_of(l);
		if (cache->heap != heap)
			continue;
		for (size_t n = cache_next_bin(cache, 1); n <= TCACHE_CLASSES;
		     n = cache_next_bin(cache, n + 1))
			bytes += bin_bytes(&cache->bins[n], n);
		for (unsigned i = 1; i <= cache->slots; i++)
			bytes += cache->slot[i].size;
	}
	return bytes;
}
