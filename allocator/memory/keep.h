/*
 * Arenas whose memory must stay where it is.
 */
#ifndef ALLOCATOR_MEMORY_KEEP_H
#define ALLOCATOR_MEMORY_KEEP_H

#include "allocator/memory/types.h"

/* Its memory must stay where it is, or need not any more. Holds no lock. */
void arena_keep(struct arena *arena);
void arena_unkeep(struct arena *arena);
/* It need not when all work of the device that is queued now is done. */
void arena_unkeep_later(struct arena *arena);
/* Look whether that is so. Under the lock, from reclaim_poll(). */
void arena_poll_keeps(struct arena *arena);
/* Wait for it, with the lock left. */
void arena_wait_keeps(struct arena *arena);

#endif
