/*
 * Arenas whose memory must stay where it is.
 */
#ifndef ALLOCATOR_MEMORY_KEEP_H
#define ALLOCATOR_MEMORY_KEEP_H

#include "allocator/state.h"

/* Add or remove a keep: the arena's memory must stay where it is, or need not
 * any more. The caller holds no lock. */
void arena_keep(struct arena *arena);
void arena_unkeep(struct arena *arena);
/* Remove a keep once all work of the device that is queued now is done. The
 * caller holds no lock. */
void arena_unkeep_later(struct arena *arena);
/* Poll whether that work is done. Under the lock, from reclaim_poll(). */
void arena_poll_keeps(struct arena *arena) HOLDS(arena->lock);
/* Wait for that work, with the lock released. */
void arena_wait_keeps(struct arena *arena) HOLDS(arena->lock);

#endif
