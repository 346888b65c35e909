/*
 * Blocks on their way from a cache to the pools.
 */
#include "allocator/cache/slots.h"

#include "allocator/cache/twice.h"
#include "allocator/fences/free.h"
#include "allocator/memory/counters.h"

void
cache_free_block(struct stream_heap *heap, struct block *block, size_t bytes)
{
	if (twice_is_cached(block, bytes)) {
		block_free(block);
		return;
	}
	struct sums twice = twice_report(block, bytes);
	stats_malloc(&heap->pool[arena_kind(heap->arena, bytes)],
	    (uint64_t)twice.bytes, (uint64_t)twice.requested);
}

bool
tcache_empty_slots(struct cache *cache)
{
	bool any = cache->slots > 0;

	while (cache->slots > 0) {
		struct slot *slot = &cache->slot[cache->slots--];
		if (twice_is_cached(slot->block, slot->size))
			block_free_since(slot->block);
		else
			cache_free_block(cache->heap, slot->block, slot->size);
	}
	return any;
}
