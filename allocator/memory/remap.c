/*
 * Maps physical memory into expandable segments, without a wait.
 *
 * Note [Remapping]
 *
 * A request that no free block fits is served at a row of addresses that are
 * partly free and partly unmapped. The missing memory is moved there, handle by
 * handle, from free blocks elsewhere that the requesting stream may use already
 * (it is ordered after all work on them). Only the rest is new memory.
 *
 * A handle may be mapped at two addresses at once. Therefore a moved handle is
 * first mapped at its new place, while queued work may still use the old one;
 * the stream's own order keeps the two apart. The old addresses become a
 * VACATED block. Like a pending block it has a use, of the stream that got the
 * memory, and it is unmapped when the use is met.
 *
 * The driver is called with the arena's lock released. Blocks that take part
 * are MAPPING or UNMAPPING meanwhile and in no tree, so that no other thread
 * finds them.
 *
 * Note [Addresses]
 *
 * All streams share the addresses of a kind, and unmapped addresses belong to
 * no stream. Thus free memory of all streams comes to lie side by side.
 */
#include "allocator/memory/remap.h"

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/pin_time.h"
#include "allocator/memory/promote.h"
#include "allocator/memory/remap_plan.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/view.h"
#include "base/status.h"
#include "trace/served.h"

/* Allocate all records and uses that the following steps need. */
static enum weir_status
prepare_remap(struct remap_plan *plan)
{
	struct arena *arena = plan->pool->owner->arena;
	const struct part *first = &plan->parts[0];
	const struct part *last = plan_last_part(plan);
	enum weir_status status = WEIR_OK;

	ASSERT(plan->part_count > 0);
	ASSERT(plan->middle == NULL && plan->rest == NULL);
	for (size_t i = 0; i < plan->donor_count; i++) {
		struct donor *donor = &plan->donors[i];
		if (donor_chosen(donor) == 0)
			continue;
		lock_assert_held(&donor->span.first->arena->lock);
		status = cut_prepare(donor->span.first, donor->span.last,
		    donor->from, donor_chosen(donor), &donor->cut);
		if (status != WEIR_OK)
			return status;
		if (!arena->traits.has_streams)
			continue;
		struct block *moving = donor->cut.middle != NULL ?
		    donor->cut.middle :
		    donor->span.first;
		status = use_add(&arena->waiting, &moving->pending,
		    plan->pool->owner->stream);
		if (status != WEIR_OK)
			return status;
	}
	lock_assert_held(&arena->lock);
	if (first->addr > first->block->addr)
		status = block_new(arena, first->addr, &plan->middle);
	if (status == WEIR_OK && last->size < part_room(last))
		status = block_new(arena, last->addr + last->size, &plan->rest);
	if (status == WEIR_OK)
		status = block_prepare(arena, plan->addr + plan->rounded);
	return status;
}

static void
drop_prepared(struct remap_plan *plan) HOLDS(plan->pool->owner->arena->lock)
{
	struct waiting *waiting = &plan->pool->owner->arena->waiting;

	for (size_t i = 0; i < plan->donor_count; i++) {
		struct donor *donor = &plan->donors[i];
		if (donor->cut.middle != NULL)
			use_clear(waiting, &donor->cut.middle->pending);
		if (donor_chosen(donor) > 0)
			use_clear(waiting, &donor->span.first->pending);
		cut_drop(&donor->cut);
	}
	lock_assert_held(&plan->pool->owner->arena->lock);
	if (plan->middle != NULL) {
		lock_assert_held(&plan->middle->arena->lock);
		block_delete(plan->middle);
	}
	if (plan->rest != NULL) {
		lock_assert_held(&plan->rest->arena->lock);
		block_delete(plan->rest);
	}
	plan->middle = NULL;
	plan->rest = NULL;
}

/* Cut the part out of its block, which is in no tree, as MAPPING. */
static void
hide_part(struct remap_plan *plan, struct part *part)
    HOLDS(part->block->arena->lock)
{
	struct block *whole = part->block;

	lock_assert_held(&whole->arena->lock);
	if (part->addr > whole->addr) {
		block_split(whole, part->addr - whole->addr, plan->middle);
		part->block = plan->middle;
		plan->middle = NULL;
	}
	if (part == plan_last_part(plan) && plan->rest != NULL)
		block_split(part->block, part->size, plan->rest);
	block_set_state(part->block, BLOCK_MAPPING);
	if (part->block != whole)
		block_put(whole, BLOCK_UNMAPPED);
	part->block->segment->busy++;
}

/* Make the blocks of the plan MAPPING and UNMAPPING. */
static void
hide_blocks(struct remap_plan *plan) HOLDS(plan->pool->owner->arena->lock)
{
	ASSERT(plan->part_count > 0 && plan->part_count <= PARTS_MAX);
	for (size_t i = 0; i < plan->part_count; i++) {
		struct part *part = &plan->parts[i];
		lock_assert_held(&part->block->arena->lock);
		block_take(part->block);
		hide_part(plan, part);
	}
	if (plan->rest != NULL) {
		lock_assert_held(&plan->rest->arena->lock);
		block_put(plan->rest, BLOCK_UNMAPPED);
	}
	plan->rest = NULL;
	for (size_t i = 0; i < plan->donor_count; i++) {
		struct donor *donor = &plan->donors[i];
		if (donor_chosen(donor) == 0)
			continue;
		lock_assert_held(&plan->pool->owner->arena->lock);
		donor->block = block_adopt(&donor->span, plan->pool->owner);
		lock_assert_held(&donor->block->arena->lock);
		donor->block = cut_make(donor->block, &donor->cut);
		donor->block->segment->busy++;
	}
}

/* Create the new handles. The time that it takes is the plan's. */
static enum weir_status
create_handles(struct remap_plan *plan, const struct arena *arena)
{
	const uint64_t began_ns = pin_time_now(arena);
	enum weir_status status = WEIR_OK;

	for (struct handle *h = plan->fresh; h != NULL && status == WEIR_OK;
	     h = h->next)
		status = handle_create(h, arena);
	plan->create_ns = pin_time_now(arena) - began_ns;
	return status;
}

static enum weir_status
map_handles(struct handle *handles)
{
	enum weir_status status = WEIR_OK;

	for (struct handle *h = handles; h != NULL && status == WEIR_OK;
	     h = h->next)
		status = handle_map(h);
	return status;
}

/* Make the driver calls, without the lock. On failure they are undone. */
static enum weir_status
map_all(struct remap_plan *plan)
{
	const struct arena *arena = plan->pool->owner->arena;
	enum weir_status status = create_handles(plan, arena);

	if (status == WEIR_OK)
		status = map_handles(plan->fresh);
	if (status == WEIR_OK)
		status = map_handles(plan->moved);
	for (size_t i = 0; i < plan->part_count && status == WEIR_OK; i++)
		status = handles_open_in(
		    arena, plan->parts[i].block->addr, plan->parts[i].size);
	if (status == WEIR_OK)
		return WEIR_OK;
	for (struct handle *h = plan->moved; h != NULL; h = h->next)
		handle_unmap(h);
	for (struct handle *h = plan->fresh; h != NULL; h = h->next) {
		handle_unmap(h);
		handle_release(h);
	}
	return status;
}

/* Is one of the handles still mapped in this block? */
static bool
is_stuck(const struct handle *handles, const struct block *block)
{
	for (const struct handle *h = handles; h != NULL; h = h->next)
		if (h->mapped && h->to >= block->addr &&
		    h->to < block->addr + block->size)
			return true;
	return false;
}

/* Undo hide_blocks(). Blocks that the driver did not unmap become VACATED, so
 * that the driver is asked again later. */
static void
show_again(struct remap_plan *plan)
{
	for (size_t i = 0; i < plan->donor_count; i++) {
		struct block *block = plan->donors[i].block;
		if (donor_chosen(&plan->donors[i]) == 0)
			continue;
		use_clear(&block->arena->waiting, &block->pending);
		block->segment->busy--;
		lock_assert_held(&block->arena->lock);
		block_commit(block, BLOCK_FREE);
	}
	for (size_t i = 0; i < plan->part_count; i++) {
		struct block *block = plan->parts[i].block;
		if (is_stuck(plan->moved, block) ||
		    is_stuck(plan->fresh, block)) {
			block_set_state(block, BLOCK_VACATED);
			lock_assert_held(&block->arena->lock);
			segment_add_vacated(block);
			continue;
		}
		block->segment->busy--;
		lock_assert_held(&block->arena->lock);
		block_commit(block, BLOCK_UNMAPPED);
	}
	for (struct handle *h = plan->moved; h != NULL; h = h->next)
		h->mapped = false; /* it stays at its old place */
}

/* Make the block over a donor's chosen handles VACATED: its memory was
 * moved. */
static void
leave_donor(struct block *block) HOLDS(block->arena->lock)
{
	struct arena *arena = block->arena;

	ASSERT(block_state(block) == BLOCK_UNMAPPING);
	lock_assert_held(&block->pool->owner->arena->lock);
	stats_change(block->pool, STAT3_reserved_bytes, -(int64_t)block->size);
	block_set_vacated(block);
	if (!arena->traits.has_streams) { /* no work can be queued on it */
		segment_add_vacated(block);
		return;
	}
	block->pending.bytes = block->size;
	waiting_add(&arena->waiting, &block->pending);
}

/* Account for the time of the calls: that of creating handles, and of the rest
 * the share of the new bytes, is the cost of new memory. */
static void
pay_for_calls(struct remap_plan *plan, struct arena *arena, uint64_t began_ns)
    HOLDS(arena->lock)
{
	double bytes = (double)(plan->moved_bytes + plan->fresh_bytes);

	if (!arena->traits.is_page_locked) {
		if (plan->moved_handles > 0)
			policy_charge(&arena->policy, driver_time_ns(),
			    policy_moves_ns(plan->moved_handles),
			    plan->options->delay_percent);
		return;
	}
	uint64_t mapped_ns = pin_time_now(arena) - began_ns - plan->create_ns;
	uint64_t moved_ns =
	    (uint64_t)((double)mapped_ns * (double)plan->moved_bytes / bytes);
	pin_time_took(arena, began_ns + moved_ns, plan->fresh_bytes,
	    arena->account.stats.reserved_bytes.all.current);
	pin_time_moved(arena, moved_ns);
}

static void
commit_remap(struct remap_plan *plan) HOLDS(plan->pool->owner->arena->lock)
{
	struct arena *arena = plan->pool->owner->arena;
	struct segment *segment = plan->segment;
	uint64_t tick = plan->moved != NULL ? order_tick() : 0;

	ASSERT(plan->middle == NULL && plan->rest == NULL);
	lock_assert_held(&arena->lock);
	if (tick > 0)
		plan->pool->owner->freed_at = tick;
	for (size_t i = 0; i < plan->donor_count; i++)
		if (donor_chosen(&plan->donors[i]) > 0) {
			lock_assert_held(&plan->donors[i].block->arena->lock);
			leave_donor(plan->donors[i].block);
		}
	for (struct handle *h = plan->moved; h != NULL; h = h->next) {
		lock_assert_held(&h->segment->arena->lock);
		handle_remove(h);
		lock_assert_held(&segment->arena->lock);
		handle_insert(segment, h);
		counter_add(arena, COUNTER_num_map_calls, 1);
		plan->moved_handles++;
		served_here.served.moved++;
	}
	for (struct handle *h = plan->fresh; h != NULL; h = h->next) {
		lock_assert_held(&segment->arena->lock);
		handle_insert(segment, h);
		counter_add(arena, COUNTER_num_map_calls, 1);
		counter_add(arena, COUNTER_num_device_alloc, 1);
	}
	plan->fresh = NULL;
	counter_add(arena, COUNTER_remapped_bytes, plan->moved_bytes);
	served_here.served.grown_bytes += plan->fresh_bytes;
	for (size_t i = 0; i < plan->part_count; i++) {
		struct block *block = plan->parts[i].block;
		block->freed_at = tick;
		/* New memory is complete. As long as the device has one stream,
		 * complete blocks need not be kept apart. */
		if (tick > 0 || arena->memory.streams < 2 ||
		    !arena_promotes(arena)) {
			lock_assert_held(&block->arena->lock);
			block_move(block, plan->pool);
		}
		block_set_epoch(block);
		segment->busy--;
		lock_assert_held(&block->arena->lock);
		block_commit(block, BLOCK_FREE);
	}
}

/* Map with the lock released; also returns when that began. */
static enum weir_status
map_unlocked(struct remap_plan *plan, struct arena *arena, uint64_t *began_ns)
    HOLDS(arena->lock)
{
	arena_leave_for_driver(arena);
	*began_ns = pin_time_now(arena);
	enum weir_status status = map_all(plan);
	arena_enter_from_driver(arena);
	return status;
}

static enum weir_status
map_hidden(struct remap_plan *plan) HOLDS(plan->pool->owner->arena->lock)
{
	struct arena *arena = plan->pool->owner->arena;
	uint64_t began_ns;

	ASSERT(arena->memory.jobs > 0);
	hide_blocks(plan);
	lock_assert_held(&arena->lock);
	enum weir_status status = map_unlocked(plan, arena, &began_ns);
	if (status != WEIR_OK) {
		show_again(plan);
		return status;
	}
	arena_move_begin(arena);
	commit_remap(plan);
	arena_move_end(arena);
	pay_for_calls(plan, arena, began_ns);
	return WEIR_OK;
}

/* Choose the handles for the row. */
static enum weir_status
choose_all(struct remap_plan *plan, enum grow_how how, size_t *need)
    HOLDS(plan->pool->owner->arena->lock)
{
	struct arena *arena = plan->pool->owner->arena;
	enum weir_status status = plan_handles(plan, how);

	ASSERT(plan->part_count > 0);
	if (status != WEIR_OK)
		return status;
	/* Choose no new handles that the limit refuses anyway. */
	size_t bytes = plan_open_bytes(plan);
	if (plan->at != 0 && bytes > plan->new_most)
		return status_set(WEIR_ENOMEM, "not enough to move");
	*need = bytes;
	lock_assert_held(&arena->lock);
	status = arena_promise(arena, bytes, need);
	if (status != WEIR_OK)
		return status;
	arena_promised(arena, bytes);
	return plan_fresh(plan);
}

/* Choose the handles for the row, and map them. */
static enum weir_status
fill_row(struct remap_plan *plan, enum grow_how how, size_t *need)
    HOLDS(plan->pool->owner->arena->lock)
{
	struct arena *arena = plan->pool->owner->arena;
	enum weir_status status = choose_all(plan, how, need);

	ASSERT(plan->missing > 0);
	if (status != WEIR_OK)
		return status;
	*need = plan->fresh_bytes;
	lock_assert_held(&arena->lock);
	status = arena_promise(arena, plan->fresh_bytes, need);
	if (status != WEIR_OK)
		return status;
	status = prepare_remap(plan);
	if (status == WEIR_OK)
		status = map_hidden(plan);
	else
		drop_prepared(plan);
	arena_promised(arena, plan->fresh_bytes);
	/* If nothing new is needed, the driver lacks memory of its own. */
	if (status == WEIR_ENOMEM && plan->fresh_bytes == 0)
		*need = arena->memory.granularity;
	return status;
}

static enum weir_status
map_somewhere(struct remap_plan *plan, enum grow_how how, size_t *need)
    HOLDS(plan->pool->owner->arena->lock)
{
	enum weir_status status = plan_row(plan);
	if (status != WEIR_OK)
		return status;
	*need = plan->missing;
	if (plan->missing ==
	    0) /* another thread has freed memory there meanwhile */
		return WEIR_OK;
	status = fill_row(plan, how, need);
	plan_drop(plan);
	/* If GROW_MOVED fails, the next step grows at these addresses. */
	if (status != WEIR_OK && how != GROW_MOVED) {
		lock_assert_held(&plan->segment->arena->lock);
		segment_unreserve_if_empty(plan->segment);
	}
	return status;
}

enum weir_status
map_for(struct view *view, struct pool *pool, const struct options *options,
    size_t rounded, enum grow_how how, size_t *need)
{
	struct remap_plan plan = { .view = view,
		.pool = pool,
		.options = options,
		.rounded = rounded,
		.request = rounded };
	struct remap_plan bare = plan;

	ASSERT(rounded > 0 && view->mine->arena == pool->owner->arena);
	lock_assert_held(&pool->owner->arena->lock);
	*need = round_up(rounded, pool->owner->arena->memory.granularity);
	if (rounded > pool->owner->arena->account.total_bytes)
		return status_set(WEIR_ENOMEM,
		    "%zu bytes are more than device %d has", rounded,
		    pool->owner->arena->device);
	lock_assert_held(&plan.pool->owner->arena->lock);
	enum weir_status status = map_somewhere(&plan, how, need);
	if (status != WEIR_ENOMEM || how != GROW_EXACT ||
	    plan.missing >= rounded)
		return status;
	/* The row may hold a part of the memory that could move as a whole: try
	 * again with unmapped addresses only. */
	size_t least = *need;
	bare.bare = true;
	view_renew(view); /* the lock may have been released */
	lock_assert_held(&bare.pool->owner->arena->lock);
	status = map_somewhere(&bare, how, need);
	*need = min_size(*need, least);
	return status;
}

enum weir_status
map_at(struct view *view, struct pool *pool, const struct options *options,
    struct grow_at *at, enum grow_how how)
{
	struct remap_plan plan = { .view = view,
		.pool = pool,
		.options = options,
		.rounded = at->size,
		.request = at->request,
		.at = at->addr,
		.new_most = at->new_most };
	size_t need;

	ASSERT(at->addr != 0 && view->mine->arena == pool->owner->arena);
	lock_assert_held(&pool->owner->arena->lock);
	lock_assert_held(&plan.pool->owner->arena->lock);
	enum weir_status status = map_somewhere(&plan, how, &need);
	at->mapped =
	    status == WEIR_OK ? plan.moved_bytes + plan.fresh_bytes : 0;
	return status;
}

enum weir_status
map_new(struct view *view, struct pool *pool, const struct options *options,
    size_t size, size_t *need)
{
	struct remap_plan plan = { .view = view,
		.pool = pool,
		.options = options,
		.rounded = size,
		.request = size,
		.bare = true };

	ASSERT(size > 0);
	lock_assert_held(&pool->owner->arena->lock);
	lock_assert_held(&plan.pool->owner->arena->lock);
	return map_somewhere(&plan, GROW_NEW, need);
}
