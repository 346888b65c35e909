/*
 * The arena of each device: made at its first use, forgotten with its context.
 */
#ifndef ALLOCATOR_LIFECYCLE_H
#define ALLOCATOR_LIFECYCLE_H

#include "allocator/state.h"

/* Find the arena of a device that device_resolve() has named, or make it. The
 * caller holds no lock. */
enum weir_status arena_get(int device, struct arena **out);

#endif
