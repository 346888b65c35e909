/*
 * Keeps: an arena is kept while a caller needs its memory to stay where it is.
 * A keep for work of the device ends when an event after all that work is met.
 */
#include "allocator/memory/keep.h"

#include "allocator/account/counters.h"
#include "base/status.h"
#include "streams/event.h"

void
arena_keep(struct arena *arena)
{
	lock_enter(&arena->lock);
	arena_keep_locked(arena);
	lock_leave(&arena->lock);
}

void
arena_unkeep(struct arena *arena)
{
	ASSERT(arena != NULL);
	lock_enter(&arena->lock);
	arena_unkeep_locked(arena);
	lock_leave(&arena->lock);
}

/* ---- Ending keeps ------------------------------------------------------ */

static void
record_keeps(struct arena *arena)
{
	struct driver_guard guard;

	ASSERT(arena->memory.keep_event == NULL);
	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		/* If it cannot be recorded now, a poll tries again. */
		(void)stream_fence(arena->any, &arena->memory.keep_event);
		driver_leave(&guard);
	}
	status_unmute();
}

static void
drop_keep_event(struct arena *arena)
{
	if (arena->memory.keep_event != NULL)
		event_release(arena->context, arena->memory.keep_event);
	arena->memory.keep_event = NULL;
}

void
arena_unkeep_later(struct arena *arena)
{
	lock_enter(&arena->lock);
	if (arena->memory.forgotten) {
		arena_unkeep_locked(arena);
	} else {
		arena->memory.keeps_ending++;
		drop_keep_event(arena);
		record_keeps(arena);
	}
	lock_leave(&arena->lock);
}

static void
remove_ended_keeps(struct arena *arena)
{
	ASSERT(arena->memory.keeps_ending <= arena->memory.kept);
	drop_keep_event(arena);
	arena->memory.kept -= arena->memory.keeps_ending;
	arena->memory.keeps_ending = 0;
	arena->memory.keeps_ended++;
}

void
arena_poll_keeps(struct arena *arena)
{
	struct driver_guard guard;

	ASSERT(arena->memory.keeps_ending <= arena->memory.kept);
	lock_assert_held(&arena->lock);
	if (arena->memory.keeps_ending == 0)
		return;
	if (arena->memory.keep_event == NULL)
		record_keeps(arena);
	if (arena->memory.keep_event == NULL ||
	    driver_enter(arena->context, &guard) != WEIR_OK)
		return;
	bool done = driver_peek()->cuEventQuery(arena->memory.keep_event) ==
	    CUDA_SUCCESS;
	driver_leave(&guard);
	if (done)
		remove_ended_keeps(arena);
}

void
arena_wait_keeps(struct arena *arena)
{
	uint64_t ended = arena->memory.keeps_ended;
	unsigned ending = arena->memory.keeps_ending;

	ASSERT(ending <= arena->memory.kept);
	lock_assert_held(&arena->lock);
	if (ending == 0)
		return;
	counter_add(arena, COUNTER_num_host_waits, 1);
	lock_leave(&arena->lock);
	enum weir_status status = stream_wait_host(arena->any);
	lock_enter(&arena->lock);
	/* Keeps that ended meanwhile may be for later work. */
	if (status == WEIR_OK && arena->memory.keeps_ended == ended &&
	    arena->memory.keeps_ending == ending)
		remove_ended_keeps(arena);
}
