/*
 * The state of an arena's memory.
 */
#ifndef ALLOCATOR_MEMORY_STATE_H
#define ALLOCATOR_MEMORY_STATE_H

#include "allocator/memory/types.h"

struct arena_memory {
	/* Constant, but for `users`. */

	/* Bits by device: those that may use this arena's memory, beside those
	 * that may use all memory of the device. Set under handle.c's lock. */
	_Atomic(uint64_t) users[DEVICES_MAX / 64];
	size_t granularity; /* bytes of the smallest mapping */
	int node;           /* of page-locked memory that is mapped: NUMA */
	struct source source;
	bool own_source; /* its source is not the driver */
	size_t granule;  /* of blocks below FINE_END */
	size_t page;     /* of large blocks; WEIR_GRANULE in device memory */

	/* The device's own arena has it for the whole device. Under the arena's
	 * lock, and under that of the totals if there are any. */
	struct history_ring history;

	/* Set under the lock and read without it. Flags that a reader sees too
	 * late do no harm: an arena that was just made, or is in use again, has
	 * no memory yet. */
	atomic_uint flags;

	/* Under the arena's lock from here on. Heaps. */

	struct stream_heap *any_heap;
	struct list heaps; /* of all streams, and any_heap; by index */
	/* They, by stream. Empty in the device's own arena, where a stream
	 * knows its heap. */
	struct tree by_stream;
	/* The heaps with blocks in pool->freed or with pending ones, and some
	 * that had: heap_first_freed(). */
	struct list having_freed;
	/* The heaps that have ended but not completed, in the order to poll
	 * them; those that have completed and still have free or cached blocks;
	 * and the number of both. */
	struct list ended;
	struct list emptied;
	unsigned ending;
	unsigned streams; /* streams that have a heap */
	bool several; /* there have been two streams, or device-scope requests:
			 FREE blocks are in pool->freed, where other streams
			 find them */
	bool lends;   /* streams are fenced for other processes, too: FREE
			 blocks are kept apart by their fences as if there were
			 several streams */
	bool behind;  /* promote.c, Note [Portions] */
	uint64_t heaps_made;

	/* Segments and blocks. */

	struct list segments;
	struct list ranges; /* those of them that are expandable */
	/* Free memory of ranges of places stays there while other memory can be
	 * had: the program follows the plan that will use it again. */
	bool places_stay;
	uint64_t segments_made;
	struct list vacated;       /* VACATED blocks to unmap */
	struct handle *unreleased; /* in no segment; through ->next */
	struct tree pins;          /* struct pin, by address */
	struct block *spare;       /* unused records, through ->next */
	struct nearby starts;      /* leaf of the latest start that was named */
	unsigned jobs;  /* under way, with the lock released at times */
	bool forgotten; /* the context is gone */

	struct trace_pool pool; /* its name in the history */
	size_t most_pinned;     /* the most bytes held: pin_time.h */
	uint64_t pinned_bytes;  /* since the context was made */
	uint64_t pinned_ns;     /* the time that this took */

	/* Keeps. */

	unsigned kept; /* keeps: its memory must stay where it is */
	/* How many of the keeps have ended. They count until all work is done
	 * that was queued when the last of them ended; keep_event covers it,
	 * once it is recorded. */
	unsigned keeps_ending;
	uint64_t keeps_ended; /* how often ended keeps have been removed */
	CUevent keep_event;
};

#endif
