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
#include "allocator/request/tuning.h"
#include "allocator/request/wait.h"
#include "base/status.h"

/* Is a wait worth its price? */
static bool
is_worth(struct request *r, const struct block *block, const struct use *use)
{
	struct forecast forecast;
	bool known = use != NULL ? fences_forecast_use(use, &forecast) :
				   fences_forecast(&r->view, block->pool->owner,
				       block->freed_at, &forecast);

	return known && forecast.ns <= r->level_ns &&
	    policy_is_worth(&r->prices, forecast.ns, forecast.age_ns);
}

enum weir_status
price_wait(struct request *r)
{
	const struct wait_prices *prices = &r->prices;
	uint64_t most =
	    prices->near_ns > prices->any_ns ? prices->near_ns : prices->any_ns;
	enum weir_status status = WEIR_OK;
	struct span span;

	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	lock_assert_held(&r->view.mine->arena->lock);
	if (r->heap == r->heap->arena->memory.any_heap ||
	    !view_can_wait(&r->view) || r->view.capture != 0)
		return WEIR_OK;
	r->is_good = is_worth;
	r->level_ns = most;
	if (!wait_find_best(r, &span))
		return WEIR_OK;
	for (uint64_t level = LEVEL_NS; status == WEIR_OK && r->got == NULL;
	     level *= 2) {
		r->level_ns = level < most ? level : most;
		status = wait_for_best(r);
		if (level >= most)
			break;
	}
	return status;
}

enum weir_status
price_place(struct request *r, uint64_t longest_ns)
{
	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->got == NULL);
	r->prices = (struct wait_prices){ .any_ns = longest_ns };
	r->is_good = longest_ns == UINT64_MAX ? NULL : is_worth;
	r->level_ns = longest_ns;
	return longest_ns > 0 ? wait_for_place(r) : WEIR_OK;
}
