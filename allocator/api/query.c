/*
 * <weir/weir.h>: queries about a block and about free memory.
 */
#include "allocator/account/outside.h"
#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/api/find.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/pool.h"
#include "allocator/options.h"
#include "base/os.h"
#include "base/status.h"

/* Report the memory around a block that is mapped in one piece as its segment.
 * The handles are far fewer than the blocks. */
static void
describe_run(const struct block *block, struct weir_block_info *info)
{
	const struct segment *segment = block->segment;
	CUdeviceptr start = segment->addr;
	size_t size = segment->size;

	if (segment->expandable) {
		start = block->addr;
		size = handles_around(segment, start, &start);
	}
	info->segment = (void *)(uintptr_t)start;
	info->segment_size = size > 0 ? size : block->size;
}

enum weir_status
weir_block_info(const void *ptr, struct weir_block_info *out)
{
	if (os_forked())
		return status_forked("weir_block_info");
	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_block_info: out is NULL or its "
		    "struct_size is not set");
	struct block *block = ptr != NULL ? find_locked(ptr) : NULL;
	if (block == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_block_info(%p): no live block of weir "
		    "holds this address",
		    ptr);
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	out->address = (void *)(uintptr_t)block->addr;
	out->size = block->size;
	out->requested_bytes = block->requested;
	out->device = arena->device;
	out->stream = block->pool->owner->stream->handle;
	out->expandable = block->segment->expandable;
	describe_run(block, out);
	lock_leave(&arena->lock);
	return WEIR_OK;
}

enum weir_status
weir_largest_free(int device, weir_stream handle, size_t *bytes)
{
	if (os_forked())
		return status_forked("weir_largest_free");
	struct stream *stream;
	size_t largest = 0;

	if (bytes == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_largest_free: bytes is NULL");
	enum weir_status status = stream_find(device, handle, &stream);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(stream->device);
	if (arena != NULL) {
		lock_enter(&arena->lock);
		tcache_drain(arena);
		for (int k = 0; k < POOL_KINDS && stream->heap; k++) {
			struct stream_heap *heap = stream->heap;
			size_t n = pool_largest(&heap->pool[k]);
			largest = n > largest ? n : largest;
		}
		lock_leave(&arena->lock);
	}
	stream_put(stream);
	*bytes = largest;
	return WEIR_OK;
}

static enum weir_status
driver_memory(int device, size_t *free_bytes, size_t *total_bytes)
{
	struct driver_guard guard;
	CUcontext context;
	enum weir_status status = driver_context(device, &context);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(context, &guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuMemGetInfo(free_bytes, total_bytes);
	driver_leave(&guard);
	return driver_status(code, "cuMemGetInfo(device %d)", device);
}

/* ---- What is shown ------------------------------------------------------ */

/* Show the limit of a device in place of its memory, and what is used of it. */
static void
show_limit(struct shown_memory *m, size_t limit)
{
	m->limited = limit < m->total_bytes;
	m->total_bytes = min_size(m->total_bytes, limit);
	size_t unused =
	    m->total_bytes > m->used_bytes ? m->total_bytes - m->used_bytes : 0;
	m->free_bytes = min_size(m->free_bytes, unused);
}

/* Pending blocks count as free: a request waits for them before it fails.
 * Memory that a job has just given back may still count as held, so the sum is
 * bounded by the memory that is not used. */
static void
show_arena(struct arena *arena, const struct options *options,
    struct shown_memory *m) HOLDS(arena->lock)
{
	bool real = options != NULL && options->show_device == SHOW_REAL;
	size_t live = device_live(arena);
	size_t held = device_reserved(arena);

	lock_assert_held(&arena->lock);
	m->used_bytes = live + (real ? 0 : outside_in_limit(arena->device));
	m->free_bytes += held > live ? held - live : 0;
	show_limit(m, real ? SIZE_MAX : device_limit(arena));
}

/* A device that weir holds nothing of yet: the options say the limit. With
 * wrong options weir serves nothing, and the driver's answer holds. */
static void
show_unused(int device, struct shown_memory *m)
{
	const struct options *options;
	size_t limit = SIZE_MAX;

	status_mute();
	if (options_get(&options) == WEIR_OK &&
	    options->show_device == SHOW_LIMIT)
		limit = options_limit(options, m->total_bytes);
	status_unmute();
	m->used_bytes = device >= 0 ? outside_in_limit(device) : 0;
	show_limit(m, limit);
}

void
allocator_show_memory(int device, struct shown_memory *m)
{
	struct arena *arena = arena_peek(device);

	if (arena == NULL) {
		show_unused(device < DEVICES_MAX ? device : -1, m);
		return;
	}
	lock_enter(&arena->lock);
	tcache_report(arena);
	show_arena(arena, options_peek(), m);
	lock_leave(&arena->lock);
}

/* Read both at one moment: memory that moved from one to the other in between
 * would count twice. */
static enum weir_status
arena_memory(struct arena *arena, struct shown_memory *m)
{
	lock_enter(&arena->lock);
	tcache_report(arena);
	enum weir_status status =
	    driver_memory(arena->device, &m->free_bytes, &m->total_bytes);
	if (status == WEIR_OK)
		show_arena(arena, options_peek(), m);
	lock_leave(&arena->lock);
	return status;
}

static enum weir_status
unused_memory(int device, struct shown_memory *m)
{
	enum weir_status status =
	    driver_memory(device, &m->free_bytes, &m->total_bytes);

	if (status == WEIR_OK)
		show_unused(device < DEVICES_MAX ? device : -1, m);
	return status;
}

enum weir_status
weir_memory_info(int device, size_t *free_bytes, size_t *total_bytes)
{
	if (os_forked())
		return status_forked("weir_memory_info");
	struct shown_memory m = { 0 };

	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	status =
	    arena != NULL ? arena_memory(arena, &m) : unused_memory(device, &m);
	if (status != WEIR_OK)
		return status;
	if (free_bytes != NULL)
		*free_bytes = m.free_bytes;
	if (total_bytes != NULL)
		*total_bytes = m.total_bytes;
	return WEIR_OK;
}
