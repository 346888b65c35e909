/*
 * Checkpoints: the recorded state of an arena, and its restoration.
 */
#ifndef ALLOCATOR_PRIVATE_CHECKPOINT_H
#define ALLOCATOR_PRIVATE_CHECKPOINT_H

#include "allocator/memory/types.h"

struct checkpoint;

/* Pointers that a restoration has freed, and pointers that are live after it
 * and belong to the caller. A pointer may be in both lists. */
struct restored {
	CUdeviceptr *freed;
	size_t n_freed;
	CUdeviceptr *live;
	size_t n_live;
};

/*
 * Record the state of an arena as it is now. Holds no lock.
 *
 * @return WEIR_ENOTREADY  a block waits for a stream, or memory is being mapped
 *         WEIR_ENOTSUP    there is live memory of no stream
 *         WEIR_EHOSTMEM
 */
enum weir_status checkpoint_take(struct arena *arena, struct checkpoint **out);

/*
 * Free what is live and make the arena look like that: the same blocks at the
 * same addresses, of the same streams. Memory that has come since stays, free.
 * Holds no lock.
 *
 * @param out  to be given back with restored_drop()
 * @return WEIR_EINVAL     the checkpoint is not of this arena, or memory of it
 *                         is gone
 *         WEIR_ENOTREADY  as above; or a block has a use, or a stream cannot be
 *                         put behind another
 *         WEIR_EHOSTMEM. Nothing has changed then
 */
enum weir_status checkpoint_restore(struct arena *arena,
    const struct checkpoint *checkpoint, struct restored *out);

void checkpoint_drop(struct checkpoint *checkpoint);
void restored_drop(struct restored *restored);

#endif
