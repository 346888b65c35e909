/*
 * Which stream is known to come after which: facts that a program's events
 * make, how they pass on, and what is not believed.
 */
#include "streams/order.h"

#include "streams/capture.h"
#include "streams/stream.h"
#include "tests/support/device.h"

/* Streams stay known after the reference is given back. */
static struct stream *
known(weir_stream handle)
{
	struct stream *stream = NULL;

	EXPECT_OK(stream_find(WEIR_DEVICE_CURRENT, handle, &stream));
	stream_put(stream);
	return stream;
}

/* Events are never asked of the driver here; a handle is enough. */
static CUevent
event(uintptr_t number)
{
	return (CUevent)(number << 12);
}

static uint64_t
record_event(CUevent e, weir_stream stream)
{
	uint64_t tick = order_recording(e);

	order_recorded(e, stream, tick);
	return tick;
}

static void
wait_event(weir_stream stream, CUevent e)
{
	order_waited(stream, e, order_waiting(e));
}

static uint64_t
until(weir_stream later, weir_stream earlier)
{
	return order_until(known(later), known(earlier));
}

TEST(a_stream_that_waits_is_behind_the_record)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	EXPECT_EQ(until(b, a), 0);
	uint64_t tick = record_event(event(1), a);
	EXPECT(tick > 0);
	wait_event(b, event(1));
	EXPECT_EQ(until(b, a), tick);
	EXPECT_EQ(until(a, b), 0);
	EXPECT_EQ(until(a, a), UINT64_MAX);
}

TEST(what_a_stream_is_behind_passes_on_to_who_waits_for_it_later)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();
	weir_stream d = new_stream();

	uint64_t tick = record_event(event(1), a);
	record_event(event(2), b); /* before it waits */
	wait_event(b, event(1));
	record_event(event(3), b);
	wait_event(c, event(2));
	EXPECT_EQ(until(c, a), 0);
	wait_event(d, event(3));
	EXPECT_EQ(until(d, a), tick);
}

TEST(a_wait_is_for_the_latest_record)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	record_event(event(1), a);
	uint64_t tick = record_event(event(1), b);
	wait_event(c, event(1));
	EXPECT_EQ(until(c, a), 0);
	EXPECT_EQ(until(c, b), tick);
}

TEST(a_fact_that_is_learned_again_is_the_later_one)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	uint64_t first = record_event(event(1), a);
	uint64_t second = record_event(event(2), a);
	EXPECT_GT(second, first);
	wait_event(b, event(2));
	wait_event(b, event(1)); /* takes nothing back */
	EXPECT_EQ(until(b, a), second);
}

/* ---- How much is remembered -------------------------------------------- */

TEST(of_many_streams_the_latest_are_remembered)
{
	enum { MANY = ORDER_KNOWN + 10 };
	weir_stream a = new_stream();
	weir_stream other[MANY];
	uint64_t tick[MANY];

	for (int i = 0; i < MANY; i++) {
		other[i] = new_stream();
		tick[i] = record_event(event(1), other[i]);
		wait_event(a, event(1));
	}
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(
		    until(a, other[i]), i < MANY - ORDER_KNOWN ? 0 : tick[i]);
}

/* What passes on with it takes other places than its own. */
TEST(a_stream_is_known_to_be_behind_the_one_it_has_just_waited_for)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (int i = 0; i < ORDER_KNOWN; i++) {
		record_event(event(1), new_stream());
		wait_event(a, event(1));
	}
	for (int i = 0; i < ORDER_KNOWN; i++) {
		record_event(event(1), new_stream());
		wait_event(b, event(1));
	}
	uint64_t tick = record_event(event(2), b);
	wait_event(a, event(2));
	EXPECT_EQ(until(a, b), tick);
}

/* ---- Calls at the same time -------------------------------------------- */

TEST(while_an_event_is_recorded_neither_record_is_believed)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	record_event(event(1), a);
	uint64_t tick = order_recording(event(1));
	EXPECT_EQ(order_waiting(event(1)), 0);
	wait_event(c, event(1));
	order_recorded(event(1), b, tick);
	EXPECT_EQ(until(c, a), 0);
	EXPECT_EQ(until(c, b), 0);
	wait_event(c, event(1));
	EXPECT_EQ(until(c, b), tick);
}

TEST(of_two_records_at_once_neither_is_believed)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (int first = 0; first < 2; first++) {
		uint64_t tick[2];
		for (int i = 0; i < 2; i++)
			tick[i] = order_recording(event(1));
		order_recorded(event(1), first ? b : a, tick[first]);
		EXPECT_EQ(order_waiting(event(1)), 0);
		order_recorded(event(1), first ? a : b, tick[!first]);
		EXPECT_EQ(order_waiting(event(1)), 0);
	}
	/* One that begins beside a record under way is one of two as well. */
	uint64_t long_one = order_recording(event(1));
	record_event(event(1), a);
	EXPECT_EQ(order_waiting(event(1)), 0);
	order_recorded(event(1), b, long_one);
	EXPECT_EQ(order_waiting(event(1)), 0);
	uint64_t alone = record_event(event(1), a);
	EXPECT_EQ(order_waiting(event(1)), alone);
}

TEST(a_wait_beside_a_record_teaches_nothing)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	record_event(event(1), a);
	uint64_t seen = order_waiting(event(1));
	uint64_t tick = order_recording(event(1));
	order_waited(c, event(1), seen);
	order_recorded(event(1), b, tick);
	order_waited(c, event(1), seen);
	EXPECT_EQ(until(c, a), 0);
	EXPECT_EQ(until(c, b), 0);
}

TEST(an_event_that_is_destroyed_while_it_is_recorded_is_not_known)
{
	weir_stream a = new_stream();

	uint64_t tick = order_recording(event(1));
	order_gone(event(1));
	order_recorded(event(1), a, tick);
	EXPECT_EQ(order_waiting(event(1)), 0);
}

/* ---- What is not believed ---------------------------------------------- */

TEST(a_record_that_fails_leaves_nothing_known)
{
	weir_stream a = new_stream();

	record_event(event(1), a);
	order_recorded(event(1), NULL, order_recording(event(1)));
	EXPECT_EQ(order_waiting(event(1)), 0);
}

TEST(an_event_that_is_gone_is_not_known)
{
	record_event(event(1), new_stream());
	order_gone(event(2));
	EXPECT_NE(order_waiting(event(1)), 0);
	order_gone(event(1));
	EXPECT_EQ(order_waiting(event(1)), 0);
}

TEST(streams_and_events_that_are_not_known_are_passed_over)
{
	weir_stream foreign = foreign_stream(0);
	weir_stream a = new_stream();

	record_event(event(1), foreign);
	EXPECT_EQ(order_waiting(event(1)), 0);
	record_event(event(1), a);
	wait_event(foreign, event(1));
	wait_event(a, event(2));
	record_event(NULL, a);
	wait_event(a, NULL);
	order_gone(NULL);
	foreign_destroy(foreign);
}

TEST(nothing_is_learned_while_a_capture_is_under_way)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	record_event(event(1), a);
	capture_began(NULL);
	wait_event(b, event(1));
	record_event(event(1), a);
	capture_ended(NULL);
	EXPECT_EQ(until(b, a), 0);
	EXPECT_EQ(order_waiting(event(1)), 0);
	/* One that begins in the middle of a call. */
	uint64_t tick = order_recording(event(1));
	capture_began(NULL);
	order_recorded(event(1), a, tick);
	capture_ended(NULL);
	EXPECT_EQ(order_waiting(event(1)), 0);
}

TEST(an_event_takes_the_place_of_another)
{
	weir_stream a = new_stream();
	unsigned known_count = 0;

	for (uintptr_t i = 1; i <= 10000; i++) {
		uint64_t tick = record_event(event(i), a);
		EXPECT_EQ(order_waiting(event(i)), tick);
	}
	for (uintptr_t i = 1; i <= 10000; i++)
		known_count += order_waiting(event(i)) != 0;
	EXPECT(known_count > 0 && known_count <= 2048);
}
