/*
 * The arenas of page-locked memory. An arena is made at the first use of its
 * kind, and kept until the context of the device is gone.
 */
#include "allocator/host/known.h"

#include "allocator/cache/types.h"
#include "allocator/host/pages.h"
#include "allocator/memory/handle.h"
#include "allocator/private/arenas.h"
#include "base/status.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOST);
static _Atomic(struct arena *) arenas[DEVICES_MAX][HOST_KINDS]; /* under lock */

/* ---- Does the driver have handles of page-locked memory? --------------- */

enum answer { UNKNOWN, NO, YES };
static _Atomic(enum answer) has_handles[DEVICES_MAX];

/* The NUMA node for handles. Where the system names none, it has one. */
static int
node_of(int device)
{
	int node = host_numa_node(device);

	return node < 0 ? 0 : node;
}

/* Map a handle and drop it again. */
static bool
try_handle(const struct arena *arena)
{
	struct handle handle = { .size = arena->granularity };
	bool done = false;

	if (driver_peek()->cuMemAddressReserve(
		&handle.to, handle.size, 0, 0, 0) != CUDA_SUCCESS)
		return false;
	if (handle_create(&handle, arena) == WEIR_OK &&
	    handle_map(&handle) == WEIR_OK)
		done =
		    handles_open_in(arena, handle.to, handle.size) == WEIR_OK;
	if (handle.mapped)
		addresses_drop_mapping(handle.to, handle.size);
	if (handle.id != 0)
		handle_drop_hold(handle.id);
	addresses_drop(handle.to, handle.size);
	return done;
}

/* Drivers before 12.2 have no such handles, and some systems refuse them. Only
 * a try tells. */
static enum answer
ask_handles(const struct arena *main)
{
	struct arena like = { .device = main->device,
		.granularity = main->granularity,
		.node = node_of(main->device),
		.traits = traits_host_mapped };
	CUmemAllocationProp prop = handle_prop(&like);
	struct driver_guard guard;
	enum answer answer = NO;
	size_t granularity;

	if (!main->traits.can_map)
		return NO;
	status_mute();
	if (driver_enter(main->context, &guard) == WEIR_OK) {
		if (driver_peek()->cuMemGetAllocationGranularity(&granularity,
			&prop,
			CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
		    main->granularity % granularity == 0 && try_handle(&like))
			answer = YES;
		driver_leave(&guard);
	}
	status_unmute();
	return answer;
}

enum host_source
host_source_for(struct arena *main, const struct options *options)
{
	if (options->pinned_source != HOST_HANDLES)
		return options->pinned_source;
	_Atomic(enum answer) *known = &has_handles[main->device];
	if (atomic_load_explicit(known, memory_order_relaxed) == UNKNOWN)
		atomic_store(known, ask_handles(main));
	return atomic_load_explicit(known, memory_order_relaxed) == YES ?
	    HOST_HANDLES :
	    HOST_SYSTEM;
}

/* ---- Arenas ------------------------------------------------------------ */

struct arena *
host_arena_peek(int device, unsigned kind)
{
	return atomic_load_explicit(
	    &arenas[device][kind], memory_order_acquire);
}

enum weir_status
host_arena_get(struct arena *main, unsigned kind, struct arena **out)
{
	int device = main->device;
	enum weir_status status = WEIR_OK;

	lock_enter(&lock);
	struct arena *arena = host_arena_peek(device, kind);
	if (arena == NULL) {
		status = arena_make(main, host_source(kind), 0, &arena);
		if (status == WEIR_OK) {
			arena->node = node_of(device);
			arena->host_flags = host_kind_facts(kind).flags;
			arena->reserve_bytes = options_peek()->pinned_reserve;
			arena->any_heap->index = TCACHE_WAYS - 1 - kind;
			atomic_store_explicit(
			    &arenas[device][kind], arena, memory_order_release);
		}
	}
	lock_leave(&lock);
	if (status == WEIR_OK)
		*out = arena;
	return status;
}

void
host_forget_device(int device)
{
	lock_enter(&lock);
	for (unsigned kind = 0; kind < HOST_KINDS; kind++)
		atomic_store(&arenas[device][kind], NULL);
	atomic_store(&has_handles[device], UNKNOWN);
	lock_leave(&lock);
}
