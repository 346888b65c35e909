/*
 * The history: the latest events of each arena in a ring, and what the calls
 * that cause them bring along: thread, stack, texts.
 *
 * A ring belongs to an arena and is under its lock. Events are put there where
 * what they tell of is done, before the lock is left: the order of a ring is
 * the order of what happened (invariant I-14).
 *
 * A stack is taken before the lock, since that may take long or call Python. It
 * waits in the thread's own record of its call until the events are emitted.
 */
#ifndef TRACE_HISTORY_H
#define TRACE_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/trace.h>

#include "base/clock.h"
#include "trace/stack.h"

/* X(name): the actions, as PyTorch names them. */
#define TRACE_ACTIONS(X)                                                       \
	X(alloc)                                                               \
	X(free_requested)                                                      \
	X(free_completed)                                                      \
	X(segment_alloc)                                                       \
	X(segment_free)                                                        \
	X(segment_map)                                                         \
	X(segment_unmap)                                                       \
	X(oom)                                                                 \
	X(snapshot)

enum trace_action {
#define TRACE_ACTION_ENUM(name) TRACE_##name,
	TRACE_ACTIONS(TRACE_ACTION_ENUM)
#undef TRACE_ACTION_ENUM
	    TRACE_ACTION_COUNT
};

/* Which private pool: none, one of a graph, or one of the user's. */
struct trace_pool {
	uint32_t graph;
	uint32_t user;
};

/* An event as it is kept; 64 bytes. */
struct trace_event {
	/* Of the one who tells. */
	uint64_t addr; /* of oom: bytes that the device has free */
	uint64_t size; /* asked for; of segments, all of it */
	uint64_t stream;
	struct trace_pool pool;
	uint32_t granules; /* WEIR_GRANULE bytes of the block; 0: no block */
	uint32_t stack;    /* of the history's table; 0: none */
	uint32_t action;

	/* Added by history_emit(); the stack is taken away below ALLOC. */
	uint32_t thread; /* the system's number of it */
	uint32_t metadata;
	uint32_t compile;
	uint64_t ticks;
};

struct history_ring {
	struct trace_event *events; /* NULL: no memory yet, or none to be had */
	size_t bound;               /* events that are kept */
	size_t capacity; /* somewhat more, so that those can be copied */
	size_t at;       /* where the next goes */
	uint64_t next;   /* its number */
	uint64_t first;  /* number of the first since it was cleared */
	uint64_t there;  /* and of the first since there was this memory */
	bool refused;    /* there was no memory: not again */
};

/* ---- How it is kept ---------------------------------------------------- */

struct history_settings {
	enum weir_history_level level;
	enum weir_stacks stacks;
	size_t capacity;
	uint32_t skip; /* a bit for each action */
};

/* 1 while it is on, and the level above that; for history_on() and _level(). */
extern atomic_uint history_state;

static inline bool
history_on(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&history_state, memory_order_relaxed) != 0, 0);
}

/* The level; WEIR_HISTORY_NONE also while it is off. */
static inline enum weir_history_level
history_level(void)
{
	unsigned state =
	    atomic_load_explicit(&history_state, memory_order_relaxed);

	return (enum weir_history_level)(state >> 1);
}

/* Understand what the user asks for. WEIR_EINVAL, nothing has changed. */
enum weir_status history_read(
    const struct weir_history *asked, struct history_settings *out);

/* Keep it like this from now on, or not at all. Rings are the caller's to
 * adapt. WEIR_EHOSTMEM where stacks need a table. */
enum weir_status history_set(const struct history_settings *settings);
void history_unset(void);

/* ---- A call ------------------------------------------------------------ */

/*
 * A call begins that may change memory; with no lock held. From the level
 * `from` on its stack is taken: events of the calling thread have it until
 * history_leave(), and so have the blocks that history_stack() is asked for.
 */
static inline void history_enter(enum weir_history_level from);
static inline void history_leave(void);

/* The stack of the call, or 0. */
uint32_t history_stack(void);

/* What these two do while the history is on. */
void history_enter_on(enum weir_history_level from);
void history_leave_on(void);

static inline void
history_enter(enum weir_history_level from)
{
	if (history_on())
		history_enter_on(from);
}

static inline void
history_leave(void)
{
	if (history_on())
		history_leave_on();
}

/* ---- Rings ------------------------------------------------------------- */

/* All under the lock of the ring's arena. */

/* Add an event if the history is on and keeps such. */
void history_emit(struct history_ring *ring, struct trace_event event);

/* Bring a ring to the size that is in force; `clear` forgets all. */
void history_resize(struct history_ring *ring, bool clear);

/* Give its memory back. */
void history_close(struct history_ring *ring);

/* The number of the oldest event that is kept. */
uint64_t history_oldest(const struct history_ring *ring);

/* Copy events from number *from on, before number `end`, or from the oldest
 * one that is still there if that is later; *from becomes the number of the
 * first. Returns how many, at most n. */
size_t history_copy(const struct history_ring *ring, uint64_t *from,
    uint64_t end, struct trace_event *events, size_t n);

/* ---- For those who write ----------------------------------------------- */

const char *trace_action_name(enum trace_action action);

/* Of the time when the history began. */
struct clock_point history_began(void);

/* Where stacks of events are; NULL: there are none. Their numbers are at most
 * HISTORY_STACKS. */
enum {
	HISTORY_STACK_BYTES = 64 << 20,
	HISTORY_STACKS = HISTORY_STACK_BYTES / 8
};
struct stack_table *history_stacks(void);

/* The settings in force; of no use while it is off. */
struct history_settings history_settings(void);

/* ---- Annotations ------------------------------------------------------- */

struct trace_annotation {
	uint64_t ticks;
	uint32_t name; /* a text */
	int device;
	bool end; /* or START */
};

/* As history_copy(), of annotations. Takes their lock. */
size_t history_annotations(
    uint64_t *from, struct trace_annotation *out, size_t n);

#endif
