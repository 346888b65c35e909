/*
 * The arenas of page-locked memory, by their device and kind.
 */
#ifndef ALLOCATOR_HOST_KNOWN_H
#define ALLOCATOR_HOST_KNOWN_H

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

/* The arena of a kind of a device, if it has one; no lock. */
struct arena *host_arena_peek(int device, unsigned kind);

/* That arena, made if there is none. `main` is the device's own. Holds no lock.
 * WEIR_EHOSTMEM. */
enum weir_status host_arena_get(
    struct arena *main, unsigned kind, struct arena **out);

/* The context of a device is gone. */
void host_forget_device(int device);

#endif
