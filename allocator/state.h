/*
 * An arena: constants, the lock, and a member for each room.
 *
 * A room's state.h has the room's member, and the room alone writes it; other
 * rooms read it and call the room. `make lint-layers` checks that. A state.h
 * has data only, so this header may name those of all rooms.
 *
 * arena->lock guards every field of the members that is not said to be constant
 * or to have another lock. A function that is called under it says HOLDS(),
 * with its path from an argument to the lock.
 */
#ifndef ALLOCATOR_STATE_H
#define ALLOCATOR_STATE_H

#include "allocator/account/state.h"
#include "allocator/cache/state.h"
#include "allocator/fences/state.h"
#include "allocator/host/state.h"
#include "allocator/lifecycle_state.h"
#include "allocator/memory/state.h"
#include "allocator/memory/types.h"
#include "allocator/policy/state.h"
#include "allocator/private/state.h"
#include "allocator/request/state.h"

/* The memory of a stream in an arena. memory/ writes it, but for the statistics
 * and `fences`. */
struct stream_heap {
	struct arena *arena;   /* constant */
	struct stream *stream; /* constant; a reference */

	struct list link;      /* in arena->memory.heaps */
	struct tree_node node; /* in arena->memory.by_stream, or none */
	/* NULL before its first magazine; set without the lock. It lies here so
	 * that a walk over the depots of all streams reads one cache line of
	 * each heap. */
	_Atomic(struct depot *) depot;
	struct pool pool[POOL_KINDS];
	size_t blocks;   /* that belong to the heap, in any state */
	unsigned pins;   /* threads that use it while they release the lock */
	unsigned caches; /* thread caches for it */
	uint64_t index;  /* larger in later heaps; constant */

	/* All work queued before this tick is done. */
	uint64_t completed_at;
	uint64_t freed_at;  /* the tick of the latest free */
	uint64_t pended_at; /* and of the latest that left a PENDING block */
	struct list freed_link; /* in arena->memory.having_freed, or none */
	struct idle_index idle; /* its blocks that could go back */
	/* The capture that its stream was last seen in, and the tick of the
	 * latest free before that: Note [Memory in a capture]. */
	uint64_t seen_in;
	uint64_t freed_before;
	uint64_t tried; /* arena->request.tries when it was last waited for */
	/* Recorded when the stream ended; NULL if it could not be recorded or
	 * is met. */
	CUevent end_event;
	bool ended;     /* the stream has ended: Note [A stream ends] */
	bool completed; /* ended, and its work is done */
	struct list
	    ended_link; /* in arena->memory.ended or arena->memory.emptied */

	/* account/ writes these. */
	struct tally tally;
	struct weir_stats stats; /* without the tallied ones */

	struct heap_fences fences; /* comes last; fences/ writes it */
};

struct arena {
	/* Constant. */
	struct traits traits; /* a copy */
	int device;
	CUcontext context;  /* the primary context */
	struct stream *any; /* WEIR_STREAM_ANY here; a reference */
	struct arena *main; /* the device's own arena; perhaps this one */

	struct lock lock;       /* LOCK_RANK_ARENA */
	struct waiting waiting; /* unmet uses; streams/use.h changes it */
	struct arena_account account;
	struct arena_memory memory;
	struct arena_policy policy;
	struct arena_fences fences;
	struct arena_cache cache;
	struct arena_request request;
	struct arena_private private;
	struct arena_host host;
	struct arena_lifecycle lifecycle;
};

#endif
