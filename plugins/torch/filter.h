/*
 * PyTorch's filters, in the form in which weir's routes call them.
 *
 * A thread that is checking routes may call a filter once more after its route
 * has ended (weir_route_filter()). So filters are in slots that are never
 * freed: a late call finds a closed slot, and the answer is no. A slot is used
 * again only after SLOTS_KEPT other slots have been closed.
 */
#ifndef PLUGINS_TORCH_FILTER_H
#define PLUGINS_TORCH_FILTER_H

#include "plugins/torch/weir_torch.h"

struct filter_slot;

/* Put a filter into a slot, which owns it then; NULL without memory. */
struct filter_slot *filter_open(const struct weir_torch_filter *filter);

/* Ask the filter about a stream; `slot` is a struct filter_slot. */
bool filter_ask(weir_stream stream, void *slot);

/* Return ownership of the filter to the caller: closing the slot does not drop
 * it. */
void filter_disown(struct filter_slot *slot);

/* Wait for running calls and drop the filter. From now on the answer is no. */
void filter_close(struct filter_slot *slot);

#endif
