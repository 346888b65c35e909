/*
 * Statistics, for those who do not come by a public call.
 */
#ifndef ALLOCATOR_API_STATS_H
#define ALLOCATOR_API_STATS_H

#include "allocator/memory/types.h"

/* weir_stats() of one arena. Takes the lock. */
enum weir_status arena_stats(struct arena *arena, struct weir_stats *out);

#endif
