/*
 * Which stream is known to be ordered after which: facts that a program's
 * events make, how they pass on, and records that are not trusted.
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

/* The driver is never asked about events here, so a handle is enough. */
static CUevent
event(uintptr_t number)
{
	return (CUevent)(number << 12);
}

static uint64_t
record_event(CUevent e, weir_stream stream)
{
	uint64_t tick = order_recording(e, stream);

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
	return order_after(known(later), known(earlier), 0);
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

TEST(a_stream_is_seen_once_it_waits_or_is_waited_for)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	record_event(event(1), a);
	EXPECT(!order_is_seen(&known(a)->order));
	wait_event(b, event(1));
	EXPECT(order_is_seen(&known(a)->order));
	EXPECT(order_is_seen(&known(b)->order));
	EXPECT(!order_is_seen(&known(c)->order));
	wait_event(c, event(2)); /* which weir never saw recorded */
	EXPECT(!order_is_seen(&known(c)->order));
}

TEST(the_order_of_a_stream_passes_on_to_streams_that_wait_for_it_later)
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

TEST(the_later_of_two_facts_on_an_order_counts)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	uint64_t first = record_event(event(1), a);
	uint64_t second = record_event(event(2), a);
	EXPECT_GT(second, first);
	wait_event(b, event(2));
	wait_event(b, event(1)); /* does not undo the order */
	EXPECT_EQ(until(b, a), second);
}

/* ---- How much is remembered -------------------------------------------- */

TEST(the_latest_of_many_streams_are_remembered)
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

/* Facts that a wait passes on use other places than the wait's own fact. */
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

TEST(while_an_event_is_recorded_neither_record_is_trusted)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	record_event(event(1), a);
	uint64_t tick = order_recording(event(1), a);
	EXPECT_EQ(order_waiting(event(1)), 0);
	wait_event(c, event(1));
	order_recorded(event(1), b, tick);
	EXPECT_EQ(until(c, a), 0);
	EXPECT_EQ(until(c, b), 0);
	wait_event(c, event(1));
	EXPECT_EQ(until(c, b), tick);
}

TEST(neither_of_two_records_at_once_is_trusted)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (int first = 0; first < 2; first++) {
		uint64_t tick[2];
		for (int i = 0; i < 2; i++)
			tick[i] = order_recording(event(1), a);
		order_recorded(event(1), first ? b : a, tick[first]);
		EXPECT_EQ(order_waiting(event(1)), 0);
		order_recorded(event(1), first ? a : b, tick[!first]);
		EXPECT_EQ(order_waiting(event(1)), 0);
	}
	/* A record that begins during another one counts as one of two as
	 * well. */
	uint64_t long_one = order_recording(event(1), a);
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
	uint64_t tick = order_recording(event(1), a);
	order_waited(c, event(1), seen);
	order_recorded(event(1), b, tick);
	order_waited(c, event(1), seen);
	EXPECT_EQ(until(c, a), 0);
	EXPECT_EQ(until(c, b), 0);
}

TEST(an_event_that_is_destroyed_while_it_is_recorded_is_not_known)
{
	weir_stream a = new_stream();

	uint64_t tick = order_recording(event(1), a);
	order_gone(event(1));
	order_recorded(event(1), a, tick);
	EXPECT_EQ(order_waiting(event(1)), 0);
}

/* ---- What is not believed ---------------------------------------------- */

TEST(a_record_that_fails_leaves_nothing_known)
{
	weir_stream a = new_stream();

	record_event(event(1), a);
	order_recorded(event(1), NULL, order_recording(event(1), a));
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

/* ---- Captures ---------------------------------------------------------- */

static uint64_t
begin(weir_stream stream)
{
	EXPECT_EQ(device_driver()->cuStreamBeginCapture(
		      stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	    CUDA_SUCCESS);
	return capture_of(known(stream));
}

static void
end(weir_stream stream)
{
	CUgraph graph = NULL;

	EXPECT_EQ(
	    device_driver()->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	device_driver()->cuGraphDestroy(graph);
}

static void
wait_for(weir_stream later, weir_stream earlier)
{
	EXPECT_OK(weir_stream_wait_stream(later, earlier));
}

static uint64_t
until_in(uint64_t capture, weir_stream later, weir_stream earlier)
{
	return order_after(known(later), known(earlier), capture);
}

TEST(a_capture_has_a_separate_order)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	load_kernels();
	wait_for(a, b);
	uint64_t before = until(a, b);
	uint64_t capture = begin(a);
	EXPECT_EQ(order_position(known(a)).capture, capture);
	EXPECT_EQ(order_position(known(b)).capture, 0);
	EXPECT_EQ(until_in(capture, a, b), 0); /* from before */
	wait_for(b, a);
	busy(b, 1);
	wait_for(c, b);
	EXPECT_GT(until_in(capture, c, b), before);
	EXPECT_GT(until_in(capture, c, a), before); /* it passes on */
	EXPECT_EQ(until(c, b), 0);
	wait_for(a, c);
	EXPECT_GT(until_in(capture, a, b), before);
	EXPECT_EQ(until(a, b), before);
	end(a);
	/* The capture is over: none of its order holds outside, nor in the next
	 * one. */
	EXPECT_EQ(order_position(known(c)).capture, 0);
	EXPECT_EQ(until(c, b), 0);
	uint64_t next = begin(b);
	EXPECT_NE(next, capture);
	wait_for(c, b);
	EXPECT_EQ(until_in(next, b, a), 0);
	EXPECT_EQ(until_in(next, c, a), 0);
	end(b);
}

TEST(a_stream_stays_where_it_is_while_nothing_is_captured_on_it)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	load_kernels();
	uint64_t capture = begin(a);
	wait_for(b, a);
	busy(b, 1);
	wait_for(a, b);
	/* The stream has joined first, and memory freed then was used
	 * before. */
	uint64_t tick = order_position(known(b)).tick;
	EXPECT_EQ(order_position(known(b)).tick, tick);
	EXPECT_GE(until_in(capture, a, b), tick);
	busy(b, 1);
	EXPECT_LT(until_in(capture, a, b), order_position(known(b)).tick);
	wait_for(a, b);
	EXPECT_GE(until_in(capture, a, b), order_position(known(b)).tick);
	end(a);
	/* Outside there may be more work at any time. */
	tick = order_position(known(b)).tick;
	EXPECT_GT(order_position(known(b)).tick, tick);
}

TEST(orders_of_other_streams_are_recorded_during_a_capture)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream captured = new_stream();

	begin(captured);
	wait_for(b, a);
	EXPECT_GT(until(b, a), 0);
	end(captured);
}

/* The preload library reports a record or a wait before and after the driver's
 * call. */
TEST(a_record_or_a_wait_at_the_border_of_a_capture_teaches_nothing)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	uint64_t tick = record_event(event(1), a);
	uint64_t capture = begin(b);
	wait_event(b, event(1)); /* of a graph, at each replay */
	EXPECT_EQ(until(b, a), 0);
	EXPECT_EQ(until_in(capture, b, a), 0);
	wait_event(a, event(1));
	record_event(event(2), b);
	wait_event(a, event(2));
	EXPECT_EQ(until(a, b), 0);
	end(b);
	wait_event(a, event(2));
	EXPECT_EQ(until(a, b), 0);
	wait_event(b, event(1));
	EXPECT_EQ(until(b, a), tick);
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
