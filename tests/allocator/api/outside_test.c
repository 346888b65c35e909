/*
 * Claims of memory outside weir, beside weir's own growth.
 */
#include "allocator/account/outside.h"
#include "allocator/allocator.h"
#include "tests/support/device.h"

TEST(a_limit_on_all_memory_is_shared_with_weir_s_own)
{
	EXPECT_OK(weir_options_set("memory_limit_mb:256,limit_counts:all"));
	EXPECT_OK(
	    allocator_claim_outside(0, OUTSIDE_handles, (size_t)200 * MIB));
	EXPECT_NULL(weir_malloc((size_t)100 * MIB, NULL));
	EXPECT_EQ(weir_last_status(), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "200.00 MiB of cuMemCreate");
	void *ptr = take(40 * MIB, NULL);
	EXPECT_STATUS(
	    allocator_claim_outside(0, OUTSIDE_managed, (size_t)100 * MIB),
	    WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "200.00 MiB of cuMemCreate");
	give(ptr);
	trim(0);
	outside_release(0, OUTSIDE_handles, (size_t)200 * MIB);
	EXPECT_OK(
	    allocator_claim_outside(0, OUTSIDE_managed, (size_t)256 * MIB));
	outside_drop(0, OUTSIDE_managed, (size_t)256 * MIB);
}

TEST(a_limit_on_weir_s_memory_refuses_no_claim)
{
	void *ptr;

	EXPECT_OK(weir_options_set("memory_limit_mb:256"));
	EXPECT_OK(
	    allocator_claim_outside(0, OUTSIDE_handles, (size_t)300 * MIB));
	ptr = take(200 * MIB, NULL);
	EXPECT_OK(
	    allocator_claim_outside(0, OUTSIDE_managed, (size_t)300 * MIB));
	give(ptr);
}

TEST(free_memory_is_what_the_limit_leaves_of_all)
{
	size_t free_bytes;
	size_t total;

	EXPECT_OK(weir_options_set("memory_limit_mb:256,limit_counts:all"));
	EXPECT_OK(allocator_claim_outside(0, OUTSIDE_arrays, (size_t)56 * MIB));
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_EQ(total, (size_t)256 * MIB);
	EXPECT_EQ(free_bytes, (size_t)200 * MIB);
	void *ptr = take(50 * MIB, NULL);
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_EQ(free_bytes, (size_t)150 * MIB);
	give(ptr);
	EXPECT_OK(weir_options_set("show_device:real"));
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_GT(total, (size_t)256 * MIB);
}
