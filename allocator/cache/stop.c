/*
 * Stops caches, and lets their owners in again.
 */
#include "allocator/cache/stop.h"

#include <sched.h>

#include "allocator/cache/budget.h"
#include "allocator/cache/own.h"

static void
wait_for_owner(const struct cache *cache)
{
	unsigned spins = 0;

	while (atomic_load(&cache->busy) != 0)
		if (++spins % 64 == 0)
			sched_yield();
}

void
caches_stop(struct arena *arena, const struct stream_heap *heap)
{
	bool others = false;

	ASSERT(heap == NULL || heap->arena == arena);
	lock_assert_held(&arena->lock);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		/* A cache that keeps no freed blocks is used under the lock
		 * only. */
		if (cache->owner == tcache_own || !cache->keeps ||
		    (heap != NULL && cache->heap != heap))
			continue;
		lock_assert_held(&cache->arena->lock);
		cache_close(cache);
		others = true;
	}
	if (!others)
		return;
	tcache_barrier();
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next)
		if (atomic_load_explicit(
			&cache_of(l)->wanted, memory_order_relaxed) != 0)
			wait_for_owner(cache_of(l));
}

void
tcache_go(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		if (cache->owner == tcache_own)
			continue;
		atomic_store_explicit(&cache->wanted, 0, memory_order_release);
		lock_assert_held(&cache->arena->lock);
		cache_open(cache);
	}
}

void
tcache_stop(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	caches_stop(arena, NULL);
	counts_report_all(arena);
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next)
		counts_set_budget(cache_of(l), (struct sums){ 0 });
}

void
tcache_report(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	tcache_stop(arena);
	tcache_go(arena);
	counts_report_own(arena, NULL);
}
