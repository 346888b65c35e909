/*
 * The state of an arena that lifecycle.c writes.
 */
#ifndef ALLOCATOR_LIFECYCLE_STATE_H
#define ALLOCATOR_LIFECYCLE_STATE_H

struct arena;

struct arena_lifecycle {
	/* The next of the arenas whose context is gone; under lifecycle.c's
	 * lock. */
	struct arena *next_forgotten;
};

#endif
