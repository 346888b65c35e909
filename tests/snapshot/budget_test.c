/*
 * The limit of memory for reading a file.
 */
#include "snapshot/budget.h"

#include "base/meta.h"
#include "base/os.h"
#include "tests/support/test.h"

TEST(a_small_file_has_the_lesser_of_two_allowances)
{
	struct budget budget = { .stored = 1000, .decoded = 1000 };

	EXPECT_EQ(budget_limit(&budget), (64u << 20) + 64 * 1000);
	budget.decoded = 100 << 20;
	EXPECT_EQ(budget_limit(&budget), (256u << 20) + 256 * 1000);
}

TEST(no_file_may_take_more_than_half_of_the_machine)
{
	struct budget budget = { .stored = UINT64_MAX, .decoded = UINT64_MAX };

	EXPECT_EQ(budget_limit(&budget), os_memory_bytes() / 2);
}

TEST(a_limit_of_the_user_holds_in_place_of_all)
{
	struct budget budget = { .most = 10, .stored = 1 << 20 };

	EXPECT_EQ(budget_limit(&budget), 10);
	EXPECT_EQ(budget_check(&budget, 10), WEIR_OK);
	EXPECT_EQ(budget_check(&budget, 11), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 10 bytes of memory");
	EXPECT_STR_HAS(weir_last_error(), "first 1.00 MiB of the file");
	EXPECT_STR_HAS(weir_last_error(), "--read-memory");
	budget.most = UINT64_MAX;
	EXPECT_EQ(budget_limit(&budget), UINT64_MAX);
}

TEST(metadata_is_counted_from_where_it_was)
{
	struct budget budget = { .most = 5000, .before = meta_bytes() };
	void *block = meta_alloc(4000);

	budget_enforce(&budget);
	EXPECT_NULL(meta_alloc(4000));
	EXPECT_EQ(budget_explain(&budget, WEIR_EHOSTMEM), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 4.88 KiB of memory");
	EXPECT_EQ(budget_explain(&budget, WEIR_OK), WEIR_OK);
	budget_release();
	void *more = meta_alloc(4000);
	EXPECT_NOT_NULL(more);
	meta_free(more, 4000);
	meta_free(block, 4000);
}

/* With the smallest file, half of the machine is far above the limit. */
TEST(a_machine_without_memory_is_not_taken_for_the_budget)
{
	struct budget budget = { .before = meta_bytes() };

	budget_enforce(&budget);
	meta_fail(1, 1);
	EXPECT_NULL(meta_alloc(4000));
	meta_fail(0, 0);
	EXPECT_EQ(budget_explain(&budget, WEIR_EHOSTMEM), WEIR_EHOSTMEM);
	budget_release();
}
