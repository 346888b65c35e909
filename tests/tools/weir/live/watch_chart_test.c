/*
 * The chart of a process's latest samples.
 */
#include "tools/weir/live/watch_chart.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static void
add(struct watch_chart *chart, uint64_t ms, uint64_t live, uint64_t pending,
    uint64_t held)
{
	const struct counters memory = {
		.live_bytes = live, .pending_bytes = pending, .held_bytes = held
	};

	watch_chart_add(chart, ms * 1000000, &memory);
}

static char *
printed(const struct watch_chart *chart)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	EXPECT_NOT_NULL(out);
	watch_chart_print(chart, out);
	EXPECT_EQ(fclose(out), 0);
	return text;
}

TEST(a_column_has_live_pending_and_cached_memory)
{
	static struct watch_chart chart;
	char *text;

	add(&chart, 0, 1 << 20, 0, 4 << 20);
	add(&chart, 500, 2 << 20, 1 << 20, 4 << 20);
	add(&chart, 1500, 4 << 20, 0, 4 << 20);
	text = printed(&chart);
	EXPECT_STR_EQ(text,
	    "    4.00 MiB |..#\n"
	    "             |.~#\n"
	    "             |.##\n"
	    "             |###\n"
	    "              1.5 s until now; # live, ~ pending, . cached\n");
	free(text);
}

TEST(one_sample_is_no_chart)
{
	static struct watch_chart chart;
	char *text;

	add(&chart, 0, 1, 0, 1);
	text = printed(&chart);
	EXPECT_STR_EQ(text, "");
	free(text);
}

TEST(the_oldest_sample_goes)
{
	static struct watch_chart chart;
	char *text;

	add(&chart, 0, 1 << 30, 0, 1 << 30);
	for (unsigned i = 1; i <= CHART_COLUMNS; i++)
		add(&chart, 1000 * i, 1 << 20, 0, 1 << 20);
	text = printed(&chart);
	EXPECT_EQ(chart.count, CHART_COLUMNS);
	EXPECT_STR_HAS(text, "1.00 MiB |##");
	EXPECT_NULL(strstr(text, "GiB"));
	free(text);
}

TEST(a_program_that_holds_nothing_has_an_empty_chart)
{
	static struct watch_chart chart;
	char *text;

	add(&chart, 0, 0, 0, 0);
	add(&chart, 1000, 0, 0, 0);
	text = printed(&chart);
	EXPECT_STR_HAS(text, " 0 bytes |  \n");
	free(text);
}
