/*
 * A block for a request that its thread has not cached: from its own pool, or
 * by every other means there is.
 *
 * Note [Reclaim ladder]
 *
 * A request that its own pool cannot serve tries, in this order, and searches
 * again after every step that changed something (the table `ladder` has all
 * steps):
 *
 *   1. free blocks of other streams that it may use without a wait, as far as
 *      is known already, together with memory of no stream, which is complete
 *      everywhere; what threads have cached and do not use (tcache.h, Note
 *      [What is in use stays])
 *   2. pending blocks whose uses have ended meanwhile; for memory of no stream
 *      this comes before what threads have cached
 *   3. the streams are polled, and what is found complete becomes memory of no
 *      stream; then as 1
 *   4. memory behind a wait on the device; in a capture, pending blocks whose
 *      uses it comes after there
 *   5. mapping such memory, and its own, from several places at one
 *   6. new memory from the driver, within the limit; before it, what the
 *      collector finds old (garbage_collection_threshold)
 *   7. all that is cached; memory of any kind behind waits on the device, also
 *      for all that another stream has to do, moved together; as much as is
 *      missing
 *   8. memory that other pools hold free and no work uses any more goes back
 *      to the driver, the longest unused first, as much as is missing
 *   9. the host waits: for pending blocks, the oldest first, one at a time,
 *      then for one stream at a time whose free memory is then as in 8
 *
 * Only 9 waits, with no lock held, and for no more than is needed. When all of
 * it is exhausted the request fails. From 7 on no more is looked for than was
 * asked for: that requests are rounded up is no reason to wait or to fail.
 *
 * Each step has a word (trace/served.h). A request that a step serves is
 * counted by that word, and reports of a failure name the steps that were
 * tried.
 */
#include "allocator/request/ladder.h"

#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/counters.h"
#include "allocator/memory/grow.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/promote.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/spans.h"
#include "allocator/memory/totals.h"
#include "allocator/policy/policy.h"
#include "allocator/request/decay.h"
#include "allocator/request/price.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/request.h"
#include "base/status.h"
#include "trace/served.h"

/* How many pending blocks a request looks at that may get new memory. */
enum { PENDING_ASKED = 256 };

/* Where several streams allocate, what is complete is looked up for the next
 * large request once in so many requests, and whenever memory is missed. */
enum { REQUESTS_A_POLL = 4 };

/* Bytes that come with a small request from another pool. */
enum { FETCHED = SMALL_MAX };

/* Requests of host memory that no cache serves, after which what threads keep
 * goes to the pool, where it merges: else the pool is cut up around it. */
enum { REQUESTS_A_DRAIN = 128 };

static inline void
request_init(struct request *r, struct pools *pools,
    const struct options *options, size_t size)
{
	size_t rounded = arena_class(pools->arena, options, size);

	r->pools = pools;
	r->options = options;
	r->size = size;
	r->rounded = rounded;
	r->kind = arena_kind(pools->arena, rounded);
	r->need = rounded;
	r->got = NULL;
	r->got_own = false;
}

/* More than the pool itself is looked at. */
static void
request_look_around(struct request *r)
{
	view_begin(&r->view, r->pools);
	r->prices = (struct wait_prices){ 0 };
	r->late_ns = 0;
	r->follows = 0;
	r->followed_until = 0;
}

/* Count a request that more than its own pool has served. */
static void
count_served(const struct request *r, enum served_by by)
{
	stats_served(&r->pools->arena->stats, by, r->size);
	stats_served(&r->pools->stats, by, r->size);
	served_end(by, history_on());
}

/* ---- What there is ----------------------------------------------------- */

static inline QUICK enum weir_status
hand_at_once(struct request *r, struct block *block)
{
	enum weir_status status = pool_cut(&block, r->options, r->rounded);
	if (status != WEIR_OK)
		return status;
	struct pool *pool = block->pool;
	if (pool->owner != r->pools) {
		if (!block_is_complete(block))
			stream_protect(r->pools->stream);
		block_move(block, &r->pools->pool[r->kind]);
		pools_drop_if_done(pool->owner);
	}
	r->got = block;
	return WEIR_OK;
}

static enum weir_status
hand(struct request *r, struct block *block)
{
	return hand_at_once(r, block);
}

static bool
is_all_own(const struct request *r, const struct span *span)
{
	for (const struct block *b = span->first; b->pool->owner == r->pools;
	     b = b->next)
		if (b == span->last)
			return true;
	return false;
}

enum weir_status
request_hand_span(struct request *r, struct span span)
{
	if (!is_all_own(r, &span))
		stream_protect(r->pools->stream);
	return pool_cut_span(
	    span, &r->pools->pool[r->kind], r->options, r->rounded, &r->got);
}

/* The best block of the pool itself. Requests of no stream are served from
 * segments of the driver only. */
static inline QUICK enum weir_status
search_own(struct request *r)
{
	struct pools *mine = r->pools;
	struct block *block = pool_find(&mine->pool[r->kind], r->options,
	    r->rounded, mine == mine->arena->any_pools);

	return block != NULL ? hand_at_once(r, block) : WEIR_OK;
}

/*
 * Serve the request from a block of another pool. A small request brings some
 * more along, for the next requests: each would search all the way to here.
 */
static enum weir_status
fetch(struct request *r, struct block *block)
{
	struct pools *owner = block->pool->owner;
	size_t size = block->run < FETCHED ? block->run : FETCHED;

	if (r->kind == POOL_LARGE || size <= r->rounded)
		return hand(r, block);
	enum weir_status status = pool_cut(&block, r->options, size);
	if (status != WEIR_OK)
		return status;
	block_move(block, &r->pools->pool[r->kind]);
	block->freed_at = order_tick();
	block_set_fence(block);
	r->pools->freed_at = block->freed_at;
	block_put(block, BLOCK_FREE);
	pools_drop_if_done(owner);
	return search_own(r);
}

/* The best of those of no stream, for others. */
static enum weir_status
search_any(struct request *r)
{
	struct pools *any = r->pools->arena->any_pools;
	struct block *block = r->pools == any ?
	    NULL :
	    pool_find(&any->pool[r->kind], r->options, r->rounded, false);

	return block != NULL ? fetch(r, block) : WEIR_OK;
}

static enum weir_status
search_free(struct request *r)
{
	enum weir_status status = search_own(r);

	return status == WEIR_OK && r->got == NULL ? search_any(r) : status;
}

/* The size a span could have without moving: pool.c. */
static size_t
growable_span_size(const struct span *span, size_t size)
{
	const struct block *next = span->last->next;

	return next != NULL && block_state(next) == BLOCK_UNMAPPED ?
	    size + next->size :
	    size;
}

/* Count the waits that a block takes: for the uses it pends for, and for the
 * stream that freed it. */
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

/* Does a block come before another, by segment and address? */
static bool
comes_before(const struct block *a, const struct block *b)
{
	const struct list *segments = &a->arena->segments;

	if (a->segment == b->segment)
		return a->addr < b->addr;
	for (const struct list *l = segments->next; l != segments; l = l->next)
		if (l == &a->segment->link || l == &b->segment->link)
			return l == &a->segment->link;
	return false;
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
request_find_span(struct request *r,
    bool (*is_good)(void *r, const struct block *), struct span *span)
{
	struct found best = { 0 };
	struct span_search search = { .mine = r->pools,
		.kind = r->kind,
		.least = r->rounded,
		.is_good = is_good,
		.about = r,
		.found = keep_best,
		.to = &best,
		.most = SIZE_MAX };

	spans_find(&search);
	*span = best.span;
	return best.span.first != NULL;
}

/* Is it pending, and is the request's stream ordered after all its uses? */
static bool
is_over_for(struct request *r, const struct block *block)
{
	return block_state(block) == BLOCK_PENDING && r->view.ordered &&
	    r->view.capture == 0 &&
	    block->freed_at <= view_until(&r->view, block->pool->owner) &&
	    use_is_ordered(&block->pending, r->pools->stream);
}

/* May the request use it without a wait? */
static bool
is_ready(void *about, const struct block *block)
{
	struct request *r = about;

	return block_is_usable(&r->view, block) ||
	    (block != NULL && is_over_for(r, block));
}

struct block *
request_last_needed(const struct request *r, const struct span *span)
{
	struct block *b = span->first;

	for (size_t size = b->size; size < r->rounded; size += b->size)
		b = b->next;
	return b;
}

/* Free the first block of a ready span that is pending; false if none is. */
static bool
free_pending(struct request *r, const struct span *span)
{
	struct pools *mine = r->pools;

	for (struct block *b = span->first;; b = b->next) {
		if (block_state(b) == BLOCK_PENDING) {
			use_clear(&mine->arena->waiting, &b->pending);
			reclaim_pending_to(b, &mine->pool[b->pool->kind]);
			return true;
		}
		if (b == span->last)
			return false;
	}
}

/* Join ready neighbours of several pools that serve together. */
static enum weir_status
search_spans(struct request *r)
{
	struct span best;

	if (r->pools == r->pools->arena->any_pools)
		return WEIR_OK;
	r->got_own = true;
	while (request_find_span(r, is_ready, &best)) {
		best.last = request_last_needed(r, &best);
		r->got_own = r->got_own && is_all_own(r, &best);
		if (!free_pending(r, &best))
			return request_hand_span(r, best);
	}
	return WEIR_OK;
}

/* Everything that takes no wait, no mapping and nothing new. */
static enum weir_status
search_all(struct request *r)
{
	enum weir_status status = search_free(r);

	if (status == WEIR_OK && r->got == NULL) {
		view_renew(&r->view);
		status = search_spans(r);
	}
	return status;
}

/* ---- Mapping ----------------------------------------------------------- */

/* Bytes that are held and not with callers, of a kind: all that searching and
 * waiting can bring. */
static size_t
idle_bytes(const struct arena *arena, enum pool_kind kind)
{
	struct weir_stat3 held = arena->stats.reserved_bytes;

	return stats_part(&held, kind)->current -
	    tally_now(&arena->tally, part_of(kind), TALLIED_allocated_bytes);
}

/* The streams of a device that was reset meanwhile must not be asked. */
static enum weir_status
tell_forgotten(const struct arena *arena)
{
	return status_set(
	    WEIR_ECONTEXT, "device %d has just been reset", arena->device);
}

/* Map memory until there is a block for the request: another thread may take
 * what was mapped for it. A shortage is not told yet: the ladder may still make
 * it good. */
static enum weir_status
grow(struct request *r, enum grow_how how)
{
	struct arena *arena = r->pools->arena;
	struct pool *pool = &r->pools->pool[r->kind];
	enum weir_status status = WEIR_OK;

	while (status == WEIR_OK && r->got == NULL) {
		view_renew(&r->view);
		status_mute();
		status = pool_grow(
		    &r->view, pool, r->options, r->rounded, how, &r->need);
		if (status != WEIR_OK && status != WEIR_ENOMEM)
			return status_unmute_and_tell();
		status_unmute();
		if (arena->forgotten)
			return tell_forgotten(arena);
		if (status == WEIR_OK)
			status = search_all(r);
	}
	return status;
}

/* Move memory together if that is enough; a shortage is no error here. */
static enum weir_status
remap(struct request *r)
{
	struct arena *arena = r->pools->arena;

	if (arena->kept > 0)
		return WEIR_OK;
	if (idle_bytes(arena, POOL_SMALL) + idle_bytes(arena, POOL_LARGE) <
	    r->rounded)
		return WEIR_OK;
	enum weir_status status = grow(r, GROW_MOVED);
	return status == WEIR_ENOMEM ? WEIR_OK : status;
}

/* ---- Waiting on the device --------------------------------------------- */

/* Can waits be put into the stream, and is what it has waited for of use? The
 * answers are one, or it would be made to wait for the same again and again. */
static bool
can_wait(struct request *r)
{
	return view_can_wait(&r->view);
}

/* May the uses of a pending block be waited for? */
static bool
may_claim(
    const struct view *view, const struct pending *pending, enum waits waits)
{
	if (waits == WAITS_ANY || view->capture != 0)
		return true;
	for (const struct use *u = pending->uses; u != NULL; u = u->next)
		if (!use_is_marked(u) ||
		    !policy_allows(waits,
			marks_cost(view->mine, u->queue->stream, u->at, true)))
			return false;
	return true;
}

/* Make a pending block free memory of the request's stream, behind waits. */
static bool
claim(struct request *r, struct block *block, enum waits waits)
{
	struct pools *mine = r->pools;
	struct arena *arena = mine->arena;
	struct pools *owner = block->pool->owner;
	struct driver_guard guard;
	uint64_t made = 0;

	if (!may_claim(&r->view, &block->pending, waits) ||
	    (owner != arena->any_pools &&
		!marks_follow(&r->view, owner, block->freed_at, waits)))
		return false;
	if (driver_enter(mine->stream->context, &guard) != WEIR_OK)
		return false;
	bool done = use_follow(&block->pending, mine->stream, r->view.capture,
	    waits >= WAITS_CHEAP ? &made : NULL);
	driver_leave(&guard);
	arena->stats.num_gpu_waits += made;
	mine->stats.num_gpu_waits += made;
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

/* Bytes of the run of free memory that a pending block would be part of. */
static size_t
run_around(struct request *r, const struct block *block)
{
	size_t size = block->size;

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

/* Take the oldest pending block that is enough, alone or with neighbours. */
static enum weir_status
claim_one(struct request *r, bool only_mine, enum waits waits)
{
	struct list *pending = &r->pools->arena->waiting.pending;
	size_t left = pending_asked(waits);
	enum weir_status status = WEIR_OK;
	struct list *next;

	for (struct list *l = pending->next;
	     l != pending && left > 0 && status == WEIR_OK && r->got == NULL;
	     l = next, left--) {
		struct block *block = block_of_pending(l);
		next = l->next;
		if (block_state(block) != BLOCK_LEFT &&
		    block->pool->kind == r->kind &&
		    (block->pool->owner == r->pools || !only_mine) &&
		    run_around(r, block) >= r->rounded &&
		    claim(r, block, waits))
			status = search_all(r);
	}
	return status;
}

/* Wait for a mark that lets go a block that is enough. */
static enum weir_status
follow_one(struct request *r, enum waits waits)
{
	struct arena *arena = r->pools->arena;

	for (struct pools *pools = pools_first_freed(arena); pools != NULL;
	     pools = pools_next_freed(pools)) {
		if (pools == r->pools)
			continue;
		struct block *block =
		    marks_find(&r->view, pools, r->rounded, waits);
		if (block != NULL &&
		    marks_follow(&r->view, pools, block->freed_at, waits))
			return search_all(r);
	}
	return WEIR_OK;
}

/* Take pending blocks behind waits, the oldest first, while they may help. */
static enum weir_status
claim_pending(struct request *r, bool only_mine, enum waits waits)
{
	struct arena *arena = r->pools->arena;
	size_t left = pending_asked(waits);
	enum weir_status status = WEIR_OK;
	struct list *next;
	size_t got = 0;

	for (struct list *l = arena->waiting.pending.next;
	     l != &arena->waiting.pending && left > 0 && status == WEIR_OK &&
	     r->got == NULL;
	     l = next, left--) {
		struct block *block = block_of_pending(l);
		size_t size = block->size;
		next = l->next;
		if (block_state(block) == BLOCK_LEFT ||
		    block->pool->kind != r->kind ||
		    (only_mine && block->pool->owner != r->pools) ||
		    !claim(r, block, waits))
			continue;
		got += size;
		if (got >= r->rounded)
			status = search_all(r);
	}
	return status;
}

/* Put the stream behind others, from mark to mark; in a capture, behind all
 * that they have captured. */
static enum weir_status
follow_others(struct request *r, enum waits waits)
{
	struct arena *arena = r->pools->arena;
	enum weir_status status = WEIR_OK;

	for (struct list *l = arena->pools.next;
	     l != &arena->pools && status == WEIR_OK && r->got == NULL;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		uint64_t until = 0;
		if (pools == r->pools || pools == arena->any_pools)
			continue;
		while (status == WEIR_OK && r->got == NULL &&
		    pools->pool[r->kind].free.count > 0 &&
		    marks_follow_next(&r->view, pools, &until, waits))
			status = search_all(r);
	}
	return status;
}

/* ---- Best fit everywhere ----------------------------------------------- */

static bool
can_be_had(void *about, const struct block *block)
{
	(void)about;
	return block != NULL &&
	    (block_state(block) == BLOCK_FREE ||
		block_state(block) == BLOCK_PENDING);
}

/* The latest tick at which one of some pools was freed in a span. */
static uint64_t
freed_in(const struct span *span, const struct pools *pools)
{
	const struct block *b = span->first;
	uint64_t tick = 0;

	for (;; b = b->next) {
		if (b->pool->owner == pools && b->freed_at > tick)
			tick = b->freed_at;
		if (b == span->last)
			return tick;
	}
}

static enum readiness
follow_span(struct request *r, const struct span *span)
{
	for (struct block *b = span->first;; b = b->next) {
		struct pools *owner = b->pool->owner;
		if (block_state(b) == BLOCK_PENDING)
			return claim(r, b, WAITS_ANY) ? CHANGED : REFUSED;
		if (!block_is_usable(&r->view, b)) {
			bool ended = owner->ended;
			uint64_t tick = freed_in(span, owner);
			if (!marks_follow(&r->view, owner, tick, WAITS_ANY))
				return REFUSED;
			if (ended)
				return CHANGED;
			view_put_behind(&r->view, owner, tick);
		}
		if (b == span->last)
			return READY;
	}
}

enum readiness
request_wait_for_span(struct request *r, const struct span *span)
{
	/* A driver call that fails here does not fail the request. */
	status_mute();
	enum readiness readiness = follow_span(r, span);
	status_unmute();
	return readiness;
}

/* Is the best fit looked for everywhere? Not where the stream has one that is
 * as good as any. */
static bool
looks_everywhere(struct request *r)
{
	struct pools *mine = r->pools;
	struct arena *arena = mine->arena;

	if (r->kind != POOL_LARGE || arena->streams < 2 ||
	    mine == arena->any_pools || !can_wait(r) || r->view.capture != 0)
		return false;
	struct block *own =
	    pool_find(&mine->pool[r->kind], r->options, r->rounded, false);
	return own == NULL || own->run > r->rounded;
}

/* The best fit of all memory there is, with whatever waits it takes. */
static __attribute__((noinline)) enum weir_status
search_everywhere(struct request *r)
{
	struct span span;

	request_look_around(r);
	served_begin();
	if (!looks_everywhere(r))
		return WEIR_OK;
	for (unsigned n = 0; n < REQUEST_TRIES; n++) {
		view_renew(&r->view);
		if (!request_find_span(r, can_be_had, &span))
			return WEIR_OK;
		span.last = request_last_needed(r, &span);
		enum readiness readiness = request_wait_for_span(r, &span);
		if (readiness == REFUSED)
			return WEIR_OK;
		if (readiness == CHANGED)
			continue;
		enum weir_status status = request_hand_span(r, span);
		if (r->got != NULL)
			count_served(r, SERVED_anywhere);
		return status;
	}
	return WEIR_OK;
}

static enum weir_status
wait_on_device(struct request *r, enum waits waits)
{
	enum weir_status status = WEIR_OK;

	if (idle_bytes(r->pools->arena, r->kind) < r->rounded || !can_wait(r))
		return WEIR_OK;
	status_mute();
	/* Best is what one wait brings. */
	status = claim_one(r, true, waits);
	if (status == WEIR_OK && r->got == NULL)
		status = claim_one(r, false, waits);
	if (status == WEIR_OK && r->got == NULL)
		status = follow_one(r, waits);
	if (status == WEIR_OK && r->got == NULL)
		status = claim_pending(r, true, waits);
	if (status == WEIR_OK && r->got == NULL && waits == WAITS_ANY)
		status = claim_pending(r, false, waits);
	if (status == WEIR_OK && r->got == NULL && waits == WAITS_ANY)
		status = follow_others(r, waits);
	if (status != WEIR_OK)
		return status_unmute_and_tell();
	status_unmute();
	return WEIR_OK;
}

/* ---- The ladder -------------------------------------------------------- */

/* The most that was ever alive at once, with the request; it is kept. */
static size_t
note_live(const struct request *r)
{
	struct arena *arena = r->pools->arena;
	const struct tally *tally = &arena->tally;
	size_t peak =
	    (size_t)tally->part[PART_ALL].peak[TALLIED_allocated_bytes];
	size_t live =
	    tally_now(tally, PART_ALL, TALLIED_allocated_bytes) + r->rounded;

	if (arena_is_host(arena)) /* reclaim_bound() keeps its own */
		return arena->most_live;
	if (live < peak)
		live = peak;
	if (arena->most_live < live)
		arena->most_live = live;
	return arena->most_live;
}

struct request_facts
request_facts(const struct request *r)
{
	const struct arena *arena = r->pools->arena;

	return (struct request_facts){ .prefer = r->options->prefer,
		.is_small = r->kind != POOL_LARGE,
		.is_captured = r->view.capture != 0,
		.held_bytes = arena_held(arena) + r->rounded,
		.most_live_bytes = arena->most_live,
		.moves = arena->moves,
		.served = arena->served,
		.delay_percent = r->options->delay_percent,
		.request_bytes = round_up(r->rounded, arena->granularity),
		.elapsed_ns = driver_time_ns() - arena->began_ns,
		.late_ns = r->late_ns,
		.waited_ns = arena->waited_ns,
		.felt_ns = (uint64_t)arena->felt_ns };
}

/* Does free memory of a kind help, there or elsewhere? */
static bool
is_of_use(const struct request *r, enum pool_kind kind)
{
	return kind == r->kind ||
	    (r->options->expandable_segments && r->pools->arena->can_map);
}

/* Take pending blocks behind waits until what is missing is there;
 * the bytes taken. */
static size_t
claim_some(struct request *r, bool only_mine, size_t want)
{
	struct list *pending = &r->pools->arena->waiting.pending;
	struct list *next;
	size_t got = 0;

	for (struct list *l = pending->next; l != pending && got < want;
	     l = next) {
		struct block *block = block_of_pending(l);
		size_t size = block->size;
		next = l->next;
		if (block_state(block) != BLOCK_LEFT &&
		    is_of_use(r, block->pool->kind) &&
		    (block->pool->owner == r->pools || !only_mine) &&
		    claim(r, block, WAITS_ANY))
			got += size;
	}
	return got;
}

static bool
has_some(const struct request *r, const struct pools *pools)
{
	for (int kind = 0; kind < POOL_KINDS; kind++)
		if (is_of_use(r, (enum pool_kind)kind) &&
		    pools->pool[kind].free.count > 0)
			return true;
	return false;
}

/* Make the stream wait for some memory. False: there is none that
 * it could wait for. */
static bool
wait_for_some(struct request *r)
{
	struct arena *arena = r->pools->arena;
	size_t got = claim_some(r, true, r->need);

	if (got < r->need)
		got += claim_some(r, false, r->need - got);
	if (got > 0)
		return true;
	for (struct list *l = arena->pools.next; l != &arena->pools;
	     l = l->next) {
		struct pools *pools = CONTAINER_OF(l, struct pools, link);
		if (pools->index < r->follows || pools == r->pools ||
		    pools == arena->any_pools || !has_some(r, pools))
			continue;
		if (pools->index > r->follows)
			r->followed_until = 0;
		r->follows = pools->index;
		if (marks_follow_next(
			&r->view, pools, &r->followed_until, WAITS_ANY))
			return true;
	}
	return false;
}

static enum weir_status
search_and_grow(struct request *r)
{
	enum weir_status status = search_all(r);

	if (status == WEIR_OK && r->got == NULL)
		status = grow(r, GROW_EXACT);
	return status;
}

/* Where memory is short no more is looked for than was asked for. */
static enum weir_status
take_unrounded(struct request *r)
{
	size_t granule = r->pools->arena->granule;
	size_t least = size_of_granule(granule, r->size);

	if (r->rounded == least)
		return WEIR_ENOMEM;
	r->rounded = least;
	return search_and_grow(r);
}

/* Does the limit leave room for it beside what is alive? */
static bool
could_fit(const struct request *r)
{
	size_t limit = device_limit(r->pools->arena);
	size_t live = device_live(r->pools->arena);

	return live <= limit && r->rounded <= limit - live;
}

/* Step 7. */
static enum weir_status
wait_hard(struct request *r)
{
	enum weir_status status = WEIR_ENOMEM;

	while (status == WEIR_ENOMEM && could_fit(r) && can_wait(r)) {
		status_mute();
		bool some = wait_for_some(r);
		status_unmute();
		if (!some)
			break;
		status = search_and_grow(r);
	}
	return status;
}

/* May it be served at all? */
static bool
may_fit_alone(const struct request *r)
{
	const struct arena *arena = r->pools->arena;

	return r->size <= arena->total_bytes && r->size <= device_limit(arena);
}

static enum weir_status
empty_caches(struct request *r)
{
	struct arena *arena = r->pools->arena;

	arena->tries++;
	return tcache_drain(arena) ? search_and_grow(r) : WEIR_ENOMEM;
}

static enum weir_status
search_refreshed(struct request *r)
{
	reclaim_refresh(r->pools->arena);
	return search_and_grow(r);
}

/* Count a request that only a wait of the host can serve. */
static void
count_retry(struct request *r)
{
	r->pools->arena->stats.num_alloc_retries++;
	r->pools->stats.num_alloc_retries++;
}

static enum weir_status
give_back_and_wait(struct request *r)
{
	struct arena *arena = r->pools->arena;
	enum weir_status status = WEIR_ENOMEM;
	bool waited = false;

	while (status == WEIR_ENOMEM) {
		if (reclaim_shed(arena, r->need) == 0) {
			if (!waited)
				count_retry(r);
			waited = true;
			if (!reclaim_wait(arena))
				break;
			if (arena->forgotten)
				return tell_forgotten(arena);
			tcache_drain(arena);
		}
		status = search_and_grow(r);
	}
	return status;
}

/* May free memory be moved together for the request? */
static bool
may_move(const struct request *r)
{
	struct request_facts facts = request_facts(r);

	return policy_may_move(&facts);
}

/* tcache.h, Note [What is in use stays]. */
static bool
drain(const struct request *r)
{
	struct arena *arena = r->pools->arena;

	return r->options->prefer == PREFER_MEMORY || arena_is_host(arena) ?
	    tcache_drain(arena) :
	    tcache_drain_idle(&r->pools->pool[r->kind], r->has_pressure);
}

/* A request for device memory of no stream. */
static bool
is_plain(const struct request *r)
{
	const struct arena *arena = r->pools->arena;

	return r->pools == arena->any_pools && !arena_is_host(arena);
}

/* Is the best fit looked for among all that is ready, and not in the stream's
 * own memory first? Where one stream allocates there is nothing else. Private
 * arenas must give the same addresses again, whatever is complete by then. */
static bool
is_for_runs(const struct request *r)
{
	const struct arena *arena = r->pools->arena;

	return r->kind == POOL_LARGE && arena->streams >= 2 &&
	    r->pools != arena->any_pools && arena_promotes(arena);
}

/* The best fit among runs of memory that is ready for the stream: its own,
 * other streams' that it comes after, and what is complete. */
static enum weir_status
search_runs(struct request *r)
{
	request_look_around(r);
	served_begin();
	if (can_wait(r) && r->view.capture != 0)
		return WEIR_OK;
	enum weir_status status = search_spans(r);
	if (r->got != NULL && !r->got_own)
		count_served(r, SERVED_ready);
	return status;
}

/* Step 2 of such a request, before what threads have cached of streams: that is
 * of little use to it. */
static enum weir_status
take_complete(struct request *r)
{
	struct pools *pools = r->pools;

	reclaim_poll_complete(pools->arena);
	r->got = tcache_take_complete(pools, r->rounded);
	return r->got == NULL && tcache_settle_complete(pools) ?
	    search_free(r) :
	    WEIR_OK;
}

/* Search what may be used without a wait, as far as is known. What later steps
 * go by is found out here. */
static enum weir_status
search_usable(struct request *r)
{
	note_live(r);
	can_wait(r);
	r->late_ns = marks_see_late(r->pools);
	struct request_facts facts = request_facts(r);
	r->has_pressure = policy_has_pressure(&facts);
	r->waits = policy_waits(&facts);
	r->prices = policy_wait_prices(&facts);
	return search_all(r);
}

static enum weir_status
search_cached(struct request *r)
{
	return drain(r) ? search_free(r) : WEIR_OK;
}

static enum weir_status
search_polled(struct request *r)
{
	if (!is_plain(r))
		reclaim_poll(r->pools->arena, RECLAIM_SKIPS);
	marks_poll(r->pools);
	return search_all(r);
}

static bool
has_prices(const struct request *r)
{
	return r->prices.near_ns > 0 || r->prices.any_ns > 0;
}

static bool
may_wait_at_all(const struct request *r)
{
	return r->waits != WAITS_NONE;
}

static enum weir_status
wait_within_limits(struct request *r)
{
	return wait_on_device(r, r->waits);
}

static enum weir_status
grow_ahead(struct request *r)
{
	struct arena *arena = r->pools->arena;

	if (arena_is_host(arena))
		reclaim_bound(arena, r->options, r->rounded);
	else
		reclaim_collect(arena, r->options);
	decay_regret(arena);
	return grow(r, may_move(r) ? GROW_MIXED : GROW_NEW);
}

static enum weir_status
grow_exactly(struct request *r)
{
	return grow(r, GROW_EXACT);
}

/* A step that does not serve the request returns WEIR_OK or WEIR_ENOMEM. */
struct step {
	const char *name;
	enum served_by by;                     /* what serves if it does */
	bool (*when)(const struct request *r); /* NULL: always */
	enum weir_status (*run)(struct request *r);
};

/* Note [Reclaim ladder], whose numbers are here. */
static const struct step ladder[] = {
	{ "1: complete memory", SERVED_ready, NULL, search_any },
	{ "2: complete memory of the size", SERVED_ready, is_plain,
	    take_complete },
	{ "1: usable memory", SERVED_ready, NULL, search_usable },
	{ "1: idle cached memory", SERVED_cached, NULL, search_cached },
	{ "3: polled memory", SERVED_polled, NULL, search_polled },
	{ "4: a wait at its price", SERVED_wait, has_prices, price_wait },
	{ "4: a wait on the device", SERVED_wait, may_wait_at_all,
	    wait_within_limits },
	{ "5: a remap", SERVED_moved, may_move, remap },
	{ "6: growth", SERVED_grown, NULL, grow_ahead },
	{ "6: exact growth", SERVED_grown, NULL, grow_exactly },
	{ "7: the size as asked for", SERVED_unrounded, may_fit_alone,
	    take_unrounded },
	{ "7: all cached memory", SERVED_drained, may_fit_alone, empty_caches },
	{ "7: any wait on the device", SERVED_forced, may_fit_alone,
	    wait_hard },
	{ "8: memory seen to be complete", SERVED_reclaimed, may_fit_alone,
	    search_refreshed },
	{ "8, 9: giving back, host waits", SERVED_reclaimed, may_fit_alone,
	    give_back_and_wait },
};

/* What is known to be complete, and who comes after whom, goes stale: see to it
 * that a large request fits itself into what there is by now. */
static void
poll_if_stale(struct request *r)
{
	struct arena *arena = r->pools->arena;

	if (arena->served - arena->polled < REQUESTS_A_POLL || !is_for_runs(r))
		return;
	arena->polled = arena->served;
	reclaim_poll(arena, RECLAIM_SKIPS);
	marks_poll(r->pools);
}

/* All but the pool itself. */
static __attribute__((noinline)) enum weir_status
climb(struct request *r)
{
	request_look_around(r);
	if (r->options->prefer != PREFER_MEMORY) /* search_everywhere() did */
		served_begin();
	for (size_t i = 0; i < sizeof(ladder) / sizeof(ladder[0]); i++) {
		const struct step *step = &ladder[i];
		if (step->when != NULL && !step->when(r))
			continue;
		served_try(step->by);
		enum weir_status status = step->run(r);
		if (r->got != NULL)
			count_served(r, step->by);
		if (r->got != NULL ||
		    (status != WEIR_OK && status != WEIR_ENOMEM))
			return status;
	}
	return WEIR_ENOMEM;
}

enum weir_status
take_block(struct pools *pools, const struct options *options, size_t size,
    struct block **out)
{
	struct arena *arena = pools->arena;
	struct request r;

	request_init(&r, pools, options, size);
	if (__builtin_expect(options->reclaim_always, 0)) {
		reclaim_poll(arena, RECLAIM_SKIPS);
		reclaim_refresh(arena);
		reclaim_shed(arena, SIZE_MAX);
	}
	decay_look(arena, options);
	if (arena->served % REQUESTS_A_DRAIN == 0 && arena_is_host(arena))
		tcache_drain(arena);
	marks_keep(pools);
	if (r.kind == POOL_LARGE)
		poll_if_stale(&r);
	enum weir_status status = WEIR_OK;
	if (__builtin_expect(options->prefer == PREFER_MEMORY, 0))
		status = search_everywhere(&r);
	else if (is_for_runs(&r))
		status = search_runs(&r);
	if (status == WEIR_OK && r.got == NULL)
		status = search_own(&r);
	if (status == WEIR_OK && r.got == NULL)
		status = climb(&r);
	*out = r.got;
	return status;
}

enum weir_status
take_idle(struct pools *pools, const struct options *options, size_t size,
    struct block **out)
{
	struct request r;

	request_init(&r, pools, options, size);
	r.rounded = size_of_granule(pools->arena->granule, size);
	request_look_around(&r);
	reclaim_poll(pools->arena, RECLAIM_SKIPS);
	can_wait(&r);
	enum weir_status status = search_all(&r);
	if (status == WEIR_OK && r.got == NULL)
		status = WEIR_ENOMEM;
	*out = r.got;
	return status;
}
