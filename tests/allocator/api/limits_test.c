/*
 * Limits and trimming: a limit that is set is reported, and holds.
 */
#include <math.h>

#include "allocator/memory/arena.h"
#include "tests/support/device.h"

TEST(there_is_no_limit_before_one_is_set)
{
	size_t bytes = 0;
	double fraction = 0;

	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, SIZE_MAX);
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT_EQ(fraction, 1.0);
}

TEST(a_limit_set_before_the_first_allocation_holds)
{
	size_t bytes = 0;

	EXPECT_OK(weir_limit_set(0, 64 * MIB));
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, 64 * MIB);
	char *ptr = take(60 * MIB, NULL);
	EXPECT_NO_MEMORY(weir_malloc(8 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_LE(stats().reserved_bytes.all.peak, 64 * MIB);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	take(8 * MIB, NULL);
	give(ptr);
	expect_healthy();
}

TEST(memory_that_is_held_stays_under_a_lower_limit)
{
	char *ptr = take(32 * MIB, NULL);

	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	EXPECT_GE(stats().reserved_bytes.all.current, 32 * MIB);
	EXPECT_NO_MEMORY(weir_malloc(4 * MIB, NULL), WEIR_ENOMEM);
	give(ptr);
	take(16 * MIB, NULL); /* from what is held */
	EXPECT_NO_MEMORY(weir_malloc(40 * MIB, NULL), WEIR_ENOMEM);
	expect_healthy();
}

TEST(a_fraction_is_of_the_device_s_memory)
{
	size_t total = 0;
	size_t bytes = 0;
	double fraction = 0;

	EXPECT_OK(weir_fraction_set(0, 0.25));
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT_LE(fabs(fraction - 0.25), 1e-6);
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_OK(weir_fraction_set(0, 1));
	EXPECT_OK(weir_memory_info(0, NULL, &total));
	EXPECT_EQ(bytes, (size_t)(0.25 * (double)total));
}

/* A limit that the options set is seen before the first allocation, and no
 * arena is made for the question. */
TEST(a_limit_of_the_options_is_seen_from_the_first_query_on)
{
	size_t free_bytes = 0;
	size_t total = 0;
	size_t bytes = 0;
	double fraction = 0;

	conf("memory_limit_mb:64");
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_EQ(total, 64 * MIB);
	EXPECT_EQ(free_bytes, 64 * MIB);
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, 64 * MIB);
	EXPECT_NULL(arena_peek(0));
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT_LE(fraction, 0.1);
	EXPECT_NULL(arena_peek(0));
	give(take(32 * MIB, NULL));
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_EQ(total, 64 * MIB);
	EXPECT_EQ(free_bytes, 64 * MIB);
}

TEST(a_fraction_of_the_options_is_seen_from_the_first_query_on)
{
	size_t whole = 0;
	size_t free_bytes = 0;
	size_t total = 0;

	EXPECT_OK(weir_memory_info(0, NULL, &whole));
	conf("per_process_memory_fraction:0.25");
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_EQ(total, (size_t)(0.25 * (double)whole));
	EXPECT_LE(free_bytes, total);
}

TEST(a_wrong_fraction_changes_nothing)
{
	const double wrong[] = { -0.1, 1.1, NAN, INFINITY };
	double fraction = 0;

	EXPECT_OK(weir_fraction_set(0, 0.5));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EXPECT_STATUS(weir_fraction_set(0, wrong[i]), WEIR_EINVAL);
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT_LE(fabs(fraction - 0.5), 1e-6);
}

TEST(a_place_for_the_answer_and_a_device_are_needed)
{
	size_t bytes;

	EXPECT_STATUS(weir_limit_get(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_fraction_get(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_limit_set(1000, MIB), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_limit_get(1000, &bytes), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_trim(1000, 0, &bytes), WEIR_ENODEVICE);
}

TEST(a_trim_keeps_the_requested_bytes)
{
	size_t freed = 0;

	conf("tcache:0");
	for (int i = 0; i < 4; i++)
		take(16 * MIB, NULL);
	uint64_t used = stats().reserved_bytes.all.current;
	char *ptr = take(64 * MIB, NULL);
	give(ptr);
	uint64_t held = stats().reserved_bytes.all.current;
	EXPECT_OK(weir_trim(0, held - used, &freed));
	EXPECT_EQ(freed, 0);
	EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, &freed));
	EXPECT_EQ(freed, held - used);
	EXPECT_EQ(stats().reserved_bytes.all.current, used);
	EXPECT_OK(weir_trim(0, 0, NULL));
	expect_healthy();
}
