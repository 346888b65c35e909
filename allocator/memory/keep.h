/*
 * Arenas whose memory must stay where it is.
 */
#ifndef ALLOCATOR_MEMORY_KEEP_H
#define ALLOCATOR_MEMORY_KEEP_H

#include "allocator/state.h"

/* Must the arena's memory stay where it is? */
static inline bool
arena_is_kept(const struct arena *arena)
{
	return arena->memory.kept > 0;
}

/* Do all keeps end once work of the device is done that was queued before? */
static inline bool
arena_keeps_end(const struct arena *arena)
{
	return arena->memory.kept > 0 &&
	    arena->memory.kept == arena->memory.keeps_ending;
}

/* Add or remove a keep under the lock. */
static inline void
arena_keep_locked(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	arena->memory.kept++;
}
static inline void
arena_unkeep_locked(struct arena *arena) HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena->memory.kept > arena->memory.keeps_ending);
	arena->memory.kept--;
}

/* Add or remove a keep: the arena's memory must stay where it is, or need not
 * any more. The caller holds no lock. */
void arena_keep(struct arena *arena);
void arena_unkeep(struct arena *arena);
/* Remove a keep once all work of the device that is queued now is done. The
 * caller holds no lock. */
void arena_unkeep_later(struct arena *arena);
/* Poll whether that work is done. */
void arena_poll_keeps(struct arena *arena) HOLDS(arena->lock);
/* Wait for that work, with the lock released. */
void arena_wait_keeps(struct arena *arena) HOLDS(arena->lock);

#endif
