/*
 * The state of an arena's fences. Each heap has its own fences, in struct
 * stream_heap.
 */
#ifndef ALLOCATOR_FENCES_STATE_H
#define ALLOCATOR_FENCES_STATE_H

#include <stdint.h>

struct stream_heap;

struct arena_fences {
	/* A heap that has freed so much that a fence is due; or NULL. It is in
	 * the arena's list of heaps. */
	struct stream_heap *due;
	/* The largest lateness seen of a stream, and the time that the host has
	 * lost. Rises only. */
	uint64_t late_ns;
};

#endif
