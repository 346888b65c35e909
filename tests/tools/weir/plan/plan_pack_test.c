/*
 * plan_pack.h: no two requests lie in the same bytes at the same time, and the
 * range is nearly as small as it can be.
 */
#include "tools/weir/plan/plan_pack.h"

#include <stdlib.h>

#include "tests/support/test.h"

enum { START = 20, ROUND = 60, COUNT = START + ROUND, STREAMS = 2 };

static uint64_t state = 1;

static uint32_t
any_below(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1;
	return (uint32_t)(state >> 33) % n;
}

/* A plan without places, and lives for it. A request's other stream may use its
 * memory later than its own. */
static struct plan *
random_plan(uint32_t streams, struct plan_lives *lives)
{
	struct plan *plan;

	EXPECT_EQ(plan_new(COUNT, &plan), WEIR_OK);
	plan->round = START;
	plan->streams = streams;
	*lives = (struct plan_lives){
		.count = COUNT,
		.streams = streams,
		.lives = calloc((size_t)COUNT * streams, sizeof(uint32_t)),
		.live = calloc(COUNT, sizeof(uint32_t)),
	};
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t own = any_below(streams);

		plan->entries[i] = (struct plan_entry){
			.size = (1 + any_below(40)) * (uint64_t)PLAN_GRANULE,
			.offset = PLAN_NO_PLACE,
			.stream = own,
		};
		lives->live[i] = 1 + any_below(ROUND + 4);
		for (uint32_t s = 0; s < streams; s++)
			lives->lives[i * streams + s] =
			    lives->live[i] + (s == own ? 0 : any_below(9));
	}
	return plan;
}

/* Pack for these lives. */
static void
pack(struct plan *plan, const struct plan_lives *lives, bool from_start)
{
	const struct plan_packing how = {
		.lives = lives,
		.unit = plan_round_length(plan),
		.from_start = from_start,
	};

	EXPECT_EQ(plan_pack(plan, &how), true);
	EXPECT_EQ(plan_verify(plan), WEIR_OK);
}

/* May request b, `distance` requests after a, have a's bytes? */
static void
expect_apart(const struct plan *plan, const struct plan_lives *lives,
    uint32_t a, uint32_t b, uint32_t distance)
{
	const struct plan_entry *one = &plan->entries[a];
	const struct plan_entry *other = &plan->entries[b];
	uint32_t life = lives->lives[a * lives->streams + other->stream];

	if (one->offset == PLAN_NO_PLACE || other->offset == PLAN_NO_PLACE ||
	    life <= distance)
		return;
	EXPECT_EQ(one->offset + one->size <= other->offset ||
		other->offset + other->size <= one->offset,
	    true);
}

/* Play three rounds. */
static void
expect_all_apart(const struct plan *plan, const struct plan_lives *lives)
{
	enum { PLAYED = START + 3 * ROUND };

	for (uint32_t i = 0; i < PLAYED; i++)
		for (uint32_t j = i + 1; j < PLAYED; j++) {
			uint32_t a =
			    i < COUNT ? i : START + (i - START) % ROUND;
			uint32_t b =
			    j < COUNT ? j : START + (j - START) % ROUND;

			expect_apart(plan, lives, a, b, j - i);
		}
}

TEST(requests_that_live_at_one_time_lie_apart)
{
	for (uint32_t n = 0; n < 40; n++) {
		struct plan_lives lives;
		struct plan *plan = random_plan(1 + n % STREAMS, &lives);

		pack(plan, &lives, n % 4 < 2);
		expect_all_apart(plan, &lives);
		EXPECT_LE(plan->live_bytes, plan->round_bytes);
		plan_free(plan);
		plan_lives_drop(&lives);
	}
}

TEST(a_request_that_lives_longer_than_a_round_has_no_place)
{
	struct plan_lives lives;
	struct plan *plan = random_plan(1, &lives);

	lives.lives[START + 3] = ROUND + 1;
	lives.lives[START + 4] = PLAN_NO_REQUEST;
	lives.lives[START + 5] = ROUND;
	pack(plan, &lives, false);
	EXPECT_EQ(plan->entries[START + 3].offset, PLAN_NO_PLACE);
	EXPECT_EQ(plan->entries[START + 4].offset, PLAN_NO_PLACE);
	EXPECT_NE(plan->entries[START + 5].offset, PLAN_NO_PLACE);
	for (uint32_t i = 0; i < START; i++)
		EXPECT_EQ(plan->entries[i].offset, PLAN_NO_PLACE);
	plan_free(plan);
	plan_lives_drop(&lives);
}

/* Blocks of a forward pass that a backward pass frees, the last one first, with
 * a short one after each: a stack, which the bound fits. */
TEST(a_stack_is_packed_without_loss)
{
	struct plan_lives lives;
	struct plan *plan = random_plan(1, &lives);

	for (uint32_t i = 0; i < ROUND; i++) {
		uint32_t life = 1;

		if (i < ROUND / 2 && i % 2 == 0)
			life = ROUND - 2 * i - 1;
		lives.lives[START + i] = life;
		lives.live[START + i] = life;
	}
	pack(plan, &lives, false);
	EXPECT_EQ(plan->round_bytes, plan->live_bytes);
	plan_free(plan);
	plan_lives_drop(&lives);
}

/* ---- Longer lives ------------------------------------------------------- */

/* Lives that are `more` requests longer for the streams that are not the
 * request's own. */
static struct plan_lives
longer_lives(
    const struct plan *plan, const struct plan_lives *lives, uint32_t more)
{
	struct plan_lives longer = *lives;
	size_t n = (size_t)COUNT * lives->streams;

	longer.lives = calloc(n, sizeof(uint32_t));
	longer.live = calloc(COUNT, sizeof(uint32_t));
	for (size_t i = 0; i < n; i++)
		longer.lives[i] = lives->lives[i] +
		    (i % lives->streams ==
				plan->entries[i / lives->streams].stream ?
			    0 :
			    more);
	return longer;
}

static void
pack_both(struct plan *plan, const struct plan_lives *lives,
    const struct plan_lives *longer, uint64_t most)
{
	const struct plan_packing how = {
		.lives = lives,
		.longer = longer,
		.parts = 1,
		.round_most = most,
		.range_most = most,
		.unit = ROUND,
	};

	for (uint32_t i = 0; i < COUNT; i++)
		plan->entries[i].offset = PLAN_NO_PLACE;
	EXPECT_EQ(plan_pack(plan, &how), true);
	EXPECT_EQ(plan_verify(plan), WEIR_OK);
}

enum { FEW = 20, EARLY = 0, LATE = 8, OTHER = 16 };

/* A request with these lives, for its own stream and for the other one. */
static void
set_request(struct plan *plan, struct plan_lives *lives, uint32_t i,
    uint32_t stream, uint32_t own_life, uint32_t other_life)
{
	plan->entries[i].stream = stream;
	lives->lives[2 * i + stream] = own_life;
	lives->lives[2 * i + 1 - stream] = other_life;
}

/* Two requests of one stream, and one of another stream that comes after both
 * and must have the place of one of them. None of the others has a place. */
static struct plan *
plan_of_two_streams(struct plan_lives *lives)
{
	struct plan *plan;

	EXPECT_EQ(plan_new(FEW, &plan), WEIR_OK);
	plan->streams = 2;
	*lives = (struct plan_lives){
		.count = FEW,
		.streams = 2,
		.lives = calloc((size_t)FEW * 2, sizeof(uint32_t)),
		.live = calloc(FEW, sizeof(uint32_t)),
	};
	for (uint32_t i = 0; i < FEW; i++) {
		plan->entries[i] = (struct plan_entry){ .size = PLAN_GRANULE,
			.offset = PLAN_NO_PLACE };
		lives->live[i] = 1;
		set_request(plan, lives, i, 0, FEW + 1, FEW + 1);
	}
	lives->live[LATE] = 2; /* it is packed first */
	set_request(plan, lives, EARLY, 0, LATE + 1, LATE + 1);
	set_request(plan, lives, LATE, 0, 1, OTHER - LATE - 1);
	set_request(plan, lives, OTHER, 1, 1, 1);
	return plan;
}

/* Pack them in two places, with longer lives for the other stream. */
static struct plan *
pack_in_two_places(unsigned parts)
{
	struct plan_lives lives;
	struct plan *plan = plan_of_two_streams(&lives);
	struct plan_lives longer = lives;
	const struct plan_packing how = {
		.lives = &lives,
		.longer = &longer,
		.parts = parts,
		.round_most = 2 * PLAN_GRANULE,
		.range_most = 2 * PLAN_GRANULE,
		.unit = FEW,
	};

	longer.lives = calloc((size_t)FEW * 2, sizeof(uint32_t));
	for (size_t i = 0; i < (size_t)FEW * 2; i++)
		longer.lives[i] = lives.lives[i];
	longer.lives[2 * EARLY + 1] = FEW;
	longer.lives[2 * LATE + 1] = FEW;
	EXPECT_EQ(plan_pack(plan, &how), true);
	EXPECT_EQ(plan->round_bytes, 2 * PLAN_GRANULE);
	EXPECT_EQ(plan->entries[LATE].offset, 0);
	EXPECT_EQ(plan->entries[EARLY].offset, PLAN_GRANULE);
	free(longer.lives);
	plan_lives_drop(&lives);
	return plan;
}

TEST(a_request_that_waits_lies_where_it_waits_least_if_longer_lives_have_parts)
{
	struct plan *lowest = pack_in_two_places(1);
	struct plan *readiest = pack_in_two_places(4);

	EXPECT_EQ(lowest->entries[OTHER].offset, lowest->entries[LATE].offset);
	EXPECT_EQ(
	    readiest->entries[OTHER].offset, readiest->entries[EARLY].offset);
	plan_free(lowest);
	plan_free(readiest);
}

TEST(longer_lives_count_as_far_as_their_bytes_are_allowed)
{
	unsigned larger = 0;

	for (uint32_t n = 0; n < 20; n++) {
		struct plan_lives lives;
		struct plan *plan = random_plan(STREAMS, &lives);
		struct plan_lives longer = longer_lives(plan, &lives, 12);

		pack(plan, &lives, false);
		uint64_t least = plan->round_bytes;
		pack_both(plan, &lives, &longer, UINT64_MAX);
		expect_all_apart(plan, &longer);
		uint64_t all = plan->round_bytes;
		larger += least < all;
		/* As if there were none. */
		pack_both(plan, &lives, &longer, 0);
		EXPECT_EQ(plan->round_bytes, least);
		pack_both(plan, &lives, &longer, (least + all) / 2);
		expect_all_apart(plan, &lives);
		EXPECT_LE(plan->round_bytes, all);
		plan_free(plan);
		plan_lives_drop(&lives);
		plan_lives_drop(&longer);
	}
	EXPECT_GT(larger, 10);
}

/* ---- Units -------------------------------------------------------------- */

enum { UNITS = 3, UNIT = ROUND / UNITS };

/* A round of equal units, in which requests live up to `most` requests. Another
 * stream than their own may never use the memory. */
static struct plan *
plan_of_units_beside(uint32_t streams, uint32_t most, struct plan_lives *lives)
{
	struct plan *plan = random_plan(streams, lives);

	for (uint32_t i = START; i < COUNT; i++) {
		uint32_t first = START + (i - START) % UNIT;
		uint32_t own = plan->entries[first].stream;

		if (i == first)
			lives->live[i] = 1 + any_below(most);
		lives->live[i] = lives->live[first];
		for (uint32_t s = 0; s < streams; s++)
			lives->lives[i * streams + s] =
			    s == own ? lives->live[i] : PLAN_NO_REQUEST;
		plan->entries[i].size = plan->entries[first].size;
		plan->entries[i].stream = own;
	}
	return plan;
}

static struct plan *
plan_of_units(uint32_t most, struct plan_lives *lives)
{
	return plan_of_units_beside(1, most, lives);
}

static void
pack_units_of(struct plan *plan, const struct plan_lives *lives, uint32_t unit)
{
	const struct plan_packing how = { .lives = lives, .unit = unit };

	for (uint32_t i = 0; i < COUNT; i++)
		plan->entries[i].offset = PLAN_NO_PLACE;
	EXPECT_EQ(plan_pack(plan, &how), true);
	EXPECT_EQ(plan_verify(plan), WEIR_OK);
	expect_all_apart(plan, lives);
}

TEST(requests_that_live_within_a_unit_have_one_place_in_all_units)
{
	for (uint32_t n = 0; n < 20; n++) {
		struct plan_lives lives;
		struct plan *plan =
		    plan_of_units_beside(1 + n % 2, UNIT / 3, &lives);

		pack_units_of(plan, &lives, UNIT);
		for (uint32_t i = START + UNIT; i < COUNT; i++)
			EXPECT_EQ(plan->entries[i].offset,
			    plan->entries[i - UNIT].offset);
		plan_free(plan);
		plan_lives_drop(&lives);
	}
}

/* One request of the unit lives longer than that, and has other places. */
TEST(requests_that_live_longer_than_a_unit_lie_apart_from_themselves)
{
	struct plan_lives lives;
	struct plan *plan = plan_of_units(UNIT / 3, &lives);

	for (uint32_t i = START; i < COUNT; i += UNIT) {
		plan->entries[i].size = PLAN_GRANULE;
		lives.live[i] = UNIT + 4;
		lives.lives[i] = UNIT + 4;
	}
	pack_units_of(plan, &lives, UNIT);
	EXPECT_NE(
	    plan->entries[START].offset, plan->entries[START + UNIT].offset);
	EXPECT_EQ(plan->entries[START + 1].offset,
	    plan->entries[START + 1 + UNIT].offset);
	plan_free(plan);
	plan_lives_drop(&lives);
}

/* A large request that lives longer than a unit leaves, in each unit, another
 * hole for what is not live with it. Some requests lie in these holes, and have
 * other places in each unit; the range is not larger for the rest. */
TEST(only_what_would_need_more_memory_has_other_places_in_each_unit)
{
	unsigned alike = 0;

	for (uint32_t n = 0; n < 20; n++) {
		struct plan_lives lives;
		struct plan *plan = plan_of_units(UNIT / 3, &lives);

		for (uint32_t i = START; i < COUNT; i += UNIT) {
			plan->entries[i].size = 30 * (uint64_t)PLAN_GRANULE;
			lives.live[i] = UNIT + 2;
			lives.lives[i] = UNIT + 2;
		}
		pack_units_of(plan, &lives, ROUND);
		uint64_t least = plan->round_bytes;
		pack_units_of(plan, &lives, UNIT);
		EXPECT_LE(plan->round_bytes, least + least / 100);
		for (uint32_t i = START; i < START + UNIT; i++)
			alike += plan->entries[i].offset ==
				plan->entries[i + UNIT].offset &&
			    plan->entries[i].offset ==
				plan->entries[i + 2 * UNIT].offset;
		plan_free(plan);
		plan_lives_drop(&lives);
	}
	EXPECT_GT(alike, 20 * UNIT / 3);
}

/* ---- As recorded ------------------------------------------------------- */

/* Three requests of one size, each of which lives until the next one. In the
 * recording the second one lay behind a gap, and the third one where the first
 * was. Finds their offsets, in sizes; the round may have so many sizes. */
static void
pack_recorded(uint64_t sizes_most, uint64_t offsets[3])
{
	const uint64_t size = 8 * (uint64_t)PLAN_GRANULE;
	uint32_t lives[3] = { 1, 1, 1 };
	uint64_t addrs[3] = { 40 * size, 90 * size, 40 * size };
	struct plan_lives known = { .count = 3,
		.streams = 1,
		.lives = lives,
		.live = lives,
		.addrs = addrs };
	const struct plan_packing how = { .lives = &known,
		.unit = 3,
		.round_most = sizes_most * size,
		.as_recorded = true };
	struct plan *plan;

	EXPECT_EQ(plan_new(3, &plan), WEIR_OK);
	plan->streams = 1;
	for (uint32_t i = 0; i < 3; i++)
		plan->entries[i] = (struct plan_entry){ .size = size,
			.offset = PLAN_NO_PLACE };
	EXPECT_EQ(plan_pack(plan, &how), true);
	for (uint32_t i = 0; i < 3; i++)
		offsets[i] = plan->entries[i].offset / size;
	plan_free(plan);
}

TEST(requests_lie_as_recorded_without_the_gaps)
{
	uint64_t offsets[3];

	pack_recorded(2, offsets);
	EXPECT_EQ(offsets[0], 0);
	EXPECT_EQ(offsets[1], 1);
	EXPECT_EQ(offsets[2], 0);
}

TEST(a_request_whose_recorded_place_is_too_high_lies_elsewhere)
{
	uint64_t offsets[3];

	pack_recorded(1, offsets);
	EXPECT_EQ(offsets[0], 0);
	EXPECT_EQ(offsets[1], 0);
	EXPECT_EQ(offsets[2], 0);
}
