/*
 * PyTorch's names of weir's pools. Looked at while weir holds locks of its own,
 * so under a lock that nothing is called with.
 */
#ifndef PLUGINS_TORCH_NAMES_H
#define PLUGINS_TORCH_NAMES_H

#include "plugins/torch/weir_torch.h"

/* Weir's pool has a name from now on. WEIR_EHOSTMEM. */
enum weir_status names_add(
    int device, const uint64_t segment_id[2], struct weir_torch_id id);

/* And none any more. */
void names_remove(int device, const uint64_t segment_id[2]);

#endif
