/*
 * <weir/stream.h>: events. Created at the first record, queried, waited for by
 * the host and by streams, and timed.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/device.h"

static struct weir_event *
new_event(unsigned flags)
{
	struct weir_event *event = NULL;

	EXPECT_OK(weir_event_create(flags, &event));
	return event;
}

TEST(an_event_that_was_not_recorded_is_done_and_has_no_handle)
{
	struct weir_event *event = new_event(WEIR_EVENT_DEFAULT);

	EXPECT_NULL(driver_peek());
	EXPECT_NULL(weir_event_handle(event));
	EXPECT_OK(weir_event_query(event));
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_OK(weir_stream_wait_event(NULL, event));
	EXPECT_OK(weir_event_destroy(event));
}

TEST(an_event_marks_the_work_queued_before_it)
{
	weir_stream stream = new_stream();
	struct weir_event *event = new_event(0);

	busy(stream, 50);
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_NOT_NULL(weir_event_handle(event));
	EXPECT_STATUS(weir_event_query(event), WEIR_ENOTREADY);
	busy(stream, LATE_MS);
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_OK(weir_event_query(event));
	EXPECT(!is_done(stream));
	EXPECT_OK(weir_event_destroy(event));
}

TEST(a_second_record_replaces_the_first)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct weir_event *event = new_event(0);

	busy(a, LATE_MS);
	EXPECT_OK(weir_event_record(event, a));
	void *handle = weir_event_handle(event);
	EXPECT_OK(weir_event_record(event, b));
	EXPECT_EQ(weir_event_handle(event), handle);
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT(!is_done(a));
	EXPECT_OK(weir_event_destroy(event));
}

TEST(a_stream_waits_for_an_event)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct weir_event *event = new_event(0);
	void *ptr = take(MIB, a);

	busy(a, 30);
	fill(ptr, MIB, 1, a);
	EXPECT_OK(weir_event_record(event, a));
	busy(a, LATE_MS);
	EXPECT_OK(weir_stream_wait_event(b, event));
	EXPECT_OK(weir_event_destroy(event)); /* the wait remains */
	fill(ptr, MIB, 2, b);
	expect_filled(ptr, MIB, 2, b);
	EXPECT(!is_done(a));
	expect_healthy();
}

TEST(events_measure_the_time_between_them)
{
	weir_stream stream = new_stream();
	struct weir_event *start = new_event(WEIR_EVENT_TIMING);
	struct weir_event *end = new_event(WEIR_EVENT_TIMING);
	float milliseconds = -1;

	EXPECT_OK(weir_event_record(start, stream));
	busy(stream, 50);
	EXPECT_OK(weir_event_record(end, stream));
	EXPECT_STATUS(
	    weir_event_elapsed_ms(start, end, &milliseconds), WEIR_ENOTREADY);
	EXPECT(milliseconds == -1);
	EXPECT_OK(weir_event_synchronize(end));
	EXPECT_OK(weir_event_elapsed_ms(start, end, &milliseconds));
	EXPECT(milliseconds >= 49 && milliseconds < 1000);
	EXPECT_OK(weir_event_elapsed_ms(end, start, &milliseconds));
	EXPECT(milliseconds <= -49);
	EXPECT_OK(weir_event_elapsed_ms(start, start, &milliseconds));
	EXPECT(milliseconds == 0);
	EXPECT_OK(weir_event_destroy(start));
	EXPECT_OK(weir_event_destroy(end));
}

TEST(only_recorded_events_with_timing_can_be_measured)
{
	struct weir_event *timed = new_event(WEIR_EVENT_TIMING);
	struct weir_event *fresh = new_event(WEIR_EVENT_TIMING);
	struct weir_event *plain = new_event(0);
	float ms;

	EXPECT_OK(weir_event_record(timed, NULL));
	EXPECT_OK(weir_event_record(plain, NULL));
	EXPECT_OK(weir_event_synchronize(timed));
	EXPECT_STATUS(weir_event_elapsed_ms(timed, fresh, &ms), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "end was not recorded");
	EXPECT_STATUS(weir_event_elapsed_ms(fresh, timed, &ms), WEIR_EINVAL);
	EXPECT_STATUS(weir_event_elapsed_ms(timed, plain, &ms), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "WEIR_EVENT_TIMING");
	EXPECT_STATUS(weir_event_elapsed_ms(NULL, timed, &ms), WEIR_EINVAL);
	EXPECT_STATUS(weir_event_elapsed_ms(timed, NULL, &ms), WEIR_EINVAL);
	EXPECT_STATUS(weir_event_elapsed_ms(timed, timed, NULL), WEIR_EINVAL);
	EXPECT_OK(weir_event_destroy(timed));
	EXPECT_OK(weir_event_destroy(fresh));
	EXPECT_OK(weir_event_destroy(plain));
}

TEST(flags_are_checked_and_all_good_ones_work)
{
	static const unsigned good[] = { 0, WEIR_EVENT_TIMING,
		WEIR_EVENT_BLOCKING, WEIR_EVENT_TIMING | WEIR_EVENT_BLOCKING,
		WEIR_EVENT_INTERPROCESS,
		WEIR_EVENT_INTERPROCESS | WEIR_EVENT_BLOCKING };
	struct weir_event *event = NULL;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		event = new_event(good[i]);
		EXPECT_OK(weir_event_record(event, NULL));
		EXPECT_OK(weir_event_synchronize(event));
		EXPECT_OK(weir_event_destroy(event));
	}
	event = NULL;
	EXPECT_STATUS(weir_event_create(8, &event), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "0x8");
	EXPECT_STATUS(weir_event_create(
			  WEIR_EVENT_TIMING | WEIR_EVENT_INTERPROCESS, &event),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_event_create(0, NULL), WEIR_EINVAL);
	EXPECT_NULL(event);
	meta_fail(1, 1);
	EXPECT_STATUS(weir_event_create(0, &event), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_NULL(event);
}

TEST(null_is_no_event)
{
	EXPECT_OK(weir_event_destroy(NULL));
	EXPECT_STATUS(weir_event_record(NULL, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_event_query(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_event_synchronize(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_wait_event(NULL, NULL), WEIR_EINVAL);
	EXPECT_NULL(weir_event_handle(NULL));
}

TEST(an_event_stays_with_its_device)
{
	weir_stream of_1;

	device_need(2);
	struct weir_event *event = new_event(0);
	EXPECT_OK(weir_stream_create(1, 0, &of_1));
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_STATUS(weir_event_record(event, of_1), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "device 0");
	EXPECT_STR_HAS(weir_last_error(), "device 1");
	/* Streams of the other device may wait for it. */
	busy(NULL, 20);
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_OK(weir_stream_wait_event(of_1, event));
	finish(of_1);
	EXPECT(is_done(NULL));
	EXPECT_OK(weir_event_destroy(event));
}

TEST(an_event_of_no_stream_marks_the_work_of_all)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct weir_event *event = new_event(0);

	busy(a, 20);
	busy(b, 40);
	EXPECT_OK(weir_event_record(event, WEIR_STREAM_ANY));
	EXPECT_STATUS(weir_event_query(event), WEIR_ENOTREADY);
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT(is_done(a));
	EXPECT(is_done(b));
	EXPECT_STATUS(
	    weir_stream_wait_event(WEIR_STREAM_ANY, event), WEIR_EINVAL);
	EXPECT_OK(weir_event_destroy(event));
}

TEST(an_event_cannot_be_recorded_on_or_awaited_by_a_destroyed_stream)
{
	weir_stream gone = new_stream();
	struct weir_event *event = new_event(0);

	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_STATUS(weir_event_record(event, gone), WEIR_EINVAL);
	EXPECT_NULL(weir_event_handle(event));
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_STATUS(weir_stream_wait_event(gone, event), WEIR_EINVAL);
	EXPECT_OK(weir_event_destroy(event));
}

TEST(a_failure_of_the_driver_is_reported_with_the_driver_s_text)
{
	struct weir_event *event = new_event(0);

	device_need_sim("calls of the driver are made to fail");
	EXPECT_EQ(
	    sim()->fail("cuEventCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	EXPECT_STATUS(weir_event_record(event, NULL), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "cuEventCreate");
	EXPECT_NULL(weir_event_handle(event));
	EXPECT_EQ(
	    sim()->fail("cuEventRecord", 1, 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	EXPECT_STATUS(weir_event_record(event, NULL), WEIR_EDRIVER);
	EXPECT_STR_HAS(weir_last_error(), "cuEventRecord");
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_EQ(
	    sim()->fail("cuEventQuery", 1, 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	EXPECT_STATUS(weir_event_query(event), WEIR_EDRIVER);
	EXPECT_EQ(
	    sim()->fail("cuEventSynchronize", 1, 1, CUDA_ERROR_LAUNCH_FAILED),
	    0);
	EXPECT_STATUS(weir_event_synchronize(event), WEIR_EDRIVER);
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_OK(weir_event_destroy(event));
}

static void *
wait_for(void *arg)
{
	EXPECT_OK(weir_event_synchronize(arg));
	EXPECT_OK(weir_event_query(arg));
	return NULL;
}

TEST(an_event_may_be_waited_for_on_another_thread)
{
	weir_stream stream = new_stream();
	struct weir_event *event = new_event(WEIR_EVENT_BLOCKING);
	pthread_t thread;

	busy(stream, 30);
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_EQ(pthread_create(&thread, NULL, wait_for, event), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT(is_done(stream));
	EXPECT_OK(weir_event_destroy(event));
}

TEST(an_event_has_a_description)
{
	struct weir_event *event = new_event(0);
	char text[64];
	char expected[64];

	weir_event_format(event, text, sizeof(text));
	EXPECT_STR_EQ(text, "<weir.event 0>");
	EXPECT_OK(weir_event_record(event, NULL));
	snprintf(expected, sizeof(expected), "<weir.event %p>",
	    weir_event_handle(event));
	EXPECT_EQ(
	    weir_event_format(event, text, sizeof(text)), strlen(expected));
	EXPECT_STR_EQ(text, expected);
	EXPECT_EQ(weir_event_format(event, text, 0), strlen(expected));
	EXPECT_OK(weir_event_destroy(event));
}
