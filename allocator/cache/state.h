/*
 * The state of an arena's thread caches.
 */
#ifndef ALLOCATOR_CACHE_STATE_H
#define ALLOCATOR_CACHE_STATE_H

#include <stdint.h>

#include "base/list.h"

struct arena_cache {
	struct list all;  /* struct cache, through ->link; none is dead */
	unsigned keeping; /* those of them that keep blocks */
	/* Requests that the pools served so far, and blocks that caches got
	 * ahead; and that number when all caches were last walked. */
	uint64_t served;
	uint64_t looked;
};

#endif
