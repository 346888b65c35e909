/*
 * Suspends and resumes arenas. The handles of a suspended arena stay in their
 * segments, without memory: each is unmapped, and its id is 0 once its
 * reference is released. The blocks stay as they are and count as before in all
 * statistics but reserved_bytes. A suspended arena is kept, so that no other
 * function uses its handles. The history has its memory as unmapped, and mapped
 * again at the resume; a snapshot leaves it out.
 */
#include "graphs/suspend.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/totals.h"
#include "allocator/private/arenas.h"
#include "allocator/private/suspension.h"
#include "allocator/request/reclaim.h"
#include "base/meta.h"
#include "base/status.h"
#include "graphs/suspend_copies.h"

static struct segment *
segment_of(struct list *link)
{
	return CONTAINER_OF(link, struct segment, link);
}

static struct handle *
handle_at(struct tree_node *node)
{
	return node != NULL ? CONTAINER_OF(node, struct handle, node) : NULL;
}

/* Record in the history that the memory of a run of blocks was mapped (`there`)
 * or unmapped. */
static void
emit_run(const struct segment *segment, const struct block *first,
    const struct block *end, bool there) HOLDS(segment->arena->lock)
{
	CUdeviceptr stop =
	    end != NULL ? end->addr : segment->addr + segment->size;

	emit_memory(segment, first->addr, stop - first->addr,
	    there ? TRACE_segment_map : TRACE_segment_unmap);
}

/* Count the memory of all blocks as held, or not, and record that. */
static void
count_reserved(struct arena *arena, bool held)
{
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		const struct block *run = NULL;
		struct block *b;
		for (b = segment_of(l)->first; b != NULL; b = b->next) {
			if (block_is_held(b)) {
				lock_assert_held(&b->pool->owner->arena->lock);
				stats_change(b->pool, STAT3_reserved_bytes,
				    held ? (int64_t)b->size :
					   -(int64_t)b->size);
			}
			if (run != NULL && !block_is_held(b)) {
				lock_assert_held(&segment_of(l)->arena->lock);
				emit_run(segment_of(l), run, b, held);
			}
			if (!block_is_held(b))
				run = NULL;
			else if (run == NULL)
				run = b;
		}
		if (run != NULL) {
			lock_assert_held(&segment_of(l)->arena->lock);
			emit_run(segment_of(l), run, NULL, held);
		}
	}
}

/* ---- Dropping ---------------------------------------------------------- */

static bool
nothing_is_live(const struct arena *arena)
{
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		for (struct block *b = segment_of(l)->first; b != NULL;
		     b = b->next)
			if (block_state(b) != BLOCK_FREE &&
			    block_state(b) != BLOCK_UNMAPPED)
				return false;
	return true;
}

/* Make all free blocks of a segment UNMAPPED and drop its handles. */
static void
drop_segment(struct segment *segment)
{
	struct tree_node *node;

	for (struct block *b = segment->first; b != NULL; b = b->next) {
		if (block_state(b) != BLOCK_FREE)
			continue;
		lock_assert_held(&b->arena->lock);
		block_take(b);
		b = block_put(b, BLOCK_UNMAPPED);
	}
	while ((node = tree_first(&segment->handles)) != NULL) {
		struct handle *handle = handle_at(node);
		if (handle->mapped)
			addresses_drop_mapping(handle->addr, handle->size);
		if (handle->id != 0)
			handle_drop_hold(handle->id);
		lock_assert_held(&handle->segment->arena->lock);
		handle_remove(handle);
		meta_free(handle, sizeof(*handle));
	}
}

/* Drop the memory of a suspended arena without an owner: struct arena. */
static void
drop_suspended(struct arena *arena) HOLDS(arena->lock)
{
	struct driver_guard guard;
	struct copies *copies = NULL;

	if (arena->memory.jobs > 1 || !nothing_is_live(arena))
		return;
	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		for (struct list *l = arena->memory.segments.next;
		     l != &arena->memory.segments; l = l->next)
			drop_segment(segment_of(l));
		driver_leave(&guard);
		totals_set_uncounted(arena, false);
		copies = suspension_end(arena);
	}
	status_unmute();
	if (copies == NULL)
		return;
	arena_leave_for_driver(arena);
	copies_drop(copies);
	arena_enter_from_driver(arena);
}

/* ---- Suspending -------------------------------------------------------- */

static enum weir_status
check_suspend(const struct arena *arena)
{
	if (arena->memory.forgotten)
		return status_set(WEIR_ECONTEXT,
		    "suspending: device %d was reset", arena->device);
	if (arena_is_suspended(arena))
		return status_set(
		    WEIR_EINVAL, "suspending: the pool is suspended");
	if (arena->memory.jobs > 0 || !list_empty(&arena->memory.vacated))
		return status_set(WEIR_ENOTREADY,
		    "suspending: memory of the pool is being mapped");
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		if (segment_of(l)->pins > 0)
			return status_set(WEIR_EINVAL,
			    "suspending: pages of the pool are pinned");
		if (segment_of(l)->busy > 0)
			return status_set(WEIR_ENOTREADY,
			    "suspending: memory of the pool is being mapped");
		if (!segment_of(l)->expandable)
			return status_set(WEIR_ENOTSUP,
			    "suspending: the pool has segments of the driver, "
			    "which cannot come back to their addresses");
	}
	return WEIR_OK;
}

/* Unmap and release all handles, except those that the driver refuses. Returns
 * the bytes given back. */
static size_t
unmap_all_handles(struct arena *arena)
{
	const struct driver *driver = driver_peek();
	size_t bytes = 0;

	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h)) {
		h->mapped =
		    driver->cuMemUnmap(h->addr, h->size) != CUDA_SUCCESS;
		if (!h->mapped && h->id != 0 &&
		    driver->cuMemRelease(h->id) == CUDA_SUCCESS)
			h->id = 0;
		bytes += h->id == 0 ? h->size : 0;
	}
	return bytes;
}

/* Suspend an arena, with its lock released: the arena is kept, so no other
 * function uses its handles. */
static enum weir_status
suspend(struct arena *arena, bool copy, struct copies **copies, size_t *freed)
{
	struct driver_guard guard;
	/* Wait for all streams: a graph may be replayed on any. */
	enum weir_status status = stream_wait_host(arena->any);
	if (status == WEIR_OK)
		status = driver_enter(arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	if (copy)
		status = copies_take(arena, copies);
	if (status == WEIR_OK)
		*freed = unmap_all_handles(arena);
	driver_leave(&guard);
	return status;
}

static enum weir_status
suspend_arena(struct arena *arena, bool copy, size_t *freed)
{
	struct copies *copies = NULL;

	lock_enter(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	segment_unmap_vacated(arena, SIZE_MAX);
	enum weir_status status = check_suspend(arena);
	if (status != WEIR_OK) {
		lock_leave(&arena->lock);
		return status;
	}
	suspension_set(arena);
	suspension_move(arena);
	arena_leave_for_driver(arena);
	status = suspend(arena, copy, &copies, freed);
	arena_enter_from_driver(arena);
	if (status == WEIR_OK) {
		count_reserved(arena, false);
		totals_set_uncounted(arena, true);
		arena_settle_lease(arena);
		suspension_hold(arena, drop_suspended, copies,
		    copies != NULL ? copies_size(copies) : 0);
	} else {
		suspension_end(arena);
	}
	suspension_moved(arena);
	lock_leave(&arena->lock);
	return status;
}

enum weir_status
arena_suspend(struct arena *arena, bool copy, size_t *freed)
{
	history_enter(WEIR_HISTORY_ALL);
	enum weir_status status = suspend_arena(arena, copy, freed);
	history_leave();
	return status;
}

/* ---- Resuming ---------------------------------------------------------- */

static size_t
missing_bytes(const struct arena *arena)
{
	size_t bytes = 0;

	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h))
		bytes += h->id == 0 && !h->mapped ? h->size : 0;
	return bytes;
}

/* Undo bring_back(). */
static void
unmap_again(struct arena *arena)
{
	const struct driver *driver = driver_peek();

	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h)) {
		if (h->mapped &&
		    driver->cuMemUnmap(h->addr, h->size) == CUDA_SUCCESS)
			h->mapped = false;
		if (!h->mapped && h->id != 0 &&
		    driver->cuMemRelease(h->id) == CUDA_SUCCESS)
			h->id = 0;
	}
}

static enum weir_status
map_again(struct handle *handle, const struct arena *arena)
{
	enum weir_status status = WEIR_OK;

	handle->to = handle->addr;
	if (handle->id == 0 && !handle->mapped)
		status = handle_create(handle, arena);
	if (status == WEIR_OK && !handle->mapped)
		status = handle_map(handle);
	if (status == WEIR_OK)
		status = handles_open_in(arena, handle->addr, handle->size);
	return status;
}

/* Map memory again and queue the copies of its contents, which run while more
 * is mapped. */
static enum weir_status
bring_back(struct arena *arena)
{
	struct copies *copies = arena->private.suspension.copies;
	enum weir_status status = WEIR_OK;

	if (copies != NULL)
		copies_begin(copies);
	for (struct handle *h = handles_first(arena);
	     h != NULL && status == WEIR_OK; h = handles_next(h)) {
		status = map_again(h, arena);
		if (status == WEIR_OK && copies != NULL)
			status = copies_queue(copies, h);
	}
	if (copies != NULL) {
		enum weir_status waited = copies_wait(copies);
		status = status == WEIR_OK ? waited : status;
	}
	return status;
}

static enum weir_status
resume(struct arena *arena)
{
	struct driver_guard guard;
	enum weir_status status = driver_enter(arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = bring_back(arena);
	if (status != WEIR_OK)
		unmap_again(arena);
	driver_leave(&guard);
	if (status == WEIR_OK)
		copies_drop(arena->private.suspension.copies);
	return status;
}

static void
finish_resume(struct arena *arena) HOLDS(arena->lock)
{
	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h))
		h->mapped = false; /* elsewhere the flag means: mapped at `to`
				      as well */
	totals_set_uncounted(arena, false);
	count_reserved(arena, true);
	suspension_end(arena); /* the copies are dropped already */
}

static enum weir_status
try_resume(struct arena *arena, size_t *need)
{
	lock_enter(&arena->lock);
	if (!arena->memory.uncounted || arena->memory.jobs > 0) {
		lock_leave(&arena->lock);
		return status_set(
		    WEIR_EINVAL, "resuming: the pool is not suspended");
	}
	size_t bytes = missing_bytes(arena);
	*need = bytes;
	enum weir_status status = arena_promise(arena, bytes, need);
	if (status == WEIR_OK) {
		suspension_move(arena);
		arena_leave_for_driver(arena);
		status = resume(arena);
		arena_enter_from_driver(arena);
		if (status == WEIR_OK)
			finish_resume(arena);
		arena_promised(arena, bytes);
		suspension_moved(arena);
	}
	lock_leave(&arena->lock);
	return status;
}

enum weir_status
arena_resume(struct arena *arena)
{
	size_t need;

	history_enter(WEIR_HISTORY_STATE);
	enum weir_status status = try_resume(arena, &need);
	while (status == WEIR_ENOMEM && arena_ask_others(arena, need) > 0)
		status = try_resume(arena, &need);
	history_leave();
	return status;
}
