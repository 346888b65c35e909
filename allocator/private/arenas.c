/*
 * Arenas besides each device's own.
 *
 * Note [Other arenas]
 *
 * Memory that must stay apart (a private pool's, or memory from another source)
 * has an arena of its own. Such an arena works as a device's own arena does,
 * but threads keep caches for it only if it is host memory. An arena has
 * owners. After the last owner has dropped it, the arena gives back its free
 * memory, at once and at each later free. With its last segment it goes out of
 * use and can be given to another owner. An arena is never freed, because a
 * thread finds a block, and locks the block's arena, with no lock held before.
 */
#include "allocator/private/arenas.h"

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/cache/make.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/source.h"
#include "allocator/request/decay.h"
#include "allocator/request/reclaim.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"

/* ---- Making ------------------------------------------------------------ */

static void
begin_use(struct arena *arena)
{
	arena->private.in_use = true;
	arena->private.owners = 1;
}

static void
end_use(struct arena *arena) HOLDS(arena->lock)
{
	arena->private.in_use = false;
	atomic_fetch_add(&arena->main->private.unused, 1);
}

/* Take an arena with these traits that is out of use, or NULL. Traits are read
 * without the lock, so they never change, and memory of other traits needs
 * another arena. */
static struct arena *
reuse_arena(struct arena *main, const struct traits *traits)
{
	ASSERT(main == main->main);
	if (atomic_load(&main->private.unused) == 0)
		return NULL;
	for (struct arena *a = arena_next(main); a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		bool idle =
		    !a->private.in_use && a->traits.name == traits->name;
		if (idle) {
			begin_use(a);
			atomic_fetch_sub(&main->private.unused, 1);
		}
		lock_leave(&a->lock);
		if (idle)
			return a;
	}
	return NULL;
}

enum weir_status
arena_begin(struct arena *arena, struct arena *main)
{
	ASSERT(main != NULL);
	arena->main = main;
	begin_use(arena);
	lock_init(&arena->lock, LOCK_RANK_ARENA);
	waiting_init(&arena->waiting);
	tcache_begin(arena);
	lock_enter(&arena->lock);
	policy_begin(&arena->policy, driver_time_ns());
	fences_begin(arena, delay_lost_ns());
	lock_leave(&arena->lock);
	enum weir_status status = memory_begin(arena);
	if (status != WEIR_OK)
		lock_destroy(&arena->lock);
	return status;
}

static enum weir_status
make_other_arena(
    struct arena *main, const struct traits *traits, struct arena **out)
{
	ASSERT(main == main->main);
	struct arena *arena = meta_zalloc(sizeof(*arena));
	if (arena == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for an arena of device %d", main->device);
	arena->traits = *traits;
	arena->device = main->device;
	arena->context = main->context;
	arena->any = stream_ref(main->any);
	enum weir_status status = arena_begin(arena, main);
	if (status != WEIR_OK) {
		stream_put(arena->any);
		meta_free(arena, sizeof(*arena));
		return status;
	}
	arena->private.next = atomic_load(&main->private.others);
	while (!atomic_compare_exchange_weak(
	    &main->private.others, &arena->private.next, arena))
		;
	*out = arena;
	return WEIR_OK;
}

enum weir_status
arena_make(struct arena *main, const struct source *source, unsigned flags,
    struct arena **out)
{
	ASSERT(main == main->main);
	struct totals *totals = NULL;
	enum weir_status status = WEIR_OK;
	const struct traits *traits =
	    source != NULL ? source->traits : &main->traits;
	struct arena *arena = reuse_arena(main, traits);
	if (arena == NULL)
		status = make_other_arena(main, traits, &arena);
	if (status != WEIR_OK)
		return status;
	lock_enter(&main->lock);
	if (traits->account == ACCOUNT_HOST) {
		status = totals_begin_host(main);
		totals = main->account.host_totals;
	} else {
		status = totals_begin(main);
		totals = main->account.totals;
	}
	bool forgotten = main->memory.forgotten;
	lock_leave(&main->lock);
	lock_enter(&arena->lock);
	memory_begin_use(arena, source, flags, totals, forgotten);
	waiting_set_in_captures(&arena->waiting, traits->has_streams);
	if (status != WEIR_OK)
		end_use(arena);
	lock_leave(&arena->lock);
	if (status == WEIR_OK)
		*out = arena;
	return status;
}

/* ---- Owners ------------------------------------------------------------ */

void
arena_hold(struct arena *arena)
{
	lock_enter(&arena->lock);
	if (arena->private.owners++ == 0)
		atomic_fetch_sub(&arena->main->private.unowned, 1);
	lock_leave(&arena->lock);
}

bool
arena_lives(struct arena *arena, uint64_t generation)
{
	lock_enter(&arena->lock);
	bool lives =
	    arena->private.in_use && arena->private.generation == generation;
	lock_leave(&arena->lock);
	return lives;
}

bool
arena_revive(struct arena *arena, uint64_t generation)
{
	lock_enter(&arena->lock);
	bool alive = arena->private.in_use &&
	    arena->private.generation == generation && !arena->memory.forgotten;
	if (alive && arena->private.owners++ == 0)
		atomic_fetch_sub(&arena->main->private.unowned, 1);
	lock_leave(&arena->lock);
	return alive;
}

size_t
arena_drop(struct arena *arena)
{
	lock_enter(&arena->lock);
	bool last = --arena->private.owners == 0;
	if (last)
		atomic_fetch_add(&arena->main->private.unowned, 1);
	lock_leave(&arena->lock);
	return last ? arena_empty(arena) : 0;
}

/* ---- With no owner ----------------------------------------------------- */

static void
retire_arena(struct arena *arena)
{
	struct list *next;

	ASSERT(arena->private.in_use);
	ASSERT(arena->private.owners == 0 && arena != arena->main);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		next = l->next;
		if (heap != arena->memory.any_heap) {
			lock_assert_held(&heap->arena->lock);
			fences_drop(heap);
			heap_drop(heap);
		}
	}
	lock_assert_held(&arena->lock);
	memory_end_use(arena);
	tcache_begin_again(arena);
	policy_begin(&arena->policy, driver_time_ns());
	fences_begin(arena, 0);
	decay_forget(arena);
	end_use(arena);
	arena->private.generation++;
	atomic_fetch_sub(&arena->main->private.unowned, 1);
}

static bool
is_unowned(const struct arena *arena)
{
	return arena->private.in_use && arena->private.owners == 0;
}

size_t
arena_empty(struct arena *arena)
{
	size_t bytes = 0;

	lock_enter(&arena->lock);
	if (is_unowned(arena)) {
		arena_job_begin(arena); /* keeps it in use until this is done */
		reclaim_poll(arena, RECLAIM_SKIPS);
		reclaim_refresh(arena);
		if (arena->account.uncounted)
			arena->private.suspension.drop(arena);
		bytes = reclaim_shed(arena, SIZE_MAX);
		segment_unreserve(arena);
		if (is_unowned(arena) && arena->memory.jobs == 1 &&
		    list_empty(&arena->memory.segments) &&
		    arena->waiting.count == 0)
			retire_arena(arena);
		arena_job_done(arena);
	}
	lock_leave(&arena->lock);
	return bytes;
}

size_t
arena_empty_all(struct arena *main)
{
	size_t bytes = 0;

	for (struct arena *a = arena_next(main); a != NULL; a = arena_next(a))
		bytes += arena_empty(a);
	return bytes;
}

/* ---- For each other ---------------------------------------------------- */

size_t
arena_shed_idle(struct arena *arena, size_t want)
{
	lock_enter(&arena->lock);
	tcache_drain(arena);
	reclaim_poll(arena, RECLAIM_SKIPS);
	reclaim_refresh(arena);
	size_t bytes = reclaim_shed(arena, want);
	lock_leave(&arena->lock);
	return bytes;
}

/* Give memory back; if there is none, wait for streams until there is some. */
static size_t
shed_waiting(struct arena *arena, size_t want)
{
	size_t bytes = 0;

	ASSERT(want > 0);
	lock_enter(&arena->lock);
	if (arena_keeps_end(arena))
		arena_wait_keeps(arena);
	reclaim_begin_waits(arena);
	while (!arena_is_kept(arena) && !arena->memory.forgotten) {
		tcache_drain(arena);
		bytes = reclaim_shed(arena, want);
		if (bytes > 0 || !reclaim_wait(arena))
			break;
	}
	lock_leave(&arena->lock);
	return bytes;
}

static bool
may_shed_for(const struct arena *arena, const struct arena *other)
{
	return other != arena && other->traits.account == arena->traits.account;
}

size_t
arena_ask_others(struct arena *arena, size_t want)
{
	size_t bytes = 0;

	if (atomic_load(&arena->main->private.others) == NULL)
		return 0;
	status_mute();
	for (struct arena *a = arena->main; a != NULL && bytes < want;
	     a = arena_next(a))
		if (may_shed_for(arena, a))
			bytes += arena_shed_idle(a, want - bytes);
	for (struct arena *a = arena->main; a != NULL && bytes == 0;
	     a = arena_next(a))
		if (may_shed_for(arena, a))
			bytes += shed_waiting(a, want);
	status_unmute();
	return bytes;
}
