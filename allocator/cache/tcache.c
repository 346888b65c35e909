/*
 * The owner's part of thread caches, except the hit paths: tcache.h.
 *
 * A class of at most 64 KiB has two magazines, so that a thread that frees and
 * allocates in turn need not leave them. Full magazines go to the depot of the
 * stream, and other threads that allocate on the stream get them whole. Larger
 * blocks are few and of many sizes: a cache keeps the latest of them, until its
 * thread comes to the pool, where they merge.
 */
#include "allocator/cache/tcache.h"

#include "allocator/cache/budget.h"
#include "allocator/cache/twice.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/lookup.h"
#include "base/os.h"

/* ---- Depots ------------------------------------------------------------ */

/* The frees that a full magazine brings to the depot: Note [From thread to
 * thread]. They are at most the frees that its cache has not reported, and at
 * most the cache's budget. */
static struct sums
magazine_sums(const struct cache *cache, const struct magazine *magazine)
{
	struct sums in = { .count = magazine->count };

	for (unsigned i = 0; i < magazine->count; i++) {
		in.bytes += (int64_t)magazine->blocks[i]->size;
		in.requested += (int64_t)magazine->blocks[i]->requested;
	}
	return sums_least(in, sums_least(counts_frees(cache), cache->budget));
}

/* Exchange the empty first magazine of a class for a full one of the depot. */
static void
take_full(struct cache *cache, size_t n)
{
	struct depot *depot = cache->heap->depot;
	struct sums in;

	ASSERT(bin_empty(&cache->bins[n]) && n > 0);
	if (depot == NULL)
		return;
	enum depot_taken taken =
	    depot_take(depot, cache, &cache->bins[n], n, &in);
	if (taken == DEPOT_NONE)
		return;
	cache_note_bin(cache, n);
	cache->handed_over |= taken == DEPOT_SHARED;
	cache->budget = sums_plus(cache->budget, in);
	counts_note_awake(cache);
}

/* The depot of a heap, made at its first use. NULL: no host memory. */
static struct depot *
find_depot(struct stream_heap *heap)
{
	struct depot *depot = heap->depot;

	if (depot != NULL)
		return depot;
	struct depot *new = depot_new();
	if (new == NULL ||
	    atomic_compare_exchange_strong(&heap->depot, &depot, new))
		return new;
	depot_delete(new); /* another thread was faster */
	return depot;
}

/* Exchange the full first magazine of a class for an empty one of the depot,
 * unless the depot holds enough. */
static void
put_full(struct cache *cache, size_t n)
{
	struct depot *depot = find_depot(cache->heap);
	struct magazine *full = bin_first(&cache->bins[n]);

	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	if (depot == NULL)
		return;
	full->count = magazine_max(n);
	struct sums in = magazine_sums(cache, full);
	full->in = in;
	if (!depot_put(depot, cache, &cache->bins[n], cache->depot_max))
		return;
	cache->budget = sums_minus(cache->budget, in);
	cache->brought = true;
}

/* ---- Taking ------------------------------------------------------------- */

/* Count a block that would pass a peak; the caller reports at once. */
static void
count_peak(struct cache *cache, const struct block *block)
{
	struct sums one = { 1, (int64_t)block->size,
		(int64_t)block->requested };

	cache->out = sums_plus(cache->out, one);
	cache->budget = sums_minus(cache->budget, one);
}

/* Allocate a cached block. The cache is entered. False: a peak was passed. */
static inline QUICK bool
activate_cached(struct cache *cache, struct block *block, size_t size)
{
	ASSERT(block_state(block) == BLOCK_CACHED);
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	if (block->size > cache->small_max) {
		tcache_count_large(&cache->large_out, block->size, size);
		cache->owner->large_hits++;
	}
	bool below =
	    tcache_count_out(cache, (int64_t)block->size, (int64_t)size);
	if (__builtin_expect(!below, 0))
		count_peak(cache, block);
	return below;
}

/* Entered; leaves. */
static void *
finish_malloc(struct cache *cache, struct block *block, size_t size)
{
	void *ptr = (void *)(uintptr_t)block->addr;
	bool below = activate_cached(cache, block, size);

	ASSERT(block->size >= size);
	tcache_leave(cache);
	if (__builtin_expect(!below, 0))
		counts_report_peak(cache);
	return ptr;
}

/* Take back the second free of a block. The cache is entered, or used under the
 * lock. */
static __attribute__((cold)) void
drop_twice(struct cache *cache, const struct block *block, size_t bytes)
{
	cache->budget = sums_minus(cache->budget, twice_report(block, bytes));
	counts_note_awake(cache);
}

/* Make sure that the bin of a class has a block, perhaps from the depot. False:
 * there is none. The cache is entered. */
static bool
bin_fill(struct cache *cache, size_t n)
{
	struct bin *bin = &cache->bins[n];

	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	for (;;) {
		if (bin_empty(bin))
			bin_swap(bin);
		if (bin_empty(bin))
			take_full(cache, n);
		if (bin_empty(bin))
			return false;
		if (twice_is_cached(bin->top[-1], class_bytes(n)))
			return true;
		drop_twice(cache, *--bin->top, class_bytes(n));
	}
}

/* Allocate a block of a class, if there is one. Enters with the cache entered,
 * and leaves it. */
static void *
malloc_binned(struct cache *cache, size_t n, size_t size)
{
	if (!bin_fill(cache, n)) {
		tcache_leave(cache);
		return NULL;
	}
	return finish_malloc(cache, *--cache->bins[n].top, size);
}

struct block *
tcache_slot_find(struct cache *cache, size_t size)
{
	for (unsigned i = cache->slots; i > 0; i--) {
		if (cache->slot[i].size != size)
			continue;
		struct block *block = cache->slot[i].block;
		for (unsigned k = i; k < cache->slots; k++)
			cache->slot[k] = cache->slot[k + 1];
		cache->slots--;
		if (twice_is_cached(block, size))
			return block;
		drop_twice(cache, block, size);
	}
	return NULL;
}

/* Entered; leaves. */
static void *
malloc_slot(struct cache *cache, size_t rounded, size_t size)
{
	struct block *block = tcache_slot_find(cache, rounded);

	if (block == NULL) {
		tcache_leave(cache);
		return NULL;
	}
	return finish_malloc(cache, block, size);
}

/* Has the cache a block for the request? Only then is a stack recorded. */
static bool
has_any(struct cache *cache, size_t n)
{
	if (!tcache_enter(cache))
		return false;
	bool any = n == 0 ? cache->slots > 0 : bin_fill(cache, n);
	tcache_leave(cache);
	return any;
}

/* The size class of a request in a cache. The size is from 1 to
 * WEIR_SIZE_MAX. */
static size_t
rounded_in(const struct cache *cache, size_t size)
{
	if (cache->rounding != NULL)
		return size_class(cache->rounding, size);
	return size > cache->small_max ?
	    round_up(size, cache->arena->memory.page) :
	    size_of_granule(cache->granule, size);
}

static inline struct block *
take_traced(struct cache *cache, size_t n, size_t rounded)
{
	ASSERT(n <= TCACHE_CLASSES);
	if (n == 0)
		return tcache_slot_find(cache, rounded);
	struct bin *bin = &cache->bins[n];
	bool ready =
	    !bin_empty(bin) && block_state(bin->top[-1]) == BLOCK_CACHED;
	return ready || bin_fill(cache, n) ? *--bin->top : NULL;
}

/* As malloc_binned() and malloc_slot(), but under the arena's lock, and emitted
 * to the history. The cache may have been retired before the lock was taken;
 * under the lock no other thread uses it. */
static __attribute__((noinline)) void *
malloc_traced(struct cache *cache, size_t size)
{
	struct arena *arena = cache->arena;
	struct block *block = NULL;

	ASSERT(cache->traced);
	if (size - 1 >= WEIR_SIZE_MAX)
		return NULL;
	size_t rounded = rounded_in(cache, size);
	size_t n = class_of(cache->granule, rounded);
	if (history_takes_stacks(WEIR_HISTORY_STATE) && !has_any(cache, n))
		return NULL;
	history_enter(WEIR_HISTORY_STATE);
	lock_enter(&arena->lock);
	if (tcache_is_alive(cache))
		block = take_traced(cache, n, rounded);
	if (block != NULL) {
		bool below = activate_cached(cache, block, size);
		lock_assert_held(&block->arena->lock);
		emit_alloc(block);
		if (!below)
			counts_report_own(arena, cache);
	}
	lock_leave(&arena->lock);
	history_leave();
	if (block == NULL)
		return NULL;
	emit_allocated(block);
	return (void *)(uintptr_t)block->addr;
}

bool
tcache_is_current(const struct cache *cache)
{
	CUcontext current = NULL;

	return driver_peek()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	    current == cache->context;
}

struct cache *
tcache_find_in(weir_stream handle, CUcontext context)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	return atomic_load_explicit(&cache->handle, memory_order_relaxed) ==
		    handle &&
		cache->context == context && !cache->traced ?
	    cache :
	    NULL;
}

struct cache *
tcache_find_host(const struct arena *arena)
{
	unsigned way = arena->memory.any_heap->index % TCACHE_WAYS;
	struct cache *cache = tcache_own->by_heap[way];

	return cache->arena == arena && tcache_is_alive(cache) ? cache : NULL;
}

void *
tcache_malloc_in(struct cache *cache, size_t size)
{
	if (cache->traced)
		return malloc_traced(cache, size);
	if (!cache->keeps || size - 1 >= WEIR_SIZE_MAX)
		return NULL;
	size_t rounded = rounded_in(cache, size);
	size_t n = class_of(cache->granule, rounded);
	if (!tcache_enter(cache))
		return NULL;
	return n == 0 ? malloc_slot(cache, rounded, size) :
			malloc_binned(cache, n, size);
}

/* ---- Putting ------------------------------------------------------------ */

/* Make room for one more block of a class; false: there is none. The cache is
 * entered. */
static bool
bin_make_room(struct cache *cache, size_t n)
{
	struct bin *bin = &cache->bins[n];

	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	if (!bin_make(bin, n))
		return false;
	cache_note_bin(cache, n);
	if (bin_full(bin)) {
		cache->misses[n] = 0; /* the thread frees such blocks itself */
		bin_swap(bin);
		if (bin_full(bin))
			put_full(cache, n);
	}
	return !bin_full(bin);
}

/* Entered. */
static inline QUICK bool
free_binned(struct cache *cache, size_t n, struct block *block)
{
	struct bin *bin = &cache->bins[n];

	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	/* A bin without magazines is full. */
	if (bin_full(bin) && !bin_make_room(cache, n))
		return false;
	*bin->top++ = block;
	block_set_state(block, BLOCK_CACHED);
	tcache_count_in(cache, block->size, block->requested);
	return true;
}

/* Entered. */
static bool
free_slot(struct cache *cache, struct block *block)
{
	if (cache->slots == TCACHE_SLOTS ||
	    (block->size > cache->small_max && cache->pool[POOL_LARGE] == NULL))
		return false;
	tcache_put_slot(cache, block);
	return true;
}

static bool
find_leaf(struct tcache *t, struct nearby *nearby, CUdeviceptr place)
{
	CUdeviceptr base = lookup_base(place);

	if (base == nearby->base || t == &tcache_nobody)
		return false;
	struct leaf *leaf = lookup_leaf(place);
	if (leaf == NULL)
		return false;
	*nearby = (struct nearby){ base, leaf };
	return true;
}

bool
tcache_turn_to_leaf(CUdeviceptr place)
{
	struct tcache *t = tcache_own;

	return find_leaf(t, &t->nearby, place);
}

bool
tcache_find_host_leaf(const void *ptr)
{
	struct tcache *t = tcache_own;
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
	CUdeviceptr place = lookup_place(addr);

	return find_leaf(
	    t, place == addr ? &t->nearby_host : &t->nearby_fine, place);
}

/* Is it a pool of the cache's heap? False for a retired cache. Compares
 * addresses only, because the pool may be gone. */
static bool
is_for(const struct cache *cache, const struct pool *pool)
{
	return (uintptr_t)pool - (uintptr_t)cache->pool[POOL_SMALL] <
	    POOL_KINDS * sizeof(*pool);
}

/* Put a block into the cache if it is one of the cache's heap. The cache is
 * entered. */
static inline QUICK bool
put_into(struct cache *cache, struct block *block)
{
	if (!is_for(cache, block->pool))
		return false;
	size_t n = class_of(cache->granule, block->size);
	return n == 0 ? free_slot(cache, block) : free_binned(cache, n, block);
}

static bool
is_of_heap(const struct pool *pool, const struct stream_heap *heap)
{
	return heap != NULL && heap_owns(heap, pool);
}

bool
tcache_free_in_its(struct cache *cache, struct block *block)
{
	struct tcache *t = tcache_own;

	if (block_state(block) != BLOCK_ACTIVE || block->pending.uses != NULL ||
	    cache->traced || !tcache_enter(cache))
		return false;
	bool taken = put_into(cache, block);
	tcache_leave(cache);
	if (!taken)
		return false;
	t->last = cache;
	if (!cache->arena->traits.has_streams)
		t->last_host = cache;
	if (__builtin_expect(cache->is_idle, 0))
		counts_stir(cache);
	return true;
}

bool
tcache_free_traced(struct block *block)
{
	struct cache *cache = tcache_for(block);

	lock_assert_held(&block->arena->lock);
	if (!cache->traced || block->pending.uses != NULL ||
	    !put_into(cache, block))
		return false;
	emit_freed(block);
	return true;
}

bool
tcache_free_in(const struct cache *cache, struct block *block)
{
	void *ptr = (void *)(uintptr_t)block->addr;
	struct block *found;

	/* The cache takes only a live block of its own heap. */
	if (block_state(block) != BLOCK_ACTIVE ||
	    !is_of_heap(block->pool, cache->heap))
		return false;
	if (tcache_free(ptr, &found) == TCACHE_TAKEN)
		return true;
	/* Make its leaf the latest, so that the next free takes the hit
	 * path. */
	tcache_find_leaf(ptr);
	return tcache_free_rare(block);
}

bool
tcache_free_on(void *ptr, weir_stream handle)
{
	const struct cache *cache = tcache_find(WEIR_DEVICE_CURRENT, handle);

	if (cache == NULL ||
	    (cache->context != NULL && !tcache_is_current(cache)))
		return false;
	struct block *block = lookup_exact((CUdeviceptr)(uintptr_t)ptr);
	return block != NULL && tcache_free_in(cache, block);
}
