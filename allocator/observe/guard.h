/*
 * Guarded blocks: `guard:N`, an aid for finding programs that write outside of
 * their blocks or use freed memory.
 *
 * A guarded block lies between two BLOCK_GUARD blocks, its zones. The zones,
 * and the bytes of the block beyond the request, hold a pattern. weir checks
 * the pattern when the block is freed, at weir_trim() and at weir_check(), and
 * fills freed memory with another pattern. Each of these waits for the device.
 * While a stream of the device is captured, a freed block is neither checked
 * nor filled.
 */
#ifndef ALLOCATOR_OBSERVE_GUARD_H
#define ALLOCATOR_OBSERVE_GUARD_H

#include "allocator/observe/fault.h"
#include "allocator/state.h"

/* Set the size of the zones, once: the first call decides. Under the lock of
 * the list of arenas. */
void guard_begin(size_t bytes);

/* Cut the zones off an ACTIVE block that has room for a request of `size` and
 * two zones, and is not counted yet. *block becomes the part between the zones.
 * WEIR_EHOSTMEM: the block is free again. */
enum weir_status guard_cut(
    const struct options *options, size_t size, struct block **block);

/* Forget the stream on which zones of a device are written: it ended with the
 * device's context. Holds no lock. */
void guard_forget_device(int device);

/* Write the pattern into the zones of a block that was just allocated, after
 * the work of its stream. If that fails, as while the stream is captured, the
 * block is not checked later. Waits for the stream. Holds no lock. */
void guard_fill(const void *ptr);

/* Check a block that is about to be freed, report overwritten bytes, and fill
 * the block if `poison`. Anything but a guarded block is ignored. Holds no
 * lock. */
void guard_look(const void *ptr, bool poison);

/*
 * Check the guarded blocks of an arena. Holds no lock.
 *
 * @param check gets the faults; NULL: each is logged, once
 * @return how many blocks had overwritten zones
 */
size_t guard_look_at_all(struct arena *arena, struct check *check);

#endif
