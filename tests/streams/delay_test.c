/*
 * Note [Measured delay]: how late a wait by weir makes a stream, which streams
 * inherit that lateness, and until when. Times are of the simulated device.
 */
#include "streams/delay.h"

#include "streams/event.h"
#include "streams/stream.h"
#include "tests/support/device.h"

enum { MS = 1000000 }; /* ns */

static struct stream *
of(weir_stream handle)
{
	struct stream *stream;

	EXPECT_OK(stream_find(WEIR_DEVICE_CURRENT, handle, &stream));
	stream_put(stream);
	return stream;
}

static void
arrange(void)
{
	device_need_sim("its clock stands still while nobody lets time pass");
}

/* Make a stream wait for all work of another, as weir does for a request that
 * finds no memory. */
static void
wait_of_weir(weir_stream later, weir_stream earlier)
{
	struct driver_guard guard;
	CUevent event;

	EXPECT_OK(driver_enter(of(later)->context, &guard));
	EXPECT_OK(stream_fence(of(earlier), &event));
	CUevent before = delay_begin(of(later));
	EXPECT_EQ(device_driver()->cuStreamWaitEvent(later, event, 0), 0);
	delay_end(of(later), before, true);
	event_release(of(earlier)->context, event);
	driver_leave(&guard);
}

/* Make a stream late by 10 ms, by a wait for another one: its work lasts until
 * 30 ms, instead of 20. */
static void
make_late(weir_stream later, weir_stream earlier)
{
	busy(earlier, 10);
	wait_of_weir(later, earlier);
	busy(later, 20);
}

/* Milliseconds, rounded. */
static uint64_t
late_ms(weir_stream stream)
{
	return (delay_see(of(stream)) + MS / 2) / MS;
}

static void
pass(unsigned ms)
{
	sim()->advance_ns((uint64_t)ms * MS);
}

TEST(a_stream_is_late_by_the_time_that_a_wait_held_it_up)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 5);
	EXPECT_EQ(late_ms(b), 0); /* the wait is not over */
	pass(12);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_EQ(late_ms(a), 0);
	EXPECT_EQ((delay_take_waited(&of(b)->delay) + MS / 2) / MS, 10);
	EXPECT_EQ(delay_take_waited(&of(b)->delay), 0);
}

TEST(a_wait_for_work_that_is_done_by_then_makes_no_stream_late)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 3);
	busy(b, 8);
	wait_of_weir(b, a);
	busy(b, 8);
	pass(10);
	EXPECT_EQ(late_ms(b), 0);
}

TEST(several_waits_add_up_until_the_stream_has_nothing_to_do)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 1);
	busy(a, 5);
	wait_of_weir(b, a);
	busy(b, 50);
	pass(20);
	EXPECT_EQ(late_ms(b), 14);
	pass(60);
	delay_idle(of(b));
	EXPECT_EQ(late_ms(b), 0);
}

/* It got its latest work 3 ms ago, and has done its earlier work. */
TEST(a_stream_is_no_later_than_it_is_behind_the_host)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 1);
	pass(20);
	EXPECT_EQ(late_ms(b), 10);
	uint64_t given_ns = driver_time_ns();
	busy(b, 50);
	pass(3);
	stream_took(of(b), given_ns);
	EXPECT_EQ(late_ms(b), 3);
	pass(4);
	EXPECT_EQ(late_ms(b), 3);
}

TEST(a_stream_that_waits_for_a_late_one_is_as_late)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	make_late(b, a);
	pass(11);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 30);
	EXPECT_EQ(late_ms(c), 10);
	EXPECT_EQ(delay_own(&of(b)->delay) / MS, 10);
	EXPECT_EQ(delay_own(&of(c)->delay), 0);
}

TEST(a_late_stream_that_has_to_wait_for_one_that_is_not_is_on_time_again)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 1);
	busy(a, 30);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	busy(b, 50);
	pass(15);
	EXPECT_EQ(late_ms(b), 10);
	pass(30);
	EXPECT_EQ(late_ms(b), 0);
}

TEST(a_late_stream_that_need_not_wait_stays_as_late)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 10);
	busy(c, 2);
	wait_of_weir(b, a);
	busy(b, 5);
	EXPECT_OK(weir_stream_wait_stream(b, c));
	busy(b, 50);
	pass(20);
	EXPECT_EQ(late_ms(b), 10);
}

TEST(a_stream_inherits_at_most_the_lateness_that_it_waited_for)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	make_late(b, a);
	busy(c, 27);
	wait_of_weir(c, a); /* no wait, but c is measured from now on */
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 30);
	pass(40);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_EQ(late_ms(c), 3);
}

static uint64_t
own_ms(weir_stream stream)
{
	return (delay_own(&of(stream)->delay) + MS / 2) / MS;
}

static uint64_t
slack_ms(weir_stream stream)
{
	return (atomic_load(&of(stream)->delay.slack_ns) + MS / 2) / MS;
}

/* b is late by 10 ms, and then waits for c, which is late by 4 ms: b inherits
 * at most the time that it waited. */
TEST(lateness_beyond_that_of_a_stream_it_waits_for_is_forgiven)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 4);
	wait_of_weir(c, a);
	busy(a, 6);
	wait_of_weir(b, a);
	busy(c, 30);
	busy(b, 1); /* until 11 ms; c until 34 */
	EXPECT_OK(weir_stream_wait_stream(b, c));
	busy(b, 50);
	pass(11);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_EQ(own_ms(b), 10);
	EXPECT_EQ(slack_ms(b), 0);
	EXPECT_EQ(late_ms(c), 4);
	pass(30);
	EXPECT_EQ(late_ms(b), 4);
	EXPECT_EQ(own_ms(b), 0);
	EXPECT_EQ(slack_ms(b), 10 + 23 - 4);
	EXPECT_EQ(own_ms(c), 4); /* the program made it wait for no stream */
	EXPECT_EQ(slack_ms(c), 0);
}

TEST(lateness_that_a_stream_adds_to_inherited_lateness_is_its_own)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 4);
	wait_of_weir(c, a);
	busy(c, 30);
	busy(a, 6);
	wait_of_weir(b, a);
	EXPECT_OK(weir_stream_wait_stream(b, c));
	busy(b, 1); /* until 35 ms */
	busy(a, 33);
	wait_of_weir(b, a); /* until 43 */
	busy(b, 50);
	pass(50);
	EXPECT_EQ(late_ms(c), 4);
	EXPECT_EQ(late_ms(b), 4 + 8);
	EXPECT_EQ(own_ms(b), 8);
}

/* b makes c late, and then inherits c's lateness: it is b's own all the
 * same. */
TEST(lateness_that_was_passed_on_does_not_come_back_as_the_other_s)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(c, 1);
	wait_of_weir(c, a); /* c is measured from now on */
	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 10); /* until 20 ms */
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 10); /* until 30 ms */
	EXPECT_OK(weir_stream_wait_stream(b, c));
	busy(b, 50);
	pass(15);
	EXPECT_EQ(late_ms(b), 10);
	pass(20);
	EXPECT_EQ(late_ms(c), 10);
	EXPECT_EQ(own_ms(c), 0);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_EQ(own_ms(b), 10);
}

/* Nobody has asked how late b is. */
TEST(a_stream_inherits_lateness_that_is_not_seen_yet)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	make_late(b, a);
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 30);
	pass(31);
	EXPECT_EQ(late_ms(c), 10);
	EXPECT_EQ(own_ms(c), 0);
}

TEST(a_stream_inherits_only_what_the_other_was_late_by_then)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	make_late(b, a);
	EXPECT_OK(weir_stream_wait_stream(c, b)); /* until 30 ms */
	busy(c, 50);
	busy(a, 40);
	wait_of_weir(b, a); /* until 50 */
	busy(b, 50);
	pass(60);
	EXPECT_EQ(late_ms(c), 10);
	EXPECT_EQ(late_ms(b), 30);
}

TEST(a_stream_that_ends_its_work_has_passed_its_lateness_on)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	make_late(b, a);
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 30);
	pass(40);
	delay_idle(of(b));
	EXPECT_EQ(late_ms(b), 0);
	EXPECT_EQ(late_ms(c), 10);
}

/* Each wait ends when the other does. */
TEST(streams_that_wait_for_each_other_at_once_are_seen)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	wait_of_weir(c, a);
	EXPECT_OK(weir_stream_wait_stream(b, c));
	EXPECT_OK(weir_stream_wait_stream(c, b));
	EXPECT_OK(weir_stream_wait_stream(b, c));
	busy(b, 10);
	busy(c, 10);
	pass(15);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_EQ(late_ms(c), 10);
}

TEST(slack_is_forgotten_by_a_stream_that_ends_its_work_late)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 1);
	busy(a, 20);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	busy(b, 1);
	pass(40);
	EXPECT_EQ(late_ms(b), 0);
	EXPECT_EQ(slack_ms(b), 29);
	delay_idle(of(b));
	EXPECT_EQ(slack_ms(b), 29);
	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 1);
	pass(20);
	EXPECT_EQ(late_ms(b), 10);
	delay_idle(of(b));
	EXPECT_EQ(late_ms(b), 0);
	EXPECT_EQ(own_ms(b), 0);
	EXPECT_EQ(slack_ms(b), 0);
}

/* Make b late by 10 ms, and let the host wait. Returns the ms that the host has
 * lost. */
static uint64_t
lost_ms(weir_stream a, weir_stream b, void (*host_waits)(weir_stream))
{
	uint64_t before = delay_lost_ns();

	make_late(b, a);
	host_waits(b);
	return (delay_lost_ns() - before + MS / 2) / MS;
}

static void
wait_for_stream(weir_stream stream)
{
	EXPECT_OK(weir_stream_synchronize(stream));
}

static void
wait_for_device(weir_stream stream)
{
	(void)stream;
	EXPECT_OK(weir_device_synchronize(0));
}

static void
wait_for_event(weir_stream stream)
{
	struct weir_event *event;

	EXPECT_OK(weir_event_create(0, &event));
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_OK(weir_event_destroy(event));
}

static void
wait_for_copy(weir_stream stream)
{
	static char to[16];
	void *from = weir_malloc(sizeof(to), stream);

	EXPECT_NOT_NULL(from);
	EXPECT_OK(weir_copy(to, from, sizeof(to), stream));
	weir_free(from);
}

static void
wait_at_the_end(weir_stream stream)
{
	pass(28); /* 2 of 30 ms are left */
	EXPECT_OK(weir_stream_synchronize(stream));
}

static void
wait_when_it_is_over(weir_stream stream)
{
	pass(30);
	EXPECT_OK(weir_stream_synchronize(stream));
}

TEST(a_host_that_waits_for_a_late_stream_loses_its_lateness)
{
	static void (*const waits[])(weir_stream) = { wait_for_stream,
		wait_for_device, wait_for_event, wait_for_copy };

	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		EXPECT_EQ(lost_ms(a, b, waits[i]), 10);
		EXPECT_EQ(late_ms(b), 0);
	}
}

TEST(a_host_loses_no_more_than_it_has_waited)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	EXPECT_EQ(lost_ms(a, b, wait_at_the_end), 2);
	EXPECT_EQ(lost_ms(a, b, wait_when_it_is_over), 0);
}

/* All of the device's streams are late by the same wait. */
TEST(a_wait_for_the_device_loses_the_lateness_of_the_latest_stream_once)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();
	uint64_t before = delay_lost_ns();

	make_late(b, a);
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 30);
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT_EQ((delay_lost_ns() - before + MS / 2) / MS, 10);
}

/* The host waits for a stream that waited for the late one. */
TEST(a_host_that_waits_for_a_stream_loses_the_lateness_that_it_inherited)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();
	uint64_t before = delay_lost_ns();

	make_late(b, a);
	EXPECT_OK(weir_stream_wait_stream(c, b));
	busy(c, 30);
	EXPECT_OK(weir_stream_synchronize(c));
	EXPECT_EQ((delay_lost_ns() - before + MS / 2) / MS, 10);
}

/* weir cannot tell whether a program that queries a stream waits for it. */
TEST(a_host_that_looks_loses_nothing)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	uint64_t before = delay_lost_ns();

	make_late(b, a);
	pass(31);
	EXPECT_OK(weir_stream_query(b));
	EXPECT_EQ(delay_lost_ns(), before);
}

TEST(a_wait_that_no_work_follows_makes_no_stream_late)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(a, 20);
	wait_of_weir(b, a);
	pass(15);
	EXPECT_EQ(late_ms(b), 0); /* the second wait follows at once */
	EXPECT_OK(weir_stream_wait_stream(b, a)); /* no work follows it */
	pass(20);
	EXPECT_EQ(late_ms(b), 30);
	EXPECT_EQ(delay_take_felt(&of(b)->delay) / MS, 30);
	delay_idle(of(b));
	EXPECT_EQ(late_ms(b), 0);
	EXPECT_EQ(delay_take_felt(&of(b)->delay) / MS, -30);
	EXPECT_EQ(delay_take_felt(&of(b)->delay), 0);
}

TEST(waits_that_follow_each_other_count_together_when_work_comes)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(a, 20);
	wait_of_weir(b, a);
	busy(b, 50);
	pass(15);
	EXPECT_EQ(late_ms(b), 0);
	pass(20);
	EXPECT_EQ(late_ms(b), 30);
}

TEST(a_program_s_wait_right_behind_takes_the_lateness_away)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 10);
	busy(c, 40);
	wait_of_weir(b, a);
	EXPECT_OK(weir_stream_wait_stream(b, c));
	busy(b, 50);
	pass(15);
	EXPECT_EQ(late_ms(b), 0); /* it would wait for c in any case */
	pass(30);
	EXPECT_EQ(late_ms(b), 0);
}

TEST(a_program_that_weir_never_made_wait_records_no_more_events)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	EXPECT_OK(weir_stream_wait_stream(b, a));
	uint64_t records = sim()->calls("cuEventRecord");
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_EQ(sim()->calls("cuEventRecord"), records + 1);
}

/* A measured wait takes two events more. */
static uint64_t
measured_of(unsigned n, weir_stream later, weir_stream earlier)
{
	uint64_t records = sim()->calls("cuEventRecord");

	for (unsigned i = 0; i < n; i++)
		EXPECT_OK(weir_stream_wait_stream(later, earlier));
	return (sim()->calls("cuEventRecord") - records - n) / 2;
}

TEST(one_of_the_program_s_waits_in_two_milliseconds_is_measured)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	busy(b, 100);
	EXPECT_EQ(measured_of(200, b, c), 64);
	pass(20);
	EXPECT_EQ(measured_of(200, b, c), 10);
	EXPECT_EQ(late_ms(b), 10);
}

TEST(waits_beyond_those_that_are_kept_are_not_measured)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	for (int i = 0; i < DELAY_OPEN + 3; i++)
		wait_of_weir(b, a);
	EXPECT_EQ(atomic_load(&of(b)->delay.open_count), DELAY_OPEN);
	busy(b, 50);
	pass(12);
	EXPECT_EQ(late_ms(b), 10);
	EXPECT_EQ(atomic_load(&of(b)->delay.open_count), 0);
}

TEST(a_wait_that_the_driver_refuses_an_event_for_is_made_all_the_same)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct driver_guard guard;

	EXPECT_OK(driver_enter(of(b)->context, &guard));
	sim()->fail("cuEventCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_NULL(delay_begin(of(b)));
	CUevent before = delay_begin(of(b));
	EXPECT_NOT_NULL(before);
	sim()->fail("cuEventRecord", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	delay_end(of(b), before, true);
	EXPECT_EQ(atomic_load(&of(b)->delay.open_count), 0);
	before = delay_begin(of(b));
	delay_end(of(b), before, false);
	EXPECT_EQ(atomic_load(&of(b)->delay.open_count), 0);
	driver_leave(&guard);
	EXPECT_EQ(late_ms(a), 0);
}

TEST(a_stream_that_is_destroyed_gives_its_events_back)
{
	arrange();
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 10);
	wait_of_weir(b, a);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_OK(weir_stream_destroy(b));
	EXPECT_OK(weir_stream_destroy(a));
	pass(20);
}
