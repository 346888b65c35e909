/*
 * How far words are apart.
 */
#include <string.h>

#include "base/nearest.h"
#include "tests/support/test.h"

TEST(the_distance_counts_changed_letters)
{
	EXPECT_EQ(nearest_distance("prefer", 6, "prefer"), 0);
	EXPECT_EQ(nearest_distance("prefr", 5, "prefer"), 1);
	EXPECT_EQ(nearest_distance("perfer", 6, "prefer"), 2);
	EXPECT_EQ(nearest_distance("prefer:speed", 6, "prefer"), 0);
	EXPECT_EQ(nearest_distance("", 0, "abc"), 3);
	EXPECT_EQ(nearest_distance("abc", 3, ""), 3);
}

TEST(long_words_are_cut)
{
	char a[300];
	char b[300];

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	b[sizeof(b) - 1] = '\0';
	EXPECT_EQ(nearest_distance(a, sizeof(a), b), 63);
}
