/*
 * The structures of thread caches, on one page; tcache.h has the notes.
 */
#ifndef ALLOCATOR_CACHE_TYPES_H
#define ALLOCATOR_CACHE_TYPES_H

#include "allocator/cache/tuning.h"
#include "allocator/magazines/depot.h"
#include "allocator/state.h"

struct cache {
	/* For the hit paths; NOBODY and NULL close the cache to them. */
	_Atomic(weir_stream) key;
	_Atomic(struct pool *) key_pool; /* the small one */
	atomic_uint busy;                /* the owner is inside */
	unsigned slots;                  /* slots in use, from slot[1] on */

	/* Used by the owner, or by a thread that has stopped the cache. */
	/* The budget: how much this cache may allocate before the statistics
	 * would miss a peak. It falls with each malloc and rises with each
	 * free. Before it would fall below 0, the cache reports. */
	struct sums budget;
	struct sums out;          /* mallocs since the last report */
	struct sums budget_given; /* `budget` at the last report */
	struct sums large_out;    /* of these, mallocs of the large pool */
	struct sums large_in;     /* frees of the large pool since then */
	bool brought; /* brought frees to the depot, perhaps unreported */
	/* Beside the counts, because a report reads all caches of a thread. */
	bool keeps;       /* freed blocks, or only finds the heap; constant */
	atomic_bool dead; /* retired: out of arena->cache.all */
	struct arena *arena;   /* constant */
	size_t small_max;      /* of the arena's traits; constant */
	struct list own_link;  /* in owner->caches; used by the owner */
	uint8_t way;           /* in owner->by_heap; constant */
	uint8_t way_of_handle; /* in owner->by_handle; constant */
	struct slot {
		size_t size;
		struct block *block;
	} slot[TCACHE_SLOTS + 1]; /* the latest last */
	/* By class; bins of 0 bytes are never used. */
	struct bin bins[TCACHE_CLASSES + 1];

	uint8_t misses[TCACHE_CLASSES + 1]; /* by class: tcache_refill_bin() */
	/* Classes whose bins have magazines, a bit each. */
	uint64_t made[TCACHE_CLASSES / 64 + 1];
	bool used;         /* since the last inspection */
	bool handed_over;  /* it got blocks that others freed */
	uint8_t claims;    /* to its place, since it was last used */
	bool is_idle;      /* budget.h */
	struct list awake; /* in owner->awake; used by the owner */

	atomic_uint wanted; /* the owner must stay out */

	/* The stream that it serves. Written by its owner and by a thread that
	 * retires it. */
	_Atomic(weir_stream) handle;   /* as callers name it, LEGACY for NULL */
	struct pool *pool[POOL_KINDS]; /* NULL: retired */

	/* Constant. */
	int device;
	weir_stream usual; /* ->key while the cache is open */
	bool complete;     /* keeps complete blocks, under the lock */
	bool traced;       /* is used under the arena's lock: emit.c */
	CUcontext context; /* of a default stream; else NULL */
	const struct options *rounding; /* NULL: steps of 512 bytes */
	size_t granule;                 /* the arena's */
	size_t depot_max;
	struct stream_heap *heap; /* pinned by ->caches */
	struct tcache *owner;

	struct list link; /* in arena->cache.all, under its lock */
};

/* The cache of the latest weir_host_malloc(). A change of options retires
 * it. */
struct latest {
	struct cache *cache;
	weir_stream key;   /* the cache's; NULL: `context` must be current */
	CUcontext context; /* or NULL */
};

/* The table of a thread. Unused places hold `none`. */
struct tcache {
	struct cache *last; /* that the thread freed to last */
	struct nearby nearby;
	struct cache *last_host; /* by weir_host_free() */
	struct nearby nearby_host;
	struct nearby nearby_fine; /* starts that are no multiple of 512 */
	struct latest latest_host;
	struct cache *by_handle[TCACHE_WAYS]; /* for streams */
	struct cache *by_heap[TCACHE_WAYS];
	uint64_t large_hits; /* tcache_take_large_hits() */
	struct list caches;  /* all its caches, through ->own_link */
	struct list awake;   /* caches that may have counts or a budget */
	struct list spare;   /* unused caches, their bins zero; ->own_link */
	struct cache none;   /* takes nothing */
};

#endif
