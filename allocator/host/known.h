/*
 * The arenas of page-locked memory, by device and kind.
 */
#ifndef ALLOCATOR_HOST_KNOWN_H
#define ALLOCATOR_HOST_KNOWN_H

#include "allocator/memory/types.h"

/* The kinds of a device: each combination of enum weir_host_flags, allocated by
 * the driver; memory of weir's own that is registered; and each combination
 * again with a granule of WEIR_GRANULE, for allocator_malloc_host(). */
enum {
	HOST_FLAGS = 7,
	HOST_REGISTERED = 8,
	HOST_COARSE = 9,
	HOST_KINDS = HOST_COARSE + HOST_FLAGS + 1
};

/* The arena of a kind of a device, or NULL. Takes no lock. */
struct arena *host_arena_peek(int device, unsigned kind);

/* Find the arena of a kind, or make it. `main` is the device's own arena. The
 * caller holds no lock. WEIR_EHOSTMEM. */
enum weir_status host_arena_get(
    struct arena *main, unsigned kind, struct arena **out);

/* Forget the arenas and reserves of a device whose context is gone. */
void host_forget_device(int device);

#endif
