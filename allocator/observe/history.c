/*
 * <weir/trace.h>: begins and ends callbacks, observers and the history.
 *
 * While a callback, an observer or the history wants every allocation, thread
 * caches allocate and free under the arena's lock (tcache_malloc_in(),
 * tcache_free_traced()), so that their events have a place in the order. A
 * cache decides this when it is made, so all caches are made again when the
 * answer changes.
 */
#include <weir/trace.h>

#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "base/os.h"
#include "base/status.h"

/* ---- Callbacks --------------------------------------------------------- */

static bool
is_of_memory(enum weir_trace_kind kind)
{
	return kind == WEIR_TRACE_MEMORY_ALLOCATION ||
	    kind == WEIR_TRACE_MEMORY_DEALLOCATION;
}

enum weir_status
weir_trace_callback_add(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user)
{
	if (os_forked())
		return status_forked("weir_trace_callback_add");
	enum weir_status status = observe_add(kind, callback, user);

	if (status == WEIR_OK && is_of_memory(kind))
		tcache_refresh();
	return status;
}

enum weir_status
weir_trace_callback_remove(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user)
{
	if (os_forked())
		return status_forked("weir_trace_callback_remove");
	enum weir_status status = observe_remove(kind, callback, user);

	if (status == WEIR_OK && is_of_memory(kind))
		tcache_refresh();
	return status;
}

/* ---- Observers --------------------------------------------------------- */

/* From now on caches take a lock, which orders their events. */
enum weir_status
weir_memory_observer_add(weir_memory_observer observer, void *user)
{
	if (os_forked())
		return status_forked("weir_memory_observer_add");
	enum weir_status status = observe_memory_add(observer, user);

	if (status == WEIR_OK) {
		history_set_observed(true);
		tcache_refresh();
	}
	return status;
}

enum weir_status
weir_memory_observer_remove(weir_memory_observer observer, void *user)
{
	if (os_forked())
		return status_forked("weir_memory_observer_remove");
	enum weir_status status = observe_memory_remove(observer, user);

	if (status == WEIR_OK && !observed(OBSERVE_MEMORY)) {
		history_set_observed(false);
		tcache_refresh();
	}
	return status;
}

/* ---- History ----------------------------------------------------------- */

/* Resize the ring of each device to the size that the settings ask for. */
static void
resize_all(bool clear)
{
	for (int device = 0; device < DEVICES_MAX; device++) {
		struct arena *arena = arena_peek(device);
		if (arena == NULL)
			continue;
		lock_enter(&arena->lock);
		struct history_ring *ring = emit_ring_enter(arena);
		if (!arena->memory.forgotten)
			history_resize(ring, clear);
		emit_ring_leave(arena);
		lock_leave(&arena->lock);
	}
}

/* Clear the stacks of all blocks and segments. */
static void
forget_stacks(struct arena *arena)
{
	lock_enter(&arena->lock);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		segment->stack = 0;
		for (struct block *b = segment->first; b != NULL; b = b->next)
			b->stack = 0;
	}
	lock_leave(&arena->lock);
}

enum weir_status
weir_history_start(const struct weir_history *history)
{
	if (os_forked())
		return status_forked("weir_history_start");
	struct history_settings settings;
	enum weir_status status = history_read(history, &settings);
	if (status != WEIR_OK)
		return status;
	status = history_set(&settings);
	if (status != WEIR_OK)
		return status;
	resize_all(history != NULL && history->clear);
	tcache_refresh();
	return WEIR_OK;
}

enum weir_status
weir_history_stop(void)
{
	if (os_forked())
		return status_forked("weir_history_stop");
	history_unset();
	tcache_refresh();
	resize_all(true);
	for (int device = 0; device < DEVICES_MAX; device++)
		for (struct arena *arena = arena_peek(device); arena != NULL;
		     arena = arena_next(arena))
			forget_stacks(arena);
	return WEIR_OK;
}

enum weir_status
weir_history_info(int device, struct weir_history_info *out)
{
	if (os_forked())
		return status_forked("weir_history_info");
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_history_info: out is NULL or its struct_size is "
		    "not set");
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct weir_history_info info = { .struct_size = out->struct_size,
		.on = history_is_kept(),
		.level = history_level() };
	struct arena *arena = arena_peek(device);
	if (arena != NULL) {
		lock_enter(&arena->lock);
		const struct history_ring *ring = emit_ring_enter(arena);
		info.recorded = ring->next - ring->first;
		info.kept = ring->next - history_oldest(ring);
		info.dropped = info.recorded - info.kept;
		emit_ring_leave(arena);
		lock_leave(&arena->lock);
	}
	*out = info;
	return WEIR_OK;
}
