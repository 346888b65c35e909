/*
 * The arenas of page-locked memory. An arena is made at the first use of its
 * kind, and kept until the context of the device is gone.
 */
#include "allocator/host/known.h"

#include "allocator/cache/types.h"
#include "allocator/host/pages.h"
#include "allocator/private/arenas.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOST);
static _Atomic(struct arena *) arenas[DEVICES_MAX][HOST_KINDS]; /* under lock */

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
	lock_leave(&lock);
	host_pages_forget(device);
}
