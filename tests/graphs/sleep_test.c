/*
 * Devices that sleep: their memory leaves, their addresses and contents stay.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/ctl.h>
#include <weir/host.h>
#include <weir/sleep.h>
#include <weir/trace.h>

#include "driver/entries.h"
#include "graphs/pool.h"
#include "tests/support/device.h"
#include "tests/support/peers.h"

/* A block whose bytes all have this value. */
static unsigned char *
take_filled(size_t bytes, unsigned char value, weir_stream stream)
{
	unsigned char *block = take(bytes, stream);

	fill(block, bytes, value, stream);
	return block;
}

/* Begin to capture a stream into a new graph; NULL: without a pool. */
static struct weir_graph *
capture(weir_stream stream, struct weir_pool *pool)
{
	struct weir_graph *graph = NULL;

	EXPECT_OK(weir_graph_create(0, &graph));
	EXPECT_OK(
	    weir_graph_capture_begin(graph, stream, pool, WEIR_CAPTURE_GLOBAL));
	return graph;
}

static struct weir_sleep_result
put_to_sleep(const struct weir_sleep_options *options)
{
	struct weir_sleep_result result = { .struct_size = sizeof(result) };

	EXPECT_OK(weir_sleep(0, options, &result));
	EXPECT(weir_is_asleep(0));
	expect_healthy();
	return result;
}

static struct weir_wake_result
wake_up(void)
{
	struct weir_wake_result result = { .struct_size = sizeof(result) };

	EXPECT_OK(weir_wake(0, 0, &result));
	EXPECT(!weir_is_asleep(0));
	expect_healthy();
	return result;
}

static size_t
stayed(const struct weir_sleep_result *result)
{
	size_t bytes = 0;

	for (int i = 0; i < WEIR_SLEEP_REASON_COUNT; i++)
		bytes += result->stays[i].bytes;
	return bytes;
}

static uint64_t
host_held(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	EXPECT_OK(weir_host_stats(0, &stats));
	return stats.reserved_bytes.all.current;
}

static uint64_t
host_live(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	EXPECT_OK(weir_host_stats(0, &stats));
	return stats.allocated_bytes.all.current;
}

TEST(a_device_that_sleeps_gives_all_its_memory_back_and_has_it_again)
{
	conf("may_sleep:True");
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *own = take(40 * MIB, stream);
	unsigned char *small = take(1000, stream);
	unsigned char *plain = take(6 * MIB, WEIR_STREAM_ANY);
	unsigned char *private = take_from(pool, 10 * MIB, stream);

	give(take(100 * MIB, stream));
	fill(own, 40 * MIB, 1, stream);
	fill(small, 1000, 2, stream);
	fill(plain, 6 * MIB, 3, stream);
	fill(private, 10 * MIB, 4, stream);
	size_t before = device_free_bytes(0);
	size_t held = reserved();
	struct weir_sleep_result slept = put_to_sleep(NULL);
	EXPECT_EQ(stayed(&slept), 0);
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(slept.copied_bytes, 56 * MIB + 1024);
	EXPECT_EQ(host_live(), slept.copied_bytes);
	EXPECT_EQ(slept.discarded_bytes, 0);
	EXPECT_EQ(stats().allocated_bytes.all.current, 56 * MIB + 1024);
	if (sim() != NULL)
		EXPECT_EQ(device_free_bytes(0), before + held);
	struct weir_wake_result woken = wake_up();
	EXPECT_EQ(woken.mapped_bytes, slept.freed_bytes);
	EXPECT_EQ(woken.copied_bytes, slept.copied_bytes);
	EXPECT_EQ(reserved(), slept.freed_bytes);
	EXPECT_EQ(host_live(), 0);
	expect_filled(own, 40 * MIB, 1, stream);
	expect_filled(small, 1000, 2, stream);
	expect_filled(plain, 6 * MIB, 3, stream);
	expect_filled(private, 10 * MIB, 4, stream);
	give(own);
	give(small);
	give(plain);
	give(private);
	weir_pool_release(pool);
	finish(stream);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(sleeping_twice_or_waking_twice_changes_nothing)
{
	weir_stream stream = new_stream();
	unsigned char *a = take_filled(4 * MIB, 1, stream);

	wake_up();
	put_to_sleep(NULL);
	struct weir_sleep_result again = put_to_sleep(NULL);
	EXPECT_EQ(again.freed_bytes, 0);
	EXPECT_EQ(again.copied_bytes, 0);
	wake_up();
	wake_up();
	expect_filled(a, 4 * MIB, 1, stream);
}

/* ---- What is kept ------------------------------------------------------- */

TEST(discarded_ranges_and_pools_come_back_without_a_copy)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *a = take_filled(32 * MIB, 7, stream);
	unsigned char *b = take_from(pool, 16 * MIB, stream);
	uint64_t id = weir_pool_id(pool);
	struct weir_sleep_range ranges[] = { { a + 20 * MIB, 4 * MIB },
		{ a + 8 * MIB, 2 * MIB }, { a + 9 * MIB, 3 * MIB } };
	struct weir_sleep_options options = { .struct_size = sizeof(options),
		.discard_pools = &id,
		.discard_pool_count = 1,
		.discard_ranges = ranges,
		.discard_range_count = 3 };

	fill(b, 16 * MIB, 8, stream);
	struct weir_sleep_result slept = put_to_sleep(&options);
	EXPECT_EQ(slept.discarded_bytes, 24 * MIB);
	EXPECT_EQ(slept.copied_bytes, 24 * MIB);
	wake_up();
	expect_filled(a, 8 * MIB, 7, stream);
	expect_filled(a + 12 * MIB, 8 * MIB, 7, stream);
	expect_filled(a + 24 * MIB, 8 * MIB, 7, stream);
	/* Discarded memory is mapped. */
	fill(a + 8 * MIB, 4 * MIB, 9, stream);
	fill(b, 16 * MIB, 9, stream);
	expect_filled(b, 16 * MIB, 9, stream);
	expect_healthy();
}

TEST(pools_are_discarded_by_name)
{
	struct weir_pool *pools[] = { new_pool(0, 0), new_pool(0, 0),
		new_pool(0, 0) };
	static const char *const names[] = { "kv_cache", "kv_cache",
		"weights" };
	struct weir_sleep_options options = { .struct_size = sizeof(options),
		.discard_names = &names[1],
		.discard_name_count = 1 };
	weir_stream stream = new_stream();
	unsigned char *blocks[3];

	for (int i = 0; i < 3; i++) {
		EXPECT_OK(weir_pool_name_set(pools[i], names[i]));
		blocks[i] = take_from(pools[i], (1 << i) * MIB * 4, stream);
		fill(blocks[i], 4 * MIB, 5, stream);
	}
	struct weir_sleep_result slept = put_to_sleep(&options);
	EXPECT_EQ(slept.discarded_bytes, 12 * MIB);
	EXPECT_EQ(slept.copied_bytes, 16 * MIB);
	wake_up();
	expect_filled(blocks[2], 4 * MIB, 5, stream);
	/* A pool keeps its name while it has memory. */
	weir_pool_release(pools[0]);
	conf("may_sleep:True");
	EXPECT_OK(weir_ctl_set("sleep.state", "asleep,discard=weights"));
	EXPECT_OK(weir_ctl_set("sleep.state", "awake"));
	slept = put_to_sleep(&options);
	EXPECT_EQ(slept.discarded_bytes, 12 * MIB);
	wake_up();
	options.discard_name_count = 2;
	slept = put_to_sleep(&options);
	EXPECT_EQ(slept.discarded_bytes, 28 * MIB);
	wake_up();
	EXPECT_OK(weir_pool_name_set(pools[1], NULL));
	give(blocks[0]);
	settle();
	EXPECT_STATUS(weir_sleep(0, &options, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "no pool 'kv_cache' to discard");
	expect_healthy();
}

TEST(wrong_options_are_refused_by_name)
{
	uint64_t id = 12345;
	int here = 0;
	struct weir_sleep_range range = { &here, 8 };
	struct weir_sleep_options options = { 0 };

	give(take(512, new_stream()));
	EXPECT_STATUS(weir_sleep(0, &options, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "struct_size");
	options.struct_size = sizeof(options);
	options.flags = 64;
	EXPECT_STATUS(weir_sleep(0, &options, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown flags 0x40");
	options.flags = 0;
	options.discard_pools = &id;
	options.discard_pool_count = 1;
	EXPECT_STATUS(weir_sleep(0, &options, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "no pool 12345");
	options.discard_pool_count = 0;
	options.discard_ranges = &range;
	options.discard_range_count = 1;
	EXPECT_STATUS(weir_sleep(0, &options, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not in memory of weir's");
	EXPECT_STATUS(weir_sleep(77, NULL, NULL), WEIR_ENODEVICE);
	EXPECT(!weir_is_asleep(WEIR_DEVICE_ALL));
	give(take(512, new_stream()));
	expect_healthy();
}

TEST(what_cannot_leave_stays_and_is_named)
{
	weir_stream stream = new_stream();
	unsigned char *plain = take(6 * MIB, WEIR_STREAM_ANY);
	unsigned char *pinned = take_filled(16 * MIB, 2, stream);
	unsigned char *other = take_filled(16 * MIB, 3, stream);

	fill(plain, 6 * MIB, 1, stream);
	EXPECT_OK(weir_pin(pinned));
	struct weir_sleep_result slept = put_to_sleep(NULL);
	EXPECT_EQ(slept.stays[WEIR_SLEEP_SEGMENT].count, 1);
	EXPECT_GE(slept.stays[WEIR_SLEEP_SEGMENT].bytes, 6 * MIB);
	EXPECT_GT(slept.stays[WEIR_SLEEP_PINNED].count, 0);
	EXPECT_GE(slept.stays[WEIR_SLEEP_PINNED].bytes, 16 * MIB);
	EXPECT_EQ(slept.stays[WEIR_SLEEP_REFUSED].count, 0);
	EXPECT_EQ(reserved(), stayed(&slept));
	EXPECT_STR_HAS(weir_sleep_reason_text(WEIR_SLEEP_PINNED), "pinned");
	/* It can be used by others meanwhile. */
	expect_filled(plain, 6 * MIB, 1, stream);
	expect_filled(pinned, 16 * MIB, 2, stream);
	EXPECT_OK(weir_unpin(pinned));
	wake_up();
	expect_filled(other, 16 * MIB, 3, stream);
	slept = put_to_sleep(NULL);
	EXPECT_EQ(slept.stays[WEIR_SLEEP_PINNED].count, 0);
	wake_up();
	expect_filled(pinned, 16 * MIB, 2, stream);
	expect_healthy();
}

TEST(graphs_replay_after_waking_and_their_free_memory_is_kept)
{
	weir_stream stream = new_stream();
	struct weir_pool *pool = new_pool(0, 0);

	load_kernels();
	struct weir_graph *graph = capture(stream, pool);
	unsigned char *between = take(4 * MIB, stream);
	fill(between, 4 * MIB, 7, stream);
	unsigned char *output = take(4 * MIB, stream);
	copy(output, between, 4 * MIB, stream);
	EXPECT_OK(weir_graph_capture_end(graph));
	give(between);
	give(output);
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(weir_graph_replay(graph, stream));
		struct weir_sleep_result slept = put_to_sleep(NULL);
		EXPECT_GE(slept.copied_bytes, 8 * MIB);
		EXPECT_STATUS(weir_graph_replay(graph, stream), WEIR_EINVAL);
		wake_up();
		expect_filled(output, 4 * MIB, 7, stream);
		EXPECT_OK(weir_graph_replay(graph, stream));
		expect_filled(output, 4 * MIB, 7, stream);
		fill(output, 4 * MIB, 0, stream);
		finish(stream);
	}
	struct weir_sleep_options options = { .struct_size = sizeof(options),
		.flags = WEIR_SLEEP_LIVE_ONLY };
	EXPECT_EQ(put_to_sleep(&options).copied_bytes, 0);
	wake_up();
	EXPECT_OK(weir_graph_replay(graph, stream));
	expect_filled(output, 4 * MIB, 7, stream);
	weir_graph_destroy(graph);
	weir_pool_release(pool);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(a_pool_that_was_suspended_before_stays_so)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *a = take_from(pool, 4 * MIB, stream);
	struct weir_pool *second = new_pool(0, 0);

	take_from(second, 4 * MIB, stream);
	fill(a, 4 * MIB, 1, stream);
	EXPECT_OK(weir_pool_suspend(pool, true, NULL));
	put_to_sleep(NULL);
	EXPECT_STATUS(weir_pool_resume(second), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_wake()");
	wake_up();
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_EINVAL);
	EXPECT_OK(weir_pool_resume(pool));
	expect_filled(a, 4 * MIB, 1, stream);
	expect_healthy();
}

TEST(sleep_is_refused_while_a_stream_is_captured)
{
	weir_stream stream = new_stream();
	unsigned char *a = take(4 * MIB, new_stream());
	struct weir_graph *graph = capture(stream, NULL);

	EXPECT_STATUS(weir_sleep(0, NULL, NULL), WEIR_ECAPTURE);
	EXPECT_STR_EQ(
	    weir_last_error(), "device 0: a stream of it is being captured");
	EXPECT(!weir_is_asleep(0));
	give(a);
	EXPECT_OK(weir_graph_capture_end(graph));
	weir_graph_destroy(graph);
	put_to_sleep(NULL);
	wake_up();
}

/* ---- While it sleeps ----------------------------------------------------- */

TEST(requests_of_the_sleeper_fail_and_frees_are_taken)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	unsigned char *a = take(4 * MIB, stream);
	unsigned char *b = take(2000, stream);
	unsigned char *c = take_from(pool, 4 * MIB, stream);
	unsigned char *d = take_filled(8 * MIB, 5, stream);

	record(a, other);
	put_to_sleep(NULL);
	EXPECT_NO_MEMORY(weir_malloc(512, stream), WEIR_ENOTREADY);
	EXPECT_STR_HAS(weir_last_error(), "asleep");
	EXPECT_NO_MEMORY(weir_malloc(512, WEIR_STREAM_ANY), WEIR_ENOTREADY);
	EXPECT_NO_MEMORY(weir_pool_malloc(pool, 512, stream), WEIR_ENOTREADY);
	give(a);
	give(b);
	give(c);
	EXPECT_NO_MEMORY(weir_malloc(2000, stream), WEIR_ENOTREADY);
	EXPECT_EQ(trim(0), 0);
	expect_healthy();
	EXPECT_OK(weir_snapshot_write(
	    "build/sleep_test.pickle", WEIR_SNAPSHOT_PICKLE, NULL));
	wake_up();
	expect_filled(d, 8 * MIB, 5, stream);
	give(take(2000, stream));
	give(d);
	weir_pool_release(pool);
	finish(stream);
	finish(other);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(an_unowned_pool_is_freed_while_it_sleeps)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	void *a = take_from(pool, 4 * MIB, stream);

	put_to_sleep(NULL);
	weir_pool_release(pool);
	give(a);
	expect_healthy();
	EXPECT_EQ(host_live(), 0);
	EXPECT_EQ(wake_up().mapped_bytes, 0);
	EXPECT_EQ(reserved(), 0);
}

struct asker {
	weir_stream stream;
	atomic_int got;
	atomic_int began;
};

static void *
ask(void *argument)
{
	struct asker *asker = argument;

	atomic_store(&asker->began, 1);
	void *block = weir_malloc(4 * MIB, asker->stream);
	atomic_store(&asker->got, block != NULL ? 1 : -1);
	if (block != NULL)
		give(block);
	return NULL;
}

TEST(requests_of_other_threads_wait_until_it_is_awake)
{
	struct asker asker = { .stream = new_stream() };
	pthread_t thread;

	give(take(4 * MIB, asker.stream));
	put_to_sleep(NULL);
	EXPECT_EQ(pthread_create(&thread, NULL, ask, &asker), 0);
	EXPECT_SOON(atomic_load(&asker.began) == 1);
	usleep(50 * 1000);
	EXPECT_EQ(atomic_load(&asker.got), 0);
	wake_up();
	EXPECT_SOON(atomic_load(&asker.got) == 1);
	pthread_join(thread, NULL);
	/* Or they fail. */
	struct weir_sleep_options options = { .struct_size = sizeof(options),
		.flags = WEIR_SLEEP_FAIL };
	atomic_store(&asker.got, 0);
	put_to_sleep(&options);
	EXPECT_EQ(pthread_create(&thread, NULL, ask, &asker), 0);
	EXPECT_SOON(atomic_load(&asker.got) == -1);
	pthread_join(thread, NULL);
	wake_up();
}

/* Blocks of a thread that allocates, checks and frees all the time. */
struct busy_thread {
	pthread_t thread;
	weir_stream stream;
	atomic_bool *stop;
	unsigned rounds;
};

static void *
keep_busy(void *argument)
{
	struct busy_thread *t = argument;
	void *kept[8] = { NULL };

	while (!atomic_load(t->stop)) {
		unsigned i = t->rounds++ % 8;
		give(kept[i]);
		kept[i] = take(512u << (t->rounds % 12), t->stream);
		if (t->rounds % 64 == 0)
			EXPECT_OK(weir_snapshot_write("build/sleep_test.pickle",
			    WEIR_SNAPSHOT_PICKLE, NULL));
	}
	for (int i = 0; i < 8; i++)
		give(kept[i]);
	return NULL;
}

TEST(threads_allocate_and_free_while_the_device_sleeps_and_wakes)
{
	enum { THREADS = 3, CYCLES = 60 };
	struct busy_thread threads[THREADS];
	atomic_bool stop = false;
	weir_stream stream = new_stream();
	unsigned char *a = take_filled(4 * MIB, 9, stream);
	unsigned cycles = test_effort(CYCLES);

	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct busy_thread){ .stream = new_stream(),
			.stop = &stop };
		EXPECT_EQ(pthread_create(
			      &threads[i].thread, NULL, keep_busy, &threads[i]),
		    0);
	}
	for (unsigned i = 0; i < cycles; i++) {
		EXPECT_OK(weir_sleep(0, NULL, NULL));
		EXPECT_EQ(reserved(), 0);
		EXPECT_OK(weir_wake(0, 0, NULL));
		usleep(1000);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i].thread, NULL);
	expect_filled(a, 4 * MIB, 9, stream);
	expect_healthy();
}

/* ---- Late work ------------------------------------------------------------
 */

TEST(work_in_flight_ends_before_memory_leaves)
{
	weir_stream stream = new_stream();
	weir_stream late = new_stream();
	unsigned char *a = take(8 * MIB, stream);
	unsigned char *b = take(8 * MIB, late);

	if (sim() != NULL)
		sim()->hold_events(7, 3000000);
	for (int i = 1; i < 6; i++) {
		busy(stream, 3);
		fill(a, 8 * MIB, (unsigned char)i, stream);
		busy(late, LATE_MS / 10);
		fill(b, 8 * MIB, (unsigned char)(i + 50), late);
		void *c = take(3 * MIB, stream);
		fill(c, 3 * MIB, 99, late);
		record(c, late);
		give(c);
		put_to_sleep(NULL);
		EXPECT_EQ(reserved(), 0);
		wake_up();
		expect_filled(a, 8 * MIB, (unsigned char)i, stream);
		expect_filled(b, 8 * MIB, (unsigned char)(i + 50), late);
	}
	expect_healthy();
}

/* ---- Neighbours -----------------------------------------------------------
 */

TEST(waking_waits_for_memory_that_a_neighbour_holds)
{
	weir_stream stream = new_stream();
	unsigned char *a = take_filled(64 * MIB, 3, stream);
	size_t total = device_total(0);

	device_need_sim("the device's memory is changed");
	put_to_sleep(NULL);
	size_t used = sim()->memory_used(0);
	EXPECT_EQ(sim()->set_memory(0, used + 20 * MIB), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		uint64_t wait_ms = i == 0 ? 0 : 30;
		EXPECT_STATUS(weir_wake(0, wait_ms, NULL), WEIR_ENOMEM);
		EXPECT(weir_is_asleep(0));
		EXPECT_EQ(sim()->memory_used(0), used);
		EXPECT_EQ(reserved(), 0);
		expect_healthy();
	}
	EXPECT_EQ(sim()->set_memory(0, total), CUDA_SUCCESS);
	wake_up();
	expect_filled(a, 64 * MIB, 3, stream);
	/* The limit, likewise. */
	put_to_sleep(NULL);
	EXPECT_OK(weir_limit_set(0, 32 * MIB));
	EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_ENOMEM);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	wake_up();
	expect_filled(a, 64 * MIB, 3, stream);
}

TEST(waking_takes_the_unused_memory_of_other_members)
{
	struct peer peer;
	char *block;

	share_device();
	peer = new_peer("group_limit_mb:64");
	EXPECT(tell_peer(&peer, "take", 1, 4));
	join_with("may_sleep:True");
	block = take(48 * MIB, NULL);
	put_to_sleep(NULL);
	EXPECT_EQ(own_lease(), 0);
	EXPECT(tell_peer(&peer, "take", 0, 56));
	EXPECT_EQ(weir_wake(0, 0, NULL), WEIR_ENOMEM);
	EXPECT(tell_peer(&peer, "give", 0, 0));
	wake_up();
	EXPECT_GE(own_lease(), 48 * MIB);
	EXPECT_LE(ledger_charged(ledger_here()->ledger), 64 * MIB);
	weir_free(block);
	kill_peer(&peer);
	drop_device();
}

TEST(without_host_memory_sleep_changes_nothing)
{
	weir_stream stream = new_stream();
	unsigned char *a = take_filled(64 * MIB, 3, stream);

	finish(stream);
	size_t held = reserved();
	conf("pinned_limit_mb:20");
	EXPECT_STATUS(weir_sleep(0, NULL, NULL), WEIR_EHOSTMEM);
	EXPECT(!weir_is_asleep(0));
	EXPECT_EQ(reserved(), held);
	EXPECT_EQ(host_live(), 0);
	expect_filled(a, 64 * MIB, 3, stream);
	give(take(4 * MIB, stream));
	expect_healthy();
}

/* ---- Faults -------------------------------------------------------------- */

#define ENTRY_NAME(U, kind, symbol, base, ...) #base,
static const char *const entries[] = { DRIVER_CALLS(ENTRY_NAME, ) };

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

/* Bytes, so that a cycle takes little time. */
enum {
	OWN = 3 * MIB + 4096,
	PLAIN = MIB + 4096,
	PRIVATE = 600 * KIB,
	OUTPUT = 300 * KIB,
};

/* Memory of every kind, and its contents. */
struct world {
	struct weir_pool *pool;
	struct weir_graph *graph;
	weir_stream stream;
	unsigned char *own;
	unsigned char *small;
	unsigned char *plain;
	unsigned char *private;
	unsigned char *output;
};

static void
make_world(struct world *w)
{
	w->pool = new_pool(0, 0);
	w->stream = new_stream();
	w->own = take_filled(OWN, 1, w->stream);
	w->small = take_filled(1000, 2, w->stream);
	w->plain = take(PLAIN, WEIR_STREAM_ANY);
	w->private = take_from(w->pool, PRIVATE, w->stream);
	w->graph = capture(w->stream, NULL);
	w->output = take_filled(OUTPUT, 5, w->stream);
	EXPECT_OK(weir_graph_capture_end(w->graph));
	fill(w->plain, PLAIN, 3, w->stream);
	fill(w->private, PRIVATE, 4, w->stream);
	EXPECT_OK(weir_graph_replay(w->graph, w->stream));
	finish(w->stream);
	trim(0);
}

static void
expect_contents(const struct world *w)
{
	expect_filled(w->own, OWN, 1, w->stream);
	expect_filled(w->small, 1000, 2, w->stream);
	expect_filled(w->plain, PLAIN, 3, w->stream);
	expect_filled(w->private, PRIVATE, 4, w->stream);
	expect_filled(w->output, OUTPUT, 5, w->stream);
}

static void
expect_replay(const struct world *w)
{
	fill(w->output, OUTPUT, 0, w->stream);
	EXPECT_OK(weir_graph_replay(w->graph, w->stream));
	expect_contents(w);
}

/* Sleep and wake, which may fail, until both have succeeded. */
static void
sleep_and_wake(void)
{
	enum weir_status status = weir_sleep(0, NULL, NULL);

	expect_healthy();
	EXPECT_EQ(weir_is_asleep(0), status == WEIR_OK);
	if (status == WEIR_OK) {
		status = weir_wake(0, 0, NULL);
		expect_healthy();
		EXPECT_EQ(weir_is_asleep(0), status != WEIR_OK);
	}
	sim()->reset();
	EXPECT_OK(weir_wake(0, 0, NULL));
	expect_healthy();
}

static void
fail_entry(const struct world *w, const char *entry, unsigned nth,
    unsigned count, size_t held)
{
	EXPECT_EQ(sim()->fail(entry, nth, count, CUDA_ERROR_OUT_OF_MEMORY), 0);
	sleep_and_wake();
	EXPECT_EQ(reserved(), held);
	EXPECT_EQ(host_live(), 0);
	expect_contents(w);
}

/* Let each call of a sleep and a wake fail once, and from then on. */
static void
fail_each_entry(void)
{
	struct world w;
	uint64_t calls[ENTRIES];
	uint64_t sum = 0;

	load_kernels();
	make_world(&w);
	expect_replay(&w);
	size_t held = reserved();
	long handles = sim()->live("handle");
	long mappings = sim()->live("mapping");
	sleep_and_wake();
	for (int i = 0; i < 2; i++) {
		sim()->reset();
		EXPECT_OK(weir_sleep(0, NULL, NULL));
		EXPECT_OK(weir_wake(0, 0, NULL));
	}
	for (int e = 0; e < ENTRIES; e++)
		sum += calls[e] = sim()->calls(entries[e]);
	EXPECT_GE(sum, sim()->calls(NULL));
	for (int e = 0; e < ENTRIES; e++) {
		unsigned most = test_effort(4);
		if (calls[e] < most)
			most = (unsigned)calls[e];
		for (unsigned nth = 1; nth <= most; nth++) {
			fail_entry(&w, entries[e], nth, 1, held);
			fail_entry(&w, entries[e], nth, 1000000, held);
		}
	}
	expect_replay(&w);
	EXPECT_OK(weir_host_trim(WEIR_DEVICE_ALL, 0, NULL));
	EXPECT_EQ(sim()->live("handle"), handles);
	EXPECT_EQ(sim()->live("mapping"), mappings);
	weir_graph_destroy(w.graph);
}

TEST_TIMEOUT(each_call_may_fail_once_or_from_then_on, 60)
{
	device_need_sim("calls of the driver are made to fail");
	conf("may_sleep:True");
	fail_each_entry();
}

TEST_TIMEOUT(each_call_may_fail_while_contents_go_to_a_file, 60)
{
	device_need_sim("calls of the driver are made to fail");
	conf("may_sleep:True,sleep_folder:build");
	fail_each_entry();
}

/* ---- Many cycles -------------------------------------------------------- */

TEST_TIMEOUT(after_many_cycles_memory_is_as_after_the_first, 60)
{
	struct world w;
	/* 10,000 with WEIR_TEST_EFFORT=100. */
	unsigned cycles = test_effort(100) + 11;
	uint64_t held[2] = { 0 };
	uint64_t host[2] = { 0 };
	uint64_t own[2] = { 0 };

	conf("may_sleep:True");
	load_kernels();
	make_world(&w);
	for (unsigned i = 0; i < cycles; i++) {
		EXPECT_OK(weir_sleep(0, NULL, NULL));
		EXPECT_EQ(reserved(), 0);
		EXPECT_OK(weir_wake(0, 0, NULL));
		if (i % 100 == 0)
			expect_replay(&w);
		int late = i == cycles - 1;
		if (i == 10 || late) {
			held[late] = reserved();
			host[late] = host_held();
			own[late] = stats().metadata_bytes;
		}
	}
	expect_replay(&w);
	EXPECT_EQ(held[1], held[0]);
	EXPECT_EQ(host[1], host[0]);
	EXPECT_EQ(own[1], own[0]);
	expect_healthy();
	weir_graph_destroy(w.graph);
}

/* ---- Memory that is freed meanwhile ------------------------------------- */

enum { FREED_PARTS = 8, FREED_PART = 6 * MIB };

/* Free some of adjacent blocks, a bit each, while the device sleeps. */
static void
free_some_asleep(unsigned freed, weir_stream stream)
{
	unsigned char *whole[FREED_PARTS];
	size_t kept = FREED_PARTS;

	for (unsigned i = 0; i < FREED_PARTS; i++)
		whole[i] =
		    take_filled(FREED_PART, (unsigned char)(i + 1), stream);
	put_to_sleep(NULL);
	for (unsigned i = 0; i < FREED_PARTS; i++)
		if ((freed & 1u << i) != 0) {
			give(whole[i]);
			kept--;
			expect_healthy();
		}
	struct weir_wake_result woken = wake_up();
	EXPECT_EQ(woken.mapped_bytes, kept * FREED_PART);
	EXPECT_EQ(woken.copied_bytes, kept * FREED_PART);
	EXPECT_EQ(reserved(), kept * FREED_PART);
	EXPECT_EQ(host_live(), 0);
	for (unsigned i = 0; i < FREED_PARTS; i++)
		if ((freed & 1u << i) == 0) {
			expect_filled(whole[i], FREED_PART,
			    (unsigned char)(i + 1), stream);
			give(whole[i]);
		}
	finish(stream);
	trim(0);
	EXPECT_EQ(reserved(), 0);
}

TEST(memory_that_is_freed_meanwhile_does_not_come_back)
{
	static const unsigned freed[] = { 0x01, 0x80, 0x10, 0x3c, 0x55, 0xaa,
		0xe7, 0x7f, 0xff };
	weir_stream stream = new_stream();

	conf("may_sleep:True,handle_mb:2,tcache:0");
	for (size_t i = 0; i < sizeof(freed) / sizeof(*freed); i++)
		free_some_asleep(freed[i], stream);
}

TEST(contents_in_a_file_come_back_around_memory_that_was_freed)
{
	weir_stream stream = new_stream();

	conf("may_sleep:True,handle_mb:2,tcache:0,sleep_folder:build");
	free_some_asleep(0x34, stream);
	free_some_asleep(0xfe, stream);
}

TEST(a_wake_that_fails_is_repeated_without_what_was_freed_since)
{
	device_need_sim("it makes calls of the driver fail");
	weir_stream stream = new_stream();

	conf("may_sleep:True,handle_mb:2,tcache:0");
	unsigned char *a = take(20 * MIB, stream);
	unsigned char *b = take_filled(4 * MIB, 3, stream);
	put_to_sleep(NULL);
	EXPECT_EQ(
	    sim()->fail("cuMemCreate", 5, 1000, CUDA_ERROR_OUT_OF_MEMORY), 0);
	EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_ENOMEM);
	sim()->reset();
	give(a);
	expect_healthy();
	struct weir_wake_result woken = wake_up();
	EXPECT_EQ(woken.mapped_bytes, 4 * MIB);
	expect_filled(b, 4 * MIB, 3, stream);
}

TEST(frees_between_two_wakes_may_lie_below_those_before_the_first)
{
	device_need_sim("it makes calls of the driver fail");
	enum { BLOCKS = 6 };
	weir_stream stream = new_stream();
	unsigned char *blocks[BLOCKS];

	conf("may_sleep:True,handle_mb:2,tcache:0");
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] =
		    take_filled(4 * MIB, (unsigned char)(i + 1), stream);
	put_to_sleep(NULL);
	give(blocks[4]);
	/* The two handles of the last block: the others' copies are queued. */
	EXPECT_EQ(
	    sim()->fail("cuMemCreate", 9, 1000, CUDA_ERROR_OUT_OF_MEMORY), 0);
	EXPECT_STATUS(weir_wake(0, 0, NULL), WEIR_ENOMEM);
	sim()->reset();
	give(blocks[1]);
	struct weir_wake_result woken = wake_up();
	EXPECT_EQ(woken.mapped_bytes, 16 * MIB);
	EXPECT_EQ(woken.copied_bytes, 16 * MIB);
	for (int i = 0; i < BLOCKS; i++)
		if (i != 1 && i != 4)
			expect_filled(
			    blocks[i], 4 * MIB, (unsigned char)(i + 1), stream);
}

/* Each stream has a segment. That of the second has nothing to be copied, and
 * that of the last comes after it. */
TEST(what_is_freed_has_no_copy_that_is_left_out_if_it_was_discarded)
{
	enum { STREAMS = 3 };
	weir_stream streams[STREAMS];
	unsigned char *freed[STREAMS];
	unsigned char *kept[STREAMS];

	conf("may_sleep:True,handle_mb:2,tcache:0");
	for (int i = 0; i < STREAMS; i++) {
		streams[i] = new_stream();
		freed[i] = take(4 * MIB, streams[i]);
		kept[i] =
		    take_filled(6 * MIB, (unsigned char)(i + 5), streams[i]);
	}
	struct weir_sleep_range discarded[] = { { freed[1], 4 * MIB },
		{ kept[1], 6 * MIB } };
	struct weir_sleep_options options = { .struct_size = sizeof(options),
		.discard_ranges = discarded,
		.discard_range_count = 2 };
	put_to_sleep(&options);
	for (int i = 0; i < STREAMS; i++)
		give(freed[i]);
	struct weir_wake_result woken = wake_up();
	EXPECT_EQ(woken.mapped_bytes, 18 * MIB);
	EXPECT_EQ(woken.copied_bytes, 12 * MIB);
	expect_filled(kept[0], 6 * MIB, 5, streams[0]);
	expect_filled(kept[2], 6 * MIB, 7, streams[2]);
}

TEST(guarded_blocks_are_freed_while_the_device_sleeps)
{
	conf("guard:512");
	weir_stream stream = new_stream();
	unsigned char *a = take_filled(100000, 4, stream);
	unsigned char *b = take(100000, stream);

	put_to_sleep(NULL);
	give(b);
	wake_up();
	expect_filled(a, 100000, 4, stream);
	give(a);
	expect_healthy();
}

TEST(sleep_is_set_and_read_by_name)
{
	struct weir_ctl value = { .struct_size = sizeof(value) };
	unsigned char *a = take(4 * MIB, new_stream());

	EXPECT_STATUS(weir_ctl_set("sleep.state", "asleep"), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "weir run --may-sleep");
	conf("may_sleep:True");
	EXPECT_STATUS(weir_ctl_set("sleep.state", "dozing"), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_ctl_set("sleep.state", "asleep,discard=5"), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_ctl_set("sleep.state", "awake,discard=5"), WEIR_EINVAL);
	EXPECT_OK(weir_ctl_set("sleep.state", "asleep,discard-all,fail"));
	EXPECT_OK(weir_ctl_get("sleep.state", &value));
	EXPECT_STR_EQ(value.text, "asleep");
	EXPECT_OK(weir_ctl_get("sleep.discarded", &value));
	EXPECT_EQ(value.number, 4 * MIB);
	EXPECT_OK(weir_ctl_set("sleep.state", "awake,wait=10"));
	EXPECT_OK(weir_ctl_get("sleep.mapped", &value));
	EXPECT_EQ(value.number, 4 * MIB);
	EXPECT(!weir_is_asleep(WEIR_DEVICE_ALL));
	give(a);
}
