/*
 * Serves a request from free memory: from the best fit of the stream's own
 * pool, of complete memory, and of rows of neighbours of several pools.
 */
#include "allocator/request/search.h"

#include "allocator/account/counters.h"
#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/spans.h"
#include "allocator/request/reclaim.h"
#include "base/status.h"
#include "trace/served.h"

/* Bytes that a small request moves from another pool at once. */
enum { FETCHED = SMALL_MAX };

void
search_begin(struct request *r)
{
	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->rounded >= r->size);
	view_begin(&r->view, r->heap);
	r->follows = 0;
	r->followed_until = 0;
}

void
search_count_served(const struct request *r, enum served_by by)
{
	lock_assert_held(&r->heap->arena->lock);
	stats_served(r->heap, by, r->size);
	served_end(by, history_on());
}

static bool
is_all_own(const struct request *r, const struct span *span)
{
	for (const struct block *b = span->first; b->pool->owner == r->heap;
	     b = b->next)
		if (b == span->last)
			return true;
	return false;
}

static enum weir_status
hand_from(struct request *r, const struct span *span, CUdeviceptr from)
    HOLDS(r->heap->arena->lock)
{
	ASSERT(from >= span->first->addr);
	ASSERT(span->first->segment == span->last->segment);
	if (!is_all_own(r, span))
		stream_protect(r->heap->stream);
	lock_assert_held(&r->heap->pool[r->kind].owner->arena->lock);
	return pool_cut_span(*span, from, &r->heap->pool[r->kind], r->options,
	    r->rounded, &r->got);
}

enum weir_status
search_hand_span(struct request *r, struct span span)
{
	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	return hand_from(r, &span, span.first->addr);
}

enum weir_status
search_hand_place(struct request *r, struct span span)
{
	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	return hand_from(r, &span, r->place);
}

/* Serve the request from a run of complete memory. */
static enum weir_status
hand_complete(struct request *r, struct block *block) HOLDS(block->arena->lock)
{
	enum weir_status status = pool_cut(&block, r->options, r->rounded);

	if (status != WEIR_OK)
		return status;
	ASSERT(block_is_complete(block) && block_state(block) == BLOCK_ACTIVE);
	struct stream_heap *owner = block->pool->owner;
	block_move(block, &r->heap->pool[r->kind]);
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
	r->got = block;
	return WEIR_OK;
}

/*
 * Serve the request from a complete block. A small request of the only stream
 * moves more memory to its own pool, because each of the next requests would
 * otherwise search as long. Where several streams allocate, the next poll would
 * move the rest back.
 */
static enum weir_status
fetch(struct request *r, struct block *block) HOLDS(block->arena->lock)
{
	struct stream_heap *owner = block->pool->owner;
	size_t size = block->run < FETCHED ? block->run : FETCHED;

	ASSERT(block_is_complete(block) && block_is_in_run(block));
	if (r->kind == POOL_LARGE || size <= r->rounded ||
	    r->heap->arena->memory.streams > 1)
		return hand_complete(r, block);
	enum weir_status status = pool_cut(&block, r->options, size);
	if (status != WEIR_OK)
		return status;
	block_move(block, &r->heap->pool[r->kind]);
	block->freed_at = 0; /* it is complete, as new memory */
	block_set_epoch(block);
	block_put(block, BLOCK_FREE);
	lock_assert_held(&owner->arena->lock);
	heap_drop_if_done(owner);
	return search_own(r);
}

enum weir_status
search_any(struct request *r)
{
	struct stream_heap *any = r->heap->arena->memory.any_heap;
	struct pool *pool = &any->pool[r->kind];

	ASSERT(r->got == NULL);
	if (r->heap == any)
		return WEIR_OK;
	lock_assert_held(&pool->owner->arena->lock);
	struct block *block = pool_find(pool, r->options, r->rounded, false);
	if (block == NULL)
		return WEIR_OK;
	lock_assert_held(&block->arena->lock);
	return fetch(r, block);
}

enum weir_status
search_free(struct request *r)
{
	enum weir_status status = search_own(r);

	return status == WEIR_OK && r->got == NULL ? search_any(r) : status;
}

/* The size that a span could have if it grew in place: pool.c. */
static size_t
growable_span_size(const struct span *span, size_t size)
{
	const struct block *next = span->last->next;

	return next != NULL && block_state(next) == BLOCK_UNMAPPED ?
	    size + next->size :
	    size;
}

/* Count the waits that a block needs: for its uses, if it is pending, and for
 * the stream that freed it. */
static unsigned
waits_for(struct request *r, const struct block *block)
{
	return (block_state(block) == BLOCK_PENDING) +
	    (block->freed_at > view_until(&r->view, block->pool->owner));
}

struct found {
	struct span span;
	size_t size; /* growable */
	unsigned waits;
};

/* Is a block before another, by segment and address? */
static bool
comes_before(const struct block *a, const struct block *b)
{
	return a->segment == b->segment ? a->addr < b->addr :
					  a->segment->index < b->segment->index;
}

static bool
is_better(const struct found *found, const struct found *best)
{
	if (found->size != best->size)
		return found->size < best->size;
	if (found->waits != best->waits)
		return found->waits < best->waits;
	return comes_before(found->span.first, best->span.first);
}

static void
keep_best(struct span_search *search, const struct span *span)
{
	struct request *r = search->about;
	struct found *best = search->to;
	struct found found = { .span = *span };

	ASSERT(span->first->segment == span->last->segment);
	for (const struct block *b = span->first;; b = b->next) {
		found.size += b->size;
		found.waits += waits_for(r, b);
		if (b == span->last)
			break;
	}
	found.size = growable_span_size(&found.span, found.size);
	if (best->span.first == NULL || is_better(&found, best))
		*best = found;
	search->most = best->size;
}

bool
search_find_span(struct request *r,
    bool (*is_good)(void *r, const struct block *), struct span *span)
{
	struct found best = { 0 };
	struct span_search search = { .mine = r->heap,
		.kind = r->kind,
		.least = r->rounded,
		.is_good = is_good,
		.about = r,
		.found = keep_best,
		.to = &best,
		.most = SIZE_MAX };

	ASSERT(r->got == NULL);
	/* Rows lie in expandable segments. */
	if (!heap_is_device_scope(r->heap))
		spans_find(&search);
	*span = best.span;
	return best.span.first != NULL;
}

/* Is the block pending, and is the request's stream ordered after all its
 * uses? */
static bool
is_over_for(struct request *r, const struct block *block)
{
	return block_state(block) == BLOCK_PENDING && r->view.ordered &&
	    r->view.capture == 0 &&
	    block->freed_at <= view_until(&r->view, block->pool->owner) &&
	    use_is_ordered(&block->pending, r->heap->stream);
}

/* May the request use the block without a wait? */
static bool
is_ready(void *about, const struct block *block)
{
	struct request *r = about;

	return block_is_usable(&r->view, block) ||
	    (block != NULL && is_over_for(r, block));
}

/* Likewise, of memory in no range of places. */
static bool
is_ready_elsewhere(void *about, const struct block *block)
{
	return block != NULL && !block->segment->of_places &&
	    is_ready(about, block);
}

struct block *
search_last_needed(const struct request *r, const struct span *span)
{
	struct block *b = span->first;

	for (size_t size = b->size; size < r->rounded; size += b->size)
		b = b->next;
	return b;
}

/* Free the first pending block of a usable span; false if there is none. */
static bool
free_pending(struct request *r, const struct span *span)
{
	struct stream_heap *mine = r->heap;

	ASSERT(span->first->segment == span->last->segment);
	for (struct block *b = span->first;; b = b->next) {
		if (block_state(b) == BLOCK_PENDING) {
			use_clear(&mine->arena->waiting, &b->pending);
			lock_assert_held(&b->arena->lock);
			reclaim_pending_to(b, &mine->pool[b->pool->kind]);
			return true;
		}
		if (b == span->last)
			return false;
	}
}

static enum weir_status
search_good(struct request *r, bool (*is_good)(void *r, const struct block *))
    HOLDS(r->heap->arena->lock)
{
	struct span best;

	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	if (r->heap == r->heap->arena->memory.any_heap)
		return WEIR_OK;
	r->got_own = true;
	while (search_find_span(r, is_good, &best)) {
		best.last = search_last_needed(r, &best);
		r->got_own = r->got_own && is_all_own(r, &best);
		if (!free_pending(r, &best))
			return search_hand_span(r, best);
	}
	return WEIR_OK;
}

enum weir_status
search_ready(struct request *r)
{
	return search_good(r, is_ready);
}

enum weir_status
search_elsewhere(struct request *r)
{
	return search_good(r, is_ready_elsewhere);
}

/* ---- The place of the round before -------------------------------------- */

bool
search_find_place(struct request *r,
    bool (*is_good)(void *r, const struct block *), struct span *span)
{
	CUdeviceptr end = r->place + r->rounded;
	struct block *b = r->place != 0 ? lookup_floor(r->place) : NULL;

	ASSERT(r->got == NULL);
	if (b == NULL || b->arena != r->heap->arena || !is_good(r, b) ||
	    heap_is_device_scope(r->heap) || !b->segment->expandable ||
	    b->pool->kind != r->kind || b->addr + b->size <= r->place)
		return false;
	span->first = b;
	while (b->addr + b->size < end) {
		b = b->next;
		if (b == NULL || !is_good(r, b))
			return false;
	}
	span->last = b;
	return true;
}

bool
search_place_is_mapped(const struct request *r)
{
	CUdeviceptr end = r->place + r->rounded;
	const struct block *b = lookup_floor(r->place);

	ASSERT(r->place != 0);
	if (b == NULL || b->arena != r->heap->arena ||
	    b->addr + b->size <= r->place)
		return false;
	while (b != NULL && block_is_held(b) && b->addr + b->size < end)
		b = b->next;
	return b != NULL && block_is_held(b);
}

enum weir_status
search_place(struct request *r)
{
	struct span span;

	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	while (search_find_place(r, is_ready, &span)) {
		r->got_own = is_all_own(r, &span);
		if (!free_pending(r, &span))
			return search_hand_place(r, span);
	}
	return WEIR_OK;
}

enum weir_status
search_all(struct request *r)
{
	enum weir_status status = search_free(r);

	lock_assert_held(&r->heap->arena->lock);
	if (status == WEIR_OK && r->got == NULL) {
		view_renew(&r->view);
		status = search_ready(r);
	}
	return status;
}
