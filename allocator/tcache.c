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
#include "allocator/tcache.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/lookup.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

/* Bytes of a class that a magazine holds at most. */
enum { MAGAZINE_BYTES = 64 << 10 };

struct tcache {
	struct cache *by_handle[TCACHE_WAYS];
	struct cache *by_pools[TCACHE_WAYS];
	struct account *accounts;
	/* The leaf of the address that was freed last. */
	CUdeviceptr leaf_key;
	struct leaf *leaf;
};

static _Thread_local struct tcache *own;

static _Thread_local bool ended;

/* Owners need no fence: membarrier() works. Set before there is a cache. */
static bool asymmetric;
/* Its address is that of no stream: what a cache out of use is for. */
static char nobody;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define BUMP(counter, n)                                                       \
	atomic_store_explicit(&(counter),                                      \
	    atomic_load_explicit(&(counter), memory_order_relaxed) + (n),      \
	    memory_order_relaxed)
#define READ(counter) atomic_load_explicit(&(counter), memory_order_relaxed)

/* ---- The owner --------------------------------------------------------- */

static unsigned
way_of(weir_stream handle)
{
	uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;

	return (unsigned)(hash >> 58);
}

static inline bool
enter(struct cache *cache)
{
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	if (asymmetric)
		atomic_signal_fence(memory_order_seq_cst);
	else
		atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(
		atomic_load_explicit(&cache->wanted, memory_order_acquire) == 0,
		1))
		return true;
	atomic_store_explicit(&cache->busy, 0, memory_order_release);
	return false;
}

static inline void
leave(struct cache *cache)
{
	atomic_store_explicit(&cache->busy, 0, memory_order_release);
}

/* Blocks of a class that make a full magazine. */
static inline unsigned
batch_of(size_t bin)
{
	size_t n = MAGAZINE_BYTES / ((bin + 1) * WEIR_GRANULE);

	return n > TCACHE_BATCH ? TCACHE_BATCH : (unsigned)n;
}

static void
swap(struct bin *bin)
{
	struct magazine first = bin->first;

	bin->first = bin->second;
	bin->second = first;
}

/* A full magazine out of the depot of the stream. */
static bool
depot_take(struct cache *cache, size_t n)
{
	struct depot *depot = cache->pools->depot;
	struct bin *bin = &cache->bins[n];

	if (depot == NULL || depot->chains[n] == NULL)
		return false;
	lock_enter(&depot->lock);
	struct block *top = depot->chains[n];
	if (top != NULL) {
		depot->chains[n] = top->cached.chain;
		depot->bytes -= top->cached.count * top->size;
	}
	lock_leave(&depot->lock);
	if (top == NULL)
		return false;
	bin->first.top = top;
	bin->first.count = top->cached.count;
	cache->bytes += bin->first.count * top->size;
	return true;
}

/* A full magazine into it; false if it holds as much as a cache may. */
static bool
depot_put(struct cache *cache, size_t n, struct magazine *magazine)
{
	struct depot *depot = cache->pools->depot;
	struct block *top = magazine->top;
	size_t bytes = magazine->count * top->size;

	if (depot == NULL)
		return false;
	lock_enter(&depot->lock);
	bool fits = depot->bytes + bytes <= cache->bytes_max;
	if (fits) {
		top->cached.count = magazine->count;
		top->cached.chain = depot->chains[n];
		depot->chains[n] = top;
		depot->bytes += bytes;
	}
	lock_leave(&depot->lock);
	if (!fits)
		return false;
	cache->bytes -= bytes;
	*magazine = (struct magazine){ 0 };
	return true;
}

static inline struct block *
take_binned(struct cache *cache, size_t n)
{
	struct bin *bin = &cache->bins[n];

	if (__builtin_expect(bin->first.top == NULL, 0)) {
		swap(bin);
		if (bin->first.top == NULL && !depot_take(cache, n))
			return NULL;
	}
	struct block *block = bin->first.top;
	bin->first.top = block->cached.next;
	bin->first.count--;
	cache->bytes -= block->size;
	return block;
}

static inline bool
put_binned(struct cache *cache, size_t n, struct block *block)
{
	struct bin *bin = &cache->bins[n];

	if (__builtin_expect(cache->bytes + block->size > cache->bytes_max, 0))
		return false;
	if (__builtin_expect(bin->first.count >= batch_of(n), 0)) {
		swap(bin);
		if (bin->first.count >= batch_of(n) &&
		    !depot_put(cache, n, &bin->first))
			return false;
	}
	block->cached.next = bin->first.top;
	bin->first.top = block;
	bin->first.count++;
	cache->bytes += block->size;
	return true;
}

static inline struct block *
take_slot(struct cache *cache, size_t size)
{
	for (unsigned i = cache->slots; i-- > 0;) {
		if (cache->slot[i].size != size)
			continue;
		struct block *block = cache->slot[i].block;
		cache->slots--;
		for (; i < cache->slots; i++)
			cache->slot[i] = cache->slot[i + 1];
		return block;
	}
	return NULL;
}

static inline bool
put_slot(struct cache *cache, struct block *block)
{
	if (cache->slots == TCACHE_SLOTS)
		return false;
	cache->slot[cache->slots++] =
	    (struct slot){ .size = block->size, .block = block };
	return true;
}

/* Is the context the one that the cache of a default stream is for? */
static bool
is_current(const struct cache *cache)
{
	CUcontext current = NULL;

	return driver_peek()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	    current == cache->context;
}

static void tell_own(struct arena *arena);

/* A peak would be missed. */
static void
tell_now(struct arena *arena)
{
	lock_enter(&arena->lock);
	tell_own(arena);
	lock_leave(&arena->lock);
}

/* Count a block out; true if a peak has been passed. */
static inline bool
count_out(struct cache *cache, const struct block *block)
{
	struct tally *tally = &cache->tally[block->pool->kind];
	struct account *account = cache->account;

	BUMP(tally->mallocs, 1);
	BUMP(tally->malloc_bytes, block->size);
	BUMP(tally->malloc_requested, block->requested);
	BUMP(account->count, 1);
	BUMP(account->bytes, (int64_t)block->size);
	BUMP(account->requested, (int64_t)block->requested);
	return (READ(account->count) > READ(account->count_limit)) |
	    (READ(account->bytes) > READ(account->bytes_limit)) |
	    (READ(account->requested) > READ(account->requested_limit));
}

static inline void
count_in(struct cache *cache, const struct block *block)
{
	struct tally *tally = &cache->tally[block->pool->kind];
	struct account *account = cache->account;

	BUMP(tally->frees, 1);
	BUMP(tally->free_bytes, block->size);
	BUMP(tally->free_requested, block->requested);
	BUMP(account->count, -1);
	BUMP(account->bytes, -(int64_t)block->size);
	BUMP(account->requested, -(int64_t)block->requested);
}

void *
tcache_malloc(int device, size_t size, weir_stream handle)
{
	struct tcache *t = own;

	if (t == NULL || size - 1 >= WEIR_SIZE_MAX || os_forked())
		return NULL;
	if (handle == NULL)
		handle = WEIR_STREAM_LEGACY;
	struct cache *cache = t->by_handle[way_of(handle)];
	if (cache == NULL || READ(cache->handle) != handle ||
	    (device != WEIR_DEVICE_CURRENT && device != cache->device) ||
	    (cache->context != NULL && !is_current(cache)))
		return NULL;
	size_t n = (size - 1) / WEIR_GRANULE;
	if (__builtin_expect(cache->rounding != NULL, 0))
		n = size_class(cache->rounding, size) / WEIR_GRANULE - 1;
	if (!enter(cache))
		return NULL;
	struct block *block = n < TCACHE_BINS ?
	    take_binned(cache, n) :
	    take_slot(cache, (n + 1) * WEIR_GRANULE);
	if (block == NULL) {
		leave(cache);
		return NULL;
	}
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	void *ptr = (void *)(uintptr_t)block->addr;
	bool peak = count_out(cache, block);
	leave(cache);
	if (__builtin_expect(peak, 0))
		tell_now(cache->arena);
	return ptr;
}

static inline struct block *
find(struct tcache *t, CUdeviceptr addr)
{
	if (addr >> LOOKUP_LEAF_BITS != t->leaf_key) {
		struct leaf *leaf = lookup_leaf(addr);
		if (leaf == NULL)
			return NULL;
		t->leaf_key = addr >> LOOKUP_LEAF_BITS;
		t->leaf = leaf;
	}
	return lookup_in_leaf(t->leaf, addr);
}

/* Are these two names of one stream, for the calling thread? */
static bool
names(const struct cache *cache, weir_stream handle)
{
	if (handle == NULL)
		handle = WEIR_STREAM_LEGACY;
	return READ(cache->handle) == handle &&
	    (cache->context == NULL || is_current(cache));
}

static inline bool
put(void *ptr, bool named, weir_stream handle)
{
	struct tcache *t = own;

	if (t == NULL || os_forked())
		return false;
	struct block *block = find(t, (CUdeviceptr)(uintptr_t)ptr);
	if (block == NULL || block_state(block) != BLOCK_ACTIVE ||
	    block->pending.uses != NULL || block->oversize)
		return false;
	struct pools *pools = block->pool->owner;
	struct cache *cache = t->by_pools[pools->index % TCACHE_WAYS];
	if (cache == NULL || !enter(cache))
		return false;
	if (cache->pools != pools || (named && !names(cache, handle)))
		goto refused;
	size_t n = block->size / WEIR_GRANULE - 1;
	/* What is counted and who has it is settled before another owner may
	 * see the block. */
	if (n < TCACHE_BINS ? !put_binned(cache, n, block) :
			      !put_slot(cache, block))
		goto refused;
	block_set_state(block, BLOCK_CACHED);
	count_in(cache, block);
	leave(cache);
	return true;

refused:
	leave(cache);
	return false;
}

bool
tcache_free(void *ptr)
{
	return put(ptr, false, NULL);
}

bool
tcache_free_on(void *ptr, weir_stream handle)
{
	return put(ptr, true, handle);
}

/* ---- Stopping ---------------------------------------------------------- */

static int
membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

static void
try_membarrier(void)
{
	asymmetric = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

static struct cache *
cache_of(struct list *link)
{
	return CONTAINER_OF(link, struct cache, link);
}

static void
wait_for_owner(const struct cache *cache)
{
	unsigned spins = 0;

	while (atomic_load_explicit(&cache->busy, memory_order_acquire) != 0)
		if (++spins % 64 == 0)
			sched_yield();
}

/* Keep the owners of an arena's caches out, of one stream's or of all. */
static void
stop(struct arena *arena, const struct pools *pools)
{
	bool others = false;

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		if (cache->owner == own ||
		    (pools != NULL && cache->pools != pools))
			continue;
		atomic_store_explicit(&cache->wanted, 1, memory_order_relaxed);
		others = true;
	}
	if (!others)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (asymmetric)
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (READ(cache_of(l)->wanted) != 0)
			wait_for_owner(cache_of(l));
}

static void
go(struct arena *arena)
{
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		atomic_store_explicit(
		    &cache_of(l)->wanted, 0, memory_order_release);
}

/* ---- Telling ----------------------------------------------------------- */

static void
tell_change(struct pools *pools, enum pool_kind kind, enum stat3 which,
    uint64_t up, uint64_t down)
{
	stats_flow(&pools->pool[kind], which, up, down);
}

static void
tell_cache(struct cache *cache)
{
	for (int k = 0; k < POOL_KINDS; k++) {
		struct tally *tally = &cache->tally[k];
		struct told *told = &cache->told[k];
		enum pool_kind kind = (enum pool_kind)k;
		struct told now = {
			.frees = READ(tally->frees),
			.free_bytes = READ(tally->free_bytes),
			.free_requested = READ(tally->free_requested),
			.mallocs = READ(tally->mallocs),
			.malloc_bytes = READ(tally->malloc_bytes),
			.malloc_requested = READ(tally->malloc_requested),
		};
		uint64_t n = now.mallocs - told->mallocs;
		uint64_t bytes = now.malloc_bytes - told->malloc_bytes;
		uint64_t wish = now.malloc_requested - told->malloc_requested;
		uint64_t frees = now.frees - told->frees;
		uint64_t free_bytes = now.free_bytes - told->free_bytes;
		uint64_t free_wish = now.free_requested - told->free_requested;
		if (n == 0 && frees == 0)
			continue;
		struct pools *pools = cache->pools;
		tell_change(pools, kind, STAT3_allocation, n, frees);
		tell_change(pools, kind, STAT3_active, n, frees);
		tell_change(
		    pools, kind, STAT3_allocated_bytes, bytes, free_bytes);
		tell_change(pools, kind, STAT3_active_bytes, bytes, free_bytes);
		tell_change(
		    pools, kind, STAT3_requested_bytes, wish, free_wish);
		*told = now;
	}
}

static int64_t
room_of(const struct weir_stat3 *stat)
{
	return (int64_t)(stat->all.peak - stat->all.current);
}

/* How much more the thread may take before a peak is passed. */
static void
set_limits(struct arena *arena, struct account *account)
{
	const struct weir_stats *s = &arena->stats;
	int64_t count = room_of(&s->allocation);
	int64_t bytes = room_of(&s->allocated_bytes);

	if (room_of(&s->active) < count)
		count = room_of(&s->active);
	if (room_of(&s->active_bytes) < bytes)
		bytes = room_of(&s->active_bytes);
	atomic_store_explicit(&account->count_limit,
	    READ(account->count) + count, memory_order_relaxed);
	atomic_store_explicit(&account->bytes_limit,
	    READ(account->bytes) + bytes, memory_order_relaxed);
	atomic_store_explicit(&account->requested_limit,
	    READ(account->requested) + room_of(&s->requested_bytes),
	    memory_order_relaxed);
}

static struct account *
account_of(const struct tcache *t, const struct arena *arena)
{
	struct account *account = t->accounts;

	while (account != NULL && account->arena != arena)
		account = account->next;
	return account;
}

/* The calling thread's caches tell what they have counted. */
static void
tell_own(struct arena *arena)
{
	struct account *account = account_of(own, arena);

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (cache_of(l)->owner == own)
			tell_cache(cache_of(l));
	if (account != NULL)
		set_limits(arena, account);
}

void
tcache_tell(struct arena *arena)
{
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		tell_cache(cache_of(l));
	if (own != NULL)
		tell_own(arena);
}

/* ---- Emptying ---------------------------------------------------------- */

static void
give_back(struct block *block)
{
	reclaim_put(block);
}

static size_t
empty_magazine(struct magazine *magazine)
{
	size_t bytes = 0;

	while (magazine->top != NULL) {
		struct block *block = magazine->top;
		magazine->top = block->cached.next;
		bytes += block->size;
		give_back(block);
	}
	magazine->count = 0;
	return bytes;
}

static bool
empty_slots(struct cache *cache)
{
	bool any = cache->slots > 0;

	while (cache->slots > 0)
		give_back(cache->slot[--cache->slots].block);
	return any;
}

static bool
empty_cache(struct cache *cache)
{
	bool any = empty_slots(cache);

	for (size_t n = 0; n < TCACHE_BINS && cache->bytes > 0; n++) {
		cache->bytes -= empty_magazine(&cache->bins[n].first);
		cache->bytes -= empty_magazine(&cache->bins[n].second);
		any = true;
	}
	return any;
}

static bool
empty_depot(struct depot *depot)
{
	struct block *list = NULL;

	if (depot == NULL)
		return false;
	lock_enter(&depot->lock);
	for (size_t n = 0; n < TCACHE_BINS && depot->bytes > 0; n++) {
		while (depot->chains[n] != NULL) {
			struct block *top = depot->chains[n];
			depot->chains[n] = top->cached.chain;
			depot->bytes -= top->cached.count * top->size;
			top->cached.chain = list;
			list = top;
		}
	}
	lock_leave(&depot->lock);
	bool any = list != NULL;
	while (list != NULL) {
		struct magazine magazine = { .top = list };
		list = list->cached.chain;
		empty_magazine(&magazine);
	}
	return any;
}

static bool
has_blocks(const struct cache *cache)
{
	return cache->bytes > 0 || cache->slots > 0;
}

bool
tcache_drain(struct arena *arena)
{
	bool any = false;

	stop(arena, NULL);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (has_blocks(cache_of(l)))
			any |= empty_cache(cache_of(l));
	go(arena);
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next)
		any |= empty_depot(CONTAINER_OF(l, struct pools, link)->depot);
	return any;
}

void
tcache_stop(struct arena *arena)
{
	stop(arena, NULL);
	tcache_tell(arena);
}

void
tcache_go(struct arena *arena)
{
	go(arena);
}

/* ---- Making and dropping ----------------------------------------------- */

/* Take a cache out of use; stopped or the caller's own, and told. */
static void
retire(struct cache *cache)
{
	struct pools *pools = cache->pools;

	tell_cache(cache);
	empty_cache(cache);
	list_remove(&cache->link);
	atomic_store_explicit(
	    &cache->handle, (weir_stream)(void *)&nobody, memory_order_relaxed);
	cache->pools = NULL;
	atomic_store_explicit(&cache->dead, true, memory_order_release);
	atomic_store_explicit(&cache->wanted, 0, memory_order_release);
	pools->caches--;
}

void
tcache_end(struct pools *pools)
{
	struct arena *arena = pools->arena;
	struct list *next;

	stop(arena, pools);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = next) {
		next = l->next;
		if (cache_of(l)->pools == pools)
			retire(cache_of(l));
	}
	empty_depot(pools->depot);
}

void
tcache_forget(struct arena *arena)
{
	stop(arena, NULL);
	while (!list_empty(&arena->caches)) {
		struct cache *cache = cache_of(arena->caches.next);
		cache->bytes = 0;
		cache->slots = 0;
		for (size_t n = 0; n < TCACHE_BINS; n++)
			cache->bins[n] = (struct bin){ 0 };
		retire(cache);
	}
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct depot *depot =
		    CONTAINER_OF(l, struct pools, link)->depot;
		if (depot == NULL)
			continue;
		depot->bytes = 0;
		for (size_t n = 0; n < TCACHE_BINS; n++)
			depot->chains[n] = NULL;
	}
}

/* Free the owner's cache at a place of its tables, which is dead or in the way
 * of another. */
static void
drop(struct tcache *t, struct cache *cache)
{
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		if (t->by_handle[i] == cache)
			t->by_handle[i] = NULL;
		if (t->by_pools[i] == cache)
			t->by_pools[i] = NULL;
	}
	meta_free(cache, sizeof(*cache));
}

/* Make room at a place. A cache of another device is in use by nobody else but
 * its arena is not the one that is locked: it stays, and false. */
static bool
make_room(struct tcache *t, struct cache **place, const struct arena *arena)
{
	struct cache *cache = *place;

	if (cache == NULL)
		return true;
	if (!atomic_load_explicit(&cache->dead, memory_order_acquire)) {
		if (cache->arena != arena)
			return false;
		retire(cache);
	}
	drop(t, cache);
	return true;
}

static struct account *
make_account(struct tcache *t, struct arena *arena)
{
	struct account *account = account_of(t, arena);

	if (account != NULL)
		return account;
	account = meta_zalloc(sizeof(*account));
	if (account == NULL)
		return NULL;
	account->arena = arena;
	account->next = t->accounts;
	t->accounts = account;
	return account;
}

static void
make_depot(struct pools *pools)
{
	if (pools->depot != NULL)
		return;
	struct depot *depot = meta_zalloc(sizeof(*depot));
	if (depot == NULL)
		return;
	lock_init(&depot->lock, LOCK_RANK_DEPOT);
	pools->depot = depot;
}

/* Is anything but 512 bytes a step of sizes? */
static bool
rounds(const struct options *options)
{
	for (int i = 0; i < ROUNDUP_CLASSES; i++)
		if (options->roundup[i] != 0)
			return true;
	return false;
}

static void
make_cache(struct tcache *t, struct pools *pools)
{
	const struct options *options;
	struct stream *stream = pools->stream;
	struct cache **by_handle = &t->by_handle[way_of(stream->handle)];
	struct cache **by_pools = &t->by_pools[pools->index % TCACHE_WAYS];
	struct account *account = make_account(t, pools->arena);

	if (options_get(&options) != WEIR_OK || account == NULL ||
	    !make_room(t, by_handle, pools->arena) ||
	    !make_room(t, by_pools, pools->arena))
		return;
	struct cache *cache = meta_zalloc(sizeof(*cache));
	if (cache == NULL)
		return;
	make_depot(pools);
	cache->handle = stream->handle;
	cache->device = stream->device;
	cache->context =
	    stream_is_default(stream->handle) ? stream->context : NULL;
	cache->pools = pools;
	cache->arena = pools->arena;
	cache->owner = t;
	cache->account = account;
	cache->bytes_max = options->tcache;
	cache->rounding = rounds(options) ? options : NULL;
	pools->caches++;
	list_push_back(&pools->arena->caches, &cache->link);
	*by_handle = cache;
	*by_pools = cache;
}

static struct cache *
own_cache(const struct pools *pools)
{
	struct cache *cache =
	    own != NULL ? own->by_pools[pools->index % TCACHE_WAYS] : NULL;

	return cache != NULL && cache->pools == pools ? cache : NULL;
}

/* May a thread keep blocks of these pools? */
static bool
is_cacheable(const struct pools *pools)
{
	const struct stream *stream = pools->stream;
	const struct options *options;

	return options_get(&options) == WEIR_OK && options->tcache > 0 &&
	    !options->reclaim_always && !pools->ended && !ended &&
	    !os_forked() && stream->handle != WEIR_STREAM_ANY &&
	    (stream->thread == 0 || stream->thread == os_thread_id());
}

void
tcache_come(struct arena *arena, struct pools *pools)
{
	if (own != NULL)
		tell_own(arena);
	if (own_cache(pools) != NULL || !is_cacheable(pools))
		return;
	if (own == NULL) {
		pthread_once(&once, try_membarrier);
		os_thread_id(); /* so that its end is told */
		own = meta_zalloc(sizeof(*own));
		if (own == NULL)
			return;
		own->leaf_key = ~(CUdeviceptr)0;
	}
	make_cache(own, pools);
	tell_own(arena);
}

void
tcache_settle(struct pools *pools)
{
	struct cache *cache = own_cache(pools);

	if (cache != NULL)
		empty_slots(cache);
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
		bytes += cache->bytes;
		for (unsigned i = 0; i < cache->slots; i++)
			bytes += cache->slot[i].size;
	}
	return bytes;
}

/* ---- With no lock ------------------------------------------------------ */

static void
retire_all(struct arena *arena)
{
	stop(arena, NULL);
	while (!list_empty(&arena->caches))
		retire(cache_of(arena->caches.next));
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next)
		empty_depot(CONTAINER_OF(l, struct pools, link)->depot);
}

void
tcache_renew(void)
{
	for (int device = 0; device < DEVICES_MAX; device++) {
		struct arena *arena = arena_peek(device);
		if (arena == NULL)
			continue;
		lock_enter(&arena->lock);
		retire_all(arena);
		lock_leave(&arena->lock);
	}
}

static void
end_cache(struct cache *cache)
{
	struct arena *arena = cache->arena;

	lock_enter(&arena->lock);
	if (!atomic_load_explicit(&cache->dead, memory_order_acquire)) {
		struct pools *pools = cache->pools;
		retire(cache);
		pools_drop_if_done(arena, pools);
	}
	lock_leave(&arena->lock);
}

void
tcache_thread_ends(void)
{
	struct tcache *t = own;

	ended = true;
	if (t == NULL)
		return;
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		struct cache *cache = t->by_pools[i];
		if (cache != NULL) {
			end_cache(cache);
			drop(t, cache);
		}
	}
	while (t->accounts != NULL) {
		struct account *next = t->accounts->next;
		meta_free(t->accounts, sizeof(*t->accounts));
		t->accounts = next;
	}
	own = NULL;
	meta_free(t, sizeof(*t));
}
