/*
 * Statistics of a device, its page-locked host memory, and one arena.
 */
#ifndef ALLOCATOR_OBSERVE_DEVICE_STATS_H
#define ALLOCATOR_OBSERVE_DEVICE_STATS_H

#include "allocator/memory/types.h"

/* All statistics of a device, given its own arena, or of its page-locked host
 * memory. Holds no lock. */
void device_stats(struct arena *main, struct weir_stats *out);
void device_host_stats(struct arena *main, struct weir_stats *out);

#endif
