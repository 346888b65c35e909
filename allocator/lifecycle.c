/*
 * Makes each device's own arena when the device is first used, and puts it out
 * of reach when the device's context is gone. An arena is never destroyed.
 * private/arenas.c makes the other arenas.
 */
#include "allocator/lifecycle.h"

#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/host/known.h"
#include "allocator/lend/lender.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/forget.h"
#include "allocator/observe/guard.h"
#include "allocator/observe/startup.h"
#include "allocator/private/arenas.h"
#include "allocator/private/sleeping.h"
#include "allocator/private/suspension.h"
#include "allocator/request/ladder.h"
#include "allocator/request/plan.h"
#include "allocator/request/thread_end.h"
#include "allocator/share/member.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_ARENAS);
static struct arena *forgotten GUARDED_BY(lock); /* through ->next_forgotten */

/* ---- Arenas ------------------------------------------------------------ */

static enum weir_status
ask_traits(int device, struct traits *out)
{
	int supported = 0;
	CUresult code = driver_peek()->cuDeviceGetAttribute(&supported,
	    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);

	ASSERT(device >= 0 && device < DEVICES_MAX);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuDeviceGetAttribute(device %d)", device);
	*out = supported ? traits_expandable : traits_segments;
	return WEIR_OK;
}

static enum weir_status
arena_new(int device, const struct options *options, struct arena **out)
    HOLDS(lock)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	struct arena *arena = meta_zalloc(sizeof(*arena));
	if (arena == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for device %d", device);
	arena->device = device;
	enum weir_status status = driver_context(device, &arena->context);
	if (status != WEIR_OK)
		goto drop_arena;
	status = ask_traits(device, &arena->traits);
	if (status == WEIR_OK)
		status = memory_ask_device(arena);
	if (status != WEIR_OK)
		goto drop_arena;
	status = stream_find(device, WEIR_STREAM_ANY, &arena->any);
	if (status != WEIR_OK)
		goto drop_arena;
	guard_begin(options->guard);
	status = arena_begin(arena, arena);
	if (status != WEIR_OK)
		goto drop_stream;
	device_set_limit(
	    arena, options_limit(options, arena->account.total_bytes));
	plan_load(arena, options);
	member_begin(device, options);
	thread_end_watch();
	*out = arena;
	return WEIR_OK;

drop_stream:
	stream_put(arena->any);
drop_arena:
	meta_free(arena, sizeof(*arena));
	return status;
}

static __attribute__((noinline)) enum weir_status
get_first(int device, struct arena **out)
{
	const struct options *options;
	struct arena *arena;

	if (device < 0 || device >= DEVICES_MAX)
		return status_set(WEIR_ENOTSUP,
		    "device %d: weir serves the first %d", device, DEVICES_MAX);
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	startup_begin(options);
	lock_enter(&lock);
	arena = arena_peek(device);
	if (arena == NULL) {
		status = arena_new(device, options, &arena);
		if (status == WEIR_OK)
			arena_publish(device, arena);
	}
	lock_leave(&lock);
	if (status != WEIR_OK)
		return status;
	lender_begin(arena);
	*out = arena;
	return WEIR_OK;
}

enum weir_status
arena_get(int device, struct arena **out)
{
	struct arena *arena = arena_peek(device);

	if (arena == NULL)
		return get_first(device, out);
	*out = arena;
	return WEIR_OK;
}

/* ---- A context that is gone -------------------------------------------- */

static void
forget_arena(struct arena *arena)
{
	ASSERT(!arena->memory.forgotten);
	lock_enter(&arena->lock);
	if (arena == arena->main) {
		/* A thread that is still in this arena must not begin another
		 * history. */
		struct history_ring *ring = emit_ring_enter(arena);
		history_close(ring);
		ring->refused = true;
		emit_ring_leave(arena);
	}
	tcache_forget(arena);
	fences_forget(arena);
	memory_forget(arena);
	ladder_forget(arena);
	suspension_forget_copies(arena);
	lock_leave(&arena->lock);
}

/* Forget all arenas of a device. Their structures stay, out of reach: a thread
 * may be in one, and records of blocks are never freed. */
static void
forget_arenas(int device, struct arena *arena)
{
	ASSERT(arena == arena->main);
	lock_enter(&lock);
	arena_publish(device, NULL);
	arena->lifecycle.next_forgotten = forgotten;
	forgotten = arena;
	lock_leave(&lock);
	for (struct arena *a = arena; a != NULL; a = arena_next(a))
		forget_arena(a);
	member_settle(device, 0);
	host_forget_device(device);
}

/* Streams and events are forgotten even if the device has no arena: blocks of
 * other devices may have used them. */
void
allocator_forget_device(int device)
{
	struct arena *arena = arena_peek(device);
	CUcontext context = driver_context_peek(device);

	if (arena != NULL)
		forget_arenas(device, arena);
	sleeping_forget(device);
	guard_forget_device(device);
	if (context == NULL)
		return;
	event_forget(context);
	stream_forget(context);
}

bool
allocator_maps(int device)
{
	const struct options *options;
	const struct driver *driver;
	int supported = 0;

	return options_get(&options) == WEIR_OK &&
	    options->expandable_segments && driver_get(&driver) == WEIR_OK &&
	    driver->cuDeviceGetAttribute(&supported,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		device) == CUDA_SUCCESS &&
	    supported != 0;
}

enum weir_status
allocator_make_arena(int device, struct arena **out)
{
	struct arena *main;
	enum weir_status status = arena_get(device, &main);

	return status == WEIR_OK ? arena_make(main, NULL, 0, out) : status;
}

void
allocator_drop_arena(struct arena *arena)
{
	arena_drop(arena);
}
