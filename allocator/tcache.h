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

enum {
	TCACHE_BINS = 128, /* exact classes of 512 bytes, to 64 KiB */
	TCACHE_SLOTS = 16, /* blocks of any larger size */
	TCACHE_WAYS = 64,  /* streams a thread finds at once */
	TCACHE_BATCH = 64, /* blocks of one class that move together, at most */
};

/* Blocks of one class through ->cached.next. */
struct magazine {
	struct block *top;
	unsigned count;
};

/* What a cache has served and taken back: never falls. Written by its owner
 * alone, read by anyone. */
struct tally {
	_Atomic(uint64_t) mallocs;
	_Atomic(uint64_t) malloc_bytes;
	_Atomic(uint64_t) malloc_requested;
	_Atomic(uint64_t) frees;
	_Atomic(uint64_t) free_bytes;
	_Atomic(uint64_t) free_requested;
};

/*
 * What a thread has live of an arena's, as far as its caches know, since the
 * statistics were told. Above `limit` a peak would be missed: then they are
 * told. The owner's; the limits are also written under the arena's lock.
 */
struct account {
	struct arena *arena;
	struct account *next; /* of the thread */
	_Atomic(int64_t) count, bytes, requested;
	_Atomic(int64_t) count_limit, bytes_limit, requested_limit;
};

struct cache {
	/* Constant while the cache is of use; see `dead`. */
	_Atomic(weir_stream) handle; /* as callers give it, NULL being LEGACY */
	int device;
	CUcontext context;   /* of a default stream; else NULL */
	struct pools *pools; /* pinned by ->caches */
	struct arena *arena;
	const struct options *rounding; /* NULL: steps of 512 bytes */
	struct tcache *owner;
	struct account *account;

	atomic_uint busy;   /* the owner is at it */
	atomic_uint wanted; /* it is to stay out */
	atomic_bool dead;   /* the stream has ended, or the options changed */

	/* The owner's, or the stopper's. */
	size_t bytes;     /* in bins */
	size_t bytes_max; /* as the options have it */
	unsigned slots;   /* in use */
	struct slot {
		size_t size;
		struct block *block;
	} slot[TCACHE_SLOTS]; /* the latest last */
	struct bin {
		struct magazine first;
		struct magazine second;
	} bins[TCACHE_BINS];

	struct tally tally[POOL_KINDS];

	/* Under the arena's lock. */
	struct list link; /* in arena->caches */
	struct told {
		uint64_t mallocs, malloc_bytes, malloc_requested;
		uint64_t frees, free_bytes, free_requested;
	} told[POOL_KINDS]; /* what statistics have of it */
};

/* Full magazines of a stream, for any thread. */
struct depot {
	struct lock lock;
	size_t bytes;
	struct block *chains[TCACHE_BINS]; /* through ->cached.chain */
};

/* The block for a request out of the calling thread's cache, or NULL. */
void *tcache_malloc(int device, size_t size, weir_stream stream);

/* Put a block into the calling thread's cache; false: not taken. The second
 * takes only blocks of the stream that is named. */
bool tcache_free(void *ptr);
bool tcache_free_on(void *ptr, weir_stream stream);

/* ---- Under the arena's lock -------------------------------------------- */

/*
 * The calling thread has come here the slow way, on behalf of `pools`: what its
 * caches have counted is told to the statistics, and it gets a cache for the
 * pools if it has none. Cannot fail: without memory there is none.
 */
void tcache_come(struct arena *arena, struct pools *pools);

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
