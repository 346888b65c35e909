/*
 * <weir/stream.h>: created and pooled streams, the current stream, and
 * querying, waiting for and ordering streams.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "tests/support/cuda.h"
#include "tests/support/device.h"

/* ---- Making ------------------------------------------------------------ */

TEST(streams_differ_from_each_other_and_from_the_default_streams)
{
	weir_stream stream[4];

	for (int i = 0; i < 4; i++) {
		stream[i] = new_stream();
		EXPECT_NOT_NULL(stream[i]);
		EXPECT_NE(stream[i], WEIR_STREAM_LEGACY);
		EXPECT_NE(stream[i], WEIR_STREAM_PER_THREAD);
		EXPECT_NE(stream[i], WEIR_STREAM_ANY);
		for (int k = 0; k < i; k++)
			EXPECT_NE(stream[i], stream[k]);
	}
}

TEST(a_stream_runs_beside_the_legacy_default_stream)
{
	weir_stream stream = new_stream();

	busy(NULL, LATE_MS);
	busy(stream, 1);
	finish(stream);
	EXPECT(!is_done(NULL));
}

TEST(a_stream_needs_a_place_and_a_device_that_is_there)
{
	weir_stream stream = (weir_stream)7;

	EXPECT_STATUS(weir_stream_create(0, 0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_create(99, 0, &stream), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_stream_from_pool(99, 0, &stream), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_stream_from_pool(0, 0, NULL), WEIR_EINVAL);
	EXPECT_EQ(stream, (weir_stream)7);
}

TEST(a_failed_creation_of_a_stream_is_reported)
{
	weir_stream stream = (weir_stream)7;

	device_need_sim("calls of the driver are made to fail");
	EXPECT_EQ(sim()->fail("cuStreamCreateWithPriority", 1, 2,
		      CUDA_ERROR_OUT_OF_MEMORY),
	    0);
	EXPECT_STATUS(weir_stream_create(0, 0, &stream), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "cuStreamCreateWithPriority");
	EXPECT_STATUS(weir_stream_from_pool(0, 0, &stream), WEIR_ENOMEM);
	EXPECT_EQ(stream, (weir_stream)7);
	EXPECT_OK(weir_stream_from_pool(0, 0, &stream));
	give(take(512, stream));
}

TEST(a_stream_that_cannot_be_followed_is_kept_for_the_next_request)
{
	weir_stream stream = (weir_stream)7;

	EXPECT_OK(weir_set_device(0));
	meta_fail(1, 1);
	EXPECT_STATUS(weir_stream_create(0, 0, &stream), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(stream, (weir_stream)7);
	stream = new_stream();
	give(take(512, stream));
	if (sim() != NULL)
		EXPECT_EQ(sim()->live("stream"), 1);
}

TEST(a_new_stream_is_behind_no_work_of_one_that_was_destroyed)
{
	weir_stream old = new_stream();
	weir_stream made;

	busy(old, LATE_MS);
	EXPECT_OK(weir_stream_destroy(old));
	made = new_stream();
	EXPECT_NE(made, old);
	EXPECT(is_done(made));
	EXPECT_EQ(device_driver()->cuStreamQuery(old), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(device_driver()->cuStreamSynchronize(old), CUDA_SUCCESS);
	EXPECT_EQ(new_stream(), old);
}

TEST(priorities_are_clamped_to_the_device_s_range)
{
	weir_stream stream;
	int least = 0;
	int greatest = 0;
	int priority = 77;

	EXPECT_OK(weir_set_device(0));
	cuda_load();
	CU(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
	EXPECT_OK(weir_stream_priority(new_stream(), &priority));
	EXPECT_EQ(priority, 0);
	EXPECT_OK(weir_stream_create(0, -1, &stream));
	EXPECT_OK(weir_stream_priority(stream, &priority));
	EXPECT_EQ(priority, greatest < -1 ? -1 : greatest);
	EXPECT_OK(weir_stream_create(0, -1000, &stream));
	EXPECT_OK(weir_stream_priority(stream, &priority));
	EXPECT_EQ(priority, greatest);
	EXPECT_OK(weir_stream_create(0, 1000, &stream));
	EXPECT_OK(weir_stream_priority(stream, &priority));
	EXPECT_EQ(priority, least);
	EXPECT_OK(weir_stream_priority(NULL, &priority));
	EXPECT_EQ(priority, 0);
	EXPECT_STATUS(weir_stream_priority(stream, NULL), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_stream_priority(WEIR_STREAM_ANY, &priority), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(),
	    "weir_stream_priority: WEIR_STREAM_ANY is no stream");
}

TEST(a_stream_has_a_device)
{
	weir_stream stream;
	int device = -1;

	EXPECT_OK(weir_stream_device(new_stream(), &device));
	EXPECT_EQ(device, 0);
	EXPECT_OK(weir_stream_device(NULL, &device));
	EXPECT_EQ(device, 0);
	EXPECT_STATUS(weir_stream_device(NULL, NULL), WEIR_EINVAL);
	stream = new_stream();
	EXPECT_OK(weir_stream_destroy(stream));
	EXPECT_STATUS(weir_stream_device(stream, &device), WEIR_EINVAL);
}

TEST(streams_of_two_devices_have_their_devices)
{
	weir_stream stream;
	int device = -1;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &stream));
	EXPECT_OK(weir_stream_device(stream, &device));
	EXPECT_EQ(device, 1);
	EXPECT_OK(weir_set_device(1));
	EXPECT_OK(weir_stream_device(NULL, &device));
	EXPECT_EQ(device, 1);
}

/* ---- The pool ---------------------------------------------------------- */

TEST(the_pool_gives_32_streams_round_robin)
{
	weir_stream first[WEIR_STREAM_POOL_SIZE];
	weir_stream again;

	for (int i = 0; i < WEIR_STREAM_POOL_SIZE; i++) {
		EXPECT_OK(weir_stream_from_pool(0, 0, &first[i]));
		for (int k = 0; k < i; k++)
			EXPECT_NE(first[i], first[k]);
	}
	for (int i = 0; i < 2 * WEIR_STREAM_POOL_SIZE; i++) {
		EXPECT_OK(weir_stream_from_pool(0, 0, &again));
		EXPECT_EQ(again, first[i % WEIR_STREAM_POOL_SIZE]);
	}
}

TEST(each_priority_and_each_device_has_a_separate_pool)
{
	weir_stream normal;
	weir_stream high;
	weir_stream other;
	int priority;

	device_need(2);
	EXPECT_OK(weir_stream_from_pool(0, 0, &normal));
	EXPECT_OK(weir_stream_from_pool(0, -1, &high));
	EXPECT_OK(weir_stream_from_pool(1, 0, &other));
	EXPECT_NE(normal, high);
	EXPECT_NE(normal, other);
	EXPECT_OK(weir_stream_priority(high, &priority));
	EXPECT_LT(priority, 0);
	EXPECT_OK(weir_stream_priority(normal, &priority));
	EXPECT_EQ(priority, 0);
	EXPECT_OK(weir_stream_device(other, &priority));
	EXPECT_EQ(priority, 1);
}

TEST(a_priority_above_0_is_normal_in_the_pool)
{
	weir_stream stream;
	int priority = 7;

	EXPECT_OK(weir_stream_from_pool(0, 5, &stream));
	EXPECT_OK(weir_stream_priority(stream, &priority));
	EXPECT_EQ(priority, 0);
}

static void *
take_from_pool(void *out)
{
	for (int i = 0; i < WEIR_STREAM_POOL_SIZE; i++)
		EXPECT_OK(weir_stream_from_pool(0, 0, (weir_stream *)out + i));
	return NULL;
}

static int
count(const weir_stream *in, int n, weir_stream wanted)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += in[i] == wanted;
	return found;
}

TEST(threads_that_share_the_pool_get_each_stream_equally_often)
{
	enum { THREADS = 4, ALL = THREADS * WEIR_STREAM_POOL_SIZE };
	weir_stream got[ALL];
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&thread[i], NULL, take_from_pool,
			      &got[i * WEIR_STREAM_POOL_SIZE]),
		    0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < ALL; i++)
		EXPECT_EQ(count(got, ALL, got[i]), THREADS);
}

/* ---- The current stream ------------------------------------------------ */

TEST(the_current_stream_is_the_default_one_until_it_is_set)
{
	weir_stream stream = new_stream();
	weir_stream current = stream;

	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_NULL(current);
	EXPECT_OK(weir_stream_set_current(stream));
	EXPECT_OK(weir_stream_current(WEIR_DEVICE_CURRENT, &current));
	EXPECT_EQ(current, stream);
	EXPECT_OK(weir_stream_set_current(NULL));
	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_NULL(current);
	EXPECT_STATUS(weir_stream_current(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_current(99, &current), WEIR_ENODEVICE);
}

static void *
expect_no_current(void *arg)
{
	weir_stream current = arg;

	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_NULL(current);
	EXPECT_OK(weir_stream_set_current(new_stream()));
	return NULL;
}

TEST(each_thread_has_a_separate_current_stream)
{
	weir_stream stream = new_stream();
	weir_stream current;
	pthread_t thread;

	EXPECT_OK(weir_stream_set_current(stream));
	EXPECT_EQ(pthread_create(&thread, NULL, expect_no_current, stream), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_EQ(current, stream);
}

TEST(each_device_has_a_separate_current_stream)
{
	weir_stream of_1;
	weir_stream current;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &of_1));
	EXPECT_OK(weir_stream_set_current(of_1));
	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_NULL(current);
	EXPECT_OK(weir_stream_current(1, &current));
	EXPECT_EQ(current, of_1);
	/* A default stream is that of the current device. */
	EXPECT_OK(weir_set_device(1));
	EXPECT_OK(weir_stream_set_current(NULL));
	EXPECT_OK(weir_stream_current(1, &current));
	EXPECT_NULL(current);
}

TEST(an_invalid_stream_cannot_be_current)
{
	weir_stream gone = new_stream();
	weir_stream current;

	EXPECT_STATUS(weir_stream_set_current(WEIR_STREAM_ANY), WEIR_EINVAL);
	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_STATUS(weir_stream_set_current(gone), WEIR_EINVAL);
	EXPECT_OK(weir_stream_current(0, &current));
	EXPECT_NULL(current);
}

/* ---- Asking and waiting ------------------------------------------------ */

TEST(a_stream_reports_whether_its_work_is_done)
{
	weir_stream stream = new_stream();

	EXPECT_OK(weir_stream_query(stream));
	busy(stream, LATE_MS);
	EXPECT_STATUS(weir_stream_query(stream), WEIR_ENOTREADY);
	EXPECT_OK(weir_stream_synchronize(stream));
	EXPECT_OK(weir_stream_query(stream));
}

TEST(the_default_streams_report_whether_their_work_is_done)
{
	EXPECT_OK(weir_set_device(0));
	EXPECT_OK(weir_stream_query(NULL));
	busy(NULL, 50);
	EXPECT_STATUS(weir_stream_query(NULL), WEIR_ENOTREADY);
	EXPECT_STATUS(weir_stream_query(WEIR_STREAM_LEGACY), WEIR_ENOTREADY);
	EXPECT_OK(weir_stream_synchronize(NULL));
	EXPECT_OK(weir_stream_query(NULL));
	busy(WEIR_STREAM_PER_THREAD, 50);
	EXPECT_STATUS(
	    weir_stream_query(WEIR_STREAM_PER_THREAD), WEIR_ENOTREADY);
	EXPECT_OK(weir_stream_synchronize(WEIR_STREAM_PER_THREAD));
	EXPECT_OK(weir_stream_query(WEIR_STREAM_PER_THREAD));
}

TEST(waiting_for_no_stream_is_waiting_for_all)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, 20);
	busy(b, 40);
	EXPECT_OK(weir_stream_synchronize(WEIR_STREAM_ANY));
	EXPECT(is_done(a));
	EXPECT(is_done(b));
	EXPECT_STATUS(weir_stream_query(WEIR_STREAM_ANY), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(),
	    "weir_stream_query: WEIR_STREAM_ANY is no stream");
}

TEST(a_copy_beyond_all_addresses_is_refused)
{
	weir_stream stream = new_stream();
	char host[16] = "";

	EXPECT_STATUS(weir_copy(host, host + 8, SIZE_MAX, stream), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "18446744073709551615 bytes");
	EXPECT_STATUS(
	    weir_copy(host, host + 8, WEIR_SIZE_MAX + 1, stream), WEIR_EINVAL);
}

TEST(waiting_for_a_device_is_waiting_for_all_its_streams)
{
	weir_stream a = new_stream();

	busy(a, 20);
	busy(NULL, 40);
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT(is_done(a));
	EXPECT(is_done(NULL));
	EXPECT_OK(weir_device_synchronize(WEIR_DEVICE_CURRENT));
	EXPECT_STATUS(weir_device_synchronize(99), WEIR_ENODEVICE);
}

TEST(waiting_for_one_stream_is_not_waiting_for_another)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(b, LATE_MS);
	busy(a, 10);
	EXPECT_OK(weir_stream_synchronize(a));
	EXPECT(is_done(a));
	EXPECT(!is_done(b));
}

TEST(a_destroyed_stream_can_be_neither_asked_nor_waited_for)
{
	weir_stream gone = new_stream();
	weir_stream stream = new_stream();
	int priority;

	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_STATUS(weir_stream_query(gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_synchronize(gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_priority(gone, &priority), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_wait_stream(stream, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_wait_stream(gone, stream), WEIR_EINVAL);
}

/* ---- Order between streams --------------------------------------------- */

TEST(a_stream_waits_for_work_that_another_has_queued)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(MIB, a);

	busy(a, 30);
	fill(ptr, MIB, 1, a);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	fill(ptr, MIB, 2, b);
	expect_filled(ptr, MIB, 2, b);
	EXPECT(is_done(a));
	expect_healthy();
}

TEST(a_stream_does_not_wait_for_work_that_another_queues_later)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	EXPECT_OK(weir_stream_wait_stream(b, a));
	busy(a, LATE_MS);
	busy(b, 1);
	finish(b);
	EXPECT(!is_done(a));
}

TEST(waiting_for_a_stream_does_not_stop_the_host)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	busy(a, LATE_MS);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT(!is_done(a));
	EXPECT_STATUS(weir_stream_query(b), WEIR_ENOTREADY);
}

TEST(streams_wait_for_default_streams_and_the_other_way)
{
	weir_stream a = new_stream();

	EXPECT_OK(weir_set_device(0));
	busy(NULL, 20);
	EXPECT_OK(weir_stream_wait_stream(a, NULL));
	finish(a);
	EXPECT(is_done(NULL));
	busy(a, 20);
	EXPECT_OK(weir_stream_wait_stream(WEIR_STREAM_PER_THREAD, a));
	finish(WEIR_STREAM_PER_THREAD);
	EXPECT(is_done(a));
}

TEST(a_stream_waits_for_all_streams_at_once)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	busy(a, 20);
	busy(b, 40);
	EXPECT_OK(weir_stream_wait_stream(c, WEIR_STREAM_ANY));
	finish(c);
	EXPECT(is_done(a));
	EXPECT(is_done(b));
	EXPECT_STATUS(weir_stream_wait_stream(WEIR_STREAM_ANY, a), WEIR_EINVAL);
}

TEST(a_stream_waits_for_a_stream_of_another_device)
{
	weir_stream of_0;
	weir_stream of_1;

	device_need(2);
	EXPECT_OK(weir_stream_create(0, 0, &of_0));
	EXPECT_OK(weir_stream_create(1, 0, &of_1));
	busy(of_1, 30);
	EXPECT_OK(weir_stream_wait_stream(of_0, of_1));
	finish(of_0);
	EXPECT(is_done(of_1));
}

/* ---- In words ---------------------------------------------------------- */

TEST(a_stream_has_a_description)
{
	weir_stream stream = new_stream();
	char text[64];
	char expected[64];
	char little[8];

	snprintf(expected, sizeof(expected), "<weir.stream device=0 handle=%p>",
	    (void *)stream);
	EXPECT_EQ(
	    weir_stream_format(stream, text, sizeof(text)), strlen(expected));
	EXPECT_STR_EQ(text, expected);
	EXPECT_EQ(weir_stream_format(stream, little, sizeof(little)),
	    strlen(expected));
	EXPECT_STR_EQ(little, "<weir.s");
	EXPECT_EQ(weir_stream_format(stream, text, 0), strlen(expected));
	weir_stream_format(NULL, text, sizeof(text));
	EXPECT_STR_EQ(text, "<weir.stream device=0 handle=0>");
	weir_stream_format(WEIR_STREAM_ANY, text, sizeof(text));
	EXPECT_STR_EQ(text, "<weir.stream any>");
	EXPECT_OK(weir_stream_destroy(stream));
	weir_stream_format(stream, text, sizeof(text));
	EXPECT_STR_HAS(text, "invalid");
}

/* The driver's stream is kept for the next request, which would be in the
 * capture. */
TEST(a_stream_that_is_captured_is_not_destroyed)
{
	weir_stream stream = new_stream();

	capture_begin(stream);
	EXPECT_STATUS(weir_stream_destroy(stream), WEIR_ECAPTURE);
	EXPECT_STR_HAS(weir_last_error(), "is being captured");
	EXPECT_NE(new_stream(), stream);
	capture_end(stream);
	give(take(1000, stream));
	EXPECT_OK(weir_stream_destroy(stream));
	EXPECT_EQ(new_stream(), stream);
}

TEST(a_stream_whose_capture_is_broken_is_not_destroyed_before_the_end)
{
	weir_stream stream = new_stream();
	CUgraph graph = NULL;

	capture_begin(stream);
	EXPECT_NE(device_driver()->cuStreamQuery(stream), CUDA_SUCCESS);
	EXPECT_STATUS(weir_stream_destroy(stream), WEIR_ECAPTURE);
	EXPECT_EQ(device_driver()->cuStreamEndCapture(stream, &graph),
	    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	EXPECT_OK(weir_stream_destroy(stream));
	EXPECT_EQ(new_stream(), stream);
}
