/*
 * Blocks on their way from a cache to the pools.
 */
#include "allocator/cache/slots.h"

#include "allocator/account/counters.h"
#include "allocator/cache/twice.h"
#include "allocator/fences/free.h"

void
cache_free_block(struct stream_heap *heap, struct block *block, size_t bytes)
{
	lock_assert_held(&heap->arena->lock);
	ASSERT(bytes > 0 && block->arena == heap->arena);
	if (twice_is_cached(block, bytes)) {
		lock_assert_held(&block->arena->lock);
		block_free(block);
		return;
	}
	struct sums twice = twice_report(block, bytes);
	struct pool *pool = &heap->pool[arena_kind(heap->arena, bytes)];
	lock_assert_held(&pool->owner->arena->lock);
	stats_malloc(pool, (uint64_t)twice.bytes, (uint64_t)twice.requested);
}

bool
tcache_empty_slots(struct cache *cache)
{
	bool any = cache->slots > 0;

	lock_assert_held(&cache->arena->lock);
	ASSERT(cache->slots <= TCACHE_SLOTS);
	while (cache->slots > 0) {
		struct slot *slot = &cache->slot[cache->slots--];
		if (twice_is_cached(slot->block, slot->size)) {
			lock_assert_held(&slot->block->arena->lock);
			block_free_since(slot->block);
		} else {
			lock_assert_held(&cache->heap->arena->lock);
			cache_free_block(cache->heap, slot->block, slot->size);
		}
	}
	return any;
}
