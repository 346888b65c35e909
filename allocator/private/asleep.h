/*
 * Is any device asleep? One load, for the hooks of launches, which include no
 * structures of the allocator.
 */
#ifndef ALLOCATOR_PRIVATE_ASLEEP_H
#define ALLOCATOR_PRIVATE_ASLEEP_H

#include <stdatomic.h>
#include <stdbool.h>

/* The number of devices that are not awake. */
#pragma GCC visibility push(hidden)
extern atomic_uint sleeping_devices;
#pragma GCC visibility pop

/* Is any device not awake? One load. */
static inline bool
sleeping_any(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&sleeping_devices, memory_order_acquire) != 0,
	    0);
}

#endif
