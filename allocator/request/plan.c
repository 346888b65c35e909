/*
 * Finds the planned place of a request: plan.h, Note [A placement made ahead].
 */
#include "allocator/request/plan.h"

#include <inttypes.h>

#include "allocator/account/counters.h"
#include "allocator/account/totals.h"
#include "allocator/memory/grow.h"
#include "allocator/memory/pool.h"
#include "allocator/memory/segment.h"
#include "allocator/request/search.h"
#include "allocator/request/tuning.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/status.h"
#include "snapshot/plan_follow.h"

struct arena_plan {
	struct plan *plan;
	struct plan_follow follow;
	CUdeviceptr base; /* of the range; 0: it has no addresses yet */
	bool begun;       /* its memory was mapped at once, or may not be */
	uint64_t mapped;  /* bytes that were mapped at places, all in all */
	bool late;        /* its waits have delayed the latest round too much */
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
	arena_open_places(arena, own->base);
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

void
plan_note_late(const struct arena *arena)
{
	struct arena_plan *own = arena->request.plan;

	lock_assert_held(&arena->lock);
	if (own == NULL)
		return;
	own->late = true;
	plan_follow_differ(&own->follow);
}

/* ---- The range --------------------------------------------------------- */

size_t
plan_new_most(const struct request *r)
{
	const struct arena *arena = r->heap->arena;
	const struct arena_plan *own = arena->request.plan;
	size_t held = device_reserved(arena);

	lock_assert_held(&arena->lock);
	return own != NULL && held < own->plan->held_bytes ?
	    (size_t)own->plan->held_bytes - held :
	    0;
}

/* Map addresses of the range. Another thread may have dropped the plan
 * afterwards. */
static enum weir_status
map_in_range(struct request *r, struct grow_at *at, enum grow_how how)
    HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	struct pool *pool = &r->heap->pool[POOL_LARGE];

	ASSERT(at->addr != 0 && at->size > 0);
	lock_assert_held(&pool->owner->arena->lock);
	view_renew(&r->view);
	status_mute();
	enum weir_status status =
	    pool_grow_at(&r->view, pool, r->options, at, how);
	status_unmute();
	view_renew(&r->view);
	lock_assert_held(&arena->lock);
	if (arena->request.plan != NULL)
		arena->request.plan->mapped += at->mapped;
	return status;
}

/* Reserve addresses for the range, or drop the plan if there are none. */
static void
reserve_range(struct request *r, struct arena_plan *own)
    HOLDS(r->heap->arena->lock)
{
	struct pool *pool = &r->heap->pool[POOL_LARGE];

	lock_assert_held(&pool->owner->arena->lock);
	status_mute();
	enum weir_status status = pool_reserve_places(
	    pool, r->options, (size_t)own->plan->bytes, &own->base);
	status_unmute();
	lock_assert_held(&r->heap->arena->lock);
	if (status != WEIR_OK)
		plan_drop(r, "there are no addresses for it");
}

/* Addresses of the range that have no memory. */
struct gap {
	CUdeviceptr addr;
	size_t size; /* 0: there are none */
};

/* The first ones from `addr` to `end`. */
static struct gap
find_gap(const struct arena *arena, CUdeviceptr addr, CUdeviceptr end)
    HOLDS(arena->lock)
{
	lock_assert_held(&arena->lock);
	const struct segment *segment = segment_of_places(arena, addr);
	const struct block *b = segment != NULL ? segment->first : NULL;

	while (b != NULL && b->addr < end &&
	    (b->addr + b->size <= addr || block_state(b) != BLOCK_UNMAPPED))
		b = b->next;
	if (b == NULL || b->addr >= end)
		return (struct gap){ 0 };
	CUdeviceptr from = b->addr > addr ? b->addr : addr;
	CUdeviceptr until = b->addr + b->size < end ? b->addr + b->size : end;
	return (struct gap){ .addr = from, .size = until - from };
}

/* Are several gaps more than may be mapped? One is mapped as a whole or not at
 * all, with memory that is free elsewhere besides. */
static bool
are_gaps_too_large(const struct request *r, CUdeviceptr addr, CUdeviceptr end)
    HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	size_t bytes = 0;
	unsigned count = 0;

	lock_assert_held(&arena->lock);
	for (struct gap gap = find_gap(arena, addr, end); gap.size > 0;
	     gap = find_gap(arena, gap.addr + gap.size, end)) {
		bytes += gap.size;
		count++;
	}
	return count > 1 && bytes > plan_new_most(r);
}

/* The mean size of the requests in the range, as whose the handles are that are
 * mapped for all of them. */
static size_t
mean_request(const struct plan *plan)
{
	uint64_t bytes = 0;
	uint64_t count = 0;

	ASSERT(plan->count > 0);
	for (uint32_t i = 0; i < plan->count; i++) {
		if (plan->entries[i].offset == PLAN_NO_PLACE)
			continue;
		bytes += plan->entries[i].size;
		count++;
	}
	return count > 0 ? (size_t)(bytes / count) : 0;
}

/* Map the range at once, or in a program that begins otherwise the round's part
 * of it, if the program comes to hold as much without a plan. The requests by
 * which the plan came to be believed may lie there already. */
static void
begin_range(struct request *r, struct arena_plan *own, bool of_round)
    HOLDS(r->heap->arena->lock)
{
	struct arena *arena = r->heap->arena;
	const struct plan *plan = own->plan;
	size_t request = mean_request(plan);
	CUdeviceptr addr = own->base;
	CUdeviceptr end =
	    own->base + (of_round ? plan->round_bytes : plan->bytes);

	own->begun = true;
	lock_assert_held(&arena->lock);
	if (are_gaps_too_large(r, addr, end))
		return;
	while (arena->request.plan == own) {
		struct gap gap = find_gap(arena, addr, end);
		struct grow_at at = { .addr = gap.addr,
			.size = gap.size,
			.request = request,
			.new_most = plan_new_most(r) };

		if (gap.size == 0)
			break;
		lock_assert_held(&r->heap->arena->lock);
		map_in_range(r, &at, GROW_MIXED);
		addr = gap.addr + gap.size;
	}
}

/* ---- Places ------------------------------------------------------------ */

void
plan_find_place(struct request *r)
{
	struct arena_plan *own = r->heap->arena->request.plan;

	lock_assert_held(&r->heap->arena->lock);
	ASSERT(own != NULL && r->kind == POOL_LARGE);
	ASSERT(r->planned == 0);
	const struct plan_entry *entry =
	    plan_follow(&own->follow, r->heap->index, r->rounded);
	arena_keep_places(r->heap->arena, own->follow.believed);
	if (own->follow.differing == 0 && own->follow.unlike == 0)
		own->late = false;
	if (own->follow.ended) {
		plan_drop(r,
		    own->late ? "its waits delay the program" :
				"the program has left it");
		return;
	}
	if (own->mapped / (PLAN_RENEWALS + 1) > own->plan->bytes) {
		plan_drop(r, "its memory was given back too often");
		return;
	}
	r->unlisted = entry == NULL && own->follow.believed;
	if (entry == NULL || entry->offset == PLAN_NO_PLACE)
		return;
	CUdeviceptr offset = entry->offset;
	if (own->base == 0)
		reserve_range(r, own);
	if (r->heap->arena->request.plan == own && !own->begun &&
	    own->follow.believed)
		begin_range(
		    r, own, entry >= own->plan->entries + own->plan->round);
	if (r->heap->arena->request.plan == own)
		r->planned = own->base + offset;
}

enum weir_status
plan_map_place(struct request *r, enum grow_how how, size_t new_most)
{
	struct grow_at at = { .addr = r->planned,
		.size = r->rounded,
		.request = r->rounded,
		.new_most = new_most };

	lock_assert_held(&r->heap->arena->lock);
	ASSERT(r->planned != 0 && r->got == NULL);
	if (map_in_range(r, &at, how) != WEIR_OK ||
	    r->heap->arena->memory.forgotten)
		return WEIR_OK;
	r->place = r->planned;
	return search_place(r);
}
