/*
 * Copies the contents of a suspended arena to page-locked host memory and back.
 */
#ifndef GRAPHS_SUSPEND_COPIES_H
#define GRAPHS_SUSPEND_COPIES_H

#include "allocator/memory/handle.h"

struct copies;

/* A range to copy, within one segment. */
struct copy_range {
	CUdeviceptr addr;
	size_t size;
};

/*
 * Copy ranges of an arena's memory to host memory, and wait for the copies. All
 * work on the memory must be done, and its handles must not change. Between
 * driver_enter() and driver_leave(); the caller holds no lock.
 *
 * @param ranges  in the order of handles_next(), mapped throughout; NULL: all
 *                memory of the arena
 * @return WEIR_EHOSTMEM, WEIR_EDRIVER: all is released then
 */
enum weir_status copies_take(const struct arena *arena,
    const struct copy_range *ranges, size_t range_count, struct copies **out);

/* Bytes of the contents. */
size_t copies_bytes(const struct copies *copies);

/*
 * Copy back while memory is mapped again. Call copies_begin(); then
 * copies_queue() for each handle that has been mapped, in the order of
 * handles_next(), which queues the pieces that the handle completes; then
 * copies_wait(), also after a failure, until no copy is under way. This may be
 * repeated. copies_queue() and copies_wait() are called between driver_enter()
 * and driver_leave().
 */
void copies_begin(struct copies *copies);
enum weir_status copies_queue(
    struct copies *copies, const struct handle *handle);
enum weir_status copies_wait(const struct copies *copies);

/* Free the host memory, which is then cached: Note [Copies]. NULL does nothing.
 * The caller holds no lock. */
void copies_drop(struct copies *copies);

/* Bytes of the structure itself, which alone remains to be freed when the
 * context is gone. */
size_t copies_size(const struct copies *copies);

#endif
