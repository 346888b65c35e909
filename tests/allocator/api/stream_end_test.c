/*
 * Note [A stream ends]: once a stream is destroyed, retired or gone with its
 * thread, its memory becomes everyone's, not before its work is done.
 */
#include "allocator/request/thread_end.h"

#include <pthread.h>

#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/promote.h"
#include "tests/support/device.h"

/* Count the streams with a heap on device 0, WEIR_STREAM_ANY among them. */
static size_t
heap_count(void)
{
	struct arena *arena = arena_peek(0);
	size_t n = 0;

	lock_enter(&arena->lock);
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next)
		n++;
	lock_leave(&arena->lock);
	return n;
}

/* Each request sees which ended streams have completed. */
static void
poll(void)
{
	give(take(512, NULL));
}

TEST(memory_of_a_destroyed_stream_is_everyone_s_once_its_work_is_done)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(4 * MIB, a);

	busy(a, LATE_MS);
	fill(ptr, 4 * MIB, 1, a);
	give(ptr);
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_NE(take(4 * MIB, b), ptr);
	expect_healthy();
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT_EQ(take(4 * MIB, b), ptr);
	fill(ptr, 4 * MIB, 2, b);
	expect_filled(ptr, 4 * MIB, 2, b);
	expect_healthy();
}

TEST(memory_of_a_retired_stream_is_everyone_s_once_its_work_is_done)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	weir_stream b = new_stream();
	void *ptr = take(4 * MIB, a);

	busy(a, LATE_MS);
	fill(ptr, 4 * MIB, 1, a);
	give(ptr);
	EXPECT_OK(weir_stream_retire(a));
	foreign_destroy(a);
	EXPECT_NE(take(4 * MIB, b), ptr);
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT_EQ(take(4 * MIB, b), ptr);
	fill(ptr, 4 * MIB, 2, b);
	finish(b);
	expect_healthy();
}

TEST(a_block_that_outlives_its_stream_is_everyone_s_when_it_is_freed)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(4 * MIB, a);

	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_OK(weir_device_synchronize(0));
	poll();
	expect_healthy();
	EXPECT_EQ(info_of(ptr).size, 4 * MIB);
	give(ptr);
	EXPECT_EQ(take(4 * MIB, b), ptr);
	expect_healthy();
}

TEST(a_pending_block_that_outlives_its_stream_is_everyone_s_when_it_is_done)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream use = new_stream();
	void *ptr = take(4 * MIB, a);

	busy(use, LATE_MS);
	record(ptr, use);
	give(ptr);
	EXPECT_OK(weir_stream_destroy(a));
	settle();
	EXPECT_NE(take(4 * MIB, b), ptr);
	finish(use);
	EXPECT_EQ(take(4 * MIB, b), ptr);
	expect_healthy();
}

TEST(an_ended_stream_leaves_nothing_behind)
{
	void *small = take(512, NULL); /* memory for small blocks stays */
	size_t before = heap_count();

	for (int i = 0; i < 10; i++) {
		weir_stream a = new_stream();
		give(take(4 * MIB, a));
		give(take(512, a));
		EXPECT_OK(weir_stream_destroy(a));
		EXPECT_OK(weir_device_synchronize(0));
	}
	poll();
	EXPECT_EQ(heap_count(), before);
	/* 4 that each of them had in turn, and 2 for all small blocks. */
	EXPECT_EQ(stats().reserved_bytes.all.current, 6 * MIB);
	give(small);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* Addresses once reserved serve the streams that come later. */
TEST(addresses_of_an_ended_stream_are_grown_by_another)
{
	weir_stream a = new_stream();
	char *ptr = take(4 * MIB, a);
	char *live = take(2 * MIB, a);

	give(ptr);
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_OK(weir_device_synchronize(0));
	poll();
	weir_stream b = new_stream();
	char *grown = take(32 * MIB, b);
	EXPECT_EQ(grown, live + 2 * MIB);
	fill(grown, 32 * MIB, 1, b);
	expect_filled(grown, 32 * MIB, 1, b);
	give(live);
	give(grown);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(work_of_a_retired_stream_holds_back_blocks_that_it_used)
{
	weir_stream a = new_stream();
	weir_stream use = foreign_stream(CU_STREAM_NON_BLOCKING);
	void *ptr = take(4 * MIB, a);

	busy(use, LATE_MS);
	fill(ptr, 4 * MIB, 1, use);
	record(ptr, use);
	EXPECT_OK(weir_stream_retire(use));
	foreign_destroy(use);
	give(ptr); /* `use` cannot be asked any more */
	void *other = take(4 * MIB, a);
	EXPECT_NE(other, ptr);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT_EQ(take(4 * MIB, a), ptr);
	fill(ptr, 4 * MIB, 2, a);
	expect_filled(ptr, 4 * MIB, 2, a);
	expect_healthy();
}

TEST(work_of_a_destroyed_stream_holds_back_blocks_that_it_used)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();
	void *ptr = take(4 * MIB, a);

	busy(use, LATE_MS);
	fill(ptr, 4 * MIB, 1, use);
	record(ptr, use);
	EXPECT_OK(weir_stream_destroy(use));
	give(ptr);
	EXPECT_NE(take(4 * MIB, a), ptr);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT_EQ(take(4 * MIB, a), ptr);
	expect_healthy();
}

TEST(memory_of_an_ended_stream_that_is_still_busy_is_waited_for_if_need_be)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(16 * MIB, a);

	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	busy(a, 20);
	give(ptr);
	EXPECT_OK(weir_stream_destroy(a));
	take(12 * MIB, b);
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
}

/* ---- Portions ---------------------------------------------------------- */

enum { MANY = 4000, SMALL = 4 * KIB };

/* Blocks of a stream, of which every second one is free. */
static void
take_many(void *blocks[MANY], weir_stream stream)
{
	for (int i = 0; i < MANY; i++)
		blocks[i] = take(SMALL, stream);
	for (int i = 0; i < MANY; i += 2)
		give(blocks[i]);
}

/* Runs in the pools of a heap. */
static size_t
runs_of(const struct stream_heap *heap)
{
	size_t count = 0;

	for (int kind = 0; kind < POOL_KINDS; kind++)
		count += heap->pool[kind].free.count;
	return count;
}

static struct stream_heap *
heap_of(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr)->pool->owner;
}

TEST(no_request_pays_for_all_the_memory_of_an_ended_stream)
{
	void *blocks[MANY];
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0");
	take_many(blocks, a);
	take(SMALL, b);
	const struct stream_heap *heap = heap_of(blocks[1]);
	size_t before = runs_of(heap);
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_EQ(runs_of(heap), before);
	for (unsigned n = 0; arena_peek(0)->memory.ending > 0; n++) {
		EXPECT_LE(n, MANY / BLOCKS_AT_ONCE);
		take(SMALL, b);
		EXPECT_LE(before - runs_of(heap), 2 * BLOCKS_AT_ONCE);
		before = runs_of(heap);
		expect_healthy();
	}
	EXPECT_EQ(before, 0);
	for (int i = 1; i < MANY; i += 2)
		give(blocks[i]);
	expect_healthy();
}

static size_t
cached_bytes(const struct stream_heap *heap)
{
	struct arena *arena = arena_peek(0);

	lock_enter(&arena->lock);
	size_t bytes = tcache_bytes(heap);
	lock_leave(&arena->lock);
	return bytes;
}

TEST(the_cached_blocks_of_an_ended_stream_are_freed_in_portions)
{
	void *blocks[MANY];
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	for (int i = 0; i < MANY; i++)
		blocks[i] = take(SMALL, a);
	take(SMALL, b);
	for (int i = 1; i < MANY; i++)
		give(blocks[i]);
	const struct stream_heap *heap = heap_of(blocks[0]);
	EXPECT_GT(cached_bytes(heap), (size_t)3 * BLOCKS_AT_ONCE * SMALL);
	EXPECT_OK(weir_device_synchronize(0));
	EXPECT_OK(weir_stream_destroy(a));
	size_t cached = cached_bytes(heap);
	EXPECT_GT(cached, 0);
	expect_healthy();
	while (arena_peek(0)->memory.ending > 0) {
		take(2 * SMALL, b); /* no cache has it */
		EXPECT_LE(cached - cached_bytes(heap),
		    (size_t)2 * BLOCKS_AT_ONCE * SMALL);
		cached = cached_bytes(heap);
		expect_healthy();
	}
	EXPECT_EQ(cached, 0);
	give(blocks[0]);
	expect_healthy();
}

TEST(a_trim_gives_back_all_memory_of_an_ended_stream)
{
	void *blocks[MANY];
	weir_stream a = new_stream();

	for (int i = 0; i < MANY; i++)
		blocks[i] = take(SMALL, a);
	for (int i = 0; i < MANY; i++)
		give(blocks[i]);
	EXPECT_OK(weir_stream_destroy(a));
	trim(0);
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(arena_peek(0)->memory.ending, 0);
	expect_healthy();
}

TEST(memory_of_an_ended_busy_stream_follows_in_portions_behind_its_end)
{
	void *blocks[MANY];
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("tcache:0,prefer:memory");
	for (int i = 0; i < MANY; i++)
		blocks[i] = take(SMALL, a);
	take(SMALL, b);
	EXPECT_OK(weir_limit_set(0, reserved()));
	busy(a, 20);
	for (int i = 0; i < MANY; i += 2)
		give(blocks[i]);
	EXPECT_OK(weir_stream_destroy(a));
	for (int i = 0; i < MANY / 4; i++)
		take(SMALL, b);
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
	settle();
	EXPECT_OK(weir_device_synchronize(0));
	for (int i = 1; i < MANY; i += 2)
		give(blocks[i]);
	expect_healthy();
}

/* ---- Bad input --------------------------------------------------------- */

TEST(only_streams_that_weir_made_for_the_caller_can_be_destroyed)
{
	weir_stream pooled;
	weir_stream foreign = foreign_stream(CU_STREAM_NON_BLOCKING);

	EXPECT_OK(weir_stream_from_pool(0, 0, &pooled));
	EXPECT_STATUS(weir_stream_destroy(pooled), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_destroy(foreign), WEIR_EINVAL);
	take(512, foreign);
	EXPECT_STATUS(weir_stream_destroy(foreign), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_destroy(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_destroy(WEIR_STREAM_LEGACY), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_destroy(WEIR_STREAM_PER_THREAD), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_destroy(WEIR_STREAM_ANY), WEIR_EINVAL);
	/* All of them are unchanged. */
	give(take(512, pooled));
	give(take(512, foreign));
	expect_healthy();
}

TEST(a_stream_is_destroyed_once)
{
	weir_stream a = new_stream();

	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_STATUS(weir_stream_destroy(a), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "destroyed");
	EXPECT_STATUS(weir_stream_retire(a), WEIR_EINVAL);
}

TEST(default_and_pooled_streams_do_not_retire)
{
	weir_stream pooled;

	EXPECT_OK(weir_stream_from_pool(0, 0, &pooled));
	EXPECT_STATUS(weir_stream_retire(pooled), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_retire(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_retire(WEIR_STREAM_LEGACY), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_retire(WEIR_STREAM_PER_THREAD), WEIR_EINVAL);
	EXPECT_STATUS(weir_stream_retire(WEIR_STREAM_ANY), WEIR_EINVAL);
}

TEST(retiring_a_stream_weir_never_met_is_no_error)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);

	EXPECT_OK(weir_stream_retire(a));
	EXPECT_OK(weir_stream_retire(a));
	foreign_destroy(a);
}

TEST(a_retired_handle_that_is_used_again_is_a_new_stream)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	void *ptr = take(4 * MIB, a);

	busy(a, LATE_MS);
	give(ptr);
	EXPECT_OK(weir_stream_retire(a));
	/* The stream was not destroyed: its memory does not belong to the new
	 * one. */
	EXPECT_NE(take(4 * MIB, a), ptr);
	finish(a);
	settle();
	EXPECT_EQ(take(4 * MIB, new_stream()), ptr);
	EXPECT_OK(weir_stream_retire(a));
	foreign_destroy(a);
	expect_healthy();
}

TEST(streams_come_and_go_and_their_memory_goes_on)
{
	for (int i = 0; i < 40; i++) {
		weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
		void *ptr = take(4 * MIB, a);
		fill(ptr, 4 * MIB, (unsigned char)i, a);
		expect_filled(ptr, 4 * MIB, (unsigned char)i, a);
		give(ptr);
		EXPECT_OK(weir_stream_retire(a));
		foreign_destroy(a);
		settle();
	}
	EXPECT_LE(stats().reserved_bytes.all.current, 8 * MIB);
	expect_healthy();
}

/* ---- Per-thread default streams ---------------------------------------- */

static void *
use_own_stream(void *arg)
{
	void **out = arg;

	EXPECT_OK(weir_set_device(0));
	*out = take(4 * MIB, WEIR_STREAM_PER_THREAD);
	fill(*out, 4 * MIB, 1, WEIR_STREAM_PER_THREAD);
	expect_filled(*out, 4 * MIB, 1, WEIR_STREAM_PER_THREAD);
	give(*out);
	EXPECT_EQ(take(4 * MIB, WEIR_STREAM_PER_THREAD), *out);
	give(*out);
	return NULL;
}

static void
run_thread(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, body, arg), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
}

TEST(each_thread_s_default_stream_has_separate_memory)
{
	void *mine;
	void *theirs;

	use_own_stream(&mine);
	run_thread(use_own_stream, &theirs);
	EXPECT_NE(mine, theirs);
	EXPECT_EQ(take(4 * MIB, WEIR_STREAM_PER_THREAD), mine);
	EXPECT_EQ(info_of(mine).stream, WEIR_STREAM_PER_THREAD);
	expect_healthy();
}

TEST(a_thread_that_ends_leaves_its_stream_s_memory_to_the_others)
{
	void *theirs;

	conf("tcache:0"); /* each poll must reach the heaps */
	take(512, NULL);  /* and be served from there */
	run_thread(use_own_stream, &theirs);
	poll();
	settle();
	poll();
	EXPECT_EQ(take(4 * MIB, new_stream()), theirs);
	expect_healthy();
}

TEST(a_hundred_threads_share_the_memory_of_a_few)
{
	void *ptr;

	for (int i = 0; i < 100; i++) {
		run_thread(use_own_stream, &ptr);
		poll();
		settle();
	}
	EXPECT_LE(stats().reserved_bytes.large_pool.current, 8 * MIB);
	EXPECT_LE(heap_count(), 4);
	expect_healthy();
}

static void *
leave_busy(void *arg)
{
	void **out = arg;

	EXPECT_OK(weir_set_device(0));
	*out = take(4 * MIB, WEIR_STREAM_PER_THREAD);
	busy(WEIR_STREAM_PER_THREAD, LATE_MS);
	fill(*out, 4 * MIB, 1, WEIR_STREAM_PER_THREAD);
	give(*out);
	return NULL;
}

TEST(a_thread_that_ends_with_work_queued_keeps_its_memory_until_it_is_done)
{
	weir_stream a = new_stream();
	void *theirs;

	run_thread(leave_busy, &theirs);
	EXPECT_NE(take(4 * MIB, a), theirs);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT_EQ(take(4 * MIB, a), theirs);
	fill(theirs, 4 * MIB, 2, a);
	finish(a);
	expect_healthy();
}

static void *
record_own(void *arg)
{
	EXPECT_OK(weir_set_device(0));
	busy(WEIR_STREAM_PER_THREAD, LATE_MS);
	fill(arg, 4 * MIB, 1, WEIR_STREAM_PER_THREAD);
	record(arg, WEIR_STREAM_PER_THREAD);
	return NULL;
}

static void *
free_it(void *arg)
{
	give(arg);
	return NULL;
}

TEST(a_use_by_an_ended_thread_s_stream_holds_whoever_frees_the_block)
{
	weir_stream a = new_stream();
	void *first = take(4 * MIB, a);
	void *second = take(4 * MIB, a);

	run_thread(record_own, first);
	give(first);
	EXPECT_NE(take(4 * MIB, a), first);
	finish(NULL);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT_EQ(take(4 * MIB, a), first);
	/* The thread that frees may have the number of the one that ended. */
	run_thread(record_own, second);
	run_thread(free_it, second);
	EXPECT_NE(take(4 * MIB, a), second);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT_EQ(take(4 * MIB, a), second);
	expect_healthy();
}

TEST(a_thread_s_stream_is_not_that_of_another_thread_with_the_same_handle)
{
	weir_stream a = new_stream();
	void *ptr = take(4 * MIB, a);

	EXPECT_OK(weir_set_device(0));
	run_thread(record_own, ptr);
	record(ptr, WEIR_STREAM_PER_THREAD); /* this one is idle */
	give(ptr);
	EXPECT_NE(take(4 * MIB, a), ptr);
	EXPECT_OK(weir_device_synchronize(0));
	settle();
	EXPECT_EQ(take(4 * MIB, a), ptr);
	expect_healthy();
}
