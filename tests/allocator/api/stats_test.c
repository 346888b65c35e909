/*
 * Every counter: when it rises and when it falls, for the device and for each
 * stream, and the effects of the resets.
 */
#include "allocator/api/stats.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/device.h"

/* ---- Blocks and bytes -------------------------------------------------- */

TEST(a_device_that_was_not_used_reads_as_zeros)
{
	struct weir_stats s = stats();

	EXPECT_EQ(s.struct_size, sizeof(s));
#define EXPECT_ZERO(name)                                                      \
	EXPECT_EQ(s.name.all.current, 0);                                      \
	EXPECT_EQ(s.name.all.peak, 0);                                         \
	EXPECT_EQ(s.name.all.allocated, 0);                                    \
	EXPECT_EQ(s.name.all.freed, 0);
	WEIR_STAT3S(EXPECT_ZERO)
#undef EXPECT_ZERO
#define EXPECT_ZERO(name) EXPECT_EQ(s.name, 0);
	WEIR_COUNTERS(EXPECT_ZERO)
#undef EXPECT_ZERO
	EXPECT_EQ(s.pending_bytes, 0);
	EXPECT_EQ(s.max_split_size, SIZE_MAX);
}

/* A statistic's four numbers, each for all, small and large. */
static void
expect_stat(const struct weir_stat *stat, uint64_t current, uint64_t peak,
    uint64_t allocated, uint64_t freed)
{
	EXPECT_EQ(stat->current, current);
	EXPECT_EQ(stat->peak, peak);
	EXPECT_EQ(stat->allocated, allocated);
	EXPECT_EQ(stat->freed, freed);
}

TEST(a_malloc_and_a_free_are_counted_exactly)
{
	void *a = take(1000, NULL);
	struct weir_stats s = stats();

	expect_stat(&s.allocation.all, 1, 1, 1, 0);
	expect_stat(&s.allocation.small_pool, 1, 1, 1, 0);
	expect_stat(&s.allocation.large_pool, 0, 0, 0, 0);
	expect_stat(&s.allocated_bytes.all, 1024, 1024, 1024, 0);
	expect_stat(&s.allocated_bytes.small_pool, 1024, 1024, 1024, 0);
	expect_stat(&s.active.all, 1, 1, 1, 0);
	expect_stat(&s.active_bytes.all, 1024, 1024, 1024, 0);
	expect_stat(&s.requested_bytes.all, 1000, 1000, 1000, 0);
	expect_stat(&s.reserved_bytes.all, 2 * MIB, 2 * MIB, 2 * MIB, 0);
	expect_stat(&s.reserved_bytes.small_pool, 2 * MIB, 2 * MIB, 2 * MIB, 0);
	give(a);
	s = stats();
	expect_stat(&s.allocation.all, 0, 1, 1, 1);
	expect_stat(&s.allocated_bytes.all, 0, 1024, 1024, 1024);
	expect_stat(&s.active.all, 0, 1, 1, 1);
	expect_stat(&s.active_bytes.all, 0, 1024, 1024, 1024);
	expect_stat(&s.requested_bytes.all, 0, 1000, 1000, 1000);
	expect_stat(&s.reserved_bytes.all, 2 * MIB, 2 * MIB, 2 * MIB, 0);
	trim(0);
	s = stats();
	expect_stat(&s.reserved_bytes.all, 0, 2 * MIB, 2 * MIB, 2 * MIB);
}

TEST(small_and_large_blocks_are_counted_apart)
{
	take(512, NULL);
	void *b = take(3 * MIB, NULL);
	take(4 * MIB, NULL);
	give(b);
	struct weir_stats s = stats();
	expect_stat(&s.allocation.all, 2, 3, 3, 1);
	expect_stat(&s.allocation.small_pool, 1, 1, 1, 0);
	expect_stat(&s.allocation.large_pool, 1, 2, 2, 1);
	expect_stat(&s.active_bytes.all, 4 * MIB + 512, 7 * MIB + 512,
	    7 * MIB + 512, 3 * MIB);
	expect_stat(&s.active_bytes.small_pool, 512, 512, 512, 0);
	expect_stat(
	    &s.active_bytes.large_pool, 4 * MIB, 7 * MIB, 7 * MIB, 3 * MIB);
}

TEST(with_8_divisions_84_mib_count_as_88)
{
	conf("roundup_power2_divisions:8");
	void *a = take((size_t)84 * MIB, NULL);

	EXPECT_EQ(stats().allocated_bytes.all.current, 88 * MIB);
	EXPECT_EQ(stats().active_bytes.all.current, 88 * MIB);
	EXPECT_EQ(stats().requested_bytes.all.current, 84 * MIB);
	give(a);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(stats().requested_bytes.all.current, 0);
}

TEST(a_pending_block_is_active_but_not_allocated)
{
	weir_stream use = new_stream();
	void *a = take(2 * MIB, NULL);

	busy(use, LATE_MS);
	record(a, use);
	give(a);
	struct weir_stats s = stats();
	EXPECT_EQ(s.allocation.all.current, 0);
	EXPECT_EQ(s.allocated_bytes.all.current, 0);
	EXPECT_EQ(s.active.all.current, 1);
	EXPECT_EQ(s.active_bytes.all.current, 2 * MIB);
	EXPECT_EQ(s.requested_bytes.all.current, 2 * MIB);
	EXPECT_EQ(s.pending_bytes, 2 * MIB);
	finish(use);
	give(take(512, NULL)); /* any request polls for uses that have ended */
	s = stats();
	EXPECT_EQ(s.active.large_pool.current, 0);
	EXPECT_EQ(s.active_bytes.large_pool.current, 0);
	EXPECT_EQ(s.requested_bytes.large_pool.current, 0);
	EXPECT_EQ(s.pending_bytes, 0);
}

TEST(expandable_segments_are_no_segments_and_their_rests_not_inactive_splits)
{
	void *a = take(4 * MIB, NULL);

	take(4 * MIB, NULL);
	give(a);
	EXPECT_EQ(stats().segment.all.allocated, 0);
	EXPECT_EQ(stats().inactive_split.all.allocated, 0);
	EXPECT_EQ(stats().inactive_split_bytes.all.allocated, 0);
}

TEST(segments_of_the_driver_are_counted_as_they_come_and_go)
{
	conf("expandable_segments:False");
	void *a = take(512, NULL);
	void *b = take(4 * MIB, NULL);
	void *c = take(30 * MIB, NULL);
	struct weir_stats s = stats();

	expect_stat(&s.segment.all, 3, 3, 3, 0);
	expect_stat(&s.segment.small_pool, 1, 1, 1, 0);
	expect_stat(&s.segment.large_pool, 2, 2, 2, 0);
	EXPECT_EQ(s.reserved_bytes.all.current, 52 * MIB);
	EXPECT_EQ(s.num_device_alloc, 3);
	give(a);
	give(b);
	give(c);
	trim(0);
	s = stats();
	expect_stat(&s.segment.all, 0, 3, 3, 3);
	EXPECT_EQ(s.reserved_bytes.all.current, 0);
	EXPECT_EQ(s.num_device_free, 3);
}

TEST(free_parts_of_driver_segments_in_use_are_inactive_splits)
{
	conf("expandable_segments:False,tcache:0");
	void *a = take(4 * MIB, NULL);
	EXPECT_EQ(stats().inactive_split.all.current, 1);
	EXPECT_EQ(stats().inactive_split_bytes.all.current, 16 * MIB);
	void *b = take(4 * MIB, NULL);
	EXPECT_EQ(stats().inactive_split.all.current, 1);
	EXPECT_EQ(stats().inactive_split_bytes.all.current, 12 * MIB);
	give(a);
	EXPECT_EQ(stats().inactive_split.all.current, 2);
	EXPECT_EQ(stats().inactive_split_bytes.all.current, 16 * MIB);
	EXPECT_EQ(stats().inactive_split_bytes.large_pool.current, 16 * MIB);
	give(b);
	EXPECT_EQ(stats().inactive_split.all.current, 0);
	EXPECT_EQ(stats().inactive_split_bytes.all.current, 0);
	expect_healthy();
}

/* Only the net change counts as one up or one down. */
TEST(a_free_that_merges_counts_as_one_change_of_inactive_split)
{
	conf("expandable_segments:False,tcache:0");
	void *a = take(4 * MIB, NULL);
	take(4 * MIB, NULL);
	void *c = take(4 * MIB, NULL);
	struct weir_stats before = stats();

	give(c); /* merges with the 8 MiB after it */
	struct weir_stats s = stats();
	EXPECT_EQ(s.inactive_split.all.current, 1);
	EXPECT_EQ(s.inactive_split.all.allocated,
	    before.inactive_split.all.allocated);
	EXPECT_EQ(s.inactive_split.all.freed, before.inactive_split.all.freed);
	EXPECT_EQ(s.inactive_split_bytes.all.allocated,
	    before.inactive_split_bytes.all.allocated + 4 * MIB);
	EXPECT_EQ(s.inactive_split_bytes.all.freed,
	    before.inactive_split_bytes.all.freed);
	give(a);
	EXPECT_EQ(stats().inactive_split.all.current, 2);
}

TEST(oversize_blocks_and_segments_are_counted)
{
	conf("expandable_segments:False,max_split_size_mb:20");
	void *small = take(19 * MIB - 512, NULL);
	struct weir_stats s = stats();
	EXPECT_EQ(s.max_split_size, 20 * MIB);
	EXPECT_EQ(s.oversize_allocations.allocated, 0);
	void *large = take(30 * MIB, NULL);
	uint64_t segments = stats().oversize_segments.current;
	s = stats();
	expect_stat(&s.oversize_allocations, 1, 1, 1, 0);
	EXPECT_GE(segments, 1);
	give(large);
	give(small);
	s = stats();
	expect_stat(&s.oversize_allocations, 0, 1, 1, 1);
	EXPECT_EQ(s.oversize_segments.current, segments);
	/* The option may change meanwhile: the counted block is subtracted
	 * again. */
	conf("max_split_size_mb:unlimited");
	trim(0);
	s = stats();
	EXPECT_EQ(s.oversize_segments.current, 0);
	EXPECT_EQ(s.oversize_segments.freed, segments);
	expect_healthy();
}

TEST(an_oversize_block_is_taken_back_as_it_was_counted)
{
	void *a = take(30 * MIB, NULL);

	conf("max_split_size_mb:20");
	void *b = take(30 * MIB, NULL);
	EXPECT_EQ(stats().oversize_allocations.current, 1);
	give(a);
	EXPECT_EQ(stats().oversize_allocations.current, 1);
	conf("max_split_size_mb:unlimited");
	give(b);
	EXPECT_EQ(stats().oversize_allocations.current, 0);
}

/* Others may be cached again before it is freed. */
TEST(an_oversize_block_that_outlives_the_option_is_taken_back_too)
{
	conf("max_split_size_mb:20");
	void *a = take(30 * MIB, NULL);
	conf("max_split_size_mb:unlimited");
	give(take(2 * MIB, NULL));
	give(take(2 * MIB, NULL));
	give(a);
	EXPECT_EQ(stats().oversize_allocations.current, 0);
	give(take(30 * MIB, NULL));
	EXPECT_EQ(stats().oversize_allocations.allocated, 1);
	expect_healthy();
}

/* ---- Counters ---------------------------------------------------------- */

TEST(calls_that_take_and_give_memory_are_counted)
{
	void *a = take(16 * MIB, NULL);

	EXPECT_EQ(stats().num_device_alloc, 2);
	EXPECT_EQ(stats().num_device_free, 0);
	give(a);
	give(take(12 * MIB, NULL));
	EXPECT_EQ(stats().num_device_alloc, 2);
	trim(8 * MIB);
	EXPECT_EQ(stats().num_device_free, 1);
	trim(0);
	EXPECT_EQ(stats().num_device_free, 2);
}

TEST(failures_are_counted_for_the_device_and_the_stream_that_asked)
{
	weir_stream stream = new_stream();

	take(512, stream);
	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	for (int i = 0; i < 3; i++)
		EXPECT_NO_MEMORY(weir_malloc(16 * MIB, stream), WEIR_ENOMEM);
	EXPECT_NO_MEMORY(weir_malloc(17 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(stats().num_ooms, 4);
	/* The last request could not succeed from the start. */
	EXPECT_EQ(stats().num_alloc_retries, 3);
	EXPECT_EQ(stats_of_stream(stream).num_ooms, 3);
	EXPECT_EQ(stats_of_stream(stream).num_alloc_retries, 3);
	EXPECT_EQ(stats_of_stream(NULL).num_ooms, 1);
	EXPECT_EQ(stats_of_stream(NULL).num_alloc_retries, 0);
}

TEST(a_request_that_is_refused_counts_nowhere)
{
	weir_malloc(0, NULL);
	weir_malloc(SIZE_MAX, NULL);
	EXPECT_EQ(stats().num_ooms, 0);
	EXPECT_EQ(stats().allocation.all.allocated, 0);
}

/* ---- Streams ----------------------------------------------------------- */

TEST(each_stream_has_its_part)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	take(512, a);
	void *of_a = take(4 * MIB, a);
	take(8 * MIB, b);
	give(of_a);
	struct weir_stats s = stats_of_stream(a);
	expect_stat(&s.allocation.all, 1, 2, 2, 1);
	expect_stat(
	    &s.allocated_bytes.large_pool, 0, 4 * MIB, 4 * MIB, 4 * MIB);
	/* With two streams, new memory that no stream has used belongs to no
	 * stream. */
	EXPECT_EQ(s.reserved_bytes.all.current +
		stats_of_stream(WEIR_STREAM_ANY).reserved_bytes.all.current,
	    6 * MIB);
	s = stats_of_stream(b);
	expect_stat(&s.allocation.all, 1, 1, 1, 0);
	EXPECT_EQ(s.reserved_bytes.all.current, 8 * MIB);
	EXPECT_EQ(stats().reserved_bytes.all.current, 14 * MIB);
	s = stats_of_stream(new_stream());
	EXPECT_EQ(s.allocation.all.allocated, 0);
	EXPECT_EQ(s.reserved_bytes.all.current, 0);
}

TEST(pending_bytes_are_those_of_the_block_s_own_stream)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();
	void *block = take(2 * MIB, a);

	busy(use, LATE_MS);
	record(block, use);
	give(block);
	EXPECT_EQ(stats_of_stream(a).pending_bytes, 2 * MIB);
	EXPECT_EQ(stats_of_stream(use).pending_bytes, 0);
}

TEST(a_block_freed_on_another_stream_is_counted_as_moved)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = take(4 * MIB, a);

	EXPECT_OK(weir_free_async(block, b));
	struct weir_stats s = stats_of_stream(a);
	expect_stat(&s.allocation.all, 0, 1, 1, 1);
	expect_stat(&s.active_bytes.all, 0, 4 * MIB, 4 * MIB, 4 * MIB);
	expect_stat(&s.reserved_bytes.all, 0, 4 * MIB, 4 * MIB, 4 * MIB);
	s = stats_of_stream(b);
	expect_stat(&s.allocation.all, 0, 1, 1, 1);
	expect_stat(&s.reserved_bytes.all, 4 * MIB, 4 * MIB, 4 * MIB, 0);
	s = stats();
	expect_stat(&s.allocation.all, 0, 1, 1, 1);
	expect_stat(&s.reserved_bytes.all, 4 * MIB, 4 * MIB, 4 * MIB, 0);
	expect_healthy();
}

TEST(a_driver_segment_is_counted_for_the_device_wherever_its_blocks_go)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("expandable_segments:False,max_split_size_mb:20");
	void *block = take(30 * MIB, a);
	EXPECT_EQ(stats().segment.all.current, 1);
	EXPECT_EQ(stats().oversize_segments.current, 1);
	EXPECT_EQ(stats_of_stream(a).segment.all.allocated, 0);
	EXPECT_EQ(stats_of_stream(a).oversize_allocations.current, 1);
	EXPECT_OK(weir_free_async(block, b));
	EXPECT_EQ(stats_of_stream(a).oversize_allocations.current, 0);
	EXPECT_EQ(stats_of_stream(a).reserved_bytes.all.current, 0);
	EXPECT_EQ(stats_of_stream(b).reserved_bytes.all.current, 30 * MIB);
	EXPECT_EQ(stats().segment.all.allocated, 1);
	expect_healthy();
	trim(0);
	EXPECT_EQ(stats().segment.all.current, 0);
	EXPECT_EQ(stats().oversize_segments.current, 0);
	EXPECT_EQ(stats_of_stream(b).reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(memory_of_a_stream_that_ended_is_counted_for_no_stream)
{
	weir_stream a = new_stream();

	conf("expandable_segments:False");
	give(take(4 * MIB, a));
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_OK(weir_device_synchronize(0));
	give(take(512, NULL));
	EXPECT_EQ(stats_of_stream(WEIR_STREAM_ANY).reserved_bytes.all.current,
	    20 * MIB);
	EXPECT_EQ(stats().segment.all.current, 2);
	expect_healthy();
	EXPECT_EQ(trim(0), 22 * MIB);
	EXPECT_EQ(
	    stats_of_stream(WEIR_STREAM_ANY).reserved_bytes.all.current, 0);
	EXPECT_EQ(stats().segment.all.current, 0);
	expect_healthy();
}

/* ---- Resets ------------------------------------------------------------ */

TEST(resetting_peaks_makes_them_the_current_values)
{
	weir_stream a = new_stream();

	take(2 * MIB, a);
	give(take(8 * MIB, a));
	EXPECT_OK(weir_stats_reset_peak(0));
	struct weir_stats s = stats();
	EXPECT_EQ(s.allocated_bytes.all.peak, 2 * MIB);
	EXPECT_EQ(s.allocation.large_pool.peak, 1);
	EXPECT_EQ(s.reserved_bytes.all.peak, 10 * MIB);
	EXPECT_EQ(s.allocated_bytes.all.allocated, 10 * MIB);
	s = stats_of_stream(a);
	EXPECT_EQ(s.allocated_bytes.all.peak, 2 * MIB);
	give(take(4 * MIB, a));
	EXPECT_EQ(stats().allocated_bytes.all.peak, 6 * MIB);
	expect_healthy();
}

TEST(resetting_sums_zeroes_sums_and_counters_but_no_current_value)
{
	weir_stream a = new_stream();

	take(2 * MIB, a);
	give(take(8 * MIB, a));
	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	EXPECT_NO_MEMORY(weir_malloc(32 * MIB, a), WEIR_ENOMEM);
	EXPECT_OK(weir_stats_reset_accumulated(0));
	struct weir_stats s = stats();
	EXPECT_EQ(s.allocated_bytes.all.current, 2 * MIB);
	EXPECT_EQ(s.allocated_bytes.all.peak, 10 * MIB);
	EXPECT_EQ(s.allocated_bytes.all.allocated, 0);
	EXPECT_EQ(s.allocated_bytes.all.freed, 0);
	EXPECT_EQ(s.reserved_bytes.small_pool.allocated, 0);
#define EXPECT_ZERO(name) EXPECT_EQ(s.name, 0);
	WEIR_COUNTERS(EXPECT_ZERO)
#undef EXPECT_ZERO
	s = stats_of_stream(a);
	EXPECT_EQ(s.num_ooms, 0);
	EXPECT_EQ(s.allocation.all.allocated, 0);
	EXPECT_EQ(s.allocation.all.current, 1);
	give(take(512, a));
	EXPECT_EQ(stats().allocation.all.allocated, 1);
	EXPECT_EQ(stats().allocation.all.freed, 1);
	expect_healthy();
}

TEST(a_device_without_an_arena_can_be_reset)
{
	EXPECT_OK(weir_stats_reset_peak(0));
	EXPECT_OK(weir_stats_reset_accumulated(WEIR_DEVICE_CURRENT));
	EXPECT_STATUS(weir_stats_reset_peak(99), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_stats_reset_accumulated(-5), WEIR_ENODEVICE);
}

/* ---- Reading ----------------------------------------------------------- */

TEST(the_struct_for_statistics_must_have_its_size)
{
	struct weir_stats s = { 0 };

	EXPECT_STATUS(weir_stats(0, &s), WEIR_EINVAL);
	EXPECT_STATUS(weir_stats(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_stats_stream(0, NULL, &s), WEIR_EINVAL);
	EXPECT_STATUS(weir_stats_stream(0, NULL, NULL), WEIR_EINVAL);
	s.struct_size = sizeof(s) + 64;
	EXPECT_OK(weir_stats(0, &s));
	EXPECT_EQ(s.struct_size, sizeof(s) + 64);
	EXPECT_STATUS(weir_stats(99, &s), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_stats_stream(99, NULL, &s), WEIR_ENODEVICE);
}

TEST(metadata_is_counted)
{
	take(512, NULL);
	uint64_t before = stats().metadata_bytes;

	EXPECT_GT(before, 0);
	for (int i = 0; i < 1000; i++)
		take(512, NULL);
	EXPECT_GT(stats().metadata_bytes, before);
}

/* ---- Flat names -------------------------------------------------------- */

static uint64_t
flat(const struct weir_stats *s, const char *wanted)
{
	const char *name;
	uint64_t value;

	for (size_t i = 0; weir_stats_item(s, i, &name, &value); i++)
		if (strcmp(name, wanted) == 0)
			return value;
	FAIL("there is no statistic %s", wanted);
}

TEST(every_statistic_has_a_unique_flat_name)
{
	struct weir_stats s = stats();
	const char *names[220];
	uint64_t value;
	size_t n = 0;

	while (weir_stats_item(&s, n, &names[n], &value)) {
		for (size_t i = 0; i < n; i++)
			EXPECT(strcmp(names[i], names[n]) != 0);
		n++;
		EXPECT_LT(n, 220);
	}
	/* Nine by pool, two more, 42 counters, three values, nine kinds of
	 * memory outside weir. */
	EXPECT_EQ(n, 9 * 3 * 4 + 2 * 4 + 42 + 3 + 9 * 4);
}

TEST(flat_names_give_the_values_of_their_fields)
{
	weir_stream use = new_stream();

	conf("expandable_segments:False,max_split_size_mb:20");
	take(700, NULL);
	void *a = take(4 * MIB, NULL);
	give(take(30 * MIB, NULL));
	busy(use, LATE_MS);
	record(a, use);
	give(a);
	struct weir_stats s = stats();
	char name[64];
#define EXPECT_FLAT1(stat, field)                                              \
	EXPECT_EQ(flat(&s, stat ".current"), s.field.current);                 \
	EXPECT_EQ(flat(&s, stat ".peak"), s.field.peak);                       \
	EXPECT_EQ(flat(&s, stat ".allocated"), s.field.allocated);             \
	EXPECT_EQ(flat(&s, stat ".freed"), s.field.freed);
#define EXPECT_FLAT3(name)                                                     \
	EXPECT_FLAT1(#name ".all", name.all)                                   \
	EXPECT_FLAT1(#name ".small_pool", name.small_pool)                     \
	EXPECT_FLAT1(#name ".large_pool", name.large_pool)
#define EXPECT_FLAT(name) EXPECT_EQ(flat(&s, #name), s.name);
	WEIR_STAT3S(EXPECT_FLAT3)
	EXPECT_FLAT1("oversize_allocations", oversize_allocations)
	EXPECT_FLAT1("oversize_segments", oversize_segments)
	WEIR_COUNTERS(EXPECT_FLAT)
	EXPECT_FLAT(max_split_size)
	EXPECT_FLAT(pending_bytes)
	EXPECT_FLAT(metadata_bytes)
#define EXPECT_FLAT_KIND(name, label)                                          \
	EXPECT_FLAT1("outside_" #name, outside_##name)
	WEIR_OUTSIDE_KINDS(EXPECT_FLAT_KIND)
#undef EXPECT_FLAT_KIND
	snprintf(name, sizeof(name), "%s", "requested_bytes.all.current");
	EXPECT_EQ(flat(&s, name), 700 + 4 * MIB);
}

TEST(flat_names_end)
{
	struct weir_stats s = stats();
	const char *name = "untouched";
	uint64_t value = 7;

	EXPECT(!weir_stats_item(&s, 197, &name, &value));
	EXPECT(!weir_stats_item(&s, SIZE_MAX, &name, &value));
	EXPECT(!weir_stats_item(NULL, 0, &name, &value));
	EXPECT(!weir_stats_item(&s, 0, NULL, &value));
	EXPECT(!weir_stats_item(&s, 0, &name, NULL));
	EXPECT_STR_EQ(name, "untouched");
	EXPECT_EQ(value, 7);
}
