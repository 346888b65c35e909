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
 * @param main    the device's own
 * @param source  NULL: the driver, and expandable segments
 * @param flags   of enum arena_flags
 * @return WEIR_EHOSTMEM
 */
enum weir_status arena_make(struct arena *main, const struct source *source,
    unsigned flags, struct arena **out);

/* Add an owner to an arena that is in use, or drop one. An arena without an
 * owner gives back its free memory, at once and at each later free. When all is
 * gone it is out of use and may become another's. Holds no lock. */
void arena_hold(struct arena *arena);
/* Add an owner to an arena that may have none; false if the arena has gone out
 * of use since that generation. */
bool arena_revive(struct arena *arena, uint64_t generation);
/* Has the arena not gone out of use since that generation? */
bool arena_lives(struct arena *arena, uint64_t generation);
size_t arena_drop(struct arena *arena);

/* Give back the free memory of an arena without an owner; returns the bytes.
 * Takes the lock. */
size_t arena_empty(struct arena *arena);

/* Empty all unowned arenas of a device, given its own arena; holds no lock. The
 * second takes any arena of the device. */
size_t arena_empty_all(struct arena *main);
static inline size_t
arena_empty_unowned(struct arena *arena)
{
	struct arena *main = arena->main;

	return atomic_load_explicit(&main->unowned, memory_order_relaxed) > 0 ?
	    arena_empty_all(main) :
	    0;
}

/* Have the other arenas of the device give back at least `want` bytes, first
 * without waiting; if that brings none, wait for their streams. Returns the
 * bytes given back. Holds no lock. */
size_t arena_ask_others(struct arena *arena, size_t want);

#endif
