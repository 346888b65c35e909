/*
 * Thread caches: blocks that a thread has freed and will likely want again.
 *
 * Each thread has a cache for each stream it allocates on. What is in one is
 * free memory of that stream in every respect but its place: statistics count
 * it free, and whoever misses it takes it back, from any thread.
 *
 * Note [Stopping a cache]
 *
 * The owner works on its cache with no lock and no atomic read-modify-write. It
 * raises `busy`, looks at `wanted`, and stays out if that is set. Another
 * thread, which holds the arena's lock, sets `wanted`, makes every running
 * thread of the process pass a memory barrier (membarrier(2); where there is
 * none the owner has a fence), and waits until `busy` is down: from then on the
 * cache is its own, until it clears `wanted`. An owner that was kept out goes
 * the slow way, to the arena's lock.
 *
 * `key` and `key_pool` say which stream's requests and which pool's blocks the
 * cache takes without further thought. They are empty while it is wanted, so
 * the shortest way looks at them in place of `wanted`.
 *
 * Note [What is in use stays]
 *
 * A request that its pool cannot serve takes what its own thread has cached, in
 * depots too that no other uses, and the larger blocks of all threads. Of other
 * bins and depots it takes what has
 * not been used since it was last looked at: the bins of a cache that has
 * counted nothing, and as many magazines as a depot has had throughout; of
 * other streams only where pressure.h, Note [Wait or grow], has waits come
 * before new memory. What is used would be missed at once and come back block
 * by block: threads that hand memory to each other would go on taking it from
 * each other for want of a little, so new memory is taken for that, once. When
 * there is none, or memory is to come before speed, all that is cached goes to
 * the pools.
 *
 * Looking stops all threads that have a cache, and between two looks that come
 * close after each other everything seems unused. So small requests, of which
 * there may be many, do it no oftener than once in some that the pools have
 * served for each of those caches; in between they have what their own thread
 * has cached.
 *
 * A thread that is handed memory, and all the same comes to the pool for a
 * class again and again, is given more than it asks for, up to a magazine.
 *
 * Note [Complete memory]
 *
 * Memory of no stream that was freed and is found to be complete is likely
 * asked for again in the very same size. So what a thread finds, when it looks
 * in passing, it keeps whole in the slots of a cache of its own, where it need
 * be neither joined nor cut: until a request of another size finds nothing in
 * the pool. This cache works under the arena's lock only: each free needs it,
 * for the uses. It takes part in nothing else that is said here.
 *
 * Note [From thread to thread]
 *
 * A magazine is an array of pointers and moves as a whole, through the depot of
 * its stream, so that neither side walks the blocks: each is touched once by
 * the thread that frees it and once by the one that gets it, in one line of the
 * processor's cache. What the statistics are still to be told of its frees goes
 * along: else the one thread would seem to allocate ever more, and to pass a
 * peak with each malloc.
 *
 * Note [Freed twice at once]
 *
 * Two threads that free a block at the same time may both find it allocated,
 * and both cache it: telling them apart would need an atomic exchange in each
 * free. So a block is looked at once more when it leaves a cache. The first
 * thread that takes it out changes its state, and the second drops its entry,
 * reports it on stderr and takes the free back from the statistics. The block
 * is handed out twice only if both threads take it out within the same few
 * instructions. Under the arena's lock (no thread caches, or traced ones) the
 * second free fails.
 */
#ifndef ALLOCATOR_CACHE_TCACHE_H
#define ALLOCATOR_CACHE_TCACHE_H

#include "allocator/cache/depot.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "base/os.h"

enum {
	TCACHE_SLOTS = 16, /* blocks of any larger size */
	TCACHE_WAYS = 64,  /* streams a thread finds at once */
};

struct cache {
	/* For the owner's shortest way; NOBODY and NULL close it. */
	_Atomic(weir_stream) key;
	_Atomic(struct pool *) key_pool; /* the small one */
	atomic_uint busy;                /* the owner is at it */
	unsigned slots;                  /* in use, from slot[1] on */

	/* The owner's, or the stopper's. */
	/* What may be taken before a peak would be missed: falls with each
	 * malloc, rises with each free; below 0 the statistics are told. */
	struct sums room;
	struct sums out;        /* mallocs since they were told */
	struct sums room_given; /* when they were told */
	struct sums large_out;  /* of mallocs and frees those of */
	struct sums large_in;   /* the large pool */
	bool brought; /* frees to the depot, that may not have been told */
	struct slot {
		size_t size;
		struct block *block;
	} slot[TCACHE_SLOTS + 1]; /* the latest last */
	/* By class; those of no bytes are never used. */
	struct bin bins[TCACHE_CLASSES + 1];

	uint8_t
	    misses[TCACHE_CLASSES + 1]; /* of a class: tcache_refill_bin() */
	bool used;                      /* since it was last looked at */
	bool handed_over;               /* it has got what others freed */

	atomic_uint wanted; /* the owner is to stay out */

	/* What it is for. Written by its owner and by whoever retires it. */
	_Atomic(weir_stream) handle;   /* as callers give it, LEGACY for NULL */
	struct pool *pool[POOL_KINDS]; /* NULL: retired */

	/* Constant. */
	int device;
	weir_stream usual; /* ->key while the cache is open */
	bool keeps;        /* blocks; else it only finds the pools */
	bool complete;     /* and keeps complete memory, under the lock */
	bool traced;       /* keeps them under the arena's lock: see emit.c */
	CUcontext context; /* of a default stream; else NULL */
	const struct options *rounding; /* NULL: steps of 512 bytes */
	size_t granule;                 /* the arena's */
	size_t depot_max;
	struct arena *arena;
	struct pools *pools; /* pinned by ->caches */
	struct tcache *owner;

	struct list link;     /* in arena->caches, under its lock */
	struct list own_link; /* in owner->caches, the owner's */
	atomic_bool dead;     /* retired: out of the first list */
};

/* Where the latest weir_host_malloc() went. A change of options takes the cache
 * out of use. */
struct latest {
	struct cache *cache;
	weir_stream key;   /* the cache's; NULL: it is only for a context */
	CUcontext context; /* that is to be current, or NULL */
};

/* A thread's. Empty places hold `none`. */
struct tcache {
	struct cache *last; /* that it freed to */
	struct nearby nearby;
	struct cache *last_host; /* by weir_host_free(); of host memory */
	struct nearby nearby_host;
	struct nearby nearby_fine; /* starts that are no multiple of 512 */
	struct latest latest_host;
	struct cache *by_handle[TCACHE_WAYS]; /* of streams */
	struct cache *by_pools[TCACHE_WAYS];
	struct list caches; /* all it has, through ->own_link */
	struct cache none;  /* takes nothing */
};

/* ---- The owner --------------------------------------------------------- */

extern _Thread_local struct tcache *tcache_own; /* or tcache_nobody */
extern struct tcache tcache_nobody;
extern bool tcache_asymmetric; /* membarrier() works */

/* The calling thread's cache for a stream, or for page-locked memory of an
 * arena; or NULL. Its pools are to be believed under the arena's lock, if the
 * cache is alive then. */
static inline struct cache *tcache_find(int device, weir_stream handle);
struct cache *tcache_find_host(const struct arena *arena);

/* As tcache_find(), where the caller knows of a default stream that `context`
 * is current; NULL for another. NULL also for a cache that is traced. */
struct cache *tcache_find_in(weir_stream handle, CUcontext context);

static inline bool
tcache_is_alive(const struct cache *cache)
{
	return !atomic_load_explicit(&cache->dead, memory_order_acquire);
}

/* Have tcache_free() find an address that it has not; false: it can already, or
 * never will. The same for tcache_free_host(). */
static inline bool tcache_find_leaf(const void *ptr);
bool tcache_find_host_leaf(const void *ptr);
bool tcache_turn_to_leaf(CUdeviceptr place); /* the slow half of the first */

static inline bool
tcache_find_leaf(const void *ptr)
{
	CUdeviceptr place = (CUdeviceptr)(uintptr_t)ptr;

	return lookup_base(place) != tcache_own->nearby.base &&
	    tcache_turn_to_leaf(place);
}

/* What tcache_malloc() and tcache_free() below do not do: every other way to a
 * block in a cache, or into one. NULL and false: there is none. */
void *tcache_malloc_in(struct cache *cache, size_t size);
static inline bool tcache_free_rare(struct block *block);
bool tcache_free_in_its(struct cache *cache, struct block *block);

static inline bool
tcache_enter(struct cache *cache)
{
	if (__builtin_expect(tcache_asymmetric, 1)) {
		atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_exchange(&cache->busy, 1);
	}
	if (__builtin_expect(atomic_load(&cache->wanted) == 0, 1))
		return true;
	atomic_store_explicit(&cache->busy, 0, memory_order_release);
	return false;
}

static inline void
tcache_leave(struct cache *cache)
{
	atomic_store_explicit(&cache->busy, 0, memory_order_release);
}

/* Of what has gone out or come in that which is of the large pool. */
static inline void
tcache_count_large(struct sums *sums, size_t bytes, size_t requested)
{
	sums->count++;
	sums->bytes += (int64_t)bytes;
	sums->requested += (int64_t)requested;
}

/* The bin of a size class: &bins[rounded / granule] in one shift. */
static inline QUICK struct bin *
tcache_bin_of(struct bin *bins, size_t granule, size_t rounded)
{
	_Static_assert(FINE_GRANULE % sizeof(struct bin) == 0, "one shift");
	size_t offset = rounded / (granule / sizeof(struct bin));

	return (struct bin *)(void *)((char *)bins + offset);
}

static inline QUICK struct bin *
tcache_bin(struct cache *cache, size_t rounded)
{
	return tcache_bin_of(cache->bins, WEIR_GRANULE, rounded);
}

static inline QUICK struct bin *
tcache_fine_bin(struct cache *cache, size_t rounded)
{
	return tcache_bin_of(&cache->bins[TCACHE_FINE], FINE_GRANULE, rounded);
}

static inline unsigned
tcache_way(weir_stream handle)
{
	uint32_t hash = (uint32_t)(uintptr_t)handle * UINT32_C(0x9e3779b1);

	return hash >> 26;
}

/* Is the context the one that the cache of a default stream is for? */
bool tcache_is_current(const struct cache *cache);

static inline struct cache *
tcache_find(int device, weir_stream handle)
{
	if (handle == NULL)
		handle = WEIR_STREAM_LEGACY;
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];
	if (atomic_load_explicit(&cache->handle, memory_order_relaxed) !=
		handle ||
	    (device != cache->device &&
		(device != WEIR_DEVICE_CURRENT || handle == WEIR_STREAM_ANY)) ||
	    (cache->context != NULL && !tcache_is_current(cache)))
		return NULL;
	return cache;
}

/* What a cache for these pools says it is for: the stream, or for host memory,
 * which is of no stream, the arena itself, whose address is no stream's. */
static inline weir_stream
tcache_key(const struct pools *pools)
{
	return arena_is_host(pools->arena) ? (weir_stream)pools->arena :
					     pools->stream->handle;
}

/* Count a block that is handed out; false, and it is not, if a peak would be
 * passed by it. */
static inline QUICK bool
tcache_count_out(struct cache *cache, int64_t bytes, int64_t requested)
{
	struct sums *room = &cache->room;

	if (__builtin_expect(--room->count < 0, 0))
		goto count;
	if (__builtin_expect((room->bytes -= bytes) < 0, 0))
		goto bytes;
	if (__builtin_expect((room->requested -= requested) < 0, 0))
		goto requested;
	cache->out.count++;
	cache->out.bytes += bytes;
	cache->out.requested += requested;
	return true;

	/* The fences keep the compiler from holding what was there before: that
	 * costs the usual way registers and instructions. */
requested:
	atomic_signal_fence(memory_order_seq_cst);
	room->requested += requested;
bytes:
	atomic_signal_fence(memory_order_seq_cst);
	room->bytes += bytes;
count:
	atomic_signal_fence(memory_order_seq_cst);
	room->count++;
	return false;
}

static inline void
tcache_count_in(struct cache *cache, size_t bytes, size_t requested)
{
	cache->room.count++;
	cache->room.bytes += (int64_t)bytes;
	cache->room.requested += (int64_t)requested;
}

/* A block for a request out of a cache of the calling thread's, if it is for
 * `key`; false: none. The way of most requests: a small size, a block at hand.
 *
 * @param fine  of a fine pool: the size is below FINE_END
 */
static inline QUICK bool
tcache_take(
    bool fine, struct cache *cache, weir_stream key, size_t size, void **out)
{
	/* Of no bytes, and of too many to count, it is 0: that bin is empty. */
	size_t rounded = round_up(size, fine ? FINE_GRANULE : WEIR_GRANULE);

	if (!fine && __builtin_expect(rounded > TCACHE_BINNED, 0))
		return false;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(
		atomic_load_explicit(&cache->key, memory_order_acquire) != key,
		0))
		goto not_this_way;
	struct bin *bin =
	    fine ? tcache_fine_bin(cache, rounded) : tcache_bin(cache, rounded);
	if (__builtin_expect(bin_empty(bin), 0))
		goto not_this_way;
	struct block *block = bin->top[-1];
	/* Note [Freed twice at once]; the other way drops it. */
	if (__builtin_expect(block_state(block) != BLOCK_CACHED, 0))
		goto not_this_way;
	if (!tcache_count_out(cache, (int64_t)rounded, (int64_t)size))
		goto not_this_way;
	bin->top--;
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	*out = (void *)(uintptr_t)block->addr;
	tcache_leave(cache);
	return true;

not_this_way:
	tcache_leave(cache);
	return false;
}

/* The same for a size above the bins'; the latest block that was freed. */
static inline QUICK bool
tcache_take_large(struct cache *cache, weir_stream key, size_t size, void **out)
{
	size_t rounded = round_up(size, WEIR_GRANULE);

	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&cache->key, memory_order_acquire) != key)
		goto not_this_way;
	/* slot[0] has no size. */
	struct slot *slot = &cache->slot[cache->slots];
	if (slot->size != rounded || rounded == 0)
		goto not_this_way;
	struct block *block = slot->block;
	if (__builtin_expect(block_state(block) != BLOCK_CACHED, 0))
		goto not_this_way;
	if (!tcache_count_out(cache, (int64_t)rounded, (int64_t)size))
		goto not_this_way;
	cache->slots--;
	if (rounded > SMALL_MAX)
		tcache_count_large(&cache->large_out, rounded, size);
	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	*out = (void *)(uintptr_t)block->addr;
	tcache_leave(cache);
	return true;

not_this_way:
	tcache_leave(cache);
	return false;
}

/* The two for a stream. */
static inline QUICK bool
tcache_malloc(int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	if (device != WEIR_DEVICE_CURRENT && device != cache->device)
		return false;
	return tcache_take(false, cache, handle, size, out);
}

static inline QUICK bool
tcache_malloc_large(int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	if (device != WEIR_DEVICE_CURRENT && device != cache->device)
		return false;
	return tcache_take_large(cache, handle, size, out);
}

/* The keys of caches for default streams of a primary context, by handle. */
extern char tcache_primary_keys[3];

static inline QUICK weir_stream
tcache_primary_key(weir_stream handle)
{
	return (weir_stream)(void *)&tcache_primary_keys[(uintptr_t)handle];
}

/* As the two above, for LEGACY or PER_THREAD of the device's primary context,
 * whatever context is current. */
static inline QUICK bool
tcache_malloc_primary(int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	return device == cache->device &&
	    tcache_take(false, cache, tcache_primary_key(handle), size, out);
}

static inline QUICK bool
tcache_malloc_primary_large(
    int device, size_t size, weir_stream handle, void **out)
{
	struct cache *cache = tcache_own->by_handle[tcache_way(handle)];

	return device == cache->device &&
	    tcache_take_large(cache, tcache_primary_key(handle), size, out);
}

/* What became of a block; UNKNOWN: tcache_block() knows none there. */
enum tcache_taken {
	TCACHE_TAKEN,
	TCACHE_TOO_LARGE,
	TCACHE_NOT_TAKEN,
	TCACHE_UNKNOWN
};

/* The live block that starts at a place, if that is where the latest one was
 * and no other stream has used it; or NULL. */
static inline QUICK struct block *
tcache_block(const struct nearby *nearby, CUdeviceptr place)
{
	CUdeviceptr offset = place - nearby->base;

	/* Elsewhere, or not where a block can start. */
	if (__builtin_expect((offset & ~LOOKUP_STARTS) != 0, 0))
		return NULL;
	struct block *block = lookup_at(nearby->leaf, offset);
	if (__builtin_expect(block == NULL, 0))
		return NULL;
	os_fetch_for_write(block);
	if (__builtin_expect(block_state(block) != BLOCK_ACTIVE, 0) ||
	    __builtin_expect(block->pending.uses != NULL, 0))
		return NULL;
	return block;
}

/* Entered, and leaves. The bin is the block's. */
static inline QUICK enum tcache_taken
tcache_push(
    struct cache *cache, struct bin *bin, struct block *block, size_t size)
{
	struct block **top = bin->top;
	bool taken = top != bin->end;

	if (__builtin_expect(taken, 1)) {
		*top = block;
		bin->top = top + 1;
		block_set_state(block, BLOCK_CACHED);
		tcache_count_in(cache, size, block->requested);
	}
	tcache_leave(cache);
	return taken ? TCACHE_TAKEN : TCACHE_NOT_TAKEN;
}

/* Put a block into a cache of the calling thread, if it is the block's. */
static inline QUICK enum tcache_taken
tcache_put(struct cache *cache, struct block *block)
{
	size_t size = block->size;

	if (__builtin_expect(size > TCACHE_BINNED, 0))
		return TCACHE_TOO_LARGE;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&cache->key_pool,
				 memory_order_acquire) != block->pool,
		0)) {
		tcache_leave(cache);
		return TCACHE_NOT_TAKEN;
	}
	return tcache_push(cache, tcache_bin(cache, size), block, size);
}

/* Put a block into the calling thread's cache. The way of most frees: to the
 * stream of the latest, a small size, room at hand. *out is the block, unless
 * it is UNKNOWN. */
static inline QUICK enum tcache_taken
tcache_free(void *ptr, struct block **out)
{
	struct tcache *t = tcache_own;
	struct block *block =
	    tcache_block(&t->nearby, (CUdeviceptr)(uintptr_t)ptr);

	if (__builtin_expect(block == NULL, 0))
		return TCACHE_UNKNOWN;
	*out = block;
	return tcache_put(t->last, block);
}

/* The calling thread's cache for what may be a block, if there is one for it.
 */
static inline struct cache *
tcache_for(const struct block *block)
{
	return tcache_own->by_pools[block->way % TCACHE_WAYS];
}

static inline bool
tcache_free_rare(struct block *block)
{
	struct cache *cache = tcache_for(block);

	return cache->keeps && tcache_free_in_its(cache, block);
}

/* The same for weir_host_free(): what it takes is host memory, as the cache of
 * the latest such free takes nothing else. */
static inline QUICK enum tcache_taken
tcache_free_host(void *ptr, struct block **out)
{
	struct tcache *t = tcache_own;
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
	CUdeviceptr place = lookup_place(addr);
	struct block *block = tcache_block(
	    place == addr ? &t->nearby_host : &t->nearby_fine, place);

	/* Of a pointer that is none a place loses the highest bits. */
	if (__builtin_expect(block == NULL || block->addr != addr, 0))
		return TCACHE_UNKNOWN;
	*out = block;
	size_t size = block->size;
	if (__builtin_expect(size > TCACHE_BINNED, 0))
		return TCACHE_TOO_LARGE;
	struct cache *cache = t->last_host;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	const struct pool *pool =
	    atomic_load_explicit(&cache->key_pool, memory_order_acquire);
	if (__builtin_expect(block->pool == pool, 1))
		return tcache_push(cache, tcache_bin(cache, size), block, size);
	/* The fine pool lies behind the small one. */
	if ((uintptr_t)block->pool - (uintptr_t)pool ==
	    POOL_FINE * sizeof(*pool))
		return tcache_push(
		    cache, tcache_fine_bin(cache, size), block, size);
	tcache_leave(cache);
	return TCACHE_NOT_TAKEN;
}

/* Entered. The cache is the block's and has a slot free. */
static inline void
tcache_put_slot(struct cache *cache, struct block *block)
{
	/* Others may know that they come after this point. */
	block->freed_at = order_now() + 1;
	cache->slot[++cache->slots] =
	    (struct slot){ .size = block->size, .block = block };
	block_set_state(block, BLOCK_CACHED);
	tcache_count_in(cache, block->size, block->requested);
	if (block->size > SMALL_MAX)
		tcache_count_large(
		    &cache->large_in, block->size, block->requested);
}

/* The same for what is TCACHE_TOO_LARGE. */
static inline QUICK bool
tcache_free_large(struct cache *cache, struct block *block)
{
	enum pool_kind kind = block->size > SMALL_MAX ? POOL_LARGE : POOL_SMALL;
	atomic_store_explicit(&cache->busy, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	bool taken = atomic_load_explicit(
			 &cache->key_pool, memory_order_acquire) != NULL &&
	    cache->pool[kind] == block->pool && cache->slots < TCACHE_SLOTS;
	if (taken)
		tcache_put_slot(cache, block);
	tcache_leave(cache);
	return taken;
}

/* The same for a block of the stream that is named only; of the cache's. */
bool tcache_free_on(void *ptr, weir_stream stream);
bool tcache_free_in(const struct cache *cache, struct block *block);

/* Under the arena's lock: put a block into the calling thread's cache, where
 * that is traced, and tell of it; false: not taken. */
bool tcache_keep(struct block *block);

/* ---- Under the arena's lock -------------------------------------------- */

/*
 * The calling thread has come here the slow way, on behalf of `pools`: what its
 * caches have counted is told to the statistics, and it gets a cache for the
 * pools if it has none. Returns that, or NULL: without memory there is none,
 * and some only find the pools.
 */
static inline struct cache *tcache_come(struct pools *pools);
struct cache *tcache_come_with(struct pools *pools, struct cache *cache);

/* The calling thread's cache for these pools, or NULL. */
static inline struct cache *
tcache_of(const struct pools *pools)
{
	struct cache *cache = tcache_own->by_pools[pools->index % TCACHE_WAYS];
	return cache->pool[POOL_SMALL] == &pools->pool[POOL_SMALL] ? cache :
								     NULL;
}

static inline struct cache *
tcache_come(struct pools *pools)
{
	struct cache *cache = tcache_of(pools);

	return cache != NULL && !cache->keeps && !cache->complete ?
	    NULL :
	    tcache_come_with(pools, cache);
}

/* The same without a cache: what the calling thread's have counted is told. */
void tcache_tell_news(struct arena *arena);

/* The calling thread is about to allocate in another arena of the device: what
 * its caches have counted is told, and before they hand out more they look at
 * the peaks again. Takes the lock. */
void tcache_come_elsewhere(struct arena *main);

/* Is there complete memory of a size in a cache of the calling thread? */
bool tcache_has_complete(const struct cache *cache, size_t rounded);

/* A block of no stream that is complete is kept for a request of its size, or
 * false; one of that size, ACTIVE, or NULL; and all go back to the pool, or
 * false. Of the calling thread; Note [Complete memory]. */
bool tcache_keep_complete(struct block *block);
struct block *tcache_take_complete(const struct pools *pools, size_t rounded);
bool tcache_settle_complete(const struct pools *pools);

/* Give back what is too large for the bins. A request that goes to the pool is
 * to find it there. NULL does nothing. */
bool tcache_empty_slots(struct cache *cache); /* were there any? */
static inline void
tcache_settle(struct cache *cache)
{
	if (cache != NULL && cache->slots > 0)
		tcache_empty_slots(cache);
}

/* The pool has handed out a block on the calling thread's behalf, or taken one
 * back, which its room is to be less or more for. If its class is full there,
 * a magazine of it follows. NULL does nothing. */
void tcache_went_out(struct cache *cache, const struct block *block);
void tcache_take_in(struct cache *cache, const struct block *block);
static inline void
tcache_came_in(struct cache *cache, const struct block *block)
{
	if (cache != NULL)
		tcache_take_in(cache, block);
}

/* The calling thread's request for a class of its pools was served by them:
 * more of the same, if that happens often and others free what the thread
 * allocates. NULL does nothing. */
void tcache_refill_bin(
    struct cache *cache, const struct options *options, size_t rounded);

static inline void
tcache_refill(
    struct cache *cache, const struct options *options, size_t rounded)
{
	if (cache != NULL && cache->handed_over)
		tcache_refill_bin(cache, options, rounded);
}

/* Take everything out of all caches and depots; or what is not in use, for a
 * request of some pools or, `widely`, of all: Note [What is in use stays]. True
 * if there was anything. */
bool tcache_drain(struct arena *arena);
bool tcache_drain_idle(const struct pool *pool, bool widely);

/* Take caches out of use: of a stream, or of the calling thread, or all. */
void tcache_retire(struct arena *arena, const struct stream *stream, bool own);

/* The pools go: their caches are emptied and are of no use any more. */
void tcache_end(struct pools *pools);

/* Keep all owners out, with all they have counted told; let them in again. */
void tcache_stop(struct arena *arena);
void tcache_go(struct arena *arena);

/* Tell the statistics what all caches have counted so far. */
void tcache_tell(struct arena *arena);

/* The context is gone, and all blocks with it. */
void tcache_forget(struct arena *arena);

/* Bytes in caches and depots of these pools, for weir_check(); stopped. */
size_t tcache_bytes(const struct pools *pools);

/* ---- With no lock ------------------------------------------------------ */

/* The calling thread ends. */
void tcache_thread_ends(void);

/* Options have changed: all caches are emptied, and made anew. */
void tcache_renew(void);

#endif
