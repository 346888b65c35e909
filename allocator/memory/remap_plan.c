/*
 * Chooses what a remap maps.
 */
#include "allocator/memory/remap_plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/spans.h"
#include "allocator/memory/tuning.h"
#include "allocator/memory/view.h"
#include "base/meta.h"
#include "base/status.h"

/* ---- The row ----------------------------------------------------------- */

static bool
in_run(const struct remap_plan *plan, const struct block *block)
{
	return block != NULL &&
	    (block_state(block) == BLOCK_UNMAPPED ||
		(!plan->bare && block_is_usable(plan->view, block)));
}

/* The part of a block to map for the row [from, until), of size 0 if there is
 * nothing to map. */
static struct part
missing_in(struct block *block, CUdeviceptr from, CUdeviceptr until)
{
	size_t granularity = block->arena->memory.granularity;
	struct part part = { .block = block, .addr = block->addr };

	ASSERT(from < until);
	if (block_state(block) != BLOCK_UNMAPPED || block->addr >= until)
		return part;
	/* Unmapped blocks consist of whole granules. */
	if (block->addr < from)
		part.addr += (from - block->addr) / granularity * granularity;
	part.size = min_size(
	    round_up(until - part.addr, granularity), part_room(&part));
	return part;
}

/* Measure the row through an unmapped block. Returns the bytes to map; SIZE_MAX
 * if the row is too short. */
static size_t
measure_row(
    const struct remap_plan *plan, struct block *unmapped, struct block **out)
{
	struct block *block = unmapped;
	size_t missing = 0;
	size_t have = 0;
	size_t parts = 0;

	ASSERT(block_state(unmapped) == BLOCK_UNMAPPED);
	while (
	    in_run(plan, block->prev) && block_state(block->prev) == BLOCK_FREE)
		block = block->prev;
	*out = block;
	CUdeviceptr from = block->addr;
	for (; have < plan->rounded && in_run(plan, block);
	     block = block->next) {
		size_t part =
		    missing_in(block, from, from + plan->rounded).size;
		missing += part;
		parts += part > 0;
		have += block->size;
	}
	return have >= plan->rounded && parts <= PARTS_MAX ? missing : SIZE_MAX;
}

/* Keep the row through a block, if that is unmapped, and if the row needs fewer
 * bytes than the best one so far, or as many at a lower address. */
static void
consider_row(struct remap_plan *plan, struct block *block)
{
	struct block *start;

	if (block == NULL || block_state(block) != BLOCK_UNMAPPED ||
	    block->segment->of_places)
		return;
	size_t bytes = measure_row(plan, block, &start);
	if (bytes < plan->missing ||
	    (bytes == plan->missing && plan->start != NULL &&
		start->addr < plan->start->addr)) {
		plan->start = start;
		plan->missing = bytes;
	}
}

/* Consider the rows at both ends of the largest runs of a pool, which cannot
 * serve the request alone but may be the most of a row. */
static void
consider_largest(struct remap_plan *plan, const struct pool *pool)
{
	struct tree_node *n = tree_last(&pool->free);

	ASSERT(pool->kind == plan->pool->kind);
	for (unsigned i = 0; i < RUNS_ASKED && n != NULL; i++) {
		struct span run = block_run(block_of_node(n));
		consider_row(plan, run.first->prev);
		consider_row(plan, run.last->next);
		n = tree_prev(n);
	}
}

/*
 * Find the row through unmapped blocks that needs the fewest bytes to map;
 * among equal ones, the row at the lowest address. If there are many unmapped
 * blocks, only the smallest that is large enough, the largest, and those beside
 * the largest runs are considered.
 */
static bool
find_run(struct remap_plan *plan)
{
	const struct pool *pool = plan->pool;
	const struct stream_heap *any = pool->owner->arena->memory.any_heap;
	const struct tree *unmapped = &any->pool[pool->kind].unmapped;
	const struct block least = { .size = plan->rounded };
	struct tree_node *n = tree_first(unmapped);

	ASSERT(plan->rounded > 0);
	plan->start = NULL;
	plan->missing = SIZE_MAX;
	if (unmapped->count <= ROWS_ASKED) {
		for (; n != NULL; n = tree_next(n))
			consider_row(plan, block_of_node(n));
		return plan->start != NULL;
	}
	n = tree_lower_bound(unmapped, &least.node);
	if (n != NULL)
		consider_row(plan, block_of_node(n));
	consider_row(plan, block_of_node(tree_last(unmapped)));
	consider_largest(plan, pool);
	if (pool->owner != any)
		consider_largest(plan, &any->pool[pool->kind]);
	return plan->start != NULL;
}

/* The block over plan->at, in its segment of places; NULL if there is none. */
static struct block *
block_at_place(const struct remap_plan *plan)
    HOLDS(plan->pool->owner->arena->lock)
{
	const struct arena *arena = plan->pool->owner->arena;
	struct block *block = lookup_floor(plan->at);

	lock_assert_held(&arena->lock);
	const struct segment *segment = segment_of_places(arena, plan->at);
	if (segment == NULL)
		return NULL;
	/* The address table has no unmapped blocks. */
	if (block == NULL || block->segment != segment)
		block = segment->first;
	while (block != NULL && block->addr + block->size <= plan->at)
		block = block->next;
	return block;
}

/* Measure the row at plan->at. False if some of it is in use. */
static bool
find_place_row(struct remap_plan *plan) HOLDS(plan->pool->owner->arena->lock)
{
	lock_assert_held(&plan->pool->owner->arena->lock);
	CUdeviceptr until = plan->at + plan->rounded;
	struct block *block = block_at_place(plan);
	size_t parts = 0;

	plan->start = block;
	plan->missing = 0;
	for (; block != NULL && block->addr < until; block = block->next) {
		size_t part = missing_in(block, plan->at, until).size;
		if (!in_run(plan, block))
			return false;
		plan->missing += part;
		parts += part > 0;
	}
	return plan->start != NULL && parts <= PARTS_MAX;
}

enum weir_status
plan_row(struct remap_plan *plan)
{
	lock_assert_held(&plan->pool->owner->arena->lock);
	ASSERT(plan->rounded > 0);
	if (plan->at != 0) {
		if (!find_place_row(plan))
			return status_set(WEIR_ENOMEM, "the place is not free");
	} else if (!find_run(plan)) {
		enum weir_status status =
		    segment_reserve(plan->pool, plan->rounded);
		if (status != WEIR_OK)
			return status;
		if (!find_run(plan))
			return status_set(WEIR_ENOMEM,
			    "no addresses for %zu bytes", plan->rounded);
	}
	plan->segment = plan->start->segment;
	plan->addr = plan->at != 0 ? plan->at : plan->start->addr;
	return WEIR_OK;
}

static void
find_parts(struct remap_plan *plan)
{
	CUdeviceptr until = plan->addr + plan->rounded;

	ASSERT(plan->start != NULL);
	for (struct block *b = plan->start; b != NULL && b->addr < until;
	     b = b->next) {
		struct part part = missing_in(b, plan->addr, until);
		if (part.size > 0)
			plan->parts[plan->part_count++] = part;
	}
}

/* ---- Donors ------------------------------------------------------------ */

static bool
is_of_run(const struct remap_plan *plan, const struct block *block)
{
	return block->segment == plan->segment && block->addr >= plan->addr &&
	    block->addr < plan->addr + plan->rounded;
}

/* Make the array of donors twice as long. False: no host memory. */
static bool
make_room(struct remap_plan *plan)
{
	size_t bytes = plan->donors_bytes;
	size_t more =
	    bytes > 0 ? 2 * bytes : RUNS_ASKED * sizeof(*plan->donors);
	struct donor *donors = meta_alloc(more);

	ASSERT(plan->donor_count * sizeof(*plan->donors) == bytes);
	if (donors == NULL)
		return false;
	if (bytes > 0) {
		memcpy(donors, plan->donors, bytes);
		meta_free(plan->donors, bytes);
	}
	plan->donors = donors;
	plan->donors_bytes = more;
	return true;
}

/* Add a row of free blocks as a donor. */
static void
add_donor(struct span_search *search, const struct span *span)
{
	struct remap_plan *plan = search->to;
	struct donor donor = { .span = *span, .segment = span->first->segment };
	CUdeviceptr end = span->last->addr + span->last->size;
	size_t size = handles_within(donor.segment, span->first->addr,
	    end - span->first->addr, &donor.low);

	ASSERT(span->first->segment == span->last->segment);
	if (size == 0 || plan->has_failed)
		return;
	if (plan->donor_count * sizeof(donor) == plan->donors_bytes &&
	    !make_room(plan)) {
		search->has_enough = plan->has_failed = true;
		return;
	}
	donor.high = donor.low + size;
	donor.from = donor.high;
	plan->donor_bytes += size;
	if (plan->donor_bytes >= plan->enough &&
	    plan->donor_count >= RUNS_ASKED)
		search->has_enough = plan->is_cut = true;
	plan->donors[plan->donor_count++] = donor;
}

static bool
may_give(void *about, const struct block *block)
{
	struct remap_plan *plan = about;

	ASSERT(block->arena == plan->pool->owner->arena);
	/* From place to place memory would go round and round. */
	if (block->segment->of_places && (plan->at != 0 || plan->places_stay))
		return false;
	return block_is_usable(plan->view, block) && !is_of_run(plan, block);
}

static void
add_all_donors(struct remap_plan *plan, enum grow_how how)
{
	const struct stream_heap *mine = plan->pool->owner;
	struct span_search search = { .mine = mine,
		.kind = SPANS_OF_ALL_KINDS,
		.least = mine->arena->memory.granularity,
		.is_good = may_give,
		.about = plan,
		.found = add_donor,
		.to = plan,
		.most = SIZE_MAX,
		.largest = how == GROW_EXACT ? UINT_MAX : RUNS_ASKED,
		.only_idle = how == GROW_EXACT };

	plan->places_stay =
	    mine->arena->memory.places_stay && how != GROW_EXACT;
	plan->donor_count = 0;
	plan->donor_bytes = 0;
	plan->has_failed = false;
	spans_find(&search);
}

static int
compare_donors(const void *a, const void *b)
{
	const struct donor *x = a;
	const struct donor *y = b;

	if (x->high - x->low != y->high - y->low)
		return x->high - x->low > y->high - y->low ? -1 : 1;
	return (x->low > y->low) - (x->low < y->low);
}

static enum weir_status
find_donors(struct remap_plan *plan, enum grow_how how)
{
	ASSERT(plan->start != NULL);
	add_all_donors(plan, how);
	if (plan->has_failed)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory to move %zu bytes", plan->rounded);
	if (plan->donor_count > 0)
		qsort(plan->donors, plan->donor_count, sizeof(*plan->donors),
		    compare_donors);
	return WEIR_OK;
}

/* ---- Choosing handles -------------------------------------------------- */

/* The first part with at least `size` bytes to fill, or NULL. */
static struct part *
part_for(struct remap_plan *plan, size_t size)
{
	ASSERT(size > 0);
	for (size_t i = 0; i < plan->part_count; i++)
		if (plan->parts[i].size - plan->parts[i].filled >= size)
			return &plan->parts[i];
	return NULL;
}

/* The next part to fill, or NULL. */
static struct part *
open_part(struct remap_plan *plan)
{
	return part_for(plan, 1);
}

static void
place_handle(struct remap_plan *plan, struct part *part, struct handle *handle,
    struct handle **list)
{
	ASSERT(part->filled + handle->size <= part->size);
	ASSERT(handle->segment == NULL || handle->pins == 0);
	handle->to = part->addr + part->filled;
	handle->next = *list;
	*list = handle;
	part->filled += handle->size;
	*(list == &plan->moved ? &plan->moved_bytes : &plan->fresh_bytes) +=
	    handle->size;
}

/* The next handle of a donor, from its high end down, or NULL. */
static struct handle *
next_of(const struct donor *donor)
{
	ASSERT(donor->low <= donor->from && donor->from <= donor->high);
	if (donor->from == donor->low)
		return NULL;
	struct handle *handle = handle_floor(donor->segment, donor->from - 1);
	return handle->id != 0 ? handle : NULL;
}

static void
move_handle(struct remap_plan *plan, struct part *part, struct donor *donor,
    struct handle *handle)
{
	ASSERT(handle->addr >= donor->low && handle->addr < donor->from);
	place_handle(plan, part, handle, &plan->moved);
	donor->from = handle->addr;
}

/* Choose handles of a donor as long as they fit. */
static void
choose_handles(struct remap_plan *plan, struct donor *donor)
{
	struct handle *handle;
	struct part *part;

	while ((handle = next_of(donor)) != NULL &&
	    (part = part_for(plan, handle->size)) != NULL)
		move_handle(plan, part, donor, handle);
}

/*
 * If each remaining handle is larger than the missing bytes, move the smallest:
 * more is mapped then, but no memory is new. As long as new memory may be had,
 * do not move a handle that is far too large, because one small block would
 * then hold it.
 */
static void
choose_larger(struct remap_plan *plan, enum grow_how how)
{
	struct part *part = plan_last_part(plan);
	struct donor *best = NULL;
	struct handle *smallest = NULL;

	if (part->filled == part->size)
		return;
	size_t most = how == GROW_EXACT ?
	    SIZE_MAX :
	    times(part->size - part->filled, LARGER_TIMES);
	for (size_t i = 0; i < plan->donor_count; i++) {
		struct handle *handle = next_of(&plan->donors[i]);
		if (handle == NULL || handle->size > most ||
		    handle->size > part_room(part) - part->filled ||
		    (smallest != NULL && handle->size >= smallest->size))
			continue;
		best = &plan->donors[i];
		smallest = handle;
	}
	if (best == NULL)
		return;
	if (part->filled + smallest->size > part->size)
		part->size = part->filled + smallest->size;
	move_handle(plan, part, best, smallest);
}

enum weir_status
plan_fresh(struct remap_plan *plan)
{
	struct part *part;

	ASSERT(plan->part_count > 0);
	while ((part = open_part(plan)) != NULL) {
		struct handle *handle = meta_zalloc(sizeof(*handle));
		if (handle == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for a handle");
		handle->size = handle_size(plan->pool->owner->arena,
		    plan->options, plan->request, part->size - part->filled);
		place_handle(plan, part, handle, &plan->fresh);
	}
	return WEIR_OK;
}

static void
drop_donors(struct remap_plan *plan)
{
	if (plan->donors != NULL)
		meta_free(plan->donors, plan->donors_bytes);
	plan->donors = NULL;
	plan->donors_bytes = 0;
	plan->donor_count = 0;
}

/* Choose handles of the donors, of which `enough` bytes are searched for, or
 * all. */
static enum weir_status
choose_moved(struct remap_plan *plan, enum grow_how how, size_t enough)
{
	drop_donors(plan);
	plan->enough = enough;
	plan->is_cut = false;
	plan->moved = NULL;
	plan->moved_bytes = 0;
	plan->part_count = 0;
	find_parts(plan);
	if (how == GROW_NEW)
		return WEIR_OK;
	enum weir_status status = find_donors(plan, how);
	if (status != WEIR_OK)
		return status;
	for (size_t i = 0; i < plan->donor_count; i++)
		choose_handles(plan, &plan->donors[i]);
	choose_larger(plan, how);
	return WEIR_OK;
}

enum weir_status
plan_handles(struct remap_plan *plan, enum grow_how how)
{
	/* Not every handle fits. */
	lock_assert_held(&plan->pool->owner->arena->lock);
	enum weir_status status =
	    choose_moved(plan, how, times(plan->missing, ENOUGH_TIMES));

	if (status == WEIR_OK && plan->is_cut && open_part(plan) != NULL)
		status = choose_moved(plan, how, SIZE_MAX);
	if (status != WEIR_OK)
		return status;
	if (open_part(plan) != NULL && how == GROW_MOVED)
		return status_set(WEIR_ENOMEM, "not enough to move");
	return WEIR_OK;
}

size_t
plan_open_bytes(const struct remap_plan *plan)
{
	size_t bytes = 0;

	for (size_t i = 0; i < plan->part_count; i++)
		bytes += plan->parts[i].size - plan->parts[i].filled;
	return bytes;
}

void
plan_drop(struct remap_plan *plan)
{
	struct arena *arena = plan->pool->owner->arena;

	while (plan->fresh != NULL) {
		struct handle *handle = plan->fresh;
		plan->fresh = handle->next;
		if (handle->id == 0) {
			meta_free(handle, sizeof(*handle));
		} else {
			handle->next = arena->memory.unreleased;
			arena->memory.unreleased = handle;
		}
	}
	drop_donors(plan);
}
