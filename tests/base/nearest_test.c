/*
 * The distance of words.
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

/* Long words are compared by their beginnings, and the length of the rest
 * counts: a word of 300 letters is near to no option. */
TEST(text_that_is_not_compared_counts_by_its_length)
{
	char a[300];
	char b[300];

	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	b[sizeof(b) - 1] = '\0';
	EXPECT_EQ(nearest_distance(a, sizeof(a), b), 63 + 1);
	EXPECT_EQ(nearest_distance(a, 300, "aaaa"), 296);
	EXPECT_EQ(nearest_distance("aaaa", 4, b), 299);
	EXPECT_EQ(nearest_distance(a, 300, ""), 300);
}
