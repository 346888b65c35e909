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

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

/* Its address is that of no stream: what a cache out of use is for. */
static char nobody;
#define NOBODY ((weir_stream)(void *)&nobody)

_Thread_local struct tcache *tcache_own;
struct cache tcache_none = { .handle = NOBODY };
bool tcache_asymmetric; /* set before there is a cache */

static _Thread_local bool ended;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- The owner --------------------------------------------------------- */

static void
swap(struct bin *bin)
{
	struct magazine first = bin->first;

	bin->first = bin->second;
	bin->second = first;
}

/* A full magazine out of the depot of the stream. */
static void
depot_take(struct cache *cache, size_t n)
{
	struct depot *depot = cache->pools->depot;

	if (depot == NULL)
		return;
	lock_enter(&depot->lock);
	struct block *top = depot->chains[n];
	if (top != NULL) {
		depot->chains[n] = top->cached.chain;
		depot->bytes -= top->cached.count * top->size;
		cache->bins[n].first =
		    (struct magazine){ .top = top, .count = top->cached.count };
	}
	lock_leave(&depot->lock);
}

/* A full magazine into it, if it does not hold enough. */
static void
depot_put(struct cache *cache, size_t n)
{
	struct depot *depot = cache->pools->depot;
	struct magazine *magazine = &cache->bins[n].first;
	struct block *top = magazine->top;
	size_t bytes = magazine->count * top->size;

	if (depot == NULL)
		return;
	lock_enter(&depot->lock);
	if (depot->bytes + bytes <= cache->depot_max) {
		top->cached.count = magazine->count;
		top->cached.chain = depot->chains[n];
		depot->chains[n] = top;
		depot->bytes += bytes;
		*magazine = (struct magazine){ 0 };
	}
	lock_leave(&depot->lock);
}

static void *
hand_out(struct cache *cache, struct block *block, size_t size)
{
	void *ptr = (void *)(uintptr_t)block->addr;
	bool peak = tcache_hand_out(cache, block, size);

	tcache_leave(cache);
	if (peak)
		tcache_peak(cache);
	return ptr;
}

/* Entered. A block of a class, if there is one. */
static void *
malloc_binned(struct cache *cache, size_t n, size_t size)
{
	struct bin *bin = &cache->bins[n];

	if (bin->first.top == NULL)
		swap(bin);
	if (bin->first.top == NULL)
		depot_take(cache, n);
	if (bin->first.top == NULL) {
		tcache_leave(cache);
		return NULL;
	}
	return hand_out(cache, tcache_pop(&bin->first), size);
}

/* Entered; the first magazine of the class is empty. */
void *
tcache_malloc_refill(struct cache *cache, size_t size)
{
	return malloc_binned(cache, (size - 1) / WEIR_GRANULE, size);
}

static struct block *
take_slot(struct cache *cache, size_t size)
{
	unsigned i = cache->slots;

	if (i > 0 && cache->slot[i - 1].size == size)
		return cache->slot[--cache->slots].block;
	while (i-- > 0) {
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

static void
add_sums(struct sums *sums, const struct block *block)
{
	sums->count++;
	sums->bytes += (int64_t)block->size;
	sums->requested += (int64_t)block->requested;
}

static void *
malloc_slot(struct cache *cache, size_t size, size_t rounded)
{
	if (!tcache_enter(cache))
		return NULL;
	struct block *block = take_slot(cache, rounded);
	if (block == NULL) {
		tcache_leave(cache);
		return NULL;
	}
	block->requested = size;
	if (size_kind(rounded) == POOL_LARGE)
		add_sums(&cache->large_out, block);
	return hand_out(cache, block, size);
}

void *
tcache_malloc_large(struct cache *cache, size_t size)
{
	if (size - 1 >= WEIR_SIZE_MAX)
		return NULL;
	return malloc_slot(cache, size, round_up(size, WEIR_GRANULE));
}

/* Is the context the one that the cache of a default stream is for? */
static bool
is_current(const struct cache *cache)
{
	CUcontext current = NULL;

	return driver_peek()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	    current == cache->context;
}

void *
tcache_malloc_special(struct cache *cache, size_t size)
{
	if (size - 1 >= WEIR_SIZE_MAX ||
	    (cache->context != NULL && !is_current(cache)))
		return NULL;
	size_t rounded = cache->rounding != NULL ?
	    size_class(cache->rounding, size) :
	    round_up(size, WEIR_GRANULE);
	size_t n = rounded / WEIR_GRANULE - 1;
	if (n >= TCACHE_BINS)
		return malloc_slot(cache, size, rounded);
	return tcache_enter(cache) ? malloc_binned(cache, n, size) : NULL;
}

bool
tcache_find_leaf(struct tcache *t, CUdeviceptr addr)
{
	struct leaf *leaf = lookup_leaf(addr);

	if (leaf == NULL)
		return false;
	t->leaf_key = addr >> LOOKUP_LEAF_BITS;
	t->leaf = leaf;
	return true;
}

/* Entered. */
bool
tcache_free_binned(struct cache *cache, struct block *block)
{
	size_t n = block->size / WEIR_GRANULE - 1;
	struct bin *bin = &cache->bins[n];

	if (bin->first.count >= bin->max)
		swap(bin);
	if (bin->first.count >= bin->max)
		depot_put(cache, n);
	bool taken = bin->first.count < bin->max;
	if (taken) {
		tcache_push(&bin->first, block);
		tcache_take_in(cache, block);
	}
	tcache_leave(cache);
	return taken;
}

/* Entered. */
bool
tcache_free_large(struct cache *cache, struct block *block)
{
	bool taken = cache->slots < TCACHE_SLOTS;

	if (taken) {
		/* Others may know that they come after this point. */
		block->freed_at = order_now() + 1;
		cache->slot[cache->slots++] =
		    (struct slot){ .size = block->size, .block = block };
		if (block->pool->kind == POOL_LARGE)
			add_sums(&cache->large_in, block);
		tcache_take_in(cache, block);
	}
	tcache_leave(cache);
	return taken;
}

/* The block is not of the small pool that the thread freed to last. */
bool
tcache_free_other(struct tcache *t, struct block *block)
{
	struct pools *pools = block->pool->owner;
	struct cache *cache = t->by_pools[pools->index % TCACHE_WAYS];

	if (!tcache_enter(cache))
		return false;
	if (cache->pool[block->pool->kind] != block->pool) {
		tcache_leave(cache);
		return false;
	}
	t->last = cache;
	size_t n = block->size / WEIR_GRANULE - 1;
	return n >= TCACHE_BINS ? tcache_free_large(cache, block) :
				  tcache_free_binned(cache, block);
}

bool
tcache_free_on(void *ptr, weir_stream handle)
{
	struct tcache *t = tcache_own;

	if (t == NULL)
		return false;
	if (handle == NULL)
		handle = WEIR_STREAM_LEGACY;
	struct cache *cache = t->by_handle[tcache_way(handle)];
	if (atomic_load_explicit(&cache->handle, memory_order_relaxed) !=
		handle ||
	    (cache->context != NULL && !is_current(cache)))
		return false;
	/* What is freed there belongs there, or is not taken. */
	struct block *block = lookup_exact((CUdeviceptr)(uintptr_t)ptr);
	if (block == NULL || block_state(block) != BLOCK_ACTIVE ||
	    block->pool->owner != cache->pools)
		return false;
	return tcache_free(ptr);
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
	tcache_own = NULL;
}

static void
prepare(void)
{
	pthread_atfork(NULL, NULL, forget_own);
	tcache_asymmetric =
	    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
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

	while (atomic_load(&cache->busy) != 0)
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
		if (cache->owner == tcache_own ||
		    (pools != NULL && cache->pools != pools))
			continue;
		atomic_exchange(&cache->wanted, 1);
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
	     l = l->next)
		atomic_store_explicit(
		    &cache_of(l)->wanted, 0, memory_order_release);
}

/* ---- Telling ----------------------------------------------------------- */

static void
tell_kind(struct pools *pools, enum pool_kind kind, const struct sums *out,
    const struct sums *in)
{
	struct pool *pool = &pools->pool[kind];
	uint64_t mallocs = (uint64_t)out->count;
	uint64_t frees = (uint64_t)in->count;
	uint64_t up = (uint64_t)out->bytes;
	uint64_t down = (uint64_t)in->bytes;

	if (mallocs == 0 && frees == 0)
		return;
	stats_flow(pool, STAT3_allocation, mallocs, frees);
	stats_flow(pool, STAT3_active, mallocs, frees);
	stats_flow(pool, STAT3_allocated_bytes, up, down);
	stats_flow(pool, STAT3_active_bytes, up, down);
	stats_flow(pool, STAT3_requested_bytes, (uint64_t)out->requested,
	    (uint64_t)in->requested);
}

static struct sums
minus(struct sums a, struct sums b)
{
	return (struct sums){ a.count - b.count, a.bytes - b.bytes,
		a.requested - b.requested };
}

/* Stopped, or the caller's own. The room that is left is taken away. True if
 * something has been allocated: the caller looks at the arena's peaks when all
 * that is to be told has been. */
static bool
tell_cache(struct cache *cache)
{
	/* Frees are mallocs less what the room has fallen by. */
	struct sums in =
	    minus(cache->out, minus(cache->room_given, cache->room));
	struct sums small_out = minus(cache->out, cache->large_out);
	struct sums small_in = minus(in, cache->large_in);

	tell_kind(cache->pools, POOL_SMALL, &small_out, &small_in);
	tell_kind(
	    cache->pools, POOL_LARGE, &cache->large_out, &cache->large_in);
	bool any = cache->out.count != 0;

	if (any)
		stats_note_peaks(&cache->pools->stats);
	cache->out = (struct sums){ 0 };
	cache->large_out = (struct sums){ 0 };
	cache->large_in = (struct sums){ 0 };
	cache->room = (struct sums){ 0 };
	cache->room_given = (struct sums){ 0 };
	return any;
}

static int64_t
below_peak(const struct weir_stat3 *stat)
{
	return (int64_t)(stat->all.peak - stat->all.current);
}

static int64_t
lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static struct sums
room_in(const struct weir_stats *s)
{
	return (struct sums){
		lesser(below_peak(&s->allocation), below_peak(&s->active)),
		lesser(below_peak(&s->allocated_bytes),
		    below_peak(&s->active_bytes)),
		below_peak(&s->requested_bytes),
	};
}

/* How much more may be alive before a peak is passed. */
static struct sums
room_of(const struct arena *arena)
{
	struct totals *totals = arena->totals;
	struct sums room = room_in(&arena->stats);

	if (totals == NULL)
		return room;
	lock_enter(&totals->lock);
	struct sums all = room_in(&totals->stats);
	lock_leave(&totals->lock);
	return (struct sums){ lesser(room.count, all.count),
		lesser(room.bytes, all.bytes),
		lesser(room.requested, all.requested) };
}

static void
give_room(struct cache *cache, struct sums room)
{
	cache->room = room;
	cache->room_given = room;
}

/*
 * The calling thread's caches tell what they have counted. Then all the room
 * below the peaks is shared out among them, most of it to the one in use, so
 * that together they cannot pass a peak unseen. Room that another thread has
 * is not taken into account: a peak may be missed by that.
 */
static void
tell_own(struct arena *arena, const struct cache *used)
{
	unsigned others = 0;
	struct sums part = { 0 };
	bool any = false;

	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		if (cache->owner != tcache_own)
			continue;
		any |= tell_cache(cache);
		others += cache != used;
	}
	if (any)
		stats_note_arena_peaks(arena);
	struct sums room = room_of(arena);
	if (others > 0)
		part = (struct sums){ room.count / 2 / others,
			room.bytes / 2 / others, room.requested / 2 / others };
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next) {
		struct cache *cache = cache_of(l);
		if (cache->owner != tcache_own || cache == used)
			continue;
		give_room(cache, part);
		room = minus(room, part);
	}
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		if (cache_of(l) == used)
			give_room(cache_of(l), room);
}

void
tcache_peak(struct cache *cache)
{
	struct arena *arena = cache->arena;

	lock_enter(&arena->lock);
	tell_own(arena, cache);
	lock_leave(&arena->lock);
}

/* A cache with no room tells before it hands out anything. */
void
tcache_come_elsewhere(struct arena *main)
{
	bool any = false;

	if (tcache_own == NULL)
		return;
	lock_enter(&main->lock);
	for (struct list *l = main->caches.next; l != &main->caches;
	     l = l->next)
		if (cache_of(l)->owner == tcache_own)
			any |= tell_cache(cache_of(l));
	if (any)
		stats_note_arena_peaks(main);
	lock_leave(&main->lock);
}

void
tcache_stop(struct arena *arena)
{
	bool any = false;

	stop(arena, NULL);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		any |= tell_cache(cache_of(l));
	if (any)
		stats_note_arena_peaks(arena);
}

void
tcache_tell(struct arena *arena)
{
	tcache_stop(arena);
	tcache_go(arena);
	if (tcache_own != NULL)
		tell_own(arena, NULL);
}

/* ---- Emptying ---------------------------------------------------------- */

static bool
empty_magazine(struct magazine *magazine)
{
	bool any = magazine->top != NULL;

	while (magazine->top != NULL)
		reclaim_put(tcache_pop(magazine));
	return any;
}

static bool
empty_slots(struct cache *cache)
{
	bool any = cache->slots > 0;

	while (cache->slots > 0)
		reclaim_put_since(cache->slot[--cache->slots].block);
	return any;
}

static bool
empty_cache(struct cache *cache)
{
	bool any = empty_slots(cache);

	for (size_t n = 0; n < TCACHE_BINS; n++) {
		any |= empty_magazine(&cache->bins[n].first);
		any |= empty_magazine(&cache->bins[n].second);
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
		struct magazine magazine = { list, list->cached.count };
		list = list->cached.chain;
		empty_magazine(&magazine);
	}
	return any;
}

static bool
empty_depots(struct arena *arena)
{
	bool any = false;

	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next)
		any |= empty_depot(CONTAINER_OF(l, struct pools, link)->depot);
	return any;
}

bool
tcache_drain(struct arena *arena)
{
	bool any = false;

	stop(arena, NULL);
	for (struct list *l = arena->caches.next; l != &arena->caches;
	     l = l->next)
		any |= empty_cache(cache_of(l));
	tcache_go(arena);
	return empty_depots(arena) || any;
}

/* ---- Making and dropping ----------------------------------------------- */

/* Take a cache out of use; stopped or the caller's own, and told. */
static void
retire(struct cache *cache)
{
	struct pools *pools = cache->pools;

	if (tell_cache(cache))
		stats_note_arena_peaks(cache->arena);
	empty_cache(cache);
	list_remove(&cache->link);
	atomic_store_explicit(&cache->handle, NOBODY, memory_order_relaxed);
	cache->pool[POOL_SMALL] = NULL;
	cache->pool[POOL_LARGE] = NULL;
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
		cache->slots = 0;
		for (size_t n = 0; n < TCACHE_BINS; n++) {
			cache->bins[n].first = (struct magazine){ 0 };
			cache->bins[n].second = (struct magazine){ 0 };
		}
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
			t->by_handle[i] = &tcache_none;
		if (t->by_pools[i] == cache)
			t->by_pools[i] = &tcache_none;
	}
	if (t->last == cache)
		t->last = &tcache_none;
	meta_free(cache, sizeof(*cache));
}

/* Make room at a place. A cache of another device is in use by nobody else but
 * its arena is not the one that is locked: it stays, and false. */
static bool
make_room(struct tcache *t, struct cache **place, const struct arena *arena)
{
	struct cache *cache = *place;

	if (cache == &tcache_none)
		return true;
	if (!atomic_load_explicit(&cache->dead, memory_order_acquire)) {
		if (cache->arena != arena)
			return false;
		retire(cache);
	}
	drop(t, cache);
	return true;
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
set_up(struct cache *cache, struct tcache *t, struct pools *pools,
    const struct options *options)
{
	struct stream *stream = pools->stream;

	atomic_init(&cache->handle, stream->handle);
	cache->device = stream->device;
	cache->context =
	    stream_is_default(stream->handle) ? stream->context : NULL;
	cache->rounding = rounds(options) ? options : NULL;
	cache->special = cache->context != NULL || cache->rounding != NULL;
	cache->pool[POOL_SMALL] = &pools->pool[POOL_SMALL];
	cache->pool[POOL_LARGE] = &pools->pool[POOL_LARGE];
	cache->depot_max = options->tcache;
	cache->arena = pools->arena;
	cache->pools = pools;
	cache->owner = t;
	for (size_t n = 0; n < TCACHE_BINS; n++) {
		size_t max = TCACHE_MAGAZINE / ((n + 1) * WEIR_GRANULE);
		cache->bins[n].max =
		    max < TCACHE_BATCH ? (unsigned)max : TCACHE_BATCH;
	}
}

static void
make_cache(struct tcache *t, struct pools *pools, const struct options *options)
{
	struct cache **by_handle =
	    &t->by_handle[tcache_way(pools->stream->handle)];
	struct cache **by_pools = &t->by_pools[pools->index % TCACHE_WAYS];

	if (!make_room(t, by_handle, pools->arena) ||
	    !make_room(t, by_pools, pools->arena))
		return;
	struct cache *cache = meta_zalloc(sizeof(*cache));
	if (cache == NULL)
		return;
	make_depot(pools);
	set_up(cache, t, pools, options);
	pools->caches++;
	list_push_back(&pools->arena->caches, &cache->link);
	*by_handle = cache;
	*by_pools = cache;
}

static struct cache *
own_cache(const struct pools *pools)
{
	if (tcache_own == NULL)
		return NULL;
	struct cache *cache = tcache_own->by_pools[pools->index % TCACHE_WAYS];
	return cache->pool[POOL_SMALL] == &pools->pool[POOL_SMALL] ? cache :
								     NULL;
}

/* May a thread keep blocks of these pools? Oversize blocks are counted where
 * they are freed, so there must be none. */
static bool
is_cacheable(const struct pools *pools, const struct options *options)
{
	const struct stream *stream = pools->stream;

	return options->tcache > 0 && !options->reclaim_always &&
	    options->max_split_size == OPTION_UNLIMITED && !pools->ended &&
	    pools->arena == pools->arena->main && !ended && !os_forked() &&
	    stream->handle != WEIR_STREAM_ANY &&
	    (stream->thread == 0 || stream->thread == os_thread_id());
}

static struct tcache *
make_own(void)
{
	struct tcache *t;

	pthread_once(&once, prepare);
	os_thread_id(); /* so that its end is told */
	t = meta_zalloc(sizeof(*t));
	if (t == NULL)
		return NULL;
	t->last = &tcache_none;
	t->leaf_key = ~(CUdeviceptr)0;
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		t->by_handle[i] = &tcache_none;
		t->by_pools[i] = &tcache_none;
	}
	return t;
}

void
tcache_come(struct arena *arena, struct pools *pools)
{
	const struct options *options;
	struct cache *cache = own_cache(pools);

	if (cache == NULL && options_get(&options) == WEIR_OK &&
	    is_cacheable(pools, options)) {
		if (tcache_own == NULL)
			tcache_own = make_own();
		if (tcache_own != NULL)
			make_cache(tcache_own, pools, options);
		cache = own_cache(pools);
	}
	if (tcache_own != NULL)
		tell_own(arena, cache);
}

void
tcache_settle(struct pools *pools)
{
	struct cache *cache = own_cache(pools);

	if (cache != NULL)
		empty_slots(cache);
}

static size_t
magazine_bytes(const struct magazine *magazine)
{
	size_t bytes = 0;

	for (struct block *b = magazine->top; b != NULL; b = b->cached.next)
		bytes += b->size;
	return bytes;
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
		for (size_t n = 0; n < TCACHE_BINS; n++)
			bytes += magazine_bytes(&cache->bins[n].first) +
			    magazine_bytes(&cache->bins[n].second);
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
	empty_depots(arena);
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
	struct tcache *t = tcache_own;

	ended = true;
	if (t == NULL)
		return;
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		struct cache *cache = t->by_pools[i];
		if (cache != &tcache_none) {
			end_cache(cache);
			drop(t, cache);
		}
	}
	tcache_own = NULL;
	meta_free(t, sizeof(*t));
}
