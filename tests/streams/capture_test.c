/* Captures that weir is told of are counted. */
#include "streams/capture.h"

#include "tests/support/test.h"

TEST(captures_are_under_way_until_as_many_have_ended)
{
	EXPECT(!capture_any());
	capture_began(NULL);
	EXPECT(capture_any());
	capture_began(NULL);
	capture_ended(NULL);
	EXPECT(capture_any());
	capture_ended(NULL);
	EXPECT(!capture_any());
}

TEST(an_end_without_a_beginning_counts_for_nothing)
{
	capture_ended(NULL);
	capture_ended(NULL);
	EXPECT(!capture_any());
	capture_began(NULL);
	EXPECT(capture_any());
}
