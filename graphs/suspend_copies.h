/*
 * Copies of the contents of a suspended arena, in page-locked host memory.
 */
#ifndef GRAPHS_SUSPEND_COPIES_H
#define GRAPHS_SUSPEND_COPIES_H

#include "allocator/memory/handle.h"

struct copies;

/*
 * Copy all memory of an arena out; the copies are complete. All work on it is
 * done, and nobody changes its handles. Between driver_enter() and
 * driver_leave(); holds no lock.
 *
 * @return WEIR_EHOSTMEM, WEIR_EDRIVER: nothing is left behind then
 */
enum weir_status copies_take(const struct arena *arena, struct copies **out);

/*
 * Copy back, as memory is mapped again: begin; for each handle that has been
 * mapped, in the order of handles_next(), queue what it completes; and wait,
 * also after a failure, until no copy is under way. As often as need be.
 * copies_queue() and copies_wait() between driver_enter() and driver_leave().
 */
void copies_begin(struct copies *copies);
enum weir_status copies_queue(
    struct copies *copies, const struct handle *handle);
enum weir_status copies_wait(const struct copies *copies);

/* Give the memory to the cache of page-locked memory: Note [Copies]. NULL does
 * nothing. Holds no lock. */
void copies_drop(struct copies *copies);

/* Bytes of the structure itself: it is all that is left of copies when their
 * context goes. */
size_t copies_size(const struct copies *copies);

#endif
