/*
 * The arena of each device: made at its first use, forgotten with its context.
 */
#ifndef ALLOCATOR_LIFECYCLE_H
#define ALLOCATOR_LIFECYCLE_H

#include "allocator/memory/types.h"

/* The arena of a device, made at its first use. Holds no lock. */
enum weir_status arena_get(int device, struct arena **out);

/* Fill a new arena but for its limit and its place in lists; `main` may be it.
 * WEIR_EHOSTMEM, WEIR_EDRIVER. */
enum weir_status arena_set_up(struct arena *arena, struct arena *main);

/* A job that has left the lock ends; under the lock: memory/arena.h. */
void arena_job_done(struct arena *arena);

#endif
