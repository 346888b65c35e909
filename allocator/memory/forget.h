/*
 * An arena whose context is gone.
 */
#ifndef ALLOCATOR_MEMORY_FORGET_H
#define ALLOCATOR_MEMORY_FORGET_H

#include "allocator/memory/types.h"

/* Forget all memory of an arena, which has no job under way. */
void arena_forget_contents(struct arena *arena);

/* A job that has left the lock ends; under the lock: memory/arena.h. */
void arena_job_done(struct arena *arena);

#endif
