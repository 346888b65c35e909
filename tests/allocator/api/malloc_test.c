/*
 * Allocating, freeing, recording and asking: what is promised of every block,
 * and what bad input is told. A call that fails changes nothing.
 */
#include "allocator/api/malloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "allocator/allocator.h"
#include "base/meta.h"
#include "tests/support/device.h"

/* Nothing but counters of failures differs from `before`. */
static void
expect_unchanged(const struct weir_stats *before)
{
	struct weir_stats after = stats();

	after.num_ooms = before->num_ooms;
	after.num_alloc_retries = before->num_alloc_retries;
	after.metadata_bytes = before->metadata_bytes;
	EXPECT_MEM_EQ(before, &after, sizeof(after));
	expect_healthy();
}

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
	expect_unchanged(&before);
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
	expect_unchanged(&before);
	conf("expandable_segments:False");
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 50, NULL), WEIR_ENOMEM);
	expect_unchanged(&before);
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
	expect_unchanged(&before);
	EXPECT_EQ(info_of(ptr).address, ptr);
	give(ptr);
}

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
	expect_unchanged(&before);
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
	expect_unchanged(&before);
	give(ptr);
}

TEST(a_wrong_free_is_told_for_what_it_is)
{
	char *first = take(4 * MIB, NULL);
	char *second = take(4 * MIB, NULL);
	void *last = take(4 * MIB, NULL);

	give(second);
	/* Within what is free beside a live block. */
	EXPECT_STATUS(weir_free(second + MIB), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "lies in memory that is cached");
	/* One past a live block, where a freed one began. */
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
	expect_unchanged(&before);
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
	expect_unchanged(&before);
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
	/* Then it is everyone's. */
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
	expect_unchanged(&before);
	give(ptr);
}

/* Nothing may have happened when the call says that it failed. */
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
			expect_unchanged(&before);
			EXPECT_EQ(info_of(ptr).stream, own);
		}
		EXPECT(failed);
		ptr = take(5 * MIB, own);
	}
	expect_healthy();
}

/* ---- No stream --------------------------------------------------------- */

/* So much memory is marked when it is freed; less waits for more, or until it
 * is missed. */
enum { MUCH = 64 * MIB };

TEST(memory_of_no_stream_is_not_reused_until_all_work_of_the_device_is_done)
{
	weir_stream late = new_stream();
	void *ptr = take(MUCH, WEIR_STREAM_ANY);

	busy(late, LATE_MS);
	give(ptr); /* nobody has recorded `late` */
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

	/* From nothing: what a use needs is kept for the next time. */
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

/* ---- Asking ------------------------------------------------------------ */

TEST(a_block_is_found_by_any_address_within_it)
{
	weir_stream stream = new_stream();
	char *ptr = take(3 * MIB + 5, stream);
	size_t size = 3 * MIB + 512;
	struct weir_block_info info = { .struct_size = sizeof(info) };

	for (size_t at = 0; at < size; at += 511) {
		EXPECT_OK(weir_block_info(ptr + at, &info));
		EXPECT_EQ(info.address, ptr);
	}
	EXPECT_OK(weir_block_info(ptr + size - 1, &info));
	EXPECT_EQ(info.size, size);
	EXPECT_EQ(info.requested_bytes, 3 * MIB + 5);
	EXPECT_EQ(info.stream, stream);
	EXPECT_STATUS(weir_block_info(ptr + size, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(ptr - 1, &info), WEIR_EINVAL);
	give(ptr);
	EXPECT_STATUS(weir_block_info(ptr, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(NULL, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(&info, &info), WEIR_EINVAL);
}

TEST(the_place_for_a_block_s_facts_must_say_its_size)
{
	struct weir_block_info info = { 0 };
	void *ptr = take(512, NULL);

	EXPECT_STATUS(weir_block_info(ptr, &info), WEIR_EINVAL);
	EXPECT_STATUS(weir_block_info(ptr, NULL), WEIR_EINVAL);
	EXPECT_NULL(info.address);
}

TEST(weir_owns_what_it_has_from_the_driver_be_it_in_use_or_not)
{
	char *ptr = take(64 * MIB, NULL);
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;

	EXPECT(allocator_owns(addr));
	EXPECT(allocator_owns(addr + 64 * MIB - 1));
	give(ptr);
	EXPECT(allocator_owns(addr + 100));
	trim(0);
	EXPECT(!allocator_owns(addr));
	EXPECT(!allocator_owns(0));
	EXPECT(!allocator_owns((CUdeviceptr)(uintptr_t)&addr));
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

TEST(a_block_is_found_at_its_start_while_it_is_live)
{
	weir_stream a = new_stream();
	char *ordered = take(1000, a);
	char *plain = take(3 * MIB, WEIR_STREAM_ANY);
	struct allocator_block block;
	int local;

	EXPECT(allocator_find(ordered, &block));
	EXPECT_EQ(block.device, 0);
	EXPECT_EQ(block.requested_bytes, 1000);
	EXPECT(!block.of_no_stream);
	EXPECT(allocator_find(plain, &block));
	EXPECT_EQ(block.requested_bytes, 3 * MIB);
	EXPECT(block.of_no_stream);
	EXPECT(!allocator_find(ordered + 512, &block));
	EXPECT(!allocator_find(plain + 1, &block));
	EXPECT(!allocator_find(&local, &block));
	EXPECT(!allocator_find(NULL, &block));
	give(ordered);
	give(plain);
	EXPECT(!allocator_find(ordered, &block));
	EXPECT(!allocator_find(plain, &block));
}

TEST(a_block_that_is_done_with_is_free_at_once)
{
	weir_stream late = new_stream();
	void *ptr = take(4 * MIB, WEIR_STREAM_ANY);
	void *used = take(4 * MIB, NULL);

	record(used, late);
	busy(late, LATE_MS); /* which uses neither, says the caller */
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

/* A thread of those that free the same blocks. */
struct freeing {
	void **block;
	int first; /* of its own part */
	pthread_barrier_t *barrier;
};

/* Its part of the blocks; and then, when all are freed, all of them. */
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

TEST(of_threads_that_free_the_same_blocks_the_first_succeeds)
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
