/*
 * Suspended arenas. Their handles stay in their segments, without memory: each
 * is unmapped, and its id is 0 once its reference is given up. The blocks stay
 * as they are and count as before, but for reserved_bytes, which is what is
 * held from the driver. While it is suspended an arena is kept, so that nothing
 * else looks at its handles. The history tells it as memory that is unmapped
 * and mapped again, and a snapshot shows of it what is mapped: nothing.
 */
#include "allocator/suspend.h"

#include "allocator/lookup.h"
#include "allocator/segment.h"
#include "allocator/tell.h"
#include "base/meta.h"
#include "base/status.h"

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

/* All handles of an arena, one after the other. */
static struct handle *
first_from(const struct arena *arena, struct list *l)
{
	for (; l != &arena->segments; l = l->next) {
		struct handle *handle =
		    handle_at(tree_first(&segment_of(l)->handles));
		if (handle != NULL)
			return handle;
	}
	return NULL;
}

static struct handle *
first_handle(const struct arena *arena)
{
	return first_from(arena, arena->segments.next);
}

static struct handle *
next_handle(const struct handle *handle)
{
	struct handle *next = handle_at(tree_next(&handle->node));

	return next != NULL ?
	    next :
	    first_from(handle->segment->arena, handle->segment->link.next);
}

/* Tell that the memory of a run of blocks is there, or is not. */
static void
tell_run(const struct segment *segment, const struct block *first,
    const struct block *end, bool there)
{
	CUdeviceptr stop =
	    end != NULL ? end->addr : segment->addr + segment->size;

	tell_memory(segment, first->addr, stop - first->addr,
	    there ? TRACE_segment_map : TRACE_segment_unmap);
}

/* Count the memory of all blocks as held, or not, and tell of it. */
static void
count_reserved(struct arena *arena, bool held)
{
	for (struct list *l = arena->segments.next; l != &arena->segments;
	     l = l->next) {
		const struct block *run = NULL;
		struct block *b;
		for (b = segment_of(l)->first; b != NULL; b = b->next) {
			if (block_is_held(b))
				stats_change(b->pool, STAT3_reserved_bytes,
				    held ? (int64_t)b->size :
					   -(int64_t)b->size);
			if (run != NULL && !block_is_held(b))
				tell_run(segment_of(l), run, b, held);
			if (!block_is_held(b))
				run = NULL;
			else if (run == NULL)
				run = b;
		}
		if (run != NULL)
			tell_run(segment_of(l), run, NULL, held);
	}
}

/* ---- Copies ------------------------------------------------------------ */

static void
drop_copies(struct arena *arena)
{
	for (struct handle *h = first_handle(arena); h != NULL;
	     h = next_handle(h)) {
		/* What is refused is tried once more: nobody comes back. */
		if (h->copy != NULL &&
		    driver_peek()->cuMemFreeHost(h->copy) != CUDA_SUCCESS)
			driver_peek()->cuMemFreeHost(h->copy);
		h->copy = NULL;
	}
}

static enum weir_status
copy_out(struct arena *arena)
{
	const struct driver *driver = driver_peek();
	CUresult code = CUDA_SUCCESS;
	struct handle *h;

	for (h = first_handle(arena); h != NULL; h = next_handle(h)) {
		code = driver->cuMemHostAlloc(&h->copy, h->size, 0);
		if (code != CUDA_SUCCESS) {
			h->copy = NULL;
			break;
		}
		code = driver->cuMemcpyDtoH(h->copy, h->addr, h->size);
		if (code != CUDA_SUCCESS)
			break;
	}
	if (code == CUDA_SUCCESS)
		return WEIR_OK;
	size_t size = h->size;
	drop_copies(arena);
	if (code == CUDA_ERROR_OUT_OF_MEMORY)
		return status_set(WEIR_EHOSTMEM,
		    "suspending: no page-locked host memory for %zu bytes",
		    size);
	return driver_status(code, "suspending: copying %zu bytes out", size);
}

static enum weir_status
copy_in(struct arena *arena)
{
	for (struct handle *h = first_handle(arena); h != NULL;
	     h = next_handle(h)) {
		if (h->copy == NULL)
			continue;
		CUresult code =
		    driver_peek()->cuMemcpyHtoD(h->addr, h->copy, h->size);
		if (code != CUDA_SUCCESS)
			return driver_status(
			    code, "resuming: copying %zu bytes in", h->size);
	}
	return WEIR_OK;
}

/* ---- Suspending -------------------------------------------------------- */

static enum weir_status
check_suspend(const struct arena *arena)
{
	if (arena->forgotten)
		return status_set(WEIR_ECONTEXT,
		    "suspending: device %d was reset", arena->device);
	if (atomic_load(&arena->suspended))
		return status_set(
		    WEIR_EINVAL, "suspending: the pool is suspended");
	if (arena->jobs > 0 || !list_empty(&arena->left))
		return status_set(WEIR_ENOTREADY,
		    "suspending: memory of the pool is being mapped");
	for (struct list *l = arena->segments.next; l != &arena->segments;
	     l = l->next) {
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

/* Unmap what can be, then give up what is unmapped. Bytes given back. */
static size_t
give_up(struct arena *arena)
{
	const struct driver *driver = driver_peek();
	size_t bytes = 0;

	for (struct handle *h = first_handle(arena); h != NULL;
	     h = next_handle(h)) {
		h->mapped =
		    driver->cuMemUnmap(h->addr, h->size) != CUDA_SUCCESS;
		if (!h->mapped && h->id != 0 &&
		    driver->cuMemRelease(h->id) == CUDA_SUCCESS)
			h->id = 0;
		bytes += h->id == 0 ? h->size : 0;
	}
	return bytes;
}

/* With the lock left: nobody else looks at the handles. */
static enum weir_status
suspend(struct arena *arena, bool copy, size_t *freed)
{
	struct driver_guard guard;
	/* Of all streams: a graph may be replayed on any. */
	enum weir_status status = stream_wait_host(arena->any);
	if (status == WEIR_OK)
		status = driver_enter(arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	if (copy)
		status = copy_out(arena);
	if (status == WEIR_OK)
		*freed = give_up(arena);
	driver_leave(&guard);
	return status;
}

static enum weir_status
suspend_arena(struct arena *arena, bool copy, size_t *freed)
{
	lock_enter(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	segment_unmap_left(arena, SIZE_MAX);
	enum weir_status status = check_suspend(arena);
	if (status != WEIR_OK) {
		lock_leave(&arena->lock);
		return status;
	}
	atomic_store(&arena->suspended, true);
	arena->kept++;
	arena->jobs++;
	arena_leave_for_driver(arena);
	status = suspend(arena, copy, freed);
	arena_enter_from_driver(arena);
	if (status == WEIR_OK) {
		count_reserved(arena, false);
		arena->uncounted = true;
	} else {
		atomic_store(&arena->suspended, false);
		arena->kept--;
	}
	arena_job_done(arena);
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

	for (struct handle *h = first_handle(arena); h != NULL;
	     h = next_handle(h))
		bytes += h->id == 0 && !h->mapped ? h->size : 0;
	return bytes;
}

/* Undo what map_again() has done. */
static void
unmap_again(struct arena *arena)
{
	const struct driver *driver = driver_peek();

	for (struct handle *h = first_handle(arena); h != NULL;
	     h = next_handle(h)) {
		if (h->mapped &&
		    driver->cuMemUnmap(h->addr, h->size) == CUDA_SUCCESS)
			h->mapped = false;
		if (!h->mapped && h->id != 0 &&
		    driver->cuMemRelease(h->id) == CUDA_SUCCESS)
			h->id = 0;
	}
}

static enum weir_status
map_again(struct arena *arena)
{
	enum weir_status status = WEIR_OK;

	for (struct handle *h = first_handle(arena);
	     h != NULL && status == WEIR_OK; h = next_handle(h)) {
		h->to = h->addr;
		if (h->id == 0 && !h->mapped)
			status = handle_create(h, arena->device);
		if (status == WEIR_OK && !h->mapped)
			status = handle_map(h);
		if (status == WEIR_OK)
			status = handles_open(arena->device, h->addr, h->size);
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
	status = map_again(arena);
	if (status == WEIR_OK)
		status = copy_in(arena);
	if (status == WEIR_OK)
		drop_copies(arena);
	else
		unmap_again(arena);
	driver_leave(&guard);
	return status;
}

static void
done(struct arena *arena)
{
	for (struct handle *h = first_handle(arena); h != NULL;
	     h = next_handle(h))
		h->mapped = false; /* elsewhere: it is not on its way */
	arena->uncounted = false;
	count_reserved(arena, true);
	arena->kept--;
	atomic_store(&arena->suspended, false);
}

static enum weir_status
try_resume(struct arena *arena, size_t *need)
{
	lock_enter(&arena->lock);
	if (!arena->uncounted || arena->jobs > 0) {
		lock_leave(&arena->lock);
		return status_set(
		    WEIR_EINVAL, "resuming: the pool is not suspended");
	}
	size_t bytes = missing_bytes(arena);
	*need = bytes;
	enum weir_status status = arena_promise(arena, bytes, need);
	if (status == WEIR_OK) {
		arena->jobs++;
		arena_leave_for_driver(arena);
		status = resume(arena);
		arena_enter_from_driver(arena);
		if (status == WEIR_OK)
			done(arena);
		arena_promised(arena, bytes);
		arena_job_done(arena);
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

/* ---- For good ---------------------------------------------------------- */

static bool
is_unused(const struct arena *arena)
{
	for (struct list *l = arena->segments.next; l != &arena->segments;
	     l = l->next)
		for (struct block *b = segment_of(l)->first; b != NULL;
		     b = b->next)
			if (block_state(b) != BLOCK_FREE &&
			    block_state(b) != BLOCK_UNMAPPED)
				return false;
	return true;
}

/* All free blocks of a segment become addresses without memory. */
static void
drop_segment(struct segment *segment)
{
	struct tree_node *node;

	while ((node = tree_first(&segment->handles)) != NULL) {
		struct handle *handle = handle_at(node);
		if (handle->mapped)
			driver_peek()->cuMemUnmap(handle->addr, handle->size);
		if (handle->id != 0)
			driver_peek()->cuMemRelease(handle->id);
		handle_remove(handle);
		meta_free(handle, sizeof(*handle));
	}
	for (struct block *b = segment->first; b != NULL; b = b->next) {
		if (block_state(b) != BLOCK_FREE)
			continue;
		block_take(b);
		b = block_put(b, BLOCK_UNMAPPED);
	}
}

void
arena_drop_suspended(struct arena *arena)
{
	struct driver_guard guard;

	if (!arena->uncounted || arena->jobs > 1 || !is_unused(arena))
		return;
	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		drop_copies(arena);
		for (struct list *l = arena->segments.next;
		     l != &arena->segments; l = l->next)
			drop_segment(segment_of(l));
		driver_leave(&guard);
		arena->uncounted = false;
		arena->kept--;
		atomic_store(&arena->suspended, false);
	}
	status_unmute();
}
