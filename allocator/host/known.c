/*
 * The arenas of page-locked memory. An arena is made at the first use of its
 * kind, and kept until the context of the device is gone.
 */
#include "allocator/host/known.h"

#include "allocator/cache/types.h"
#include "allocator/host/pages.h"
#include "allocator/memory/arena.h"
#include "allocator/private/arenas.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOST);
static _Atomic(struct arena *) arenas[DEVICES_MAX][HOST_KINDS]; /* under lock */

/* ---- Does the driver have handles of page-locked memory? --------------- */

/* Drivers before 12.2 have no such handles, and some systems refuse them. Only
 * a try tells; the first request is one. */
enum answer { UNKNOWN, NO, YES };
static _Atomic(enum answer) has_handles[DEVICES_MAX];

bool
host_source_known(const struct arena *main, const struct options *options,
    enum weir_host_source *out)
{
	enum answer answer = atomic_load_explicit(
	    &has_handles[main->device], memory_order_relaxed);

	ASSERT(main == main->main);
	if (options->pinned_source != WEIR_HOST_FROM_HANDLES) {
		*out = (enum weir_host_source)options->pinned_source;
		return true;
	}
	bool none = !main->traits.can_map || answer == NO;
	*out = none ? WEIR_HOST_FROM_SYSTEM : WEIR_HOST_FROM_HANDLES;
	return none || answer == YES;
}

bool
host_handles_refused(const struct arena *arena, enum weir_status status)
{
	ASSERT(arena->traits.is_page_locked);
	_Atomic(enum answer) *known = &has_handles[arena->device];
	enum answer answer = atomic_load_explicit(known, memory_order_relaxed);
	bool short_of_memory = status == WEIR_ENOMEM || status == WEIR_EHOSTMEM;

	if (answer == YES || short_of_memory || !arena->traits.can_map)
		return false;
	answer = status == WEIR_OK ? YES : NO;
	atomic_store_explicit(known, answer, memory_order_relaxed);
	return answer == NO;
}

/* The NUMA node for handles. Where the system names none, it has one. */
static int
node_of(int device)
{
	int node = host_numa_node(device);

	return node < 0 ? 0 : node;
}

/* ---- Arenas ------------------------------------------------------------ */

struct arena *
host_arena_peek(int device, unsigned kind)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	ASSERT(kind < HOST_KINDS);
	return atomic_load_explicit(
	    &arenas[device][kind], memory_order_acquire);
}

enum weir_status
host_arena_get(struct arena *main, unsigned kind, struct arena **out)
{
	int device = main->device;
	enum weir_status status = WEIR_OK;

	ASSERT(main == main->main);
	lock_enter(&lock);
	struct arena *arena = host_arena_peek(device, kind);
	if (arena == NULL) {
		status = arena_make(main, host_source(kind), 0, &arena);
		if (status == WEIR_OK) {
			memory_set_host(
			    arena, node_of(device), TCACHE_WAYS - 1 - kind);
			arena->host.flags = host_kind_facts(kind).flags;
			arena->host.reserve_bytes =
			    options_peek()->pinned_reserve;
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
host_set_reserve(struct arena *arena, size_t bytes)
{
	ASSERT(arena->traits.is_page_locked);
	lock_enter(&arena->lock);
	arena->host.reserve_bytes = bytes;
	lock_leave(&arena->lock);
}

void
host_forget_device(int device)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	lock_enter(&lock);
	for (unsigned kind = 0; kind < HOST_KINDS; kind++) {
		struct arena *arena = host_arena_peek(device, kind);
		atomic_store(&arenas[device][kind], NULL);
		if (arena != NULL)
			host_set_reserve(arena, 0);
	}
	atomic_store(&has_handles[device], UNKNOWN);
	lock_leave(&lock);
}
