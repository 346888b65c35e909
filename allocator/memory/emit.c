/*
 * Emits events of memory to the history and to observers, and describes blocks
 * to callbacks. observe/history.c switches them on and off.
 */
#include "allocator/memory/emit.h"

#include "allocator/account/counters.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "base/status.h"

/* ---- Under the arena's lock -------------------------------------------- */

/*
 * A device has one history, under the lock of its own arena. If the device has
 * other arenas too, all of them also take the lock of the totals.
 */
struct history_ring *
emit_ring_enter(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	if (arena->account.totals != NULL) {
		lock_enter(&arena->account.totals->lock);
		lock_hand_over(&arena->account.totals->lock);
	}
	return &arena->main->memory.history;
}

void
emit_ring_leave(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	if (arena->account.totals != NULL) {
		lock_take_over(&arena->account.totals->lock);
		lock_leave(&arena->account.totals->lock);
	}
}

/* Does this arena emit events? An arena that does not count for the device's
 * totals does not. */
static bool
is_emitting(const struct arena *arena)
{
	return !arena->memory.forgotten && arena_is_counted(arena);
}

/* The memory that an event is about; the arena gives its pool. */
struct subject {
	uint64_t addr;
	uint64_t size;
	uint64_t stream;
	uint32_t granules;
	uint32_t stack;
};

/* Call the observers. For an oom event the subject's address is the number of
 * the device's free bytes. */
static void
observe_event_of(const struct arena *arena, enum trace_action action,
    const struct subject *of)
{
	bool oom = action == TRACE_oom;

	observe_memory(&(struct weir_memory_event){
	    .struct_size = sizeof(struct weir_memory_event),
	    .action = (enum weir_action)action,
	    .device = arena->device,
	    .address = oom ? NULL : (void *)(uintptr_t)of->addr,
	    .size = of->size,
	    .block_size = (size_t)of->granules * WEIR_GRANULE,
	    .stream = of->stream == (uint64_t)(uintptr_t)WEIR_STREAM_LEGACY ?
		NULL :
		(weir_stream)(uintptr_t)of->stream,
	    .pool_id = { arena->memory.pool.graph, arena->memory.pool.user },
	    .device_free_bytes = oom ? of->addr : 0 });
}

static inline QUICK void
add_event(const struct arena *arena, struct history_ring *ring,
    enum trace_action action, const struct subject *of,
    const struct history_stamp *stamp)
{
	struct trace_event *event = history_add(ring, action, stamp);

	if (event == NULL)
		return;
	event->addr = of->addr;
	event->size = of->size;
	event->stream = of->stream;
	event->pool = arena->memory.pool;
	event->granules = of->granules;
	event->stack = of->stack;
	if (action == TRACE_alloc && served_here.has_event)
		history_add_served(event);
}

static void
emit_event(struct arena *arena, enum trace_action action, struct subject of)
    HOLDS(arena->lock)
{
	if (!is_emitting(arena))
		return;
	struct history_ring *ring = emit_ring_enter(arena);
	struct history_stamp stamp = history_stamp();
	of.stack = history_told(&stamp, of.stack);
	if (history_observed(&stamp))
		observe_event_of(arena, action, &of);
	add_event(arena, ring, action, &of, &stamp);
	emit_ring_leave(arena);
}

static uint64_t
handle_of_stream(const struct stream *stream)
{
	return (uint64_t)(uintptr_t)stream->handle;
}

static inline QUICK struct subject
subject_of(const struct block *block)
{
	return (struct subject){ .addr = block->addr,
		.size = block->requested,
		.stream = handle_of_stream(block->pool->owner->stream),
		.granules = (uint32_t)(block->size / WEIR_GRANULE) };
}

/* Call the observers about a block. This is a function of its own, and makes
 * its own subject, so that the path without observers keeps the subject in
 * registers. */
static __attribute__((noinline)) void
observe_block(
    const struct block *block, enum trace_action action, enum trace_action last)
{
	struct subject of = subject_of(block);

	observe_event_of(block->arena, action, &of);
	if (last != action)
		observe_event_of(block->arena, last, &of);
}

/* Which stack the events of a block get. */
enum whose {
	ALLOCATIONS, /* the allocation's */
	CALLS,       /* that of the present call */
	EITHERS      /* the call's, or else the allocation's */
};

/* Emit an event about a block, and a second one if `last` is another action.
 * Returns the stack of the call. */
static inline QUICK uint32_t
emit_block(const struct block *block, enum whose whose,
    enum trace_action action, enum trace_action last)
{
	struct arena *arena = block->arena;

	if (!is_emitting(arena))
		return history_stack();
	lock_assert_held(&arena->lock);
	struct history_ring *ring = emit_ring_enter(arena);
	struct history_stamp stamp = history_stamp();
	uint32_t stack = stamp.by.stack;
	if (whose == ALLOCATIONS || (whose == EITHERS && stack == 0))
		stack = block->stack;
	if (history_observed(&stamp))
		observe_block(block, action, last);
	struct subject of = subject_of(block);
	of.stack = history_told(&stamp, stack);
	add_event(arena, ring, action, &of, &stamp);
	if (last != action)
		add_event(arena, ring, last, &of, &stamp);
	emit_ring_leave(arena);
	return stamp.by.stack;
}

void
emit_alloc_slow(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	ASSERT(block_state(block) == BLOCK_ACTIVE);
	block->stack = emit_block(block, CALLS, TRACE_alloc, TRACE_alloc);
	served_here.has_event = false;
}

void
emit_free_requested_slow(const struct block *block)
{
	lock_assert_held(&block->arena->lock);
	emit_block(block, EITHERS, TRACE_free_requested, TRACE_free_requested);
}

void
emit_free_completed_slow(struct block *block)
{
	/* A PENDING block is completed later, in another caller's call. */
	lock_assert_held(&block->arena->lock);
	bool late = block_state(block) == BLOCK_PENDING;

	emit_block(block, late ? ALLOCATIONS : EITHERS, TRACE_free_completed,
	    TRACE_free_completed);
	block->stack = 0;
}

void
emit_freed_slow(struct block *block)
{
	lock_assert_held(&block->arena->lock);
	emit_block(block, EITHERS, TRACE_free_requested, TRACE_free_completed);
	block->stack = 0;
}

void
emit_memory(const struct segment *segment, CUdeviceptr addr, size_t size,
    enum trace_action action)
{
	uint32_t stack = history_stack();
	struct subject of = { .addr = addr,
		.size = size,
		.stream = (uint64_t)(uintptr_t)segment->stream,
		.stack = stack != 0 ? stack : segment->stack };

	lock_assert_held(&segment->arena->lock);
	ASSERT(addr >= segment->addr &&
	    addr - segment->addr <= segment->size - size);
	emit_event(segment->arena, action, of);
}

void
emit_oom_slow(struct arena *arena, const struct stream *stream,
    size_t free_bytes, size_t rounded)
{
	struct subject of = { .addr = free_bytes,
		.size = rounded,
		.stream = handle_of_stream(stream),
		.stack = history_stack() };

	lock_assert_held(&arena->lock);
	emit_event(arena, TRACE_oom, of);
}

void
emit_snapshot(struct arena *arena)
{
	struct subject of = { .size = tally_now(&arena->account.tally, PART_ALL,
				  TALLIED_active_bytes) };

	lock_assert_held(&arena->lock);
	if (history_on())
		emit_event(arena, TRACE_snapshot, of);
}

/* ---- Callbacks --------------------------------------------------------- */

struct weir_trace
emit_trace(const struct block *block, enum weir_trace_kind kind)
{
	weir_stream stream = block->pool->owner->stream->handle;

	return (struct weir_trace){ .kind = kind,
		.device = block->arena->device,
		.stream = stream == WEIR_STREAM_LEGACY ? NULL : stream,
		.address = (void *)(uintptr_t)block->addr,
		.size = block->requested };
}
