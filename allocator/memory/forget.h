/*
 * Forgets the memory of an arena whose context is gone.
 */
#ifndef ALLOCATOR_MEMORY_FORGET_H
#define ALLOCATOR_MEMORY_FORGET_H

#include "allocator/state.h"

/* Forget all memory of an arena that has no job under way. */
void arena_forget_contents(struct arena *arena) HOLDS(arena->lock);

/* End a job that released the lock (memory/arena.h). Under the lock. */
void arena_job_done(struct arena *arena) HOLDS(arena->lock);

#endif
