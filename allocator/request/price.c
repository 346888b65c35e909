/*
 * Waits on the device that are worth their price.
 *
 * A run costs the longest forecast of its blocks. The shortest wait that serves
 * is looked for by levels, each twice the one before, and at each level the run
 * that fits best.
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

/* May the stream wait for all uses of a pending block? */
static bool
are_uses_within(const struct request *r, const struct block *block)
{
	struct forecast forecast;

	for (const struct use *u = block->pending.uses; u != NULL; u = u->next)
		if (!use_is_before(u, r->pools->stream) &&
		    !is_within(r, marks_forecast_use(u, &forecast), &forecast))
			return false;
	return true;
}

/* May the stream wait for what holds a block back? */
static bool
is_worth(void *about, const struct block *block)
{
	struct request *r = about;
	struct forecast forecast;

	if (block == NULL ||
	    (block_state(block) != BLOCK_FREE &&
		block_state(block) != BLOCK_PENDING))
		return false;
	const struct pools *owner = block->pool->owner;
	if (block->freed_at > view_until(&r->view, owner) &&
	    !is_within(r,
		marks_forecast(&r->view, owner, block->freed_at, &forecast),
		&forecast))
		return false;
	return block_state(block) == BLOCK_FREE || are_uses_within(r, block);
}

/* Serve the request within a level; nothing if no run does. */
static enum weir_status
wait_within(struct request *r, uint64_t level_ns)
{
	struct span span;

	r->level_ns = level_ns;
	for (unsigned n = 0; n < REQUEST_TRIES; n++) {
		view_renew(&r->view);
		if (!search_find_span(r, is_worth, &span))
			return WEIR_OK;
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
price_wait(struct request *r)
{
	const struct wait_prices *prices = &r->prices;
	uint64_t most =
	    prices->near_ns > prices->any_ns ? prices->near_ns : prices->any_ns;
	enum weir_status status = WEIR_OK;
	struct span span;

	if (r->pools == r->pools->arena->any_pools ||
	    !view_can_wait(&r->view) || r->view.capture != 0)
		return WEIR_OK;
	r->level_ns = most;
	view_renew(&r->view);
	if (!search_find_span(r, is_worth, &span))
		return WEIR_OK;
	for (uint64_t level = LEVEL_NS; status == WEIR_OK && r->got == NULL;
	     level *= 2) {
		status = wait_within(r, level < most ? level : most);
		if (level >= most)
			break;
	}
	return status;
}
