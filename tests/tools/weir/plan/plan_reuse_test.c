/*
 * plan_reuse.h: who had memory before, part by part.
 */
#include "tools/weir/plan/plan_reuse.h"

#include <string.h>

#include "tests/support/test.h"
#include "tools/weir/plan/plan_rounds.h"

static uint32_t had[64];
static unsigned had_count;

static void
note(void *about, uint32_t request)
{
	EXPECT_EQ(about, &had_count);
	EXPECT_LT(had_count, 64);
	had[had_count++] = request;
}

/* Give a range; so many requests had some of it. */
static void
give_range(struct plan_reuse *reuse, uint64_t begin, uint64_t end,
    uint32_t request, unsigned count)
{
	const struct plan_owned given = { begin, end, request };

	had_count = 0;
	EXPECT(plan_reuse_give(reuse, &given, note, &had_count));
	EXPECT_EQ(had_count, count);
}

TEST(each_request_that_had_some_of_a_range_is_named)
{
	struct plan_reuse reuse = { 0 };

	give_range(&reuse, 100, 200, 1, 0);
	give_range(&reuse, 300, 400, 2, 0);
	give_range(&reuse, 200, 300, 3, 0);
	give_range(&reuse, 150, 350, 4, 3);
	EXPECT_EQ(had[0], 1);
	EXPECT_EQ(had[1], 3);
	EXPECT_EQ(had[2], 2);
	/* What it did not get is still the others'. */
	give_range(&reuse, 100, 150, 5, 1);
	EXPECT_EQ(had[0], 1);
	give_range(&reuse, 350, 400, 6, 1);
	EXPECT_EQ(had[0], 2);
	plan_reuse_drop(&reuse);
}

TEST(a_range_within_another_one_leaves_both_its_ends)
{
	struct plan_reuse reuse = { 0 };

	give_range(&reuse, 100, 400, 1, 0);
	give_range(&reuse, 200, 300, 2, 1);
	give_range(&reuse, 0, 1000, 3, 3);
	EXPECT_EQ(had[0], 1);
	EXPECT_EQ(had[1], 2);
	EXPECT_EQ(had[2], 1);
	plan_reuse_drop(&reuse);
}

TEST(a_range_that_is_given_to_none_is_forgotten)
{
	struct plan_reuse reuse = { 0 };

	for (uint32_t i = 0; i < 300; i++)
		give_range(&reuse, i * 10, i * 10 + 10, i, 0);
	give_range(&reuse, 500, 1005, PLAN_NO_REQUEST, 51);
	give_range(&reuse, 500, 1000, 7, 0);
	give_range(&reuse, 1000, 1010, 8, 1);
	EXPECT_EQ(had[0], 100);
	plan_reuse_drop(&reuse);
}
