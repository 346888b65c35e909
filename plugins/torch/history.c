/*
 * PyTorch's history. weir reports each event under its own lock (see
 * weir_memory_observer_add()). The data that PyTorch needs for the event are
 * added here: the stack of the call, the texts of the thread, and PyTorch's
 * name of the pool. One lock guards everything and is acquired within weir's.
 * While it is held, only the counts of contexts, trackers and visitors are
 * called.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugins/torch/forks.h"
#include "plugins/torch/table.h"
#include "plugins/torch/tuning.h"
#include "plugins/torch/weir_torch.h"

int weir_torch_watched;

/* A text that several events share. */
struct text {
	atomic_uint refs;
	char at[];
};

/* An event as it is stored. */
struct kept {
	struct weir_torch_event event;
	struct text *compile;
	struct text *metadata;
};

/* A ring of the latest items, whose memory is allocated as it fills. */
struct ring {
	void *items;
	size_t item_size;
	size_t room;  /* number of items that there is memory for */
	size_t count; /* number of items */
	size_t first; /* index of the oldest item */
};

struct tracker {
	void (*call)(const struct weir_torch_event *event, void *user);
	void *user;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock. */
static bool on;
static int level;
static size_t bound = 1;
static uint32_t skip;
static struct weir_torch_contexts contexts;
static struct ring events = { .item_size = sizeof(struct kept) };
static struct ring annotations = { .item_size = sizeof(void *) };
static struct table blocks;
static struct table segments;
static struct tracker trackers[TRACKERS_MAX];
static unsigned tracker_count;
static bool observing;
/* Written under the lock, read without it: the level; -1 while the history is
 * off. */
static atomic_int level_wanted = -1;

/* The data that all events of a thread share. */
static _Thread_local struct {
	void *context;
	uint64_t freeing; /* the address that is being freed */
	struct text *metadata;
	struct text *compile[CONTEXTS_MAX];
	unsigned depth;
	bool ends; /* the thread has a value for the key below */
} here;

/* ---- Texts ------------------------------------------------------------- */

static struct text *
text_new(const char *at)
{
	size_t size = strlen(at) + 1;
	struct text *text = malloc(sizeof(*text) + size);

	if (text == NULL)
		return NULL;
	atomic_init(&text->refs, 1);
	memcpy(text->at, at, size);
	return text;
}

static struct text *
text_ref(struct text *text)
{
	if (text != NULL)
		atomic_fetch_add(&text->refs, 1);
	return text;
}

static void
text_drop(struct text *text)
{
	if (text != NULL && atomic_fetch_sub(&text->refs, 1) == 1)
		free(text);
}

static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static void
end_history_thread(void *unused)
{
	(void)unused;
	text_drop(here.metadata);
	here.metadata = NULL;
	for (unsigned i = 0; i < here.depth && i < CONTEXTS_MAX; i++)
		text_drop(here.compile[i]);
	here.depth = 0;
}

static void
make_end_key(void)
{
	(void)pthread_key_create(&thread_end, end_history_thread);
}

static void
mind_thread_end(void)
{
	if (here.ends)
		return;
	here.ends = true;
	pthread_once(&thread_end_once, make_end_key);
	(void)pthread_setspecific(thread_end, &here);
}

enum weir_status
weir_torch_compile_push(const char *name)
{
	if (here.depth < CONTEXTS_MAX) {
		struct text *text = text_new(name != NULL ? name : "");
		if (text == NULL)
			return WEIR_EHOSTMEM;
		mind_thread_end();
		here.compile[here.depth] = text;
	}
	here.depth++;
	return WEIR_OK;
}

void
weir_torch_compile_pop(void)
{
	if (here.depth > 0 && --here.depth < CONTEXTS_MAX)
		text_drop(here.compile[here.depth]);
}

enum weir_status
weir_torch_metadata_set(const char *at)
{
	struct text *text = NULL;

	if (at != NULL && *at != '\0') {
		text = text_new(at);
		if (text == NULL)
			return WEIR_EHOSTMEM;
		mind_thread_end();
	}
	text_drop(here.metadata);
	here.metadata = text;
	return WEIR_OK;
}

const char *
weir_torch_metadata_get(void)
{
	return here.metadata != NULL ? here.metadata->at : "";
}

static struct text *
compile_here(void)
{
	unsigned depth = here.depth < CONTEXTS_MAX ? here.depth : CONTEXTS_MAX;

	return depth > 0 ? here.compile[depth - 1] : NULL;
}

/* ---- Rings, under the lock --------------------------------------------- */

static void *
ring_at(const struct ring *ring, size_t i)
{
	return (char *)ring->items +
	    (ring->first + i) % ring->room * ring->item_size;
}

/* Make room for twice as many items, up to the bound; false without memory. */
static bool
ring_grow(struct ring *ring)
{
	size_t room = ring->room == 0 ? 64 : 2 * ring->room;

	if (room > bound)
		room = bound;
	if (room <= ring->room || room > SIZE_MAX / ring->item_size)
		return false;
	char *items = malloc(room * ring->item_size);
	if (items == NULL)
		return false;
	for (size_t i = 0; i < ring->count; i++)
		memcpy(items + i * ring->item_size, ring_at(ring, i),
		    ring->item_size);
	free(ring->items);
	ring->items = items;
	ring->room = room;
	ring->first = 0;
	return true;
}

/* Returns the place for a new item. In a full ring it replaces the oldest item,
 * which is copied to `evicted`. NULL: there is no memory for even one. */
static void *
ring_push(struct ring *ring, void *evicted, bool *is_evicted)
{
	*is_evicted = false;
	if (ring->count == ring->room && !ring_grow(ring)) {
		if (ring->room == 0)
			return NULL;
		memcpy(evicted, ring_at(ring, 0), ring->item_size);
		*is_evicted = true;
		ring->first = (ring->first + 1) % ring->room;
		ring->count--;
	}
	return ring_at(ring, ring->count++);
}

static void
ring_free(struct ring *ring)
{
	free(ring->items);
	ring->items = NULL;
	ring->room = 0;
	ring->count = 0;
	ring->first = 0;
}

/* ---- What is kept, under the lock -------------------------------------- */

static void *
acquired(void *context)
{
	if (context != NULL)
		contexts.acquire(context);
	return context;
}

static void
released(void *context)
{
	if (context != NULL)
		contexts.release(context);
}

static void
kept_drop(const struct kept *kept)
{
	released(kept->event.context);
	text_drop(kept->compile);
	text_drop(kept->metadata);
}

static void
forget_entries(void)
{
	for (size_t i = 0; i < events.count; i++)
		kept_drop(ring_at(&events, i));
	ring_free(&events);
	for (size_t i = 0; i < annotations.count; i++)
		released(*(void **)ring_at(&annotations, i));
	ring_free(&annotations);
}

static void
forget_contexts(void)
{
	if (contexts.release != NULL) {
		table_clear(&blocks, contexts.release);
		table_clear(&segments, contexts.release);
	}
}

static void
table_set(struct table *table, uint64_t address, void *context)
{
	void *before = table_take(table, address);

	released(before);
	if (context == NULL)
		return;
	contexts.acquire(context);
	if (!table_put(table, address, context))
		/* No memory: the block has no context. */
		contexts.release(context);
}

/* Store an event with its two texts, which are counted. */
static void
keep_event(const struct weir_torch_event *event, struct text *compile,
    struct text *metadata)
{
	struct kept evicted;
	bool is_evicted;

	if (!on || (skip >> event->action & 1) != 0)
		return;
	struct kept *kept = ring_push(&events, &evicted, &is_evicted);
	if (is_evicted)
		kept_drop(&evicted);
	if (kept == NULL)
		return;
	*kept = (struct kept){ .event = *event,
		.compile = text_ref(compile),
		.metadata = text_ref(metadata) };
	(void)acquired(kept->event.context);
}

/* ---- Events of weir ---------------------------------------------------- */

/* The context of an event: that of the call, or of the block or segment. If a
 * free is completed late, another call completes it. */
static void *
event_context(const struct weir_memory_event *told, uint64_t address)
{
	void *context = here.context;

	switch (told->action) {
	case WEIR_ACTION_FREE_REQUESTED:
		here.freeing = address;
		return context != NULL ? context : table_get(&blocks, address);
	case WEIR_ACTION_FREE_COMPLETED:
		return context != NULL && here.freeing == address ?
		    context :
		    table_get(&blocks, address);
	case WEIR_ACTION_SEGMENT_FREE:
	case WEIR_ACTION_SEGMENT_UNMAP:
		return context != NULL ? context :
					 table_get(&segments, address);
	case WEIR_ACTION_SNAPSHOT:
		return NULL;
	default:
		return context;
	}
}

/* Blocks have the context of their allocation. Segments have it from level
 * `alloc` on: at level `state` a snapshot has the stacks of live blocks only,
 * and a segment outlives the block that it was made for. */
static void
follow_owner(const struct weir_memory_event *told, uint64_t address)
{
	void *context = level >= WEIR_HISTORY_STATE ? here.context : NULL;

	switch (told->action) {
	case WEIR_ACTION_ALLOC:
		table_set(&blocks, address, context);
		break;
	case WEIR_ACTION_FREE_COMPLETED:
		table_set(&blocks, address, NULL);
		break;
	case WEIR_ACTION_SEGMENT_ALLOC:
	case WEIR_ACTION_SEGMENT_MAP:
		table_set(&segments, address,
		    level >= WEIR_HISTORY_ALLOC ? context : NULL);
		break;
	case WEIR_ACTION_SEGMENT_FREE:
	case WEIR_ACTION_SEGMENT_UNMAP:
		table_set(&segments, address, NULL);
		break;
	default:
		break;
	}
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Store an event, and call the trackers. */
static void
enter(const struct weir_torch_event *event, struct text *compile,
    struct text *metadata)
{
	keep_event(event, compile, metadata);
	for (unsigned i = 0; i < tracker_count; i++)
		trackers[i].call(event, trackers[i].user);
}

static void
on_memory_event(const struct weir_memory_event *told, void *user)
{
	uint64_t address = (uint64_t)(uintptr_t)told->address;
	struct text *compile = compile_here();
	struct weir_torch_event event = { .action = told->action,
		.device = told->device,
		.address = told->action == WEIR_ACTION_OOM ?
		    told->device_free_bytes :
		    address,
		.size = told->size,
		.stream = told->stream,
		.pool = weir_torch_pool_name(told->device, told->pool_id),
		.time_ns = now_ns(),
		.compile_context = compile != NULL ? compile->at : "N/A",
		.user_metadata = weir_torch_metadata_get() };

	(void)user;
	pthread_mutex_lock(&lock);
	void *context = event_context(told, address);
	event.context = level >= WEIR_HISTORY_ALLOC ? context : NULL;
	enter(&event, compile, here.metadata);
	if (on)
		follow_owner(told, address);
	pthread_mutex_unlock(&lock);
}

/* ---- The calls --------------------------------------------------------- */

static pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;

/* Start or stop observing weir. The caller holds `change` and not the lock,
 * which is acquired within weir's. */
static enum weir_status
listen(bool wanted)
{
	enum weir_status status = WEIR_OK;

	if (wanted && !observing)
		status = weir_memory_observer_add(on_memory_event, NULL);
	else if (!wanted && observing)
		status = weir_memory_observer_remove(on_memory_event, NULL);
	if (status == WEIR_OK)
		observing = wanted;
	return status;
}

static void
set_watched(void)
{
	__atomic_store_n(
	    &weir_torch_watched, on + (int)tracker_count, __ATOMIC_RELEASE);
	atomic_store(&level_wanted, on ? level : -1);
}

enum weir_status
weir_torch_history_set(const struct weir_torch_history *history,
    const struct weir_torch_contexts *counts)
{
	if (forks_refused())
		return WEIR_EFORK;
	pthread_mutex_lock(&change);
	enum weir_status status = listen(history->on || tracker_count > 0);
	if (status == WEIR_OK) {
		pthread_mutex_lock(&lock);
		contexts = *counts;
		size_t entries =
		    history->max_entries > 0 ? history->max_entries : 1;
		if (history->clear || !history->on || entries < events.room)
			forget_entries();
		if (!history->on)
			forget_contexts();
		on = history->on;
		level = on ? history->level : WEIR_HISTORY_NONE;
		bound = entries;
		skip = history->skip;
		set_watched();
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_unlock(&change);
	return status;
}

bool
weir_torch_history_on(void)
{
	return atomic_load(&level_wanted) >= 0;
}

bool
weir_torch_history_wants(int wanted)
{
	return atomic_load(&level_wanted) >= wanted;
}

void
weir_torch_history_enter(void *context)
{
	here.context = context;
	here.freeing = 0;
}

int
weir_torch_action(const char *name)
{
	static const char *const names[] = {
#define ACTION_NAME(NAME, name) #name,
		WEIR_ACTION_LIST(ACTION_NAME)
#undef ACTION_NAME
		    "annotate"
	};

	for (int i = 0; i <= WEIR_TORCH_ANNOTATE; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

void
weir_torch_history_each(
    void (*visit)(const struct weir_torch_event *event, void *user), void *user)
{
	if (forks_refused())
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < events.count; i++) {
		const struct kept *kept = ring_at(&events, i);
		struct weir_torch_event event = kept->event;
		event.compile_context =
		    kept->compile != NULL ? kept->compile->at : "N/A";
		event.user_metadata =
		    kept->metadata != NULL ? kept->metadata->at : "";
		visit(&event, user);
	}
	pthread_mutex_unlock(&lock);
}

static void *
context_in(const struct table *table, uint64_t address)
{
	if (forks_refused())
		return NULL;
	pthread_mutex_lock(&lock);
	void *context = acquired(table_get(table, address));
	pthread_mutex_unlock(&lock);
	return context;
}

void *
weir_torch_context_of_block(uint64_t address)
{
	return context_in(&blocks, address);
}

void *
weir_torch_context_of_segment(uint64_t address)
{
	return context_in(&segments, address);
}

enum weir_status
weir_torch_tracker_add(
    void (*tracker)(const struct weir_torch_event *event, void *user),
    void *user)
{
	if (forks_refused())
		return WEIR_EFORK;
	pthread_mutex_lock(&change);
	enum weir_status status =
	    tracker_count < TRACKERS_MAX ? listen(true) : WEIR_EINVAL;
	if (status == WEIR_OK) {
		pthread_mutex_lock(&lock);
		trackers[tracker_count++] = (struct tracker){ tracker, user };
		set_watched();
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_unlock(&change);
	return status;
}

enum weir_status
weir_torch_block_annotate(const void *ptr, const char *at)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct weir_block_info info = { .struct_size = sizeof(info) };
	struct text *compile = compile_here();

	if (__atomic_load_n(&weir_torch_watched, __ATOMIC_ACQUIRE) == 0 ||
	    weir_block_info(ptr, &info) != WEIR_OK || info.address != ptr)
		return WEIR_OK;
	struct text *text = text_new(at);
	if (text == NULL)
		return WEIR_EHOSTMEM;
	struct weir_torch_event event = { .action = WEIR_TORCH_ANNOTATE,
		.device = info.device,
		.address = (uint64_t)(uintptr_t)ptr,
		.size = info.requested_bytes,
		.stream = info.stream,
		.time_ns = now_ns(),
		.compile_context = compile != NULL ? compile->at : "N/A",
		.user_metadata = text->at };
	pthread_mutex_lock(&lock);
	enter(&event, compile, text);
	pthread_mutex_unlock(&lock);
	text_drop(text);
	return WEIR_OK;
}

void
weir_torch_annotate(void *annotation)
{
	if (forks_refused())
		return;
	void *evicted = NULL;
	bool is_evicted;

	pthread_mutex_lock(&lock);
	void **place =
	    on ? ring_push(&annotations, &evicted, &is_evicted) : NULL;
	if (place != NULL) {
		if (is_evicted)
			released(evicted);
		*place = acquired(annotation);
	}
	pthread_mutex_unlock(&lock);
}

void
weir_torch_annotations_each(
    void (*visit)(void *annotation, void *user), void *user)
{
	if (forks_refused())
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < annotations.count; i++)
		visit(*(void **)ring_at(&annotations, i), user);
	pthread_mutex_unlock(&lock);
}
