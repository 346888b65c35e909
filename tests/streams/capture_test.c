/* Captures that weir is told of are counted. */
#include "streams/capture.h"

#include "streams/stream.h"
#include "tests/support/device.h"

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

TEST(the_capture_of_a_stream_has_a_number_that_forked_ones_share)
{
	weir_stream handles[3] = { new_stream(), new_stream(), new_stream() };
	struct stream *streams[3];
	struct stream *legacy;
	uint64_t id = 1;

	for (int i = 0; i < 3; i++)
		EXPECT_OK(stream_find(0, handles[i], &streams[i]));
	EXPECT_OK(stream_find(0, NULL, &legacy));
	EXPECT_OK(capture_ask(streams[0], &id));
	EXPECT_EQ(id, 0);
	EXPECT(!capture_possible(streams[0]));
	capture_begin(handles[0]);
	EXPECT_OK(weir_stream_wait_stream(handles[1], handles[0]));
	EXPECT(capture_possible(streams[0]));
	EXPECT_OK(capture_ask(streams[0], &id));
	EXPECT_NE(id, 0);
	EXPECT_EQ(capture_of(streams[1]), id);
	EXPECT_EQ(capture_of(streams[2]), 0);
	EXPECT_EQ(capture_of(legacy), 0);
	EXPECT_OK(weir_stream_wait_stream(handles[0], handles[1]));
	capture_end(handles[0]);
	EXPECT_EQ(capture_of(streams[0]), 0);
	capture_begin(handles[0]);
	EXPECT_NE(capture_of(streams[0]), id);
	capture_end(handles[0]);
	for (int i = 0; i < 3; i++)
		stream_put(streams[i]);
	stream_put(legacy);
}

TEST(a_capture_of_which_cannot_be_told_is_an_error)
{
	struct stream *stream;
	uint64_t id = 1;

	device_need_sim("calls of the driver are made to fail");
	EXPECT_OK(stream_find(0, new_stream(), &stream));
	EXPECT_EQ(
	    sim()->fail("cuStreamIsCapturing", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_EQ(sim()->fail(
		      "cuStreamGetCaptureInfo", 1, 1, CUDA_ERROR_LAUNCH_FAILED),
	    0);
	EXPECT_STATUS(capture_ask(stream, &id), WEIR_EDRIVER);
	EXPECT_STR_HAS(weir_last_error(), "cuStreamGetCaptureInfo");
	EXPECT_EQ(id, 0);
	EXPECT_EQ(capture_of(stream), 0);
	stream_put(stream);
}
