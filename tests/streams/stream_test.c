/*
 * Streams: one struct for each, found by its handle, until it ends; and the
 * events that cover the work queued on it, which never disturb a capture.
 */
#include "streams/stream.h"

#include <pthread.h>

#include "base/meta.h"
#include "streams/capture.h"
#include "streams/event.h"
#include "tests/support/device.h"

static struct stream *
find(weir_stream handle)
{
	struct stream *stream = NULL;

	EXPECT_OK(stream_find(WEIR_DEVICE_CURRENT, handle, &stream));
	return stream;
}

/* ---- Finding ----------------------------------------------------------- */

TEST(a_handle_always_finds_the_same_stream)
{
	weir_stream a = new_stream();
	weir_stream b = foreign_stream(CU_STREAM_NON_BLOCKING);

	EXPECT_EQ(find(a), find(a));
	EXPECT_EQ(find(b), find(b));
	EXPECT_NE(find(a), find(b));
	EXPECT_EQ(find(a)->handle, a);
	EXPECT_EQ(find(a)->origin, STREAM_CREATED);
	EXPECT_EQ(find(b)->origin, STREAM_FOREIGN);
	EXPECT_EQ(find(a)->device, 0);
	EXPECT_EQ(find(a)->thread, 0);
}

TEST(a_failed_query_of_a_stream_does_not_make_it_invalid)
{
	device_need_sim("its driver can be made to fail");
	struct stream *stream;
	weir_stream foreign = foreign_stream(CU_STREAM_NON_BLOCKING);

	sim()->fail("cuStreamGetCtx", 1, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
	EXPECT_STATUS(stream_find(0, foreign, &stream), WEIR_EDRIVER);
	EXPECT_OK(stream_find(0, foreign, &stream));
	stream_put(stream);
	sim()->fail("cuStreamGetCtx", 1, 1, CUDA_ERROR_INVALID_HANDLE);
	EXPECT_STATUS(
	    stream_find(0, (weir_stream)0x123456, &stream), WEIR_EINVAL);
}

TEST(the_legacy_default_stream_has_two_names_and_no_stream_one)
{
	EXPECT_EQ(find(NULL), find(WEIR_STREAM_LEGACY));
	EXPECT_NE(find(NULL), find(WEIR_STREAM_ANY));
	EXPECT_NE(find(NULL), find(WEIR_STREAM_PER_THREAD));
	EXPECT_EQ(find(WEIR_STREAM_ANY), find(WEIR_STREAM_ANY));
	EXPECT(stream_is_default(NULL));
	EXPECT(stream_is_default(WEIR_STREAM_LEGACY));
	EXPECT(stream_is_default(WEIR_STREAM_PER_THREAD));
	EXPECT(!stream_is_default(WEIR_STREAM_ANY));
	EXPECT(!stream_is_default(new_stream()));
}

static void *
find_own(void *out)
{
	struct stream **streams = out;

	streams[0] = find(WEIR_STREAM_PER_THREAD);
	streams[1] = find(WEIR_STREAM_PER_THREAD);
	streams[2] = find(NULL);
	return NULL;
}

TEST(each_thread_has_its_per_thread_stream_and_all_share_the_legacy_one)
{
	struct stream *mine[3];
	struct stream *theirs[3];
	pthread_t thread;

	find_own(mine);
	EXPECT_EQ(pthread_create(&thread, NULL, find_own, theirs), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_EQ(mine[0], mine[1]);
	EXPECT_EQ(theirs[0], theirs[1]);
	EXPECT_NE(mine[0], theirs[0]);
	EXPECT_EQ(mine[2], theirs[2]);
}

TEST(each_device_has_separate_default_streams)
{
	struct stream *of_0;
	struct stream *of_1;

	device_need(2);
	EXPECT_OK(stream_find(0, NULL, &of_0));
	EXPECT_OK(stream_find(1, NULL, &of_1));
	EXPECT_NE(of_0, of_1);
	EXPECT_EQ(of_0->device, 0);
	EXPECT_EQ(of_1->device, 1);
	EXPECT_OK(weir_set_device(1));
	EXPECT_EQ(find(NULL), of_1);
	EXPECT_OK(stream_find(0, WEIR_STREAM_ANY, &of_0));
	EXPECT_EQ(of_0->device, 0);
	EXPECT_NE(find(WEIR_STREAM_ANY), of_0);
}

TEST(a_stream_of_another_device_than_meant_is_refused)
{
	struct stream *stream = NULL;
	weir_stream of_1;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &of_1));
	EXPECT_OK(stream_find(1, of_1, &stream));
	stream = NULL;
	EXPECT_STATUS(stream_find(0, of_1, &stream), WEIR_EINVAL);
	EXPECT_NULL(stream);
}

TEST(looking_up_a_stream_weir_has_not_met_does_not_make_it)
{
	weir_stream foreign = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct stream *stream = (struct stream *)1;

	EXPECT_OK(stream_lookup(WEIR_DEVICE_CURRENT, foreign, &stream));
	EXPECT_NULL(stream);
	struct stream *made = find(foreign);
	EXPECT_OK(stream_lookup(WEIR_DEVICE_CURRENT, foreign, &stream));
	EXPECT_EQ(stream, made);
}

TEST(an_invalid_stream_is_refused)
{
	struct stream *stream = NULL;

	device_need_sim("a driver may crash on a handle it did not give");
	EXPECT_STATUS(
	    stream_find(WEIR_DEVICE_CURRENT, (weir_stream)0x1234560, &stream),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "0x1234560");
	EXPECT_NULL(stream);
}

/* Python's -2 and -3, for example. The driver is not asked. */
TEST(a_handle_that_cannot_be_an_address_is_refused)
{
	for (uintptr_t below = 1; below < 4; below++) {
		struct stream *stream = NULL;
		weir_stream handle = (weir_stream)(UINTPTR_MAX - below);

		if (sim() != NULL)
			sim()->fail("cuStreamGetCtx", 1, 1,
			    CUDA_ERROR_ECC_UNCORRECTABLE);
		EXPECT_STATUS(stream_find(WEIR_DEVICE_CURRENT, handle, &stream),
		    WEIR_EINVAL);
		EXPECT_STR_HAS(weir_last_error(), "stream 0xffffffff");
		EXPECT_NULL(stream);
	}
}

TEST(a_stream_without_host_memory_is_refused)
{
	weir_stream foreign = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct stream *stream = NULL;

	meta_fail(1, 1);
	EXPECT_STATUS(
	    stream_find(WEIR_DEVICE_CURRENT, foreign, &stream), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_NULL(stream);
	EXPECT_NOT_NULL(find(foreign));
}

TEST(many_streams_are_all_found)
{
	enum { MANY = 1000 };
	static weir_stream handle[MANY];
	static struct stream *stream[MANY];

	for (int i = 0; i < MANY; i++) {
		handle[i] = foreign_stream(CU_STREAM_NON_BLOCKING);
		stream[i] = find(handle[i]);
	}
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(find(handle[i]), stream[i]);
}

/* ---- Ending ------------------------------------------------------------ */

TEST(a_stream_ends_once_and_is_found_no_more)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct stream *stream = find(a);
	struct stream *again;

	EXPECT(stream_end(stream, false));
	EXPECT(!stream_end(stream, false));
	EXPECT(atomic_load(&stream->ended));
	/* The handle is free for a new stream. */
	EXPECT_OK(stream_lookup(WEIR_DEVICE_CURRENT, a, &again));
	EXPECT_NULL(again);
	EXPECT_NE(find(a), stream);
	stream_put(stream);
}

TEST(the_handle_of_a_destroyed_stream_is_an_error)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct stream *stream = find(a);
	struct stream *again = NULL;

	EXPECT(stream_end(stream, true));
	EXPECT_STATUS(
	    stream_lookup(WEIR_DEVICE_CURRENT, a, &again), WEIR_EINVAL);
	EXPECT_STATUS(stream_find(WEIR_DEVICE_CURRENT, a, &again), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "destroyed");
	EXPECT_NULL(again);
}

TEST(the_driver_s_stream_of_a_destroyed_one_is_taken_up_again)
{
	weir_stream a = new_stream();
	struct stream *stream = find(a);

	EXPECT_OK(weir_stream_destroy(a));
	weir_stream b = new_stream();
	EXPECT_EQ(b, a);
	EXPECT_NE(find(b), stream);
	EXPECT(atomic_load(&stream->ended));
	give(take(512, b));
	/* A stream of another priority is another stream. */
	EXPECT_OK(weir_stream_destroy(b));
	EXPECT_OK(weir_stream_create(0, -1, &a));
	EXPECT_NE(a, b);
	stream_put(stream);
}

TEST(a_context_that_is_gone_takes_its_streams_along)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct stream *stream = find(a);
	struct stream *legacy = find(NULL);

	stream_forget(stream->context);
	EXPECT(atomic_load(&stream->ended));
	EXPECT(atomic_load(&legacy->ended));
	EXPECT_NE(find(NULL), legacy);
	stream_put(stream);
	stream_put(legacy);
}

/* ---- Fences ------------------------------------------------------------- */

/* Record a fence of a stream; the caller gives it back. */
static CUevent
fence_of(struct stream *stream)
{
	struct driver_guard guard;
	CUevent event = NULL;

	EXPECT_OK(driver_enter(stream->context, &guard));
	EXPECT_OK(event_acquire(stream->context, &event));
	EXPECT_OK(stream_record(stream, event));
	driver_leave(&guard);
	return event;
}

static bool
met(CUevent event)
{
	CUresult code = device_driver()->cuEventQuery(event);

	EXPECT(code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY);
	return code == CUDA_SUCCESS;
}

TEST(a_fence_covers_work_queued_on_its_stream)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, LATE_MS);
	CUevent of_a = fence_of(find(a));
	CUevent of_b = fence_of(find(b));
	finish(b);
	EXPECT(!met(of_a));
	EXPECT(met(of_b));
	finish(a);
	EXPECT(met(of_a));
}

TEST(a_fence_of_no_stream_covers_work_queued_anywhere)
{
	weir_stream a = new_stream();

	CUevent before = fence_of(find(WEIR_STREAM_ANY));
	busy(a, LATE_MS);
	CUevent event = fence_of(find(WEIR_STREAM_ANY));
	settle();
	EXPECT(met(before));
	EXPECT(!met(event));
	finish(a);
	settle();
	EXPECT(met(event));
}

TEST(a_fence_of_an_ended_stream_covers_its_work)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct stream *stream = find(a);

	busy(a, LATE_MS);
	EXPECT(stream_end(stream, false));
	foreign_destroy(a);
	CUevent event = fence_of(stream);
	settle();
	EXPECT(!met(event));
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT(met(event));
	stream_put(stream);
}

struct other {
	struct stream *stream;
	pthread_barrier_t ready;
	pthread_barrier_t over;
};

static void *
queue_own(void *arg)
{
	struct other *other = arg;

	EXPECT_OK(weir_set_device(0));
	busy(WEIR_STREAM_PER_THREAD, LATE_MS);
	other->stream = find(WEIR_STREAM_PER_THREAD);
	pthread_barrier_wait(&other->ready);
	pthread_barrier_wait(&other->over);
	return NULL;
}

TEST(a_fence_of_a_thread_s_stream_made_elsewhere_covers_its_work)
{
	struct other other = { 0 };
	pthread_t thread;

	EXPECT_EQ(pthread_barrier_init(&other.ready, NULL, 2), 0);
	EXPECT_EQ(pthread_barrier_init(&other.over, NULL, 2), 0);
	EXPECT_EQ(pthread_create(&thread, NULL, queue_own, &other), 0);
	pthread_barrier_wait(&other.ready);
	CUevent event = fence_of(other.stream);
	settle();
	EXPECT(!met(event));
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT(met(event));
	pthread_barrier_wait(&other.over);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
}

TEST(waiting_for_a_stream_waits_for_queued_work)
{
	weir_stream a = new_stream();

	busy(a, 20);
	EXPECT_OK(stream_wait_host(find(a)));
	EXPECT(is_done(a));
	busy(a, 20);
	EXPECT_OK(stream_wait_host(find(WEIR_STREAM_ANY)));
	EXPECT(is_done(a));
}

/* Drivers before 12.5 have no cuCtxRecordEvent(). */
TEST(without_records_of_contexts_no_stream_is_waited_for_at_once)
{
	struct driver *driver = (struct driver *)device_driver();
	weir_stream a = new_stream();

	driver->cuCtxRecordEvent = NULL;
	busy(a, 50);
	CUevent event = fence_of(find(WEIR_STREAM_ANY));
	EXPECT(is_done(a));
	settle();
	EXPECT(met(event));
}

/* ---- Captures ---------------------------------------------------------- */

static void
begin_capture(weir_stream stream, CUstreamCaptureMode mode)
{
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(
	    device_driver()->cuStreamBeginCapture(stream, mode), CUDA_SUCCESS);
}

static void
end_capture(weir_stream stream)
{
	CUgraph graph = NULL;

	EXPECT_EQ(
	    device_driver()->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	EXPECT_NOT_NULL(graph);
	EXPECT_EQ(device_driver()->cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* The stream cannot be fenced now, and no capture is broken by the try. */
static void
expect_capturing(struct stream *stream)
{
	struct driver_guard guard;
	CUevent event = NULL;

	EXPECT_OK(driver_enter(stream->context, &guard));
	EXPECT(stream_capturing(stream));
	EXPECT_OK(event_acquire(stream->context, &event));
	EXPECT_STATUS(stream_record(stream, event), WEIR_ECAPTURE);
	event_release(stream->context, event);
	driver_leave(&guard);
	EXPECT_STATUS(stream_wait_host(stream), WEIR_ECAPTURE);
}

TEST(a_stream_under_capture_is_neither_fenced_nor_disturbed)
{
	static const CUstreamCaptureMode modes[] = {
		CU_STREAM_CAPTURE_MODE_GLOBAL,
		CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
		CU_STREAM_CAPTURE_MODE_RELAXED,
	};
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (int i = 0; i < 3; i++) {
		begin_capture(a, modes[i]);
		expect_capturing(find(a));
		expect_capturing(find(WEIR_STREAM_ANY));
		fence_of(find(b));
		EXPECT_OK(stream_wait_host(find(b)));
		end_capture(a);
		fence_of(find(a));
		fence_of(find(WEIR_STREAM_ANY));
	}
}

/* A captured blocking stream would draw the legacy stream into the capture. */
TEST(the_default_stream_is_not_fenced_while_a_blocking_stream_is_captured)
{
	weir_stream a = foreign_stream(CU_STREAM_DEFAULT);

	find(a);
	begin_capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	expect_capturing(find(NULL));
	end_capture(a);
	fence_of(find(NULL));
}

/* Querying the driver for its flags would break the capture. */
TEST(a_stream_that_is_met_in_a_capture_does_not_break_it)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	weir_stream blocking = foreign_stream(CU_STREAM_DEFAULT);
	const struct stream *legacy = find(NULL);

	EXPECT(!stream_orders_others(legacy));
	begin_capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	expect_capturing(find(a));
	EXPECT(stream_orders_others(legacy)); /* it may */
	end_capture(a);
	EXPECT(!stream_orders_others(legacy));
	fence_of(find(a));

	begin_capture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	expect_capturing(find(blocking));
	end_capture(blocking);
	EXPECT(stream_orders_others(legacy));
}

/* So does its first request, on a thread whose calls are watched. */
TEST(memory_is_allocated_in_a_capture_for_a_stream_that_is_not_known)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	weir_stream b = foreign_stream(CU_STREAM_NON_BLOCKING);

	begin_capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	void *captured = weir_malloc(4 * MIB, a);
	void *other = weir_malloc(4 * MIB, b);
	EXPECT_NOT_NULL(captured);
	EXPECT_NOT_NULL(other);
	EXPECT_OK(weir_free(captured));
	EXPECT_OK(weir_free(other));
	end_capture(a);
}

TEST(a_registered_capture_counts_though_its_stream_is_unknown)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);

	find(NULL);
	begin_capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	capture_began(NULL);
	expect_capturing(find(WEIR_STREAM_ANY));
	end_capture(a);
	capture_ended(NULL);
	fence_of(find(WEIR_STREAM_ANY));
}
