/*
 * Which arenas are suspended. graphs/suspend.c suspends and resumes them.
 */
#ifndef ALLOCATOR_PRIVATE_SUSPENSION_H
#define ALLOCATOR_PRIVATE_SUSPENSION_H

#include "allocator/memory/forget.h"
#include "allocator/memory/keep.h"
#include "allocator/state.h"

/* Is the arena suspended, or about to be so? */
static inline bool
arena_is_suspended(const struct arena *arena)
{
	return atomic_load(&arena->private.suspension.set);
}

/* Begin to suspend an arena, or to resume it, in a job that ends with
 * suspension_moved(). */
static inline void
suspension_move(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	ASSERT(!arena->private.suspension.moving);
	arena->private.suspension.moving = true;
	arena_job_begin(arena);
}

/* Free copies whose memory is gone with the context. */
static inline void
suspension_forget_copies(struct arena *arena) HOLDS(arena->lock)
{
	struct suspension *suspension = &arena->private.suspension;

	lock_assert_held(&arena->lock);
	ASSERT(arena->memory.forgotten);
	if (suspension->moving || suspension->copies == NULL)
		return;
	suspension->forget(suspension->copies);
	suspension->copies = NULL;
}

static inline void
suspension_moved(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena->private.suspension.moving);
	arena->private.suspension.moving = false;
	if (arena->memory.forgotten)
		suspension_forget_copies(arena);
	lock_assert_held(&arena->lock);
	arena_job_done(arena);
}

/* Is the arena suspended because its device sleeps? */
static inline bool
arena_sleeps(const struct arena *arena) HOLDS(arena->lock)
{
	return arena_is_suspended(arena) && arena->private.suspension.sleeps;
}

/* Say that the arena was suspended because its device sleeps. */
static inline void
suspension_set_sleeps(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena_is_suspended(arena));
	arena->private.suspension.sleeps = true;
}

/* The arena is suspended from now on, and kept. */
static inline void
suspension_set(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	ASSERT(!arena_is_suspended(arena));
	atomic_store(&arena->private.suspension.set, true);
	arena_keep_locked(arena);
}

/* Its memory has gone. The others are as in struct suspension. */
static inline void
suspension_hold(struct arena *arena, void (*drop)(struct arena *arena),
    struct copies *copies, void (*forget)(struct copies *copies))
    HOLDS(arena->lock)
{
	struct suspension *suspension = &arena->private.suspension;

	lock_assert_held(&arena->lock);
	ASSERT(arena_is_suspended(arena) && suspension->copies == NULL);
	suspension->drop = drop;
	suspension->copies = copies;
	suspension->forget = forget;
}

/* The arena is suspended no longer. The copies, which may be NULL, belong to
 * the caller. */
static inline struct copies *
suspension_end(struct arena *arena) HOLDS(arena->lock)
{
	struct suspension *suspension = &arena->private.suspension;
	struct copies *copies = suspension->copies;

	lock_assert_held(&arena->lock);
	ASSERT(arena_is_suspended(arena));
	suspension->copies = NULL;
	suspension->sleeps = false;
	atomic_store(&suspension->set, false);
	arena_unkeep_locked(arena);
	return copies;
}

#endif
