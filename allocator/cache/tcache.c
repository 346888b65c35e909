/*
 * Thread caches (tcache.h). The first part is the owner's, the second that of
 * whoever holds the arena's lock.
 *
 * A class of at most 64 KiB has two magazines, so that a thread that goes back
 * and forth at the end of one stays with them; full ones go to a depot of the
 * stream, from where other threads that allocate on it take them whole. Larger
 * blocks are few and of many sizes: a cache keeps the latest of them, only
 * until its thread comes to the pool, where they merge.
 */
#include "allocator/cache/tcache.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/cache/budget.h"
#include "allocator/cache/depot.h"
#include "allocator/fences/free.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pool.h"
#include "allocator/private/route.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

/* Its address is that of no stream: what a cache out of use is for. */
static char nobody;
#define NOBODY ((weir_stream)(void *)&nobody)

/* No block starts in it. */
static struct leaf no_leaf;

struct tcache tcache_nobody = {
	.last = &tcache_nobody.none,
	.last_host = &tcache_nobody.none,
	.nearby = { .leaf = &no_leaf },
	.nearby_host = { .leaf = &no_leaf },
	.nearby_fine = { .leaf = &no_leaf },
	.latest_host = { .cache = &tcache_nobody.none },
	.by_handle = { [0 ... TCACHE_WAYS - 1] = &tcache_nobody.none },
	.by_pools = { [0 ... TCACHE_WAYS - 1] = &tcache_nobody.none },
	.caches = { &tcache_nobody.caches, &tcache_nobody.caches },
	.none = { .key = NOBODY, .handle = NOBODY },
};
_Thread_local struct tcache *tcache_own = &tcache_nobody;
bool tcache_asymmetric; /* set before there is a cache */
char tcache_primary_keys[3];

static _Thread_local bool ended;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Classes ----------------------------------------------------------- */

/* The class of a size where such is the granule; 0: there is none. */
static size_t
class_of(size_t granule, size_t size)
{
	if (size < FINE_END && granule < WEIR_GRANULE)
		return TCACHE_FINE + size / FINE_GRANULE;
	return size > TCACHE_BINNED ? 0 : size / WEIR_GRANULE;
}

static size_t
class_of_block(const struct block *block)
{
	return class_of(block->arena->granule, block->size);
}

/* The last class that an arena has blocks of. */
static size_t
last_class(const struct arena *arena)
{
	return arena->granule < WEIR_GRANULE ? TCACHE_CLASSES : TCACHE_BINS;
}

/* ---- Depots ------------------------------------------------------------ */

/* What a full magazine brings along: Note [From thread to thread]. Some of it
 * may have been told since, and some room been used. */
static struct sums
magazine_sums(const struct cache *cache, const struct magazine *magazine)
{
	struct sums in = { .count = magazine->count };

	for (unsigned i = 0; i < magazine->count; i++) {
		in.bytes += (int64_t)magazine->blocks[i]->size;
		in.requested += (int64_t)magazine->blocks[i]->requested;
	}
	return sums_least(in, sums_least(counts_frees(cache), cache->room));
}

/* A full magazine out of the depot of the stream, for the empty first one. */
static void
take_full(struct cache *cache, size_t n)
{
	struct depot *depot = cache->pools->depot;
	struct sums in;

	if (depot == NULL)
		return;
	enum depot_taken taken =
	    depot_take(depot, cache, &cache->bins[n], n, &in);
	if (taken == DEPOT_NONE)
		return;
	cache->handed_over |= taken == DEPOT_SHARED;
	cache->room = sums_plus(cache->room, in);
}

/* The full first magazine into the depot, if that does not hold enough, for an
 * empty one. */
static void
put_full(struct cache *cache, size_t n)
{
	struct depot *depot = cache->pools->depot;
	struct magazine *full = bin_first(&cache->bins[n]);

	if (depot == NULL)
		return;
	full->count = magazine_max(n);
	struct sums in = magazine_sums(cache, full);
	full->in = in;
	if (!depot_put(depot, cache, &cache->bins[n], cache->depot_max))
		return;
	cache->room = sums_minus(cache->room, in);
	cache->brought = true;
}

/* ---- The owner --------------------------------------------------------- */

/* The way past a peak: the statistics are told at once. */
static void
count_peak(struct cache *cache, const struct block *block)
{
	struct sums one = { 1, (int64_t)block->size,
		(int64_t)block->requested };

	cache->out = sums_plus(cache->out, one);
	cache->room = sums_minus(cache->room, one);
}

/* Entered. False if a peak has been passed. */
static inline QUICK bool
give_to_cache(struct cache *cache, struct block *block, size_t size)
{
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	if (block->size > SMALL_MAX)
		tcache_count_large(&cache->large_out, block->size, size);
	bool below =
	    tcache_count_out(cache, (int64_t)block->size, (int64_t)size);
	if (__builtin_expect(!below, 0))
		count_peak(cache, block);
	return below;
}

/* Entered; leaves. */
static void *
hand_out(struct cache *cache, struct block *block, size_t size)
{
	void *ptr = (void *)(uintptr_t)block->addr;
	bool below = give_to_cache(cache, block, size);

	tcache_leave(cache);
	if (__builtin_expect(!below, 0))
		counts_tell_peak(cache);
	return ptr;
}

/* Is the block that is to leave a cache still cached? Else it has left another
 * before: tcache.h, Note [Freed twice at once]. */
static inline bool
is_cached(const struct block *block, size_t bytes)
{
	return __builtin_expect(block_state(block) == BLOCK_CACHED, 1) &&
	    __builtin_expect(block->size == bytes, 1);
}

/* Reports a block of `bytes` that is not; returns what its free counted, as far
 * as can be told: what was requested is forgotten when a block is free. */
static __attribute__((cold)) struct sums
report_twice(const struct block *block, size_t bytes)
{
	size_t requested = block->requested;

	log_write(LOG_ERROR,
	    "a block of %zu bytes, at %#llx, was freed by two threads at the "
	    "same time; it is handed out once",
	    bytes, (unsigned long long)block->addr);
	return (struct sums){ 1, (int64_t)bytes,
		(int64_t)(requested - 1 < bytes ? requested : bytes) };
}

/* Entered, or under the lock. The second free is taken back. */
static __attribute__((cold)) void
drop_twice(struct cache *cache, const struct block *block, size_t bytes)
{
	cache->room = sums_minus(cache->room, report_twice(block, bytes));
}

/* Entered. Is there a block of the class, in a bin or out of the depot? */
static bool
bin_fill(struct cache *cache, size_t n)
{
	struct bin *bin = &cache->bins[n];

	for (;;) {
		if (bin_empty(bin))
			bin_swap(bin);
		if (bin_empty(bin))
			take_full(cache, n);
		if (bin_empty(bin))
			return false;
		if (is_cached(bin->top[-1], class_bytes(n)))
			return true;
		drop_twice(cache, *--bin->top, class_bytes(n));
	}
}

/* Entered; leaves. A block of a class, if there is one. */
static void *
malloc_binned(struct cache *cache, size_t n, size_t size)
{
	if (!bin_fill(cache, n)) {
		tcache_leave(cache);
		return NULL;
	}
	return hand_out(cache, *--cache->bins[n].top, size);
}

static struct block *
slot_find(struct cache *cache, size_t size)
{
	for (unsigned i = cache->slots; i > 0; i--) {
		if (cache->slot[i].size != size)
			continue;
		struct block *block = cache->slot[i].block;
		for (unsigned k = i; k < cache->slots; k++)
			cache->slot[k] = cache->slot[k + 1];
		cache->slots--;
		if (is_cached(block, size))
			return block;
		drop_twice(cache, block, size);
	}
	return NULL;
}

/* Entered; leaves. */
static void *
malloc_slot(struct cache *cache, size_t rounded, size_t size)
{
	struct block *block = slot_find(cache, rounded);

	if (block == NULL) {
		tcache_leave(cache);
		return NULL;
	}
	return hand_out(cache, block, size);
}

/* Is it worth while to take a stack for it? */
static bool
has_any(struct cache *cache, size_t n)
{
	if (!tcache_enter(cache))
		return false;
	bool any = n == 0 ? cache->slots > 0 : bin_fill(cache, n);
	tcache_leave(cache);
	return any;
}

/* What a cache rounds a size to, which is not 0 or too much. */
static size_t
rounded_in(const struct cache *cache, size_t size)
{
	return cache->rounding != NULL ? size_class(cache->rounding, size) :
					 size_of_granule(cache->granule, size);
}

static inline struct block *
take_traced(struct cache *cache, size_t n, size_t rounded)
{
	if (n == 0)
		return slot_find(cache, rounded);
	struct bin *bin = &cache->bins[n];
	bool ready =
	    !bin_empty(bin) && block_state(bin->top[-1]) == BLOCK_CACHED;
	return ready || bin_fill(cache, n) ? *--bin->top : NULL;
}

/* As malloc_binned() and malloc_slot(), but under the arena's lock, and told.
 * The cache may have been taken out of use before the lock was had; with it
 * nobody else is at it. */
static __attribute__((noinline)) void *
malloc_traced(struct cache *cache, size_t size)
{
	struct arena *arena = cache->arena;
	struct block *block = NULL;

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
		bool below = give_to_cache(cache, block, size);
		tell_alloc(block);
		if (!below)
			counts_tell_own(arena, cache);
	}
	lock_leave(&arena->lock);
	history_leave();
	if (block == NULL)
		return NULL;
	tell_allocated(block);
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
	unsigned way = arena->any_pools->index % TCACHE_WAYS;
	struct cache *cache = tcache_own->by_pools[way];

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

/* Entered. Room for one more of a class, if there can be. */
static bool
bin_make_room(struct cache *cache, size_t n)
{
	struct bin *bin = &cache->bins[n];

	if (!bin_make(bin, n))
		return false;
	if (bin_full(bin)) {
		cache->misses[n] = 0; /* it has blocks of its own */
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

	/* One with no magazines is full. */
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
	if (cache->slots == TCACHE_SLOTS)
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

/* Not if it is retired; nothing is known of the pool but where it lies. */
static bool
is_for(const struct cache *cache, const struct pool *pool)
{
	return (uintptr_t)pool - (uintptr_t)cache->pool[POOL_SMALL] <
	    POOL_KINDS * sizeof(*pool);
}

/* Entered. If it is the block's. */
static inline QUICK bool
put_into(struct cache *cache, struct block *block)
{
	if (!is_for(cache, block->pool))
		return false;
	size_t n = class_of(cache->granule, block->size);
	return n == 0 ? free_slot(cache, block) : free_binned(cache, n, block);
}

static bool
is_of_pools(const struct pool *pool, const struct pools *pools)
{
	return pools != NULL && pools_have(pools, pool);
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
	if (arena_is_host(cache->arena))
		t->last_host = cache;
	return true;
}

bool
tcache_keep(struct block *block)
{
	struct cache *cache = tcache_for(block);

	if (!cache->traced || block->pending.uses != NULL ||
	    !put_into(cache, block))
		return false;
	tell_freed(block);
	return true;
}

bool
tcache_free_in(const struct cache *cache, struct block *block)
{
	void *ptr = (void *)(uintptr_t)block->addr;
	struct block *found;

	/* What is freed there belongs there, or is not taken. */
	if (block_state(block) != BLOCK_ACTIVE ||
	    !is_of_pools(block->pool, cache->pools))
		return false;
	if (tcache_free(ptr, &found) == TCACHE_TAKEN)
		return true;
	/* Once it is the latest place the next one has the shortest way. */
	tcache_find_leaf(ptr);
	return tcache_free_rare(block);
}

bool
tcache_free_on(void *ptr, weir_stream handle)
{
	const struct cache *cache = tcache_find(WEIR_DEVICE_CURRENT, handle);

	if (cache == NULL)
		return false;
	struct block *block = lookup_exact((CUdeviceptr)(uintptr_t)ptr);
	return block != NULL && tcache_free_in(cache, block);
}

/* ---- Stopping ---------------------------------------------------------- */

static int
membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* A forked child has none of its parent's memory. */
static void
forget_own(void)
{
	tcache_own = &tcache_nobody;
}

static void
prepare_process(void)
{
	pthread_atfork(NULL, NULL, forget_own);
	tcache_asymmetric =
	    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

static void
wait_for_owner(const struct cache *cache)
{
	unsigned spins = 0;

	while (atomic_load(&cache->busy) != 0)
		if (++spins % 64 == 0)
			sched_yield();
}

/* Let the owner take the shortest way, where that is enough, or none. */
static void
open_cache(struct cache *cache)
{
	atomic_store_explicit(&cache->key_pool,
	    cache->keeps && tcache_asymmetric && !cache->traced ?
		cache->pool[POOL_SMALL] :
		NULL,
	    memory_order_release);
	atomic_store_explicit(&cache->key, cache->usual, memory_order_release);
}

static void
close_cache(struct cache *cache)
{
	atomic_store_explicit(&cache->key, NOBODY, memory_order_relaxed);
	atomic_store_explicit(&cache->key_pool, NULL, memory_order_relaxed);
	atomic_exchange(&cache->wanted, 1);
}

/* Keep the owners of an arena's caches out, of one stream's or of all. */
static void
stop_caches(struct arena *arena, const struct pools *pools)
{
	bool others = false;

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		/* The owner of one that keeps nothing is at it under the lock.
		 */
		if (cache->owner == tcache_own || !cache->keeps ||
		    (pools != NULL && cache->pools != pools))
			continue;
		close_cache(cache);
		others = true;
	}
	if (!others)
		return;
	if (tcache_asymmetric)
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (atomic_load_explicit(
			&cache_of(l)->wanted, memory_order_relaxed) != 0)
			wait_for_owner(cache_of(l));
}

void
tcache_go(struct arena *arena)
{
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		if (cache->owner == tcache_own)
			continue;
		atomic_store_explicit(&cache->wanted, 0, memory_order_release);
		open_cache(cache);
	}
}

void
tcache_stop(struct arena *arena)
{
	stop_caches(arena, NULL);
	counts_tell_all(arena);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		counts_give_room(cache_of(l), (struct sums){ 0 });
}

void
tcache_tell(struct arena *arena)
{
	tcache_stop(arena);
	tcache_go(arena);
	counts_tell_own(arena, NULL);
}

/* ---- Emptying ---------------------------------------------------------- */

/* Free a block of a cache or depot, unless that has been done: then the second
 * free is no longer counted. */
static void
put_back(struct pools *pools, struct block *block, size_t bytes)
{
	if (is_cached(block, bytes)) {
		block_free(block);
		return;
	}
	struct sums twice = report_twice(block, bytes);
	stats_malloc(&pools->pool[arena_kind(pools->arena, bytes)],
	    (uint64_t)twice.bytes, (uint64_t)twice.requested);
}

static bool
empty_magazine(struct pools *pools, struct magazine *magazine)
{
	size_t bytes = class_bytes(magazine->n);
	bool any = magazine->count > 0;

	while (magazine->count > 0)
		put_back(pools, magazine->blocks[--magazine->count], bytes);
	return any;
}

static bool
empty_bin(struct pools *pools, struct bin *bin, size_t n)
{
	bool any = !bin_empty(bin);

	while (!bin_empty(bin))
		put_back(pools, *--bin->top, class_bytes(n));
	if (bin->second != NULL)
		any |= empty_magazine(pools, bin->second);
	return any;
}

bool
tcache_empty_slots(struct cache *cache)
{
	bool any = cache->slots > 0;

	while (cache->slots > 0) {
		struct slot *slot = &cache->slot[cache->slots--];
		if (is_cached(slot->block, slot->size))
			block_free_since(slot->block);
		else
			put_back(cache->pools, slot->block, slot->size);
	}
	return any;
}

static bool
empty_bins(struct cache *cache)
{
	size_t last = cache->keeps ? last_class(cache->arena) : 0;
	bool any = false;

	for (size_t n = 1; n <= last; n++)
		any |= empty_bin(cache->pools, &cache->bins[n], n);
	return any;
}

static bool
empty_cache(struct cache *cache)
{
	bool any = tcache_empty_slots(cache);

	return empty_bins(cache) || any;
}

/* Requests that the pools serve, for each cache of another thread, before those
 * are stopped again to see what they do not use. */
enum { REQUESTS_A_LOOK = 64 };

static bool
empty_depot(struct pools *pools, enum drain which)
{
	if (pools->depot == NULL)
		return false;
	struct magazine *list = depot_take_many(pools->depot, which);
	bool any = list != NULL;
	counts_tell_depot(pools);
	while (list != NULL) {
		struct magazine *magazine = list;
		list = magazine->next;
		empty_magazine(pools, magazine);
		magazine_delete(magazine);
	}
	return any;
}

static bool
empty_depots(struct arena *arena)
{
	bool any = false;

	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next)
		any |=
		    empty_depot(CONTAINER_OF(l, struct pools, link), DRAIN_ALL);
	return any;
}

bool
tcache_drain(struct arena *arena)
{
	bool any = false;

	stop_caches(arena, NULL);
	counts_tell_all(arena);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		any |= empty_cache(cache_of(l));
	tcache_go(arena);
	return empty_depots(arena) || any;
}

/* Have the bins of a stopped cache not been used since this was last asked? It
 * has told what it has counted. */
static bool
was_idle(struct cache *cache)
{
	bool idle = !cache->used;

	cache->used = false;
	return idle;
}

/* Has only the calling thread used the depot since all were looked at? */
static bool
has_own_depot(const struct pools *pools, bool look)
{
	return pools->depot != NULL &&
	    depot_is_own(pools->depot, tcache_of(pools), look);
}

/* What the calling thread alone has cached; it has told. */
static bool
drain_own(struct arena *arena)
{
	struct list *own = &tcache_own->caches;
	bool any = false;

	for (struct list *l = own->next; l != own; l = l->next) {
		struct cache *cache = own_of(l);
		if (!is_own(cache, arena))
			continue;
		any |= empty_cache(cache);
		if (has_own_depot(cache->pools, false))
			any |= empty_depot(cache->pools, DRAIN_ALL);
	}
	return any;
}

/* Complete memory that any thread keeps, for which none is to be stopped. */
static bool
drain_complete(struct arena *arena)
{
	bool any = false;

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (cache_of(l)->complete)
			any |= tcache_empty_slots(cache_of(l));
	return any;
}

/* Has the arena served enough since all caches were looked at? */
static bool
look_is_due(struct arena *arena)
{
	uint64_t wait = 0;

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (cache_of(l)->owner != tcache_own && cache_of(l)->keeps)
			wait += REQUESTS_A_LOOK;
	if (arena->served - arena->looked < wait)
		return false;
	arena->looked = arena->served;
	return true;
}

bool
tcache_drain_idle(const struct pool *pool, bool widely)
{
	const struct pools *pools = pool->owner;
	struct arena *arena = pools->arena;
	bool any = drain_complete(arena);

	if (pool->kind == POOL_SMALL && !look_is_due(arena))
		return drain_own(arena) || any;
	stop_caches(arena, NULL);
	counts_tell_all(arena);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		any |= tcache_empty_slots(cache);
		if (cache->owner == tcache_own ||
		    ((widely || cache->pools == pools) && was_idle(cache)))
			any |= empty_bins(cache);
	}
	tcache_go(arena);
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *p = CONTAINER_OF(l, struct pools, link);
		if (has_own_depot(p, true))
			any |= empty_depot(p, DRAIN_ALL);
		else if (widely || p == pools)
			any |= empty_depot(p, DRAIN_IDLE);
	}
	return any;
}

/* ---- Making and dropping ----------------------------------------------- */

static void
delete_magazines(struct cache *cache)
{
	for (size_t n = 1; n <= TCACHE_CLASSES; n++)
		bin_delete(&cache->bins[n]);
}

/* Take a cache out of use; stopped or the caller's own, and told. It stays
 * wanted: its owner may have found it already, and is not to come in. */
static void
retire_cache(struct cache *cache)
{
	struct pools *pools = cache->pools;

	if (counts_tell(cache))
		stats_note_arena_peaks(cache->arena);
	empty_cache(cache);
	delete_magazines(cache);
	list_remove(&cache->link);
	close_cache(cache);
	atomic_store_explicit(&cache->handle, NOBODY, memory_order_relaxed);
	for (int kind = 0; kind < POOL_KINDS; kind++)
		cache->pool[kind] = NULL;
	atomic_store_explicit(&cache->dead, true, memory_order_release);
	pools->caches--;
}

void
tcache_end(struct pools *pools)
{
	struct arena *arena = pools->arena;
	struct list *next;

	stop_caches(arena, pools);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = next) {
		next = l->next;
		if (cache_of(l)->pools == pools)
			retire_cache(cache_of(l));
	}
	empty_depot(pools, DRAIN_ALL);
}

void
tcache_retire(struct arena *arena, const struct stream *stream, bool own)
{
	struct list *next;

	if (!own)
		stop_caches(arena, stream != NULL ? stream->pools : NULL);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = next) {
		struct cache *cache = cache_of(l);
		struct pools *pools = cache->pools;
		next = l->next;
		if ((own && cache->owner != tcache_own) ||
		    (stream != NULL && pools->stream != stream))
			continue;
		retire_cache(cache);
		pools_drop_if_done(pools);
	}
	tcache_go(arena);
}

void
tcache_forget(struct arena *arena)
{
	stop_caches(arena, NULL);
	while (!list_empty(&arena->caches)) {
		struct cache *cache = cache_of(arena->caches.next);
		cache->slots = 0;
		delete_magazines(cache);
		retire_cache(cache);
	}
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct depot *depot =
		    CONTAINER_OF(l, struct pools, link)->depot;
		if (depot == NULL)
			continue;
		struct magazine *list = depot_take_many(depot, DRAIN_ALL);
		while (list != NULL) {
			struct magazine *next = list->next;
			magazine_delete(list);
			list = next;
		}
	}
}

/* Free the owner's cache at a place of its tables, which is dead or in the way
 * of another. */
static void
drop_cache(struct tcache *t, struct cache *cache)
{
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		if (t->by_handle[i] == cache)
			t->by_handle[i] = &t->none;
		if (t->by_pools[i] == cache)
			t->by_pools[i] = &t->none;
	}
	if (t->last == cache)
		t->last = &t->none;
	if (t->last_host == cache)
		t->last_host = &t->none;
	if (t->latest_host.cache == cache)
		t->latest_host.cache = &t->none;
	list_remove(&cache->own_link);
	meta_free(cache, sizeof(*cache));
}

/* Make room at a place. A cache of another device is in use by nobody else but
 * its arena is not the one that is locked: it stays, and false. */
static bool
make_place(struct tcache *t, struct cache **place, const struct arena *arena)
{
	struct cache *cache = *place;

	if (cache == &t->none)
		return true;
	if (!atomic_load_explicit(&cache->dead, memory_order_acquire)) {
		if (cache->arena != arena)
			return false;
		retire_cache(cache);
	}
	drop_cache(t, cache);
	return true;
}

/* What the shortest way asks a cache for. A default stream of another context
 * than the primary one has no such way: it may not be current. */
static weir_stream
usual_key(const struct pools *pools, CUcontext context)
{
	if (context == NULL)
		return tcache_key(pools);
	return context == pools->arena->context ?
	    tcache_primary_key(pools->stream->handle) :
	    NOBODY;
}

static void
set_up(struct cache *cache, struct tcache *t, struct pools *pools,
    const struct options *options)
{
	struct stream *stream = pools->stream;
	bool host = arena_is_host(pools->arena);
	/* A cap counts what is cached, too. */
	bool keeps = options->tcache > 0 &&
	    (host ? options->pinned_idle == OPTION_UNLIMITED :
		    stream->handle != WEIR_STREAM_ANY);

	atomic_init(&cache->handle, tcache_key(pools));
	cache->device = stream->device;
	cache->granule = pools->arena->granule;
	cache->context =
	    stream_is_default(stream->handle) ? stream->context : NULL;
	cache->rounding = options->rounds && !host ? options : NULL;
	cache->keeps = keeps;
	cache->complete =
	    options->tcache > 0 && !host && stream->handle == WEIR_STREAM_ANY;
	cache->traced = keeps && !host && tell_all();
	cache->usual = keeps && tcache_asymmetric && cache->rounding == NULL &&
		!cache->traced ?
	    usual_key(pools, cache->context) :
	    NOBODY;
	for (int kind = 0; kind < POOL_KINDS; kind++)
		cache->pool[kind] = &pools->pool[kind];
	cache->depot_max = options->tcache;
	cache->arena = pools->arena;
	cache->pools = pools;
	cache->owner = t;
	open_cache(cache);
}

static bool
is_taken(const struct tcache *t, const struct cache *place)
{
	return place != &t->none && tcache_is_alive(place);
}

static void
make_cache(struct tcache *t, struct pools *pools, const struct options *options)
{
	bool host = arena_is_host(pools->arena);
	struct cache **by_handle = &t->by_handle[tcache_way(tcache_key(pools))];
	struct cache **by_pools = &t->by_pools[pools->index % TCACHE_WAYS];

	/* One that keeps nothing is not worth another's place. */
	if (!host && pools->stream->handle == WEIR_STREAM_ANY &&
	    (is_taken(t, *by_handle) || is_taken(t, *by_pools)))
		return;
	if ((!host && !make_place(t, by_handle, pools->arena)) ||
	    !make_place(t, by_pools, pools->arena))
		return;
	struct cache *cache = meta_zalloc(sizeof(*cache));
	if (cache == NULL)
		return;
	set_up(cache, t, pools, options);
	if (cache->keeps && pools->depot == NULL)
		pools->depot = depot_new();
	pools->caches++;
	list_push_back(&pools->arena->caches, &cache->link);
	list_push_back(&t->caches, &cache->own_link);
	if (!host)
		*by_handle = cache;
	*by_pools = cache;
}

/* May a thread keep blocks of these pools? Oversize blocks are counted where
 * they are freed, so there must be none; nor may any be left from before the
 * option was changed. */
static bool
is_cacheable(const struct pools *pools, const struct options *options)
{
	const struct stream *stream = pools->stream;

	if (options->reclaim_always || guard_is_for(pools->arena) ||
	    options->max_split_size != OPTION_UNLIMITED ||
	    pools->arena->stats.oversize_allocations.current != 0 ||
	    pools->ended || ended || os_forked())
		return false;
	if (arena_is_host(pools->arena))
		return true;
	return pools->arena == pools->arena->main && !route_may_match(stream) &&
	    (stream->thread == 0 || stream->thread == os_thread_id());
}

static struct tcache *
make_own(void)
{
	struct tcache *t;

	if (tcache_own != &tcache_nobody)
		return tcache_own;
	pthread_once(&once, prepare_process);
	os_thread_id(); /* so that its end is told */
	t = meta_zalloc(sizeof(*t));
	if (t == NULL)
		return &tcache_nobody;
	atomic_init(&t->none.key, NOBODY);
	atomic_init(&t->none.handle, NOBODY);
	t->last = &t->none;
	t->last_host = &t->none;
	t->latest_host.cache = &t->none;
	t->nearby.leaf = &no_leaf;
	t->nearby_host.leaf = &no_leaf;
	t->nearby_fine.leaf = &no_leaf;
	list_init(&t->caches);
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		t->by_handle[i] = &t->none;
		t->by_pools[i] = &t->none;
	}
	return t;
}

/* ---- Coming to the pool ------------------------------------------------ */

/* Has the calling thread anything to tell? */
static bool
has_news(const struct arena *arena)
{
	struct list *own = &tcache_own->caches;

	for (struct list *l = own->next; l != own; l = l->next) {
		const struct cache *cache = own_of(l);
		if (is_own(cache, arena) &&
		    (cache->brought || cache->out.count != 0 ||
			cache->room.count != cache->room_given.count))
			return true;
	}
	return false;
}

void
tcache_tell_news(struct arena *arena)
{
	if (has_news(arena))
		counts_tell_own(arena, NULL);
}

struct cache *
tcache_come_with(struct pools *pools, struct cache *cache)
{
	const struct options *options;

	if (cache == NULL && options_get(&options) == WEIR_OK &&
	    is_cacheable(pools, options)) {
		tcache_own = make_own();
		if (tcache_own != &tcache_nobody)
			make_cache(tcache_own, pools, options);
		cache = tcache_of(pools);
	}
	if (cache != NULL && !cache->keeps) {
		if (!cache->complete) /* no cache keeps anything */
			return NULL;
		cache = NULL;
	}
	if (has_news(pools->arena))
		counts_tell_own(pools->arena, cache);
	return cache;
}

/* The calling thread's cache for complete memory of these pools, or NULL. */
static struct cache *
complete_cache(const struct pools *pools)
{
	struct cache *cache = tcache_of(pools);

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

/* The oldest of the slots makes room. */
bool
tcache_keep_complete(struct block *block)
{
	struct cache *cache = complete_cache(block->pool->owner);

	if (cache == NULL)
		return false;
	if (cache->slots == TCACHE_SLOTS) {
		struct block *oldest = cache->slot[1].block;
		for (unsigned i = 1; i < TCACHE_SLOTS; i++)
			cache->slot[i] = cache->slot[i + 1];
		cache->slots--;
		block_free_since(oldest);
	}
	block_set_state(block, BLOCK_CACHED);
	cache->slot[++cache->slots] =
	    (struct slot){ .size = block->size, .block = block };
	return true;
}

struct block *
tcache_take_complete(const struct pools *pools, size_t rounded)
{
	struct cache *cache = complete_cache(pools);
	struct block *block = cache != NULL ? slot_find(cache, rounded) : NULL;

	if (block != NULL)
		block_set_state(block, BLOCK_ACTIVE);
	return block;
}

bool
tcache_settle_complete(const struct pools *pools)
{
	struct cache *cache = complete_cache(pools);

	return cache != NULL && tcache_empty_slots(cache);
}

/* What the pool does changes what is left below the peaks. */
static void
change_room(struct cache *cache, const struct block *block, int sign)
{
	struct sums change = { sign, sign * (int64_t)block->size,
		sign * (int64_t)block->requested };

	cache->room = sums_plus(cache->room, change);
	cache->room_given = sums_plus(cache->room_given, change);
}

/* Has any of the calling thread's caches been given room? */
static bool
have_room(const struct arena *arena)
{
	struct list *own = &tcache_own->caches;

	for (struct list *l = own->next; l != own; l = l->next)
		if (is_own(own_of(l), arena))
			return true;
	return false;
}

void
tcache_went_out(struct cache *cache, const struct block *block)
{
	const struct list *own = &tcache_own->caches;
	bool alone = own->next == own->prev;

	if (cache != NULL)
		change_room(cache, block, -1);
	/* It has taken what other caches of the thread were given, or has
	 * passed a peak: theirs is less now. */
	if (cache != NULL ? !alone && sums_lack(&cache->room) :
			    have_room(block->arena))
		counts_tell_own(block->arena, cache);
}

void
tcache_take_in(struct cache *cache, const struct block *block)
{
	size_t n = class_of_block(block);

	change_room(cache, block, 1);
	/* Its thread goes on to free the like: one lock for all of them. */
	if (n != 0 && bin_full(&cache->bins[n]))
		while (!bin_empty(&cache->bins[n]))
			put_back(cache->pools, *--cache->bins[n].top,
			    class_bytes(n));
}

enum { MISSES_A_BLOCK = 4 };

/* How many more blocks a class is to be given. */
static unsigned
refill_count(struct cache *cache, size_t n)
{
	unsigned misses = cache->misses[n];
	unsigned count = misses / MISSES_A_BLOCK;

	if (misses < UINT8_MAX)
		cache->misses[n]++;
	return count < magazine_max(n) ? count : magazine_max(n);
}

/* Cut a block that was taken into as many of a class as it is long, which are
 * cached then; what there is no host memory to cut is free again. */
static void
cut_into(struct bin *bin, struct block *block, size_t rounded)
{
	struct block *rest;

	for (; block->size > rounded; block = rest) {
		if (block_new(block->arena, block->addr + rounded, &rest) !=
		    WEIR_OK) {
			block_put(block, BLOCK_FREE);
			return;
		}
		block_split(block, rounded, rest);
		block_set_state(block, BLOCK_CACHED);
		*bin->top++ = block;
	}
	block_set_state(block, BLOCK_CACHED);
	*bin->top++ = block;
}

/* The lowest address is on top then. */
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

/* The best fits, as if they were asked for one by one. */
static void
fill_from_pool(struct bin *bin, struct pool *pool,
    const struct options *options, size_t rounded, unsigned count)
{
	struct block **end = bin->top + count;

	status_mute();
	while (bin->top < end) {
		size_t left = (size_t)(end - bin->top);
		struct block *block = pool_find(pool, options, rounded, false);
		if (block == NULL)
			break;
		size_t fit = block->run / rounded;
		if (pool_cut(&block, options,
			(fit < left ? fit : left) * rounded) != WEIR_OK)
			break;
		cut_into(bin, block, rounded);
	}
	status_unmute();
	/* They would have come for them. */
	pool->owner->arena->served += (uint64_t)(bin->top - bin->bottom);
	bin_reverse(bin);
}

void
tcache_refill_bin(
    struct cache *cache, const struct options *options, size_t rounded)
{
	size_t n = rounded / WEIR_GRANULE;

	if (n > TCACHE_BINS || !tcache_is_alive(cache) ||
	    arena_is_host(cache->arena))
		return;
	struct bin *bin = &cache->bins[n];
	unsigned count = refill_count(cache, n);
	if (count > 0 && bin_make(bin, n) && bin_empty(bin))
		fill_from_pool(
		    bin, cache->pool[POOL_SMALL], options, rounded, count);
}

/* Bytes of a class in a cache. */
static size_t
bin_bytes(const struct bin *bin, size_t n)
{
	size_t count = (size_t)(bin->top - bin->bottom);

	if (bin->second != NULL)
		count += bin->second->count;
	return count * class_bytes(n);
}

size_t
tcache_bytes(const struct pools *pools)
{
	const struct arena *arena = pools->arena;
	size_t bytes = pools->depot != NULL ? pools->depot->bytes : 0;

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		const struct cache *cache = cache_of(l);
		if (cache->pools != pools)
			continue;
		for (size_t n = 1; n <= TCACHE_CLASSES; n++)
			bytes += bin_bytes(&cache->bins[n], n);
		for (unsigned i = 1; i <= cache->slots; i++)
			bytes += cache->slot[i].size;
	}
	return bytes;
}

/* ---- With no lock ------------------------------------------------------ */

static void
retire_all(struct arena *arena)
{
	stop_caches(arena, NULL);
	while (!list_empty(&arena->caches))
		retire_cache(cache_of(arena->caches.next));
	empty_depots(arena);
}

void
tcache_renew(void)
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

	lock_enter(&arena->lock);
	if (!atomic_load_explicit(&cache->dead, memory_order_acquire)) {
		struct pools *pools = cache->pools;
		retire_cache(cache);
		pools_drop_if_done(pools);
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
	meta_free(t, sizeof(*t));
}
