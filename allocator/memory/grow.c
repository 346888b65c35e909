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
