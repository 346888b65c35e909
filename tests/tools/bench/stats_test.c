/*
 * The median and the percentiles of samples.
 */
#include "tools/bench/bench.h"

#include "tests/support/test.h"

static bool
near(double a, double b)
{
	return a - b < 1e-9 && b - a < 1e-9;
}

TEST(one_sample_is_its_own_spread)
{
	double samples[] = { 7.5 };
	struct spread spread = spread_of(samples, 1);

	EXPECT(near(spread.median, 7.5));
	EXPECT(near(spread.p10, 7.5));
	EXPECT(near(spread.p90, 7.5));
}

TEST(the_median_of_an_odd_count_is_the_one_in_the_middle)
{
	double samples[] = { 9, 1, 5, 3, 7 };

	EXPECT(near(spread_of(samples, 5).median, 5));
}

TEST(the_median_of_an_even_count_is_between_two)
{
	double samples[] = { 4, 1, 3, 2 };

	EXPECT(near(spread_of(samples, 4).median, 2.5));
}

TEST(the_tenths_of_eleven_samples_are_the_second_and_the_tenth)
{
	double samples[] = { 10, 0, 3, 1, 7, 2, 5, 4, 9, 6, 8 };
	struct spread spread = spread_of(samples, 11);

	EXPECT(near(spread.p10, 1));
	EXPECT(near(spread.median, 5));
	EXPECT(near(spread.p90, 9));
}

TEST(one_sample_far_off_moves_the_median_no_further_than_to_its_neighbour)
{
	double samples[] = { 10, 11, 12, 13, 100000 };

	EXPECT(near(spread_of(samples, 5).median, 12));
}

TEST(the_dice_roll_the_same_in_each_run_and_not_the_same_twice)
{
	struct dice a = { 1 };
	struct dice b = { 1 };
	uint64_t last = 0;

	for (int i = 0; i < 1000; i++) {
		uint64_t roll = dice_roll(&a);

		EXPECT_EQ(roll, dice_roll(&b));
		EXPECT_NE(roll, last);
		last = roll;
	}
}
