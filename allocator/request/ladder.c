/*
 * Serves a request that the thread's cache could not serve: from the heap of
 * its stream, or by the steps of the reclaim ladder.
 *
 * Note [Reclaim ladder]
 *
 * A large request of one of several streams begins with the best fit among all
 * runs that it may use at once (search_runs()); any other request begins with
 * its own pool. With a plan, a large request looks at its planned place before
 * (plan.h). If that does not serve it, the request tries the following
 * steps in this order, and searches again after each step that changed
 * something. The table `ladder` has all steps:
 *
 *    1. a device-scope request: pending blocks whose uses have ended meanwhile,
 *       and what the caches keep of this size, complete
 *    2. free blocks of other streams that it may use without a wait, as far as
 *       weir knows already, and complete memory
 *    3. blocks that threads have cached and do not use (tcache.h, Note [What is
 *       in use stays])
 *    4. a poll of the streams, which finds more memory complete; then as 2
 *    5. memory behind the shortest wait on the device that is worth its price
 *    6. memory behind a wait within the wait limits; in a capture, pending
 *       blocks that the stream is ordered after there
 *    7. a remap: usable memory, its own too, is moved together
 *    8. for a request that makes no costly wait on the device, a brief wait of
 *       the host: cached blocks, and what becomes complete meanwhile
 *    9. new memory from the driver, within the limit. Before that the garbage
 *       collector gives back old memory (garbage_collection_threshold)
 *   10. new memory, as much as is missing
 *   11. the size as asked for, without rounding
 *   12. all cached blocks
 *   13. memory of any kind behind any wait on the device, moved together, as
 *       much as is missing
 *   14. memory that is seen to be complete when all streams are asked again
 *   15. memory that other pools hold free and no work uses any more goes back
 *       to the driver, the longest unused first, as much as is missing; then
 *       the host waits: for pending blocks, the oldest first, one at a time,
 *       and for one stream at a time, whose free memory then goes back, too
 *
 * Steps 8 and 15 wait on the host, with no lock held. Step 8 does so for no
 * longer than a driver call takes, step 15 for no more than is needed. If all
 * steps fail, the request fails. From step 11 on the request is no longer
 * rounded up, because rounding is no reason to wait or to fail.
 *
 * Each step has a word (trace/served.h). A request that a step serves is
 * counted by that word, and the report of a failure names the steps that were
 * tried.
 */
#include "allocator/request/ladder.h"

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/grow.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/pin_time.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/promote.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/spans.h"
#include "allocator/policy/policy.h"
#include "allocator/request/brief.h"
#include "allocator/request/decay.h"
#include "allocator/request/places.h"
#include "allocator/request/plan.h"
#include "allocator/request/price.h"
#include "allocator/request/reclaim.h"
#include "allocator/request/request.h"
#include "allocator/request/search.h"
#include "allocator/request/tuning.h"
#include "allocator/request/wait.h"
#include "base/status.h"
#include "trace/served.h"

static inline QUICK void
request_init(struct request *r, struct stream_heap *heap,
    const struct options *options, size_t size, size_t rounded)
{
	ASSERT(size > 0 && rounded >= size);
	ASSERT(heap->arena->memory.any_heap != NULL);
	r->heap = heap;
	r->options = options;
	r->size = size;
	r->rounded = rounded;
	r->kind = arena_kind(heap->arena, rounded);
	r->place = 0;
	r->planned = 0;
	r->unlisted = false;
	r->need = rounded;
	r->got = NULL;
}

/* Would the request fit on the device, under the limit, beside the live bytes?
 * Those of suspended arenas are not on the device. */
static bool
could_fit(const struct request *r)
{
	size_t size = device_size(r->heap->arena);
	size_t live = device_live(r->heap->arena);

	return (live <= size && r->rounded <= size - live) ||
	    device_has_uncounted(r->heap->arena);
}

/* ---- Mapping ----------------------------------------------------------- */

/* Fail because the device was reset meanwhile: its streams must not be asked
 * any more. */
static enum weir_status
refuse_forgotten(const struct arena *arena)
{
	return status_set(
	    WEIR_ECONTEXT, "device %d has just been reset", arena->device);
}

/* Map memory at the request's planned place, if it has one; of new memory
 * `new_most` bytes at most. */
static enum weir_status
grow_at_place(struct request *r, enum grow_how how, size_t new_most)
    HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;

	ASSERT(r->got == NULL);
	if (r->planned == 0)
		return WEIR_OK;
	lock_assert_held(&arena->lock);
	enum weir_status status = plan_map_place(r, how, new_most);
	return arena->memory.forgotten ? refuse_forgotten(arena) : status;
}

/* Map memory until a search finds a block for the request; another thread may
 * allocate the mapped memory first. Sets no status for a shortage, because
 * later steps may still serve the request. */
static enum weir_status
grow_until(struct request *r, enum grow_how how,
    enum weir_status (*search)(struct request *r)) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	struct pool *pool = &r->heap->pool[r->kind];
	enum weir_status status = WEIR_OK;

	while (status == WEIR_OK && r->got == NULL) {
		view_renew(&r->view);
		status_mute();
		lock_assert_held(&pool->owner->arena->lock);
		status = pool_grow(
		    &r->view, pool, r->options, r->rounded, how, &r->need);
		if (status != WEIR_OK && status != WEIR_ENOMEM)
			return status_unmute_and_report();
		status_unmute();
		if (arena->memory.forgotten)
			return refuse_forgotten(arena);
		if (status == WEIR_OK)
			status = search(r);
	}
	return status;
}

static enum weir_status
grow_pool(struct request *r, enum grow_how how) HOLDS(r->heap->arena->lock)
{
	ASSERT(r->got == NULL);
	/* Do not search all memory for what there is not. */
	if (!could_fit(r))
		return WEIR_ENOMEM;
	enum weir_status status = grow_at_place(r, how, SIZE_MAX);
	return status == WEIR_OK && r->got == NULL ?
	    grow_until(r, how, search_all) :
	    status;
}

/* Move memory together if that is enough. A shortage is no error here. */
static enum weir_status
remap(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;

	ASSERT(r->got == NULL);
	if (arena_is_kept(arena))
		return WEIR_OK;
	if (wait_idle_bytes(arena, POOL_SMALL) +
		wait_idle_bytes(arena, POOL_LARGE) <
	    r->rounded)
		return WEIR_OK;
	enum weir_status status = grow_pool(r, GROW_MOVED);
	return status == WEIR_ENOMEM ? WEIR_OK : status;
}

/* ---- The ladder -------------------------------------------------------- */

/* Note the peak of live bytes, with the request, and return it. */
static size_t
note_live(const struct request *r)
{
	struct arena *arena = r->heap->arena;
	const struct tally *tally = &arena->account.tally;
	size_t peak =
	    (size_t)tally->part[PART_ALL].peak[TALLIED_allocated_bytes];
	size_t live =
	    tally_now(tally, PART_ALL, TALLIED_allocated_bytes) + r->rounded;

	ASSERT(r->rounded > 0);
	if (arena->traits.is_bounded) {
		lock_assert_held(&arena->lock);
		return reclaim_note_live(arena, r->rounded);
	}
	if (live < peak)
		live = peak;
	return policy_note_live(&arena->policy, live);
}

static struct request_facts
facts_of(const struct request *r)
{
	const struct arena *arena = r->heap->arena;

	ASSERT(r->rounded > 0);
	return (struct request_facts){ .prefer = r->options->prefer,
		.is_small = r->kind != POOL_LARGE,
		.is_captured = r->view.capture != 0,
		.held_bytes = arena_held(arena) + r->rounded,
		.most_live_bytes = arena->policy.most_live,
		.now_ns = driver_time_ns(),
		.moves_paid_ns = arena->policy.paid_ns,
		.delay_percent = r->options->delay_percent,
		.request_bytes =
		    round_up(r->rounded, arena->memory.granularity),
		.spare_bytes = reclaim_spare(arena, r->options),
		.elapsed_ns = driver_age_ns(),
		.late_ns = r->late_ns,
		.lost_ns = delay_lost_ns(),
		.slack_ns = r->slack_ns,
		.sees_waits = order_is_seen(&r->heap->stream->order),
		.evidence = arena->policy.evidence };
}

static enum weir_status
search_and_grow(struct request *r) HOLDS(r->heap->arena->lock)
{
	enum weir_status status = search_all(r);

	if (status == WEIR_OK && r->got == NULL)
		status = grow_pool(r, GROW_EXACT);
	return status;
}

/* Try the size as asked for, without rounding it up. */
static enum weir_status
allocate_unrounded(struct request *r) HOLDS(r->heap->arena->lock)
{
	size_t least = arena_size(r->heap->arena, r->size);

	if (r->rounded == least)
		return WEIR_ENOMEM;
	r->rounded = least;
	return search_and_grow(r);
}

/* Step 7. */
static enum weir_status
wait_hard(struct request *r) HOLDS(r->heap->arena->lock)
{
	enum weir_status status = WEIR_ENOMEM;

	ASSERT(r->got == NULL);
	lock_assert_held(&r->view.mine->arena->lock);
	while (
	    status == WEIR_ENOMEM && could_fit(r) && view_can_wait(&r->view)) {
		status_mute();
		bool some = wait_for_some(r);
		status_unmute();
		if (!some)
			break;
		status = search_and_grow(r);
	}
	return status;
}

/* Would the request fit on an empty device, under the limit? */
static bool
may_fit_alone(const struct request *r)
{
	const struct arena *arena = r->heap->arena;

	return r->size <= arena->account.total_bytes &&
	    r->size <= device_limit(arena);
}

static enum weir_status
empty_caches(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;

	ASSERT(r->got == NULL);
	lock_assert_held(&arena->lock);
	reclaim_begin_waits(arena);
	return tcache_drain(arena) ? search_and_grow(r) : WEIR_ENOMEM;
}

static enum weir_status
search_refreshed(struct request *r) HOLDS(r->heap->arena->lock)
{
	reclaim_refresh(r->heap->arena);
	return search_and_grow(r);
}

/* Count a request that only a wait of the host can serve. */
static void
count_retry(struct request *r)
{
	lock_assert_held(&r->heap->arena->lock);
	counter_add_of(r->heap, COUNTER_num_alloc_retries, 1);
}

static enum weir_status
shed_and_wait(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	enum weir_status status = WEIR_ENOMEM;
	bool waited = false;

	ASSERT(r->got == NULL);
	while (status == WEIR_ENOMEM) {
		/* If too much is live, giving back all that is unused would not
		 * help. */
		lock_assert_held(&arena->lock);
		if (!could_fit(r) || reclaim_shed(arena, r->need) == 0) {
			if (!waited)
				count_retry(r);
			waited = true;
			if (!reclaim_wait(arena))
				break;
			if (arena->memory.forgotten)
				return refuse_forgotten(arena);
			tcache_drain(arena);
		}
		status = search_and_grow(r);
	}
	return status;
}

/* May the request move memory? For memory with a bound, `bytes` are what it
 * needs otherwise. */
static bool
may_move(const struct request *r, enum moves moves, size_t bytes)
{
	const struct arena *arena = r->heap->arena;
	struct request_facts facts = facts_of(r);

	return arena->traits.is_bounded ?
	    policy_may_pin(&facts, reclaim_beyond(arena, r->options, bytes),
		pin_time_for_moves(bytes)) :
	    policy_may_move(&facts, moves);
}

/* May free memory be moved together, if that is enough for the request? */
static bool
may_move_enough(const struct request *r)
{
	return may_move(r, MOVES_ENOUGH, r->rounded);
}

/* Keep within the bound: give back as much as the request needs anew, where it
 * would go beyond. What was held beyond the bound before stays: the program
 * needed it, and the bound alone is no reason to pin it again. */
static void
swap_within_bound(struct request *r)
{
	struct arena *arena = r->heap->arena;
	size_t beyond = reclaim_beyond(arena, r->options, r->need);
	size_t bytes = min_size(beyond, r->need);
	struct request_facts facts = facts_of(r);
	/* Where nothing can be mapped, segments go back whole. A small one is
	 * no reason to give back a large one; and the last one may be as large
	 * as the one to come. */
	bool whole = !arena->traits.can_map;
	size_t pinned =
	    whole ? 2 * segment_size_for(arena, r->options, r->need) : bytes;

	if (whole && r->kind == POOL_SMALL)
		return;
	if (policy_may_pin(&facts, beyond, pin_time_for(arena, pinned))) {
		lock_assert_held(&arena->lock);
		reclaim_shed(arena, bytes);
	}
}

/* Drain caches for the request: tcache.h, Note [What is in use stays]. */
static bool
drain(const struct request *r) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	bool widely = r->has_pressure || r->kind == POOL_SMALL;

	ASSERT(r->got == NULL);
	lock_assert_held(&r->heap->pool[r->kind].owner->arena->lock);
	lock_assert_held(&arena->lock);
	return r->options->prefer == PREFER_MEMORY ||
		arena->traits.drains_caches ?
	    tcache_drain(arena) :
	    tcache_drain_idle(&r->heap->pool[r->kind], widely);
}

/* Is it a device-scope request? */
static bool
is_device_scope(const struct request *r)
{
	return heap_is_device_scope(r->heap);
}

/* Step 2 of a device-scope request. It comes before cached blocks, because
 * blocks that threads cached for streams are of little use to it. */
static enum weir_status
allocate_complete(struct request *r)
{
	struct stream_heap *heap = r->heap;

	ASSERT(is_device_scope(r));
	lock_assert_held(&heap->arena->lock);
	reclaim_poll_complete(heap->arena);
	r->got = tcache_take_complete(heap, r->rounded);
	return r->got == NULL && tcache_flush_complete(heap) ? search_free(r) :
							       WEIR_OK;
}

/* Find the facts by which waits and moves are decided. */
static struct request_facts
find_facts(struct request *r) HOLDS(r->heap->arena->lock)
{
	note_live(r);
	lock_assert_held(&r->view.mine->arena->lock);
	view_can_wait(&r->view);
	fences_see_late(r->heap);
	r->late_ns = delay_own(&r->heap->stream->delay);
	r->slack_ns = atomic_load(&r->heap->stream->delay.slack_ns);
	return facts_of(r);
}

/* The longest forecast of a wait for the request's place. */
static uint64_t
price_of_place(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct request_facts facts = find_facts(r);

	if (r->place != r->planned)
		return policy_place_price(&facts);
	if (policy_may_follow_plan(&facts))
		return UINT64_MAX;
	lock_assert_held(&r->heap->arena->lock);
	plan_note_late(r->heap->arena);
	return 0;
}

/* Serve the request at its planned place, or at the one that it had the round
 * before, after a poll or behind a wait. */
static enum weir_status
insist_on_place(struct request *r) HOLDS(r->heap->arena->lock)
{
	ASSERT(r->got == NULL);
	ladder_poll(r->heap);
	view_renew(&r->view);
	enum weir_status status = search_place(r);
	if (status != WEIR_OK || r->got != NULL)
		return status;
	status = price_place(r, price_of_place(r));
	if (r->got != NULL)
		search_count_served(r, SERVED_wait);
	return status;
}

/* Begin a search. False if the request is not served before the ladder: in a
 * capture, a wait joins the streams. */
static bool
begin_early(struct request *r) HOLDS(r->heap->arena->lock)
{
	ASSERT(r->got == NULL);
	search_begin(r);
	served_begin();
	lock_assert_held(&r->view.mine->arena->lock);
	return !view_can_wait(&r->view) || r->view.capture == 0;
}

static void
count_ready(struct request *r) HOLDS(r->heap->arena->lock)
{
	if (r->got != NULL && !r->got_own)
		search_count_served(r, SERVED_ready);
}

/* Serve the request at its place, if it has one. */
static enum weir_status
serve_at_place(struct request *r) HOLDS(r->heap->arena->lock)
{
	if (r->place == 0)
		return WEIR_OK;
	enum weir_status status = search_place(r);
	if (status == WEIR_OK && r->got == NULL)
		return insist_on_place(r);
	count_ready(r);
	return status;
}

/* Serve the request from the best run that its stream may use at once: blocks
 * of its own, of streams that it is ordered after, and complete ones. */
static enum weir_status
search_runs(struct request *r) HOLDS(r->heap->arena->lock)
{
	if (!begin_early(r))
		return WEIR_OK;
	enum weir_status status = serve_at_place(r);
	if (status != WEIR_OK || r->got != NULL)
		return status;
	status = search_ready(r);
	count_ready(r);
	return status;
}

/* Map what the request's place lacks: with free memory from elsewhere, and with
 * new memory as far as the program would come to hold it without a plan. */
static enum weir_status
fill_place(struct request *r) HOLDS(r->heap->arena->lock)
{
	ASSERT(r->got == NULL);
	if (search_place_is_mapped(r))
		return WEIR_OK;
	enum weir_status status =
	    grow_at_place(r, GROW_MIXED, plan_new_most(r));
	if (r->got != NULL)
		search_count_served(r,
		    served_here.served.grown_bytes > 0 ? SERVED_grown :
							 SERVED_moved);
	return status;
}

/* Serve the request at its planned place, if it has one. */
static enum weir_status
search_planned(struct request *r) HOLDS(r->heap->arena->lock)
{
	if (!begin_early(r))
		return WEIR_OK;
	plan_find_place(r);
	r->place = r->planned;
	if (r->place == 0)
		return WEIR_OK;
	enum weir_status status = search_place(r);
	count_ready(r);
	if (status == WEIR_OK && r->got == NULL)
		status = fill_place(r);
	return status == WEIR_OK && r->got == NULL ? insist_on_place(r) :
						     status;
}

/* Serve a request that the plan lacks from memory that is no place of another
 * one: from new memory too, as far as the program would come to hold it without
 * a plan. */
static enum weir_status
search_unlisted(struct request *r) HOLDS(r->heap->arena->lock)
{
	ASSERT(r->got == NULL);
	served_try(SERVED_ready);
	enum weir_status status = search_elsewhere(r);
	if (r->got != NULL)
		search_count_served(r, SERVED_ready);
	if (status != WEIR_OK || r->got != NULL ||
	    plan_new_most(r) < r->rounded || !could_fit(r))
		return status;
	served_try(SERVED_grown);
	status = grow_until(r, GROW_MIXED, search_elsewhere);
	if (r->got != NULL)
		search_count_served(r, SERVED_grown);
	return status == WEIR_ENOMEM ? WEIR_OK : status;
}

/* Count a request that got its planned place. */
static void
count_planned(struct request *r) HOLDS(r->heap->arena->lock)
{
	if (r->got != NULL && r->planned != 0 && r->got->addr == r->planned)
		counter_add_of(r->heap, COUNTER_num_planned, 1);
}

/* Search all memory that may be used without a wait, as far as is known. Also
 * finds what later steps decide by. */
static enum weir_status
search_usable(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct request_facts facts = find_facts(r);
	r->has_pressure = policy_has_pressure(&facts);
	r->waits = policy_waits(&facts);
	r->prices = policy_wait_prices(&facts);
	return search_all(r);
}

static enum weir_status
search_cached(struct request *r) HOLDS(r->heap->arena->lock)
{
	return drain(r) ? search_free(r) : WEIR_OK;
}

static enum weir_status
search_polled(struct request *r) HOLDS(r->heap->arena->lock)
{
	if (!is_device_scope(r))
		reclaim_poll(r->heap->arena, RECLAIM_SKIPS);
	fences_poll(r->heap);
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
wait_within_limits(struct request *r) HOLDS(r->heap->arena->lock)
{
	return wait_on_device(r, r->waits);
}

/* May the host wait for a moment? Not for memory that must have the same
 * addresses again, whatever is complete. */
static bool
may_wait_briefly(const struct request *r)
{
	struct arena *arena = r->heap->arena;
	struct request_facts facts = facts_of(r);

	return (r->kind == POOL_SMALL || is_device_scope(r)) &&
	    arena->traits.has_streams && arena_promotes(arena) &&
	    wait_idle_bytes(arena, r->kind) >= r->rounded &&
	    policy_may_wait_briefly(&facts);
}

static enum weir_status
wait_briefly(struct request *r) HOLDS(r->heap->arena->lock)
{
	enum weir_status status = brief_wait(r);

	return r->heap->arena->memory.forgotten ?
	    refuse_forgotten(r->heap->arena) :
	    status;
}

static enum weir_status
grow_ahead(struct request *r) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;

	ASSERT(r->rounded > 0);
	if (arena->traits.is_bounded)
		swap_within_bound(r);
	else {
		lock_assert_held(&arena->lock);
		reclaim_collect(arena, r->options);
	}
	lock_assert_held(&arena->lock);
	decay_regret(arena);
	return grow_pool(
	    r, may_move(r, MOVES_PART, r->need) ? GROW_MIXED : GROW_NEW);
}

static enum weir_status
grow_exactly(struct request *r) HOLDS(r->heap->arena->lock)
{
	ASSERT(r->got == NULL);
	return grow_pool(r, GROW_EXACT);
}

/* Is it a request of a stream? A device-scope request has searched the complete
 * memory already, as its own pool. */
static bool
is_of_stream(const struct request *r)
{
	return r->heap != r->heap->arena->memory.any_heap;
}

/* A step that does not serve the request returns WEIR_OK or WEIR_ENOMEM. */
struct step {
	const char *name;
	enum served_by by; /* the word, if the step serves */
	bool (*when)(const struct request *r); /* NULL: always */
	enum weir_status (*run)(struct request *r);
};

/* The steps, with the numbers of Note [Reclaim ladder]. */
static const struct step ladder[] = {
	{ "1: complete memory of the size", SERVED_ready, is_device_scope,
	    allocate_complete },
	{ "2: usable memory", SERVED_ready, NULL, search_usable },
	{ "3: idle cached memory", SERVED_cached, NULL, search_cached },
	{ "4: polled memory", SERVED_polled, NULL, search_polled },
	{ "5: a wait at its price", SERVED_wait, has_prices, price_wait },
	{ "6: a wait on the device", SERVED_wait, may_wait_at_all,
	    wait_within_limits },
	{ "7: a remap", SERVED_moved, may_move_enough, remap },
	{ "8: a brief wait", SERVED_polled, may_wait_briefly, wait_briefly },
	{ "9: growth", SERVED_grown, NULL, grow_ahead },
	{ "10: exact growth", SERVED_grown, NULL, grow_exactly },
	{ "11: the size as asked for", SERVED_unrounded, may_fit_alone,
	    allocate_unrounded },
	{ "12: all cached memory", SERVED_drained, may_fit_alone,
	    empty_caches },
	{ "13: any wait on the device", SERVED_forced, may_fit_alone,
	    wait_hard },
	{ "14: memory seen to be complete", SERVED_reclaimed, may_fit_alone,
	    search_refreshed },
	{ "15: giving back, host waits", SERVED_reclaimed, may_fit_alone,
	    shed_and_wait },
};

/* Step 1: serve the request from complete memory. With several streams most
 * requests end here, so the other steps are not prepared before. */
static inline QUICK enum weir_status
climb_first(struct request *r) HOLDS(r->heap->arena->lock)
{
	served_try(SERVED_ready);
	enum weir_status status = search_any(r);
	if (r->got != NULL)
		search_count_served(r, SERVED_ready);
	return status;
}

/* Try the steps of the ladder. */
static __attribute__((noinline)) enum weir_status
climb(struct request *r)
{
	ASSERT(r->got == NULL);
	if (r->options->prefer !=
	    PREFER_MEMORY) /* wait_best_fit() has done it */
		served_begin();
	if (is_of_stream(r)) {
		lock_assert_held(&r->heap->arena->lock);
		enum weir_status status = climb_first(r);
		if (r->got != NULL ||
		    (status != WEIR_OK && status != WEIR_ENOMEM))
			return status;
	}
	lock_assert_held(&r->heap->arena->lock);
	search_begin(r);
	for (size_t i = 0; i < sizeof(ladder) / sizeof(ladder[0]); i++) {
		const struct step *step = &ladder[i];
		if (step->when != NULL && !step->when(r))
			continue;
		served_try(step->by);
		enum weir_status status = step->run(r);
		if (r->got != NULL)
			search_count_served(r, step->by);
		if (r->got != NULL ||
		    (status != WEIR_OK && status != WEIR_ENOMEM))
			return status;
	}
	return WEIR_ENOMEM;
}

/* Note a large request, and find the place that it had the round before. */
static struct place
note_place(struct request *r)
{
	struct arena *arena = r->heap->arena;

	if (arena->request.places == NULL && !arena->memory.forgotten)
		arena->request.places = places_new();
	struct place place = places_note(arena->request.places,
	    places_key(r->heap, r->rounded), tcache_take_large_hits());
	r->place = place.was;
	return place;
}

/* Search as a request does that does not begin with its own pool. */
static enum weir_status
search_widely(struct request *r) HOLDS(r->heap->arena->lock)
{
	enum weir_status status = r->options->prefer == PREFER_MEMORY ?
	    wait_best_fit(r) :
	    search_runs(r);

	return status == WEIR_OK && r->got == NULL ? search_own(r) : status;
}

/* Search before the steps of the ladder. */
static enum weir_status
search_first(struct request *r, CUdeviceptr before) HOLDS(r->heap->arena->lock)
{
	enum weir_status status = WEIR_OK;
	bool planned = ladder_is_planned(r->heap, r->kind);

	if (planned)
		status = search_planned(r);
	if (status == WEIR_OK && r->unlisted)
		status = search_unlisted(r);
	if (status != WEIR_OK || r->got != NULL)
		return status;
	r->place = before;
	if (ladder_is_own_last(r->heap, r->options, r->kind))
		return search_widely(r);
	return planned ? search_own(r) : WEIR_OK;
}

enum weir_status
ladder_climb(struct stream_heap *heap, const struct options *options,
    size_t size, size_t rounded, struct block **out)
{
	struct place place = { 0 };
	struct request r;

	lock_assert_held(&heap->arena->lock);
	ASSERT(size > 0);
	request_init(&r, heap, options, size, rounded);
	if (options->prefer != PREFER_MEMORY &&
	    ladder_prefers_runs(heap, r.kind))
		place = note_place(&r);
	lock_assert_held(&r.heap->arena->lock);
	enum weir_status status = search_first(&r, place.was);
	if (status == WEIR_OK && r.got == NULL)
		status = climb(&r);
	count_planned(&r);
	if (r.got != NULL && place.index != 0)
		places_fill(heap->arena->request.places, place, r.got->addr);
	*out = r.got;
	return status;
}

void
ladder_forget(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	ASSERT(arena->memory.forgotten);
	places_delete(arena->request.places);
	arena->request.places = NULL;
	plan_forget(arena);
}

void
ladder_upkeep(struct arena *arena, const struct options *options)
{
	lock_assert_held(&arena->lock);
	if (options->reclaim_always) {
		reclaim_poll(arena, RECLAIM_SKIPS);
		reclaim_refresh(arena);
		reclaim_shed(arena, SIZE_MAX);
	}
	if (decay_is_due(arena))
		decay_run(arena, options);
	if (arena->cache.served % REQUESTS_A_DRAIN == 0 &&
	    arena->traits.drains_caches)
		tcache_drain(arena);
}

void
ladder_poll(struct stream_heap *heap)
{
	struct arena *arena = heap->arena;

	arena->request.polled = arena->cache.served;
	lock_assert_held(&arena->lock);
	reclaim_poll(arena, RECLAIM_SKIPS);
	fences_poll(heap);
}

enum weir_status
ladder_allocate_idle(struct stream_heap *heap, const struct options *options,
    size_t size, struct block **out)
{
	struct request r;

	lock_assert_held(&heap->arena->lock);
	ASSERT(size > 0);
	request_init(
	    &r, heap, options, size, arena_class(heap->arena, options, size));
	r.rounded = arena_size(heap->arena, size);
	lock_assert_held(&r.heap->arena->lock);
	search_begin(&r);
	reclaim_poll(heap->arena, RECLAIM_SKIPS);
	lock_assert_held(&r.view.mine->arena->lock);
	view_can_wait(&r.view);
	enum weir_status status = search_all(&r);
	if (status == WEIR_OK && r.got == NULL)
		status = WEIR_ENOMEM;
	*out = r.got;
	return status;
}
