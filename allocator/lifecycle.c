/*
 * The life of each device's own arena: made when the device is first used, and
 * put out of reach when its context is gone; it is never destroyed. Arenas
 * besides it are made in private/arenas.c.
 */
#include "allocator/lifecycle.h"

#include "allocator/allocator.h"
#include "allocator/api/stream_end.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/host/host.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/check.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/guard.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pin.h"
#include "allocator/memory/totals.h"
#include "allocator/observe/auto_snapshot.h"
#include "allocator/private/arenas.h"
#include "allocator/private/suspend_copies.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ARENAS);
static struct arena *forgotten GUARDED_BY(lock); /* through ->next_forgotten */

/* ---- Jobs -------------------------------------------------------------- */

static void forget_contents(struct arena *arena);

void
arena_job_done(struct arena *arena)
{
	if (--arena->jobs == 0 && arena->forgotten)
		forget_contents(arena);
}

/* ---- Arenas ------------------------------------------------------------ */

static enum weir_status
ask_granularity(struct arena *arena)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = arena->device },
	};
	CUresult code = driver_peek()->cuMemGetAllocationGranularity(
	    &arena->granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	return driver_status(
	    code, "cuMemGetAllocationGranularity(device %d)", arena->device);
}

static enum weir_status
ask_device(struct arena *arena)
{
	const struct driver *driver = driver_peek();
	int supported = 0;
	CUresult code =
	    driver->cuDeviceTotalMem(&arena->total_bytes, arena->device);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuDeviceTotalMem(device %d)", arena->device);
	code = driver->cuDeviceGetAttribute(&supported,
	    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
	    arena->device);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuDeviceGetAttribute(device %d)", arena->device);
	arena->can_map = supported;
	if (!arena->can_map) {
		arena->granularity = SEGMENT_STEP;
		return WEIR_OK;
	}
	return ask_granularity(arena);
}

/* The limit that the options ask for. */
static size_t
initial_limit(const struct arena *arena, const struct options *options)
{
	size_t limit = options->memory_limit;

	if (options->memory_fraction < 1) {
		size_t bytes = (size_t)(options->memory_fraction *
		    (double)arena->total_bytes);
		limit = bytes < limit ? bytes : limit;
	}
	return limit;
}

enum weir_status
arena_set_up(struct arena *arena, struct arena *main)
{
	arena->main = main;
	arena->in_use = true;
	arena->owners = 1;
	lock_init(&arena->lock, LOCK_RANK_ARENA);
	list_init(&arena->pools);
	list_init(&arena->segments);
	list_init(&arena->left);
	list_init(&arena->caches);
	tree_init(&arena->pins, compare_pins);
	waiting_init(&arena->waiting);
	arena->source = source_driver;
	arena->granule = WEIR_GRANULE;
	lock_enter(&arena->lock);
	enum weir_status status =
	    pools_get(arena, arena->any, &arena->any_pools);
	lock_leave(&arena->lock);
	if (status != WEIR_OK) {
		lock_destroy(&arena->lock);
		return status;
	}
	arena->any_pools->passed_at = UINT64_MAX;
	return WEIR_OK;
}

static enum weir_status
arena_new(int device, const struct options *options, struct arena **out)
    HOLDS(lock)
{
	struct arena *arena = meta_zalloc(sizeof(*arena));
	if (arena == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for device %d", device);
	arena->device = device;
	enum weir_status status = driver_context(device, &arena->context);
	if (status != WEIR_OK)
		goto drop_arena;
	status = ask_device(arena);
	if (status != WEIR_OK)
		goto drop_arena;
	status = stream_find(device, WEIR_STREAM_ANY, &arena->any);
	if (status != WEIR_OK)
		goto drop_arena;
	guard_begin(options->guard);
	status = arena_set_up(arena, arena);
	if (status != WEIR_OK)
		goto drop_stream;
	atomic_init(&arena->limit, initial_limit(arena, options));
	atomic_init(&arena->host_limit, SIZE_MAX);
	stream_end_watch_threads();
	*out = arena;
	return WEIR_OK;

drop_stream:
	stream_put(arena->any);
drop_arena:
	meta_free(arena, sizeof(*arena));
	return status;
}

enum weir_status
arena_get(int device, struct arena **out)
{
	const struct options *options;
	struct arena *arena = arena_peek(device);

	if (arena != NULL) {
		*out = arena;
		return WEIR_OK;
	}
	if (device < 0 || device >= DEVICES_MAX)
		return status_set(WEIR_ENOTSUP,
		    "device %d: weir serves the first %d", device, DEVICES_MAX);
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	attend_begin(options);
	lock_enter(&lock);
	arena = arena_peek(device);
	if (arena == NULL) {
		status = arena_new(device, options, &arena);
		if (status == WEIR_OK)
			arena_publish(device, arena);
	}
	lock_leave(&lock);
	if (status == WEIR_OK)
		*out = arena;
	return status;
}

/* ---- A context that is gone -------------------------------------------- */

/*
 * What the driver allocated went with the context, but physical memory that
 * was created and mapped, and reserved addresses, are the process's and stay.
 * Whether the driver has taken them back all the same is its own business: a
 * refusal leaves nothing to do.
 */
static void
forget_handles(struct segment *segment)
{
	const struct driver *driver = driver_peek();
	struct tree_node *node;

	while ((node = tree_first(&segment->handles)) != NULL) {
		struct handle *handle = CONTAINER_OF(node, struct handle, node);

		driver->cuMemUnmap(handle->addr, handle->size);
		if (handle->id != 0)
			driver->cuMemRelease(handle->id);
		tree_remove(&segment->handles, node);
		meta_free(handle, sizeof(*handle));
	}
	driver->cuMemAddressFree(segment->addr, segment->size);
}

static void
forget_segment(struct segment *segment)
{
	struct block *next;

	for (struct block *b = segment->first; b != NULL; b = next) {
		next = b->next;
		if (block_is_held(b))
			lookup_set(b->addr, NULL);
		if (block_state(b) == BLOCK_LEFT)
			driver_peek()->cuMemUnmap(b->addr, b->size);
		if (b->pending.uses != NULL)
			use_clear(&segment->arena->waiting, &b->pending);
		block_delete(b);
	}
	list_remove(&segment->link);
	if (segment->expandable)
		forget_handles(segment);
	else if (segment->arena->source.forget != NULL)
		segment->arena->source.forget(segment->arena->source.closure,
		    segment->arena->device, segment->addr, segment->size);
	meta_free(segment, sizeof(*segment));
}

static void
forget_contents(struct arena *arena)
{
	waiting_forget(&arena->waiting);
	pins_forget(arena);
	arena->keep_event = NULL;
	arena->kept -= arena->keeps_ending;
	arena->keeps_ending = 0;
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next)
		marks_forget(CONTAINER_OF(l, struct pools, link));
	while (!list_empty(&arena->segments))
		forget_segment(
		    CONTAINER_OF(arena->segments.next, struct segment, link));
	list_init(&arena->left);
	handles_release_again(arena);
	arena->shared_bytes = 0;
	arena->stats = (struct weir_stats){ 0 };
	arena->tally = (struct tally){ 0 };
	if (arena != arena->main)
		arena->totals = NULL;
	arena->uncounted = false;
	copies_forget(arena->copies);
	arena->copies = NULL;
}

static void
forget_arena(struct arena *arena)
{
	lock_enter(&arena->lock);
	arena->forgotten = true;
	if (arena == arena->main) {
		/* And nobody who is still in the device begins another. */
		struct history_ring *ring = tell_ring_enter(arena);
		history_close(ring);
		ring->refused = true;
		tell_ring_leave(arena);
	}
	tcache_forget(arena);
	if (arena->jobs == 0)
		forget_contents(arena);
	lock_leave(&arena->lock);
}

/* The arena itself stays, out of reach: a thread may be in it, and its blocks
 * are for ever. */
static void
forget_arenas(int device, struct arena *arena)
{
	lock_enter(&lock);
	arena_publish(device, NULL);
	arena->next_forgotten = forgotten;
	forgotten = arena;
	lock_leave(&lock);
	for (struct arena *a = arena; a != NULL; a = arena_next(a))
		forget_arena(a);
	host_forget_device(device);
}

/* Streams of a device may have been used for memory of others. */
void
allocator_forget_device(int device)
{
	struct arena *arena = arena_peek(device);
	CUcontext context = driver_context_peek(device);

	if (arena != NULL)
		forget_arenas(device, arena);
	if (context == NULL)
		return;
	event_forget(context);
	stream_forget(context);
}

/* ---- Over all arenas --------------------------------------------------- */

/* What the caches have counted is told. */
static void
settle_all(struct arena *main)
{
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		tcache_tell(a);
		lock_leave(&a->lock);
	}
}

/* Each arena in turn, and then what they come to; unless it has changed
 * meanwhile, which is no fault. */
static void
check_device(struct arena *main, struct check *check)
{
	struct weir_stats sums = { 0 };
	struct weir_stats host_sums = { 0 };

	guard_look_at_all(main, check);
	settle_all(main);
	lock_enter(&main->lock);
	struct totals *totals = main->totals;
	struct totals *host = main->host_totals;
	lock_leave(&main->lock);
	uint64_t begun = totals_changes(totals);
	uint64_t host_begun = totals_changes(host);
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		tcache_stop(a);
		arena_check(a, check);
		struct weir_stats all = stats_all(&a->stats, &a->tally);
		if (arena_is_counted(a))
			stats_add_current(&sums, &all);
		else if (arena_is_host(a))
			stats_add_current(&host_sums, &all);
		tcache_go(a);
		lock_leave(&a->lock);
	}
	totals_check(totals, begun, &sums, check);
	totals_check(host, host_begun, &host_sums, check);
}

size_t
weir_check(char *text, size_t size)
{
	struct check check = { .text = text, .size = text ? size : 0 };

	if (check.size > 0)
		text[0] = '\0';
	if (os_forked())
		return 0;
	for (int device = 0; device < DEVICES_MAX; device++) {
		struct arena *arena = arena_peek(device);
		if (arena != NULL)
			check_device(arena, &check);
	}
	return check.faults;
}
