/*
 * What is told, and <weir/trace.h>: whether it is.
 *
 * While anybody wants to know of every allocation, thread caches serve and take
 * blocks under the arena's lock (tcache_malloc_in(), tcache_keep()), so
 * that what they do has its place in the order of events. Whether that is so is
 * settled when a cache is made; so all are made anew when it changes.
 */
#include "allocator/tell.h"

#include "allocator/tcache.h"
#include "base/status.h"

/* ---- Under the arena's lock -------------------------------------------- */

/*
 * A device has one history, under the lock of its own arena; where it has other
 * arenas too, that of the totals is taken as well by all of them. What is in no
 * totals is no memory of the device.
 */
static void
emit(struct arena *arena, struct trace_event event) UNCHECKED
{
	struct totals *totals = arena->totals;

	if (arena->forgotten || !arena_is_counted(arena))
		return;
	event.pool = arena->pool;
	if (totals != NULL)
		lock_enter(&totals->lock);
	history_emit(&arena->main->history, event);
	if (totals != NULL)
		lock_leave(&totals->lock);
}

struct history_ring *
tell_ring_enter(struct arena *arena) UNCHECKED
{
	if (arena->totals != NULL)
		lock_enter(&arena->totals->lock);
	return &arena->main->history;
}

void
tell_ring_leave(struct arena *arena) UNCHECKED
{
	if (arena->totals != NULL)
		lock_leave(&arena->totals->lock);
}

static uint64_t
stream_of(const struct pool *pool)
{
	return (uint64_t)(uintptr_t)pool->owner->stream->handle;
}

void
tell_block(struct block *block, enum trace_action action)
{
	/* What is completed later is completed by somebody else's call. */
	bool late = action == TRACE_free_completed &&
	    block_state(block) == BLOCK_PENDING;
	uint32_t stack = late ? 0 : history_stack();

	emit(block->arena,
	    (struct trace_event){ .addr = block->addr,
		.size = block->requested,
		.stream = stream_of(block->pool),
		.granules = (uint32_t)(block->size / WEIR_GRANULE),
		.stack = stack != 0 ? stack : block->stack,
		.action = action });
	if (action == TRACE_free_completed)
		block->stack = 0;
}

void
tell_memory(const struct segment *segment, CUdeviceptr addr, size_t size,
    enum trace_action action)
{
	emit(segment->arena,
	    (struct trace_event){ .addr = addr,
		.size = size,
		.stream = (uint64_t)(uintptr_t)segment->stream,
		.stack =
		    history_stack() != 0 ? history_stack() : segment->stack,
		.action = action });
}

void
tell_failure(struct arena *arena, const struct stream *stream,
    size_t free_bytes, size_t rounded)
{
	emit(arena,
	    (struct trace_event){ .addr = free_bytes,
		.size = rounded,
		.stream = (uint64_t)(uintptr_t)stream->handle,
		.stack = history_stack(),
		.action = TRACE_oom });
}

void
tell_snapshot(struct arena *arena)
{
	if (history_on())
		emit(arena,
		    (struct trace_event){
			.size = stats_current(&arena->stats.active_bytes.all),
			.action = TRACE_snapshot });
}

/* ---- Callbacks --------------------------------------------------------- */

struct weir_trace
tell_trace(const struct block *block, enum weir_trace_kind kind)
{
	weir_stream stream = block->pool->owner->stream->handle;

	return (struct weir_trace){ .kind = kind,
		.device = block->arena->device,
		.stream = stream == WEIR_STREAM_LEGACY ? NULL : stream,
		.address = (void *)(uintptr_t)block->addr,
		.size = block->requested };
}

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
	enum weir_status status = observe_add(kind, callback, user);

	if (status == WEIR_OK && is_of_memory(kind))
		tcache_renew();
	return status;
}

enum weir_status
weir_trace_callback_remove(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user)
{
	enum weir_status status = observe_remove(kind, callback, user);

	if (status == WEIR_OK && is_of_memory(kind))
		tcache_renew();
	return status;
}

/* ---- History ----------------------------------------------------------- */

/* Bring the ring of each device to the size that is in force. */
static void
resize_all(bool clear)
{
	for (int device = 0; device < DEVICES_MAX; device++) {
		struct arena *arena = arena_peek(device);
		if (arena == NULL)
			continue;
		lock_enter(&arena->lock);
		struct history_ring *ring = tell_ring_enter(arena);
		if (!arena->forgotten)
			history_resize(ring, clear);
		tell_ring_leave(arena);
		lock_leave(&arena->lock);
	}
}

/* Blocks and segments have no stack any more. */
static void
forget_stacks(struct arena *arena)
{
	lock_enter(&arena->lock);
	for (struct list *l = arena->segments.next; l != &arena->segments;
	     l = l->next) {
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
	struct history_settings settings;
	enum weir_status status = history_read(history, &settings);
	if (status != WEIR_OK)
		return status;
	status = history_set(&settings);
	if (status != WEIR_OK)
		return status;
	resize_all(history != NULL && history->clear);
	tcache_renew();
	return WEIR_OK;
}

enum weir_status
weir_history_stop(void)
{
	history_unset();
	tcache_renew();
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
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_history_info: out is NULL or its struct_size is "
		    "not set");
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct weir_history_info info = { .struct_size = out->struct_size,
		.on = history_on(),
		.level = history_level() };
	struct arena *arena = arena_peek(device);
	if (arena != NULL) {
		lock_enter(&arena->lock);
		const struct history_ring *ring = tell_ring_enter(arena);
		info.recorded = ring->next - ring->first;
		info.kept = ring->next - history_oldest(ring);
		info.dropped = info.recorded - info.kept;
		tell_ring_leave(arena);
		lock_leave(&arena->lock);
	}
	*out = info;
	return WEIR_OK;
}
