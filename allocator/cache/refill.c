/*
 * Accounts for blocks that bypass a cache, and fills bins from the pool.
 */
#include "allocator/cache/refill.h"

#include "allocator/cache/budget.h"
#include "allocator/cache/drain.h"
#include "allocator/cache/own.h"
#include "allocator/cache/tuning.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/pool.h"
#include "base/status.h"

static size_t
class_of_block(const struct block *block)
{
	return class_of(block->arena->memory.granule, block->size);
}

/* Change the budget of a cache for a block that the pool allocated (-1) or
 * freed (+1): it changes the distance below the peaks. */
static void
change_budget(struct cache *cache, const struct block *block, int sign)
{
	struct sums change = { sign, sign * (int64_t)block->size,
		sign * (int64_t)block->requested };

	cache->budget = sums_plus(cache->budget, change);
	cache->budget_given = sums_plus(cache->budget_given, change);
}

/* Has any cache of the calling thread a budget? */
static bool
have_budget(const struct arena *arena)
{
	struct list *awake = &tcache_own->awake;

	for (struct list *l = awake->next; l != awake; l = l->next)
		if (counts_own(awake_of(l), arena))
			return true;
	return false;
}

void
tcache_account_alloc_slow(struct cache *cache, const struct block *block)
{
	const struct list *awake = &tcache_own->awake;
	bool alone = awake->next == awake->prev;

	ASSERT(block_state(block) == BLOCK_ACTIVE);
	lock_assert_held(&block->arena->lock);
	if (cache != NULL)
		change_budget(cache, block, -1);
	/* The block has used the budget of other caches of the thread, or has
	 * passed a peak: divide the budget again. */
	if (cache != NULL ? !alone && sums_lack(&cache->budget) :
			    have_budget(block->arena))
		counts_report_own(block->arena, cache);
}

void
tcache_account_free_slow(struct cache *cache, const struct block *block)
{
	size_t n = class_of_block(block);

	lock_assert_held(&block->arena->lock);
	ASSERT(cache != NULL && block->arena == cache->arena);
	change_budget(cache, block, 1);
	/* Free a whole magazine at once: the thread will probably free more
	 * blocks of this class, and need not take the lock for each. */
	if (n != 0 && bin_full(&cache->bins[n]))
		while (!bin_empty(&cache->bins[n])) {
			lock_assert_held(&cache->heap->arena->lock);
			cache_free_block(
			    cache->heap, *--cache->bins[n].top, class_bytes(n));
		}
}

/* The number of extra blocks for a class: one for every MISSES_A_BLOCK
 * misses. */
static unsigned
refill_count(struct cache *cache, size_t n)
{
	unsigned misses = cache->misses[n];
	unsigned count = misses / MISSES_A_BLOCK;

	if (misses < UINT8_MAX)
		cache->misses[n]++;
	return count < magazine_max(n) ? count : magazine_max(n);
}

/* Cut a block into blocks of a class and cache them. If there is no host memory
 * to cut, the rest becomes free. */
static void
cut_into(struct bin *bin, struct block *block, size_t rounded)
    HOLDS(block->arena->lock)
{
	struct block *rest;

	ASSERT(block->size % rounded == 0);
	block_set_state(block, BLOCK_CACHED);
	for (; block->size > rounded; block = rest) {
		if (block_new(block->arena, block->addr + rounded, &rest) !=
		    WEIR_OK) {
			block_put(block, BLOCK_FREE);
			return;
		}
		block_split(block, rounded, rest);
		*bin->top++ = block;
	}
	*bin->top++ = block;
}

/* Reverse a bin, so that the lowest address is on top. */
static void
bin_reverse(struct bin *bin)
{
	struct block **low = bin->bottom;
	struct block **high = bin->top;

	while (low < --high) {
		struct block *block = *low;
		*low++ = *high;
		*high = block;
	}
}

/* Fill a bin with the blocks that as many requests would have got. */
static void
fill_from_pool(struct bin *bin, struct pool *pool,
    const struct options *options, size_t rounded, unsigned count)
    HOLDS(pool->owner->arena->lock)
{
	struct block **end = bin->top + count;
	bool plain = heap_is_device_scope(pool->owner);

	ASSERT(count > 0 && bin_empty(bin));
	status_mute();
	while (bin->top < end) {
		size_t left = (size_t)(end - bin->top);
		struct block *block = pool_find(pool, options, rounded, plain);
		if (block == NULL)
			break;
		size_t fit = block->run / rounded;
		if (pool_cut(&block, options,
			(fit < left ? fit : left) * rounded) != WEIR_OK)
			break;
		lock_assert_held(&block->arena->lock);
		cut_into(bin, block, rounded);
	}
	status_unmute();
	/* Count the requests that these blocks save. */
	tcache_count_served(
	    pool->owner->arena, (uint64_t)(bin->top - bin->bottom));
	bin_reverse(bin);
}

void
tcache_refill_bin(
    struct cache *cache, const struct options *options, size_t rounded)
{
	size_t n = rounded / WEIR_GRANULE;

	lock_assert_held(&cache->arena->lock);
	ASSERT(rounded > 0);
	if (n > TCACHE_BINS || !tcache_is_alive(cache) ||
	    !cache->arena->traits.refills_caches)
		return;
	struct bin *bin = &cache->bins[n];
	unsigned count = refill_count(cache, n);
	if (count == 0 || !bin_make(bin, n))
		return;
	cache_note_bin(cache, n);
	if (bin_empty(bin)) {
		lock_assert_held(&cache->pool[POOL_SMALL]->owner->arena->lock);
		fill_from_pool(
		    bin, cache->pool[POOL_SMALL], options, rounded, count);
	}
}
