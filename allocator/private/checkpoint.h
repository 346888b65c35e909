/*
 * Checkpoints: the recorded state of an arena, and its restoration.
 */
#ifndef ALLOCATOR_PRIVATE_CHECKPOINT_H
#define ALLOCATOR_PRIVATE_CHECKPOINT_H

#include "allocator/state.h"

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
 * Record the present state of an arena. Holds no lock.
 *
 * @return WEIR_ENOTREADY a block waits for a stream, or memory is being mapped
 *         WEIR_ENOTSUP there is live device-scope memory WEIR_EHOSTMEM
 */
enum weir_status checkpoint_take(struct arena *arena, struct checkpoint **out);

/*
 * Free all live blocks and restore the arena's blocks: their addresses, sizes
 * and streams. Memory that was allocated from the driver since the checkpoint
 * stays, free. Holds no lock.
 *
 * @param out the caller frees it by restored_drop()
 * @return WEIR_EINVAL the checkpoint is not of this arena, or some of its
 *         memory is gone WEIR_ENOTREADY as above; or a live block has a stream
 *         use, or a stream cannot be made to wait for another WEIR_EHOSTMEM.
 *         Nothing has changed then
 */
enum weir_status checkpoint_restore(struct arena *arena,
    const struct checkpoint *checkpoint, struct restored *out);

void checkpoint_drop(struct checkpoint *checkpoint);
void restored_drop(struct restored *restored);

#endif
