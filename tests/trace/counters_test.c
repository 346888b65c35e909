/*
 * The list of counters.
 */
#include "trace/counters.h"

#include <string.h>

#include "tests/support/test.h"

TEST(cached_memory_is_what_is_neither_live_nor_pending)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct counters counters;

	stats.reserved_bytes.all.current = 100;
	stats.allocated_bytes.all.current = 60;
	stats.pending_bytes = 10;
	counters_read(&counters, &stats, 7);
	EXPECT_EQ(counters.cached_bytes, 30);
	EXPECT_EQ(counters.limit_bytes, 7);
}

TEST(cached_memory_is_not_below_0_while_caches_report_one_after_the_other)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	struct counters counters;

	stats.reserved_bytes.all.current = 50;
	stats.allocated_bytes.all.current = 60;
	counters_read(&counters, &stats, UINT64_MAX);
	EXPECT_EQ(counters.cached_bytes, 0);
}

TEST(names_and_units_agree)
{
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		const struct counter_row *row = &counter_rows[i];
		const char *last = strrchr(row->name, '_');
		const char *unit = row->unit;

		if (*unit != '\0')
			EXPECT_STR_EQ(last + 1, unit);
		EXPECT_STR_HAS(row->help + strlen(row->help) - 1, ".");
		EXPECT((row->report != REPORTED_NOT) == (*row->label != '\0'));
	}
}
