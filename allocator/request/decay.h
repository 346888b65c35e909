/*
 * Memory that has not been used for a while goes back to the driver.
 */
#ifndef ALLOCATOR_REQUEST_DECAY_H
#define ALLOCATOR_REQUEST_DECAY_H

#include "allocator/memory/arena.h"

enum { DECAY_REQUESTS = 64 };

/* Give back what has not been used for long: Note [Decay]. May leave and retake
 * the lock. Called once in DECAY_REQUESTS requests; always for host memory. */
void decay_run(struct arena *arena, const struct options *options);
/* New memory is needed. */
void decay_regret(struct arena *arena);

#endif
