/*
 * The observers, which are called with no lock held.
 */
#ifndef TRACE_OBSERVE_H
#define TRACE_OBSERVE_H

#include <stdatomic.h>

#include <weir/trace.h>

/* The kinds of observers: those of enum weir_trace_kind, observers of
 * out-of-memory failures, and observers of history events. */
enum { OBSERVE_OOM = WEIR_TRACE_KINDS, OBSERVE_MEMORY, OBSERVE_KINDS };

/* How many observers each kind has. */
#pragma GCC visibility push(hidden)
extern atomic_uint observe_counts[OBSERVE_KINDS];
#pragma GCC visibility pop

static inline bool
observed(unsigned kind)
{
	return __builtin_expect(atomic_load_explicit(&observe_counts[kind],
				    memory_order_relaxed) != 0,
	    0);
}

/* weir_trace_callback_add() and _remove(), without the work of the allocator.
 */
enum weir_status observe_add(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user);
enum weir_status observe_remove(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user);

/* Call every callback of trace->kind, or every out-of-memory observer. The
 * caller holds no lock. `struct_size` is set here. */
void observe(struct weir_trace trace);
void observe_oom(const struct weir_oom *oom);

/* weir_memory_observer_add() and _remove(), without the work of the allocator;
 * and the call of all memory observers, which may be made under an arena's
 * lock. */
enum weir_status observe_memory_add(weir_memory_observer observer, void *user);
enum weir_status observe_memory_remove(
    weir_memory_observer observer, void *user);
void observe_memory(const struct weir_memory_event *event);

/* Report what happened to a stream or an event, if there are observers. */
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
