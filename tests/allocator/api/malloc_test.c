/*
 * Allocating: the promises for every block, and the errors for bad input. A
 * call that fails changes nothing.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <weir/trace.h>

#include "allocator/allocator.h"
#include "base/meta.h"
#include "tests/support/device.h"

/* ---- Blocks ------------------------------------------------------------ */

TEST(a_block_is_aligned_to_512_bytes_and_as_large_as_asked)
{
	static const size_t sizes[] = { 1, 511, 512, 513, 100000, MIB, MIB + 1,
		3 * MIB + 77, 10 * MIB, 33 * MIB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *ptr = take(sizes[i], NULL);
		EXPECT_EQ((uintptr_t)ptr % 512, 0);
		struct weir_block_info info = info_of(ptr);
		EXPECT_EQ(info.address, ptr);
		EXPECT_EQ(info.requested_bytes, sizes[i]);
		EXPECT_GE(info.size, sizes[i]);
		EXPECT_LT(info.size - sizes[i], 512);
		EXPECT_EQ(info.device, 0);
	}
	expect_healthy();
}

TEST(live_blocks_do_not_overlap)
{
	unsigned char *block[64];
	weir_stream stream = new_stream();

	for (int i = 0; i < 64; i++) {
		size_t size = (size_t)(i * 7919 % 4000 + 1) * 100;
		block[i] = take(size, stream);
		fill(
		    block[i], info_of(block[i]).size, (unsigned char)i, stream);
	}
	for (int i = 0; i < 64; i++)
		expect_filled(
		    block[i], info_of(block[i]).size, (unsigned char)i, stream);
	expect_healthy();
}

TEST(the_caller_s_context_is_left_as_it_was)
{
	const struct driver *driver = device_driver();
	CUcontext context = (CUcontext)1;

	void *ptr = take(512, NULL);
	EXPECT_EQ(driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
	EXPECT_NULL(context);
	give(ptr);
	trim(0);
	EXPECT_EQ(driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
	EXPECT_NULL(context);
}

static void *
use_all_calls(void *arg)
{
	weir_stream stream = arg;
	struct weir_event *event;
	void *ptr = take(3 * MIB, stream);
	void *other = take(512, NULL);

	record(ptr, NULL);
	record(other, stream);
	EXPECT_OK(weir_event_create(0, &event));
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_OK(weir_event_query(event));
	EXPECT_OK(weir_event_destroy(event));
	EXPECT_OK(weir_stream_synchronize(stream));
	EXPECT_OK(weir_stream_query(stream));
	give(ptr);
	give(other);
	trim(0);
	return arg;
}

TEST(a_thread_with_no_current_context_can_make_every_call)
{
	pthread_t thread;

	EXPECT_EQ(
	    pthread_create(&thread, NULL, use_all_calls, new_stream()), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	/* Also on a stream that weir has not met before. */
	EXPECT_EQ(pthread_create(&thread, NULL, use_all_calls,
		      foreign_stream(CU_STREAM_NON_BLOCKING)),
	    0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	expect_healthy();
}

TEST(the_default_stream_has_two_names)
{
	void *a = take(2 * MIB, NULL);

	give(a);
	EXPECT_EQ(take(2 * MIB, WEIR_STREAM_LEGACY), a);
	record(a, NULL);
	give(a);
	EXPECT_EQ(take(2 * MIB, NULL), a);
}

/* ---- Allocating: bad input --------------------------------------------- */

TEST(a_size_of_0_is_refused)
{
	struct weir_stats before = stats();

	EXPECT_NO_MEMORY(weir_malloc(0, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "0 bytes");
	EXPECT_NO_MEMORY(weir_malloc_on(0, 0, NULL), WEIR_EINVAL);
	expect_stats_unchanged(&before);
}

TEST(a_size_of_0_is_refused_while_the_history_is_recorded)
{
	EXPECT_OK(weir_history_start(NULL));
	for (int i = 0; i < 100; i++) /* the thread gets a cache */
		give(take(KIB, NULL));
	EXPECT_NO_MEMORY(weir_malloc(0, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "0 bytes");
	EXPECT_NO_MEMORY(weir_malloc(SIZE_MAX, NULL), WEIR_EINVAL);
	EXPECT_OK(weir_history_stop());
}

TEST(a_size_above_1_eib_is_refused_before_anything_is_tried)
{
	EXPECT_NO_MEMORY(weir_malloc(WEIR_SIZE_MAX + 1, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 1EB memory");
	EXPECT_NO_MEMORY(weir_malloc(SIZE_MAX, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 1EB memory");
	EXPECT_NULL(driver_peek());
}

TEST(a_huge_size_is_out_of_memory_and_the_rest_still_works)
{
	take(512, NULL);
	struct weir_stats before = stats();

	EXPECT_NO_MEMORY(weir_malloc(WEIR_SIZE_MAX, NULL), WEIR_ENOMEM);
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 50, NULL), WEIR_ENOMEM);
	expect_stats_unchanged(&before);
	conf("expandable_segments:False");
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 50, NULL), WEIR_ENOMEM);
	expect_stats_unchanged(&before);
	give(take(8 * MIB, NULL));
	expect_healthy();
}

TEST(a_device_that_is_not_there_is_refused)
{
	EXPECT_NO_MEMORY(weir_malloc_on(99, 512, NULL), WEIR_ENODEVICE);
	EXPECT_STR_HAS(weir_last_error(), "99");
	EXPECT_NO_MEMORY(weir_malloc_on(-7, 512, NULL), WEIR_ENODEVICE);
	EXPECT_NO_MEMORY(
	    weir_malloc_on(WEIR_DEVICE_ALL, 512, NULL), WEIR_ENODEVICE);
}

TEST(a_destroyed_stream_is_refused_by_every_call)
{
	weir_stream gone = new_stream();
	struct weir_stats s = { .struct_size = sizeof(s) };
	size_t bytes;

	void *ptr = take(512, NULL);
	void *used = take(512, NULL);
	record(used, gone);
	EXPECT_OK(weir_stream_destroy(gone));
	struct weir_stats before = stats();
	EXPECT_NO_MEMORY(weir_malloc(512, gone), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "destroyed");
	EXPECT_NO_MEMORY(weir_malloc_on(0, 512, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_record_stream(ptr, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_record_stream(used, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_free_async(ptr, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_stats_stream(0, gone, &s), WEIR_EINVAL);
	EXPECT_STATUS(weir_largest_free(0, gone, &bytes), WEIR_EINVAL);
	expect_stats_unchanged(&before);
	EXPECT_EQ(info_of(ptr).address, ptr);
	give(ptr);
}

/* ---- No stream --------------------------------------------------------- */

/* Freed memory is fenced if it is this much; less waits for more, or until a
 * request needs it. */
enum { MUCH = 64 * MIB };

TEST(memory_of_no_stream_is_not_reused_until_all_work_of_the_device_is_done)
{
	weir_stream late = new_stream();
	void *ptr = take(MUCH, WEIR_STREAM_ANY);

	busy(late, LATE_MS);
	give(ptr); /* no use of `late` was recorded */
	EXPECT_NE(take(MUCH, WEIR_STREAM_ANY), ptr);
	EXPECT_NE(take(MUCH, NULL), ptr);
	EXPECT(!is_done(late));
	finish(late);
	settle();
	EXPECT_EQ(take(MUCH, NULL), ptr);
	expect_healthy();
}

TEST(memory_of_no_stream_waits_for_the_default_streams_too)
{
	void *ptr = take(MUCH, WEIR_STREAM_ANY);

	busy(NULL, LATE_MS);
	give(ptr);
	EXPECT_NE(take(MUCH, WEIR_STREAM_ANY), ptr);
	finish(NULL);
	settle();
	EXPECT_EQ(take(MUCH, WEIR_STREAM_ANY), ptr);
	expect_healthy();
}

TEST(work_submitted_after_the_free_does_not_hold_memory_of_no_stream_back)
{
	weir_stream stream = new_stream();
	void *ptr = take(MUCH, WEIR_STREAM_ANY);

	give(ptr);
	busy(stream, LATE_MS);
	settle();
	EXPECT_EQ(take(MUCH, WEIR_STREAM_ANY), ptr);
	EXPECT(!is_done(stream));
	expect_healthy();
}

TEST(memory_of_no_stream_may_be_used_on_any_stream_at_once)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(4 * MIB, WEIR_STREAM_ANY);

	fill(ptr, 2 * MIB, 1, a);
	fill((char *)ptr + 2 * MIB, 2 * MIB, 2, b);
	expect_filled(ptr, 2 * MIB, 1, a);
	expect_filled((char *)ptr + 2 * MIB, 2 * MIB, 2, b);
	give(ptr);
	expect_healthy();
}

TEST(memory_of_no_stream_moves_to_the_stream_that_frees_it)
{
	weir_stream a = new_stream();
	void *ptr = take(4 * MIB, WEIR_STREAM_ANY);

	busy(new_stream(), LATE_MS);
	EXPECT_OK(weir_free_async(ptr, a));
	EXPECT_EQ(take(4 * MIB, a), ptr);
	EXPECT_EQ(info_of(ptr).stream, a);
	expect_healthy();
}

TEST(memory_of_no_stream_is_taken_for_a_stream_before_new_memory)
{
	weir_stream a = new_stream();
	void *ptr = take(MUCH, WEIR_STREAM_ANY);

	give(ptr);
	settle();
	uint64_t held = stats().reserved_bytes.all.current;
	EXPECT_EQ(take(MUCH, a), ptr);
	EXPECT_EQ(stats().reserved_bytes.all.current, held);
	expect_healthy();
}

TEST(a_block_of_no_stream_that_cannot_be_followed_is_not_handed_out)
{
	struct weir_stats before = stats();
	bool failed = false;

	/* The first use allocates; its memory is kept for the next one. */
	for (unsigned long nth = 1; nth < 40; nth++) {
		meta_fail(nth, 1);
		void *ptr = weir_malloc(4 * MIB, WEIR_STREAM_ANY);
		meta_fail(0, 0);
		if (ptr != NULL) {
			give(ptr);
			settle();
			continue;
		}
		failed = true;
		EXPECT_EQ(weir_last_status(), WEIR_EHOSTMEM);
		EXPECT_EQ(stats().allocated_bytes.all.current,
		    before.allocated_bytes.all.current);
		expect_healthy();
	}
	EXPECT(failed);
}

/* ---- Threads ----------------------------------------------------------- */

enum { THREADS = 8, SHARED = 64 };
static _Atomic(void *) shared[SHARED];

/* Blocks pass from thread to thread; each is freed once. */
static void *
pass_blocks(void *arg)
{
	weir_stream stream = NULL;
	uint64_t seed = (uintptr_t)arg * 2654435761u + 1;

	EXPECT_OK(weir_stream_from_pool(0, 0, &stream));
	for (uint64_t i = test_effort(3000); i > 0; i--) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		size_t size = (seed >> 40) % (3 * MIB) + 1;
		void *mine = weir_malloc(size, stream);
		EXPECT_NOT_NULL(mine);
		if (seed >> 33 & 1)
			record(mine, NULL);
		void *old = atomic_exchange(&shared[seed >> 20 & 63], mine);
		if (old != NULL && seed >> 34 & 1)
			give(old);
		else
			EXPECT_OK(weir_free_async(old, stream));
	}
	return NULL;
}

TEST(threads_allocate_and_free_each_other_s_blocks)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(
			      &thread[i], NULL, pass_blocks, (void *)(i + 1)),
		    0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < SHARED; i++)
		give(shared[i]);
	trim(0);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_EQ(weir_check(NULL, 0), 0);
}
