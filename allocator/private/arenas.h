/*
 * Arenas besides the one that each device has: arenas.c, Note [Other
 * arenas].
 */
#ifndef ALLOCATOR_PRIVATE_ARENAS_H
#define ALLOCATOR_PRIVATE_ARENAS_H

#include "allocator/memory/types.h"

/*
 * An arena of its own on a device, with one owner; empty. Holds no lock.
 *
 * @param source  NULL: the driver, and expandable segments
 * @param flags   of enum arena_flags
 * @return WEIR_EHOSTMEM; any failure of arena_get()
 */
enum weir_status arena_make(int device, const struct source *source,
    unsigned flags, struct arena **out);

/* One owner more of an arena that is not out of use, or less. With no owner
 * left an arena gives back what is free, and at each free more of it, and is of
 * no use to anyone when all is gone. Holds no lock. */
void arena_hold(struct arena *arena);
/* One owner more, of an arena that may have none, but if it is still what it
 * was in that generation; else false. */
bool arena_revive(struct arena *arena, uint64_t generation);
/* Is it that still? */
bool arena_lives(struct arena *arena, uint64_t generation);
size_t arena_drop(struct arena *arena);

/* Give back what an arena that nobody owns can; the bytes. Takes the lock. */
size_t arena_empty(struct arena *arena);

/* The same for all of a device, given its own arena, or any. Holds no lock. */
size_t arena_empty_all(struct arena *main);
static inline size_t
arena_empty_unowned(struct arena *arena)
{
	struct arena *main = arena->main;

	return atomic_load_explicit(&main->unowned, memory_order_relaxed) > 0 ?
	    arena_empty_all(main) :
	    0;
}

/* Let the other arenas of the device give back at least `want` bytes, first
 * those that nobody waits for; the bytes given back. Holds no lock. */
size_t arena_ask_others(struct arena *arena, size_t want);

#endif
