/*
 * docs/behaviours.md, rows on streams and events.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/device.h"

/* ---- streams ----------------------------------------------------------- */

TEST(the_default_stream_is_0_and_user_streams_differ)
{
	weir_stream current = (weir_stream)7;
	weir_stream user;

	EXPECT_OK(weir_stream_current(WEIR_DEVICE_CURRENT, &current));
	EXPECT_NULL(current);
	EXPECT_OK(weir_stream_from_pool(0, 0, &user));
	EXPECT_NOT_NULL(user);
	EXPECT_OK(weir_stream_set_current(user));
	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_EQ(current, user);
	EXPECT_NE(user, new_stream());
}

TEST(streams_are_queried_and_waited_for)
{
	weir_stream user = new_stream();

	EXPECT_OK(weir_set_device(0));
	EXPECT_OK(weir_stream_query(NULL));
	EXPECT_OK(weir_stream_query(user));
	busy(user, 50);
	EXPECT_STATUS(weir_stream_query(user), WEIR_ENOTREADY);
	EXPECT_OK(weir_stream_query(NULL));
	EXPECT_OK(weir_stream_synchronize(user));
	EXPECT_OK(weir_stream_query(user));
	EXPECT_OK(weir_device_synchronize(0));
}

/* ---- stream_event_repr ------------------------------------------------- */

TEST(streams_and_events_can_be_printed)
{
	weir_stream stream = new_stream();
	struct weir_event *event;
	char text[128];

	weir_stream_format(stream, text, sizeof(text));
	EXPECT_STR_HAS(text, "weir.stream");
	EXPECT_STR_HAS(text, "device=0");
	EXPECT_OK(weir_event_create(WEIR_EVENT_TIMING, &event));
	weir_event_format(event, text, sizeof(text));
	EXPECT_STR_HAS(text, "weir.event");
	EXPECT_OK(weir_event_destroy(event));
}

/* ---- events, generic_stream_event -------------------------------------- */

TEST(events_are_done_before_they_are_recorded_and_measure_time_after)
{
	weir_stream stream = new_stream();
	struct weir_event *start;
	struct weir_event *end;
	float milliseconds = 0;

	EXPECT_OK(weir_event_create(WEIR_EVENT_TIMING, &start));
	EXPECT_OK(weir_event_create(WEIR_EVENT_TIMING, &end));
	EXPECT_OK(weir_event_query(start));
	EXPECT_NULL(weir_event_handle(start));
	EXPECT_OK(weir_event_record(start, stream));
	EXPECT_NOT_NULL(weir_event_handle(start));
	busy(stream, 50);
	EXPECT_OK(weir_event_record(end, stream));
	EXPECT_STATUS(weir_event_query(end), WEIR_ENOTREADY);
	EXPECT_OK(weir_event_synchronize(end));
	EXPECT_OK(weir_event_query(end));
	EXPECT_OK(weir_event_elapsed_ms(start, end, &milliseconds));
	EXPECT(milliseconds > 0);
	EXPECT_NE(weir_event_handle(start), weir_event_handle(end));
	EXPECT_OK(weir_event_destroy(start));
	EXPECT_OK(weir_event_destroy(end));
}

TEST(a_stream_waits_for_an_event_of_another)
{
	weir_stream producer = new_stream();
	weir_stream consumer = new_stream();
	struct weir_event *ready;
	void *input = take(MIB, producer);
	void *output = take(MIB, consumer);

	EXPECT_OK(weir_event_create(WEIR_EVENT_DEFAULT, &ready));
	busy(producer, 30);
	fill(input, MIB, 0x77, producer);
	EXPECT_OK(weir_event_record(ready, producer));
	EXPECT_OK(weir_stream_wait_event(consumer, ready));
	copy(output, input, MIB, consumer);
	expect_filled(output, MIB, 0x77, consumer);
	EXPECT_OK(weir_event_destroy(ready));
	expect_healthy();
}
