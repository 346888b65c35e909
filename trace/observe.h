/*
 * Who wants to be told, and telling them with no lock held.
 */
#ifndef TRACE_OBSERVE_H
#define TRACE_OBSERVE_H

#include <stdatomic.h>

#include <weir/trace.h>

/* What there can be observers of: the kinds of enum weir_trace_kind, and
 * out-of-memory failures. */
enum { OBSERVE_OOM = WEIR_TRACE_KINDS, OBSERVE_KINDS };

/* How many there are of each. */
extern atomic_uint observe_counts[OBSERVE_KINDS];

static inline bool
observed(unsigned kind)
{
	return __builtin_expect(atomic_load_explicit(&observe_counts[kind],
				    memory_order_relaxed) != 0,
	    0);
}

/* weir_trace_callback_add() and _remove(), but for what the allocator has to do
 * besides. */
enum weir_status observe_add(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user);
enum weir_status observe_remove(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user);

/* Call every callback of trace->kind, and every out-of-memory observer. The
 * caller holds no lock. `struct_size` is set here. */
void observe(struct weir_trace trace);
void observe_oom(const struct weir_oom *oom);

/* The same for streams and events, where anybody listens. */
static inline void
observe_event(
    enum weir_trace_kind kind, int device, void *event, weir_stream stream)
{
	if (observed(kind))
		observe((struct weir_trace){ .kind = kind,
		    .device = device,
		    .event = event,
		    .stream = stream });
}

static inline void
observe_stream(enum weir_trace_kind kind, int device, weir_stream stream)
{
	observe_event(kind, device, NULL, stream);
}

#endif
