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

#include "allocator/cache/state.h"
#include "allocator/fences/state.h"
#include "allocator/host/state.h"
#include "allocator/lifecycle_state.h"
#include "allocator/memory/state.h"
#include "allocator/memory/types.h"
#include "allocator/policy/state.h"
#include "allocator/private/state.h"
#include "allocator/request/state.h"

struct arena {
	/* Constant. */
	struct traits traits; /* a copy */
	int device;
	CUcontext context;  /* the primary context */
	struct stream *any; /* WEIR_STREAM_ANY here; a reference */
	struct arena *main; /* the device's own arena; perhaps this one */

	struct lock lock;       /* LOCK_RANK_ARENA */
	struct waiting waiting; /* unmet uses; streams/use.h changes it */
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
