/*
 * Finds the planned place of a request: plan.h, Note [A placement made ahead].
 */
#include "allocator/request/plan.h"

#include <inttypes.h>

#include "allocator/account/counters.h"
#include "allocator/memory/block.h"
#include "allocator/memory/grow.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pool.h"
#include "allocator/request/search.h"
#include "allocator/request/tuning.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/status.h"
#include "snapshot/plan_follow.h"

struct arena_plan {
	struct plan *plan;
	struct plan_follow follow;
	CUdeviceptr base;  /* of the range; 0: it is not mapped */
	unsigned renewals; /* how often the range was to be mapped again */
	bool maps;         /* a thread maps it, and the lock is released */
};

static enum weir_status
plan_begin(const char *path, struct arena_plan **out)
{
	struct arena_plan *own = meta_zalloc(sizeof(*own));

	if (own == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory to follow a plan");
	enum weir_status status = plan_read(path, &own->plan);
	if (status != WEIR_OK) {
		meta_free(own, sizeof(*own));
		return status;
	}
	plan_follow_begin(&own->follow, own->plan);
	*out = own;
	return WEIR_OK;
}

void
plan_load(struct arena *arena, const struct options *options)
{
	ASSERT(arena == arena->main && arena->request.plan == NULL);
	if (options->plan[0] == '\0')
		return;
	status_mute();
	if (plan_begin(options->plan, &arena->request.plan) != WEIR_OK)
		log_write(LOG_ERROR, "plan: %s", status_latest_text());
	status_unmute();
}

void
plan_forget(struct arena *arena)
{
	struct arena_plan *own = arena->request.plan;

	lock_assert_held(&arena->lock);
	if (own == NULL)
		return;
	arena->request.plan = NULL;
	plan_free(own->plan);
	meta_free(own, sizeof(*own));
}

/* Go on without a plan. */
static void
plan_drop(const struct request *r, const char *why) HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;

	lock_assert_held(&arena->lock);
	counter_add_of(r->heap, COUNTER_num_plans_dropped, 1);
	log_write(LOG_WARN,
	    "plan: %s, so device %d goes on without it; %" PRIu64
	    " rounds were as planned",
	    why, arena->device, arena->request.plan->follow.rounds);
	plan_forget(arena);
}

/* ---- The range --------------------------------------------------------- */

/* Has all of the range memory, of one segment? */
static bool
is_whole(const struct arena *arena, CUdeviceptr base, size_t bytes)
{
	const struct block *b = lookup_floor(base);

	if (b == NULL || b->addr + b->size <= base || b->arena != arena)
		return false;
	while (b != NULL && block_is_held(b)) {
		if (b->addr + b->size >= base + bytes)
			return true;
		b = b->next;
	}
	return false;
}

/* Map the range, or drop the plan if there is not enough memory. The range may
 * still not be mapped: another thread has allocated the memory, or has dropped
 * the plan. */
static void
map_range(struct request *r, struct arena_plan *own, size_t bytes)
    HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	struct pool *pool = &r->heap->pool[POOL_LARGE];
	size_t need;

	own->maps = true;
	lock_assert_held(&pool->owner->arena->lock);
	status_mute();
	enum weir_status status =
	    pool_grow(&r->view, pool, r->options, bytes, GROW_MIXED, &need);
	status_unmute();
	view_renew(&r->view);
	if (arena->request.plan != own)
		return; /* the device was reset */
	own->maps = false;
	lock_assert_held(&arena->lock);
	own->base = search_find_ready(r, bytes);
	if (own->base != 0)
		return;
	if (status != WEIR_OK)
		plan_drop(r, "there is no memory for all of it");
	else
		own->renewals++;
}

/* Find free memory for the range, or for its first part, or map it. */
static void
place_range(struct request *r, struct arena_plan *own, size_t bytes)
    HOLDS(r->heap->arena->lock)
{
	lock_assert_held(&r->heap->arena->lock);
	if (own->renewals > PLAN_RENEWALS) {
		plan_drop(r, "its memory was given back too often");
		return;
	}
	own->base = search_find_ready(r, bytes);
	if (own->base == 0)
		map_range(r, own, bytes);
}

/* At the begin of a round: has its part of the range still all its memory? */
static void
look_at_range(const struct arena *arena, struct arena_plan *own)
{
	if (own->base == 0 ||
	    is_whole(arena, own->base, (size_t)own->plan->round_bytes))
		return;
	own->base = 0;
	own->renewals++;
}

/* ---- Places ------------------------------------------------------------ */

void
plan_find_place(struct request *r)
{
	struct arena *arena = r->heap->arena;
	struct arena_plan *own = arena->request.plan;

	lock_assert_held(&arena->lock);
	ASSERT(own != NULL && r->kind == POOL_LARGE);
	r->place = 0;
	if (own->maps)
		return;
	const struct plan_entry *entry =
	    plan_follow(&own->follow, r->heap->index, r->rounded);
	if (own->follow.ended) {
		plan_drop(r, "the program has left it");
		return;
	}
	if (own->follow.begins)
		look_at_range(arena, own);
	if (entry == NULL || entry->offset == PLAN_NO_PLACE)
		return;
	bool of_round = entry >= own->plan->entries + own->plan->round;
	if (own->base == 0)
		place_range(r, own,
		    (size_t)(of_round ? own->plan->round_bytes :
					own->plan->bytes));
	if (arena->request.plan == own && own->base != 0)
		r->place = own->base + entry->offset;
}
