/*
 * Note [Reclaim ladder], step by step: the steps of a request whose pool has no
 * memory, their order, and that the request waits for no more than it needs.
 * The limit replaces the size of the device.
 *
 * The host waits only if a wait on the device does not help. Tests of that make
 * the request for a stream that is being captured, which cannot be made to
 * wait.
 */
#include "allocator/request/reclaim.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/graph.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/route.h"
#include "streams/event.h"
#include "tests/support/device.h"

static void
limit(size_t mib)
{
	EXPECT_OK(weir_limit_set(0, mib * MIB));
}

/* The host has waited this many times since the last reset. */
static uint64_t
host_waits(void)
{
	return stats().num_host_waits;
}

/* A stream was made to wait for another this many times. */
static uint64_t
gpu_waits(void)
{
	return stats().num_gpu_waits;
}

/* Requests for a stream are served by the device's own arena, captured or not.
 */
static struct route *
route_home(weir_stream handle)
{
	struct route_match match = { .kind = ROUTE_STREAM };
	struct route *route = NULL;

	EXPECT_OK(stream_find(0, handle, &match.stream));
	EXPECT_OK(route_begin(arena_peek(0), &match, &route));
	stream_put(match.stream);
	return route;
}

/* Allocate a block for a stream while it is captured, so that it cannot be made
 * to wait. */
static void *
take_captured(size_t size, weir_stream stream)
{
	struct route *route = route_home(stream);

	capture_begin(stream);
	void *block = take(size, stream);
	capture_end(stream);
	route_end(route);
	return block;
}

/* ---- Step 1: memory of no stream --------------------------------------- */

TEST(memory_of_an_ended_stream_serves_another_with_no_new_memory)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = take(8 * MIB, a);

	fill(block, 8 * MIB, 1, a);
	give(block);
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT_EQ(take(8 * MIB, b), block);
	EXPECT_EQ(reserved(), 8 * MIB);
	EXPECT_EQ(info_of(block).stream, b);
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

TEST(streams_that_have_ended_are_asked_one_at_a_time)
{
	enum { ENDED = 32, REQUESTS = 100 };
	weir_stream own = new_stream();

	device_need_sim("it counts calls of the driver");
	conf("tcache:0");
	for (int i = 0; i < ENDED; i++) {
		weir_stream stream = new_stream();
		void *block = take(2 * MIB, stream);
		busy(stream, LATE_MS);
		give(block);
		EXPECT_OK(weir_stream_destroy(stream));
	}
	give(take(KIB, own));
	uint64_t before = sim()->calls("cuEventQuery");
	for (int i = 0; i < REQUESTS; i++)
		give(take(KIB, own));
	/* A malloc queries one of them. */
	EXPECT_GT(sim()->calls("cuEventQuery") - before, REQUESTS / 2);
	EXPECT_LE(sim()->calls("cuEventQuery") - before, 2 * REQUESTS);
	settle();
	busy(own, LATE_MS);
	finish(own);
	/* The next malloc finds that all of them have completed. */
	give(take(KIB, own));
	EXPECT_EQ(arena_peek(0)->memory.ending, 0);
	EXPECT_OK(weir_device_synchronize(0));
	expect_healthy();
}

/* ---- Step 2: pending blocks -------------------------------------------- */

TEST(a_pending_block_whose_use_has_ended_is_found_before_new_memory_is_taken)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = take(8 * MIB, a);

	record(block, b);
	give(block);
	finish(b);
	EXPECT_EQ(take(8 * MIB, a), block);
	EXPECT_EQ(reserved(), 8 * MIB);
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

TEST(a_late_use_holds_back_its_own_block_only)
{
	weir_stream a = new_stream();
	weir_stream late = new_stream();
	weir_stream soon = new_stream();
	void *first = take(8 * MIB, a);
	void *second = take(8 * MIB, a);

	busy(late, LATE_MS);
	record(first, late);
	give(first);
	record(second, soon);
	give(second);
	finish(soon);
	EXPECT_EQ(take(8 * MIB, a), second);
	EXPECT_EQ(reserved(), 16 * MIB);
	EXPECT_EQ(stats().pending_bytes, 8 * MIB);
	expect_healthy();
	finish(late);
	EXPECT_EQ(take(8 * MIB, a), first);
	expect_healthy();
}

/* Events are queried in their order. A request skips late ones, and a met one
 * covers all before it. */
TEST(a_fence_that_is_seen_late_hides_nothing)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();
	void *late = take(8 * MIB, a);
	void *soon = take(8 * MIB, a);
	CUevent event;

	device_need_sim("an event is held back");
	/* The event that is given back is the next one to be recorded. */
	void *used = take(MIB, a);
	record(used, use);
	give(used);
	settle();
	give(take(512, a));
	EXPECT_OK(event_acquire(arena_peek(0)->context, &event));
	event_release(arena_peek(0)->context, event);
	EXPECT_EQ(sim()->hold_event(event, 1000000000), CUDA_SUCCESS);
	record(late, use);
	record(soon, use);
	give(late);
	give(soon);
	settle();
	void *again = take(8 * MIB, a);
	EXPECT(again == late || again == soon);
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

/* ---- Step 6: new memory ------------------------------------------------ */

TEST(new_memory_is_preferred_to_waiting)
{
	weir_stream a = new_stream();
	weir_stream late = new_stream();
	void *block = take(8 * MIB, a);

	busy(late, LATE_MS);
	record(block, late);
	give(block);
	EXPECT_NE(take(8 * MIB, a), block);
	EXPECT_EQ(reserved(), 16 * MIB);
	EXPECT_EQ(gpu_waits(), 0);
	EXPECT_EQ(host_waits(), 0);
	EXPECT(!is_done(late));
	expect_healthy();
}

TEST(the_limit_is_never_passed)
{
	limit(32);
	for (int i = 0; i < 4; i++)
		take(8 * MIB, NULL);
	EXPECT_EQ(reserved(), 32 * MIB);
	EXPECT_NO_MEMORY(weir_malloc(2 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(reserved(), 32 * MIB);
	expect_healthy();
}

/* ---- Step 8: what others hold idle ------------------------------------- */

TEST(idle_memory_of_another_stream_serves_without_a_host_wait)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	limit(32);
	give(take(24 * MIB, a));
	take(16 * MIB, b);
	EXPECT_LE(reserved(), 32 * MIB);
	EXPECT_EQ(stats().num_device_free, 0);
	EXPECT_EQ(host_waits(), 0);
	EXPECT_EQ(stats().num_ooms, 0);
	EXPECT_EQ(stats().num_alloc_retries, 0);
	expect_healthy();
}

TEST(idle_memory_of_several_streams_serves_together_and_none_goes_back)
{
	weir_stream stream[4];
	void *block[3];

	limit(24);
	for (int i = 0; i < 4; i++)
		stream[i] = new_stream();
	for (int i = 0; i < 3; i++)
		block[i] = take(8 * MIB, stream[i]);
	for (int i = 0; i < 3; i++)
		give(block[i]);
	uint64_t pieces = stats().num_device_alloc;
	void *got = take(16 * MIB, stream[3]);
	EXPECT_EQ(reserved(), 24 * MIB);
	EXPECT_EQ(stats().num_device_alloc, pieces);
	EXPECT_EQ(stats().num_device_free, 0);
	EXPECT_EQ(stats().remapped_bytes, 0); /* the memory is contiguous */
	EXPECT_EQ(host_waits(), 0);
	fill(got, 16 * MIB, 1, stream[3]);
	expect_filled(got, 16 * MIB, 1, stream[3]);
	expect_healthy();
}

/* In segments of the driver, whose memory cannot be moved. */
TEST(only_as_much_goes_back_as_is_missing_and_the_longest_unused_first)
{
	weir_stream stream[4];
	void *block[3];

	conf("expandable_segments:False,tcache:0");
	limit(48);
	for (int i = 0; i < 4; i++)
		stream[i] = new_stream();
	for (int i = 0; i < 3; i++)
		block[i] = take(12 * MIB, stream[i]);
	give(block[1]);
	give(block[0]);
	give(block[2]);
	take(24 * MIB, stream[3]);
	EXPECT_EQ(reserved(), 48 * MIB);
	EXPECT_EQ(stats().num_device_free, 1);
	/* The other two serve requests again. */
	void *again[2] = { take(12 * MIB, stream[0]),
		take(12 * MIB, stream[2]) };
	for (int i = 0; i < 2; i++)
		EXPECT(again[i] == block[0] || again[i] == block[2]);
	EXPECT_EQ(reserved(), 48 * MIB);
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

TEST(small_idle_memory_makes_room_for_a_large_request_and_the_other_way)
{
	limit(16);
	for (int i = 0; i < 2; i++) {
		void *block[16];
		for (int k = 0; k < 16; k++)
			block[k] = take(MIB, NULL);
		for (int k = 0; k < 16; k++)
			give(block[k]);
		give(take(16 * MIB, NULL));
	}
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
}

TEST(memory_of_no_stream_goes_back_without_a_wait_whatever_runs)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	limit(32);
	give(take(24 * MIB, WEIR_STREAM_ANY));
	settle();
	give(take(512, NULL)); /* finds that it is complete */
	busy(a, LATE_MS);
	take(28 * MIB, b); /* more than the 24 MiB that are free */
	EXPECT_LE(reserved(), 32 * MIB);
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

TEST(idle_driver_segments_of_another_stream_go_back_too)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("expandable_segments:False");
	limit(40);
	give(take(4 * MIB, a));
	give(take(16 * MIB, a));
	take(20 * MIB, b);
	EXPECT_LE(reserved(), 40 * MIB);
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
}

/* ---- Step 7: waiting on the device ------------------------------------- */

TEST(the_oldest_pending_block_is_taken_behind_a_wait_and_no_other)
{
	weir_stream a = new_stream();
	weir_stream soon = new_stream();
	weir_stream late = new_stream();
	void *first = take(8 * MIB, a);
	void *second = take(8 * MIB, a);

	limit(16);
	busy(soon, LATE_MS);
	busy(late, 3 * LATE_MS);
	record(first, soon);
	record(second, late);
	give(first);
	give(second);
	EXPECT_EQ(take(8 * MIB, a), first);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(stats().pending_bytes, 8 * MIB);
	EXPECT(!is_done(soon));
	finish(a);
	EXPECT(is_done(soon));
	EXPECT(!is_done(late));
	EXPECT_EQ(host_waits(), 0);
	EXPECT_EQ(stats().num_alloc_retries, 0);
	expect_healthy();
}

TEST(pending_blocks_are_taken_behind_waits_until_there_is_enough)
{
	weir_stream a = new_stream();
	weir_stream use[3];
	void *block[3];

	limit(24);
	for (int i = 0; i < 3; i++) {
		use[i] = new_stream();
		block[i] = take(i == 1 ? 12 * MIB : 6 * MIB, a);
		busy(use[i], i == 2 ? 3 * LATE_MS : LATE_MS);
		record(block[i], use[i]);
	}
	for (int i = 0; i < 3; i++)
		give(block[i]);
	void *got = take(12 * MIB, a);
	EXPECT_EQ(gpu_waits(), 2);
	EXPECT_EQ(host_waits(), 0);
	fill(got, 12 * MIB, 1, a);
	finish(a);
	EXPECT(!is_done(use[2]));
	expect_healthy();
}

/* The block behind the wait and the rest of the limit are enough together. */
TEST(a_pending_block_grows_once_its_stream_waits)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();
	void *block = take(10 * MIB, a);

	limit(12);
	busy(use, LATE_MS);
	record(block, use);
	give(block);
	EXPECT_EQ(take(12 * MIB, a), block);
	EXPECT_EQ(reserved(), 12 * MIB);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(host_waits(), 0);
	EXPECT(!is_done(use));
	expect_healthy();
}

TEST(a_block_used_on_two_streams_is_behind_both)
{
	weir_stream a = new_stream();
	weir_stream use[2] = { new_stream(), new_stream() };
	void *block = take(8 * MIB, a);

	limit(8);
	for (int i = 0; i < 2; i++) {
		busy(use[i], LATE_MS + LATE_MS * (unsigned)i);
		record(block, use[i]);
		fill(block, MIB, 1, use[i]);
		if (i == 0)
			EXPECT_OK(weir_stream_wait_stream(use[1], use[0]));
	}
	give(block);
	EXPECT_EQ(take(8 * MIB, a), block);
	fill(block, 8 * MIB, 2, a);
	EXPECT_EQ(host_waits(), 0);
	expect_filled(block, 8 * MIB, 2, a);
	EXPECT(is_done(use[1]));
	expect_healthy();
}

TEST(a_busy_stream_s_free_memory_is_taken_behind_a_wait)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = take(16 * MIB, a);

	limit(16);
	fill(block, 16 * MIB, 1, a);
	busy(a, LATE_MS);
	fill(block, 16 * MIB, 2, a);
	give(block);
	void *other = take(16 * MIB, b);
	EXPECT(!is_done(a));
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(host_waits(), 0);
	EXPECT_EQ(stats().num_alloc_retries, 0);
	fill(other, 16 * MIB, 3, b);
	expect_filled(other, 16 * MIB, 3, b);
	EXPECT(is_done(a));
	expect_healthy();
}

TEST(free_memory_of_busy_streams_serves_together_behind_waits)
{
	weir_stream a = new_stream();
	weir_stream other[3];

	limit(24);
	for (int i = 0; i < 3; i++) {
		other[i] = new_stream();
		void *block = take(8 * MIB, other[i]);
		busy(other[i], LATE_MS);
		fill(block, 8 * MIB, 1, other[i]);
		give(block);
	}
	void *got = take(24 * MIB, a);
	fill(got, 24 * MIB, 2, a);
	EXPECT_EQ(gpu_waits(), 3);
	EXPECT_EQ(host_waits(), 0);
	EXPECT_EQ(reserved(), 24 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 0);
	expect_filled(got, 24 * MIB, 2, a);
	expect_healthy();
}

/* Small memory of a busy stream is as good as large: it is moved. */
TEST(memory_of_the_other_kind_is_taken_behind_a_wait_too)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block[16];

	limit(16);
	for (int i = 0; i < 16; i++)
		block[i] = take(MIB, b);
	busy(b, LATE_MS);
	for (int i = 0; i < 16; i++)
		give(block[i]);
	void *got = take(16 * MIB, a);
	fill(got, 16 * MIB, 1, a);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(host_waits(), 0);
	EXPECT(!is_done(b));
	expect_filled(got, 16 * MIB, 1, a);
	expect_healthy();
}

/* More streams than the order of one stream covers: the loop ends. */
TEST(memory_of_very_many_busy_streams_is_taken_in_the_end)
{
	enum { MANY = 2 * ORDER_KNOWN };
	weir_stream a = new_stream();
	weir_stream other[MANY];
	size_t least = (size_t)MANY * 2 * MIB;

	EXPECT_OK(weir_limit_set(0, least));
	conf("handle_mb:2");
	for (int i = 0; i < MANY; i++) {
		other[i] = new_stream();
		void *block = take(2 * MIB, other[i]);
		busy(other[i], 20);
		fill(block, 2 * MIB, 1, other[i]);
		give(block);
	}
	void *got = take(least, a);
	fill(got, least, 2, a);
	EXPECT_EQ(reserved(), least);
	if (device_is_simulated()) /* on a GPU some are done by now */
		EXPECT_GE(gpu_waits(), ORDER_KNOWN);
	EXPECT_LE(gpu_waits(), 2 * MANY);
	expect_filled(got, MIB, 2, a);
	expect_healthy();
}

/* Make a stream wait for as many others as its order covers. */
static void
put_behind_many(weir_stream stream)
{
	struct weir_event *event = NULL;

	EXPECT_OK(weir_event_create(0, &event));
	for (int i = 0; i < ORDER_KNOWN; i++) {
		EXPECT_OK(weir_event_record(event, new_stream()));
		EXPECT_OK(weir_stream_wait_event(stream, event));
	}
	EXPECT_OK(weir_event_destroy(event));
}

/* A wait for one stream makes the stream forget its order after the other. It
 * must not wait for both in turn for ever. */
TEST(a_request_that_forgets_its_waits_ends)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();
	weir_stream captured = new_stream();

	limit(24);
	conf("tcache:0");
	put_behind_many(b);
	put_behind_many(c);
	void *held = take(8 * MIB, b);
	void *used = take(8 * MIB, c);
	busy(b, LATE_MS);
	busy(c, LATE_MS);
	capture_begin(captured);
	record(used, captured);
	give(used);
	give(held);
	EXPECT_NO_MEMORY(weir_malloc(24 * MIB, a), WEIR_ENOMEM);
	EXPECT_LE(gpu_waits(), 100);
	capture_end(captured);
	expect_healthy();
}

TEST(a_request_that_cannot_be_met_puts_no_wait_into_its_stream)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	limit(32);
	take(20 * MIB, a);
	void *block = take(4 * MIB, b);
	busy(b, LATE_MS);
	give(block);
	capture_begin(b);
	capture_end(b);
	EXPECT_NO_MEMORY(weir_malloc(24 * MIB, a), WEIR_ENOMEM);
	EXPECT_EQ(gpu_waits(), 0);
	expect_healthy();
}

/* ---- Step 9: waiting for pending blocks -------------------------------- */

TEST(the_oldest_pending_block_is_waited_for_and_no_other)
{
	weir_stream a = new_stream();
	weir_stream soon = new_stream();
	weir_stream late = new_stream();
	void *first = take(8 * MIB, a);
	void *second = take(8 * MIB, a);

	limit(16);
	busy(soon, 20);
	busy(late, 20 + 2 * LATE_MS);
	record(first, soon);
	record(second, late);
	give(first);
	give(second);
	EXPECT_EQ(take_captured(8 * MIB, a), first);
	EXPECT(is_done(soon));
	EXPECT(!is_done(late));
	EXPECT_EQ(host_waits(), 1);
	EXPECT_EQ(stats().num_alloc_retries, 1);
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
	EXPECT_EQ(take_captured(8 * MIB, a), second);
	EXPECT(is_done(late));
	EXPECT_EQ(gpu_waits(), 0);
	expect_healthy();
}

TEST(pending_blocks_are_waited_for_until_one_is_large_enough)
{
	weir_stream a = new_stream();
	weir_stream use[3];
	void *block[3];

	limit(24);
	for (int i = 0; i < 3; i++) {
		use[i] = new_stream();
		block[i] = take(i == 1 ? 12 * MIB : 6 * MIB, a);
		busy(use[i], i == 2 ? 3 * LATE_MS : 100 + 100 * (unsigned)i);
		record(block[i], use[i]);
	}
	for (int i = 0; i < 3; i++)
		give(block[i]);
	EXPECT_EQ(take_captured(12 * MIB, a), block[0]);
	EXPECT(!is_done(use[2]));
	EXPECT_EQ(host_waits(), 2);
	expect_healthy();
}

/* The block behind the wait and the rest of the limit are enough together. */
TEST(a_pending_block_grows_once_it_has_been_waited_for)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();
	void *block = take(10 * MIB, a);

	limit(12);
	busy(a, 2 * LATE_MS);
	busy(use, 20);
	record(block, use);
	give(block);
	EXPECT_EQ(take_captured(12 * MIB, a), block);
	EXPECT_EQ(reserved(), 12 * MIB);
	EXPECT_EQ(host_waits(), 1);
	EXPECT(!is_done(a));
	expect_healthy();
}

TEST(a_block_used_on_two_streams_is_waited_for_until_both_are_done)
{
	weir_stream a = new_stream();
	weir_stream use[2] = { new_stream(), new_stream() };
	void *block = take(8 * MIB, a);

	limit(8);
	for (int i = 0; i < 2; i++) {
		busy(use[i], 20 + 20 * (unsigned)i);
		record(block, use[i]);
	}
	give(block);
	EXPECT_EQ(take_captured(8 * MIB, a), block);
	EXPECT(is_done(use[0]));
	EXPECT(is_done(use[1]));
	expect_healthy();
}

/* ---- Step 9: waiting for streams --------------------------------------- */

TEST(a_busy_stream_s_free_memory_is_waited_for_when_nothing_else_is_left)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = take(16 * MIB, a);

	limit(16);
	fill(block, 16 * MIB, 1, a);
	busy(a, 20);
	fill(block, 16 * MIB, 2, a);
	give(block);
	void *other = take_captured(16 * MIB, b);
	EXPECT(is_done(a));
	EXPECT_EQ(host_waits(), 1);
	EXPECT_EQ(stats().num_alloc_retries, 1);
	fill(other, 16 * MIB, 3, b);
	expect_filled(other, 16 * MIB, 3, b);
	expect_healthy();
}

TEST(the_stream_with_most_to_give_is_waited_for_and_no_other)
{
	weir_stream a = new_stream();
	weir_stream much = new_stream();
	weir_stream little = new_stream();
	void *of_much = take(16 * MIB, much);
	void *of_little = take(8 * MIB, little);

	limit(24);
	busy(much, 20);
	busy(little, 20 + 2 * LATE_MS);
	give(of_little);
	give(of_much);
	take_captured(16 * MIB, a);
	EXPECT(is_done(much));
	EXPECT(!is_done(little));
	EXPECT_EQ(host_waits(), 1);
	expect_healthy();
}

TEST(each_stream_is_waited_for_once_when_all_of_them_are_needed)
{
	weir_stream a = new_stream();
	weir_stream other[3];

	limit(24);
	for (int i = 0; i < 3; i++) {
		other[i] = new_stream();
		void *block = take(8 * MIB, other[i]);
		busy(other[i], 20);
		give(block);
	}
	take_captured(24 * MIB, a);
	EXPECT_EQ(host_waits(), 3);
	EXPECT_EQ(reserved(), 24 * MIB);
	expect_healthy();
}

TEST(scattered_memory_of_the_request_s_stream_is_waited_for_too)
{
	weir_stream a = new_stream();
	void *block[4];

	conf("expandable_segments:False");
	limit(48);
	for (int i = 0; i < 4; i++)
		block[i] = take(12 * MIB, a);
	busy(a, 20);
	for (int i = 0; i < 4; i++)
		give(block[i]);
	take((size_t)48 * MIB, a);
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
}

/* ---- Locks ------------------------------------------------------------- */

struct waiter {
	weir_stream stream;
	void *block;
};

static void *
take_for(void *arg)
{
	struct waiter *waiter = arg;

	waiter->block = take(16 * MIB, waiter->stream);
	return NULL;
}

TEST(others_go_on_while_a_request_waits)
{
	weir_stream late = new_stream();
	struct waiter waiter = { .stream = new_stream() };
	pthread_t thread;

	give(take(512, NULL));
	limit(18);
	void *block = take(16 * MIB, late);
	busy(late, 2 * LATE_MS);
	give(block);
	capture_begin(waiter.stream);
	EXPECT_EQ(pthread_create(&thread, NULL, take_for, &waiter), 0);
	usleep(20000);
	give(take(512, NULL));
	/* On the simulated device the wait may be over at once. */
	EXPECT(device_is_simulated() || !is_done(late));
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT(is_done(late));
	/* Where this thread came late, its own block had the memory first, and
	 * the request waits for that stream too. */
	EXPECT_GT(host_waits(), 0);
	capture_end(waiter.stream);
	expect_healthy();
}

/* ---- The end ----------------------------------------------------------- */

TEST(a_request_fails_only_when_live_blocks_and_it_pass_the_limit)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	limit(32);
	void *live = take(18 * MIB, a);
	give(take(4 * MIB, a));
	give(take(4 * MIB, b));
	EXPECT_NO_MEMORY(weir_malloc(16 * MIB, b), WEIR_ENOMEM);
	EXPECT_EQ(stats().num_ooms, 1);
	EXPECT_EQ(stats().num_alloc_retries, 1);
	expect_healthy();
	take(14 * MIB, b);
	EXPECT_EQ(stats().num_ooms, 1);
	give(live);
	expect_healthy();
}

TEST(a_request_beyond_the_limit_gives_nothing_back_and_waits_for_nothing)
{
	weir_stream a = new_stream();

	limit(32);
	void *idle = take(8 * MIB, NULL);
	void *block = take(8 * MIB, a);
	give(idle);
	busy(a, LATE_MS);
	give(block);
	EXPECT_NO_MEMORY(weir_malloc(33 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(reserved(), 16 * MIB);
	EXPECT(!is_done(a));
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

/* A request that needs no new memory is served all the same. */
TEST(a_limit_below_the_held_bytes_makes_requests_reclaim_first)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("handle_mb:8"); /* a partly used segment does not go back */
	void *theirs = take((size_t)64 * MIB, a);
	busy(a, LATE_MS);
	give(theirs);
	take(8 * MIB, NULL);
	finish(a);
	limit(40);
	EXPECT_EQ(reserved(), 72 * MIB);
	take(8 * MIB, b);
	EXPECT_EQ(reserved(), 72 * MIB);
	take(20 * MIB, WEIR_STREAM_ANY);
	EXPECT_LE(reserved(), 40 * MIB);
	expect_healthy();
}

TEST(half_a_device_twice_fails_and_fits_once_the_first_is_freed)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *first = take((size_t)34 * MIB, a);

	limit(64);
	EXPECT_NO_MEMORY(weir_malloc((size_t)34 * MIB, b), WEIR_ENOMEM);
	give(first);
	take((size_t)34 * MIB, b);
	expect_healthy();
}

/* ---- The collector ----------------------------------------------------- */

/* In segments of the driver, because other memory would be moved for the
 * request. */
TEST(the_collector_gives_old_memory_back_before_the_limit_is_met)
{
	weir_stream old = new_stream();
	weir_stream young = new_stream();
	void *block[2];

	conf("expandable_segments:False,garbage_collection_threshold:0.5");
	limit(120);
	block[0] = take(24 * MIB, old);
	block[1] = take(24 * MIB, young);
	give(block[0]);
	/* Freed often, so its age is low. */
	for (int i = 0; i < 10; i++) {
		give(block[1]);
		block[1] = take(24 * MIB, young);
	}
	give(block[1]);
	EXPECT_EQ(stats().num_gc, 0);
	take(30 * MIB, NULL);
	EXPECT_EQ(stats().num_gc, 0); /* 48 were held: below the half */
	take(30 * MIB, NULL);
	EXPECT_EQ(stats().num_gc, 1);
	EXPECT_EQ(stats().num_device_free, 1);
	EXPECT_EQ(take(24 * MIB, young), block[1]);
	expect_healthy();
}

TEST(the_collector_never_waits)
{
	weir_stream a = new_stream();

	conf("expandable_segments:False,garbage_collection_threshold:0.1");
	limit(100);
	void *block = take(24 * MIB, a);
	busy(a, LATE_MS);
	give(block);
	take(24 * MIB, NULL);
	EXPECT(!is_done(a));
	EXPECT_EQ(reserved(), 48 * MIB);
	EXPECT_EQ(host_waits(), 0);
	finish(a);
	take(32 * MIB, NULL);
	EXPECT_EQ(stats_of_stream(a).reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(the_collector_works_without_a_limit_or_a_fraction)
{
	weir_stream a = new_stream();
	char text[400];
	size_t total = device_total(0);

	/* A threshold of some 48 MiB, whatever the device has. */
	snprintf(text, sizeof(text),
	    "expandable_segments:False,garbage_collection_threshold:%.9f",
	    48.0 * MIB / (double)total);
	conf(text);
	give(take((size_t)64 * MIB, a));
	EXPECT_EQ(reserved(), 64 * MIB);
	take((size_t)72 * MIB, NULL);
	EXPECT_EQ(stats().num_gc, 1);
	EXPECT_EQ(stats_of_stream(a).reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(nothing_is_collected_with_the_threshold_at_0)
{
	weir_stream a = new_stream();

	conf("expandable_segments:False");
	limit(200);
	give(take((size_t)80 * MIB, a));
	take((size_t)90 * MIB, NULL);
	EXPECT_EQ(stats().num_gc, 0);
	EXPECT_EQ(reserved(), (size_t)170 * MIB);
}

TEST(repeated_requests_age_a_block_they_do_not_use_out)
{
	conf("expandable_segments:False,garbage_collection_threshold:0.6");
	limit(100);
	void *old = take(30 * MIB, NULL);
	weir_stream a = new_stream();
	give(old);
	for (int i = 0; i < 5; i++)
		give(take(34 * MIB, a));
	take(34 * MIB, a);
	EXPECT_EQ(reserved(), 64 * MIB);
	take(44 * MIB, a);
	EXPECT_EQ(stats().num_gc, 1);
	EXPECT_EQ(stats_of_stream(NULL).reserved_bytes.all.current, 0);
	expect_healthy();
}

/* ---- Trim -------------------------------------------------------------- */

TEST(trim_gives_back_all_unused_memory)
{
	weir_stream a = new_stream();

	void *small = take(512, NULL);
	give(take(8 * MIB, NULL));
	busy(NULL, 1); /* otherwise the next blocks would get its memory */
	give(take(16 * MIB, a));
	void *live = take(4 * MIB, a);
	give(small);
	EXPECT_EQ(trim(0), 18 * MIB);
	EXPECT_EQ(reserved(), 8 * MIB); /* one handle, partly in use */
	give(live);
	EXPECT_EQ(trim(0), 8 * MIB);
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(trim(0), 0);
	expect_healthy();
}

TEST(trim_keeps_the_requested_bytes)
{
	device_need_bytes((size_t)64 << 30); /* handles may be of 32 MiB */
	void *block[4];

	for (int i = 0; i < 4; i++)
		block[i] = take((size_t)64 * MIB, NULL);
	for (int i = 0; i < 4; i++)
		give(block[i]);
	EXPECT_EQ(trim((size_t)512 * MIB), 0);
	EXPECT_EQ(trim((size_t)256 * MIB), 0);
	EXPECT_EQ(trim((size_t)100 * MIB), 160 * MIB);
	EXPECT_EQ(reserved(), 96 * MIB);
	EXPECT_EQ(trim(0), 96 * MIB);
	expect_healthy();
}

TEST(trim_waits_for_pending_blocks)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();
	void *block = take(8 * MIB, a);

	busy(use, 20);
	record(block, use);
	give(block);
	EXPECT_EQ(trim(0), 8 * MIB);
	EXPECT(is_done(use));
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(stats().num_sync_all_streams, 1);
	expect_healthy();
}

TEST(trim_waits_for_streams_whose_memory_it_gives_back)
{
	weir_stream a = new_stream();
	void *block = take(8 * MIB, a);

	busy(a, 20);
	fill(block, 8 * MIB, 1, a);
	give(block);
	EXPECT_EQ(trim(0), 8 * MIB);
	EXPECT(is_done(a));
	expect_healthy();
}

TEST(trim_of_memory_that_is_not_there_is_no_error)
{
	size_t freed = 7;

	EXPECT_OK(weir_trim(0, 0, &freed));
	EXPECT_EQ(freed, 0);
	EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, NULL));
	EXPECT_OK(weir_trim(WEIR_DEVICE_CURRENT, SIZE_MAX, NULL));
	EXPECT_STATUS(weir_trim(99, 0, &freed), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_trim(-3, 0, &freed), WEIR_ENODEVICE);
	EXPECT_EQ(freed, 0);
}

/* ---- What lies side by side -------------------------------------------- */

/* Complete blocks of two streams go back together; neighbours that their stream
 * still works on do not. */
TEST(a_neighbour_whose_work_is_not_done_does_not_go_back)
{
	conf("prefer:balance");
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *first = take(4 * MIB, a);
	void *second = take(4 * MIB, a);
	void *third = take(4 * MIB, a);

	give(first);
	EXPECT_OK(weir_free_async(second, b));
	trim(SIZE_MAX); /* by now both streams are known to be idle */
	busy(a, LATE_MS);
	give(third);
	EXPECT_EQ(trim(4 * MIB), 8 * MIB);
	expect_healthy();
	EXPECT(!is_done(a));
	EXPECT_EQ(stats_of_stream(a).reserved_bytes.all.current, 4 * MIB);
	fill(take(4 * MIB, a), 4 * MIB, 7, a);
	expect_healthy();
}

/* ---- All of it, all the time ------------------------------------------- */

TEST(reclaim_always_gives_idle_memory_back_before_each_allocation)
{
	weir_stream a = new_stream();
	weir_stream late = new_stream();

	conf("reclaim_always:True");
	give(take(8 * MIB, a));
	void *block = take(8 * MIB, late);
	busy(late, LATE_MS);
	give(block);
	take(512, NULL);
	EXPECT_EQ(stats_of_stream(a).reserved_bytes.all.current, 0);
	EXPECT_EQ(stats_of_stream(late).reserved_bytes.all.current, 8 * MIB);
	EXPECT(!is_done(late));
	EXPECT_EQ(host_waits(), 0);
	expect_healthy();
}

/* ---- Captures ---------------------------------------------------------- */

/* A stream that is captured can neither be queried nor waited for. */
TEST(a_capture_is_never_broken_by_want_of_memory)
{
	const struct driver *driver = device_driver();
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	CUgraph graph = NULL;

	limit(16);
	void *pending = take(8 * MIB, b);
	record(pending, a);
	give(take(8 * MIB, a));
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(
	    driver->cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUDA_SUCCESS);
	give(pending);
	EXPECT_NO_MEMORY(weir_malloc(16 * MIB, b), WEIR_ENOMEM);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT_EQ(driver->cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
	driver->cuGraphDestroy(graph);
	take(16 * MIB, b);
	expect_healthy();
}

/* ---- The index of idle memory ------------------------------------------- */

/* Is no memory mapped at an address? */
static bool
is_gone(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr) == NULL;
}

TEST(mapped_memory_goes_back_the_longest_unused_first)
{
	weir_stream a = new_stream();
	char *block[3];

	conf("tcache:0,handle_mb:2");
	take_apart(block, 3, 4 * MIB, a);
	give(block[1]);
	give(block[0]);
	give(block[2]);
	finish(a);
	EXPECT_EQ(trim(8 * MIB), 4 * MIB);
	EXPECT(is_gone(block[1]));
	EXPECT(!is_gone(block[0]) && !is_gone(block[2]));
	EXPECT_EQ(trim(4 * MIB), 4 * MIB);
	EXPECT(is_gone(block[0]) && !is_gone(block[2]));
	expect_healthy();
}

/* Memory that was used again is young again, also if only a part of it was. */
TEST(memory_that_was_used_again_goes_back_later)
{
	weir_stream a = new_stream();
	char *block[2];

	conf("tcache:0,handle_mb:2");
	take_apart(block, 2, 4 * MIB, a);
	give(block[0]);
	give(block[1]);
	void *part = take(2 * MIB, a);
	bool first = part == block[0];
	EXPECT(first || part == block[1]);
	give(part);
	finish(a);
	EXPECT_EQ(trim(4 * MIB), 4 * MIB);
	EXPECT(is_gone(block[first]));
	EXPECT(!is_gone(block[!first]));
	expect_healthy();
}

TEST(a_pin_that_ends_makes_its_memory_idle)
{
	weir_stream a = new_stream();
	void *block = take(4 * MIB, a);

	conf("tcache:0");
	EXPECT_OK(weir_pin(block));
	give(block);
	EXPECT_EQ(trim(0), 0);
	EXPECT_OK(weir_unpin(block));
	expect_healthy();
	EXPECT_EQ(trim(0), 4 * MIB);
	expect_healthy();
}

TEST(a_driver_segment_whose_pin_ends_is_idle)
{
	void *block = take(16 * MIB, WEIR_STREAM_ANY);

	conf("tcache:0");
	EXPECT_OK(weir_pin(block));
	give(block);
	EXPECT_EQ(trim(0), 0);
	EXPECT_OK(weir_unpin(block));
	expect_healthy();
	EXPECT_EQ(trim(0), 16 * MIB);
	expect_healthy();
}

/* To give all unused memory back would not help the request, and the next ones
 * would have to map it again. */
TEST(a_request_that_cannot_fit_gives_nothing_back)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	limit(32);
	take(20 * MIB, a);
	give(take(8 * MIB, a));
	finish(a);
	EXPECT_NO_MEMORY(weir_malloc(14 * MIB, a), WEIR_ENOMEM);
	EXPECT_EQ(reserved(), 28 * MIB);
	EXPECT_EQ(stats().num_unmap_calls, 0);
	take(12 * MIB, a);
	expect_healthy();
}

/* A handle under the memory of two streams, neither of which has all of it. In
 * a private pool complete memory stays with its stream. */
TEST(a_handle_under_the_memory_of_two_streams_goes_back_from_a_private_pool)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *first = take_from(pool, 512 * KIB, a);
	void *second;

	second = take_from(pool, 512 * KIB, b);
	give(first);
	give(second);
	finish(a);
	finish(b);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
	weir_pool_release(pool);
}

/* ---- Addresses that many pieces have left -------------------------------- */

TEST(memory_grows_where_the_smallest_hole_fits_if_there_are_many)
{
	enum { HOLES = 100 };
	weir_stream a = new_stream();
	char *block[HOLES];

	conf("tcache:0,handle_mb:2");
	take_apart(block, HOLES, 4 * MIB, a);
	for (int i = 0; i < HOLES; i++)
		give(block[i]);
	finish(a);
	EXPECT_EQ(trim(0), HOLES * (size_t)4 * MIB);
	size_t held = reserved();
	char *in = take(4 * MIB, a);
	EXPECT(in > block[0] - 64 * MIB && in <= block[HOLES - 1]);
	EXPECT_EQ(reserved(), held + 4 * MIB);
	expect_healthy();
	/* And a row of free and unmapped memory needs only the rest. */
	give(take(2 * MIB, a));
	EXPECT_EQ(reserved(), held + 6 * MIB);
	take(4 * MIB, a);
	EXPECT_EQ(reserved(), held + 8 * MIB);
	/* A large request goes where no hole is in its way. */
	take(64 * MIB, a);
	EXPECT_EQ(reserved(), held + 72 * MIB);
	expect_healthy();
}
