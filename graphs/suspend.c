/*
 * Suspends and resumes arenas. The handles of a suspended arena stay in their
 * segments, without memory: each is unmapped, and its id is 0 once its
 * reference is released. Handles that stay mapped have `mapped` set meanwhile.
 * The blocks stay as they are and count as before in all statistics but
 * reserved_bytes, which counts what is still on the device. A suspended arena
 * is kept, so that no other function uses its handles. The history has the
 * memory that left as unmapped, and mapped again at the resume; a snapshot
 * leaves it out.
 */
#include "graphs/suspend.h"

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/emit.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/segment.h"
#include "allocator/private/arenas.h"
#include "allocator/private/suspension.h"
#include "allocator/request/reclaim.h"
#include "base/meta.h"
#include "base/status.h"
#include "graphs/suspend_copies.h"
#include "graphs/tuning.h"

static struct segment *
segment_of(struct list *link)
{
	return CONTAINER_OF(link, struct segment, link);
}

static struct handle *
handle_at(struct tree_node *node)
{
	return node != NULL ? CONTAINER_OF(node, struct handle, node) : NULL;
}

/* Record in the history that the memory of a range has come or gone. */
static void
emit_moved(struct segment *segment, CUdeviceptr from, CUdeviceptr to, bool gone)
    HOLDS(segment->arena->lock)
{
	emit_memory(segment, from, to - from,
	    gone ? TRACE_segment_unmap : TRACE_segment_map);
}

/* Count the memory of all blocks that is on the device, or take it off. */
static void
count_present(struct arena *arena, int sign)
{
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		for (struct block *b = segment_of(l)->first; b != NULL;
		     b = b->next) {
			if (!block_is_held(b))
				continue;
			lock_assert_held(&b->arena->lock);
			lock_assert_held(&b->pool->owner->arena->lock);
			stats_change(b->pool, STAT3_reserved_bytes,
			    sign * (int64_t)block_present(b));
		}
}

/* Set which handles are absent, and record that: while the arena is suspended
 * those that are not mapped. */
static void
set_absent(struct arena *arena, bool suspended) HOLDS(arena->lock)
{
	const struct handle *first = NULL; /* of a run that changes */
	CUdeviceptr end = 0;

	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h)) {
		bool absent = suspended && !h->mapped;
		bool changes = absent != h->absent;
		bool goes_on = first != NULL && changes && h->addr == end &&
		    h->segment == first->segment && first->absent == absent;

		if (first != NULL && !goes_on) {
			lock_assert_held(&first->segment->arena->lock);
			emit_moved(
			    first->segment, first->addr, end, first->absent);
			first = NULL;
		}
		h->absent = absent;
		if (changes && first == NULL)
			first = h;
		end = h->addr + h->size;
	}
	if (first != NULL) {
		lock_assert_held(&first->segment->arena->lock);
		emit_moved(first->segment, first->addr, end, first->absent);
	}
}

/* Account for handles that have been unmapped or mapped. */
static void
settle_memory(struct arena *arena, bool suspended) HOLDS(arena->lock)
{
	count_present(arena, -1);
	set_absent(arena, suspended);
	totals_set_uncounted(arena, suspended);
	count_present(arena, 1);
}

/* ---- Dropping ---------------------------------------------------------- */

/* Is no block live, and does all memory come back to its addresses? */
static bool
may_be_dropped(const struct arena *arena)
{
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		if (!segment_of(l)->expandable || segment_of(l)->pins > 0)
			return false;
		for (struct block *b = segment_of(l)->first; b != NULL;
		     b = b->next)
			if (block_state(b) != BLOCK_FREE &&
			    block_state(b) != BLOCK_UNMAPPED)
				return false;
	}
	return true;
}

/* Account for all memory of a suspended arena as gone. */
static void
settle_nothing(struct arena *arena) HOLDS(arena->lock)
{
	count_present(arena, -1);
	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h)) {
		lock_assert_held(&h->segment->arena->lock);
		if (!h->absent)
			emit_moved(
			    h->segment, h->addr, h->addr + h->size, true);
		h->absent = true;
	}
}

/* Make all free blocks of a segment UNMAPPED and drop its handles. */
static void
drop_segment(struct segment *segment)
{
	struct tree_node *node;

	for (struct block *b = segment->first; b != NULL; b = b->next) {
		if (block_state(b) != BLOCK_FREE)
			continue;
		lock_assert_held(&b->arena->lock);
		block_take(b);
		b = block_put(b, BLOCK_UNMAPPED);
	}
	while ((node = tree_first(&segment->handles)) != NULL) {
		struct handle *handle = handle_at(node);
		if (handle->mapped)
			addresses_drop_mapping(handle->addr, handle->size);
		if (handle->id != 0)
			handle_drop_hold(handle->id);
		lock_assert_held(&handle->segment->arena->lock);
		handle_remove(handle);
		meta_free(handle, sizeof(*handle));
	}
}

/* Drop the memory of a suspended arena without an owner: struct arena. */
static void
drop_suspended(struct arena *arena) HOLDS(arena->lock)
{
	struct driver_guard guard;
	struct copies *copies = NULL;

	if (arena->memory.jobs > 1 || !may_be_dropped(arena))
		return;
	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		settle_nothing(arena);
		for (struct list *l = arena->memory.segments.next;
		     l != &arena->memory.segments; l = l->next)
			drop_segment(segment_of(l));
		driver_leave(&guard);
		totals_set_uncounted(arena, false);
		copies = suspension_end(arena);
	}
	status_unmute();
	if (copies == NULL)
		return;
	arena_leave_for_driver(arena);
	copies_drop(copies);
	arena_enter_from_driver(arena);
}

/* ---- What is copied ----------------------------------------------------- */

/* The ranges that are found; only counted while `at` is NULL. */
struct ranges {
	const struct suspending *s;
	struct copy_range *at;
	size_t n;
	CUdeviceptr end;             /* of the last range */
	const struct handle *handle; /* in which it ends */
	size_t discarded;
};

/* Add a range within one handle. One that follows the last is joined with it;
 * so is one after a small gap, because a copy costs more than the bytes
 * between. */
static void
add_range(struct ranges *ranges, const struct handle *handle, CUdeviceptr from,
    CUdeviceptr to)
{
	const struct handle *last = ranges->handle;
	bool joins = last != NULL && last->segment == handle->segment &&
	    (from == ranges->end ||
		(last == handle && from - ranges->end <= SLEEP_GAP));

	ASSERT(from < to);
	if (!joins)
		ranges->n++;
	if (ranges->at != NULL && !joins)
		ranges->at[ranges->n - 1] = (struct copy_range){ .addr = from,
			.segment = handle->segment->index };
	if (ranges->at != NULL)
		ranges->at[ranges->n - 1].size =
		    to - ranges->at[ranges->n - 1].addr;
	ranges->end = to;
	ranges->handle = handle;
}

/* The number of the first discarded range that ends above an address. */
static size_t
discard_above(const struct sleep_plan *plan, CUdeviceptr addr)
{
	size_t low = 0;
	size_t high = plan->discard_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct copy_range *r = &plan->discards[middle];
		if (r->addr + r->size > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Add what is kept of a range within one handle. */
static void
add_kept(struct ranges *ranges, const struct handle *handle, CUdeviceptr from,
    CUdeviceptr to)
{
	const struct sleep_plan *plan = &ranges->s->plan;
	size_t i = discard_above(plan, from);

	if (plan->discard) {
		ranges->discarded += to - from;
		return;
	}
	for (; from < to; i++) {
		const struct copy_range *r =
		    i < plan->discard_count ? &plan->discards[i] : NULL;
		CUdeviceptr until = r != NULL && r->addr < to ? r->addr : to;
		if (from < until)
			add_range(ranges, handle, from, until);
		if (until == to)
			return;
		from = r->addr + r->size < to ? r->addr + r->size : to;
		ranges->discarded += from - (r->addr > until ? r->addr : until);
	}
}

static void
add_block(struct ranges *ranges, const struct block *block)
{
	CUdeviceptr end = block->addr + block->size;

	for (const struct handle *h = handle_floor(block->segment, block->addr);
	     h != NULL && h->segment == block->segment && h->addr < end;
	     h = handles_next(h)) {
		CUdeviceptr from =
		    h->addr > block->addr ? h->addr : block->addr;
		CUdeviceptr to =
		    h->addr + h->size < end ? h->addr + h->size : end;
		if (!h->mapped && from < to)
			add_kept(ranges, h, from, to);
	}
}

static bool
has_contents(const struct block *block, bool free_too)
{
	enum block_state state = block_state(block);

	return state == BLOCK_ACTIVE || state == BLOCK_PENDING ||
	    state == BLOCK_GUARD || (free_too && block_is_held(block));
}

static void
find_ranges(struct ranges *ranges, bool free_too)
{
	const struct arena *arena = ranges->s->arena;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		for (struct block *b = segment_of(l)->first;
		     b != NULL && segment_of(l)->expandable; b = b->next)
			if (has_contents(b, free_too))
				add_block(ranges, b);
}

/* Find the memory to copy. `kept`: a graph keeps the memory, so that replays
 * write where weir sees free blocks. WEIR_EHOSTMEM. */
static enum weir_status
plan_ranges(struct suspending *s, bool kept)
{
	bool free_too = kept && (s->plan.flags & WEIR_SLEEP_LIVE_ONLY) == 0;
	struct ranges ranges = { .s = s };

	find_ranges(&ranges, free_too);
	s->discarded_bytes = ranges.discarded;
	s->range_count = ranges.n;
	if (ranges.n == 0)
		return WEIR_OK;
	s->ranges = meta_alloc(ranges.n * sizeof(*s->ranges));
	if (s->ranges == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "sleeping: no host memory for %zu ranges", ranges.n);
	ranges = (struct ranges){ .s = s, .at = s->ranges };
	find_ranges(&ranges, free_too);
	ASSERT(ranges.n == s->range_count);
	return WEIR_OK;
}

static void
drop_ranges(struct suspending *s)
{
	if (s->ranges != NULL)
		meta_free(s->ranges, s->range_count * sizeof(*s->ranges));
	s->ranges = NULL;
}

/* ---- Suspending -------------------------------------------------------- */

static enum weir_status
check_segments(const struct arena *arena)
{
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		if (segment_of(l)->pins > 0)
			return status_set(WEIR_EINVAL,
			    "suspending: pages of the pool are pinned");
		if (!segment_of(l)->expandable)
			return status_set(WEIR_ENOTSUP,
			    "suspending: the pool has segments of the driver, "
			    "which cannot come back to their addresses");
	}
	return WEIR_OK;
}

static enum weir_status
check_suspend(const struct arena *arena)
{
	if (arena->memory.forgotten)
		return status_set(WEIR_ECONTEXT,
		    "suspending: device %d was reset", arena->device);
	if (arena_is_suspended(arena))
		return status_set(
		    WEIR_EINVAL, "suspending: the pool is suspended");
	if (arena->memory.jobs > 0 || !list_empty(&arena->memory.vacated))
		return status_set(WEIR_ENOTREADY,
		    "suspending: memory of the pool is being mapped");
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		if (segment_of(l)->busy > 0)
			return status_set(WEIR_ENOTREADY,
			    "suspending: memory of the pool is being mapped");
	return WEIR_OK;
}

/* Note that a handle stays. */
static void
note_stay(struct suspending *s, enum weir_sleep_reason reason, size_t bytes)
{
	s->stays[reason].count++;
	s->stays[reason].bytes += bytes;
}

/* Mark the handles that stay because they are pinned, or none. They stay even
 * if they are unpinned meanwhile: their contents are not copied. */
static void
mark_pinned(struct arena *arena, bool suspends)
{
	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h))
		h->mapped = suspends && h->pins > 0;
}

/* Unmap and release all handles, except pinned ones and those that the driver
 * refuses. */
static void
unmap_all_handles(struct suspending *s)
{
	const struct driver *driver = driver_peek();

	for (struct handle *h = handles_first(s->arena); h != NULL;
	     h = handles_next(h)) {
		if (h->mapped) { /* mark_pinned() */
			note_stay(s, WEIR_SLEEP_PINNED, h->size);
			continue;
		}
		h->mapped =
		    driver->cuMemUnmap(h->addr, h->size) != CUDA_SUCCESS;
		if (!h->mapped && h->id != 0 &&
		    driver->cuMemRelease(h->id) == CUDA_SUCCESS)
			h->id = 0;
		if (h->mapped || h->id != 0)
			note_stay(s, WEIR_SLEEP_REFUSED, h->size);
		else
			s->freed_bytes += h->size;
	}
}

static void
note_segments(struct suspending *s)
{
	const struct arena *arena = s->arena;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		if (!segment_of(l)->expandable)
			note_stay(s, WEIR_SLEEP_SEGMENT, segment_of(l)->size);
}

/* Drop the free memory of an arena whose device is about to sleep. */
static void
shed_for_sleep(struct arena *arena) HOLDS(arena->lock)
{
	tcache_drain(arena);
	reclaim_poll(arena, RECLAIM_SKIPS);
	reclaim_refresh(arena);
	if (!arena_is_kept(arena) && !arena->memory.forgotten)
		reclaim_shed(arena, SIZE_MAX);
	segment_unmap_vacated(arena, SIZE_MAX);
}

enum weir_status
suspending_begin(struct suspending *s)
{
	struct arena *arena = s->arena;

	lock_enter(&arena->lock);
	shed_for_sleep(arena);
	enum weir_status status = check_suspend(arena);
	if (status == WEIR_OK) {
		mark_pinned(arena, true);
		status = plan_ranges(s, arena_is_kept(arena));
		if (status != WEIR_OK)
			mark_pinned(arena, false);
	}
	if (status == WEIR_OK) {
		note_segments(s);
		suspension_set(arena);
		suspension_set_sleeps(arena);
		suspension_move(arena);
	}
	lock_leave(&arena->lock);
	return status;
}

enum weir_status
suspending_copy(struct suspending *s)
{
	struct driver_guard guard;

	if (s->range_count == 0)
		return WEIR_OK;
	enum weir_status status = driver_enter(s->arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	const struct copy_plan plan = { .ranges = s->ranges,
		.range_count = s->range_count,
		.folder = s->plan.folder };
	status =
	    copies_take(s->arena->device, s->arena->context, &plan, &s->copies);
	driver_leave(&guard);
	if (status == WEIR_OK)
		s->copied_bytes = copies_bytes(s->copies);
	return status;
}

/* The memory has gone: with the lock taken again. */
static void
finish_suspend(struct suspending *s) HOLDS(s->arena->lock)
{
	struct arena *arena = s->arena;

	lock_assert_held(&arena->lock);
	settle_memory(arena, true);
	arena_settle_lease(arena);
	suspension_hold(arena, drop_suspended, s->copies, copies_forget);
	suspension_moved(arena);
}

void
suspending_finish(struct suspending *s)
{
	struct driver_guard guard;

	history_enter(WEIR_HISTORY_ALL);
	status_mute();
	/* A context that cannot be entered keeps all its memory mapped. */
	bool entered = driver_enter(s->arena->context, &guard) == WEIR_OK;
	if (entered)
		unmap_all_handles(s);
	for (struct handle *h = handles_first(s->arena); h != NULL && !entered;
	     h = handles_next(h)) {
		h->mapped = true;
		note_stay(s, WEIR_SLEEP_REFUSED, h->size);
	}
	if (entered)
		driver_leave(&guard);
	status_unmute();
	lock_enter(&s->arena->lock);
	finish_suspend(s);
	lock_leave(&s->arena->lock);
	drop_ranges(s);
	history_leave();
}

void
suspending_cancel(struct suspending *s)
{
	copies_drop(s->copies);
	s->copies = NULL;
	drop_ranges(s);
	lock_enter(&s->arena->lock);
	mark_pinned(s->arena, false);
	suspension_end(s->arena);
	suspension_moved(s->arena);
	lock_leave(&s->arena->lock);
}

/* ---- Suspending a pool -------------------------------------------------- */

/* Suspend an arena, with its lock released: the arena is kept, so no other
 * function uses its handles. */
static enum weir_status
suspend(struct suspending *s, bool copy)
{
	struct arena *arena = s->arena;
	struct driver_guard guard;
	/* Wait for all streams: a graph may be replayed on any. */
	enum weir_status status = stream_wait_host(arena->any);
	if (status == WEIR_OK)
		status = driver_enter(arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	if (copy)
		status = copies_take(arena->device, arena->context,
		    &(const struct copy_plan){ .arena = arena }, &s->copies);
	if (status == WEIR_OK)
		unmap_all_handles(s);
	driver_leave(&guard);
	return status;
}

static enum weir_status
suspend_arena(struct arena *arena, bool copy, size_t *freed)
{
	struct suspending s = { .arena = arena };

	lock_enter(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	segment_unmap_vacated(arena, SIZE_MAX);
	enum weir_status status = check_suspend(arena);
	if (status == WEIR_OK)
		status = check_segments(arena);
	if (status != WEIR_OK) {
		lock_leave(&arena->lock);
		return status;
	}
	suspension_set(arena);
	suspension_move(arena);
	arena_leave_for_driver(arena);
	status = suspend(&s, copy);
	arena_enter_from_driver(arena);
	if (status == WEIR_OK) {
		lock_assert_held(&s.arena->lock);
		finish_suspend(&s);
		*freed = s.freed_bytes;
	} else {
		suspension_end(arena);
		suspension_moved(arena);
	}
	lock_leave(&arena->lock);
	return status;
}

enum weir_status
arena_suspend(struct arena *arena, bool copy, size_t *freed)
{
	history_enter(WEIR_HISTORY_ALL);
	enum weir_status status = suspend_arena(arena, copy, freed);
	history_leave();
	return status;
}

/* ---- Resuming ---------------------------------------------------------- */

static size_t
missing_bytes(const struct arena *arena)
{
	size_t bytes = 0;

	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h))
		bytes += h->id == 0 && !h->mapped ? h->size : 0;
	return bytes;
}

/* Undo bring_back(). What had stayed, stays. */
static void
unmap_again(struct arena *arena)
{
	const struct driver *driver = driver_peek();

	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h)) {
		if (!h->absent)
			continue;
		if (h->mapped &&
		    driver->cuMemUnmap(h->addr, h->size) == CUDA_SUCCESS)
			h->mapped = false;
		if (!h->mapped && h->id != 0 &&
		    driver->cuMemRelease(h->id) == CUDA_SUCCESS)
			h->id = 0;
	}
}

static enum weir_status
map_again(struct handle *handle, const struct arena *arena)
{
	enum weir_status status = WEIR_OK;

	handle->to = handle->addr;
	if (handle->id == 0 && !handle->mapped)
		status = handle_create(handle, arena);
	if (status == WEIR_OK && !handle->mapped)
		status = handle_map(handle);
	if (status == WEIR_OK)
		status = handles_open_in(arena, handle->addr, handle->size);
	return status;
}

/* Map memory again and queue the copies of its contents, which run while more
 * is mapped. */
static enum weir_status
bring_back(struct arena *arena)
{
	struct copies *copies = arena->private.suspension.copies;
	enum weir_status status = WEIR_OK;

	if (copies != NULL)
		copies_begin(copies);
	for (struct handle *h = handles_first(arena);
	     h != NULL && status == WEIR_OK; h = handles_next(h)) {
		status = map_again(h, arena);
		if (status == WEIR_OK && copies != NULL)
			status = copies_queue(copies, h);
	}
	if (copies != NULL && status == WEIR_OK)
		status = copies_read(copies);
	if (copies != NULL) {
		enum weir_status waited = copies_wait(copies);
		status = status == WEIR_OK ? waited : status;
	}
	return status;
}

/* Is all memory of a range away? */
static bool
is_away(const struct segment *segment, CUdeviceptr start, size_t size)
{
	struct handle *h = handle_floor(segment, start);

	for (; h != NULL && h->addr < start + size;
	     h = handle_at(tree_next(&h->node)))
		if (h->mapped || h->id != 0)
			return false;
	return true;
}

/* Forget the memory of a FREE block of a suspended arena. Returns the block to
 * go on from. */
static struct block *
forget_free(struct block *block, struct copies *copies)
    HOLDS(block->arena->lock)
{
	struct segment *segment = block->segment;
	struct handle *handles;
	struct handle *next;
	struct cut cut;
	CUdeviceptr start;
	size_t size = handles_within(segment, block->addr, block->size, &start);

	if (size == 0 || !is_away(segment, start, size) ||
	    cut_prepare(block, block, start, size, &cut) != WEIR_OK)
		return block;
	const struct copy_range range = {
		.addr = start, .size = size, .segment = segment->index
	};
	if (copies != NULL && !copies_leave_out(copies, &range)) {
		cut_drop(&cut);
		return block;
	}
	block = cut_with_handles(block, block, &cut, &handles);
	lock_assert_held(&block->arena->lock);
	block = block_commit_absent(block);
	for (struct handle *h = handles; h != NULL; h = next) {
		next = h->next;
		meta_free(h, sizeof(*h));
	}
	return block;
}

/* Forget what was freed while the device slept, so that it does not come back.
 * Memory that a graph keeps does. */
static void
forget_freed(struct arena *arena) HOLDS(arena->lock)
{
	struct copies *copies = arena->private.suspension.copies;

	reclaim_poll(arena, RECLAIM_SKIPS);
	if (arena->memory.kept > 1) /* not by the suspension alone */
		return;
	if (copies != NULL)
		copies_begin(copies);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		for (struct block *b = segment_of(l)->first;
		     b != NULL && segment_of(l)->expandable; b = b->next)
			if (block_state(b) == BLOCK_FREE) {
				lock_assert_held(&b->arena->lock);
				b = forget_free(b, copies);
			}
}

static enum weir_status
begin_resume(struct resuming *r, bool sleeps, size_t *need)
{
	struct arena *arena = r->arena;
	struct copies *copies = arena->private.suspension.copies;

	lock_assert_held(&arena->lock);
	if (arena->account.uncounted && arena_sleeps(arena) != sleeps)
		return status_set(WEIR_EINVAL,
		    "resuming: device %d is asleep; weir_wake() resumes it",
		    arena->device);
	if (!arena->account.uncounted || arena->memory.jobs > 0)
		return status_set(
		    WEIR_EINVAL, "resuming: the pool is not suspended");
	if (sleeps)
		forget_freed(arena);
	lock_assert_held(&arena->lock);
	size_t bytes = missing_bytes(arena);
	*need = bytes;
	r->mapped_bytes = bytes;
	enum weir_status status = arena_promise(arena, bytes, need);
	if (status != WEIR_OK)
		return status;
	r->copied_bytes = copies != NULL ? copies_bytes(copies) : 0;
	suspension_move(arena);
	return WEIR_OK;
}

enum weir_status
resuming_begin(struct resuming *r)
{
	size_t need;

	lock_enter(&r->arena->lock);
	enum weir_status status = begin_resume(r, true, &need);
	lock_leave(&r->arena->lock);
	return status;
}

enum weir_status
resuming_map(struct resuming *r)
{
	struct driver_guard guard;
	enum weir_status status = driver_enter(r->arena->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = bring_back(r->arena);
	driver_leave(&guard);
	return status;
}

/* All is mapped; the copies are dropped already. */
static void
finish_resume(struct resuming *r) HOLDS(r->arena->lock)
{
	struct arena *arena = r->arena;

	lock_assert_held(&arena->lock);
	settle_memory(arena, false);
	for (struct handle *h = handles_first(arena); h != NULL;
	     h = handles_next(h))
		h->mapped = false; /* elsewhere the flag means: mapped at `to`
				      as well */
	suspension_end(arena);
	arena_promised(arena, r->mapped_bytes);
	suspension_moved(arena);
}

void
resuming_finish(struct resuming *r)
{
	history_enter(WEIR_HISTORY_STATE);
	copies_drop(r->arena->private.suspension.copies);
	lock_enter(&r->arena->lock);
	finish_resume(r);
	lock_leave(&r->arena->lock);
	history_leave();
}

void
resuming_cancel(struct resuming *r)
{
	struct arena *arena = r->arena;
	struct driver_guard guard;

	history_enter(WEIR_HISTORY_STATE);
	status_mute();
	if (driver_enter(arena->context, &guard) == WEIR_OK) {
		unmap_again(arena);
		driver_leave(&guard);
	}
	status_unmute();
	lock_enter(&arena->lock);
	settle_memory(arena, true);
	arena_promised(arena, r->mapped_bytes);
	suspension_moved(arena);
	lock_leave(&arena->lock);
	history_leave();
}

static enum weir_status
try_resume(struct arena *arena, size_t *need)
{
	struct resuming r = { .arena = arena };

	lock_enter(&arena->lock);
	enum weir_status status = begin_resume(&r, false, need);
	lock_leave(&arena->lock);
	if (status != WEIR_OK)
		return status;
	status = resuming_map(&r);
	if (status == WEIR_OK)
		resuming_finish(&r);
	else
		resuming_cancel(&r);
	return status;
}

enum weir_status
arena_resume(struct arena *arena)
{
	size_t need;

	history_enter(WEIR_HISTORY_STATE);
	enum weir_status status = try_resume(arena, &need);
	while (status == WEIR_ENOMEM && arena_ask_others(arena, need) > 0)
		status = try_resume(arena, &need);
	history_leave();
	return status;
}
