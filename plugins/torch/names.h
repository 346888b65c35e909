/*
 * PyTorch's names of weir's pools. They are read while weir holds its own
 * locks, so no function is called while this lock is held.
 */
#ifndef PLUGINS_TORCH_NAMES_H
#define PLUGINS_TORCH_NAMES_H

#include "plugins/torch/weir_torch.h"

/* Store the name of a pool of weir. WEIR_EHOSTMEM. */
enum weir_status names_add(
    int device, const uint64_t segment_id[2], struct weir_torch_id id);

/* Remove the name of a pool. */
void names_remove(int device, const uint64_t segment_id[2]);

#endif
