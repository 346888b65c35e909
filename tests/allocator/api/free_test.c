/*
 * Freeing: when memory is free, and the errors for wrong addresses. A call that
 * fails changes nothing.
 */
#include "allocator/request/release.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <weir/graph.h>

#include "allocator/allocator.h"
#include "base/meta.h"
#include "tests/support/device.h"

/* ---- Freeing ----------------------------------------------------------- */

TEST(freeing_null_does_nothing)
{
	EXPECT_OK(weir_free(NULL));
	EXPECT_OK(weir_free_async(NULL, NULL));
	EXPECT_NULL(driver_peek());
}

TEST(foreign_addresses_are_refused_by_name)
{
	int local;
	struct weir_stats before;

	take(512, NULL);
	before = stats();
	EXPECT_STATUS(weir_free(&local), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not allocated by weir");
	EXPECT_STATUS(weir_free((void *)512), WEIR_EINVAL);
	EXPECT_STATUS(weir_free((void *)UINTPTR_MAX), WEIR_EINVAL);
	EXPECT_STATUS(weir_free_async(&local, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not allocated by weir");
	EXPECT_STATUS(weir_record_stream(&local, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_record_stream(NULL, NULL), WEIR_EINVAL);
	expect_stats_unchanged(&before);
}

TEST(memory_of_the_driver_s_own_is_refused)
{
	const struct driver *driver = device_driver();
	CUdeviceptr addr = 0;

	EXPECT_OK(weir_set_device(0));
	take(512, NULL);
	EXPECT_EQ(driver->cuMemAlloc(&addr, 4 * MIB), CUDA_SUCCESS);
	EXPECT_STATUS(weir_free((void *)(uintptr_t)addr), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not allocated by weir");
	EXPECT_EQ(driver->cuMemFree(addr), CUDA_SUCCESS);
	expect_healthy();
}

TEST(an_address_inside_a_block_is_refused_and_its_block_named)
{
	char *ptr = take(4096, NULL);
	char base[32];

	snprintf(base, sizeof(base), "%p", (void *)ptr);
	struct weir_stats before = stats();
	EXPECT_STATUS(weir_free(ptr + 100), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not the start of a block");
	EXPECT_STR_HAS(weir_last_error(), "100 bytes into");
	EXPECT_STR_HAS(weir_last_error(), base);
	EXPECT_STATUS(weir_free(ptr + 512), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not the start of a block");
	EXPECT_STATUS(weir_free_async(ptr + 4095, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "4095 bytes into");
	expect_stats_unchanged(&before);
	give(ptr);
}

TEST(the_error_of_a_wrong_free_names_the_mistake)
{
	char *first = take(4 * MIB, NULL);
	char *second = take(4 * MIB, NULL);
	void *last = take(4 * MIB, NULL);

	give(second);
	/* Inside free memory beside a live block. */
	EXPECT_STATUS(weir_free(second + MIB), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "never allocated");
	EXPECT_STR_HAS(weir_last_error(), "lies in memory that is cached");
	/* One byte past a live block, where a freed one began. */
	EXPECT_STATUS(weir_free(second), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "one past a block");
	EXPECT_STR_HAS(weir_last_error(), "4194304 bytes before it");
	give(first);
	EXPECT_OK(weir_trim(WEIR_DEVICE_CURRENT, 0, NULL));
	EXPECT_STATUS(weir_free(second + MIB), WEIR_EINVAL);
	if (strstr(weir_last_error(), "not allocated by weir") == NULL)
		EXPECT_STR_HAS(weir_last_error(), "given back to the driver");
	EXPECT_NULL(strstr(weir_last_error(), "cached"));
	give(last);
	expect_healthy();
}

TEST(a_block_freed_twice_is_refused_the_second_time)
{
	void *ptr = take(4096, NULL);
	void *big = take(40 * MIB, NULL);

	give(ptr);
	struct weir_stats before = stats();
	EXPECT_STATUS(weir_free(ptr), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "freed before");
	EXPECT_STATUS(weir_free_async(ptr, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "freed before");
	expect_stats_unchanged(&before);
	give(big);
	trim(0);
	EXPECT_STATUS(weir_free(big), WEIR_EINVAL);
	expect_healthy();
}

TEST(a_pending_block_freed_again_is_refused)
{
	weir_stream use = new_stream();
	void *ptr = take(4 * MIB, NULL);

	busy(use, LATE_MS);
	record(ptr, use);
	give(ptr);
	struct weir_stats before = stats();
	EXPECT_STATUS(weir_free(ptr), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "freed before");
	EXPECT_STATUS(weir_record_stream(ptr, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_free_async(ptr, use), WEIR_EINVAL);
	expect_stats_unchanged(&before);
}

TEST(free_neither_waits_nor_calls_the_driver)
{
	void *ptr = take(4 * MIB, NULL);

	busy(NULL, LATE_MS);
	fill(ptr, 4 * MIB, 1, NULL);
	give(ptr);
	EXPECT(!is_done(NULL));
	device_need_sim("counts the driver's calls");
	ptr = take(4 * MIB, NULL);
	sim()->reset();
	give(ptr);
	EXPECT_EQ(sim()->calls(NULL), 0);
}

TEST(a_block_with_uses_is_freed_without_host_memory)
{
	weir_stream use = new_stream();
	void *ptr = take(4 * MIB, NULL);

	record(ptr, use);
	meta_fail(1, 1000);
	give(ptr);
	meta_fail(0, 0);
	finish(use);
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	expect_healthy();
}

TEST(a_block_with_uses_is_freed_though_the_driver_gives_no_event)
{
	weir_stream use = new_stream();
	void *ptr = take(4 * MIB, NULL);

	device_need_sim("calls of the driver are made to fail");
	take(512, NULL); /* small blocks need no more memory later */
	record(ptr, use);
	EXPECT_EQ(
	    sim()->fail("cuEventCreate", 1, 1000, CUDA_ERROR_OUT_OF_MEMORY), 0);
	give(ptr);
	EXPECT_STATUS(weir_last_status(), WEIR_OK);
	EXPECT_NE(take(4 * MIB, NULL), ptr);
	expect_healthy();
	sim()->reset();
	give(take(1024, NULL)); /* a request that no cache has tries again */
	settle();
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	EXPECT_EQ(stats().pending_bytes, 0);
	expect_healthy();
}

/* ---- Freeing on another stream ----------------------------------------- */

TEST(a_block_freed_on_another_stream_serves_that_stream_at_once)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(4 * MIB, a);

	EXPECT_OK(weir_free_async(ptr, b));
	EXPECT_EQ(take(4 * MIB, b), ptr);
	EXPECT_EQ(info_of(ptr).stream, b);
	busy(b, LATE_MS);
	EXPECT_OK(weir_free_async(ptr, b));
	EXPECT_NE(take(4 * MIB, a), ptr);
	expect_healthy();
}

TEST(a_block_freed_on_a_stream_needs_its_recorded_uses_no_more)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream use = new_stream();
	void *ptr = take(4 * MIB, a);

	busy(use, LATE_MS);
	record(ptr, use);
	EXPECT_OK(weir_stream_wait_stream(b, use));
	EXPECT_OK(weir_free_async(ptr, b));
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(take(4 * MIB, b), ptr);
	expect_healthy();
}

TEST(a_block_freed_on_no_stream_waits_for_all_work)
{
	weir_stream a = new_stream();
	weir_stream late = new_stream();
	void *ptr = take(4 * MIB, a);

	busy(late, LATE_MS);
	EXPECT_OK(weir_free_async(ptr, WEIR_STREAM_ANY));
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	EXPECT_NE(take(4 * MIB, a), ptr);
	finish(late);
	settle();
	/* Then every stream may use it. */
	EXPECT_EQ(take(4 * MIB, new_stream()), ptr);
	expect_healthy();
}

TEST(freeing_on_a_stream_of_another_device_is_refused)
{
	weir_stream other;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &other));
	void *ptr = weir_malloc_on(0, 4 * MIB, NULL);
	struct weir_stats before = stats();
	EXPECT_STATUS(weir_free_async(ptr, other), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "device 0");
	EXPECT_STR_HAS(weir_last_error(), "device 1");
	expect_stats_unchanged(&before);
	give(ptr);
}

/* If the call returns an error, nothing may have changed. */
TEST(freeing_on_a_stream_without_host_memory_changes_nothing)
{
	weir_stream to[2] = { new_stream(), WEIR_STREAM_ANY };
	weir_stream own = new_stream();
	void *ptr = take(4 * MIB, own);

	for (int i = 0; i < 2; i++) {
		bool failed = false;
		for (unsigned long nth = 1; nth < 10; nth++) {
			struct weir_stats before = stats();
			meta_fail(nth, 1);
			enum weir_status status = weir_free_async(ptr, to[i]);
			meta_fail(0, 0);
			if (status == WEIR_OK)
				break;
			failed = true;
			EXPECT_STATUS(status, WEIR_EHOSTMEM);
			expect_stats_unchanged(&before);
			EXPECT_EQ(info_of(ptr).stream, own);
		}
		EXPECT(failed);
		ptr = take(5 * MIB, own);
	}
	expect_healthy();
}

TEST(a_block_that_is_done_with_is_free_at_once)
{
	weir_stream late = new_stream();
	void *ptr = take(4 * MIB, WEIR_STREAM_ANY);
	void *used = take(4 * MIB, NULL);

	record(used, late);
	busy(late, LATE_MS); /* the caller states that neither is in use */
	EXPECT_OK(allocator_free_done(ptr));
	EXPECT_OK(allocator_free_done(used));
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(take(4 * MIB, WEIR_STREAM_ANY), ptr);
	EXPECT_EQ(take(4 * MIB, NULL), used);
	EXPECT(!is_done(late));
	EXPECT_OK(allocator_free_done(NULL));
	EXPECT_STATUS(allocator_free_done(&late), WEIR_EINVAL);
	EXPECT_OK(allocator_free_done(ptr));
	EXPECT_STATUS(allocator_free_done(ptr), WEIR_EINVAL);
	expect_healthy();
}

/* ---- Threads ----------------------------------------------------------- */

enum { THREADS = 8, SHARED = 64 };

/* One of the threads that free the same blocks. */
struct freeing {
	void **block;
	int first; /* of its own part */
	pthread_barrier_t *barrier;
};

/* Free its part of the blocks; and then, when all are freed, all of them
 * again. */
static void *
free_part_and_all(void *arg)
{
	const struct freeing *f = arg;
	uintptr_t freed = 0;

	for (int i = f->first; i < SHARED; i += THREADS)
		freed += weir_free(f->block[i]) == WEIR_OK;
	pthread_barrier_wait(f->barrier);
	for (int i = 0; i < SHARED; i++)
		freed += weir_free(f->block[i]) == WEIR_OK;
	return (void *)freed;
}

TEST(the_first_of_threads_that_free_the_same_blocks_succeeds)
{
	pthread_t thread[THREADS];
	struct freeing freeing[THREADS];
	pthread_barrier_t barrier;
	uintptr_t sum = 0;
	void *block[SHARED];

	EXPECT_EQ(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (int i = 0; i < SHARED; i++)
		block[i] = take((size_t)(i + 1) * 512, NULL);
	for (int i = 0; i < THREADS; i++) {
		freeing[i] = (struct freeing){ block, i, &barrier };
		EXPECT_EQ(pthread_create(
			      &thread[i], NULL, free_part_and_all, &freeing[i]),
		    0);
	}
	for (int i = 0; i < THREADS; i++) {
		void *freed;
		EXPECT_EQ(pthread_join(thread[i], &freed), 0);
		sum += (uintptr_t)freed;
	}
	EXPECT_EQ(sum, SHARED);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

/* Half of the handle is then memory of no stream, and half the stream's. */
TEST(memory_that_one_stream_shares_with_none_is_given_back)
{
	weir_stream a = new_stream();
	void *ptr = take(512, a);

	EXPECT_OK(weir_free_async(ptr, WEIR_STREAM_ANY));
	finish(a);
	settle();
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(memory_of_a_pool_that_one_stream_shares_with_none_is_given_back)
{
	weir_stream a = new_stream();
	struct weir_pool *pool = new_pool(0, 0);
	void *ptr = take_from(pool, 512, a);

	EXPECT_OK(weir_free_async(ptr, WEIR_STREAM_ANY));
	finish(a);
	settle();
	weir_pool_release(pool);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}
