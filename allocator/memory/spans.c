/*
 * Finds rows from indexes, so that the number of other blocks does not matter:
 *
 *   - complete blocks from the trees of the heap of WEIR_STREAM_ANY, where each
 *   is a run by itself
 *   - runs of the request's own heap, which complete blocks may be part of,
 *   from its trees
 *   - free blocks of other streams from the lists pool->freed, and pending
 *   blocks from arena->waiting
 *
 * A block leaves its pool's list soon after it is seen to be complete, so the
 * lists are as long as the work that the device still has to do.
 *
 * Each row is reported once: at its first block that is in a list, or else at
 * its run of the request's heap, or else at its complete block.
 *
 * Note [Bounded searches]
 *
 * A program whose streams are far behind their host may have hundreds of
 * thousands of blocks in the lists. No search looks at more than SPANS_ASKED of
 * them, those that were freed first, because they are ready first; and, for a
 * best fit, at as many runs of the other streams that are large enough, the
 * smallest first, from their trees. A search of the largest runs looks at half
 * as many blocks, because a request makes several. A row that is found in both
 * ways is reported twice then, which does not matter to a best fit. Where
 * memory must stay where it is (arena->memory.kept), a request may have no
 * other memory, so there is no bound.
 */
#include "allocator/memory/spans.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"

static bool
is_good(const struct span_search *search, const struct block *block)
{
	return block != NULL && search->is_good(search->about, block);
}

static bool
is_of_request(const struct span_search *search, const struct block *block)
{
	return block->pool->owner == search->mine;
}

/* Is a good block found in a list? */
static bool
is_listed(const struct span_search *search, const struct block *block)
{
	return block_state(block) == BLOCK_PENDING ||
	    (!is_of_request(search, block) && !block_is_complete(block));
}

static bool
is_searched(const struct span_search *search, const struct block *block)
{
	return block->segment->expandable &&
	    (search->kind == SPANS_OF_ALL_KINDS ||
		block->pool->kind == search->kind) &&
	    is_good(search, block);
}

static void
report_row(struct span_search *search, const struct span *span)
{
	const struct block *last = span->last;

	ASSERT(span->first->segment == last->segment);
	ASSERT(span->first->addr <= last->addr);
	if (last->addr + last->size - span->first->addr >= search->least)
		search->found(search, span);
}

/* Report the row around a block of a list, if no earlier block of the row is in
 * a list. */
static void
report_listed(struct span_search *search, struct block *block)
{
	struct span span = { block, block };

	if (!is_searched(search, block))
		return;
	while (is_good(search, span.first->prev)) {
		span.first = span.first->prev;
		if (is_listed(search, span.first))
			return;
	}
	while (is_good(search, span.last->next))
		span.last = span.last->next;
	report_row(search, &span);
}

/* Search a list, as far as there are blocks left to look at. Was that all of
 * it? */
static bool
search_list(struct span_search *search, const struct list *list)
{
	const struct list *l = list->next;

	for (; l != list && search->listed_left > 0; l = l->next) {
		report_listed(search, block_of_pending((struct list *)l));
		search->listed_left--;
	}
	return l == list;
}

/* Report the row around a good block of a run, unless it is reported from
 * another index. Returns the row's last block. */
static struct block *
report_of_run(struct span_search *search, struct block *block, bool own_run)
{
	struct span span = { block, block };
	bool has_own = is_of_request(search, block);
	bool has_listed = false;

	while (is_good(search, span.first->prev)) {
		span.first = span.first->prev;
		has_own |= is_of_request(search, span.first);
		has_listed |= is_listed(search, span.first);
	}
	while (is_good(search, span.last->next)) {
		span.last = span.last->next;
		has_own |= is_of_request(search, span.last);
		has_listed |= is_listed(search, span.last);
	}
	if (has_own == own_run && !has_listed)
		report_row(search, &span);
	return span.last;
}

static void
search_run(struct span_search *search, struct block *head)
{
	bool own = is_of_request(search, head);
	struct span run = block_run(head);
	CUdeviceptr end = run.last->addr + run.last->size;

	for (struct block *b = run.first; b != NULL && b->addr < end;
	     b = b->next)
		if (is_searched(search, b))
			b = report_of_run(search, b, own);
}

/* Search the runs of a pool, the smallest first, up to search->most. */
static void
search_pool(struct span_search *search, const struct pool *pool)
{
	const struct block key = { .run = search->least };

	for (struct tree_node *n = tree_lower_bound(&pool->free, &key.node);
	     n != NULL; n = tree_next(n)) {
		struct block *head = block_of_node(n);
		if (head->run > search->most)
			break;
		search_run(search, head);
	}
}

/* Report the rows of a run of another stream that are large enough. */
static void
search_other_run(struct span_search *search, struct block *head)
{
	struct span run = block_run(head);
	CUdeviceptr end = run.last->addr + run.last->size;

	for (struct block *b = run.first; b != NULL && b->addr < end;
	     b = b->next) {
		struct span span = { b, b };
		if (!is_searched(search, b))
			continue;
		while (is_good(search, span.first->prev))
			span.first = span.first->prev;
		while (is_good(search, span.last->next))
			span.last = span.last->next;
		report_row(search, &span);
		b = span.last;
	}
}

/* Search the runs of another stream that are large enough, the smallest
 * first. */
static void
search_other_runs(struct span_search *search, const struct pool *pool)
{
	const struct block key = { .run = search->least };

	for (struct tree_node *n = tree_lower_bound(&pool->free, &key.node);
	     n != NULL && search->runs_left > 0; n = tree_next(n)) {
		struct block *head = block_of_node(n);
		if (head->run > search->most)
			break;
		search_other_run(search, head);
		search->runs_left--;
	}
}

/* Search the memory that another stream has freed. */
static void
search_freed(struct span_search *search, const struct stream_heap *heap)
{
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		const struct pool *pool = &heap->pool[kind];
		if (search->kind != SPANS_OF_ALL_KINDS &&
		    (int)search->kind != kind)
			continue;
		bool all = search_list(search, &pool->freed) && !pool->unlisted;
		if (!all && search->largest == 0)
			search_other_runs(search, pool);
	}
}

static bool
may_be_good(const struct block *block)
{
	return block != NULL &&
	    (block_state(block) == BLOCK_FREE ||
		block_state(block) == BLOCK_PENDING);
}

/* Is a run a row by itself, without a whole handle? */
static bool
is_barren(const struct block *head)
{
	return head->idle == NULL && head->run == head->size &&
	    !may_be_good(head->prev) && !may_be_good(head->next);
}

static void
search_largest(struct span_search *search, const struct pool *pool)
{
	struct tree_node *n = tree_last(&pool->free);

	for (unsigned i = 0;
	     i < search->largest && n != NULL && !search->has_enough; i++) {
		struct block *head = block_of_node(n);
		if (head->run < search->least)
			break;
		if (!search->only_idle || !is_barren(head))
			search_run(search, head);
		n = tree_prev(n);
	}
}

static void
search_heap(struct span_search *search, const struct stream_heap *heap)
{
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		if (search->kind != SPANS_OF_ALL_KINDS &&
		    (int)search->kind != kind)
			continue;
		if (search->largest > 0)
			search_largest(search, &heap->pool[kind]);
		else
			search_pool(search, &heap->pool[kind]);
	}
}

void
spans_find(struct span_search *search)
{
	const struct arena *arena = search->mine->arena;

	ASSERT(search != NULL);
	search->listed_left = arena->memory.kept > 0 ? SIZE_MAX :
	    search->largest > 0                      ? SPANS_ASKED / 2 :
						       SPANS_ASKED;
	search->runs_left = search->listed_left;
	search_heap(search, search->mine);
	if (search->mine != arena->memory.any_heap)
		search_heap(search, arena->memory.any_heap);
	lock_assert_held(&arena->lock);
	for (const struct stream_heap *p = heap_first_freed(arena); p != NULL;
	     p = heap_next_freed(p))
		if (p != search->mine)
			search_freed(search, p);
	search_list(search, &arena->waiting.pending);
}
