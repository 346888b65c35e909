/*
 * Filters of PyTorch's as weir's routes call them.
 *
 * A thread that has begun to look at routes may call a filter once more after
 * its route has ended (weir_route_filter()). So filters lie in slots that are
 * never given back to the system: a late call finds a slot that is closed, and
 * the answer is no. A slot is used again only after SLOTS_KEPT others.
 */
#ifndef PLUGINS_TORCH_FILTER_H
#define PLUGINS_TORCH_FILTER_H

#include "plugins/torch/weir_torch.h"

struct filter_slot;

/* A slot with a filter; NULL without memory. The filter is its own then. */
struct filter_slot *filter_open(const struct weir_torch_filter *filter);

/* The filter's answer for a stream; `slot` is a struct filter_slot. */
bool filter_ask(weir_stream stream, void *slot);

/* The filter is its giver's again: closing does not drop it. */
void filter_disown(struct filter_slot *slot);

/* Wait for calls that are under way, drop the filter, and say no from now on.
 */
void filter_close(struct filter_slot *slot);

#endif
