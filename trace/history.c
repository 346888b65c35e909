/*
 * The settings of the history, the texts of a thread, and the rings.
 */
#include "trace/history.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "stacks/python.h"
#include "stacks/recall.h"
#include "stacks/text.h"
#include "trace/tuning.h"

atomic_uint history_state;

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HISTORY);
/* Written under the lock, read without it. */
static atomic_uint stacks_wanted;
static atomic_size_t capacity;
/* Created when stacks are first wanted and never freed, because other threads
 * may be reading it. */
static _Atomic(struct stack_table *) stacks;
static struct clock_point began GUARDED_BY(lock);

_Thread_local struct history_thread history_here;

/* More data of a thread, used by this file only. */
static _Thread_local struct {
	unsigned depth; /* number of open compile contexts */
	uint32_t contexts[HISTORY_CONTEXTS];
	/* Taking a stack, during which Python may free memory. */
	bool capturing;
} here;

enum { ALL_ACTIONS = (1 << TRACE_ACTION_COUNT) - 1 };
_Static_assert(HISTORY_KEPT + TRACE_ACTION_COUNT < 31, "a bit for each");

/* ---- Settings ---------------------------------------------------------- */

const char *
trace_action_name(enum trace_action action)
{
	static const char *const names[] = {
#define ACTION_NAME(NAME, name) #name,
		WEIR_ACTION_LIST(ACTION_NAME)
#undef ACTION_NAME
	};

	return names[action];
}

/* The bit of the action with this name; 0 if there is none. */
static uint32_t
action_bit(const char *text, size_t length)
{
	for (unsigned i = 0; i < TRACE_ACTION_COUNT; i++) {
		const char *name = trace_action_name((enum trace_action)i);
		if (strlen(name) == length && strncmp(name, text, length) == 0)
			return 1u << i;
	}
	return 0;
}

static enum weir_status
read_skip(const char *text, uint32_t *out)
{
	*out = 0;
	while (text != NULL && *text != '\0') {
		size_t length = strcspn(text, ",");
		uint32_t bit = action_bit(text, length);
		if (bit == 0)
			return status_set(WEIR_EINVAL,
			    "weir_history_start: skip: unknown action %.*s",
			    (int)length, text);
		*out |= bit;
		text += length;
		text += *text == ',';
	}
	return WEIR_OK;
}

enum weir_status
history_read(const struct weir_history *asked, struct history_settings *out)
{
	struct weir_history all = { .struct_size = sizeof(all),
		.level = WEIR_HISTORY_ALL };

	if (asked == NULL)
		asked = &all;
	if (asked->struct_size < sizeof(*asked))
		return status_set(
		    WEIR_EINVAL, "weir_history_start: struct_size is not set");
	if ((unsigned)asked->level > WEIR_HISTORY_ALL)
		return status_set(WEIR_EINVAL,
		    "weir_history_start: unknown level %d", (int)asked->level);
	if ((unsigned)asked->stacks > WEIR_STACKS_PYTHON)
		return status_set(WEIR_EINVAL,
		    "weir_history_start: unknown stacks %d",
		    (int)asked->stacks);
	size_t entries = asked->max_entries;
	if (entries >
	    SIZE_MAX / sizeof(struct trace_event) - HISTORY_RING_SPARE)
		return status_set(WEIR_EINVAL,
		    "weir_history_start: max_entries %zu is too many", entries);
	out->level = asked->level;
	out->stacks = asked->stacks;
	out->capacity = entries != 0 ? entries : WEIR_HISTORY_ENTRIES;
	return read_skip(asked->skip, &out->skip);
}

static enum weir_status
make_stacks(void) HOLDS(lock)
{
	if (atomic_load(&stacks) != NULL)
		return WEIR_OK;
	struct stack_table *table = stack_table_create(HISTORY_STACK_BYTES);
	if (table == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for stacks");
	atomic_store(&stacks, table);
	return WEIR_OK;
}

enum weir_status
history_set(const struct history_settings *settings)
{
	enum weir_status status = WEIR_OK;

	if (settings->level > WEIR_HISTORY_NONE) {
		python_look();
		recall_prepare();
	}
	lock_enter(&lock);
	if (settings->level > WEIR_HISTORY_NONE)
		status = make_stacks();
	if (status == WEIR_OK) {
		if (!history_is_kept())
			began = clock_now();
		atomic_store(&stacks_wanted, settings->stacks);
		atomic_store(&capacity, settings->capacity);
		atomic_store(&history_state,
		    1 | (unsigned)settings->level << HISTORY_LEVEL |
			(ALL_ACTIONS & ~settings->skip) << HISTORY_KEPT |
			(atomic_load(&history_state) & HISTORY_OBSERVED));
	}
	lock_leave(&lock);
	return status;
}

struct history_settings
history_settings(void)
{
	unsigned state = atomic_load(&history_state);
	uint32_t kept = (state & 1) != 0 ? state >> HISTORY_KEPT : ALL_ACTIONS;

	return (struct history_settings){
		.level = history_level_of(state),
		.stacks = (enum weir_stacks)atomic_load(&stacks_wanted),
		.capacity = atomic_load(&capacity),
		.skip = ALL_ACTIONS & ~kept,
	};
}

void
history_set_observed(bool observed)
{
	lock_enter(&lock);
	if (observed)
		atomic_fetch_or(&history_state, HISTORY_OBSERVED);
	else
		atomic_fetch_and(&history_state, ~(unsigned)HISTORY_OBSERVED);
	lock_leave(&lock);
}

struct clock_point
history_began(void)
{
	lock_enter(&lock);
	struct clock_point point = began;
	lock_leave(&lock);
	return point;
}

struct stack_table *
history_stacks(void)
{
	return atomic_load(&stacks);
}

/* ---- A call ------------------------------------------------------------ */

/* Take the C frames, followed by the Python frames. */
uint32_t
history_take_stack(void)
{
	void *frames[STACK_FRAMES_MAX];
	bool all = atomic_load_explicit(&stacks_wanted, memory_order_relaxed) ==
	    WEIR_STACKS_ALL;
	size_t python = 0;
	size_t c = 0;

	if (here.capturing)
		return 0;
	here.capturing = true;
	if (python_found())
		python = python_capture(frames,
		    all ? STACK_FRAMES_MAX - HISTORY_C_FRAMES :
			  STACK_FRAMES_MAX);
	if (all && python > 0) {
		memmove(frames + HISTORY_C_FRAMES, frames,
		    python * sizeof(*frames));
		c = recall_capture(frames, HISTORY_C_FRAMES, 1);
		memmove(frames + c, frames + HISTORY_C_FRAMES,
		    python * sizeof(*frames));
	} else if (all) {
		c = recall_capture(frames, STACK_FRAMES_MAX, 1);
	}
	here.capturing = false;
	return stack_table_intern(atomic_load(&stacks), frames, c + python);
}

void
weir_python_hold(void)
{
	if (os_forked())
		return;
	if (history_takes_stacks(WEIR_HISTORY_STATE))
		python_hold();
}

void
weir_python_drop(void)
{
	if (os_forked())
		return;
	python_drop();
}

/* ---- Rings ------------------------------------------------------------- */

bool
history_open(struct history_ring *ring)
{
	size_t bound = atomic_load(&capacity);
	size_t n = bound + HISTORY_RING_SPARE;

	if (ring->refused || bound == 0)
		return false;
	ring->events = meta_map(n * sizeof(*ring->events));
	ring->at = ring->events;
	ring->refused = ring->events == NULL;
	ring->bound = bound;
	ring->capacity = n;
	ring->there = ring->next;
	if (ring->refused)
		return false;
	ring->end = ring->events + n;
	return true;
}

uint32_t
history_number_thread(void)
{
	history_here.thread = (uint32_t)syscall(SYS_gettid);
	return history_here.thread;
}

/* The number of events in the ring, at most `most`. */
static uint64_t
held(const struct history_ring *ring, size_t most)
{
	uint64_t n = ring->next - ring->there;

	if (ring->events == NULL)
		return 0;
	return n < most ? n : most;
}

uint64_t
history_oldest(const struct history_ring *ring)
{
	return ring->next - held(ring, ring->bound);
}

size_t
history_copy(const struct history_ring *ring, uint64_t *from, uint64_t end,
    struct trace_event *events, size_t n)
{
	uint64_t oldest = ring->next - held(ring, ring->capacity);

	if (*from < oldest)
		*from = oldest;
	if (end > ring->next)
		end = ring->next;
	if (*from >= end)
		return 0;
	if (n > end - *from)
		n = (size_t)(end - *from);
	size_t back = (size_t)(ring->next - *from);
	size_t at = (size_t)(ring->at - ring->events);
	size_t start = at >= back ? at - back : at + ring->capacity - back;
	size_t whole = ring->capacity - start < n ? ring->capacity - start : n;
	memcpy(events, ring->events + start, whole * sizeof(*events));
	memcpy(events + whole, ring->events, (n - whole) * sizeof(*events));
	return n;
}

void
history_close(struct history_ring *ring)
{
	meta_unmap(ring->events, ring->capacity * sizeof(*ring->events));
	*ring = (struct history_ring){ 0 };
}

void
history_resize(struct history_ring *ring, bool clear)
{
	struct history_ring old = *ring;

	ring->refused = false;
	if (clear) {
		history_close(ring);
		return;
	}
	if (old.events == NULL || old.bound == atomic_load(&capacity))
		return;
	if (!history_open(ring)) {
		*ring = old;
		return;
	}
	uint64_t first = history_oldest(&old);
	if (old.next - first > ring->bound)
		first = old.next - ring->bound;
	ring->at +=
	    history_copy(&old, &first, old.next, ring->events, ring->bound);
	ring->there = first;
	meta_unmap(old.events, old.capacity * sizeof(*old.events));
}

/* ---- How allocations were served --------------------------------------- */

/* The handle of the stream with number i + 1; 0: unused. Entries stay, because
 * events refer to them. */
static _Atomic(uint64_t) waited[HISTORY_WAITED];

uint8_t
history_number_stream(uint64_t handle)
{
	for (unsigned i = 0; handle != 0 && i < HISTORY_WAITED; i++) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(
			&waited[i], &there, handle) ||
		    there == handle)
			return (uint8_t)(i + 1);
	}
	return 0;
}

static uint64_t
at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

void
history_add_served(struct trace_event *event)
{
	const struct served *served = &served_here.served;
	uint64_t grown =
	    (served->grown_bytes + HISTORY_GROWN - 1) / HISTORY_GROWN;

	event->served_by = (uint8_t)served->by;
	event->waits = (uint8_t)at_most(served->waits, UINT8_MAX);
	event->waited_for = history_number_stream(served->waited_for);
	event->moved = (uint16_t)at_most(served->moved, UINT16_MAX);
	event->grown = (uint16_t)at_most(grown, UINT16_MAX);
}

struct served
history_served(const struct trace_event *event)
{
	unsigned number = event->waited_for;

	return (struct served){ .by = (enum served_by)event->served_by,
		.waits = event->waits,
		.waited_for = number > 0 ? atomic_load(&waited[number - 1]) : 0,
		.moved = event->moved,
		.grown_bytes = event->grown * (uint64_t)HISTORY_GROWN };
}

/* ---- Texts of a thread ------------------------------------------------- */

enum weir_status
weir_metadata_set(const char *text)
{
	if (os_forked())
		return status_forked("weir_metadata_set");
	return text_intern(text, &history_here.metadata);
}

const char *
weir_metadata_get(void)
{
	return text_get(history_here.metadata);
}

enum weir_status
weir_compile_context_push(const char *name)
{
	if (os_forked())
		return status_forked("weir_compile_context_push");
	uint32_t id;

	if (name == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_compile_context_push: name is NULL");
	enum weir_status status = text_intern(name, &id);
	if (status != WEIR_OK)
		return status;
	if (here.depth < HISTORY_CONTEXTS) {
		here.contexts[here.depth] = history_here.compile;
		history_here.compile = id;
	}
	here.depth++;
	return WEIR_OK;
}

enum weir_status
weir_compile_context_pop(void)
{
	if (os_forked())
		return status_forked("weir_compile_context_pop");
	if (here.depth == 0)
		return status_set(
		    WEIR_EINVAL, "weir_compile_context_pop: there is none");
	if (--here.depth < HISTORY_CONTEXTS)
		history_here.compile = here.contexts[here.depth];
	return WEIR_OK;
}

/* ---- Annotations ------------------------------------------------------- */

/* The annotations have a ring of their own, with the same capacity. */
static struct {
	struct trace_annotation *entries;
	size_t capacity;
	uint64_t next;
} notes GUARDED_BY(lock);

static enum weir_status
add_annotation(const struct trace_annotation *entry) HOLDS(lock)
{
	if (notes.entries == NULL) {
		notes.capacity = atomic_load(&capacity);
		notes.entries =
		    meta_map(notes.capacity * sizeof(*notes.entries));
		if (notes.entries == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for annotations");
	}
	notes.entries[notes.next++ % notes.capacity] = *entry;
	return WEIR_OK;
}

enum weir_status
weir_annotate(const char *name, enum weir_stage stage, int device)
{
	if (os_forked())
		return status_forked("weir_annotate");
	struct trace_annotation entry = { .end = stage == WEIR_STAGE_END,
		.device = device < 0 ? 0 : device };
	enum weir_status status = WEIR_OK;

	if (name == NULL)
		return status_set(WEIR_EINVAL, "weir_annotate: name is NULL");
	if ((unsigned)stage > WEIR_STAGE_END)
		return status_set(
		    WEIR_EINVAL, "weir_annotate: unknown stage %d", (int)stage);
	if (!history_is_kept())
		return WEIR_OK;
	status = text_intern(name, &entry.name);
	if (status != WEIR_OK)
		return status;
	lock_enter(&lock);
	entry.ticks = clock_ticks();
	if (history_is_kept())
		status = add_annotation(&entry);
	lock_leave(&lock);
	return status;
}

size_t
history_annotations(uint64_t *from, struct trace_annotation *out, size_t n)
{
	lock_enter(&lock);
	if (notes.next > notes.capacity && *from < notes.next - notes.capacity)
		*from = notes.next - notes.capacity;
	size_t found = 0;
	while (found < n && *from + found < notes.next) {
		out[found] = notes.entries[(*from + found) % notes.capacity];
		found++;
	}
	lock_leave(&lock);
	return found;
}

void
history_unset(void)
{
	lock_enter(&lock);
	atomic_fetch_and(&history_state, HISTORY_OBSERVED);
	meta_unmap(notes.entries, notes.capacity * sizeof(*notes.entries));
	notes.entries = NULL;
	notes.capacity = 0;
	notes.next = 0;
	lock_leave(&lock);
}
