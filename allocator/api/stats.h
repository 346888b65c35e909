/*
 * Statistics of one arena, for weir_pool_stats().
 */
#ifndef ALLOCATOR_API_STATS_H
#define ALLOCATOR_API_STATS_H

#include "allocator/state.h"

/* As weir_stats(), for one arena. Takes its lock. */
enum weir_status arena_stats(struct arena *arena, struct weir_stats *out);

#endif
