/* Ticks increase, and give the time of day. */
#include "base/clock.h"

#include <time.h>

#include "tests/support/test.h"

TEST(ticks_go_on)
{
	uint64_t before = clock_ticks();

	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_ticks();
		EXPECT_GE(now, before);
		before = now;
	}
	struct timespec nap = { .tv_nsec = 1000000 };
	nanosleep(&nap, NULL);
	EXPECT_GT(clock_ticks(), before);
}

TEST(a_tick_between_two_points_has_its_time)
{
	const struct clock_point a = { 1000, 5000000000 };
	const struct clock_point b = { 3000, 5000004000 };

	EXPECT_EQ(clock_epoch_ns(&a, &b, 1000), 5000000000);
	EXPECT_EQ(clock_epoch_ns(&a, &b, 2000), 5000002000);
	EXPECT_EQ(clock_epoch_ns(&a, &b, 3000), 5000004000);
	/* Also beyond them, and if they are as far apart as possible. */
	EXPECT_EQ(clock_epoch_ns(&a, &b, 4000), 5000006000);
	EXPECT_EQ(clock_epoch_ns(&a, &b, 500), 4999999000);
	const struct clock_point late = { UINT64_MAX / 2, UINT64_MAX / 4 };
	EXPECT_EQ(clock_epoch_ns(&a, &late, UINT64_MAX / 2), UINT64_MAX / 4);
}

TEST(a_single_point_gives_its_own_time)
{
	const struct clock_point a = { 1000, 777 };

	EXPECT_EQ(clock_epoch_ns(&a, &a, 123456), 777);
}

/* A point whose two clocks were read close together: the one of many reads that
 * took the fewest ticks, since other programs may run in the middle of a
 * read. */
static struct clock_point
best_point(void)
{
	struct clock_point best = { 0 };
	uint64_t fewest = UINT64_MAX;

	for (int i = 0; i < 100; i++) {
		uint64_t before = clock_ticks();
		struct clock_point point = clock_now();
		uint64_t took = clock_ticks() - before;
		if (took < fewest) {
			fewest = took;
			best = point;
		}
	}
	return best;
}

/* However long other programs run between two reads, the tick lies between the
 * wall clock's values before it and after it. */
TEST(the_time_of_a_tick_is_that_of_the_clock_on_the_wall)
{
	enum { SLACK_NS = 10000000 };
	struct timespec nap = { .tv_nsec = 20000000 };
	struct clock_point a = best_point();

	nanosleep(&nap, NULL);
	uint64_t before_ns = clock_now().epoch_ns;
	uint64_t ticks = clock_ticks();
	uint64_t after_ns = clock_now().epoch_ns;
	nanosleep(&nap, NULL);
	struct clock_point b = best_point();
	uint64_t ns = clock_epoch_ns(&a, &b, ticks);

	EXPECT_GT(ns, before_ns - SLACK_NS);
	EXPECT_LT(ns, after_ns + SLACK_NS);
}
