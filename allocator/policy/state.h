/*
 * The state of the arena that decisions depend on.
 */
#ifndef ALLOCATOR_POLICY_STATE_H
#define ALLOCATOR_POLICY_STATE_H

#include <stddef.h>
#include <stdint.h>

/* Recent sums over all streams: how long weir's waits took, and how late
 * streams became that have not caught up. */
struct evidence {
	uint64_t waited_ns;
	uint64_t felt_ns;
};

struct arena_policy {
	/* When all moves, brief waits and calls for page-locked memory are
	 * paid, by driver_time_ns(): policy_pay(). */
	uint64_t paid_ns;
	struct evidence evidence; /* of the cost of weir's waits */
	size_t most_live; /* bytes: the peak of the live, with the request's */
};

#endif
