/*
 * Arenas besides each device's own: arenas.c, Note [Other arenas].
 */
#ifndef ALLOCATOR_PRIVATE_ARENAS_H
#define ALLOCATOR_PRIVATE_ARENAS_H

#include "allocator/state.h"

/* Begin a new arena whose device, context, traits and `any` are set. `main` is
 * the device's own arena, perhaps this one. WEIR_EHOSTMEM. */
enum weir_status arena_begin(struct arena *arena, struct arena *main);

/*
 * Make an empty arena on a device, with one owner. Holds no lock.
 *
 * @param main the device's own arena
 * @param source  of its segments, which has the arena's traits; NULL: as for
 *                the device's own arena
 * @param flags   of enum arena_flags
 * @return WEIR_EHOSTMEM
 */
enum weir_status arena_make(struct arena *main, const struct source *source,
    unsigned flags, struct arena **out);

/* Add an owner to an arena that is in use, or drop one. An arena without an
 * owner gives back its free memory, at once and at each later free. When it has
 * none left it goes out of use, and arena_make() may use it again. Holds no
 * lock. */
void arena_hold(struct arena *arena);
/* Add an owner to an arena that may have none; false if the arena has gone out
 * of use since that generation. */
bool arena_revive(struct arena *arena, uint64_t generation);
/* Has the arena been in use all the time since that generation? */
bool arena_lives(struct arena *arena, uint64_t generation);
size_t arena_drop(struct arena *arena);

/* Give back the free memory of an arena without an owner; returns the bytes.
 * Takes the lock. */
size_t arena_empty(struct arena *arena);

/* Empty all unowned arenas of a device, given its own arena, or, the second,
 * any of its arenas. Returns the bytes given back. Holds no lock. */
size_t arena_empty_all(struct arena *main);
static inline size_t
arena_empty_unowned(struct arena *arena)
{
	struct arena *main = arena->main;

	return atomic_load_explicit(
		   &main->private.unowned, memory_order_relaxed) > 0 ?
	    arena_empty_all(main) :
	    0;
}

/* Make the arena give back at least `want` bytes that no work uses, without a
 * wait. Returns the bytes. Takes the lock. */
size_t arena_shed_idle(struct arena *arena, size_t want);

/* Make the other arenas of the device give back at least `want` bytes, first
 * without waiting. If none has any, wait for their streams. Returns the bytes
 * given back. Holds no lock. */
size_t arena_ask_others(struct arena *arena, size_t want);

#endif
