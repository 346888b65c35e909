/*
 * Keeps complete blocks in the slots of a cache.
 */
#include "allocator/cache/complete.h"

#include "allocator/cache/drain.h"
#include "allocator/cache/own.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/free.h"
#include "allocator/memory/block.h"

/* The calling thread's cache for complete memory of this heap, or NULL. */
static struct cache *
complete_cache(const struct stream_heap *heap)
{
	struct cache *cache = tcache_of(heap);

	return cache != NULL && cache->complete ? cache : NULL;
}

bool
tcache_has_complete(const struct cache *cache, size_t rounded)
{
	for (unsigned i = cache->slots; i > 0; i--)
		if (cache->slot[i].size == rounded)
			return true;
	return false;
}

/* Keep a block; if all slots are in use, the oldest block goes to the pool. */
bool
tcache_keep_complete(struct block *block)
{
	struct cache *cache = complete_cache(block->pool->owner);

	lock_assert_held(&block->arena->lock);
	ASSERT(block->pending.uses == NULL);
	if (cache == NULL)
		return false;
	if (cache->slots == TCACHE_SLOTS) {
		struct block *oldest = cache->slot[1].block;
		for (unsigned i = 1; i < TCACHE_SLOTS; i++)
			cache->slot[i] = cache->slot[i + 1];
		cache->slots--;
		lock_assert_held(&oldest->arena->lock);
		block_free_since(oldest);
	}
	block_set_state(block, BLOCK_CACHED);
	cache->slot[++cache->slots] =
	    (struct slot){ .size = block->size, .block = block };
	return true;
}

struct block *
tcache_take_complete(const struct stream_heap *heap, size_t rounded)
{
	struct cache *cache = complete_cache(heap);
	struct block *block =
	    cache != NULL ? tcache_slot_find(cache, rounded) : NULL;

	lock_assert_held(&heap->arena->lock);
	ASSERT(rounded > 0);
	if (block != NULL)
		block_set_state(block, BLOCK_ACTIVE);
	return block;
}

bool
tcache_flush_complete(const struct stream_heap *heap)
{
	struct cache *cache = complete_cache(heap);

	lock_assert_held(&heap->arena->lock);
	if (cache == NULL)
		return false;
	lock_assert_held(&cache->arena->lock);
	return tcache_empty_slots(cache);
}
