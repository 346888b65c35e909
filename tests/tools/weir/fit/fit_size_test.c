/*
 * Formulas of sizes, from what two or three recordings have.
 */
#include "tools/weir/fit/fit_size.h"

#include "tests/support/test.h"

static struct fit_numbers
batches(unsigned runs, double ask)
{
	struct fit_numbers numbers = {
		.runs = runs, .names = 1, .name = { "batch" }
	};

	for (unsigned r = 0; r < runs; r++)
		numbers.was[r][0] = 2 << r;
	numbers.ask[0] = ask;
	return numbers;
}

static struct fit_value
found(const struct fit_numbers *numbers, const double *seen, double grain)
{
	static const bool all[FIT_RUNS] = { true, true, true, true, true, true,
		true, true };
	struct fit_value value;

	fit_find(numbers, seen, all, grain, &value);
	return value;
}

TEST(an_equal_size_is_constant)
{
	struct fit_numbers numbers = batches(2, 64);
	struct fit_value value = found(&numbers, (double[]){ 4096, 4096 }, 512);

	EXPECT_EQ(value.value, 4096.0);
	EXPECT_EQ(value.grade, FIT_EXACT);
	EXPECT_STR_EQ(value.text, "4096");
}

TEST(a_size_in_proportion_is_a_product)
{
	struct fit_numbers numbers = batches(3, 64);
	struct fit_value value =
	    found(&numbers, (double[]){ 2000, 4000, 8000 }, 512);

	EXPECT_EQ(value.value, 64000.0);
	EXPECT_EQ(value.grade, FIT_EXACT);
	EXPECT_STR_EQ(value.text, "1000 * batch");
}

TEST(a_square_is_found)
{
	struct fit_numbers numbers = batches(2, 20);
	struct fit_value value =
	    found(&numbers, (double[]){ 40000, 160000 }, 512);

	EXPECT_EQ(value.value, 4000000.0);
	EXPECT_EQ(value.grade, FIT_EXACT);
	EXPECT_STR_EQ(value.text, "10000 * batch^2");
}

TEST(a_square_that_not_all_recordings_have_is_a_chance)
{
	struct fit_numbers numbers = batches(3, 16);
	const bool known[FIT_RUNS] = { true, false, true };
	struct fit_value value;

	fit_find(
	    &numbers, (double[]){ 1 << 20, 0, 16 << 20 }, known, 512, &value);
	EXPECT_LE(value.value, 32 << 20);
	EXPECT_GE(value.grade, FIT_GUESSED);
}

/* The kernel of the smallest recording is another one. */
TEST(sizes_that_leave_one_rest_of_whole_pages_are_of_one_kernel)
{
	struct fit_numbers numbers = batches(3, 104);
	struct fit_value value =
	    found(&numbers, (double[]){ 10027008, 10601127, 18989735 }, 512);

	EXPECT_EQ(value.value, 220316327.0);
	EXPECT_EQ(value.grade, FIT_EXACT);
}

TEST(a_size_that_is_shared_out_is_a_quotient)
{
	struct fit_numbers numbers = batches(3, 16);

	EXPECT_EQ(found(&numbers, (double[]){ 80000, 40000, 20000 }, 512).value,
	    10000.0);
}

TEST(a_constant_beside_a_product_needs_three_recordings_to_be_sure)
{
	struct fit_numbers numbers = batches(3, 32);
	struct fit_value value =
	    found(&numbers, (double[]){ 12000, 14000, 18000 }, 512);

	EXPECT_EQ(value.value, 42000.0);
	EXPECT_EQ(value.grade, FIT_EXACT);
	numbers.runs = 2;
	value = found(&numbers, (double[]){ 12000, 14000 }, 512);
	EXPECT_EQ(value.value, 42000.0);
	EXPECT_EQ(value.grade, FIT_GUESSED);
}

TEST(a_product_of_two_numbers_is_found)
{
	struct fit_numbers numbers = { .runs = 3,
		.names = 2,
		.name = { "batch", "length" },
		.was = { { 2, 128 }, { 4, 128 }, { 4, 256 } },
		.ask = { 16, 1024 } };
	struct fit_value value = found(
	    &numbers, (double[]){ 256 * 40., 512 * 40., 1024 * 40. }, 512);

	EXPECT_EQ(value.value, 16 * 1024 * 40.0);
	EXPECT_EQ(value.grade, FIT_EXACT);
}

TEST(rounded_sizes_are_still_a_product)
{
	struct fit_numbers numbers = batches(3, 64);
	struct fit_value value =
	    found(&numbers, (double[]){ 200192, 400384, 800256 }, 512);

	EXPECT_EQ(value.grade, FIT_ROUNDED);
	EXPECT_GT(value.value, 6390000.0);
	EXPECT_LT(value.value, 6410000.0);
}

TEST(a_small_recording_of_another_kind_is_left_out)
{
	struct fit_numbers numbers = batches(3, 32);
	struct fit_value value =
	    found(&numbers, (double[]){ 7777777, 400000, 800000 }, 512);

	EXPECT_EQ(value.value, 3200000.0);
	EXPECT_EQ(value.grade, FIT_GUESSED);
}

TEST(what_no_formula_matches_grows_as_a_power_and_says_so)
{
	struct fit_numbers numbers = batches(3, 32);
	struct fit_value value =
	    found(&numbers, (double[]){ 1000000, 8000000, 13000000 }, 512);

	EXPECT_EQ(value.grade, FIT_UNKNOWN);
	EXPECT_GT(value.value, 13000000.0);
	EXPECT_LE(value.value, 52000000.0);
	EXPECT_GT(value.error, 0.0);
}

TEST(a_count_may_have_a_constant_below_zero)
{
	struct fit_numbers numbers = batches(2, 128);

	EXPECT_EQ(found(&numbers, (double[]){ 1, 3 }, 0).value, 127.0);
}

TEST(a_recording_without_the_quantity_does_not_count)
{
	struct fit_numbers numbers = batches(3, 32);
	bool known[FIT_RUNS] = { false, true, true };
	struct fit_value value;

	fit_find(&numbers, (double[]){ 0, 4000, 8000 }, known, 512, &value);
	EXPECT_EQ(value.value, 32000.0);
}

TEST(a_mean_that_wavers_is_constant)
{
	struct fit_numbers numbers = batches(3, 64);
	static const bool all[FIT_RUNS] = { true, true, true };
	struct fit_value value;

	fit_find_rough(
	    &numbers, (double[]){ 1000, 1080, 960 }, all, 0.2, &value);
	EXPECT_EQ(value.value, 960.0);
	fit_find_rough(
	    &numbers, (double[]){ 1000, 2100, 3900 }, all, 0.2, &value);
	EXPECT_EQ(value.value, 31200.0);
}

TEST(a_value_without_the_smallest_recording_may_be_off_by_the_others)
{
	struct fit_numbers numbers = batches(3, 16);
	struct fit_value value =
	    found(&numbers, (double[]){ 8 << 20, 16 << 20, 16 << 20 }, 512);

	EXPECT_EQ(value.value, 16.0 * (1 << 20));
	EXPECT_EQ(value.grade, FIT_GUESSED);
	EXPECT_EQ(value.error, 24.0 * (1 << 20));
}
