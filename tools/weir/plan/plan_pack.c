/*
 * Packs a round by four orders and two ways to choose a gap.
 */
#include "tools/weir/plan/plan_pack.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/plan/tuning.h"
#include "tools/weir/tool.h"

enum pack_order {
	PACK_BY_SIZE,
	PACK_BY_LIFE,
	PACK_BY_AREA,
	PACK_BY_START,
	PACK_BY_ADDRESS,
	PACK_ORDERS
};

struct pack_item {
	uint32_t index; /* in the plan */
	uint32_t stream;
	uint64_t size;
	uint32_t period; /* in the round, it comes again after so many */
	uint64_t life;   /* until its free, in requests */
	uint64_t addr;   /* in the recording */
	/* The offset with which it would lie as in the recording, without what
	 * no request has there; UINT64_MAX: not known. */
	uint64_t recorded;
	uint64_t offset;        /* when it is placed */
	uint32_t *lives;        /* for each stream */
	const uint32_t *longer; /* likewise; NULL: as `lives` */
};

/* The share of the longer lives that counts: parts of so many. */
struct pack_share {
	unsigned parts;
	unsigned of;
};

struct packing {
	const struct plan_packing *how;
	uint32_t round;  /* the round's first request */
	uint32_t length; /* requests of the round */
	uint32_t unit;   /* requests that have one place in each unit */
	uint32_t count;  /* of the items: requests that are to get a place */
	uint64_t most;   /* bytes up to which longer lives count */
	bool *apart;     /* requests of the first unit that have other places in
			  * each unit, although they live within a unit */
	struct pack_item *items;
	uint32_t *lives; /* of the items: for each, those for all streams */
	/* The first `fixed` ones, of the round, have their places already. */
	struct pack_item **placed; /* by offset */
	uint32_t placed_count;
	uint32_t fixed;
	uint64_t bytes;
	uint32_t elsewhere; /* placed ones that do not lie as recorded */
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

static int
compare_address(const void *one, const void *other)
{
	const struct pack_item *a = one;
	const struct pack_item *b = other;
	int order = compare_numbers(a->addr, b->addr);

	return order != 0 ? order : compare_start(a, b);
}

static int (*const pack_orders[PACK_ORDERS])(const void *, const void *) = {
	[PACK_BY_SIZE] = compare_size,
	[PACK_BY_LIFE] = compare_life,
	[PACK_BY_AREA] = compare_area,
	[PACK_BY_START] = compare_start,
	[PACK_BY_ADDRESS] = compare_address,
};

/* ---- Places ------------------------------------------------------------ */

/* How long a request keeps its memory from the stream of another one: its life,
 * and a share of what its longer life has more. */
static uint64_t
life_for(const struct pack_item *a, const struct pack_item *b,
    struct pack_share share)
{
	uint64_t life = a->lives[b->stream];

	if (share.parts > 0 && a->longer[b->stream] > life)
		life += (a->longer[b->stream] - life) * share.parts / share.of;
	return life;
}

/* Must two requests of the round not have the same bytes? The one that begins
 * later must wait until its stream may use the memory of the other, in this
 * round or the next. The one with the shorter period comes again in between. */
static bool
is_in_conflict_round(const struct pack_item *a, const struct pack_item *b,
    struct pack_share share)
{
	uint32_t period = a->period < b->period ? a->period : b->period;
	uint32_t apart = a->index < b->index ? (b->index - a->index) % period :
					       (a->index - b->index) % period;
	uint32_t from_a = a->index < b->index ? apart : period - apart;

	return life_for(a, b, share) > from_a ||
	    life_for(b, a, share) > period - from_a;
}

static bool
is_in_conflict(const struct packing *packing, const struct pack_item *a,
    const struct pack_item *b, struct pack_share share)
{
	if (a->index >= packing->round && b->index >= packing->round)
		return is_in_conflict_round(a, b, share);
	if (a->index < b->index)
		return life_for(a, b, share) > b->index - a->index;
	return life_for(b, a, share) > a->index - b->index;
}

/* Find a gap between the placed requests that are in conflict: the lowest, or
 * the tightest. */
static uint64_t
find_gap(const struct packing *packing, const struct pack_item *item,
    bool tightest, struct pack_share share)
{
	uint64_t best = UINT64_MAX;
	uint64_t best_size = UINT64_MAX;
	uint64_t end = 0; /* of all that is in conflict so far */

	for (uint32_t i = 0; i < packing->placed_count; i++) {
		const struct pack_item *other = packing->placed[i];

		if (!is_in_conflict(packing, item, other, share))
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

/* Find a gap that ends within `most` bytes for as much of the longer lives as
 * possible: the less of them counts, the longer the request's stream waits. */
static uint64_t
find_place(
    const struct packing *packing, const struct pack_item *item, bool tightest)
{
	unsigned all = packing->how->longer != NULL ? packing->how->parts : 0;
	struct pack_share share = { .parts = all, .of = all };
	uint64_t offset = find_gap(packing, item, tightest, share);

	while (share.parts > 0 && offset + item->size > packing->most) {
		share.parts--;
		offset = find_gap(packing, item, tightest, share);
	}
	return offset;
}

/* May an item lie as in the recording? */
static bool
fits_as_recorded(const struct packing *packing, const struct pack_item *item)
{
	unsigned all = packing->how->longer != NULL ? packing->how->parts : 0;
	const struct pack_share share = { .parts = all, .of = all };
	uint64_t end = item->recorded + item->size;

	if (item->recorded % PLAN_GRANULE != 0 || end > packing->most)
		return false;
	for (uint32_t i = 0; i < packing->placed_count; i++) {
		const struct pack_item *other = packing->placed[i];

		if (other->offset < end &&
		    item->recorded < other->offset + other->size &&
		    is_in_conflict(packing, item, other, share))
			return false;
	}
	return true;
}

static void
place_item(struct packing *packing, struct pack_item *item, bool tightest)
{
	uint32_t i = packing->placed_count;

	if (fits_as_recorded(packing, item)) {
		item->offset = item->recorded;
	} else {
		item->offset = find_place(packing, item, tightest);
		packing->elsewhere++;
	}
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
	packing->elsewhere = 0;
	for (uint32_t i = 0; i < packing->fixed; i++)
		packing->placed[i] = &packing->items[i];
	qsort(packing->placed, packing->fixed, sizeof(struct pack_item *),
	    compare_offset);
	for (uint32_t i = 0; i < count; i++)
		place_item(packing, &items[i], tightest);
}

/* Set the offset of an item, in each unit. */
static void
set_offset(struct plan *plan, const struct pack_item *item)
{
	for (uint32_t i = item->index; i < plan->count; i += item->period)
		plan->entries[i].offset = item->offset;
}

/* Is the latest packing better than one of so many bytes, in which so many
 * requests do not lie as recorded? */
static bool
is_better_packing(
    const struct packing *packing, uint64_t bytes, uint32_t elsewhere)
{
	bool fits = packing->bytes <= packing->most;

	if (fits != (bytes <= packing->most))
		return fits;
	if (fits && packing->elsewhere != elsewhere)
		return packing->elsewhere < elsewhere;
	return packing->bytes < bytes;
}

/* Pack those that are not fixed as well as possible; returns the bytes. */
static uint64_t
pack_best(struct packing *packing, struct plan *plan)
{
	uint64_t best = UINT64_MAX;
	uint32_t elsewhere = 0;

	int orders = packing->how->as_recorded ? PACK_ORDERS : PACK_BY_ADDRESS;

	for (int n = 0; n < 2 * orders; n++) {
		pack_once(packing, (enum pack_order)(n / 2), n % 2 != 0);
		if (n > 0 && !is_better_packing(packing, best, elsewhere))
			continue;
		best = packing->bytes;
		elsewhere = packing->elsewhere;
		for (uint32_t i = packing->fixed; i < packing->count; i++)
			set_offset(plan, &packing->items[i]);
	}
	return best;
}

/* ---- The bound --------------------------------------------------------- */

/* May the stream of a request of the round use its memory again within a
 * round? */
static bool
has_place(const struct plan *plan, const struct plan_lives *lives, uint32_t i)
{
	return lives->lives[(size_t)i * lives->streams +
		   plan->entries[i].stream] <= plan_round_length(plan);
}

/* The most bytes of the round that are live at once, in rounds without end, of
 * the requests with a place. `changes` has a zero for each request. */
static uint64_t
live_peak(
    const struct plan *plan, const struct plan_lives *lives, int64_t *changes)
{
	uint32_t length = plan_round_length(plan);
	int64_t live = 0;
	int64_t peak = 0;

	for (uint32_t i = plan->round; i < plan->count; i++) {
		int64_t size = (int64_t)plan->entries[i].size;
		uint64_t end = i - plan->round + (uint64_t)lives->live[i];

		if (!has_place(plan, lives, i))
			continue;
		changes[i - plan->round] += size;
		changes[end % length] -= size;
		if (end >= length)
			live += size; /* at the begin */
	}
	for (uint32_t i = 0; i < length; i++) {
		live += changes[i];
		if (peak < live)
			peak = live;
	}
	return (uint64_t)peak;
}

/* ---- Packing ----------------------------------------------------------- */

/* Add an item for a request, with its lives. */
static struct pack_item *
add_item(struct packing *packing, const struct plan *plan, uint32_t i,
    uint32_t period)
{
	const struct plan_lives *lives = packing->how->lives;
	const struct plan_lives *longer = packing->how->longer;
	size_t first = (size_t)i * lives->streams;
	struct pack_item *item = &packing->items[packing->count];

	*item = (struct pack_item){
		.index = i,
		.stream = plan->entries[i].stream,
		.period = period,
		.size = plan->entries[i].size,
		.life = lives->live[i],
		.addr = lives->addrs != NULL ? lives->addrs[i] : 0,
		.recorded = UINT64_MAX,
		.lives =
		    packing->lives + (size_t)packing->count * lives->streams,
		.longer = longer != NULL ? &longer->lives[first] : NULL,
	};
	memcpy(item->lives, &lives->lives[first],
	    lives->streams * sizeof(*item->lives));
	packing->count++;
	return item;
}

/* Lengthen the lives of an item to those of a request in another unit. */
static void
join_item(struct pack_item *item, const struct plan_lives *lives, uint32_t i)
{
	for (uint32_t s = 0; s < lives->streams; s++) {
		uint32_t life = lives->lives[(size_t)i * lives->streams + s];

		if (item->lives[s] < life)
			item->lives[s] = life;
	}
}

/* May the request's own stream use its memory again within a unit, in each
 * unit? Those of other streams that may not lie apart from it. */
static bool
is_of_units(const struct packing *packing, const struct plan *plan, uint32_t i)
{
	const struct plan_lives *lives = packing->how->lives;

	for (; i < plan->count; i += packing->unit)
		if (lives->lives[(size_t)i * lives->streams +
			plan->entries[i].stream] > packing->unit)
			return false;
	return true;
}

/* Add a request of the first unit, and those of the other ones. */
static void
add_items(struct packing *packing, const struct plan *plan, uint32_t i)
{
	const struct plan_lives *lives = packing->how->lives;
	bool joined =
	    !packing->apart[i - plan->round] && is_of_units(packing, plan, i);
	struct pack_item *item = NULL;

	for (; i < plan->count; i += packing->unit)
		if (joined && item != NULL)
			join_item(item, lives, i);
		else if (has_place(plan, lives, i))
			item = add_item(packing, plan, i,
			    joined ? packing->unit : packing->length);
}

/* Find the offsets with which all items lie as in the recording. */
static void
find_recorded(struct packing *packing)
{
	uint64_t offset = 0;
	uint64_t end = 0; /* of the addresses so far */

	qsort(packing->items, packing->count, sizeof(*packing->items),
	    compare_address);
	for (uint32_t i = 0; i < packing->count; i++) {
		struct pack_item *item = &packing->items[i];
		uint64_t begin = item->addr > end ? item->addr : end;
		uint64_t item_end = item->addr + item->size;

		/* `offset` is that of `end`. */
		item->recorded = offset - (begin - item->addr);
		if (item_end <= end)
			continue;
		offset += item_end - begin;
		end = item_end;
	}
}

/* Pack the round, with places for each `unit` requests; returns the bytes. */
static uint64_t
pack_units(struct packing *packing, struct plan *plan, uint32_t unit)
{
	packing->unit = unit;
	packing->count = 0;
	packing->most = packing->how->round_most;
	for (uint32_t i = plan->round; i < plan->round + unit; i++)
		add_items(packing, plan, i);
	if (packing->how->as_recorded)
		find_recorded(packing);
	return pack_best(packing, plan);
}

/* Has an item one place in all units? */
static bool
is_joined(const struct packing *packing, const struct pack_item *item)
{
	return item->period < packing->length;
}

/* The largest item with one place in all units that is in the way of another
 * one; NULL: none is. */
static struct pack_item *
largest_in_the_way(const struct packing *packing, const struct pack_item *of)
{
	const struct pack_share no_share = { 0 };
	struct pack_item *largest = NULL;

	for (uint32_t i = 0; i < packing->count; i++) {
		struct pack_item *item = &packing->items[i];

		if (item != of && is_joined(packing, item) &&
		    (largest == NULL || item->size > largest->size) &&
		    is_in_conflict_round(item, of, no_share))
			largest = item;
	}
	return largest;
}

/* Take apart what lies above `most` bytes, or, if that is apart, the largest
 * that is in its way. False if there is nothing. */
static bool
take_apart(struct packing *packing, const struct plan *plan, uint64_t most)
{
	bool taken = false;

	for (uint32_t i = 0; i < packing->count; i++) {
		const struct pack_item *item = &packing->items[i];

		if (plan->entries[item->index].offset + item->size <= most)
			continue;
		if (!is_joined(packing, item))
			item = largest_in_the_way(packing, item);
		if (item == NULL)
			continue;
		packing->apart[item->index - packing->round] = true;
		taken = true;
	}
	return taken;
}

/* Pack the round, with one place in all units for as many requests as fit
 * `most` bytes; returns the bytes. */
static uint64_t
pack_alike(struct packing *packing, struct plan *plan, uint64_t most)
{
	for (int n = 0; n < PLANNED_APART; n++) {
		uint64_t bytes = pack_units(packing, plan, packing->how->unit);

		if (bytes <= most)
			return bytes;
		if (!take_apart(packing, plan, most))
			break;
	}
	return pack_units(packing, plan, packing->length);
}

static void
pack_round(struct packing *packing, struct plan *plan, int64_t *changes)
{
	uint64_t bytes = pack_units(packing, plan, packing->length);

	if (packing->how->unit < packing->length)
		bytes = pack_alike(
		    packing, plan, bytes + bytes / PLANNED_SAME_SHARE);
	plan->live_bytes = live_peak(plan, packing->how->lives, changes);
	plan->round_bytes = bytes;
	plan->bytes = bytes;
}

/* Pack what comes before the round, beside its requests. */
static void
pack_start(struct packing *packing, struct plan *plan)
{
	uint64_t bytes;

	packing->fixed = packing->count;
	packing->most = packing->how->range_most;
	for (uint32_t i = 0; i < packing->fixed; i++)
		packing->items[i].offset =
		    plan->entries[packing->items[i].index].offset;
	for (uint32_t i = 0; i < plan->round; i++)
		add_item(packing, plan, i, plan->count);
	bytes = pack_best(packing, plan);
	if (plan->bytes < bytes)
		plan->bytes = bytes;
}

bool
plan_pack(struct plan *plan, const struct plan_packing *how)
{
	size_t count = plan->count;
	struct packing packing = {
		.how = how,
		.round = plan->round,
		.length = plan_round_length(plan),
		.items = calloc(count, sizeof(*packing.items)),
		.lives =
		    calloc(count * how->lives->streams, sizeof(*packing.lives)),
		.placed = calloc(count, sizeof(struct pack_item *)),
		.apart = calloc(count, sizeof(bool)),
	};
	int64_t *changes = calloc(packing.length, sizeof(*changes));
	bool done = packing.items != NULL && packing.lives != NULL &&
	    packing.placed != NULL && packing.apart != NULL && changes != NULL;

	if (done) {
		pack_round(&packing, plan, changes);
		if (how->from_start)
			pack_start(&packing, plan);
	} else
		complain("out of memory");
	free(packing.items);
	free(packing.lives);
	free(packing.placed);
	free(packing.apart);
	free(changes);
	return done;
}
