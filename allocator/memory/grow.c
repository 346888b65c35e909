/*
 * Gets memory for a pool: segment.h, Note [Growing].
 */
#include "allocator/memory/grow.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/remap.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/view.h"
#include "base/status.h"
#include "driver/driver.h"

enum weir_status
pool_grow(struct view *view, struct pool *pool, const struct options *options,
    size_t rounded, enum grow_how how, size_t *need)
{
	struct arena *arena = pool->owner->arena;
	struct driver_guard guard;
	enum weir_status status = driver_enter(arena->context, &guard);

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(rounded > 0 && rounded % FINE_GRANULE == 0);
	ASSERT(view->mine->arena == pool->owner->arena);
	if (status != WEIR_OK)
		return status;
	bool exact = how == GROW_EXACT;
	lock_assert_held(&arena->lock);
	arena_job_begin(arena);
	if (arena->memory.kept > 0 && how != GROW_MOVED)
		how = GROW_NEW;
	if (arena->memory.kept > 0 && how == GROW_MOVED)
		status = status_set(WEIR_ENOMEM, "nothing may be moved here");
	else if (heap_maps(pool->owner, options))
		status = map_for(view, pool, options, rounded, how, need);
	else if (how == GROW_MOVED)
		status = status_set(WEIR_ENOMEM, "nothing can be moved there");
	else
		status =
		    segment_grow_driver(pool, options, rounded, exact, need);
	driver_leave(&guard);
	lock_assert_held(&arena->lock);
	arena_job_done(arena);
	return status;
}

enum weir_status
pool_grow_at(struct view *view, struct pool *pool,
    const struct options *options, struct grow_at *at, enum grow_how how)
{
	struct arena *arena = pool->owner->arena;
	struct driver_guard guard;
	enum weir_status status = driver_enter(arena->context, &guard);

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(at->size > 0 && view->mine->arena == pool->owner->arena);
	at->mapped = 0;
	if (status != WEIR_OK)
		return status;
	lock_assert_held(&arena->lock);
	arena_job_begin(arena);
	if (arena->memory.kept > 0 && how == GROW_MOVED)
		status = status_set(WEIR_ENOMEM, "nothing may be moved here");
	else
		status = map_at(view, pool, options, at,
		    arena->memory.kept > 0 ? GROW_NEW : how);
	driver_leave(&guard);
	lock_assert_held(&arena->lock);
	arena_job_done(arena);
	return status;
}

enum weir_status
pool_reserve_places(struct pool *pool, const struct options *options,
    size_t bytes, CUdeviceptr *out)
{
	struct driver_guard guard;
	enum weir_status status;

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(bytes > 0);
	if (!heap_maps(pool->owner, options))
		return status_set(
		    WEIR_ENOMEM, "memory is not mapped, so it has no places");
	status = driver_enter(pool->owner->arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = segment_reserve_places(pool, bytes, out);
	driver_leave(&guard);
	return status;
}

void
arena_open_places(struct arena *arena, CUdeviceptr addr)
{
	struct segment *segment = segment_of_places(arena, addr);

	lock_assert_held(&arena->lock);
	arena_keep_places(arena, false);
	if (segment != NULL)
		segment->of_places = false;
}

void
arena_keep_places(struct arena *arena, bool stays)
{
	lock_assert_held(&arena->lock);
	arena->memory.places_stay = stays;
}

enum weir_status
pool_prepare(struct pool *pool, const struct options *options, size_t size)
{
	struct arena *arena = pool->owner->arena;
	struct driver_guard guard;
	struct view view;
	size_t need;
	enum weir_status status = driver_enter(arena->context, &guard);

	lock_assert_held(&pool->owner->arena->lock);
	ASSERT(size > 0);
	if (status != WEIR_OK)
		return status;
	view_begin(&view, pool->owner);
	lock_assert_held(&arena->lock);
	arena_job_begin(arena);
	status = heap_maps(pool->owner, options) ?
	    map_new(&view, pool, options, size, &need) :
	    segment_grow_driver(pool, options, size, false, &need);
	driver_leave(&guard);
	lock_assert_held(&arena->lock);
	arena_job_done(arena);
	return status;
}
