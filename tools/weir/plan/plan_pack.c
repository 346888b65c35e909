/*
 * Packs a round by four orders and two ways to choose a gap.
 */
#include "tools/weir/plan/plan_pack.h"

#include <stdlib.h>

#include "tools/weir/tool.h"

enum pack_order {
	PACK_BY_SIZE,
	PACK_BY_LIFE,
	PACK_BY_AREA,
	PACK_BY_START,
	PACK_ORDERS
};

struct pack_item {
	uint32_t index; /* in the plan */
	uint32_t stream;
	uint64_t size;
	uint64_t life;         /* until its free, in requests */
	uint64_t offset;       /* when it is placed */
	const uint32_t *lives; /* for each stream */
};

struct packing {
	uint32_t round;  /* the round's first request */
	uint32_t length; /* requests of the round */
	uint32_t count;  /* of those that are to get a place */
	struct pack_item *items;
	/* The first `fixed` ones, of the round, have their places already. */
	struct pack_item **placed; /* by offset */
	uint32_t placed_count;
	uint32_t fixed;
	uint64_t bytes;
};

/* ---- Orders ------------------------------------------------------------ */

static int
compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int
compare_start(const void *one, const void *other)
{
	const struct pack_item *a = one;
	const struct pack_item *b = other;

	return compare_numbers(a->index, b->index);
}

/* Larger values come first; among equal ones, the larger size, then the earlier
 * start. */
static int
larger_first(uint64_t a_value, uint64_t b_value, const struct pack_item *a,
    const struct pack_item *b)
{
	int order = compare_numbers(b_value, a_value);

	if (order == 0)
		order = compare_numbers(b->size, a->size);
	return order != 0 ? order : compare_start(a, b);
}

static int
compare_size(const void *one, const void *other)
{
	const struct pack_item *a = one;
	const struct pack_item *b = other;

	if (a->size == b->size)
		return larger_first(a->life, b->life, a, b);
	return larger_first(a->size, b->size, a, b);
}

static int
compare_life(const void *one, const void *other)
{
	const struct pack_item *a = one;
	const struct pack_item *b = other;

	return larger_first(a->life, b->life, a, b);
}

/* Sizes are below 2^48 and lives below 2^16. */
static int
compare_area(const void *one, const void *other)
{
	const struct pack_item *a = one;
	const struct pack_item *b = other;

	return larger_first(a->size * a->life, b->size * b->life, a, b);
}

static int (*const pack_orders[PACK_ORDERS])(const void *, const void *) = {
	[PACK_BY_SIZE] = compare_size,
	[PACK_BY_LIFE] = compare_life,
	[PACK_BY_AREA] = compare_area,
	[PACK_BY_START] = compare_start,
};

/* ---- Places ------------------------------------------------------------ */

/* Must two requests of the round not have the same bytes? The one that begins
 * later must wait until its stream may use the memory of the other, in this
 * round or the next. */
static bool
is_in_conflict_round(const struct packing *packing, const struct pack_item *a,
    const struct pack_item *b)
{
	uint32_t from_a = a->index < b->index ?
	    b->index - a->index :
	    packing->length - (a->index - b->index);
	uint32_t from_b = packing->length - from_a;

	return a->lives[b->stream] > from_a || b->lives[a->stream] > from_b;
}

static bool
is_in_conflict(const struct packing *packing, const struct pack_item *a,
    const struct pack_item *b)
{
	if (a->index >= packing->round && b->index >= packing->round)
		return is_in_conflict_round(packing, a, b);
	if (a->index < b->index)
		return a->lives[b->stream] > b->index - a->index;
	return b->lives[a->stream] > a->index - b->index;
}

/* Find a gap between the placed requests that are in conflict: the lowest, or
 * the tightest. */
static uint64_t
find_gap(
    const struct packing *packing, const struct pack_item *item, bool tightest)
{
	uint64_t best = UINT64_MAX;
	uint64_t best_size = UINT64_MAX;
	uint64_t end = 0; /* of all that is in conflict so far */

	for (uint32_t i = 0; i < packing->placed_count; i++) {
		const struct pack_item *other = packing->placed[i];

		if (!is_in_conflict(packing, item, other))
			continue;
		if (other->offset >= end + item->size &&
		    other->offset - end < best_size) {
			best = end;
			best_size = other->offset - end;
			if (!tightest)
				return best;
		}
		if (end < other->offset + other->size)
			end = other->offset + other->size;
	}
	return best != UINT64_MAX ? best : end;
}

static void
place_item(struct packing *packing, struct pack_item *item, bool tightest)
{
	uint32_t i = packing->placed_count;

	item->offset = find_gap(packing, item, tightest);
	packing->placed_count++;
	for (; i > 0 && packing->placed[i - 1]->offset > item->offset; i--)
		packing->placed[i] = packing->placed[i - 1];
	packing->placed[i] = item;
	if (packing->bytes < item->offset + item->size)
		packing->bytes = item->offset + item->size;
}

static int
compare_offset(const void *one, const void *other)
{
	const struct pack_item *const *a = one;
	const struct pack_item *const *b = other;

	return compare_numbers((*a)->offset, (*b)->offset);
}

static void
pack_once(struct packing *packing, enum pack_order order, bool tightest)
{
	struct pack_item *items = packing->items + packing->fixed;
	uint32_t count = packing->count - packing->fixed;

	qsort(items, count, sizeof(*items), pack_orders[order]);
	packing->placed_count = packing->fixed;
	packing->bytes = 0;
	for (uint32_t i = 0; i < packing->fixed; i++)
		packing->placed[i] = &packing->items[i];
	qsort(packing->placed, packing->fixed, sizeof(struct pack_item *),
	    compare_offset);
	for (uint32_t i = 0; i < count; i++)
		place_item(packing, &items[i], tightest);
}

/* Pack those that are not fixed as well as possible; returns the bytes. */
static uint64_t
pack_best(struct packing *packing, struct plan *plan)
{
	uint64_t best = UINT64_MAX;

	for (int n = 0; n < 2 * PACK_ORDERS; n++) {
		pack_once(packing, (enum pack_order)(n / 2), n % 2 != 0);
		if (packing->bytes >= best)
			continue;
		best = packing->bytes;
		for (uint32_t i = packing->fixed; i < packing->count; i++)
			plan->entries[packing->items[i].index].offset =
			    packing->items[i].offset;
	}
	return best;
}

/* ---- The bound --------------------------------------------------------- */

/* The most bytes of the round that are live at once, in rounds without end. */
static uint64_t
live_peak(const struct packing *packing, int64_t *changes)
{
	int64_t live = 0;
	int64_t peak = 0;

	for (uint32_t i = 0; i < packing->count; i++) {
		const struct pack_item *item = &packing->items[i];
		uint64_t begin = item->index - packing->round;
		uint64_t end = begin + item->life;

		changes[begin] += (int64_t)item->size;
		changes[end % packing->length] -= (int64_t)item->size;
		if (end >= packing->length)
			live += (int64_t)item->size; /* at the begin */
	}
	for (uint32_t i = 0; i < packing->length; i++) {
		live += changes[i];
		if (peak < live)
			peak = live;
	}
	return (uint64_t)peak;
}

/* ---- Packing ----------------------------------------------------------- */

static void
add_item(struct packing *packing, const struct plan *plan,
    const struct plan_lives *lives, uint32_t i)
{
	packing->items[packing->count++] = (struct pack_item){
		.index = i,
		.stream = plan->entries[i].stream,
		.size = plan->entries[i].size,
		.life = lives->live[i],
		.lives = &lives->lives[(size_t)i * lives->streams],
	};
}

/* Pack the round. */
static void
pack_round(struct packing *packing, struct plan *plan,
    const struct plan_lives *lives, int64_t *changes)
{
	for (uint32_t i = plan->round; i < plan->count; i++) {
		size_t own =
		    (size_t)i * lives->streams + plan->entries[i].stream;

		if (lives->lives[own] <= packing->length)
			add_item(packing, plan, lives, i);
	}
	plan->live_bytes = live_peak(packing, changes);
	plan->round_bytes = pack_best(packing, plan);
	plan->bytes = plan->round_bytes;
}

/* Pack what comes before the round, beside its requests. The first requests
 * come before the plan is believed. */
static void
pack_start(
    struct packing *packing, struct plan *plan, const struct plan_lives *lives)
{
	uint64_t bytes;

	packing->fixed = packing->count;
	for (uint32_t i = 0; i < packing->fixed; i++)
		packing->items[i].offset =
		    plan->entries[packing->items[i].index].offset;
	for (uint32_t i = PLAN_SEEN - 1; i < plan->round; i++)
		add_item(packing, plan, lives, i);
	bytes = pack_best(packing, plan);
	if (plan->bytes < bytes)
		plan->bytes = bytes;
}

bool
plan_pack(struct plan *plan, const struct plan_lives *lives, bool from_start)
{
	struct packing packing = {
		.round = plan->round,
		.length = plan_round_length(plan),
		.items = calloc(plan->count, sizeof(*packing.items)),
		.placed = calloc(plan->count, sizeof(struct pack_item *)),
	};
	int64_t *changes = calloc(packing.length, sizeof(*changes));
	bool done =
	    packing.items != NULL && packing.placed != NULL && changes != NULL;

	if (done) {
		pack_round(&packing, plan, lives, changes);
		if (from_start)
			pack_start(&packing, plan, lives);
	} else
		complain("out of memory");
	free(packing.items);
	free(packing.placed);
	free(changes);
	return done;
}
