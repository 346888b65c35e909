/*
 * The history: the latest events of each arena in a ring, with the thread,
 * stack and texts of the calls that cause them.
 *
 * A ring belongs to an arena and is guarded by the arena's lock. An event is
 * written under the lock that its change was made under, so the order of a ring
 * is the order of the changes (invariant I-14).
 *
 * A stack is taken before the lock, since that may take long or call Python.
 * The thread's own record of its call keeps it until the events are emitted.
 */
#ifndef TRACE_HISTORY_H
#define TRACE_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/trace.h>

#include "base/clock.h"
#include "trace/served.h"
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
	/* Set by the caller. */
	uint64_t addr; /* of oom: bytes that the device has free */
	uint64_t size; /* asked for; of segments, all of it */
	uint64_t stream;
	struct trace_pool pool;
	uint32_t granules; /* WEIR_GRANULE bytes of the block; 0: no block */
	uint32_t stack;    /* of the history's table; 0: none */

	/* Set by history_add(). */
	uint8_t action;

	/* How an allocation was served, by history_add_served(); else 0. What
	 * does not fit is the largest number there is. */
	uint8_t served_by; /* enum served_by */
	uint8_t waits;
	uint8_t waited_for; /* a number of history_number_stream() */

	uint32_t thread;   /* the system's number of it */
	uint16_t metadata; /* texts, which are TEXTS_MAX at most */
	uint16_t compile;
	uint16_t moved; /* handles */
	uint16_t grown; /* new memory, in units of HISTORY_GROWN */
	uint64_t ticks;
};

_Static_assert(sizeof(struct trace_event) == 64, "as <weir/trace.h> says");

enum { HISTORY_GROWN = 2 << 20 };

/* Say in the event of an allocation how the calling thread's request for it was
 * served: trace/served.h. */
void history_add_served(struct trace_event *event);

/* How the allocation of an event was served. */
struct served history_served(const struct trace_event *event);

/* A stream that was waited for, as a number that events have room for: from 1
 * on, or 0 once there have been HISTORY_WAITED others. */
enum { HISTORY_WAITED = 255 };
uint8_t history_number_stream(uint64_t handle);

struct history_ring {
	struct trace_event *events; /* NULL: no memory yet, or none to be had */
	struct trace_event *at;     /* where the next goes; NULL too */
	struct trace_event *end;
	size_t bound;    /* events that are kept */
	size_t capacity; /* somewhat more, so that those can be copied */
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

/* While it is on 1, above that the level, and above that a bit for each action
 * that is kept; else 0. For what follows. The bit above all of these says that
 * observers are called at each event (trace/observe.h), history or not. */
enum {
	HISTORY_LEVEL = 1,
	HISTORY_KEPT = 3,
	HISTORY_OBSERVED = 1 << (HISTORY_KEPT + TRACE_ACTION_COUNT)
};
#pragma GCC visibility push(hidden)
extern atomic_uint history_state;
#pragma GCC visibility pop

/* Events are wanted: by the history, or by observers. */
static inline bool
history_on(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&history_state, memory_order_relaxed) != 0, 0);
}

/* Events are kept. */
static inline bool
history_is_kept(void)
{
	return (atomic_load_explicit(&history_state, memory_order_relaxed) &
		   1) != 0;
}

/* Observers are there, or are no more. */
void history_set_observed(bool observed);

static inline enum weir_history_level
history_level_of(unsigned state)
{
	return (enum weir_history_level)(
	    state >> HISTORY_LEVEL & WEIR_HISTORY_ALL);
}

/* The level; WEIR_HISTORY_NONE also while it is off. */
static inline enum weir_history_level
history_level(void)
{
	return history_level_of(
	    atomic_load_explicit(&history_state, memory_order_relaxed));
}

/* Parse the settings that the user asks for. WEIR_EINVAL: nothing has
 * changed. */
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
static inline uint32_t history_stack(void);

/* The fields that all events of the calling thread share. */
struct history_thread {
	uint32_t stack;  /* of the call that is under way */
	uint32_t thread; /* 0: the system has not been asked yet */
	uint32_t metadata;
	uint32_t compile; /* the innermost context */
};
extern _Thread_local struct history_thread history_here;

static inline uint32_t
history_stack(void)
{
	return history_here.stack;
}

/* The calling thread's stack, from the caller on. */
uint32_t history_take_stack(void);

/* Does a call have its stack taken, from this level on? */
static inline bool
history_takes_stacks(enum weir_history_level from)
{
	enum weir_history_level level = history_level();

	return level >= from && level > WEIR_HISTORY_NONE;
}

/* Always a part of its caller: with that stacks begin. */
static inline __attribute__((always_inline)) void
history_enter(enum weir_history_level from)
{
	if (history_on())
		history_here.stack =
		    history_takes_stacks(from) ? history_take_stack() : 0;
}

static inline void
history_leave(void)
{
	if (history_on())
		history_here.stack = 0;
}

/* ---- Rings ------------------------------------------------------------- */

/* All under the lock of the ring's arena. */

/* The fields that all events of one moment share. */
struct history_stamp {
	unsigned state; /* of the history */
	struct history_thread by;
	uint64_t ticks;
};

/* The fields of events of this moment. */
static inline struct history_stamp history_stamp(void);

_Static_assert(WEIR_HISTORY_NONE == 0 && WEIR_HISTORY_STATE == 1 &&
	WEIR_HISTORY_ALLOC == 2 && WEIR_HISTORY_ALL == 3,
    "the levels from ALLOC on have its bit");

/* A stack as events have it: none below the level ALLOC. */
static inline uint32_t
history_told(const struct history_stamp *stamp, uint32_t stack)
{
	return (stamp->state & WEIR_HISTORY_ALLOC << HISTORY_LEVEL) != 0 ?
	    stack :
	    0;
}

/* Are observers to be called at this moment? */
static inline bool
history_observed(const struct history_stamp *stamp)
{
	return __builtin_expect((stamp->state & HISTORY_OBSERVED) != 0, 0);
}

/* Add an event, if the history is on and keeps such. It is written once, where
 * it stays: the caller fills in the rest. NULL: there is nothing to fill in. */
static inline struct trace_event *history_add(struct history_ring *ring,
    enum trace_action action, const struct history_stamp *stamp);

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

/* The slow parts of history_stamp() and history_add(): number a thread at its
 * first event, and allocate a ring at its first. False: no host memory. */
uint32_t history_number_thread(void);
bool history_open(struct history_ring *ring);

static inline struct history_stamp
history_stamp(void)
{
	struct history_stamp stamp = {
		.state =
		    atomic_load_explicit(&history_state, memory_order_relaxed),
		.by = history_here,
		.ticks = clock_ticks(),
	};

	if (__builtin_expect(stamp.by.thread == 0, 0))
		stamp.by.thread = history_number_thread();
	return stamp;
}

static inline struct trace_event *
history_add(struct history_ring *ring, enum trace_action action,
    const struct history_stamp *stamp)
{
	if ((stamp->state & 1u << HISTORY_KEPT << action) == 0)
		return NULL;
	if (__builtin_expect(ring->at == NULL, 0) && !history_open(ring)) {
		ring->next++;
		return NULL;
	}
	struct trace_event *event = ring->at;
	ring->at = event + 1 == ring->end ? ring->events : event + 1;
	ring->next++;
	event->moved = 0;
	event->grown = 0;
	event->action = (uint8_t)action;
	event->served_by = 0;
	event->waits = 0;
	event->waited_for = 0;
	event->thread = stamp->by.thread;
	event->metadata = (uint16_t)stamp->by.metadata;
	event->compile = (uint16_t)stamp->by.compile;
	event->ticks = stamp->ticks;
	return event;
}

/* ---- For those who write ----------------------------------------------- */

const char *trace_action_name(enum trace_action action);

/* The moment when the history began. */
struct clock_point history_began(void);

/* Where stacks of events are; NULL: there are none. Their numbers are at most
 * HISTORY_STACKS. */
enum {
	HISTORY_STACK_BYTES = 64 << 20,
	HISTORY_STACKS = HISTORY_STACK_BYTES / 8
};
struct stack_table *history_stacks(void);

/* The settings in force; while it is off, NONE and all actions. */
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
