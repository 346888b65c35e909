/*
 * Guarded blocks: `guard:N`, an aid for finding programs that write outside of
 * their blocks or use freed memory.
 *
 * A guarded block lies between two blocks that are BLOCK_GUARD, its zones. The
 * zones, and what the size class has more than the request, hold a pattern. It
 * is looked at when the block is freed, at weir_trim() and at weir_check();
 * what was freed is filled with another. All of that waits for the device.
 */
#ifndef ALLOCATOR_OBSERVE_GUARD_H
#define ALLOCATOR_OBSERVE_GUARD_H

#include "allocator/memory/types.h"
#include "allocator/observe/fault.h"

/* Set the size of the zones, as the options of the first arena ask for. Under
 * the lock of the list of arenas. */
void guard_begin(size_t bytes);

/* Cut the zones off an ACTIVE block that was taken for a request of `size` and
 * two zones, and is not counted yet; *block is what lies between them.
 * WEIR_EHOSTMEM: the block is free again. Under the arena's lock. */
enum weir_status guard_cut(
    const struct options *options, size_t size, struct block **block);

/* Write the pattern into the zones of a block that was just allocated; with no
 * lock. If that fails the block is not checked later. */
void guard_fill(const void *ptr);

/* Check a block that is about to be freed, report overwritten bytes, and fill
 * the block if `poison`. Anything but a guarded block is ignored. Holds no
 * lock. */
void guard_look(const void *ptr, bool poison);

/*
 * Look at all live blocks of a device. With no lock held.
 *
 * @param check  gets the faults; NULL: they are logged, each once
 * @return the number of blocks whose zones were overwritten
 */
size_t guard_look_at_all(struct arena *arena, struct check *check);

#endif
