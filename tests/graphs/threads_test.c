/*
 * Many threads that capture, replay, route and allocate at once: each gets its
 * own memory, and none holds up or breaks another's capture.
 */
#include <weir/graph.h>

#include <pthread.h>
#include <stdatomic.h>

#include "streams/capture.h"
#include "tests/support/device.h"

enum { THREADS = 4, ROUNDS = 60, BYTES = 256 * KIB };

static struct weir_pool *shared; /* several threads route to it */
static atomic_bool stop;

static void
set_device(void)
{
	EXPECT_OK(weir_set_device(0));
}

/* One of two streams. Memory passes between them by the order of this capture;
 * other captures at the same time do not concern it. */
static unsigned char *
put_work(weir_stream stream, weir_stream forked, unsigned char tag)
{
	EXPECT_OK(weir_stream_wait_stream(forked, stream));
	unsigned char *temp = take(BYTES, forked);
	fill(temp, BYTES, tag, forked);
	EXPECT_OK(weir_stream_wait_stream(stream, forked));
	unsigned char *output = take(BYTES, stream);
	copy(output, temp, BYTES, stream);
	record(temp, stream);
	give(temp);
	EXPECT_OK(weir_stream_wait_stream(forked, stream));
	temp = take(BYTES, forked);
	fill(temp, BYTES, 0xff, forked);
	give(temp);
	EXPECT_OK(weir_stream_wait_stream(stream, forked));
	temp = take(BYTES, stream);
	fill(temp, BYTES, 0xfe, stream);
	give(temp);
	return output;
}

/* Captures of this thread, each replayed and checked. */
static void *
capture_and_replay(void *argument)
{
	unsigned char tag = (unsigned char)(1 + (uintptr_t)argument);
	weir_stream stream = new_stream();
	weir_stream forked = new_stream();
	struct weir_graph *graph = NULL;

	set_device();
	EXPECT_OK(weir_graph_create(0, &graph));
	for (unsigned n = 0; n < test_effort(ROUNDS); n++) {
		EXPECT_OK(weir_graph_capture_begin(
		    graph, stream, NULL, WEIR_CAPTURE_THREAD_LOCAL));
		unsigned char *output = put_work(stream, forked, tag);
		EXPECT_OK(weir_graph_capture_end(graph));
		for (int i = 0; i < 2; i++)
			EXPECT_OK(weir_graph_replay(graph, stream));
		expect_filled(output, BYTES, tag, stream);
		EXPECT_OK(weir_graph_reset(graph));
		give(output);
	}
	weir_graph_destroy(graph);
	return NULL;
}

/* Eager work, in the device's arena and in a pool that others use too. */
static void *
work_eagerly(void *argument)
{
	unsigned char tag = (unsigned char)(101 + (uintptr_t)argument);
	weir_stream stream = new_stream();
	struct weir_route *route = NULL;

	set_device();
	for (unsigned n = 0; n < test_effort(ROUNDS) * 4; n++) {
		if (n % 3 == 0)
			EXPECT_OK(weir_route_thread(shared, &route));
		unsigned char *ptr = take(BYTES + n * 512, stream);
		unsigned char *small = take(700, stream);
		fill(ptr, BYTES, tag, stream);
		expect_filled(ptr, BYTES, tag, stream);
		give(small);
		give(ptr);
		if (n % 3 == 0)
			weir_route_end(route);
	}
	return NULL;
}

static void *
look_after(void *argument)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	(void)argument;
	while (!atomic_load(&stop)) {
		EXPECT_EQ(weir_check(NULL, 0), 0);
		EXPECT_OK(weir_pool_stats(shared, &s));
		EXPECT_OK(weir_trim(0, 8 * MIB, NULL));
	}
	return NULL;
}

TEST_TIMEOUT(threads_capture_replay_and_allocate_at_once, 240)
{
	pthread_t threads[2 * THREADS + 1];

	load_kernels();
	EXPECT_OK(weir_pool_create(0, NULL, 0, &shared));
	for (uintptr_t i = 0; i < THREADS; i++) {
		EXPECT_EQ(pthread_create(
			      &threads[i], NULL, capture_and_replay, (void *)i),
		    0);
		EXPECT_EQ(pthread_create(&threads[THREADS + i], NULL,
			      work_eagerly, (void *)i),
		    0);
	}
	EXPECT_EQ(
	    pthread_create(&threads[2 * THREADS], NULL, look_after, NULL), 0);
	for (int i = 0; i < 2 * THREADS; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	atomic_store(&stop, true);
	EXPECT_EQ(pthread_join(threads[2 * THREADS], NULL), 0);
	EXPECT(!capture_any());
	weir_pool_release(shared);
	trim(0);
	EXPECT_EQ(stats().active.all.current, 0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* ---- Pools that come and go -------------------------------------------- */

static void *
make_and_release(void *argument)
{
	weir_stream stream = new_stream();

	(void)argument;
	for (unsigned n = 0; n < test_effort(ROUNDS) * 2; n++) {
		struct weir_pool *pool = NULL;
		struct weir_pool *again = NULL;
		EXPECT_OK(weir_pool_create(0, NULL, 0, &pool));
		uint64_t id = weir_pool_id(pool);
		void *ptr = weir_pool_malloc(pool, BYTES, stream);
		EXPECT_NOT_NULL(ptr);
		weir_pool_release(pool);
		EXPECT_OK(weir_pool_find(id, &again));
		give(ptr);
		weir_pool_release(again);
	}
	return NULL;
}

TEST_TIMEOUT(pools_come_and_go_on_many_threads, 240)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(
		    pthread_create(&threads[i], NULL, make_and_release, NULL),
		    0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	EXPECT_OK(weir_device_synchronize(0));
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}
