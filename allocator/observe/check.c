/*
 * weir_check() compares all memory with docs/invariants.md. It counts
 * everything again and trusts no counter, and it changes nothing. It reports
 * every fault, with the invariant's number.
 */
#include "allocator/observe/fault.h"

#include <stdio.h>
#include <string.h>

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/idle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pin.h"
#include "allocator/observe/guard.h"

/* A rule that must hold. */
#define CHECK(check, rule, condition, addr)                                    \
	do {                                                                   \
		if (!(condition))                                              \
			check_fault(check, "%s at %#llx: %s", rule,            \
			    (unsigned long long)(addr), #condition);           \
	} while (0)

/* Sums that the walk over the blocks counts, to compare with the statistics. */
struct counted {
	size_t reserved;
	size_t active;
	size_t allocated;
	size_t requested;
	size_t inactive_split;
	uint64_t actives;
	uint64_t allocations;
	uint64_t segments;
	uint64_t inactive_splits;
	size_t waiting;
	size_t cached;
};

static bool
in_tree(const struct tree *tree, struct block *block)
{
	return tree_lower_bound(tree, &block->node) == &block->node;
}

/* Is the block of a run that is yet to be listed? */
static bool
is_unlisted(const struct block *b)
{
	const struct pool *pool = b->pool;

	return pool->unlisted && list_empty(&b->pending.link) && b->run > 0 &&
	    (b->run < pool->listed_run ||
		(b->run == pool->listed_run && b->addr < pool->listed_addr));
}

static void
check_place(struct check *check, struct block *b)
{
	bool is_free = in_tree(&b->pool->free, b);
	bool is_unmapped = in_tree(&b->pool->unmapped, b);
	bool waits = b->pending.unmet > 0;
	bool may_wait =
	    block_state(b) == BLOCK_PENDING || block_state(b) == BLOCK_VACATED;

	CHECK(check, "I-6", is_free == (block_is_in_run(b) && b->run > 0),
	    b->addr);
	CHECK(check, "I-6", block_state(b) != BLOCK_FREE || b->run != RUN_NONE,
	    b->addr);
	CHECK(check, "I-6", is_unmapped == (block_state(b) == BLOCK_UNMAPPED),
	    b->addr);
	/* Otherwise searches would not find the block: spans.c. */
	CHECK(check, "I-6",
	    block_state(b) != BLOCK_FREE || is_unlisted(b) ||
		list_empty(&b->pending.link) ==
		    (!b->arena->memory.several || block_is_complete(b)),
	    b->addr);
	CHECK(check, "I-7", waits || block_state(b) != BLOCK_PENDING, b->addr);
	CHECK(check, "I-7", !waits || may_wait, b->addr);
	/* Otherwise it would stay mapped for ever. A job may hold it in a list
	 * of its own, outside the lock. */
	CHECK(check, "I-7",
	    b->arena->memory.jobs > 0 || block_state(b) != BLOCK_VACATED ||
		!list_empty(&b->pending.link),
	    b->addr);
	/* Otherwise other streams could use it before its work is done. */
	CHECK(check, "I-15",
	    block_state(b) != BLOCK_FREE ||
		b->freed_at <= b->pool->owner->freed_at ||
		b->pool->owner == b->arena->memory.any_heap,
	    b->addr);
	CHECK(check, "I-6", b->pool->kind == b->segment->kind, b->addr);
	CHECK(check, "I-6", b->pool->owner->arena == b->arena, b->addr);
	CHECK(check, "I-6",
	    (block_state(b) != BLOCK_FREE &&
		block_state(b) != BLOCK_UNMAPPED) ||
		!b->pool->owner->completed ||
		!list_empty(&b->pool->owner->ended_link),
	    b->addr);
}

static void
check_uses(struct check *check, struct block *b)
{
	unsigned unmet = 0;

	CHECK(check, "I-7",
	    b->pending.uses == NULL || block_state(b) == BLOCK_ACTIVE ||
		block_state(b) == BLOCK_PENDING ||
		block_state(b) == BLOCK_VACATED ||
		block_state(b) == BLOCK_UNMAPPING,
	    b->addr);
	for (struct use *u = b->pending.uses; u != NULL; u = u->next) {
		CHECK(check, "I-7", u->owner == &b->pending, b->addr);
		bool live = block_state(b) == BLOCK_ACTIVE ||
		    block_state(b) == BLOCK_UNMAPPING;
		CHECK(check, "I-7",
		    list_empty(&u->link) == live || (live && u->past), b->addr);
		unmet += !live;
	}
	CHECK(check, "I-7", unmet == b->pending.unmet, b->addr);
}

static void
check_neighbours(struct check *check, const struct block *b)
{
	const struct block *next = b->next;

	if (next == NULL)
		return;
	CHECK(check, "I-4", next->prev == b, b->addr);
	CHECK(check, "I-5",
	    b->pool != next->pool || block_state(b) != block_state(next) ||
		(block_state(b) != BLOCK_FREE &&
		    block_state(b) != BLOCK_UNMAPPED) ||
		(b->epoch != next->epoch && !block_is_complete(b)),
	    b->addr);
}

static bool
has_runs(const struct block *b, const struct pool *pool)
{
	return block_is_in_run(b) && (b->pool == pool || block_is_complete(b));
}

/* In each run the first block of a pool has the run's size, and no other block
 * of that pool has it. */
static void
check_run(struct check *check, const struct block *b)
{
	const struct block *first = b;
	bool is_head = true;
	size_t size = 0;

	if (!block_is_in_run(b))
		return;
	while (has_runs(first->prev, b->pool)) {
		first = first->prev;
		is_head = is_head && first->pool != b->pool;
	}
	for (; has_runs(first, b->pool); first = first->next)
		size += first->size;
	CHECK(check, "I-6", b->run == (is_head ? size : 0), b->addr);
}

static bool
is_idle(const struct block *b)
{
	const struct segment *s = b->segment;

	if (!block_is_in_run(b))
		return false;
	return s->expandable ?
	    handle_first_within(s, b->addr, b->size) != NULL :
	    s->pins == 0 && b->size == s->size;
}

/* Is an idle block in the index, and only a free block that overlaps the handle
 * or segment that stands for it? */
static void
check_idle(struct check *check, const struct block *b)
{
	const struct segment *s = b->segment;
	const struct idle *idle = b->idle;

	ASSERT(b->segment != NULL);
	CHECK(check, "I-17", idle != NULL || !is_idle(b), b->addr);
	if (idle == NULL)
		return;
	CHECK(check, "I-17", block_is_in_run(b), b->addr);
	CHECK(check, "I-17", idle->block == b, b->addr);
	CHECK(check, "I-17",
	    idle->since == b->freed_at ||
		(idle->since < b->freed_at && b->size < idle_least(s)),
	    b->addr);
	CHECK(check, "I-17",
	    tree_lower_bound(&b->pool->owner->idle.tree, &idle->node) ==
		&idle->node,
	    b->addr);
	if (s->expandable) {
		const struct handle *h = handle_of_idle(b->idle);
		CHECK(check, "I-17",
		    h->segment == s && h->addr == idle->place &&
			h->addr + h->size == idle->end &&
			h->addr < b->addr + b->size && idle->end > b->addr,
		    b->addr);
	}
}

static void
check_block(struct check *check, struct block *b)
{
	bool mapped = block_is_held(b);

	CHECK(check, "I-1", b->size > 0, b->addr);
	CHECK(check, "I-1",
	    b->size % arena_granule(b->arena, b->pool->kind) == 0, b->addr);
	/* A driver segment is unmapping: its addresses may belong to another
	 * allocation already. */
	CHECK(check, "I-8",
	    lookup_exact(b->addr) == (mapped ? b : NULL) ||
		(block_state(b) == BLOCK_UNMAPPING && !b->segment->expandable),
	    b->addr);
	CHECK(check, "I-10", mapped || b->segment->expandable, b->addr);
	CHECK(check, "I-11",
	    (block_state(b) != BLOCK_ACTIVE &&
		block_state(b) != BLOCK_PENDING) ||
		(b->requested > 0 && b->requested <= b->size),
	    b->addr);
	check_place(check, b);
	check_uses(check, b);
	check_neighbours(check, b);
	check_run(check, b);
	check_idle(check, b);
}

static void
count_block(struct counted *t, const struct block *b) HOLDS(b->arena->lock)
{
	ASSERT(b->pool->kind < POOL_KINDS);
	switch (block_state(b)) {
	case BLOCK_UNMAPPED:
	case BLOCK_MAPPING:
		return;
	case BLOCK_VACATED:
		t->waiting += b->pending.unmet > 0;
		return;
	case BLOCK_UNMAPPING:
	case BLOCK_GUARD:
		break;
	case BLOCK_CACHED:
		t->cached += b->size;
		break;
	case BLOCK_FREE:
		t->inactive_splits += block_is_inactive_split(b);
		t->inactive_split += block_is_inactive_split(b) ? b->size : 0;
		break;
	case BLOCK_ACTIVE:
		t->allocations++;
		t->allocated += b->size;
		/* fall through */
	case BLOCK_PENDING:
		t->waiting += block_state(b) == BLOCK_PENDING;
		t->actives++;
		t->active += b->size;
		t->requested += b->requested;
		break;
	}
	t->reserved += block_present(b);
}

/* Check that handles tile [addr, addr + size) if it is mapped, and that no
 * handle lies in it if it is not. */
static void
check_mapping(struct check *check, const struct segment *s, CUdeviceptr addr,
    size_t size, bool mapped)
{
	CUdeviceptr at = addr;

	while (at < addr + size) {
		struct handle *h = handle_floor(s, at);
		bool covers = h != NULL && at < h->addr + h->size;
		if (covers != mapped) {
			check_fault(check, "I-10 at %#llx: %s",
			    (unsigned long long)at,
			    mapped ? "no handle is mapped here" :
				     "a handle is mapped here");
			return;
		}
		if (!covers)
			break;
		at = h->addr + h->size;
	}
	/* An unmapped range has no handle anywhere in it. */
	struct handle *last = handle_floor(s, addr + size - 1);
	if (!mapped && last != NULL && last->addr + last->size > addr)
		check_fault(check, "I-10 at %#llx: a handle is mapped here",
		    (unsigned long long)last->addr);
}

/* Count the pins that overlap a range. */
static unsigned
count_pins(const struct arena *arena, CUdeviceptr addr, size_t size)
{
	unsigned n = 0;

	for (struct tree_node *t = tree_first(&arena->memory.pins); t != NULL;
	     t = tree_next(t)) {
		const struct pin *p = CONTAINER_OF(t, struct pin, node);
		n += p->addr < addr + size && p->addr + p->size > addr;
	}
	return n;
}

/* Check that handles are mapped exactly where blocks have memory. */
static void
check_handles(struct check *check, const struct segment *s)
{
	const struct block *b = s->first;
	size_t sum = 0;

	/* While a job is under way, handles are between two places. */
	if (s->arena->memory.jobs > 0)
		return;
	CHECK(check, "I-10", tree_consistent(&s->handles), s->addr);
	for (struct tree_node *n = tree_first(&s->handles); n != NULL;
	     n = tree_next(n)) {
		struct handle *h = CONTAINER_OF(n, struct handle, node);
		CHECK(check, "I-10",
		    h->addr % s->arena->memory.granularity == 0, h->addr);
		CHECK(check, "I-10",
		    h->size % s->arena->memory.granularity == 0, h->addr);
		CHECK(check, "I-16",
		    h->pins == count_pins(s->arena, h->addr, h->size), h->addr);
		sum += h->size;
	}
	CHECK(check, "I-10", sum == s->mapped_bytes, s->addr);
	while (b != NULL) {
		CUdeviceptr start = b->addr;
		bool mapped = block_is_held(b);
		while (b != NULL && block_is_held(b) == mapped)
			b = b->next;
		CUdeviceptr end = b != NULL ? b->addr : s->addr + s->size;
		check_mapping(check, s, start, end - start, mapped);
	}
}

static bool
is_mapped(const struct segment *s, CUdeviceptr addr, size_t size)
{
	CUdeviceptr at = addr + size;

	while (at > addr) {
		const struct handle *h = handle_floor(s, at - 1);
		if (h == NULL || h->addr + h->size < at)
			return false;
		at = h->addr;
	}
	return true;
}

/* Check that each pin lies in one segment, on mapped pages. */
static void
check_pins(struct check *check, const struct arena *arena)
{
	CHECK(check, "I-16", tree_consistent(&arena->memory.pins), 0);
	for (struct tree_node *n = tree_first(&arena->memory.pins); n != NULL;
	     n = tree_next(n)) {
		const struct pin *p = CONTAINER_OF(n, struct pin, node);
		CHECK(check, "I-16", p->times > 0, p->addr);
		CHECK(check, "I-16",
		    p->addr >= p->segment->addr &&
			p->addr + p->size <=
			    p->segment->addr + p->segment->size,
		    p->addr);
		CHECK(check, "I-16",
		    !p->segment->expandable ||
			is_mapped(p->segment, p->addr, p->size),
		    p->addr);
	}
}

static void
check_segment(struct check *check, struct segment *s, struct counted *totals)
{
	CUdeviceptr end = s->addr;
	size_t mapped = 0;
	unsigned busy = 0;

	CHECK(check, "I-4", s->first->prev == NULL, s->addr);
	for (struct block *b = s->first; b != NULL; b = b->next) {
		CHECK(check, "I-1", b->addr == end, b->addr);
		CHECK(check, "I-1", b->segment == s, b->addr);
		end = b->addr + b->size;
		mapped += block_is_held(b) ? b->size : 0;
		busy += block_state(b) == BLOCK_VACATED ||
		    block_state(b) == BLOCK_MAPPING ||
		    block_state(b) == BLOCK_UNMAPPING;
		check_block(check, b);
		lock_assert_held(&b->arena->lock);
		count_block(totals, b);
	}
	CHECK(check, "I-1", end == s->addr + s->size, s->addr);
	CHECK(check, "I-2",
	    mapped == s->mapped_bytes || s->arena->memory.jobs > 0, s->addr);
	CHECK(check, "I-10", busy == s->busy || s->arena->memory.jobs > 0,
	    s->addr);
	CHECK(check, "I-16", s->pins == count_pins(s->arena, s->addr, s->size),
	    s->addr);
	totals->segments += !s->expandable;
	if (s->expandable)
		check_handles(check, s);
}

static void
check_stat(struct check *check, const char *name, const struct weir_stat3 *stat,
    uint64_t counted)
{
	if (stat->all.current != counted)
		check_fault(check, "I-3: %s is %llu, counted %llu", name,
		    (unsigned long long)stat->all.current,
		    (unsigned long long)counted);
	if (stat->all.current !=
	    stat->small_pool.current + stat->large_pool.current)
		check_fault(check, "I-3: %s is not small plus large", name);
	if (stat->all.peak < stat->all.current)
		check_fault(
		    check, "I-3: %s has a peak below its current value", name);
}

static void
check_totals(struct check *check, const struct weir_stats *kept,
    const struct tally *tally, const struct counted *t)
{
	const struct weir_stats all = stats_all(kept, tally);
	const struct weir_stats *stats = &all;

	check_stat(
	    check, "reserved_bytes", &stats->reserved_bytes, t->reserved);
	check_stat(check, "active_bytes", &stats->active_bytes, t->active);
	check_stat(
	    check, "allocated_bytes", &stats->allocated_bytes, t->allocated);
	check_stat(
	    check, "requested_bytes", &stats->requested_bytes, t->requested);
	check_stat(check, "inactive_split_bytes", &stats->inactive_split_bytes,
	    t->inactive_split);
	check_stat(check, "active", &stats->active, t->actives);
	check_stat(check, "allocation", &stats->allocation, t->allocations);
	check_stat(check, "segment", &stats->segment, t->segments);
	check_stat(check, "inactive_split", &stats->inactive_split,
	    t->inactive_splits);
}

/* Check the blocks and pools of one heap. */
static void
check_heap(struct check *check, struct arena *arena, struct stream_heap *heap)
    HOLDS(heap->arena->lock)
{
	struct counted t = { 0 };
	size_t in_heap = 0;
	size_t blocks = 0;
	size_t idle = 0;
	uint64_t since_sum = 0;

	ASSERT(heap->arena == arena);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *s = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = s->first; b != NULL; b = b->next) {
			if (b->pool->owner != heap)
				continue;
			blocks++;
			idle += b->idle != NULL;
			since_sum += b->idle != NULL ? b->idle->since : 0;
			in_heap +=
			    (block_state(b) == BLOCK_FREE && b->run > 0) ||
			    block_state(b) == BLOCK_UNMAPPED;
			lock_assert_held(&b->arena->lock);
			count_block(&t, b);
		}
	}
	t.segments = 0; /* counted per device only */
	CHECK(check, "I-6", t.cached == tcache_bytes(heap), 0);
	check_totals(check, &heap->stats, &heap->tally, &t);
	CHECK(check, "I-6", blocks == heap->blocks, 0);
	CHECK(check, "I-17", tree_consistent(&heap->idle.tree), 0);
	CHECK(check, "I-17", idle == heap->idle.tree.count, 0);
	CHECK(check, "I-17", since_sum == heap->idle.since_sum, 0);
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct pool *pool = &heap->pool[kind];
		CHECK(check, "I-6", tree_consistent(&pool->free), 0);
		CHECK(check, "I-6", tree_consistent(&pool->unmapped), 0);
		in_heap -= pool->free.count + pool->unmapped.count;
	}
	CHECK(check, "I-6", in_heap == 0, 0);
	CHECK(check, "I-6",
	    !heap_has_freed(heap) || !list_empty(&heap->freed_link), 0);
	CHECK(check, "I-6",
	    !heap_may_hold_pending(heap) || !list_empty(&heap->freed_link), 0);
	CHECK(check, "I-6",
	    heap->ended ? heap->completed || !list_empty(&heap->ended_link) :
			  list_empty(&heap->ended_link),
	    0);
	CHECK(check, "I-6", heap_peek(arena, heap->stream) == heap, 0);
}

static void
arena_check(struct arena *arena, struct check *check)
{
	struct counted totals = { 0 };
	size_t ranges = 0;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *s = CONTAINER_OF(l, struct segment, link);
		ranges += s->expandable;
		check_segment(check, s, &totals);
	}
	for (struct list *l = arena->memory.ranges.next;
	     l != &arena->memory.ranges; l = l->next)
		ranges--;
	CHECK(check, "I-10", ranges == 0, 0);
	check_totals(
	    check, &arena->account.stats, &arena->account.tally, &totals);
	check_pins(check, arena);
	CHECK(check, "I-7", totals.waiting == arena->waiting.count, 0);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		lock_assert_held(&heap->arena->lock);
		check_heap(check, arena, heap);
	}
}

static void
totals_check(struct totals *totals, uint64_t changes,
    const struct weir_stats *sums, struct check *check)
{
	static const char *const names[] = {
#define STAT3_NAME(name) #name,
		WEIR_STAT3S(STAT3_NAME)
#undef STAT3_NAME
	};

	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	struct weir_stats stats = stats_all(&totals->stats, &totals->tally);
	for (int i = 0; i < STAT3S && totals->changes == changes; i++)
		check_stat(check, names[i], stats_at(&stats, (enum stat3)i),
		    stats_at((struct weir_stats *)sums, (enum stat3)i)
			->all.current);
	lock_leave(&totals->lock);
}

/* ---- Over all arenas --------------------------------------------------- */

/* Make the caches of all arenas report their counts. */
static void
report_all_caches(struct arena *main)
{
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		tcache_report(a);
		lock_leave(&a->lock);
	}
}

/* Check each arena in turn, then their sums. If the totals have changed
 * meanwhile, the sums are not compared. */
static void
check_device(struct arena *main, struct check *check)
{
	struct weir_stats sums = { 0 };
	struct weir_stats host_sums = { 0 };

	ASSERT(main == main->main);
	guard_look_at_all(main, check);
	report_all_caches(main);
	lock_enter(&main->lock);
	struct totals *totals = main->account.totals;
	struct totals *host = main->account.host_totals;
	lock_leave(&main->lock);
	uint64_t begun = totals_changes(totals);
	uint64_t host_begun = totals_changes(host);
	for (struct arena *a = main; a != NULL; a = arena_next(a)) {
		lock_enter(&a->lock);
		tcache_stop(a);
		arena_check(a, check);
		struct weir_stats all =
		    stats_all(&a->account.stats, &a->account.tally);
		if (arena_is_counted(a))
			stats_add_current(&sums, &all);
		else
			stats_add_current(&host_sums, &all);
		tcache_go(a);
		lock_leave(&a->lock);
	}
	totals_check(totals, begun, &sums, check);
	totals_check(host, host_begun, &host_sums, check);
}

size_t
weir_check(char *text, size_t size)
{
	struct check check = { .text = text, .size = text ? size : 0 };

	if (check.size > 0)
		text[0] = '\0';
	if (os_forked())
		return 0;
	for (int device = 0; device < DEVICES_MAX; device++) {
		struct arena *arena = arena_peek(device);
		if (arena != NULL)
			check_device(arena, &check);
	}
	return check.faults;
}
