/*
 * docs/behaviours.md, rows on callbacks. Each is called once, with the exact
 * facts.
 */
#include <string.h>

#include <weir/trace.h>

#include "base/lock.h"
#include "tests/support/device.h"

/* The arguments of a callback's latest call, and the number of calls. */
struct told {
	int times;
	struct weir_trace trace;
};

static void
note(const struct weir_trace *trace, void *user)
{
	struct told *told = user;

	EXPECT(lock_none_held());
	told->times++;
	told->trace = *trace;
}

static struct told told;

static void
listen(enum weir_trace_kind kind)
{
	EXPECT_OK(weir_trace_callback_add(kind, note, &told));
}

/* The callback was called once, with these arguments. */
static void
expect_told(enum weir_trace_kind kind, const void *event, weir_stream stream)
{
	EXPECT_EQ(told.times, 1);
	EXPECT_EQ(told.trace.kind, kind);
	EXPECT_EQ(told.trace.device, 0);
	EXPECT_EQ(told.trace.event, event);
	EXPECT_EQ(told.trace.stream, stream);
	told.times = 0;
}

static struct weir_event *
new_event(void)
{
	static struct weir_event *events[4]; /* until the test ends */
	static size_t n;

	EXPECT_LT(n, 4);
	EXPECT_OK(weir_event_create(WEIR_EVENT_DEFAULT, &events[n]));
	return events[n++];
}

TEST(the_creation_of_an_event_is_reported_once)
{
	struct weir_event *event = new_event();

	listen(WEIR_TRACE_EVENT_CREATION);
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_OK(weir_event_record(event, NULL));
	expect_told(WEIR_TRACE_EVENT_CREATION, weir_event_handle(event), NULL);
}

TEST(the_deletion_of_an_event_is_reported_before_it)
{
	struct weir_event *event = new_event();
	struct weir_event *unused = new_event();

	listen(WEIR_TRACE_EVENT_DELETION);
	EXPECT_OK(weir_event_record(event, NULL));
	const void *handle = weir_event_handle(event);
	EXPECT_OK(weir_event_destroy(event));
	expect_told(WEIR_TRACE_EVENT_DELETION, handle, NULL);
	/* An event that was never recorded was never created. */
	EXPECT_OK(weir_event_destroy(unused));
	EXPECT_OK(weir_event_destroy(NULL));
	EXPECT_EQ(told.times, 0);
}

TEST(a_record_is_reported_with_its_event_and_stream)
{
	struct weir_event *event = new_event();
	weir_stream stream = new_stream();

	listen(WEIR_TRACE_EVENT_RECORD);
	EXPECT_OK(weir_event_record(event, NULL));
	expect_told(WEIR_TRACE_EVENT_RECORD, weir_event_handle(event), NULL);
	EXPECT_OK(weir_event_record(event, stream));
	expect_told(WEIR_TRACE_EVENT_RECORD, weir_event_handle(event), stream);
	EXPECT_STATUS(weir_event_record(NULL, stream), WEIR_EINVAL);
	EXPECT_EQ(told.times, 0);
}

TEST(a_wait_is_reported_with_its_event_and_stream)
{
	struct weir_event *event = new_event();
	weir_stream stream = new_stream();

	listen(WEIR_TRACE_EVENT_WAIT);
	EXPECT_OK(weir_stream_wait_event(stream, event)); /* waits for nothing*/
	EXPECT_EQ(told.times, 0);
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_OK(weir_stream_wait_event(NULL, event));
	expect_told(WEIR_TRACE_EVENT_WAIT, weir_event_handle(event), NULL);
	EXPECT_OK(weir_stream_wait_event(stream, event));
	expect_told(WEIR_TRACE_EVENT_WAIT, weir_event_handle(event), stream);
}

TEST(an_allocation_is_reported_with_its_address)
{
	listen(WEIR_TRACE_MEMORY_ALLOCATION);
	void *block = take(160, NULL);

	expect_told(WEIR_TRACE_MEMORY_ALLOCATION, NULL, NULL);
	EXPECT_EQ(told.trace.address, block);
	EXPECT_EQ(told.trace.size, 160);
	give(block);
	EXPECT_EQ(told.times, 0);
}

TEST(a_free_is_reported_with_its_address)
{
	void *block = take(96, NULL);

	listen(WEIR_TRACE_MEMORY_DEALLOCATION);
	give(block);
	expect_told(WEIR_TRACE_MEMORY_DEALLOCATION, NULL, NULL);
	EXPECT_EQ(told.trace.address, block);
	EXPECT_EQ(told.trace.size, 96);
}

TEST(the_creation_of_a_stream_is_reported)
{
	weir_stream stream;

	listen(WEIR_TRACE_STREAM_CREATION);
	EXPECT_OK(weir_stream_create(0, 0, &stream));
	expect_told(WEIR_TRACE_STREAM_CREATION, NULL, stream);
	/* The streams of the pool are created on demand. */
	for (int i = 0; i < WEIR_STREAM_POOL_SIZE; i++) {
		EXPECT_OK(weir_stream_from_pool(0, 0, &stream));
		expect_told(WEIR_TRACE_STREAM_CREATION, NULL, stream);
	}
	EXPECT_OK(weir_stream_from_pool(0, 0, &stream));
	EXPECT_EQ(told.times, 0);
}

TEST(a_wait_for_a_device_is_reported)
{
	listen(WEIR_TRACE_DEVICE_SYNCHRONIZATION);
	EXPECT_OK(weir_device_synchronize(WEIR_DEVICE_CURRENT));
	expect_told(WEIR_TRACE_DEVICE_SYNCHRONIZATION, NULL, NULL);
}

TEST(a_wait_for_a_stream_is_reported_before_it)
{
	weir_stream stream = new_stream();

	listen(WEIR_TRACE_STREAM_SYNCHRONIZATION);
	EXPECT_OK(weir_stream_synchronize(stream));
	expect_told(WEIR_TRACE_STREAM_SYNCHRONIZATION, NULL, stream);
	EXPECT_OK(weir_stream_synchronize(NULL));
	expect_told(WEIR_TRACE_STREAM_SYNCHRONIZATION, NULL, NULL);
	EXPECT_OK(weir_stream_query(stream));
	EXPECT_EQ(told.times, 0);
}

/* Called in the middle of the copy: is it still under way? */
static void
note_busy(const struct weir_trace *trace, void *user)
{
	bool *still_busy = user;

	*still_busy = weir_stream_query(trace->stream) == WEIR_ENOTREADY;
}

TEST(a_copy_that_waits_reports_the_wait_for_its_stream)
{
	weir_stream stream = new_stream();
	uint32_t words[2] = { 7, 8 };
	void *block = take(sizeof(words), stream);
	bool still_busy = false;

	listen(WEIR_TRACE_STREAM_SYNCHRONIZATION);
	EXPECT_OK(weir_copy(block, words, sizeof(words), stream));
	expect_told(WEIR_TRACE_STREAM_SYNCHRONIZATION, NULL, stream);
	words[0] = words[1] = 0;
	EXPECT_OK(weir_copy(words, block, sizeof(words), stream));
	expect_told(WEIR_TRACE_STREAM_SYNCHRONIZATION, NULL, stream);
	EXPECT_EQ(words[0], 7);
	EXPECT_EQ(words[1], 8);
	EXPECT_OK(weir_copy(words, block, sizeof(words), NULL));
	expect_told(WEIR_TRACE_STREAM_SYNCHRONIZATION, NULL, NULL);
	/* The callback is called before the wait, which then takes place. */
	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_STREAM_SYNCHRONIZATION, note_busy, &still_busy));
	busy(stream, LATE_MS);
	EXPECT_OK(weir_copy(block, block, sizeof(words), stream));
	EXPECT(still_busy);
	EXPECT(is_done(stream));
	give(block);
}

TEST(a_copy_that_cannot_be_made_is_refused_and_not_reported)
{
	weir_stream stream = new_stream();
	uint32_t word = 0;
	void *block = take(sizeof(word), stream);

	listen(WEIR_TRACE_STREAM_SYNCHRONIZATION);
	EXPECT_OK(weir_copy(NULL, NULL, 0, stream));
	EXPECT_STATUS(weir_copy(block, NULL, 4, stream), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "an address is NULL");
	EXPECT_STATUS(weir_copy(block, &word, 4, WEIR_STREAM_ANY), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "a copy needs a stream");
	capture_begin(stream);
	EXPECT_STATUS(weir_copy(block, block, 4, stream), WEIR_ECAPTURE);
	capture_end(stream);
	EXPECT_EQ(told.times, 0);
	give(block);
}

TEST(a_wait_for_an_event_is_reported_before_it)
{
	struct weir_event *event = new_event();

	listen(WEIR_TRACE_EVENT_SYNCHRONIZATION);
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_EQ(told.times, 0);
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_OK(weir_event_synchronize(event));
	expect_told(
	    WEIR_TRACE_EVENT_SYNCHRONIZATION, weir_event_handle(event), NULL);
	EXPECT_OK(weir_event_query(event));
	EXPECT_EQ(told.times, 0);
}

TEST(all_callbacks_of_a_kind_are_called)
{
	struct told other = { 0 };

	listen(WEIR_TRACE_MEMORY_ALLOCATION);
	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_MEMORY_ALLOCATION, note, &other));
	void *block = take(160, NULL);
	EXPECT_EQ(told.times, 1);
	EXPECT_EQ(told.trace.address, block);
	EXPECT_EQ(other.times, 1);
	EXPECT_EQ(other.trace.address, block);
}

TEST(weirs_own_events_are_not_reported)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();

	for (int kind = 0; kind < WEIR_TRACE_MEMORY_ALLOCATION; kind++)
		listen((enum weir_trace_kind)kind);
	void *block = take(2 * MIB, stream);
	busy(other, 1);
	record(block, other);
	give(block);
	finish(other);
	trim(0);
	EXPECT_EQ(told.times, 0);
}

/* A callback that makes calls of the kind that it reports. */
static void
record_again(const struct weir_trace *trace, void *user)
{
	static int depth;

	(void)trace;
	if (depth++ == 0)
		EXPECT_OK(weir_event_record(user, NULL));
	depth--;
}

TEST(a_callback_may_call_weir)
{
	struct weir_event *event = new_event();

	EXPECT_OK(weir_trace_callback_add(
	    WEIR_TRACE_EVENT_RECORD, record_again, event));
	listen(WEIR_TRACE_EVENT_RECORD);
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_EQ(told.times, 2);
}
