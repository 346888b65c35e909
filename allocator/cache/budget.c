/*
 * Reports of thread caches to the statistics, and their budgets: budget.h.
 */
#include "allocator/cache/budget.h"

#include "allocator/account/counters.h"
#include "allocator/cache/slots.h"
#include "allocator/magazines/depot.h"
#include "allocator/memory/arena.h"

static const struct sums no_sums;

static void
report_kind(struct stream_heap *heap, enum pool_kind kind,
    const struct sums *out, const struct sums *in) HOLDS(heap->arena->lock)
{
	if (!sums_are_zero(out) || !sums_are_zero(in)) {
		lock_assert_held(&heap->pool[kind].owner->arena->lock);
		stats_flow(&heap->pool[kind], out, in);
	}
}

bool
counts_report(struct cache *cache)
{
	struct sums in = counts_frees(cache);

	lock_assert_held(&cache->arena->lock);
	ASSERT(cache->heap->arena == cache->arena);
	if (sums_are_zero(&cache->out) && sums_are_zero(&in))
		return false;
	struct sums small_out = sums_minus(cache->out, cache->large_out);
	struct sums small_in = sums_minus(in, cache->large_in);
	lock_assert_held(&cache->heap->arena->lock);
	report_kind(cache->heap, POOL_SMALL, &small_out, &small_in);
	report_kind(
	    cache->heap, POOL_LARGE, &cache->large_out, &cache->large_in);
	bool any = cache->out.count != 0;
	cache->used = true;
	cache->claims = 0;
	if (any)
		stats_note_peaks(&cache->heap->tally);
	cache->out = (struct sums){ 0 };
	cache->large_out = (struct sums){ 0 };
	cache->large_in = (struct sums){ 0 };
	cache->budget_given = cache->budget;
	return any;
}

void
counts_report_depot(struct stream_heap *heap)
{
	lock_assert_held(&heap->arena->lock);
	if (heap->depot == NULL)
		return;
	struct sums in = depot_take_unreported(heap->depot);
	report_kind(heap, POOL_SMALL, &no_sums, &in);
}

/* Report the frees that a cache of the calling thread has brought to its
 * depot. */
static void
report_brought(struct cache *cache) HOLDS(cache->arena->lock)
{
	if (cache->brought) {
		lock_assert_held(&cache->heap->arena->lock);
		counts_report_depot(cache->heap);
	}
	cache->brought = false;
}

static struct sums
budget_in(const struct tally *tally)
{
	const int64_t *budget = tally->part[PART_ALL].headroom;

	return (struct sums){
		lesser(budget[TALLIED_allocation], budget[TALLIED_active]),
		lesser(budget[TALLIED_allocated_bytes],
		    budget[TALLIED_active_bytes]),
		budget[TALLIED_requested_bytes],
	};
}

/* How much more may become live before a peak of the arena or device is
 * passed. */
static struct sums
budget_of_arena(const struct arena *arena)
{
	struct totals *totals = arena->account.totals;
	struct sums budget = budget_in(&arena->account.tally);

	if (totals == NULL)
		return budget;
	lock_enter(&totals->lock);
	struct sums all = budget_in(&totals->tally);
	lock_leave(&totals->lock);
	return sums_least(budget, all);
}

/* Divide the budget: half of it to `used`, the rest to the others in equal
 * parts. */
static void
share_budget(const struct arena *arena, struct cache *used, unsigned others)
{
	struct sums budget = budget_of_arena(arena);
	struct sums part = { budget.count / 2 / others,
		budget.bytes / 2 / others, budget.requested / 2 / others };
	struct list *awake = &tcache_own->awake;

	ASSERT(others > 0);
	for (struct list *l = awake->next; l != awake; l = l->next) {
		if (!counts_own(awake_of(l), arena) || awake_of(l) == used)
			continue;
		counts_set_budget(awake_of(l), part);
		budget = sums_minus(budget, part);
	}
	if (used != NULL)
		counts_set_budget(used, budget);
}

/* Make a cache of the calling thread idle: it loses its budget, and the hit
 * paths do not find it. Among many streams its thread may not need its larger
 * blocks for long, so they go to the pool. */
static void
make_idle(struct cache *cache) HOLDS(cache->arena->lock)
{
	if (arena_has_many_streams(cache->arena))
		tcache_flush(cache);
	list_remove(&cache->awake);
	cache->is_idle = true;
	counts_set_budget(cache, no_sums);
	atomic_store_explicit(&cache->key, NOBODY, memory_order_relaxed);
	atomic_store_explicit(&cache->key_pool, NULL, memory_order_relaxed);
}

static void
wake(struct cache *cache) HOLDS(cache->arena->lock)
{
	ASSERT(tcache_is_alive(cache));
	if (!cache->is_idle)
		return;
	cache->is_idle = false;
	counts_note_awake(cache);
	cache_open(cache);
}

void
counts_report_own(struct arena *arena, struct cache *used)
{
	struct list *awake = &tcache_own->awake;
	struct list *next;
	struct sums taken = { 0 };
	unsigned others = 0;
	bool any = false;

	lock_assert_held(&arena->lock);
	if (used != NULL) {
		lock_assert_held(&used->arena->lock);
		wake(used);
	}
	for (struct list *l = awake->next; l != awake; l = next) {
		struct cache *cache = awake_of(l);
		next = l->next;
		if (!counts_own(cache, arena))
			continue;
		bool unreported = counts_has_unreported(cache);
		if (unreported) {
			lock_assert_held(&cache->arena->lock);
			report_brought(cache);
			any |= counts_report(cache);
		}
		if (cache == used)
			continue;
		if (!unreported && !cache->traced) {
			lock_assert_held(&cache->arena->lock);
			make_idle(cache);
			continue;
		}
		taken = sums_plus(taken, cache->budget);
		others++;
	}
	if (used != NULL) {
		lock_assert_held(&used->heap->arena->lock);
		counts_report_depot(used->heap);
	}
	if (any)
		stats_note_arena_peaks(arena);
	struct sums budget = sums_minus(budget_of_arena(arena), taken);
	struct sums more = sums_minus(budget, taken);
	if (others > 0 && sums_lack(&more))
		share_budget(arena, used, others);
	else if (used != NULL)
		counts_set_budget(used, budget);
}

void
counts_note_awake(struct cache *cache)
{
	if (list_empty(&cache->awake))
		list_push_back(&tcache_own->awake, &cache->awake);
}

void
counts_stir(struct cache *cache)
{
	if (list_empty(&cache->awake))
		counts_note_awake(cache);
	else
		counts_report_peak(cache);
}

void
counts_report_peak(struct cache *cache)
{
	struct arena *arena = cache->arena;

	lock_enter(&arena->lock);
	if (tcache_is_alive(cache))
		counts_report_own(arena, cache);
	lock_leave(&arena->lock);
}

/* A cache without a budget reports before it allocates. */
void
tcache_enter_elsewhere(struct arena *main)
{
	struct list *awake = &tcache_own->awake;
	bool any = false;

	if (list_empty(awake))
		return;
	lock_enter(&main->lock);
	for (struct list *l = awake->next; l != awake; l = l->next) {
		if (!counts_own(awake_of(l), main))
			continue;
		lock_assert_held(&awake_of(l)->arena->lock);
		report_brought(awake_of(l));
		any |= counts_report(awake_of(l));
		counts_set_budget(awake_of(l), no_sums);
	}
	if (any)
		stats_note_arena_peaks(main);
	lock_leave(&main->lock);
}

void
counts_report_all(struct arena *arena)
{
	bool any = false;

	ASSERT(arena->cache.keeping == 0 || !list_empty(&arena->cache.all));
	lock_assert_held(&arena->lock);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		lock_assert_held(&heap->arena->lock);
		counts_report_depot(heap);
	}
	for (struct list *l = arena->cache.all.next; l != &arena->cache.all;
	     l = l->next) {
		lock_assert_held(&cache_of(l)->arena->lock);
		any |= counts_report(cache_of(l));
	}
	if (any)
		stats_note_arena_peaks(arena);
}
