/*
 * <weir/host.h>: page-locked host memory, an arena for each kind of it.
 */
#ifndef ALLOCATOR_HOST_HOST_H
#define ALLOCATOR_HOST_HOST_H

#include "allocator/memory/types.h"

/* The kinds of a device: each combination of enum weir_host_flags from the
 * driver, and memory of our own that is registered; and each combination once
 * more, with nothing finer than WEIR_GRANULE, as the driver hands it out. */
enum {
	HOST_FLAGS = 7,
	HOST_REGISTERED = 8,
	HOST_COARSE = 9,
	HOST_KINDS = HOST_COARSE + HOST_FLAGS + 1
};

/* The context of a device is gone. */
void host_forget_device(int device);

/* The arena of a kind of a device, if it has one; no lock. */
struct arena *host_arena_peek(int device, unsigned kind);

/*
 * Memory of weir's own, to be given back with weir_host_free(): pages that are
 * registered, whatever the options have for others, so that several threads get
 * it faster; from the driver where that registers none. Holds no lock.
 *
 * @return WEIR_EHOSTMEM, WEIR_EDRIVER
 */
enum weir_status host_get(int device, size_t size, void **out);

#endif
