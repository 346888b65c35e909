/*
 * The state of an arena of page-locked host memory.
 */
#ifndef ALLOCATOR_HOST_STATE_H
#define ALLOCATOR_HOST_STATE_H

#include <stddef.h>

struct arena_host {
	unsigned flags;       /* of enum weir_host_flags; constant */
	size_t reserve_bytes; /* so many stay held: reaper.c */
};

#endif
