/*
 * The state of an arena's requests.
 */
#ifndef ALLOCATOR_REQUEST_STATE_H
#define ALLOCATOR_REQUEST_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "allocator/request/tuning.h"

struct arena_plan;
struct places;

/* The state of decay.c. */
struct decay {
	uint64_t at_ns[DECAY_STEPS]; /* the time of each tick */
	uint64_t tick[DECAY_STEPS];  /* 0: none yet */
	unsigned next;               /* the place of the next tick */
	uint64_t latest_ns;          /* the time of the latest tick */
	uint64_t due;    /* free tick: memory up to it is yet to go; or 0 */
	size_t bytes;    /* given back since new memory last came */
	unsigned slower; /* how often the time has been doubled */
};

struct arena_request {
	uint64_t polled;       /* cache.served when streams were last polled */
	uint64_t tries;        /* requests that came to waiting so far */
	struct places *places; /* of large requests: places.h; or NULL */
	struct arena_plan *plan; /* of large requests: plan.h; or NULL */
	struct decay decay;
};

#endif
