/* Announced captures are counted. */
#include "streams/capture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "streams/event.h"
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

/* Until a caller declares that all captures are announced, there may be
 * others. */
TEST(the_absence_of_captures_is_sure_only_where_all_are_announced)
{
	EXPECT(!capture_none());
	capture_announce_all();
	EXPECT(capture_none());
	capture_began(NULL);
	EXPECT(!capture_none());
	capture_ended(NULL);
	EXPECT(capture_none());
}

TEST(a_capture_that_may_have_been_missed_is_not_made_up_for)
{
	capture_announce_all();
	capture_missed();
	EXPECT(!capture_none());
	capture_announce_all();
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

TEST(a_failed_query_of_a_capture_is_an_error)
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

/* ---- Holding captures off ---------------------------------------------- */

static struct stream *
stream_of(weir_stream handle)
{
	struct stream *stream = NULL;

	EXPECT_OK(stream_find(0, handle, &stream));
	return stream;
}

/* Count how often entering and leaving change the thread's mode. */
static uint64_t
changes(const struct stream *stream)
{
	uint64_t before = sim()->calls("cuThreadExchangeStreamCaptureMode");
	struct capture_guard guard;

	EXPECT_OK(capture_enter(stream->context, &guard));
	capture_leave(&guard);
	return sim()->calls("cuThreadExchangeStreamCaptureMode") - before;
}

TEST(the_mode_of_the_thread_is_changed_where_a_capture_may_be_under_way)
{
	struct stream *stream = stream_of(new_stream());

	device_need_sim("calls of the driver are counted");
	EXPECT_EQ(changes(stream), 2);
	capture_announce_all();
	EXPECT_EQ(changes(stream), 0);
	capture_began(stream->context);
	EXPECT_EQ(changes(stream), 2);
	capture_ended(stream->context);
	EXPECT_EQ(changes(stream), 0);
	capture_missed();
	EXPECT_EQ(changes(stream), 2);
	stream_put(stream);
}

TEST(a_failed_enter_holds_no_capture_off)
{
	struct stream *stream = stream_of(new_stream());
	struct capture_guard guard;

	device_need_sim("calls of the driver are made to fail");
	capture_announce_all();
	EXPECT_EQ(sim()->fail("cuCtxGetCurrent", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_STATUS(capture_enter(stream->context, &guard), WEIR_EDRIVER);
	capture_began(stream->context);
	capture_ended(stream->context);
	stream_put(stream);
}

static atomic_bool begun;

static void *
begin(void *argument)
{
	if (argument != NULL)
		capture_began(NULL);
	else
		capture_missed();
	atomic_store(&begun, true);
	return NULL;
}

/* A capture waits for this thread, which is inside, and enters again. */
static void
expect_held_off(bool told)
{
	struct stream *stream = stream_of(new_stream());
	struct capture_guard outer;
	struct capture_guard inner;
	pthread_t thread;

	atomic_store(&begun, false);
	capture_announce_all();
	EXPECT_OK(capture_enter(stream->context, &outer));
	EXPECT_EQ(
	    pthread_create(&thread, NULL, begin, told ? &thread : NULL), 0);
	while (capture_none())
		usleep(100);
	usleep(2000);
	EXPECT_OK(capture_enter(stream->context, &inner));
	capture_let_go(capture_hold_off());
	capture_leave(&inner);
	EXPECT(!atomic_load(&begun));
	capture_leave(&outer);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT(atomic_load(&begun));
	stream_put(stream);
}

TEST(a_capture_begins_when_all_earlier_calls_have_left)
{
	expect_held_off(true);
}

TEST(a_capture_that_is_not_announced_waits_for_them_too)
{
	expect_held_off(false);
}

enum { CALLERS = 3, CAPTURES = 400 };

static struct stream *captured;
static atomic_bool stop;

/* Calls that would break a capture of another thread. */
static void *
call(void *argument)
{
	struct capture_guard guard;
	CUevent event = NULL;

	(void)argument;
	while (!atomic_load(&stop)) {
		EXPECT_OK(capture_enter(captured->context, &guard));
		if (event == NULL)
			EXPECT_OK(event_acquire(captured->context, &event));
		EXPECT_EQ(device_driver()->cuEventQuery(event), CUDA_SUCCESS);
		capture_leave(&guard);
	}
	return NULL;
}

static void
capture_once(void)
{
	CUgraph graph = NULL;

	capture_began(captured->context);
	EXPECT_EQ(device_driver()->cuStreamBeginCapture(
		      captured->handle, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUDA_SUCCESS);
	EXPECT_EQ(device_driver()->cuStreamEndCapture(captured->handle, &graph),
	    CUDA_SUCCESS);
	capture_ended(captured->context);
	EXPECT_EQ(device_driver()->cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST(no_capture_is_broken_by_calls_at_the_same_time)
{
	pthread_t threads[CALLERS];

	captured = stream_of(new_stream());
	capture_announce_all();
	for (int i = 0; i < CALLERS; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, call, NULL), 0);
	for (unsigned i = 0; i < test_effort(CAPTURES); i++)
		capture_once();
	atomic_store(&stop, true);
	for (int i = 0; i < CALLERS; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	stream_put(captured);
}
