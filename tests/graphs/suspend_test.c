/*
 * Suspended pools: other requests may use their physical memory, their
 * addresses stay, and graphs replay once they are resumed.
 */
#include <stdlib.h>

#include <weir/graph.h>
#include <weir/host.h>

#include <sched.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/os.h"
#include "graphs/pool.h"
#include "tests/support/device.h"

static size_t
suspend(struct weir_pool *pool, bool copy)
{
	size_t freed = 0;

	EXPECT_OK(weir_pool_suspend(pool, copy, &freed));
	expect_healthy();
	return freed;
}

/* All host memory of copies is free, and is given back. */
static void
expect_no_copies(void)
{
	EXPECT_EQ(host_stats().allocated_bytes.all.current, 0);
	EXPECT_OK(weir_host_trim(WEIR_DEVICE_ALL, 0, NULL));
	EXPECT_EQ(host_stats().reserved_bytes.all.current, 0);
	if (sim() != NULL)
		EXPECT_EQ(sim()->live("host"), 0);
}

TEST(a_suspended_pool_gives_its_memory_back_and_has_it_again)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *a = take_from(pool, 4 * MIB, stream);
	unsigned char *b = take_from(pool, 1000, stream);
	unsigned char *c = take_from(pool, 8 * MIB, stream);

	fill(a, 4 * MIB, 1, stream);
	fill(b, 1000, 2, stream);
	give(c);
	size_t available = device_free_bytes(0);
	EXPECT_EQ(suspend(pool, true), 14 * MIB);
	if (sim() != NULL) /* a GPU's driver takes some for the copies */
		EXPECT_EQ(device_free_bytes(0), available + 14 * MIB);
	EXPECT_GE(device_free_bytes(0), available + 8 * MIB);
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(stats().allocated_bytes.all.current, 4 * MIB + 1024);
	EXPECT_EQ(host_stats().allocated_bytes.all.current, 14 * MIB);
	EXPECT_OK(weir_pool_resume(pool));
	EXPECT_EQ(host_stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(reserved(), 14 * MIB);
	expect_healthy();
	expect_filled(a, 4 * MIB, 1, stream);
	expect_filled(b, 1000, 2, stream);
	EXPECT_EQ(take_from(pool, 8 * MIB, stream), c);
	/* A pool may be suspended any number of times, also without its
	 * contents. */
	EXPECT_EQ(suspend(pool, false), 14 * MIB);
	EXPECT_OK(weir_pool_resume(pool));
	fill(a, 4 * MIB, 3, stream);
	expect_filled(a, 4 * MIB, 3, stream);
	give(a);
	give(b);
	give(c);
	finish(stream);
	weir_pool_release(pool);
	EXPECT_EQ(reserved(), 0);
	expect_no_copies();
	expect_healthy();
}

/* ---- Copies ------------------------------------------------------------ */

/* More than one piece, however much is mapped ahead. */
enum { LARGE = 100 << 20, PIECES = 4 };

/* No other thread gets memory for copies, so the order of calls is known. */
static void
use_one_processor(void)
{
	cpu_set_t one;
	int first = 0;

	EXPECT_EQ(sched_getaffinity(0, sizeof(one), &one), 0);
	while (!CPU_ISSET(first, &one))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

static uint64_t
calls(const char *entry)
{
	return sim()->calls(entry);
}

/* A large block whose parts differ, and a hole in the mapped memory. */
static unsigned char *
take_large(struct weir_pool *pool, weir_stream stream)
{
	unsigned char *large = take_from(pool, LARGE, stream);

	fill_parts(large, LARGE, 10, stream);
	return large;
}

static void
expect_large(unsigned char *large, weir_stream stream)
{
	expect_parts(large, LARGE, 10, stream);
}

/* The pool ends, and nothing of it stays. */
static void
end_large(struct weir_pool *pool, unsigned char *large)
{
	give(large);
	weir_pool_release(pool);
	expect_no_copies();
	expect_healthy();
}

TEST(memory_copied_in_pieces_comes_back_whole)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	unsigned char *large = take_large(pool, stream);
	unsigned char *small = take_from(pool, 1000, other);

	fill(small, 1000, 99, other);
	for (int i = 0; i < 3; i++) {
		size_t freed = suspend(pool, true);
		EXPECT_GE(freed, (size_t)LARGE);
		EXPECT_EQ(host_stats().allocated_bytes.all.current, freed);
		EXPECT_OK(weir_pool_resume(pool));
		expect_large(large, stream);
		expect_filled(small, 1000, 99, other);
	}
	give(small);
	end_large(pool, large);
}

TEST(copies_use_memory_that_is_cached)
{
	conf("pinned_source:system");
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *large = take_large(pool, stream);

	suspend(pool, true);
	size_t held = host_stats().reserved_bytes.all.current;
	EXPECT_OK(weir_pool_resume(pool));
	/* It is cached, as other page-locked memory is. */
	EXPECT_EQ(host_stats().reserved_bytes.all.current, held);
	device_need_sim("calls of the driver are counted");
	uint64_t registered = calls("cuMemHostRegister");
	EXPECT_GE(registered, PIECES);
	suspend(pool, true);
	EXPECT_EQ(calls("cuMemHostRegister"), registered);
	EXPECT_EQ(calls("cuMemHostUnregister"), 0);
	EXPECT_OK(weir_pool_resume(pool));
	expect_large(large, stream);
	end_large(pool, large);
}

TEST(a_piece_is_copied_while_memory_for_the_next_is_got)
{
	conf("pinned_source:system");
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *large = take_large(pool, stream);

	device_need_sim("calls of the driver are counted");
	use_one_processor();
	finish(stream);
	uint64_t copied = calls("cuMemcpyDtoHAsync");
	EXPECT_EQ(sim()->fail("cuMemHostRegister", PIECES, 100,
		      CUDA_ERROR_OUT_OF_MEMORY),
	    0);
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_EHOSTMEM);
	EXPECT_STR_HAS(weir_last_error(), "suspending: ");
	EXPECT_EQ(calls("cuMemcpyDtoHAsync"), copied + PIECES - 1);
	sim()->reset();
	expect_healthy();
	expect_large(large, stream);
	/* And back while more is mapped. */
	suspend(pool, true);
	copied = calls("cuMemcpyHtoDAsync");
	EXPECT_EQ(sim()->fail("cuMemMap", 5, 1, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_STATUS(weir_pool_resume(pool), WEIR_EDRIVER);
	EXPECT_GT(calls("cuMemcpyHtoDAsync"), copied);
	EXPECT_EQ(reserved(), 0);
	sim()->reset();
	expect_healthy();
	EXPECT_OK(weir_pool_resume(pool));
	expect_large(large, stream);
	end_large(pool, large);
}

/* Beside the time that the driver needs to pin memory. */
TEST(copies_take_no_longer_than_the_bytes_need)
{
	setenv("SIMCUDA_CONF", "host_percent:0", 1);
	uint64_t gbps = 0;
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *large = take_large(pool, stream);

	device_need_sim("time is virtual");
	EXPECT_EQ(sim()->setting("host_gbps", &gbps), 0);
	finish(stream);
	uint64_t start = sim()->now_ns();
	size_t bytes = suspend(pool, true);
	uint64_t needed = bytes / gbps;
	EXPECT_LE(sim()->now_ns() - start, needed + needed / 10);
	start = sim()->now_ns();
	EXPECT_OK(weir_pool_resume(pool));
	EXPECT_LE(sim()->now_ns() - start, needed + needed / 10);
	expect_large(large, stream);
	expect_healthy();
}

TEST(copies_keep_to_the_limit_of_page_locked_memory)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *large = take_large(pool, stream);

	conf("pinned_limit_mb:80");
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_EHOSTMEM);
	EXPECT_LE(host_stats().reserved_bytes.all.peak, 80 * MIB);
	expect_no_copies();
	expect_healthy();
	expect_large(large, stream);
	/* Unused page-locked memory goes back to stay within the limit. */
	conf("pinned_limit_mb:140");
	EXPECT_OK(weir_host_free(weir_host_malloc(100 * MIB)));
	suspend(pool, true);
	EXPECT_OK(weir_pool_resume(pool));
	expect_large(large, stream);
	end_large(pool, large);
}

/* Much time passes. True if no page-locked memory is held. */
static bool
decays(void)
{
	os_time_skip(3 * UINT64_C(1000000000));
	return host_stats().reserved_bytes.all.current == 0;
}

TEST(memory_of_copies_decays_though_nobody_asks_for_any)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *large = take_large(pool, stream);

	for (int i = 0; i < 2; i++) {
		suspend(pool, true);
		EXPECT_OK(weir_pool_resume(pool));
		EXPECT_GT(host_stats().reserved_bytes.all.current, 0);
		EXPECT_SOON(decays());
		expect_large(large, stream);
	}
	conf("decay_ms:off");
	suspend(pool, true);
	EXPECT_OK(weir_pool_resume(pool));
	/* A fault would have a second to appear. */
	for (int i = 0; i < 20; i++, usleep(50 * 1000))
		EXPECT(!decays());
	expect_healthy();
}

TEST(where_nothing_can_be_registered_the_driver_allocates)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *large = take_large(pool, stream);

	device_need_sim("calls of the driver are made to fail");
	conf("pinned_source:system");
	EXPECT_EQ(
	    sim()->fail("cuMemHostRegister", 1, 100, CUDA_ERROR_NOT_SUPPORTED),
	    0);
	suspend(pool, true);
	EXPECT_GE(calls("cuMemHostAlloc"), 3);
	EXPECT_OK(weir_pool_resume(pool));
	expect_large(large, stream);
	give(large);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(graphs_replay_on_memory_that_was_suspended)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph[2] = { NULL, NULL };
	struct weir_pool *pool = new_pool(0, 0);
	unsigned char *between = NULL;
	unsigned char *output = NULL;

	load_kernels();
	for (int i = 0; i < 2; i++) {
		EXPECT_OK(weir_graph_create(0, &graph[i]));
		EXPECT_OK(weir_graph_capture_begin(
		    graph[i], stream, pool, WEIR_CAPTURE_GLOBAL));
		if (i == 0) {
			between = take(4 * MIB, stream);
			fill(between, 4 * MIB, 7, stream);
		} else {
			output = take(4 * MIB, stream);
			copy(output, between, 4 * MIB, stream);
			give(between);
		}
		EXPECT_OK(weir_graph_capture_end(graph[i]));
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(weir_graph_replay(graph[0], stream));
		/* In between, with the memory that the first has cached for the
		 * second. */
		suspend(pool, true);
		EXPECT_STATUS(weir_graph_replay(graph[1], stream), WEIR_EINVAL);
		EXPECT_STR_HAS(weir_last_error(), "suspended");
		void *other = take(64 * MIB, stream);
		fill(other, 64 * MIB, 9, stream);
		give(other);
		EXPECT_OK(weir_pool_resume(pool));
		EXPECT_OK(weir_graph_replay(graph[1], stream));
		expect_filled(output, 4 * MIB, 7, stream);
		fill(output, 4 * MIB, 0, stream);
	}
	/* Or all memory is created again. */
	suspend(pool, false);
	EXPECT_OK(weir_pool_resume(pool));
	for (int i = 0; i < 2; i++)
		EXPECT_OK(weir_graph_replay(graph[i], stream));
	expect_filled(output, 4 * MIB, 7, stream);
	give(output);
	weir_graph_destroy(graph[0]);
	weir_graph_destroy(graph[1]);
	weir_pool_release(pool);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(others_use_the_memory_of_a_suspended_pool_and_make_room_again)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	unsigned char *a = take_from(pool, 24 * MIB, stream);

	conf("tcache:0");
	fill(a, 24 * MIB, 5, stream);
	EXPECT_OK(weir_limit_set(0, 32 * MIB));
	EXPECT_NO_MEMORY(weir_malloc(16 * MIB, stream), WEIR_ENOMEM);
	suspend(pool, true);
	EXPECT_NO_MEMORY(weir_malloc(40 * MIB, stream), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "and 0 bytes is unused");
	void *other = take(30 * MIB, stream);
	EXPECT_STATUS(weir_pool_resume(pool), WEIR_ENOMEM);
	EXPECT_EQ(reserved(), 30 * MIB);
	expect_healthy();
	give(other);
	EXPECT_OK(weir_pool_resume(pool));
	EXPECT_LE(reserved(), 32 * MIB);
	expect_filled(a, 24 * MIB, 5, stream);
	expect_healthy();
}

TEST(blocks_are_freed_but_not_allocated_while_a_pool_is_suspended)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	weir_stream gone = new_stream();
	struct weir_checkpoint *made = NULL;
	void *a = take_from(pool, 4 * MIB, stream);
	void *b = take_from(pool, 4 * MIB, gone);

	suspend(pool, false);
	EXPECT_STATUS(weir_pool_suspend(pool, false, NULL), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_pool_malloc(pool, 512, stream), WEIR_EINVAL);
	EXPECT_STATUS(weir_checkpoint_take(pool, &made), WEIR_ENOTREADY);
	give(a);
	give(b);
	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_EQ(trim(0), 0);
	give(take(512, stream));
	expect_healthy();
	EXPECT_OK(weir_pool_resume(pool));
	EXPECT_STATUS(weir_pool_resume(pool), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "is not suspended");
	EXPECT_EQ(
	    pool->arena->account.stats.reserved_bytes.all.current, 8 * MIB);
	EXPECT_EQ(take_from(pool, 4 * MIB, stream), a);
	expect_healthy();
}

TEST(a_suspended_pool_can_be_released)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	void *a = take_from(pool, 4 * MIB, stream);
	struct arena *arena = pool->arena;

	suspend(pool, true);
	weir_pool_release(pool);
	EXPECT(arena->private.in_use);
	expect_healthy();
	give(a);
	EXPECT(!arena->private.in_use);
	EXPECT_EQ(reserved(), 0);
	expect_no_copies();
	if (sim() != NULL) {
		EXPECT_EQ(sim()->live("reservation"), 0);
		EXPECT_EQ(sim()->live("handle"), 0);
	}
	expect_healthy();
}

TEST(a_pool_that_cannot_be_suspended_is_refused)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct weir_graph *graph = NULL;

	take_from(pool, 4 * MIB, stream);
	EXPECT_OK(weir_graph_create(0, &graph));
	EXPECT_OK(
	    weir_graph_capture_begin(graph, stream, pool, WEIR_CAPTURE_GLOBAL));
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_ECAPTURE);
	EXPECT_STR_EQ(
	    weir_last_error(), "device 0: a stream of it is being captured");
	EXPECT_OK(weir_graph_capture_end(graph));
	weir_graph_destroy(graph);
	void *pinned = take_from(pool, 4 * MIB, stream);
	EXPECT_OK(weir_pin(pinned));
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "pinned");
	EXPECT_OK(weir_unpin(pinned));
	suspend(pool, false);
	EXPECT_STATUS(weir_pin(pinned), WEIR_EINVAL);
	EXPECT_OK(weir_pool_resume(pool));
	give(take_from(pool, 512, WEIR_STREAM_ANY));
	EXPECT_STATUS(weir_pool_suspend(pool, true, NULL), WEIR_ENOTSUP);
	EXPECT_STATUS(weir_pool_suspend(NULL, true, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_resume(NULL), WEIR_EINVAL);
	expect_healthy();
}

TEST(each_call_of_suspending_and_resuming_may_fail)
{
	static const char *const entries[] = { "cuMemHostRegister",
		"cuStreamCreateWithPriority", "cuMemcpyDtoHAsync",
		"cuStreamSynchronize", "cuStreamDestroy", "cuMemUnmap",
		"cuMemRelease", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
		"cuMemcpyHtoDAsync", "cuCtxGetCurrent" };

	device_need_sim("calls of the driver are made to fail");
	for (size_t e = 0; e < sizeof(entries) / sizeof(entries[0]); e++) {
		for (unsigned nth = 1; nth < 5; nth++) {
			struct weir_pool *pool = new_pool(0, 0);
			weir_stream stream = new_stream();
			unsigned char *a = take_from(pool, 4 * MIB, stream);
			unsigned char *b = take_from(pool, 1000, stream);

			fill(a, 4 * MIB, 1, stream);
			fill(b, 1000, 2, stream);
			finish(stream);
			size_t held = reserved();
			EXPECT_EQ(sim()->fail(entries[e], nth, 1,
				      CUDA_ERROR_OUT_OF_MEMORY),
			    0);
			enum weir_status status =
			    weir_pool_suspend(pool, true, NULL);
			expect_healthy();
			if (status == WEIR_OK) {
				status = weir_pool_resume(pool);
				expect_healthy();
				sim()->reset();
				if (status != WEIR_OK)
					EXPECT_OK(weir_pool_resume(pool));
			}
			sim()->reset();
			expect_healthy();
			EXPECT_EQ(reserved(), held);
			expect_filled(a, 4 * MIB, 1, stream);
			expect_filled(b, 1000, 2, stream);
			give(a);
			give(b);
			weir_pool_release(pool);
			trim(0);
			EXPECT_EQ(reserved(), 0);
			expect_no_copies();
			EXPECT_EQ(sim()->live("handle"), 0);
			EXPECT_EQ(sim()->live("mapping"), 0);
			EXPECT_EQ(sim()->live("reservation"), 0);
		}
	}
}
