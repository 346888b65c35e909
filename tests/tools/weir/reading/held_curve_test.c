/*
 * Held memory through time, in equal parts.
 */
#include "tools/weir/reading/held_curve.h"

#include "tests/support/test.h"

static uint64_t
part_of(json_t *list, unsigned part)
{
	return (uint64_t)json_integer_value(json_array_get(list, part));
}

TEST(a_part_has_the_most_that_was_held_in_it)
{
	struct held_curve curve;
	json_t *list;

	held_curve_begin(&curve, HELD_CURVE_PARTS * 10);
	held_curve_add(&curve, 0, 5);
	held_curve_add(&curve, 3, 50);
	held_curve_add(&curve, 6, 20);
	held_curve_add(&curve, 45, 7);
	list = held_curve_json(&curve);
	EXPECT_EQ(json_array_size(list), HELD_CURVE_PARTS);
	EXPECT_EQ(part_of(list, 0), 50);
	/* Memory stays held while nothing happens. */
	EXPECT_EQ(part_of(list, 1), 20);
	EXPECT_EQ(part_of(list, 3), 20);
	/* The part in which memory was given back still held it. */
	EXPECT_EQ(part_of(list, 4), 20);
	EXPECT_EQ(part_of(list, 5), 7);
	EXPECT_EQ(part_of(list, HELD_CURVE_PARTS - 1), 7);
	json_decref(list);
}

TEST(times_beyond_the_span_are_the_last_part)
{
	struct held_curve curve;
	json_t *list;

	held_curve_begin(&curve, 100);
	held_curve_add(&curve, 5000, 9);
	held_curve_add(&curve, 50, 8);
	list = held_curve_json(&curve);
	EXPECT_EQ(part_of(list, HELD_CURVE_PARTS - 2), 0);
	EXPECT_EQ(part_of(list, HELD_CURVE_PARTS - 1), 9);
	json_decref(list);
}

TEST(a_trace_without_times_has_its_peak_in_the_first_part)
{
	struct held_curve curve;
	json_t *list;

	held_curve_begin(&curve, 0);
	held_curve_add(&curve, 0, 9);
	held_curve_add(&curve, 0, 4);
	list = held_curve_json(&curve);
	EXPECT_EQ(part_of(list, 0), 9);
	EXPECT_EQ(part_of(list, 1), 4);
	json_decref(list);
}
