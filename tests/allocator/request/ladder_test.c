/*
 * Note [Reclaim ladder], its upper half, and Note [Wait or grow]: the memory
 * that serves a request without new memory, the order of the steps, and when
 * new memory is preferred. reclaim_test.c has the tests at a limit,
 * remap_test.c those of moving.
 */
#include "allocator/request/ladder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocator/fences/fence.h"
#include "tests/support/device.h"
#include "trace/served.h"

static uint64_t
gpu_waits(void)
{
	return stats().num_gpu_waits;
}

/* Count the pieces of memory that were mapped so far, new and moved ones. */
static uint64_t
maps(void)
{
	return stats().num_map_calls;
}

/* Two streams with small blocks, so that these need no more memory later.
 * Cached blocks count as freed when they come to the pools, so these blocks are
 * not cached. */
static void
two_streams(weir_stream *a, weir_stream *b)
{
	conf("tcache:0");
	*a = new_stream();
	*b = new_stream();
	take(512, *a);
	take(512, *b);
}

/* ---- Order that is known ----------------------------------------------- */

TEST(a_stream_that_waited_for_another_uses_memory_freed_before)
{
	weir_stream a;
	weir_stream b;

	two_streams(&a, &b);
	char *ptr = take(8 * MIB, a);
	busy(a, LATE_MS);
	fill(ptr, 8 * MIB, 1, a);
	give(ptr);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	uint64_t before = maps();
	EXPECT_EQ(take(8 * MIB, b), ptr);
	EXPECT(!is_done(a));
	EXPECT_EQ(maps(), before);
	EXPECT_EQ(gpu_waits(), 0);
	fill(ptr, 8 * MIB, 2, b);
	expect_filled(ptr, 8 * MIB, 2, b);
	expect_healthy();
}

TEST(memory_freed_after_the_wait_is_not_used)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:speed");
	two_streams(&a, &b);
	char *ptr = take(8 * MIB, a);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	busy(a, LATE_MS);
	fill(ptr, 8 * MIB, 1, a);
	give(ptr);
	char *other = take(8 * MIB, b);
	EXPECT_NE(other, ptr);
	fill(other, 8 * MIB, 2, b);
	expect_filled(other, 8 * MIB, 2, b);
	expect_healthy();
}

/* Events may be older than the order their stream has come to be in. */
TEST(an_event_does_not_cover_later_waits_of_its_stream)
{
	weir_stream a;
	weir_stream b;
	weir_stream c = new_stream();
	struct weir_event *early;

	conf("prefer:speed,tcache:0");
	two_streams(&a, &b);
	take(512, c);
	char *ptr = take(8 * MIB, a);
	busy(a, LATE_MS);
	fill(ptr, 8 * MIB, 1, a);
	give(ptr);
	EXPECT_OK(weir_event_create(0, &early));
	EXPECT_OK(weir_event_record(early, b));
	EXPECT_OK(weir_stream_wait_stream(b, a));
	/* Half of it passes to b, and is free there. */
	char *half = take(4 * MIB, b);
	EXPECT_EQ(half, ptr);
	give(half);
	EXPECT_OK(weir_stream_wait_event(c, early));
	char *got = take(4 * MIB, c);
	EXPECT(got < ptr || got >= ptr + 8 * MIB);
	fill(got, 4 * MIB, 2, c);
	expect_filled(got, 4 * MIB, 2, c);
	EXPECT_OK(weir_event_destroy(early));
	expect_healthy();
}

/* The order of a stream covers memory that it got by joining neighbours only
 * from then on: an earlier fence of the stream does not cover the other
 * streams' work. */
TEST(a_fence_does_not_stand_for_memory_that_was_taken_over_later)
{
	weir_stream a;
	weir_stream b;
	weir_stream c = new_stream();
	weir_stream d = new_stream();
	struct weir_event *early;

	conf("prefer:speed,tcache:0");
	two_streams(&a, &b);
	take(512, c);
	take(512, d);
	char *first = take(4 * MIB, c);
	char *second = take(4 * MIB, c);
	EXPECT_EQ(second, first + 4 * MIB);
	take(2 * MIB, c);
	busy(c, LATE_MS);
	EXPECT_OK(weir_stream_wait_stream(d, c));
	fill(first, 8 * MIB, 1, d);
	EXPECT_OK(weir_free_async(second, d));
	EXPECT_OK(weir_stream_wait_stream(c, d));
	give(first);
	EXPECT_OK(weir_event_create(0, &early));
	EXPECT_OK(weir_event_record(early, b));
	EXPECT_OK(weir_stream_wait_stream(b, c));
	uint64_t before = maps();
	EXPECT_EQ(take(6 * MIB, b), first); /* both, of c and of d */
	EXPECT_EQ(maps(), before);
	EXPECT_OK(weir_stream_wait_event(a, early));
	char *got = take(2 * MIB, a);
	EXPECT_NE(got, first + 6 * MIB);
	fill(got, 2 * MIB, 2, a);
	expect_filled(got, 2 * MIB, 2, a);
	/* A stream that is ordered after b by now may use the rest. */
	EXPECT_OK(weir_stream_wait_stream(a, b));
	EXPECT_EQ(take(2 * MIB, a), first + 6 * MIB);
	EXPECT_OK(weir_event_destroy(early));
	expect_healthy();
}

TEST(order_passes_on_from_stream_to_stream)
{
	weir_stream a;
	weir_stream b;
	weir_stream c = new_stream();

	conf("prefer:speed");
	two_streams(&a, &b);
	take(512, c);
	char *ptr = take(8 * MIB, a);
	busy(a, LATE_MS);
	fill(ptr, 8 * MIB, 1, a);
	give(ptr);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_OK(weir_stream_wait_stream(c, b));
	EXPECT_EQ(take(8 * MIB, c), ptr);
	fill(ptr, 8 * MIB, 2, c);
	expect_filled(ptr, 8 * MIB, 2, c);
	EXPECT_EQ(gpu_waits(), 0);
	expect_healthy();
}

/* ---- What serves ------------------------------------------------------- */

TEST(the_smallest_block_of_all_streams_that_serves_is_taken)
{
	weir_stream a;
	weir_stream b;
	weir_stream c = new_stream();

	two_streams(&a, &b);
	take(512, c);
	char *larger = take(12 * MIB, a);
	take(2 * MIB, a); /* between them */
	char *smaller = take(9 * MIB, b);
	take(2 * MIB, b);
	give(larger);
	give(smaller);
	EXPECT_OK(weir_stream_wait_stream(c, a));
	EXPECT_OK(weir_stream_wait_stream(c, b));
	EXPECT_EQ(take(8 * MIB, c), smaller);
	EXPECT_EQ(take(8 * MIB, c), larger);
	expect_healthy();
}

TEST(the_best_fit_is_taken_whosever_it_is)
{
	weir_stream a;
	weir_stream b;

	two_streams(&a, &b);
	char *theirs = take(8 * MIB, a);
	char *own = take(12 * MIB, b);
	give(theirs);
	give(own);
	EXPECT_EQ(take(8 * MIB, b), own); /* blocks of others may be in use */
	give(own);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_EQ(take(8 * MIB, b), theirs);
	expect_healthy();
}

/* Do this before its neighbour leaves a thread's cache: the two would be
 * merged, into a block that a stream has used. */
TEST(memory_that_nobody_has_used_yet_serves_any_stream)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	char *ptr = take(MIB, a);
	EXPECT_EQ(reserved(), 2 * MIB);
	busy(a, LATE_MS);
	fill(ptr, MIB, 1, a);
	give(ptr);
	EXPECT_EQ(take(MIB, b), ptr + MIB);
	EXPECT_EQ(reserved(), 2 * MIB);
	EXPECT_EQ(gpu_waits(), 0);
	EXPECT(!is_done(a));
	expect_healthy();
}

/* Return the bytes that a small request moves to its stream, of memory that
 * another stream has done its work on; `ends`: and has ended. */
static uint64_t
moved_by_small_request(bool ends)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	give(take(MIB, a));
	if (ends)
		EXPECT_OK(weir_stream_destroy(a));
	settle();
	take(4 * KIB, b);
	return stats_of_stream(b).reserved_bytes.small_pool.current;
}

TEST(a_small_request_of_the_only_stream_moves_more_for_the_next_ones)
{
	conf("tcache:0");
	EXPECT_EQ(moved_by_small_request(true), MIB);
	expect_healthy();
}

TEST(a_small_request_beside_other_streams_moves_the_memory_that_it_needs)
{
	conf("tcache:0");
	EXPECT_EQ(moved_by_small_request(false), 4 * KIB);
	expect_healthy();
}

TEST(neighbours_of_several_streams_serve_together_without_mapping)
{
	weir_stream a;
	weir_stream b;
	weir_stream c = new_stream();

	two_streams(&a, &b);
	take(512, c);
	char *first = take(4 * MIB, a);
	char *second = take(4 * MIB, a);
	EXPECT_EQ(second, first + 4 * MIB);
	take(2 * MIB, a);
	fill(first, 8 * MIB, 1, a);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_OK(weir_free_async(second, b));
	give(first);
	EXPECT_OK(weir_stream_wait_stream(c, a));
	EXPECT_OK(weir_stream_wait_stream(c, b));
	uint64_t before = maps();
	EXPECT_EQ(take(8 * MIB, c), first);
	EXPECT_EQ(maps(), before);
	fill(first, 8 * MIB, 2, c);
	expect_filled(first, 8 * MIB, 2, c);
	EXPECT_EQ(
	    stats_of_stream(c).reserved_bytes.large_pool.current, 8 * MIB);
	expect_healthy();
}

/* No stream may wait for it on the device, and it orders nothing: it can use
 * complete memory only, in segments of the driver. */
TEST(memory_of_no_stream_is_made_of_complete_memory)
{
	weir_stream a = new_stream();

	conf("expandable_segments:False,prefer:memory");
	char *ptr = take(20 * MIB, a);
	busy(a, LATE_MS);
	give(ptr);
	EXPECT_NE(take(20 * MIB, WEIR_STREAM_ANY), ptr);
	finish(a);
	EXPECT_EQ(take(20 * MIB, WEIR_STREAM_ANY), ptr);
	EXPECT_EQ(gpu_waits(), 0);
	expect_healthy();
}

TEST(a_capture_gets_complete_memory_or_its_own)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:memory");
	two_streams(&a, &b);
	char *done = take(8 * MIB, a);
	give(done);
	finish(a);
	char *late = take(16 * MIB, a);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	busy(a, LATE_MS);
	give(late);
	take(24 * MIB, b); /* fences, and finds completed work */
	capture_begin(b);
	char *got = take(8 * MIB, b);
	EXPECT(got < late || got >= late + 16 * MIB);
	capture_end(b);
	expect_healthy();
}

/* ---- Wait or grow ------------------------------------------------------ */

/* A stream that is busy for long has freed 32 MiB. */
static char *
late_memory(weir_stream stream)
{
	char *ptr = take(32 * MIB, stream);

	busy(stream, LATE_MS);
	fill(ptr, MIB, 1, stream);
	give(ptr);
	return ptr;
}

TEST(speed_takes_new_memory_and_never_waits_before)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:speed");
	two_streams(&a, &b);
	late_memory(a);
	for (int i = 0; i < 12; i++)
		take(32 * MIB, b);
	EXPECT_EQ(reserved(), (2 + 13 * 32) * MIB);
	EXPECT_EQ(gpu_waits(), 0);
	/* But it does before the request fails. */
	EXPECT_OK(weir_limit_set(0, reserved()));
	take(32 * MIB, b);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(stats().num_host_waits, 0);
	EXPECT(!is_done(a));
	expect_healthy();
}

TEST(memory_waits_on_the_device_and_takes_nothing_new_before)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:memory");
	two_streams(&a, &b);
	char *ptr = late_memory(a);
	uint64_t held = reserved();
	EXPECT_EQ(take(32 * MIB, b), ptr);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(reserved(), held);
	fill(ptr, 32 * MIB, 2, b);
	EXPECT(!is_done(a));
	expect_filled(ptr, 32 * MIB, 2, b);
	expect_healthy();
}

/* A block of its own pool would leave a piece too small for such a request. */
TEST(memory_takes_the_best_fit_of_all_streams)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:memory");
	two_streams(&a, &b);
	char *own = take(24 * MIB, b);
	take(2 * MIB, b);
	char *theirs = take(8 * MIB, a);
	take(2 * MIB, a);
	char *pending = take(12 * MIB, a);
	take(2 * MIB, a);
	busy(a, LATE_MS);
	record(pending, a);
	give(own);
	give(theirs);
	give(pending);
	uint64_t before = maps();
	EXPECT_EQ(take(8 * MIB, b), theirs);
	EXPECT_EQ(take(12 * MIB, b), pending);
	EXPECT_EQ(take(24 * MIB, b), own);
	EXPECT_GE(gpu_waits(), 1);
	EXPECT_EQ(maps(), before);
	EXPECT_EQ(stats().num_host_waits, 0);
	EXPECT(!is_done(a));
	/* The stream that waited may use the other stream's memory. */
	give(theirs);
	give(own);
	uint64_t waits = gpu_waits();
	EXPECT_EQ(take(24 * MIB, b), own);
	EXPECT_EQ(take(8 * MIB, b), theirs);
	EXPECT_EQ(gpu_waits(), waits);
	fill(theirs, 8 * MIB, 1, b);
	expect_filled(theirs, 8 * MIB, 1, b);
	expect_healthy();
}

/* Another step serves the request, so it has no error. */
TEST(memory_is_served_where_the_driver_refuses_to_wait)
{
	static const char *const entries[] = { "cuEventRecord",
		"cuStreamWaitEvent" };
	weir_stream a;
	weir_stream b;

	device_need_sim("calls of the driver are made to fail");
	conf("prefer:memory");
	two_streams(&a, &b);
	for (size_t i = 0; i < 2; i++) {
		late_memory(a);
		EXPECT_EQ(sim()->fail(entries[i], 1, 1, CUDA_ERROR_UNKNOWN), 0);
		char *ptr = take(32 * MIB, b);
		EXPECT_STATUS(weir_last_status(), WEIR_OK);
		EXPECT_EQ(sim()->faults(), i + 1);
		fill(ptr, 32 * MIB, 1, b);
		expect_filled(ptr, 32 * MIB, 1, b);
		expect_healthy();
	}
}

TEST(memory_that_several_streams_freed_is_joined_behind_waits)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:memory");
	two_streams(&a, &b);
	char *first = take(8 * MIB, a);
	char *second = take(8 * MIB, b);
	char *third = take(8 * MIB, a);
	take(2 * MIB, a);
	EXPECT_EQ(second, first + 8 * MIB);
	EXPECT_EQ(third, second + 8 * MIB);
	weir_stream use = new_stream();
	busy(a, LATE_MS);
	busy(use, LATE_MS);
	record(third, use);
	give(first);
	give(second);
	give(third);
	uint64_t before = maps();
	EXPECT_EQ(take(24 * MIB, b), first);
	EXPECT_EQ(maps(), before);
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT(!is_done(a) && !is_done(use));
	fill(first, 24 * MIB, 1, b);
	expect_filled(first, 24 * MIB, 1, b);
	expect_healthy();
}

TEST(memory_takes_pending_blocks_its_own_first)
{
	weir_stream a;
	weir_stream b;
	weir_stream use = new_stream();

	conf("prefer:memory");
	two_streams(&a, &b);
	busy(use, LATE_MS);
	char *theirs = take(8 * MIB, a);
	take(2 * MIB, a);
	char *own = take(8 * MIB, b);
	take(2 * MIB, b);
	record(theirs, use);
	record(own, use);
	give(theirs);
	give(own);
	EXPECT_EQ(take(8 * MIB, b), own);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(stats().pending_bytes, 8 * MIB);
	/* The wait covered the other stream's use too, but not its stream. */
	EXPECT_EQ(take(8 * MIB, b), theirs);
	EXPECT_LE(gpu_waits(), 2);
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT(!is_done(use));
	fill(own, 8 * MIB, 1, b);
	fill(theirs, 8 * MIB, 1, b);
	expect_filled(theirs, 8 * MIB, 1, b);
	expect_healthy();
}

TEST(memory_maps_in_pieces_of_the_smallest_size)
{
	weir_stream a = new_stream();

	conf("prefer:memory");
	take(20 * MIB + 512, a);
	EXPECT_EQ(reserved(), 22 * MIB);
	EXPECT_EQ(stats().num_device_alloc, 11);
	conf("prefer:balance,handle_mb:8");
	take(20 * MIB + 512, a);
	EXPECT_EQ(reserved(), 42 * MIB);
	EXPECT_EQ(stats().num_device_alloc, 11 + 3);
	expect_healthy();
}

/* The peak of live memory and a fifth more may be held. Beyond that a stream
 * waits for old fences. */
TEST(balance_waits_for_old_fences_once_much_is_held)
{
	weir_stream a;
	weir_stream b;
	char *block[10];
	unsigned taken = 0;

	conf("tcache:0");
	two_streams(&a, &b);
	take((size_t)320 * MIB, b);
	take_apart(block, 10, 20 * MIB, a);
	busy(a, LATE_MS);
	for (int i = 0; i < 10; i++) {
		give(block[i]);
		take(512, a); /* fences */
	}
	size_t most = (320 + 220 + 2) * MIB;
	EXPECT_LE(reserved(), most + 2 * MIB);
	while (gpu_waits() == 0) {
		EXPECT_LE(reserved(), most + most / 5);
		uint64_t held = reserved();
		take(20 * MIB, b);
		if (gpu_waits() == 0)
			EXPECT_EQ(reserved(), held + 20 * MIB);
		else
			EXPECT_EQ(reserved(), held);
		EXPECT_LT(++taken, 10);
	}
	EXPECT_GE(taken, 4);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT(!is_done(a));
	EXPECT_EQ(stats().num_host_waits, 0);
	expect_healthy();
}

/*
 * Take memory and free it while another stream uses it, until a use that is so
 * many ticks away is waited for. Returns the bytes that would be held without
 * the wait, or 0 if that is twice the peak of live bytes. The distance of a use
 * is the ticks between it and the place that its stream was last seen to have
 * come to.
 */
static uint64_t
held_until_a_wait(unsigned ticks)
{
	const uint64_t waits = gpu_waits();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	char *used = take(MIB, a);
	char *most = take((size_t)640 * MIB, a);
	uint64_t before = 0;

	record(used, b);
	give(used);
	expect_healthy(); /* sees the use */
	busy(b, LATE_MS);
	for (unsigned i = 0; i < ticks; i++)
		give(take(512, a));
	while (gpu_waits() == waits && before < 2 * 640 * MIB) {
		before = reserved();
		char *ptr = take(32 * MIB, a);
		record(ptr, b);
		give(ptr);
	}
	EXPECT(!is_done(b));
	give(most);
	finish(b);
	size_t freed;
	EXPECT_OK(weir_trim(0, 0, &freed));
	return gpu_waits() > waits ? before + 32 * MIB : 0;
}

TEST(an_idle_stream_waits_for_near_work)
{
	const size_t most = (640 + 32) * MIB;

	conf("tcache:0");
	uint64_t held = held_until_a_wait(0);
	/* On a GPU time passes, and the wait may be worth its price before. */
	if (device_is_simulated())
		EXPECT_GT(held, most + most / 5);
	EXPECT_GT(held, 0);
	EXPECT_LE(held, most + most / 5 + 34 * MIB);
	EXPECT_EQ(stats().num_host_waits, 0);
	expect_healthy();
}

/* Make two streams busy, the first for longer than the second, and let weir see
 * that. Then a wait of the first for the second costs nothing. */
static void
make_first_busy_longer(weir_stream first, weir_stream second)
{
	busy(first, LATE_MS);
	take(8 * MIB, first);
	take(8 * MIB, first); /* fences the stream */
	give(take(8 * MIB, second));
	take(512, first); /* fences the second, which is idle */
	busy(second, LATE_MS);
}

TEST(a_free_wait_for_a_use_is_made_while_there_is_room)
{
	weir_stream a;
	weir_stream b;

	two_streams(&a, &b);
	take((size_t)640 * MIB, a);
	make_first_busy_longer(a, b);
	char *block = take(32 * MIB, a);
	record(block, b);
	uint64_t held = reserved();
	give(block);
	EXPECT_EQ(take(32 * MIB, a), block);
	EXPECT_EQ(reserved(), held);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT(!is_done(b));
	expect_healthy();
}

TEST(memory_freed_by_a_stream_that_is_ahead_is_joined_behind_a_free_wait)
{
	weir_stream a;
	weir_stream b;

	two_streams(&a, &b);
	take((size_t)640 * MIB, a);
	char *first = take(32 * MIB, b);
	give(first);
	EXPECT_EQ(take(16 * MIB, b), first);
	char *second = take(16 * MIB, b);
	EXPECT_EQ(second, first + 16 * MIB);
	make_first_busy_longer(a, b);
	give(first);
	take(512, b);
	give(second);
	uint64_t held = reserved();
	EXPECT_EQ(take(32 * MIB, a), first);
	EXPECT_EQ(reserved(), held);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT(!is_done(b));
	expect_healthy();
}

/* Up to that, moves have a budget: what one request needs, and then seldom. */
TEST(balance_moves_memory_seldom_while_there_is_room)
{
	enum { PIECE = 6 << 20 }; /* of two streams */
	weir_stream a = new_stream();

	conf("tcache:0,handle_mb:10");
	take((size_t)512 * MIB, new_stream()); /* there is room */
	for (int i = 0; i < 20; i++) {
		char *idle[8];
		for (int k = 0; k < 8; k++) {
			idle[k] = take(PIECE, a);
			take(PIECE, a);
		}
		for (int k = 0; k < 8; k++)
			give(idle[k]);
		take(8 * PIECE, a);
	}
	EXPECT_GE(stats().remapped_bytes, 8 * PIECE);
	EXPECT_LE(stats().remapped_bytes, 24 * PIECE);
	expect_healthy();
}

/* It would stay with the part that one small block needs. */
TEST(a_small_request_takes_a_large_piece_only_if_nothing_else_is_left)
{
	device_need_bytes((size_t)64 << 30); /* handles may be of 32 MiB */
	weir_stream a = new_stream();
	unsigned n = 0;

	conf("tcache:0");
	char *large = take(256 * (size_t)MIB, a);
	take(2 * MIB, a);
	give(large);
	uint64_t held = reserved();
	take(512, a);
	EXPECT_EQ(reserved(), held + 2 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 0);
	EXPECT_OK(weir_limit_set(0, reserved()));
	for (; stats().remapped_bytes == 0 && n < 4; n++)
		take(MIB, a);
	EXPECT_EQ(stats().remapped_bytes, 32 * MIB);
	EXPECT_EQ(reserved(), held + 2 * MIB);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

/* Near a limit, memory that cannot be moved is missing. */
TEST(pieces_are_small_where_little_is_left_of_the_limit)
{
	weir_stream a = new_stream();

	conf("tcache:0,handle_mb:16");
	take(8192 * (size_t)MIB, a);
	EXPECT_EQ(stats().num_device_alloc, 8192 / 16);
	uint64_t pieces = stats().num_device_alloc;
	EXPECT_OK(weir_limit_set(0, reserved() + 256 * MIB));
	take(32 * MIB, a);
	EXPECT_EQ(stats().num_device_alloc - pieces, 32 / 4);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

TEST(pieces_are_a_small_part_of_a_limit)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	EXPECT_OK(weir_limit_set(0, (size_t)8192 * MIB));
	take(256 * MIB, a);
	EXPECT_EQ(stats().num_device_alloc, 256 / 8);
	EXPECT_OK(weir_limit_set(0, (size_t)2048 * MIB));
	take(256 * MIB, a);
	EXPECT_EQ(stats().num_device_alloc, 256 / 8 + 256 / 2);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

/* A piece is an eighth of the request, but at least 8 MiB; a small block then
 * pins little, and a large request takes few calls. */
TEST(pieces_follow_the_request)
{
	static const struct {
		size_t mib;
		uint64_t pieces;
	} rows[] = {
		{ 2, 1 },
		{ 8, 1 },
		{ 16, 2 },
		{ 40, 5 },
		{ 64, 8 },
		{ 160, 8 },
		{ 1024, 8 },
		{ 2048, 8 },
		{ 4096, 16 },
	};
	uint64_t before = 0;

	device_need_bytes((size_t)140 << 30);
	conf("tcache:0");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		take(rows[i].mib * MIB, NULL);
		EXPECT_EQ(stats().num_device_alloc - before, rows[i].pieces);
		before = stats().num_device_alloc;
	}
	expect_healthy();
}

TEST(no_piece_is_larger_than_the_option_says)
{
	device_need_bytes((size_t)140 << 30);
	conf("tcache:0,handle_mb:32");
	take((size_t)1024 * MIB, NULL);
	EXPECT_EQ(stats().num_device_alloc, 32);
	conf("handle_mb:4");
	take((size_t)16 * MIB, NULL);
	EXPECT_EQ(stats().num_device_alloc, 32 + 4);
	expect_healthy();
}

/* ---- Where memory is short ---------------------------------------------- */

enum { LIVE_MAX = 200, STREAMS = 3, FAILURES = 20 };

struct alive {
	char *block[LIVE_MAX];
	size_t size[LIVE_MAX];
	unsigned count;
};

static int
compare_numbers(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a;
	uintptr_t y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* Bytes of all granules of 2 MiB with a block in them. */
static size_t
granules_in_use(const struct alive *alive)
{
	static uintptr_t granules[LIVE_MAX * 66];
	size_t n = 0;
	size_t used = 0;

	for (unsigned i = 0; i < alive->count; i++) {
		uintptr_t addr = (uintptr_t)alive->block[i];
		uintptr_t last = (addr + alive->size[i] - 1) / (2 * MIB);
		for (uintptr_t g = addr / (2 * MIB); g <= last; g++)
			granules[n++] = g;
	}
	qsort(granules, n, sizeof(granules[0]), compare_numbers);
	for (size_t i = 0; i < n; i++)
		used += i == 0 || granules[i] != granules[i - 1];
	return used * 2 * MIB;
}

static void
give_any(struct alive *alive, const weir_stream *streams, uint64_t random)
{
	unsigned i = (unsigned)(random % alive->count);

	if ((random >> 8 & 1) != 0)
		EXPECT_OK(weir_record_stream(
		    alive->block[i], streams[random >> 9 & 1]));
	give(alive->block[i]);
	alive->count--;
	alive->block[i] = alive->block[alive->count];
	alive->size[i] = alive->size[alive->count];
}

/* The smallest handles: a failure is then not for want of pages. */
TEST(a_request_fails_only_if_live_memory_leaves_no_space)
{
	size_t limit = (size_t)512 * MIB;
	weir_stream streams[STREAMS];
	struct alive alive = { .count = 0 };
	uint64_t random = 88172645463325252;
	unsigned failures = 0;

	EXPECT_OK(weir_limit_set(0, limit));
	for (int i = 0; i < STREAMS; i++)
		streams[i] = new_stream();
	while (failures < FAILURES) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		weir_stream stream = streams[random % STREAMS];
		size_t size = (size_t)1 << (9 + random / 4 % 18);
		size += size * (random >> 20 & 255) / 256;
		if ((random >> 32 & 3) != 0 && alive.count > LIVE_MAX / 2)
			give_any(&alive, streams, random >> 34);
		if ((random >> 50 & 1) != 0)
			busy(stream, 1);
		if (alive.count == LIVE_MAX)
			continue;
		char *block = weir_malloc(size, stream);
		if (block == NULL) {
			size_t pages = (size + 2 * MIB - 1) / (2 * MIB);
			EXPECT_GT(
			    granules_in_use(&alive) + pages * 2 * MIB, limit);
			failures++;
			while (alive.count > 10)
				give_any(&alive, streams, random >> 34);
			continue;
		}
		alive.block[alive.count] = block;
		alive.size[alive.count++] = size;
	}
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

/* Rounding up spares mappings; it is no reason to fail. */
TEST(a_request_is_not_rounded_up_where_only_its_own_size_fits)
{
	weir_stream a = new_stream();
	size_t size = 10 * MIB + 512;

	conf("tcache:0,prefer:memory,roundup_power2_divisions:1");
	EXPECT_OK(weir_limit_set(0, 28 * MIB));
	take(size, a);
	EXPECT_EQ(stats().allocated_bytes.all.current, 16 * MIB);
	take(size, a);
	EXPECT_EQ(stats().allocated_bytes.all.current, 16 * MIB + size);
	EXPECT_LE(reserved(), 28 * MIB);
	EXPECT_NULL(weir_malloc(size, a));
	EXPECT_EQ(weir_last_status(), WEIR_ENOMEM);
	expect_healthy();
}

TEST(a_request_within_the_limit_is_served_though_its_class_is_beyond)
{
	weir_stream a = new_stream();

	conf("tcache:0,roundup_power2_divisions:1");
	EXPECT_OK(weir_limit_set(0, 24 * MIB));
	char *ptr = take(20 * MIB, a);
	EXPECT_EQ(stats().allocated_bytes.all.current, 20 * MIB);
	give(ptr);
	EXPECT_NULL(weir_malloc(24 * MIB + 1, a));
	EXPECT_EQ(weir_last_status(), WEIR_ENOMEM);
	expect_healthy();
}

/* ---- What served it ---------------------------------------------------- */

static const char *
how(void)
{
	static char text[SERVED_TEXT];

	return served_text(&served_here.served, text);
}

/* The sum of all counted ways. */
static uint64_t
served_sum(void)
{
	struct weir_stats s = stats();
	uint64_t sum = 0;

#define ADD(name, word) sum += s.num_served_##name;
	SERVED_BEYOND(ADD)
#undef ADD
	return sum;
}

TEST(new_memory_is_counted_and_own_memory_is_not)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	char *ptr = take(8 * MIB, a);
	EXPECT_STR_EQ(how(), "grown 8.00 MiB");
	EXPECT_EQ(stats().num_served_grown, 1);
	EXPECT_EQ(stats().served_grown_bytes, 8 * MIB);
	EXPECT_EQ(stats_of_stream(a).num_served_grown, 1);
	give(ptr);
	EXPECT_EQ(take(8 * MIB, a), ptr);
	EXPECT_EQ(served_sum(), 1);
	expect_healthy();
}

TEST(memory_of_others_is_counted_as_ready)
{
	weir_stream a;
	weir_stream b;

	two_streams(&a, &b);
	char *ptr = take(8 * MIB, a);
	busy(a, LATE_MS);
	give(ptr);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_OK(weir_stats_reset_accumulated(0));
	EXPECT_EQ(take(8 * MIB, b), ptr);
	EXPECT_STR_EQ(how(), "ready run");
	EXPECT_EQ(stats().num_served_ready, 1);
	EXPECT_EQ(stats().served_ready_bytes, 8 * MIB);
	EXPECT_EQ(stats_of_stream(b).num_served_ready, 1);
	EXPECT_EQ(stats_of_stream(a).num_served_ready, 0);
	expect_healthy();
}

TEST(a_wait_is_reported_with_its_stream)
{
	weir_stream a;
	weir_stream b;
	char expected[64];

	two_streams(&a, &b);
	char *ptr = late_memory(a);
	EXPECT_OK(weir_limit_set(0, reserved()));
	EXPECT_EQ(take(32 * MIB, b), ptr);
	snprintf(expected, sizeof(expected),
	    "any wait, wait for stream 0x%" PRIxPTR, (uintptr_t)a);
	EXPECT_STR_EQ(how(), expected);
	EXPECT_EQ(stats().num_served_forced, 1);
	expect_healthy();
}

TEST(the_best_fit_of_all_memory_is_counted_with_its_wait)
{
	weir_stream a;
	weir_stream b;

	conf("prefer:memory");
	two_streams(&a, &b);
	char *ptr = late_memory(a);
	EXPECT_EQ(take(32 * MIB, b), ptr);
	EXPECT_EQ(served_here.served.by, SERVED_anywhere);
	EXPECT_EQ(served_here.served.waits, 1);
	EXPECT_EQ(served_here.served.waited_for, (uint64_t)(uintptr_t)a);
	EXPECT_EQ(stats().num_served_anywhere, 1);
	expect_healthy();
}

TEST(handles_that_are_moved_are_counted)
{
	weir_stream a = new_stream();
	char *piece[4];

	conf("tcache:0,handle_mb:2");
	take((size_t)512 * MIB, new_stream()); /* there is room to move */
	take_apart(piece, 4, 4 * MIB, a);
	for (int i = 0; i < 4; i++)
		give(piece[i]);
	take(16 * MIB, a);
	EXPECT_STR_EQ(how(), "moved 8 handles");
	EXPECT_EQ(stats().num_served_moved, 1);
	EXPECT_EQ(stats().served_moved_bytes, 16 * MIB);
	expect_healthy();
}

TEST(host_waits_are_reported)
{
	weir_stream a = new_stream();
	weir_stream late = new_stream();

	conf("tcache:0,expandable_segments:False");
	char *ptr = take(20 * MIB, a);
	EXPECT_OK(weir_limit_set(0, 20 * MIB));
	busy(late, 20);
	record(ptr, late);
	give(ptr);
	take(20 * MIB, WEIR_STREAM_ANY);
	EXPECT_EQ(served_here.served.by, SERVED_reclaimed);
	EXPECT_EQ(served_here.served.host_waits, stats().num_host_waits);
	EXPECT_GE(stats().num_host_waits, 1);
	EXPECT_EQ(stats().num_served_reclaimed, 1);
	expect_healthy();
}
