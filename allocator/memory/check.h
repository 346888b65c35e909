/*
 * weir_check(): all memory of an arena against docs/invariants.md.
 */
#ifndef ALLOCATOR_MEMORY_CHECK_H
#define ALLOCATOR_MEMORY_CHECK_H

#include "allocator/memory/types.h"

/* Where weir_check() tells its faults. */
struct check {
	char *text;
	size_t size;
	size_t used;
	size_t faults;
};

void arena_check(struct arena *arena, struct check *check);

/* One more fault. */
void check_fault(struct check *check, const char *text);

/* Totals (or NULL) against the sums over their arenas, unless they have
 * changed since they were at `changes`. Takes their lock. */
void totals_check(struct totals *totals, uint64_t changes,
    const struct weir_stats *sums, struct check *check);

#endif
