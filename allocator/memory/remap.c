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

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/promote.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/spans.h"
#include "allocator/memory/totals.h"
#include "allocator/memory/view.h"
#include "base/meta.h"
#include "base/status.h"
#include "trace/served.h"

enum { PARTS_MAX = 16 };

/* A moved handle may be so many times as large as the missing bytes. */
enum { LARGER_TIMES = 8 };

/* The number of the largest runs of a pool that are searched for handles, as
 * long as new memory may be had. More would take longer and gain nothing,
 * because the largest donors are used first. */
enum { RUNS_ASKED = 64 };

/* A range of addresses to map: the front of an UNMAPPED block. */
struct part {
	struct block *block;
	size_t size;   /* bytes to map of it */
	size_t filled; /* of these, bytes for which a handle is chosen */
};

/* A donor: whole handles under free neighbours, some of which are chosen. */
struct donor {
	struct span span;
	struct block *block; /* over the chosen handles, once cut out */
	const struct segment *segment;
	CUdeviceptr low;  /* start of all its handles */
	CUdeviceptr high; /* and their end */
	CUdeviceptr from; /* the chosen ones: from here to `high` */
	struct cut cut;
};

struct job {
	struct view *view;
	struct pool *pool;
	const struct options *options;
	size_t rounded;
	bool bare; /* use unmapped addresses only: all free memory can move */
	struct block *start; /* of the row; until blocks are hidden */
	size_t missing;      /* bytes to map in the row */
	struct segment *segment;
	CUdeviceptr addr; /* of the row */
	struct part parts[PARTS_MAX];
	size_t part_count;
	struct block *rest;   /* stays unmapped of the last part */
	struct donor *donors; /* the largest first */
	size_t donor_count;
	size_t donors_bytes;  /* bytes of the array */
	struct handle *moved; /* through ->next, as `fresh` */
	struct handle *fresh;
	size_t moved_bytes;
	size_t fresh_bytes;
};

/* ---- The row ----------------------------------------------------------- */

static bool
in_run(const struct job *job, const struct block *block)
{
	return block != NULL &&
	    (block_state(block) == BLOCK_UNMAPPED ||
		(!job->bare && block_is_usable(job->view, block)));
}

/* Bytes of a block of the row to map, if `have` bytes of the row lie before
 * it. */
static size_t
missing_in(const struct block *block, size_t have, size_t rounded)
{
	size_t granularity = block->arena->granularity;

	if (block_state(block) != BLOCK_UNMAPPED || have >= rounded)
		return 0;
	size_t want = round_up(rounded - have, granularity);
	return want < block->size ? want : block->size;
}

/* Measure the row through an unmapped block. Returns the bytes to map; SIZE_MAX
 * if the row is too short. */
static size_t
measure_row(const struct job *job, struct block *unmapped, struct block **out)
{
	struct block *block = unmapped;
	size_t missing = 0;
	size_t have = 0;
	size_t parts = 0;

	while (
	    in_run(job, block->prev) && block_state(block->prev) == BLOCK_FREE)
		block = block->prev;
	*out = block;
	for (; have < job->rounded && in_run(job, block); block = block->next) {
		size_t part = missing_in(block, have, job->rounded);
		missing += part;
		parts += part > 0;
		have += block->size;
	}
	return have >= job->rounded && parts <= PARTS_MAX ? missing : SIZE_MAX;
}

/* Find the row through unmapped blocks that needs the fewest bytes to map;
 * among equal ones, the row at the lowest address. */
static bool
find_run(struct job *job)
{
	const struct stream_heap *any = job->pool->owner->arena->any_heap;
	const struct tree *unmapped = &any->pool[job->pool->kind].unmapped;

	job->start = NULL;
	job->missing = SIZE_MAX;
	for (struct tree_node *n = tree_first(unmapped); n != NULL;
	     n = tree_next(n)) {
		struct block *start;
		size_t bytes = measure_row(job, block_of_node(n), &start);
		if (bytes < job->missing) {
			job->start = start;
			job->missing = bytes;
		}
	}
	return job->start != NULL;
}

/* Find the row to map for a request, or reserve addresses for one. */
static enum weir_status
find_or_make_run(struct job *job)
{
	enum weir_status status = WEIR_OK;

	if (!find_run(job))
		status = segment_reserve(job->pool, job->rounded);
	if (status == WEIR_OK && (job->start != NULL || find_run(job)))
		return WEIR_OK;
	return status != WEIR_OK ?
	    status :
	    status_set(WEIR_ENOMEM, "no addresses for %zu bytes", job->rounded);
}

static void
find_parts(struct job *job)
{
	size_t have = 0;

	for (struct block *b = job->start; have < job->rounded; b = b->next) {
		size_t missing = missing_in(b, have, job->rounded);
		if (missing > 0)
			job->parts[job->part_count++] =
			    (struct part){ .block = b, .size = missing };
		have += b->size;
	}
}

static struct part *
last_part(struct job *job)
{
	return &job->parts[job->part_count - 1];
}

/* ---- Donors ------------------------------------------------------------ */

static bool
is_of_run(const struct job *job, const struct block *block)
{
	return block->segment == job->segment && block->addr >= job->addr &&
	    block->addr < job->addr + job->rounded;
}

/* Add a row of free blocks as a donor; only count it if there is no array
 * yet. */
static void
add_donor(struct span_search *search, const struct span *span)
{
	struct job *job = search->to;
	struct donor donor = { .span = *span, .segment = span->first->segment };
	CUdeviceptr end = span->last->addr + span->last->size;
	size_t size = handles_within(donor.segment, span->first->addr,
	    end - span->first->addr, &donor.low);

	if (size == 0)
		return;
	donor.high = donor.low + size;
	donor.from = donor.high;
	if (job->donors != NULL)
		job->donors[job->donor_count] = donor;
	job->donor_count++;
}

static bool
may_give(void *about, const struct block *block)
{
	struct job *job = about;

	return block_is_usable(job->view, block) && !is_of_run(job, block);
}

static void
add_all_donors(struct job *job, enum grow_how how)
{
	const struct stream_heap *mine = job->pool->owner;
	struct span_search search = { .mine = mine,
		.kind = SPANS_OF_ALL_KINDS,
		.least = mine->arena->granularity,
		.is_good = may_give,
		.about = job,
		.found = add_donor,
		.to = job,
		.most = SIZE_MAX,
		.largest = how == GROW_EXACT ? UINT_MAX : RUNS_ASKED };

	job->donor_count = 0;
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
find_donors(struct job *job, enum grow_how how)
{
	add_all_donors(job, how);
	if (job->donor_count == 0)
		return WEIR_OK;
	job->donors_bytes = job->donor_count * sizeof(*job->donors);
	job->donors = meta_zalloc(job->donors_bytes);
	if (job->donors == NULL) {
		job->donor_count = 0;
		return status_set(WEIR_EHOSTMEM,
		    "no host memory to move %zu bytes", job->rounded);
	}
	add_all_donors(job, how);
	qsort(job->donors, job->donor_count, sizeof(*job->donors),
	    compare_donors);
	return WEIR_OK;
}

/* ---- Choosing handles -------------------------------------------------- */

/* The next part to fill, or NULL. */
static struct part *
open_part(struct job *job)
{
	for (size_t i = 0; i < job->part_count; i++)
		if (job->parts[i].filled < job->parts[i].size)
			return &job->parts[i];
	return NULL;
}

static void
place_handle(struct job *job, struct part *part, struct handle *handle,
    struct handle **list)
{
	handle->to = part->block->addr + part->filled;
	handle->next = *list;
	*list = handle;
	part->filled += handle->size;
	*(list == &job->moved ? &job->moved_bytes : &job->fresh_bytes) +=
	    handle->size;
}

static size_t
chosen(const struct donor *donor)
{
	return donor->high - donor->from;
}

/* The next handle of a donor, from its high end down, or NULL. */
static struct handle *
next_of(const struct donor *donor)
{
	if (donor->from == donor->low)
		return NULL;
	struct handle *handle = handle_floor(donor->segment, donor->from - 1);
	return handle->id != 0 ? handle : NULL;
}

static void
move_handle(struct job *job, struct part *part, struct donor *donor,
    struct handle *handle)
{
	place_handle(job, part, handle, &job->moved);
	donor->from = handle->addr;
}

/* Choose handles of a donor as long as they fit. */
static void
choose_handles(struct job *job, struct donor *donor)
{
	struct handle *handle;
	struct part *part;

	while ((part = open_part(job)) != NULL &&
	    (handle = next_of(donor)) != NULL &&
	    handle->size <= part->size - part->filled)
		move_handle(job, part, donor, handle);
}

/*
 * If each remaining handle is larger than the missing bytes, move the smallest:
 * more is mapped then, but no memory is new. As long as new memory may be had,
 * do not move a handle that is far too large, because one small block would
 * then hold it.
 */
static void
choose_larger(struct job *job, enum grow_how how)
{
	struct part *part = open_part(job);
	struct donor *best = NULL;
	struct handle *smallest = NULL;

	if (part == NULL || part != last_part(job))
		return;
	size_t most = how == GROW_EXACT ?
	    SIZE_MAX :
	    times(part->size - part->filled, LARGER_TIMES);
	for (size_t i = 0; i < job->donor_count; i++) {
		struct handle *handle = next_of(&job->donors[i]);
		if (handle == NULL || handle->size > most ||
		    handle->size > part->block->size - part->filled ||
		    (smallest != NULL && handle->size >= smallest->size))
			continue;
		best = &job->donors[i];
		smallest = handle;
	}
	if (best == NULL)
		return;
	if (part->filled + smallest->size > part->size)
		part->size = part->filled + smallest->size;
	move_handle(job, part, best, smallest);
}

/* Choose new handles for the bytes that are still missing. */
static enum weir_status
choose_fresh(struct job *job)
{
	struct part *part;

	while ((part = open_part(job)) != NULL) {
		struct handle *handle = meta_zalloc(sizeof(*handle));
		if (handle == NULL)
			return status_set(
			    WEIR_EHOSTMEM, "no host memory for a handle");
		handle->size = handle_size(job->pool->owner->arena,
		    job->options, part->size - part->filled);
		place_handle(job, part, handle, &job->fresh);
	}
	return WEIR_OK;
}

/* ---- Before, while and after the driver maps --------------------------- */

/* Allocate all records and uses that the following steps need. */
static enum weir_status
prepare_remap(struct job *job)
{
	struct arena *arena = job->pool->owner->arena;
	struct part *last = last_part(job);
	enum weir_status status = WEIR_OK;

	for (size_t i = 0; i < job->donor_count; i++) {
		struct donor *donor = &job->donors[i];
		if (chosen(donor) == 0)
			continue;
		status = cut_prepare(donor->span.first, donor->span.last,
		    donor->from, chosen(donor), &donor->cut);
		if (status != WEIR_OK)
			return status;
		struct block *moving = donor->cut.middle != NULL ?
		    donor->cut.middle :
		    donor->span.first;
		status = use_add(&arena->waiting, &moving->pending,
		    job->pool->owner->stream);
		if (status != WEIR_OK)
			return status;
	}
	if (last->size < last->block->size)
		status = block_new(
		    arena, last->block->addr + last->size, &job->rest);
	if (status == WEIR_OK)
		status = block_prepare(arena, job->addr + job->rounded);
	return status;
}

static void
drop_prepared(struct job *job)
{
	struct waiting *waiting = &job->pool->owner->arena->waiting;

	for (size_t i = 0; i < job->donor_count; i++) {
		struct donor *donor = &job->donors[i];
		if (donor->cut.middle != NULL)
			use_clear(waiting, &donor->cut.middle->pending);
		if (chosen(donor) > 0)
			use_clear(waiting, &donor->span.first->pending);
		cut_drop(&donor->cut);
	}
	if (job->rest != NULL)
		block_delete(job->rest);
	job->rest = NULL;
}

/* Drop a job's new handles and its array. Handles that the driver did not
 * release go to arena->unreleased. */
static void
drop_job(struct job *job)
{
	struct arena *arena = job->pool->owner->arena;

	while (job->fresh != NULL) {
		struct handle *handle = job->fresh;
		job->fresh = handle->next;
		if (handle->id == 0) {
			meta_free(handle, sizeof(*handle));
		} else {
			handle->next = arena->unreleased;
			arena->unreleased = handle;
		}
	}
	if (job->donors != NULL)
		meta_free(job->donors, job->donors_bytes);
}

/* Make the blocks of the job MAPPING and UNMAPPING. */
static void
hide_blocks(struct job *job)
{
	for (size_t i = 0; i < job->part_count; i++) {
		struct part *part = &job->parts[i];
		block_take(part->block);
		if (part == last_part(job) && job->rest != NULL)
			block_split(part->block, part->size, job->rest);
		block_set_state(part->block, BLOCK_MAPPING);
		part->block->segment->busy++;
	}
	if (job->rest != NULL)
		block_put(job->rest, BLOCK_UNMAPPED);
	job->rest = NULL;
	for (size_t i = 0; i < job->donor_count; i++) {
		struct donor *donor = &job->donors[i];
		if (chosen(donor) == 0)
			continue;
		donor->block = block_adopt(&donor->span, job->pool->owner);
		donor->block = cut_make(
		    donor->block, donor->from, chosen(donor), &donor->cut);
		donor->block->segment->busy++;
	}
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
map_all(struct job *job)
{
	int device = job->pool->owner->arena->device;
	enum weir_status status = WEIR_OK;

	for (struct handle *h = job->fresh; h != NULL && status == WEIR_OK;
	     h = h->next)
		status = handle_create(h, device);
	if (status == WEIR_OK)
		status = map_handles(job->fresh);
	if (status == WEIR_OK)
		status = map_handles(job->moved);
	for (size_t i = 0; i < job->part_count && status == WEIR_OK; i++)
		status = handles_open(
		    device, job->parts[i].block->addr, job->parts[i].size);
	if (status == WEIR_OK)
		return WEIR_OK;
	for (struct handle *h = job->moved; h != NULL; h = h->next)
		handle_unmap(h);
	for (struct handle *h = job->fresh; h != NULL; h = h->next) {
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
show_again(struct job *job)
{
	for (size_t i = 0; i < job->donor_count; i++) {
		struct block *block = job->donors[i].block;
		if (chosen(&job->donors[i]) == 0)
			continue;
		use_clear(&block->arena->waiting, &block->pending);
		block->segment->busy--;
		block_commit(block, BLOCK_FREE);
	}
	for (size_t i = 0; i < job->part_count; i++) {
		struct block *block = job->parts[i].block;
		if (is_stuck(job->moved, block) ||
		    is_stuck(job->fresh, block)) {
			block_set_state(block, BLOCK_VACATED);
			list_push_back(
			    &block->arena->vacated, &block->pending.link);
			continue;
		}
		block->segment->busy--;
		block_commit(block, BLOCK_UNMAPPED);
	}
	for (struct handle *h = job->moved; h != NULL; h = h->next)
		h->mapped = false; /* it stays at its old place */
}

/* Make the block over a donor's chosen handles VACATED: its memory was
 * moved. */
static void
leave_donor(struct block *block)
{
	struct arena *arena = block->arena;

	stats_change(block->pool, STAT3_reserved_bytes, -(int64_t)block->size);
	block_set_vacated(block);
	block->pending.bytes = block->size;
	waiting_add(&arena->waiting, &block->pending);
}

static void
commit_remap(struct job *job)
{
	struct arena *arena = job->pool->owner->arena;
	struct segment *segment = job->segment;
	uint64_t tick = job->moved != NULL ? order_tick() : 0;
	uint64_t moved = 0;

	if (tick > 0)
		job->pool->owner->freed_at = tick;
	for (size_t i = 0; i < job->donor_count; i++)
		if (chosen(&job->donors[i]) > 0)
			leave_donor(job->donors[i].block);
	for (struct handle *h = job->moved; h != NULL; h = h->next) {
		handle_remove(h);
		handle_insert(segment, h);
		arena->stats.num_map_calls++;
		moved++;
		served_here.served.moved++;
	}
	for (struct handle *h = job->fresh; h != NULL; h = h->next) {
		handle_insert(segment, h);
		arena->stats.num_map_calls++;
		arena->stats.num_device_alloc++;
	}
	job->fresh = NULL;
	if (moved > 0)
		arena->moves_paid_ns = policy_pay_moves(arena->moves_paid_ns,
		    driver_time_ns(), moved, job->options->delay_percent);
	arena->stats.remapped_bytes += job->moved_bytes;
	served_here.served.grown_bytes += job->fresh_bytes;
	for (size_t i = 0; i < job->part_count; i++) {
		struct block *block = job->parts[i].block;
		block->freed_at = tick;
		/* New memory is complete. As long as the device has one stream,
		 * complete blocks need not be kept apart. */
		if (tick > 0 || arena->streams < 2 || !arena_promotes(arena))
			block_move(block, job->pool);
		block_set_epoch(block);
		segment->busy--;
		block_commit(block, BLOCK_FREE);
	}
}

static enum weir_status
map_hidden(struct job *job)
{
	struct arena *arena = job->pool->owner->arena;

	hide_blocks(job);
	arena_leave_for_driver(arena);
	enum weir_status status = map_all(job);
	arena_enter_from_driver(arena);
	if (status == WEIR_OK)
		commit_remap(job);
	else
		show_again(job);
	return status;
}

/* Choose the handles for the row, and map them. */
static enum weir_status
run_job(struct job *job, enum grow_how how, size_t *need)
{
	struct arena *arena = job->pool->owner->arena;
	enum weir_status status = WEIR_OK;

	find_parts(job);
	if (how != GROW_NEW)
		status = find_donors(job, how);
	if (status != WEIR_OK)
		return status;
	for (size_t i = 0; i < job->donor_count; i++)
		choose_handles(job, &job->donors[i]);
	choose_larger(job, how);
	struct part *open = open_part(job);
	if (open != NULL && how == GROW_MOVED)
		return status_set(WEIR_ENOMEM, "not enough to move");
	status = choose_fresh(job);
	if (status != WEIR_OK)
		return status;
	*need = job->fresh_bytes;
	status = arena_promise(arena, job->fresh_bytes, need);
	if (status != WEIR_OK)
		return status;
	status = prepare_remap(job);
	if (status == WEIR_OK)
		status = map_hidden(job);
	else
		drop_prepared(job);
	arena_promised(arena, job->fresh_bytes);
	return status;
}

static enum weir_status
map_somewhere(struct job *job, enum grow_how how, size_t *need)
{
	enum weir_status status = find_or_make_run(job);
	if (status != WEIR_OK)
		return status;
	*need = job->missing;
	if (job->missing ==
	    0) /* another thread has freed memory there meanwhile */
		return WEIR_OK;
	job->segment = job->start->segment;
	job->addr = job->start->addr;
	status = run_job(job, how, need);
	drop_job(job);
	/* If GROW_MOVED fails, the next step grows at these addresses. */
	if (status != WEIR_OK && how != GROW_MOVED)
		segment_unreserve_if_empty(job->segment);
	return status;
}

enum weir_status
map_for(struct view *view, struct pool *pool, const struct options *options,
    size_t rounded, enum grow_how how, size_t *need)
{
	struct job job = { .view = view,
		.pool = pool,
		.options = options,
		.rounded = rounded };
	struct job bare = job;

	*need = round_up(rounded, pool->owner->arena->granularity);
	if (rounded > pool->owner->arena->total_bytes)
		return status_set(WEIR_ENOMEM,
		    "%zu bytes are more than device %d has", rounded,
		    pool->owner->arena->device);
	enum weir_status status = map_somewhere(&job, how, need);
	if (status != WEIR_ENOMEM || how != GROW_EXACT ||
	    job.missing >= rounded)
		return status;
	/* The row may hold a part of the memory that could move as a whole: try
	 * again with unmapped addresses only. */
	size_t least = *need;
	bare.bare = true;
	view_renew(view); /* the lock may have been released */
	status = map_somewhere(&bare, how, need);
	*need = min_size(*need, least);
	return status;
}
