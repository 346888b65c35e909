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

/* A request of PyTorch begins and ends on this thread. They may be nested. */
void filter_request_begin(void);
void filter_request_end(void);

/*
 * Is this thread's request for a stream to be routed? `slot` is a struct
 * filter_slot. The filter is asked about requests of PyTorch and about streams
 * that are captured: Note [Requests of others].
 */
bool filter_ask(weir_stream stream, void *slot);

/* Is the stream captured? False if the driver cannot say. */
bool filter_captured(weir_stream stream);

/* Return ownership of the filter to the caller: closing the slot does not drop
 * it. */
void filter_disown(struct filter_slot *slot);

/* Wait for running calls and drop the filter. From now on the answer is no. */
void filter_close(struct filter_slot *slot);

#endif
