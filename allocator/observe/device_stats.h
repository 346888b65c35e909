/*
 * Statistics of a device and of its page-locked host memory.
 */
#ifndef ALLOCATOR_OBSERVE_DEVICE_STATS_H
#define ALLOCATOR_OBSERVE_DEVICE_STATS_H

#include "allocator/state.h"

/* Compute all statistics of a device, given its own arena, or of its
 * page-locked host memory. The caller holds no lock. */
void device_stats(struct arena *main, struct weir_stats *out);
void device_host_stats(struct arena *main, struct weir_stats *out);

#endif
