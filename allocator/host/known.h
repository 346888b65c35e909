/*
 * The arenas of page-locked memory, by device and kind.
 */
#ifndef ALLOCATOR_HOST_KNOWN_H
#define ALLOCATOR_HOST_KNOWN_H

#include "allocator/host/kinds.h"
#include "allocator/state.h"

/* The best source that the options and the device allow, for the next request.
 * False if no request has shown yet whether the driver allows it. `main` is the
 * device's own arena. The caller holds no lock. */
bool host_source_known(const struct arena *main, const struct options *options,
    enum weir_host_source *out);

/* Note the outcome of a request of an arena of page-locked memory. True if the
 * driver turns out to have no handles of it: host_source_known() names another
 * source from now on, and the caller tries again. */
bool host_handles_refused(const struct arena *arena, enum weir_status status);

/* The arena of a kind of a device, or NULL. Takes no lock. */
struct arena *host_arena_peek(int device, unsigned kind);

/* Find the arena of a kind, or make it. `main` is the device's own arena. The
 * caller holds no lock. WEIR_EHOSTMEM. */
enum weir_status host_arena_get(
    struct arena *main, unsigned kind, struct arena **out);

/* Keep so many bytes of an arena held. Takes the lock. */
void host_set_reserve(struct arena *arena, size_t bytes);

/* Forget the arenas of a device whose context is gone. */
void host_forget_device(int device);

#endif
