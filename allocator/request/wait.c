/*
 * Makes streams wait on the device: for pending blocks, for fences of other
 * streams, and for the row of blocks that fits best.
 */
#include "allocator/request/wait.h"

#include "allocator/account/counters.h"
#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/pool.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/search.h"
#include "allocator/request/tuning.h"
#include "base/status.h"
#include "trace/served.h"

size_t
wait_idle_bytes(const struct arena *arena, enum pool_kind kind)
{
	struct weir_stat3 held = arena->account.stats.reserved_bytes;

	return stats_part(&held, kind)->current -
	    tally_now(
		&arena->account.tally, part_of(kind), TALLIED_allocated_bytes);
}

/* Are the waits for all uses of a pending block good? */
static bool
are_uses_good(struct request *r, const struct block *block)
{
	if (r->is_good == NULL)
		return true;
	for (const struct use *u = block->pending.uses; u != NULL; u = u->next)
		if (!use_is_before(u, r->heap->stream) &&
		    !r->is_good(r, block, u))
			return false;
	return true;
}

/* Make the stream wait for a pending block, and make that a free block of the
 * stream. */
static bool
claim(struct request *r, struct block *block, enum waits waits)
    HOLDS(block->arena->lock)
{
	struct stream_heap *mine = r->heap;
	struct arena *arena = mine->arena;
	struct stream_heap *owner = block->pool->owner;
	/* A wait in a capture would be made again at each replay. */
	ASSERT(block_state(block) == BLOCK_PENDING);
	ASSERT(block->arena == r->heap->arena);
	bool can_wait = r->view.capture == 0 || waits == WAITS_ANY;
	struct driver_guard guard;
	uint64_t made = 0;

	lock_assert_held(&r->view.mine->arena->lock);
	if (owner != arena->memory.any_heap &&
	    !fences_follow(&r->view, owner, block->freed_at, waits))
		return false;
	if (driver_enter(mine->stream->context, &guard) != WEIR_OK)
		return false;
	bool done = use_follow(&block->pending, mine->stream, r->view.capture,
	    can_wait ? &made : NULL);
	driver_leave(&guard);
	lock_assert_held(&mine->arena->lock);
	counter_add_of(mine, COUNTER_num_gpu_waits, made);
	if (!done)
		return false;
	use_clear(&arena->waiting, &block->pending);
	reclaim_pending_to(block, &mine->pool[block->pool->kind]);
	return true;
}

static size_t
pending_asked(enum waits waits)
{
	return waits == WAITS_ANY ? SIZE_MAX : PENDING_ASKED;
}

/* Bytes of the row of usable memory that a pending block would be part of. */
static size_t
run_around(struct request *r, const struct block *block)
{
	size_t size = block->size;

	ASSERT(block_state(block) == BLOCK_PENDING);
	if (!block->segment->expandable)
		return size;
	for (struct block *b = block->prev; block_is_usable(&r->view, b);
	     b = b->prev)
		size += b->size;
	for (struct block *b = block->next; block_is_usable(&r->view, b);
	     b = b->next)
		size += b->size;
	return size;
}

/* Claim the oldest pending block that is enough, alone or with its
 * neighbours. */
static enum weir_status
claim_one(struct request *r, bool only_mine, enum waits waits)
    HOLDS(r->heap->arena->lock)
{
	struct list *pending = &r->heap->arena->waiting.pending;
	size_t left = pending_asked(waits);
	enum weir_status status = WEIR_OK;
	struct list *next;

	ASSERT(r->got == NULL);
	for (struct list *l = pending->next;
	     l != pending && left > 0 && status == WEIR_OK && r->got == NULL;
	     l = next, left--) {
		struct block *block = block_of_pending(l);
		next = l->next;
		lock_assert_held(&block->arena->lock);
		if (block_state(block) != BLOCK_VACATED &&
		    block->pool->kind == r->kind &&
		    (block->pool->owner == r->heap || !only_mine) &&
		    run_around(r, block) >= r->rounded &&
		    are_uses_good(r, block) && claim(r, block, waits))
			status = search_all(r);
	}
	return status;
}

/* Claim pending blocks, the oldest first, until they serve the request. */
static enum weir_status
claim_pending(struct request *r, bool only_mine, enum waits waits)
    HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	size_t left = pending_asked(waits);
	enum weir_status status = WEIR_OK;
	struct list *next;
	size_t got = 0;

	ASSERT(r->got == NULL);
	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending && left > 0 && status == WEIR_OK &&
	     r->got == NULL;
	     l = next, left--) {
		struct block *block = block_of_pending(l);
		size_t size = block->size;
		next = l->next;
		lock_assert_held(&block->arena->lock);
		if (block_state(block) == BLOCK_VACATED ||
		    block->pool->kind != r->kind ||
		    (only_mine && block->pool->owner != r->heap) ||
		    !claim(r, block, waits))
			continue;
		got += size;
		if (got >= r->rounded)
			status = search_all(r);
	}
	return status;
}

/* Order the stream after other streams, from fence to fence; in a capture,
 * after all their captured work. */
static enum weir_status
follow_others(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	enum weir_status status = WEIR_OK;

	ASSERT(r->got == NULL);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps && status == WEIR_OK && r->got == NULL;
	     l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		uint64_t until = 0;
		if (heap == r->heap || heap == arena->memory.any_heap)
			continue;
		lock_assert_held(&r->view.mine->arena->lock);
		while (status == WEIR_OK && r->got == NULL &&
		    heap->pool[r->kind].free.count > 0 &&
		    fences_follow_next(&r->view, heap, &until))
			status = search_all(r);
	}
	return status;
}

/* ---- Best fit everywhere ----------------------------------------------- */

/* Are all waits good that a block needs? */
static bool
is_block_good(void *about, const struct block *block)
{
	struct request *r = about;

	if (block == NULL ||
	    (block_state(block) != BLOCK_FREE &&
		block_state(block) != BLOCK_PENDING))
		return false;
	if (r->is_good != NULL &&
	    block->freed_at > view_until(&r->view, block->pool->owner) &&
	    !r->is_good(r, block, NULL))
		return false;
	return block_state(block) == BLOCK_FREE || are_uses_good(r, block);
}

/* The latest free tick of the blocks of a heap in a span. */
static uint64_t
freed_in(const struct span *span, const struct stream_heap *heap)
{
	const struct block *b = span->first;
	uint64_t tick = 0;

	ASSERT(span->first->arena == heap->arena);
	for (;; b = b->next) {
		if (b->pool->owner == heap && b->freed_at > tick)
			tick = b->freed_at;
		if (b == span->last)
			return tick;
	}
}

enum readiness { READY, CHANGED, REFUSED };

static enum readiness
follow_span(struct request *r, const struct span *span)
    HOLDS(r->heap->arena->lock)
{
	ASSERT(span->first->segment == span->last->segment);
	for (struct block *b = span->first;; b = b->next) {
		struct stream_heap *owner = b->pool->owner;
		if (block_state(b) == BLOCK_PENDING) {
			lock_assert_held(&b->arena->lock);
			return claim(r, b, WAITS_ANY) ? CHANGED : REFUSED;
		}
		if (!block_is_usable(&r->view, b)) {
			bool ended = owner->ended;
			uint64_t tick = freed_in(span, owner);
			lock_assert_held(&r->view.mine->arena->lock);
			if (!fences_follow(&r->view, owner, tick, WAITS_ANY))
				return REFUSED;
			if (ended)
				return CHANGED;
			view_put_behind(&r->view, owner, tick);
		}
		if (b == span->last)
			return READY;
	}
}

/* Order the stream after all work on a span. CHANGED: a wait has changed the
 * span's blocks, and the caller searches again. */
static enum readiness
wait_for_span(struct request *r, const struct span *span)
    HOLDS(r->heap->arena->lock)
{
	/* A driver call that fails here does not fail the request. */
	ASSERT(r->got == NULL);
	status_mute();
	enum readiness readiness = follow_span(r, span);
	status_unmute();
	return readiness;
}

/* Should the request look for the best fit in all memory? Not if its own pool
 * has an exact fit. */
static bool
looks_everywhere(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct stream_heap *mine = r->heap;
	struct arena *arena = mine->arena;

	ASSERT(r->rounded > 0);
	lock_assert_held(&r->view.mine->arena->lock);
	if (r->kind != POOL_LARGE || arena->memory.streams < 2 ||
	    mine == arena->memory.any_heap || !view_can_wait(&r->view) ||
	    r->view.capture != 0)
		return false;
	lock_assert_held(&mine->pool[r->kind].owner->arena->lock);
	struct block *own =
	    pool_find(&mine->pool[r->kind], r->options, r->rounded, false);
	return own == NULL || own->run > r->rounded;
}

bool
wait_find_best(struct request *r, struct span *span)
{
	view_renew(&r->view);
	return search_find_span(r, is_block_good, span);
}

enum weir_status
wait_for_best(struct request *r)
{
	struct span span;

	ASSERT(r->got == NULL);
	lock_assert_held(&r->heap->arena->lock);
	for (unsigned n = 0; n < REQUEST_TRIES && wait_find_best(r, &span);
	     n++) {
		span.last = search_last_needed(r, &span);
		enum readiness readiness = wait_for_span(r, &span);
		if (readiness == READY)
			return search_hand_span(r, span);
		if (readiness == REFUSED)
			return WEIR_OK;
	}
	return WEIR_OK;
}

enum weir_status
wait_for_place(struct request *r)
{
	struct span span;

	ASSERT(r->got == NULL);
	lock_assert_held(&r->heap->arena->lock);
	for (unsigned n = 0; n < REQUEST_TRIES; n++) {
		view_renew(&r->view);
		if (!search_find_place(r, is_block_good, &span))
			break;
		enum readiness readiness = wait_for_span(r, &span);
		if (readiness == READY)
			return search_hand_place(r, span);
		if (readiness == REFUSED)
			break;
	}
	return WEIR_OK;
}

enum weir_status
wait_best_fit(struct request *r)
{
	lock_assert_held(&r->heap->arena->lock);
	search_begin(r);
	served_begin();
	if (!looks_everywhere(r))
		return WEIR_OK;
	r->is_good = NULL;
	enum weir_status status = wait_for_best(r);
	if (r->got != NULL)
		search_count_served(r, SERVED_anywhere);
	return status;
}

/* Do the wait limits allow a wait? */
static bool
is_allowed(struct request *r, const struct block *block, const struct use *use)
{
	if (use == NULL)
		return fences_allow(
		    &r->view, block->pool->owner, block->freed_at, r->allowed);
	return use_is_fenced(use) &&
	    policy_allows(r->allowed,
		fences_cost(&r->view, use->queue->stream, use->at, true));
}

/* Serve the request from the row that fits best, behind waits of the least
 * possible cost. */
static enum weir_status
wait_for_row(struct request *r, enum waits waits) HOLDS(r->heap->arena->lock)
{
	enum weir_status status = WEIR_OK;

	ASSERT(r->got == NULL);
	if (waits == WAITS_ANY)
		return wait_for_best(r);
	for (int allowed = WAITS_FREE;
	     allowed <= (int)waits && status == WEIR_OK && r->got == NULL;
	     allowed++) {
		r->allowed = (enum waits)allowed;
		status = wait_for_best(r);
	}
	return status;
}

enum weir_status
wait_on_device(struct request *r, enum waits waits)
{
	enum weir_status status = WEIR_OK;

	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	lock_assert_held(&r->view.mine->arena->lock);
	if (wait_idle_bytes(r->heap->arena, r->kind) < r->rounded ||
	    !view_can_wait(&r->view))
		return WEIR_OK;
	bool captured = r->view.capture != 0;
	r->is_good = captured || waits == WAITS_ANY ? NULL : is_allowed;
	r->allowed = waits;
	fences_see_busy(&r->view);
	status_mute();
	/* First try blocks that need one wait only. */
	status = claim_one(r, true, waits);
	if (status == WEIR_OK && r->got == NULL)
		status = claim_one(r, false, waits);
	if (status == WEIR_OK && r->got == NULL && !captured)
		status = wait_for_row(r, waits);
	if (status == WEIR_OK && r->got == NULL &&
	    (captured || waits == WAITS_ANY))
		status = claim_pending(r, true, waits);
	if (status == WEIR_OK && r->got == NULL && waits == WAITS_ANY)
		status = claim_pending(r, false, waits);
	if (status == WEIR_OK && r->got == NULL && waits == WAITS_ANY)
		status = follow_others(r);
	if (status != WEIR_OK)
		return status_unmute_and_report();
	status_unmute();
	return WEIR_OK;
}

/* ---- Short memory ------------------------------------------------------- */

/* Does free memory of a kind help, at its place or moved? */
static bool
is_of_use(const struct request *r, enum pool_kind kind)
{
	return kind == r->kind || heap_maps(r->heap, r->options);
}

/* Claim pending blocks until they have `want` bytes; returns the bytes
 * claimed. */
static size_t
claim_some(struct request *r, bool only_mine, size_t want)
{
	struct list *pending = &r->heap->arena->waiting.pending;
	struct list *next;
	size_t got = 0;

	ASSERT(want > 0);
	for (struct list *l = pending->next; l != pending && got < want;
	     l = next) {
		struct block *block = block_of_pending(l);
		size_t size = block->size;
		next = l->next;
		lock_assert_held(&block->arena->lock);
		if (block_state(block) != BLOCK_VACATED &&
		    is_of_use(r, block->pool->kind) &&
		    (block->pool->owner == r->heap || !only_mine) &&
		    claim(r, block, WAITS_ANY))
			got += size;
	}
	return got;
}

static bool
has_some(const struct request *r, const struct stream_heap *heap)
{
	for (int kind = 0; kind < POOL_KINDS; kind++)
		if (is_of_use(r, (enum pool_kind)kind) &&
		    heap->pool[kind].free.count > 0)
			return true;
	return false;
}

bool
wait_for_some(struct request *r)
{
	struct arena *arena = r->heap->arena;
	size_t got = claim_some(r, true, r->need);

	ASSERT(r->got == NULL);
	lock_assert_held(&r->heap->arena->lock);
	if (got < r->need)
		got += claim_some(r, false, r->need - got);
	if (got > 0)
		return true;
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap->index < r->follows || heap == r->heap ||
		    heap == arena->memory.any_heap || !has_some(r, heap))
			continue;
		if (heap->index > r->follows)
			r->followed_until = 0;
		r->follows = heap->index;
		lock_assert_held(&r->view.mine->arena->lock);
		if (fences_follow_next(&r->view, heap, &r->followed_until))
			return true;
	}
	return false;
}
