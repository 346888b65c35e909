/*
 * What an arena has counted, and what it may hold.
 */
#ifndef ALLOCATOR_ACCOUNT_STATE_H
#define ALLOCATOR_ACCOUNT_STATE_H

#include <stdatomic.h>

#include "allocator/account/types.h"

struct arena_account {
	size_t total_bytes; /* of the device, or of the host; constant */

	/* The device's own arena has these for the whole device. */

	_Atomic(size_t) limit;      /* bytes; SIZE_MAX: none */
	_Atomic(size_t) host_limit; /* of page-locked host memory */
	struct totals *host_totals; /* NULL before there is any */

	/* Under the arena's lock from here on. */

	struct tally tally;
	struct weir_stats stats; /* without the tallied ones */
	/* Totals of all arenas of the device; NULL while there is one only. */
	struct totals *totals;
	size_t promised; /* bytes that jobs are allocating from the driver */
	bool uncounted;  /* suspended: its memory is not held */
};

#endif
