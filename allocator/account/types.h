/*
 * The statistics of streams, arenas and devices, as data.
 */
#ifndef ALLOCATOR_ACCOUNT_TYPES_H
#define ALLOCATOR_ACCOUNT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "allocator/magazines/sums.h"
#include "base/lock.h"

/* Inline into the fast paths wherever it is called. */
#define QUICK __attribute__((always_inline))

/*
 * The statistics that each malloc and free changes, in as few numbers as
 * stats_all() can compute them from. TALLIED_STATS() names them; struct
 * weir_stats does not hold them. `headroom` is the distance below the peak, so
 * the current value is peak - headroom: a free only raises the headroom, and a
 * malloc passes the peak if it makes the headroom negative.
 */
#define TALLIED_STATS(X)                                                       \
	X(allocation, count)                                                   \
	X(allocated_bytes, bytes)                                              \
	X(active, count)                                                       \
	X(active_bytes, bytes)                                                 \
	X(requested_bytes, requested)
enum tallied {
#define TALLIED_ENUM(name, sum) TALLIED_##name,
	TALLIED_STATS(TALLIED_ENUM)
#undef TALLIED_ENUM
	    TALLIED
};
enum stat_part { PART_ALL, PART_SMALL, PART_LARGE, PARTS };
struct tally {
	struct tally_part {
		int64_t headroom[TALLIED];
		/* The sums allocated. Unused in PART_ALL: small plus large. */
		struct sums up;
		int64_t peak[TALLIED];
		int64_t began[TALLIED]; /* the current value when `up` was 0 */
	} part[PARTS];
};

/* The sums over all arenas of a device. Plain counters hold the counts of
 * arenas that went out of use; a reader adds those of the arenas in use. */
struct totals {
	struct lock lock; /* LOCK_RANK_TOTALS */
	uint64_t changes;
	struct tally tally;
	struct weir_stats stats; /* without the tallied ones */
	size_t promised;
	/* Suspended arenas: their live bytes count, but are not held. */
	unsigned uncounted;
};

/* The statistics of struct weir_stats that are a struct weir_stat3. */
enum stat3 {
#define STAT3_ENUM(name) STAT3_##name,
	WEIR_STAT3S(STAT3_ENUM)
#undef STAT3_ENUM
	    STAT3S
};

#endif
