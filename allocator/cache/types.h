/*
 * The structures of thread caches. No prototypes, so that they can be read on
 * one page; tcache.h has the notes.
 */
#ifndef ALLOCATOR_CACHE_TYPES_H
#define ALLOCATOR_CACHE_TYPES_H

#include "allocator/cache/depot.h"
#include "allocator/memory/types.h"

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
	/* The room below the peaks: how much this cache may hand out before the
	 * statistics would miss a peak. It falls with each malloc and rises
	 * with each free; before it falls below 0 the cache reports. */
	struct sums room;
	struct sums out;        /* mallocs since the last report */
	struct sums room_given; /* the room at the last report */
	struct sums large_out;  /* the mallocs of the large pool */
	struct sums large_in;   /* the frees of the large pool */
	bool brought; /* frees to the depot that may not be reported yet */
	/* Beside the counts, since a report looks at all caches of a thread. */
	bool keeps;       /* blocks; else it only finds the pools; constant */
	atomic_bool dead; /* retired: out of arena->caches */
	struct arena *arena;   /* constant */
	struct list own_link;  /* in owner->caches, the owner's */
	uint8_t way;           /* in owner->by_heap; constant */
	uint8_t way_of_handle; /* in owner->by_handle; constant */
	struct slot {
		size_t size;
		struct block *block;
	} slot[TCACHE_SLOTS + 1]; /* the latest last */
	/* By class; those of no bytes are never used. */
	struct bin bins[TCACHE_CLASSES + 1];

	uint8_t
	    misses[TCACHE_CLASSES + 1]; /* of a class: tcache_refill_bin() */
	/* Classes whose bins have magazines, a bit each. */
	uint64_t made[TCACHE_CLASSES / 64 + 1];
	bool used;         /* since it was last looked at */
	bool handed_over;  /* it has got what others freed */
	bool dozes;        /* budget.h */
	struct list awake; /* in owner->awake, the owner's */

	atomic_uint wanted; /* the owner is to stay out */

	/* The stream it serves. Written by its owner and by whoever retires it.
	 */
	_Atomic(weir_stream) handle;   /* as callers give it, LEGACY for NULL */
	struct pool *pool[POOL_KINDS]; /* NULL: retired */

	/* Constant. */
	int device;
	weir_stream usual; /* ->key while the cache is open */
	bool complete;     /* keeps complete memory, under the lock */
	bool traced;       /* keeps them under the arena's lock: see emit.c */
	CUcontext context; /* of a default stream; else NULL */
	const struct options *rounding; /* NULL: steps of 512 bytes */
	size_t granule;                 /* the arena's */
	size_t depot_max;
	struct stream_heap *heap; /* pinned by ->caches */
	struct tcache *owner;

	struct list link; /* in arena->caches, under its lock */
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
	struct cache *by_heap[TCACHE_WAYS];
	struct list caches; /* all it has, through ->own_link */
	struct list awake;  /* that may have counted anything, or have room */
	struct list spare;  /* out of use, their bins zero; ->own_link */
	struct cache none;  /* takes nothing */
};

#endif
