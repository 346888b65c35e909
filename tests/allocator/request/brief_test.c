/*
 * Brief waits of the host before growth: policy.h, Note [Wait or grow]. Times
 * are of the simulated device.
 */
#include "allocator/request/brief.h"

#include <weir/graph.h>

#include <pthread.h>
#include <stdlib.h>

#include "allocator/policy/policy.h"
#include "tests/support/device.h"

enum { US = 1000, MS = 1000 * US };

/* A small driver segment holds two of these. */
enum { BLOCK = 1 * MIB, SEGMENT = 2 * MIB, CACHED = 64 * KIB };

static void
arrange(const char *options)
{
	device_need_sim("work takes as long as the test says");
	conf(options);
}

/* A freed block whose work ends in `us`; all other memory is live. */
static void *
freed_until(weir_stream owner, weir_stream user, unsigned us)
{
	void *block = take(BLOCK, owner);

	take(SEGMENT - BLOCK, owner);
	EXPECT_EQ(reserved(), SEGMENT);
	busy(user, 1);
	if (user != owner)
		record(block, user);
	give(block);
	sim()->advance_ns(MS - us * US);
	return block;
}

static void *
freed_device_scope_until(unsigned us)
{
	return freed_until(WEIR_STREAM_ANY, new_stream(), us);
}

/* Take a block, and return how long that took. */
static uint64_t
time_to_take(weir_stream stream)
{
	uint64_t begin = sim()->now_ns();

	take(BLOCK, stream);
	return sim()->now_ns() - begin;
}

static void
expect_wait(weir_stream stream, bool is_made)
{
	uint64_t took = time_to_take(stream);

	EXPECT_EQ(took >= policy_brief_ns(), is_made);
	expect_healthy();
}

TEST(a_device_scope_request_gets_memory_whose_work_ends_soon)
{
	arrange("");
	void *block = freed_device_scope_until(20);

	EXPECT_EQ(take(BLOCK, WEIR_STREAM_ANY), block);
	EXPECT_EQ(reserved(), SEGMENT);
	EXPECT_EQ(stats().num_served_polled, 1);
	EXPECT_EQ(stats().num_host_waits, 0);
	EXPECT_EQ(stats().num_brief_waits, 1);
	EXPECT_GE(stats().brief_wait_ns, 15 * US);
	EXPECT_LE(stats().brief_wait_ns, 25 * US);
	expect_healthy();
}

/* No GPU wait can serve it, as it would serve a large request of a stream. */
TEST(a_large_device_scope_request_waits_as_well)
{
	arrange("");
	weir_stream user = new_stream();
	void *block = take(30 * MIB, WEIR_STREAM_ANY);

	busy(user, 1);
	record(block, user);
	give(block);
	sim()->advance_ns(MS - 20 * US);
	EXPECT_EQ(take(30 * MIB, WEIR_STREAM_ANY), block);
	EXPECT_EQ(stats().num_brief_waits, 1);
	expect_healthy();
}

/* A thread that caches a small block of a stream between two meetings. */
struct holder {
	weir_stream stream;
	pthread_barrier_t barrier;
};

static void *
hold(void *argument)
{
	struct holder *holder = argument;
	void *block = take(CACHED, holder->stream);

	pthread_barrier_wait(&holder->barrier);
	pthread_barrier_wait(&holder->barrier);
	give(block);
	pthread_barrier_wait(&holder->barrier);
	pthread_barrier_wait(&holder->barrier);
	return NULL;
}

TEST(blocks_that_another_thread_has_just_cached_are_no_obstacle)
{
	pthread_t thread;

	arrange("expandable_segments:False");
	struct holder holder = { .stream = new_stream() };
	char *block = take(BLOCK - CACHED, holder.stream);
	EXPECT_EQ(pthread_barrier_init(&holder.barrier, NULL, 2), 0);
	EXPECT_EQ(pthread_create(&thread, NULL, hold, &holder), 0);
	pthread_barrier_wait(&holder.barrier);
	/* As much stays free as the thread caches, which may be unknown. */
	take(SEGMENT - BLOCK - CACHED, holder.stream);
	EXPECT_EQ(reserved(), SEGMENT);
	pthread_barrier_wait(&holder.barrier);
	pthread_barrier_wait(&holder.barrier);
	give(block);
	EXPECT_EQ(take(BLOCK, holder.stream), block);
	EXPECT_EQ(reserved(), SEGMENT);
	pthread_barrier_wait(&holder.barrier);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_EQ(pthread_barrier_destroy(&holder.barrier), 0);
	expect_healthy();
}

TEST(a_small_request_gets_memory_of_another_stream_whose_work_ends_soon)
{
	arrange("expandable_segments:False");
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = freed_until(a, a, 20);

	EXPECT_EQ(take(BLOCK, b), block);
	EXPECT_EQ(reserved(), SEGMENT);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	expect_healthy();
}

TEST(a_request_grows_if_the_work_takes_longer_than_a_driver_call)
{
	arrange("");
	freed_device_scope_until(500);
	expect_wait(WEIR_STREAM_ANY, true);
	EXPECT_EQ(reserved(), 2 * SEGMENT);
	EXPECT_EQ(stats().num_served_grown, 2);
}

TEST(the_next_wait_is_made_when_the_one_before_is_paid)
{
	arrange("");
	freed_device_scope_until(900);
	expect_wait(WEIR_STREAM_ANY, true);
	take(BLOCK, WEIR_STREAM_ANY); /* the rest of the new segment */
	expect_wait(WEIR_STREAM_ANY, false);
	EXPECT_EQ(reserved(), 3 * SEGMENT);
}

TEST(a_wait_is_paid_after_a_time_that_it_is_the_allowed_share_of)
{
	arrange("");
	freed_device_scope_until(500);
	expect_wait(WEIR_STREAM_ANY, true);
	void *block = take(BLOCK, WEIR_STREAM_ANY);
	weir_stream user = new_stream();

	sim()->advance_ns(12 * MS);
	take(BLOCK, WEIR_STREAM_ANY); /* the freed block */
	busy(user, 1);
	record(block, user);
	give(block);
	expect_wait(WEIR_STREAM_ANY, true);
}

/* To empty the caches of many threads may take long. Here calls do. */
TEST(a_wait_that_takes_longer_is_paid_for_longer)
{
	EXPECT_EQ(setenv("SIMCUDA_CONF", "call_ns:1000000", 1), 0);
	arrange("");
	weir_stream user = new_stream();
	void *block = take(BLOCK, WEIR_STREAM_ANY);
	void *other = take(BLOCK, WEIR_STREAM_ANY);

	busy(user, 9000);
	record(block, user);
	record(other, user);
	give(block);
	take(BLOCK, WEIR_STREAM_ANY);
	EXPECT_EQ(stats().num_brief_waits, 1);
	EXPECT_GE(stats().brief_wait_ns, 1 * MS);
	take(BLOCK, WEIR_STREAM_ANY); /* the rest of the new segment */
	sim()->advance_ns(20 * MS);
	take(BLOCK, WEIR_STREAM_ANY);
	EXPECT_EQ(stats().num_brief_waits, 1);
	take(BLOCK, WEIR_STREAM_ANY);
	sim()->advance_ns((uint64_t)5000 * MS);
	give(other);
	take(BLOCK, WEIR_STREAM_ANY);
	EXPECT_EQ(stats().num_brief_waits, 2);
	expect_healthy();
}

TEST(nothing_is_waited_for_where_all_memory_is_live)
{
	arrange("");
	take(SEGMENT - BLOCK, WEIR_STREAM_ANY);
	take(BLOCK, WEIR_STREAM_ANY);
	busy(new_stream(), 1);
	expect_wait(WEIR_STREAM_ANY, false);
}

static void
expect_no_wait_with(const char *options)
{
	arrange(options);
	freed_device_scope_until(20);
	expect_wait(WEIR_STREAM_ANY, false);
	EXPECT_EQ(reserved(), 2 * SEGMENT);
}

TEST(prefer_speed_makes_no_wait)
{
	expect_no_wait_with("prefer:speed");
}

TEST(a_program_that_may_not_be_delayed_makes_no_wait)
{
	expect_no_wait_with("delay_percent:0");
}

TEST(prefer_memory_waits_as_well)
{
	arrange("prefer:memory");
	void *block = freed_device_scope_until(20);

	EXPECT_EQ(take(BLOCK, WEIR_STREAM_ANY), block);
	expect_healthy();
}

/* A private pool must give the same addresses again, whatever is complete. */
TEST(a_private_pool_makes_no_wait)
{
	arrange("");
	weir_stream user = new_stream();
	struct weir_pool *pool = new_pool(0, 0);
	void *block = take_from(pool, BLOCK, WEIR_STREAM_ANY);

	take_from(pool, SEGMENT - BLOCK, WEIR_STREAM_ANY);
	busy(user, 1);
	record(block, user);
	give(block);
	uint64_t begin = sim()->now_ns();
	take_from(pool, BLOCK, WEIR_STREAM_ANY);
	EXPECT_LT(sim()->now_ns() - begin, policy_brief_ns());
	expect_healthy();
	weir_pool_release(pool);
}
