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

/* Until somebody sees all captures there may be others. */
TEST(no_capture_is_sure_only_where_all_are_told_of)
{
	EXPECT(!capture_none());
	capture_tell_all();
	EXPECT(capture_none());
	capture_began(NULL);
	EXPECT(!capture_none());
	capture_ended(NULL);
	EXPECT(capture_none());
}

TEST(a_capture_that_may_have_been_missed_is_not_made_up_for)
{
	capture_tell_all();
	capture_missed();
	EXPECT(!capture_none());
	capture_tell_all();
	EXPECT(!capture_none());
}
