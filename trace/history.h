/*
 * The history: a ring of the latest events of each arena, with the thread,
 * stack and texts of the calls that caused them.
 *
 * A ring belongs to an arena and is guarded by the arena's lock. An event is
 * written under the lock that its change was made under, so the order of a ring
 * is the order of the changes (invariant I-14).
 *
 * A stack is taken before the arena is locked, because taking it may be slow or
 * call Python. The thread's own record of its call keeps the stack until the
 * events are emitted.
 */
#ifndef TRACE_HISTORY_H
#define TRACE_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/trace.h>

#include "base/clock.h"
#include "stacks/stack.h"
#include "trace/served.h"

enum trace_action {
#define TRACE_ACTION_ENUM(NAME, name) TRACE_##name,
	WEIR_ACTION_LIST(TRACE_ACTION_ENUM)
#undef TRACE_ACTION_ENUM
	    TRACE_ACTION_COUNT
};

/* A private pool's number: none, one of a graph, or one of the user's. */
struct trace_pool {
	uint32_t graph;
	uint32_t user;
};

/* One history event; 64 bytes. */
struct trace_event {
	/* Set by the caller. */
	uint64_t addr; /* of an oom event: the device's free bytes */
	uint64_t size; /* requested; of a segment event: its size */
	uint64_t stream;
	struct trace_pool pool;
	/* Size of the block in units of WEIR_GRANULE; 0: no block. */
	uint32_t granules;
	uint32_t stack; /* number in history_stacks(); 0: none */

	/* Set by history_add(). */
	uint8_t action;

	/* How an allocation was served, set by history_add_served(); else 0. A
	 * value that does not fit is stored as the largest that does. */
	uint8_t served_by; /* enum served_by */
	uint8_t waits;
	uint8_t waited_for; /* from history_number_stream() */

	uint32_t thread;   /* thread ID of the system */
	uint16_t metadata; /* number of a text, below TEXTS_MAX */
	uint16_t compile;
	uint16_t moved; /* handles that were moved */
	uint16_t grown; /* new memory, in units of HISTORY_GROWN */
	uint64_t ticks;
};

_Static_assert(sizeof(struct trace_event) == 64, "as <weir/trace.h> says");

enum { HISTORY_GROWN = 2 << 20 };

/* Record in an allocation's event how the calling thread's request was served
 * (trace/served.h). */
void history_add_served(struct trace_event *event);

/* How the allocation of an event was served. */
struct served history_served(const struct trace_event *event);

/* Number a stream that was waited for, so that an event can store it in one
 * byte: 1 and up, or 0 once HISTORY_WAITED other streams have numbers. */
enum { HISTORY_WAITED = 255 };
uint8_t history_number_stream(uint64_t handle);

struct history_ring {
	struct trace_event *events; /* NULL: not allocated yet, or no memory */
	/* Where the next event is written, or NULL. */
	struct trace_event *at;
	struct trace_event *end;
	size_t bound;    /* how many events the history promises to keep */
	size_t capacity; /* bound, and spare events for readers that copy */
	uint64_t next;   /* number of the next event */
	uint64_t first;  /* number of the first event since the last clear */
	uint64_t there;  /* number of the first event in this memory */
	bool refused;    /* allocation failed and is not tried again */
};

/* ---- How it is kept ---------------------------------------------------- */

struct history_settings {
	enum weir_history_level level;
	enum weir_stacks stacks;
	size_t capacity;
	uint32_t skip; /* a bit for each action that is not kept */
};

/* 0 while the history is off. Else bit 0 is set, the bits above it are the
 * level, and those above the level say which actions are kept.
 * HISTORY_OBSERVED, the highest bit, is set while observers are called at each
 * event (trace/observe.h), whether or not the history is on. */
enum {
	HISTORY_LEVEL = 1,
	HISTORY_KEPT = 3,
	HISTORY_OBSERVED = 1 << (HISTORY_KEPT + TRACE_ACTION_COUNT)
};
#pragma GCC visibility push(hidden)
extern atomic_uint history_state;
#pragma GCC visibility pop

/* Does the history or an observer want events? */
static inline bool
history_on(void)
{
	return __builtin_expect(
	    atomic_load_explicit(&history_state, memory_order_relaxed) != 0, 0);
}

/* Is the history on? */
static inline bool
history_is_kept(void)
{
	return (atomic_load_explicit(&history_state, memory_order_relaxed) &
		   1) != 0;
}

/* Set whether there are observers of events. */
void history_set_observed(bool observed);

static inline enum weir_history_level
history_level_of(unsigned state)
{
	return (enum weir_history_level)(
	    state >> HISTORY_LEVEL & WEIR_HISTORY_ALL);
}

/* The level; WEIR_HISTORY_NONE also while the history is off. */
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

/* Turn the history on with these settings, or off. The caller resizes the
 * rings. WEIR_EHOSTMEM if the table of stacks cannot be allocated. */
enum weir_status history_set(const struct history_settings *settings);
void history_unset(void);

/* ---- A call ------------------------------------------------------------ */

/*
 * Begin a call that may change memory; the caller holds no lock. If the level
 * is at least `from`, the call's stack is taken. The calling thread's events
 * have this stack until history_leave(), and blocks get it from
 * history_stack().
 */
static inline void history_enter(enum weir_history_level from);
static inline void history_leave(void);

/* The stack of the current call, or 0. */
static inline uint32_t history_stack(void);

/* The fields that all events of the calling thread share. */
struct history_thread {
	uint32_t stack;  /* of the current call */
	uint32_t thread; /* 0: the system has not been asked yet */
	uint32_t metadata;
	uint32_t compile; /* the innermost compile context */
};
extern _Thread_local struct history_thread history_here;

static inline uint32_t
history_stack(void)
{
	return history_here.stack;
}

/* Take the calling thread's stack, from the caller on. */
uint32_t history_take_stack(void);

/* Are stacks taken for calls that ask from this level on? */
static inline bool
history_takes_stacks(enum weir_history_level from)
{
	enum weir_history_level level = history_level();

	return level >= from && level > WEIR_HISTORY_NONE;
}

/* Always inlined, so that stacks begin with the caller's frame. */
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

/* All calls below need the lock of the ring's arena. */

/* The fields that all events of one moment share. */
struct history_stamp {
	unsigned state; /* history_state at that moment */
	struct history_thread by;
	uint64_t ticks;
};

/* Fill in a stamp for the current moment. */
static inline struct history_stamp history_stamp(void);

_Static_assert(WEIR_HISTORY_NONE == 0 && WEIR_HISTORY_STATE == 1 &&
	WEIR_HISTORY_ALLOC == 2 && WEIR_HISTORY_ALL == 3,
    "the levels from ALLOC on have its bit");

/* The stack to store in an event: 0 below the level ALLOC. */
static inline uint32_t
history_told(const struct history_stamp *stamp, uint32_t stack)
{
	return (stamp->state & WEIR_HISTORY_ALLOC << HISTORY_LEVEL) != 0 ?
	    stack :
	    0;
}

/* Were there observers at the moment of the stamp? */
static inline bool
history_observed(const struct history_stamp *stamp)
{
	return __builtin_expect((stamp->state & HISTORY_OBSERVED) != 0, 0);
}

/* Append an event, if the history is on and keeps this action. The event is
 * written in place: the caller fills in the other fields. NULL: there is no
 * event to fill in. */
static inline struct trace_event *history_add(struct history_ring *ring,
    enum trace_action action, const struct history_stamp *stamp);

/* Bring a ring to the size in force; `clear` drops all its events. */
void history_resize(struct history_ring *ring, bool clear);

/* Free the ring's memory. */
void history_close(struct history_ring *ring);

/* The number of the oldest event that is kept. */
uint64_t history_oldest(const struct history_ring *ring);

/* Copy at most n events with numbers from *from up to, but not including,
 * `end`. If the event *from is gone, begin with the oldest one there is; *from
 * is set to the number of the first event copied. Returns how many were copied.
 */
size_t history_copy(const struct history_ring *ring, uint64_t *from,
    uint64_t end, struct trace_event *events, size_t n);

/* The slow parts of history_stamp() and history_add(): number a thread at its
 * first event, and allocate a ring at its first event. False: no host memory.
 */
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

/* When the history began. */
struct clock_point history_began(void);

/* The table of the events' stacks; NULL if there is none. Its numbers are at
 * most HISTORY_STACKS. */
enum {
	HISTORY_STACK_BYTES = 64 << 20,
	HISTORY_STACKS = HISTORY_STACK_BYTES / 8
};
struct stack_table *history_stacks(void);

/* The settings in force; while the history is off, level NONE and all actions.
 */
struct history_settings history_settings(void);

/* ---- Annotations ------------------------------------------------------- */

struct trace_annotation {
	uint64_t ticks;
	uint32_t name; /* number of a text */
	int device;
	bool end; /* the region ends here; else it begins */
};

/* history_copy() for annotations. Takes their lock. */
size_t history_annotations(
    uint64_t *from, struct trace_annotation *out, size_t n);

#endif
