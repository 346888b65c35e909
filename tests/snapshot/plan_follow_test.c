/*
 * plan_follow.h: which entry of a plan a program's request is.
 */
#include "snapshot/plan_follow.h"

#include "tests/support/test.h"

enum { START = 4, ROUND = 12, COUNT = START + ROUND, MIB = 1 << 20 };

/* A plan of START requests and ROUND more, of two streams, and of sizes that
 * are all different. Each has the place of its number. */
static struct plan *
numbered_plan(void)
{
	struct plan *plan;

	EXPECT_EQ(plan_new(COUNT, &plan), WEIR_OK);
	plan->bytes = plan->round_bytes = (uint64_t)1 << 30;
	plan->round = START;
	plan->streams = 2;
	for (uint32_t i = 0; i < COUNT; i++)
		plan->entries[i] = (struct plan_entry){
			.size = (i + 2) * (uint64_t)MIB,
			.offset = i * (uint64_t)512,
			.stream = i % 2,
		};
	EXPECT_EQ(plan_verify(plan), WEIR_OK);
	return plan;
}

/* Make the request of an entry. The streams of the program are 70 and 71. */
static const struct plan_entry *
make(struct plan_follow *follow, uint32_t i)
{
	const struct plan_entry *entry = &follow->plan->entries[i];

	return plan_follow(follow, 70 + entry->stream, entry->size);
}

static void
make_all(struct plan_follow *follow, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		make(follow, i);
}

static void
expect_round(struct plan_follow *follow, uint32_t from)
{
	for (uint32_t i = from; i < COUNT; i++)
		EXPECT_EQ(make(follow, i), &follow->plan->entries[i]);
}

/* A request that the plan does not have. */
static void
make_other(struct plan_follow *follow)
{
	EXPECT_NULL(plan_follow(follow, 70, 300 * (uint64_t)MIB));
}

TEST(a_program_follows_from_its_first_request_on_and_is_believed_later)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	for (uint32_t i = 0; i < PLAN_SEEN - 1; i++) {
		EXPECT_EQ(make(&follow, i), &plan->entries[i]);
		EXPECT_EQ(follow.believed, false);
	}
	expect_round(&follow, PLAN_SEEN - 1);
	EXPECT_EQ(follow.believed, true);
	for (int n = 0; n < 3; n++)
		expect_round(&follow, START);
	EXPECT_EQ(follow.rounds, 4);
	EXPECT_EQ(follow.others, 0);
	plan_free(plan);
}

TEST(a_program_that_begins_otherwise_joins_at_the_round)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	for (int n = 0; n < 100; n++)
		make_other(&follow);
	EXPECT_EQ(follow.ended, false);
	make_all(&follow, START, START + PLAN_SEEN - 1);
	expect_round(&follow, START + PLAN_SEEN - 1);
	expect_round(&follow, START);
	plan_free(plan);
}

TEST(a_stream_that_is_another_one_is_a_difference)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	make_all(&follow, 0, COUNT);
	EXPECT_NULL(plan_follow(&follow, 72, plan->entries[START].size));
	EXPECT_EQ(follow.unlike, 1);
	plan_free(plan);
}

TEST(streams_may_change_when_a_program_joins_again)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	make_all(&follow, 0, COUNT);
	for (uint32_t i = START; i < COUNT; i++) {
		const struct plan_entry *entry = &plan->entries[i];

		plan_follow(&follow, 90 + entry->stream, entry->size);
	}
	EXPECT_EQ(follow.away, true);
	for (uint32_t i = START; i < COUNT; i++) {
		const struct plan_entry *entry = &plan->entries[i];
		bool planned = plan_follow(&follow, 90 + entry->stream,
				   entry->size) != NULL;

		EXPECT_EQ(planned, i >= START + PLAN_SEEN - 1);
	}
	plan_free(plan);
}

TEST(one_request_more_or_less_makes_no_other_one_strange)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	make_all(&follow, 0, COUNT);
	EXPECT_EQ(make(&follow, START), &plan->entries[START]);
	make_other(&follow);
	EXPECT_EQ(make(&follow, START + 1), &plan->entries[START + 1]);
	EXPECT_EQ(make(&follow, START + 3), &plan->entries[START + 3]);
	expect_round(&follow, START + 4);
	EXPECT_EQ(follow.differing, 1);
	expect_round(&follow, START);
	EXPECT_EQ(follow.differing, 0);
	plan_free(plan);
}

TEST(the_last_request_of_a_round_may_be_missing)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	make_all(&follow, 0, COUNT - 1);
	expect_round(&follow, START);
	EXPECT_EQ(follow.differing, 0);
	EXPECT_EQ(follow.rounds, 1);
	plan_free(plan);
}

TEST(a_plan_ends_after_rounds_in_a_row_that_differ)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;

	plan_follow_begin(&follow, plan);
	make_all(&follow, 0, COUNT);
	for (int n = 1; n <= PLAN_DIFFERING; n++) {
		EXPECT_EQ(follow.ended, false);
		make_other(&follow);
		make_all(&follow, START, COUNT);
		EXPECT_EQ(follow.differing, n);
	}
	EXPECT_EQ(follow.ended, true);
	plan_free(plan);
}

TEST(a_plan_ends_in_a_program_that_does_not_come_back)
{
	struct plan *plan = numbered_plan();
	struct plan_follow follow;
	unsigned made = 0;

	plan_follow_begin(&follow, plan);
	make_all(&follow, 0, COUNT);
	while (!follow.ended && made++ < 1000)
		make_other(&follow);
	EXPECT_EQ(made, PLAN_SEEN + (PLAN_DIFFERING - 1) * ROUND);
	plan_free(plan);
}

TEST(a_round_of_one_request_is_followed)
{
	struct plan *plan;
	struct plan_follow follow;

	EXPECT_EQ(plan_new(1, &plan), WEIR_OK);
	plan->bytes = plan->round_bytes = 4 * (uint64_t)MIB;
	plan->streams = 1;
	plan->entries[0].size = 4 * (uint64_t)MIB;
	EXPECT_EQ(plan_verify(plan), WEIR_OK);
	plan_follow_begin(&follow, plan);
	for (int n = 0; n < 4; n++)
		EXPECT_EQ(make(&follow, 0), &plan->entries[0]);
	EXPECT_EQ(follow.rounds, 4);
	make_other(&follow);
	EXPECT_EQ(make(&follow, 0), &plan->entries[0]);
	plan_free(plan);
}
