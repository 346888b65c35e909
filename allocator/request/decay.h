/*
 * Gives memory that has not been used for a while back to the driver.
 */
#ifndef ALLOCATOR_REQUEST_DECAY_H
#define ALLOCATOR_REQUEST_DECAY_H

#include "allocator/memory/arena.h"

/* Is it time to call decay_run()? */
static inline bool
decay_is_due(const struct arena *arena)
{
	return (arena->cache.served & (arena->traits.decay_requests - 1)) == 0;
}

/* Give back memory that has not been used for long: Note [Decay]. May release
 * and retake the lock. */
void decay_run(struct arena *arena, const struct options *options)
    HOLDS(arena->lock);
/* Is there memory that is due and has not gone back yet? */
static inline bool
decay_is_under_way(const struct arena *arena)
{
	return arena->request.decay.due != 0;
}

/* Note that new memory is needed: memory that decayed was perhaps given back
 * too soon. */
void decay_regret(struct arena *arena) HOLDS(arena->lock);

/* Forget the ticks, and when streams were polled, for an arena that goes out of
 * use: it counts its requests from 0 again. */
static inline void
decay_forget(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->request.decay = (struct decay){ 0 };
	arena->request.polled = 0;
}

#endif
