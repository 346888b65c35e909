/*
 * plan_runs.h: the longest run of a row is found, as by trying all of them.
 */
#include "tools/weir/plan/plan_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tools/weir/plan/tuning.h"

enum { LONGEST = 40, ROWS = 20000 };

/* The row of a text: a letter is a size, and a capital one of another stream.
 */
static uint32_t
row_of(const char *text, struct plan_request *list)
{
	uint32_t count = (uint32_t)strlen(text);

	for (uint32_t i = 0; i < count; i++)
		list[i] = (struct plan_request){ .size = (uint64_t)text[i] & 31,
			.stream = text[i] < 'a' };
	return count;
}

static struct plan_run
longest_of(const char *text, uint32_t most)
{
	struct plan_request list[LONGEST] = { 0 };
	struct plan_run run;

	EXPECT(plan_longest_run(list, row_of(text, list), most, &run));
	return run;
}

static bool
has_period(const char *text, uint32_t first, uint32_t length, uint32_t period)
{
	for (uint32_t i = first + period; i < first + length; i++)
		if (text[i] != text[i - period])
			return false;
	return true;
}

/* By trying each run that counts. */
static struct plan_run
longest_tried(const char *text, uint32_t most)
{
	struct plan_run best = { 0 };
	uint32_t count = (uint32_t)strlen(text);

	for (uint32_t length = count; length > 1 && best.length == 0; length--)
		for (uint32_t period = 1;
		     period <= length / PLANNED_ROUNDS && best.length == 0;
		     period++)
			for (uint32_t first = 0; first + length <= count;
			     first++)
				if ((first + length == count ||
					length > count / 2) &&
				    first + period <= most &&
				    has_period(text, first, length, period))
					best = (struct plan_run){ first, length,
						period };
	return best;
}

static void
expect_run(const char *text, uint32_t first, uint32_t length, uint32_t period)
{
	struct plan_run run = longest_of(text, LONGEST);

	EXPECT_EQ(run.first, first);
	EXPECT_EQ(run.length, length);
	EXPECT_EQ(run.period, period);
}

TEST(the_longest_run_counts)
{
	expect_run("", 0, 0, 0);
	expect_run("a", 0, 0, 0);
	expect_run("abcdef", 0, 0, 0);
	expect_run("xyabcabcab", 2, 8, 3);
	expect_run("abababab", 0, 8, 2);
	expect_run("aaaa", 0, 4, 1);
	/* Requests of two streams differ. */
	expect_run("xyaBabab", 4, 4, 2);
}

TEST(a_run_may_end_before_the_end_if_it_has_more_than_half_of_the_requests)
{
	expect_run("xyabcabcabcpqrs", 2, 9, 3);
	expect_run("xyabcabcpqrs", 0, 0, 0);
	expect_run("xyabcabcabczz", 2, 9, 3);
	/* Those to the end need not have as many. */
	expect_run("xyabcuvwabczz", 11, 2, 1);
}

TEST(a_run_whose_first_period_ends_too_late_counts_if_there_is_no_other)
{
	const char *text = "uvwxyzabcabcabc";

	EXPECT_EQ(longest_of(text, 9).length, 9);
	EXPECT_EQ(longest_of(text, 8).length, 9);
	text = "abcdefghabcdefghzz";
	EXPECT_EQ(longest_of(text, 17).length, 16);
	EXPECT_EQ(longest_of(text, 18).length, 16);
	text = "aaaaaaaabcdabcdabcd";
	EXPECT_EQ(longest_of(text, 11).length, 12);
	EXPECT_EQ(longest_of(text, 10).length, 12);
}

/* Of few letters, with repetitions, so that there are runs of all kinds. */
static void
draw_row(unsigned *seed, char *text)
{
	unsigned count = (unsigned)rand_r(seed) % LONGEST;
	unsigned period = 1 + (unsigned)rand_r(seed) % 9;

	for (unsigned i = 0; i < count; i++)
		text[i] = i >= period && rand_r(seed) % 12 > 0 ?
		    text[i - period] :
		    (char)('a' + rand_r(seed) % 3);
	text[count] = '\0';
}

TEST(a_run_is_found_as_by_trying_all)
{
	unsigned seed = 7;
	unsigned found = 0;

	for (unsigned i = 0; i < ROWS; i++) {
		char text[LONGEST + 1] = "";

		draw_row(&seed, text);
		struct plan_run run = longest_of(text, LONGEST);
		struct plan_run tried = longest_tried(text, LONGEST);
		if (run.length != tried.length || run.period != tried.period ||
		    !has_period(text, run.first, run.length, run.period))
			fprintf(stderr, "# %s\n", text);
		EXPECT_EQ(run.length, tried.length);
		EXPECT_EQ(run.period, tried.period);
		EXPECT(has_period(text, run.first, run.length, run.period));
		found += run.length > 0;
	}
	EXPECT_GT(found, ROWS / 10);
	EXPECT_LT(found, ROWS);
}
