/*
 * The counts of memory outside weir.
 */
#include "allocator/account/outside.h"

#include <stdint.h>
#include <string.h>

#include "tests/support/test.h"

static struct weir_stat
counted_handles(void)
{
	struct weir_stats stats;

	outside_read(0, &stats);
	return stats.outside_handles;
}

TEST(a_claim_counts_at_once_and_raises_the_peak_when_it_is_kept)
{
	EXPECT(outside_claim(0, OUTSIDE_handles, 100, 150));
	EXPECT_EQ(counted_handles().current, 100);
	EXPECT_EQ(counted_handles().peak, 0);
	outside_keep(0, OUTSIDE_handles, 100);
	EXPECT_EQ(counted_handles().peak, 100);
	EXPECT_EQ(counted_handles().allocated, 100);
	outside_release(0, OUTSIDE_handles, 100);
	EXPECT_EQ(counted_handles().current, 0);
	EXPECT_EQ(counted_handles().freed, 100);
	EXPECT_EQ(counted_handles().peak, 100);
}

TEST(a_claim_that_is_dropped_leaves_no_trace)
{
	struct weir_stat before = counted_handles();
	struct weir_stat after;

	EXPECT(outside_claim(0, OUTSIDE_handles, 1000, SIZE_MAX));
	outside_drop(0, OUTSIDE_handles, 1000);
	after = counted_handles();
	EXPECT_EQ(memcmp(&before, &after, sizeof(after)), 0);
	EXPECT_EQ(outside_bytes(0), 0);
}

TEST(claims_of_all_kinds_share_the_most)
{
	EXPECT(outside_claim(0, OUTSIDE_handles, 100, 150));
	EXPECT(!outside_claim(0, OUTSIDE_arrays, 51, 150));
	EXPECT(outside_claim(0, OUTSIDE_arrays, 50, 150));
	EXPECT(!outside_claim(0, OUTSIDE_managed, 1, 150));
	/* Another device has its own. */
	EXPECT(outside_claim(1, OUTSIDE_managed, 150, 150));
	EXPECT_EQ(outside_bytes(0), 150);
	EXPECT_EQ(outside_bytes(1), 150);
}

TEST(imported_memory_is_counted_and_in_no_limit)
{
	struct weir_stats stats;

	outside_add(0, OUTSIDE_imported, 70);
	outside_read(0, &stats);
	EXPECT_EQ(stats.outside_imported.current, 70);
	EXPECT_EQ(outside_bytes(0), 0);
}

TEST(a_measured_kind_goes_up_and_down)
{
	struct weir_stats stats;

	outside_set(0, OUTSIDE_contexts, 500);
	outside_set(0, OUTSIDE_contexts, 300);
	outside_read(0, &stats);
	EXPECT_EQ(stats.outside_contexts.current, 300);
	EXPECT_EQ(stats.outside_contexts.peak, 500);
	EXPECT_EQ(stats.outside_contexts.freed, 200);
	EXPECT_EQ(outside_bytes(0), 300);
	outside_reset_peaks(0);
	outside_reset_sums(0);
	outside_read(0, &stats);
	EXPECT_EQ(stats.outside_contexts.peak, 300);
	EXPECT_EQ(stats.outside_contexts.freed, 0);
}

TEST(the_description_names_the_kinds_that_hold_memory)
{
	char text[OUTSIDE_TEXT];

	outside_describe(0, text);
	EXPECT_STR_EQ(text, "nothing");
	outside_add(0, OUTSIDE_managed, 1 << 20);
	outside_add(0, OUTSIDE_handles, 2 << 20);
	outside_describe(0, text);
	EXPECT_STR_EQ(
	    text, "2.00 MiB of cuMemCreate, 1.00 MiB of managed memory");
}
