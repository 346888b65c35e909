/*
 * Makes the waits on the device that are worth their price.
 *
 * A row of blocks costs the longest delay of its blocks. price_wait() looks for
 * the shortest wait by levels, each twice the one before, and at each level for
 * the row that fits best.
 */
#include "allocator/request/price.h"

#include "allocator/fences/fence.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/request/search.h"
#include "allocator/request/wait.h"
#include "base/status.h"

/* The first level. */
enum { LEVEL_NS = 15000 };

static bool
is_within(const struct request *r, bool known, const struct forecast *forecast)
{
	return known && forecast->ns <= r->level_ns &&
	    policy_is_worth(&r->prices, forecast->ns, forecast->age_ns);
}

/* Are the waits for all uses of a pending block worth their price? */
static bool
are_uses_within(const struct request *r, const struct block *block)
{
	struct forecast forecast;

	for (const struct use *u = block->pending.uses; u != NULL; u = u->next)
		if (!use_is_before(u, r->heap->stream) &&
		    !is_within(r, fences_forecast_use(u, &forecast), &forecast))
			return false;
	return true;
}

/* Are all waits that a block needs worth their price? */
static bool
is_worth(void *about, const struct block *block)
{
	struct request *r = about;
	struct forecast forecast;

	if (block == NULL ||
	    (block_state(block) != BLOCK_FREE &&
		block_state(block) != BLOCK_PENDING))
		return false;
	const struct stream_heap *owner = block->pool->owner;
	if (block->freed_at > view_until(&r->view, owner) &&
	    !is_within(r,
		fences_forecast(&r->view, owner, block->freed_at, &forecast),
		&forecast))
		return false;
	return block_state(block) == BLOCK_FREE || are_uses_within(r, block);
}

enum weir_status
price_wait(struct request *r)
{
	const struct wait_prices *prices = &r->prices;
	uint64_t most =
	    prices->near_ns > prices->any_ns ? prices->near_ns : prices->any_ns;
	enum weir_status status = WEIR_OK;
	struct span span;

	if (r->heap == r->heap->arena->any_heap || !view_can_wait(&r->view) ||
	    r->view.capture != 0)
		return WEIR_OK;
	r->level_ns = most;
	view_renew(&r->view);
	if (!search_find_span(r, is_worth, &span))
		return WEIR_OK;
	for (uint64_t level = LEVEL_NS; status == WEIR_OK && r->got == NULL;
	     level *= 2) {
		r->level_ns = level < most ? level : most;
		status = wait_for_best(r, is_worth);
		if (level >= most)
			break;
	}
	return status;
}
