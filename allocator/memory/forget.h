/*
 * Forgets the memory of an arena whose context is gone.
 */
#ifndef ALLOCATOR_MEMORY_FORGET_H
#define ALLOCATOR_MEMORY_FORGET_H

#include "allocator/state.h"

/* The context is gone: forget all memory of the arena, once its last job has
 * ended. */
void memory_forget(struct arena *arena) HOLDS(arena->lock);

/* Begin a job, which may release the lock (memory/arena.h). */
static inline void
arena_job_begin(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->memory.jobs++;
}

/* End a job that released the lock. If the context is gone, the last job
 * empties the arena. */
void arena_job_done(struct arena *arena) HOLDS(arena->lock);

#endif
