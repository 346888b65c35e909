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
 */
#ifndef ALLOCATOR_TCACHE_H
#define ALLOCATOR_TCACHE_H

#include "allocator/arena.h"
#include "allocator/lookup.h"

enum {
	TCACHE_BINS = 128, /* exact classes of 512 bytes, to 64 KiB */
	TCACHE_SLOTS = 16, /* blocks of any larger size */
	TCACHE_WAYS = 64,  /* streams a thread finds at once */
	TCACHE_BATCH = 64, /* blocks of one class that move together, at most */
};

/* Bytes of a class that a magazine holds at most. */
enum { TCACHE_MAGAZINE = 1 << 20 };

/* Blocks of one class through ->cached.next. */
struct magazine {
	struct block *top;
	unsigned count;
};

struct bin {
	struct magazine first;
	unsigned max; /* blocks of a full magazine */
	struct magazine second;
};

/* Three sums that statistics are made of. */
struct sums {
	int64_t count;
	int64_t bytes;
	int64_t requested;
};

struct cache {
	/* What it is for. Written by its owner and by whoever retires it. */
	_Atomic(weir_stream) handle; /* as callers give it, LEGACY for NULL */
	int device;
	bool special; /* more is to be looked at: context, rounding */
	struct pool *pool[POOL_KINDS]; /* NULL: retired */

	atomic_uint busy;   /* the owner is at it */
	atomic_uint wanted; /* it is to stay out */

	/* The owner's, or the stopper's. */
	/* What may be taken before a peak would be missed: falls with each
	 * malloc, rises with each free; below 0 the statistics are told. */
	struct sums room;
	struct sums out;       /* mallocs since they were told */
	struct sums large_out; /* of these, and of frees, of the large pool */
	struct sums large_in;
	struct sums room_given; /* when they were told */
	unsigned slots;         /* in use */
	struct slot {
		size_t size;
		struct block *block;
	} slot[TCACHE_SLOTS]; /* the latest last */
	struct bin bins[TCACHE_BINS];

	/* Constant. */
	CUcontext context;              /* of a default stream; else NULL */
	const struct options *rounding; /* NULL: steps of 512 bytes */
	size_t depot_max;
	struct arena *arena;
	struct pools *pools; /* pinned by ->caches */
	struct tcache *owner;

	struct list link; /* in arena->caches, under its lock */
	atomic_bool dead; /* retired: out of that list */
};

/* A thread's. Empty places hold `tcache_none`. */
struct tcache {
	struct cache *last;   /* that it freed to */
	CUdeviceptr leaf_key; /* of the leaf of the address it freed last */
	struct leaf *leaf;
	struct cache *by_handle[TCACHE_WAYS];
	struct cache *by_pools[TCACHE_WAYS];
};

/* Full magazines of a stream, for any thread. */
struct depot {
	struct lock lock;
	size_t bytes;
	struct block *chains[TCACHE_BINS]; /* through ->cached.chain */
};

/* ---- The owner --------------------------------------------------------- */

extern _Thread_local struct tcache *tcache_own; /* NULL: none yet */
extern struct cache tcache_none;
extern bool tcache_asymmetric; /* membarrier() works */

/* The rarer ways of the two functions below. */
void *tcache_malloc_special(struct cache *cache, size_t size);
void *tcache_malloc_large(struct cache *cache, size_t size);
void *tcache_malloc_refill(struct cache *cache, size_t size);
void tcache_peak(struct cache *cache);
bool tcache_find_leaf(struct tcache *t, CUdeviceptr addr);
bool tcache_free_other(struct tcache *t, struct block *block);
bool tcache_free_large(struct cache *cache, struct block *block);
bool tcache_free_binned(struct cache *cache, struct block *block);

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

static inline unsigned
tcache_way(weir_stream handle)
{
	uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;

	return (unsigned)(hash >> 58);
}

/* Take a block out of a magazine that has some, or put one in. */
static inline struct block *
tcache_pop(struct magazine *magazine)
{
	struct block *block = magazine->top;

	magazine->top = block->cached.next;
	magazine->count--;
	return block;
}

static inline void
tcache_push(struct magazine *magazine, struct block *block)
{
	block->cached.next = magazine->top;
	magazine->top = block;
	magazine->count++;
}

/* Hand out a block of the cache; true if a peak has been passed. */
static inline bool
tcache_hand_out(struct cache *cache, struct block *block, size_t size)
{
	int64_t bytes = (int64_t)block->size;
	int64_t requested = (int64_t)size;

	block->requested = size;
	block_set_state(block, BLOCK_ACTIVE);
	cache->out.count++;
	cache->out.bytes += bytes;
	cache->out.requested += requested;
	cache->room.count -= 1;
	cache->room.bytes -= bytes;
	cache->room.requested -= requested;
	/* Is any of them negative? */
	return (cache->room.count | cache->room.bytes | cache->room.requested) <
	    0;
}

static inline void
tcache_take_in(struct cache *cache, struct block *block)
{
	block_set_state(block, BLOCK_CACHED);
	cache->room.count++;
	cache->room.bytes += (int64_t)block->size;
	cache->room.requested += (int64_t)block->requested;
}

/* The block for a request out of the calling thread's cache, or NULL. */
static inline void *
tcache_malloc(int device, size_t size, weir_stream handle)
{
	struct tcache *t = tcache_own;

	if (__builtin_expect(t == NULL, 0))
		return NULL;
	if (handle == NULL)
		handle = WEIR_STREAM_LEGACY;
	struct cache *cache = t->by_handle[tcache_way(handle)];
	if (atomic_load_explicit(&cache->handle, memory_order_relaxed) !=
		handle ||
	    (device != WEIR_DEVICE_CURRENT && device != cache->device))
		return NULL;
	if (__builtin_expect(cache->special, 0))
		return tcache_malloc_special(cache, size);
	size_t n = (size - 1) / WEIR_GRANULE;
	if (n >= TCACHE_BINS)
		return tcache_malloc_large(cache, size);
	if (!tcache_enter(cache))
		return NULL;
	struct magazine *magazine = &cache->bins[n].first;
	if (__builtin_expect(magazine->top == NULL, 0))
		return tcache_malloc_refill(cache, size);
	struct block *block = tcache_pop(magazine);
	CUdeviceptr addr = block->addr;
	bool peak = tcache_hand_out(cache, block, size);
	tcache_leave(cache);
	if (__builtin_expect(peak, 0))
		tcache_peak(cache);
	return (void *)(uintptr_t)addr;
}

/* Put a block into the calling thread's cache; false: not taken. */
static inline bool
tcache_free(void *ptr)
{
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
	struct tcache *t = tcache_own;

	if (__builtin_expect(t == NULL, 0))
		return false;
	if (__builtin_expect(addr >> LOOKUP_LEAF_BITS != t->leaf_key, 0) &&
	    !tcache_find_leaf(t, addr))
		return false;
	struct block *block = lookup_in_leaf(t->leaf, addr);
	if (__builtin_expect(block == NULL || addr % WEIR_GRANULE != 0, 0) ||
	    block_state(block) != BLOCK_ACTIVE || block->pending.uses != NULL)
		return false;
	struct cache *cache = t->last;
	if (!tcache_enter(cache))
		return false;
	if (cache->pool[POOL_SMALL] != block->pool) {
		tcache_leave(cache);
		return tcache_free_other(t, block);
	}
	size_t n = block->size / WEIR_GRANULE - 1;
	if (__builtin_expect(n >= TCACHE_BINS, 0))
		return tcache_free_large(cache, block);
	struct bin *bin = &cache->bins[n];
	if (__builtin_expect(bin->first.count >= bin->max, 0))
		return tcache_free_binned(cache, block);
	tcache_push(&bin->first, block);
	tcache_take_in(cache, block);
	tcache_leave(cache);
	return true;
}

/* The same for a block of the stream that is named only. */
bool tcache_free_on(void *ptr, weir_stream stream);

/* ---- Under the arena's lock -------------------------------------------- */

/*
 * The calling thread has come here the slow way, on behalf of `pools`: what its
 * caches have counted is told to the statistics, and it gets a cache for the
 * pools if it has none. Cannot fail: without memory there is none.
 */
void tcache_come(struct arena *arena, struct pools *pools);

/* The calling thread is about to allocate in another arena of the device: what
 * its caches have counted is told, and before they hand out more they look at
 * the peaks again. Takes the lock. */
void tcache_come_elsewhere(struct arena *main);

/* Give back what is too large for the calling thread's bins. A request that
 * goes to the pool is to find it there. */
void tcache_settle(struct pools *pools);

/* Take everything out of all caches and depots; true if there was anything. */
bool tcache_drain(struct arena *arena);

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
