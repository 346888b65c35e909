/*
 * The state of an arena's fences. Each heap has its own fences.
 */
#ifndef ALLOCATOR_FENCES_STATE_H
#define ALLOCATOR_FENCES_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "allocator/fences/tuning.h"
#include "driver/abi.h"

struct stream_heap;

/* A fence on a stream: fence.c, Note [Fences]. */
struct fence {
	CUevent event;
	uint64_t at; /* the tick */
	uint64_t ns; /* and the time: driver_time_ns() */
};

/* The fences of a heap. */
struct heap_fences {
	unsigned count; /* at most FENCES */
	/* Bytes freed, or allocated by large requests, since the latest fence;
	 * and the tick of the latest such request. */
	size_t unfenced_bytes;
	uint64_t served_at;
	/* Those that are not met yet, the oldest first. They come last, because
	 * heap_make() leaves them as they are. */
	struct fence ring[FENCES];
};

struct arena_fences {
	/* A heap that has freed so much that a fence is due; or NULL. It is in
	 * the arena's list of heaps. */
	struct stream_heap *due;
	/* The largest lateness seen of a stream, and the time that the host has
	 * lost. Rises only. */
	uint64_t late_ns;
};

#endif
