/*
 * One arena a device: made at first use, with its limit; several devices side
 * by side; what a program sees of a device's memory; and a context that is
 * gone.
 */
#include "allocator/lifecycle.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "base/meta.h"
#include "tests/support/device.h"

/* ---- First use --------------------------------------------------------- */

TEST(an_arena_is_made_by_the_first_call_that_needs_it)
{
	size_t freed;
	struct weir_stats s = { .struct_size = sizeof(s) };

	EXPECT_NULL(arena_peek(0));
	EXPECT_OK(weir_stats(0, &s));
	EXPECT_OK(weir_trim(0, 0, &freed));
	EXPECT_OK(weir_memory_info(0, NULL, NULL));
	EXPECT_NULL(arena_peek(0));
	give(take(512, NULL));
	EXPECT_NOT_NULL(arena_peek(0));
	EXPECT_NULL(arena_peek(1));
	EXPECT_NULL(arena_peek(-1));
	EXPECT_NULL(arena_peek(1 << 30));
	expect_healthy();
}

TEST(an_arena_that_cannot_be_made_is_made_by_a_later_call)
{
	bool failed = false;

	EXPECT_OK(weir_init());
	for (unsigned long nth = 1; nth < 30; nth++) {
		meta_fail(nth, 1);
		void *ptr = weir_malloc(512, NULL);
		meta_fail(0, 0);
		if (ptr != NULL) {
			give(ptr);
			break;
		}
		failed = true;
		EXPECT_EQ(weir_last_status(), WEIR_EHOSTMEM);
		EXPECT_EQ(stats().reserved_bytes.all.current, 0);
		expect_healthy();
	}
	EXPECT(failed);
	give(take(512, NULL));
	expect_healthy();
}

TEST(a_device_that_cannot_be_asked_has_no_arena)
{
	static const char *const entries[] = { "cuDevicePrimaryCtxRetain",
		"cuDeviceTotalMem", "cuDeviceGetAttribute",
		"cuMemGetAllocationGranularity" };

	device_need_sim("calls of the driver are made to fail");
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(
		    sim()->fail(entries[i], 1, 1, CUDA_ERROR_LAUNCH_FAILED), 0);
		EXPECT_NO_MEMORY(weir_malloc(512, NULL), WEIR_EDRIVER);
		EXPECT_STR_HAS(weir_last_error(), entries[i]);
		EXPECT_STR_HAS(weir_last_error(), "(719)");
		EXPECT_NULL(arena_peek(0));
	}
	give(take(512, NULL));
	expect_healthy();
}

/* The answer of an old device. */
static CUresult
no_virtual_memory(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)attribute;
	(void)device;
	*value = 0;
	return CUDA_SUCCESS;
}

TEST(a_device_without_virtual_memory_gets_segments_of_the_driver)
{
	struct driver *driver = (struct driver *)device_driver();

	driver->cuDeviceGetAttribute = no_virtual_memory;
	void *ptr = take(4 * MIB, NULL);
	EXPECT(!info_of(ptr).expandable);
	EXPECT_EQ(info_of(ptr).segment_size, 20 * MIB);
	give(ptr);
	EXPECT_EQ(trim(0), 20 * MIB);
	expect_healthy();
}

/* ---- The limit --------------------------------------------------------- */

TEST(there_is_no_limit_at_first)
{
	size_t bytes = 0;
	double fraction = 0;

	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, SIZE_MAX);
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT(fraction == 1);
}

TEST(a_limit_is_a_fraction_of_the_device_and_the_other_way)
{
	size_t total = device_total(0);
	size_t bytes;
	double fraction;

	EXPECT_OK(weir_fraction_set(0, 0.25));
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, total / 4);
	EXPECT_OK(weir_limit_set(0, total / 2));
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT(fabs(fraction - 0.5) < 1e-9);
	EXPECT_OK(weir_fraction_set(0, 1));
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, SIZE_MAX);
	EXPECT_OK(weir_fraction_set(0, 0));
	EXPECT_NO_MEMORY(weir_malloc(1, NULL), WEIR_ENOMEM);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	give(take(1, NULL));
}

TEST(a_fraction_outside_0_to_1_is_refused)
{
	double fraction;

	EXPECT_STATUS(weir_fraction_set(0, 1.1), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "invalid fraction:1.1");
	EXPECT_STR_HAS(weir_last_error(), "within [0, 1]");
	EXPECT_STATUS(weir_fraction_set(0, -0.1), WEIR_EINVAL);
	EXPECT_STATUS(weir_fraction_set(0, NAN), WEIR_EINVAL);
	EXPECT_STATUS(weir_fraction_set(0, INFINITY), WEIR_EINVAL);
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT(fraction == 1);
}

TEST(limits_of_devices_that_are_not_there_are_refused)
{
	size_t bytes;
	double fraction;

	EXPECT_STATUS(weir_limit_set(99, 1), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_limit_get(99, &bytes), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_fraction_set(99, 0.5), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_fraction_get(99, &fraction), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_limit_get(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_fraction_get(0, NULL), WEIR_EINVAL);
}

TEST(options_give_the_limit_at_the_first_use_of_a_device)
{
	size_t bytes;

	setenv("WEIR_CONF",
	    "per_process_memory_fraction:0.5,memory_limit_mb:256", 1);
	EXPECT_OK(weir_limit_get(0, &bytes)); /* a query is no use */
	EXPECT_EQ(bytes, 256 * MIB);
	give(take(MIB, NULL));
	conf("memory_limit_mb:512");
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, 256 * MIB);
	EXPECT_NO_MEMORY(weir_malloc(257 * MIB, NULL), WEIR_ENOMEM);
	take(256 * MIB, NULL);
	expect_healthy();
}

TEST(the_smaller_of_two_limits_counts)
{
	size_t bytes;

	setenv(
	    "PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction:0.125", 1);
	setenv("WEIR_CONF", "memory_limit_mb:1000000000", 1);
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, device_total(0) / 8);
}

/* ---- What a program sees ----------------------------------------------- */

TEST(free_memory_is_the_driver_s_and_weir_s_unused_memory)
{
	size_t free_bytes;
	size_t total_bytes;
	size_t after;

	EXPECT_OK(weir_memory_info(0, &free_bytes, &total_bytes));
	EXPECT_EQ(free_bytes, device_free_bytes(0));
	void *ptr = take((size_t)128 * MIB, NULL);
	EXPECT_OK(weir_memory_info(0, &after, &total_bytes));
	EXPECT_EQ(after, device_free_bytes(0));
	EXPECT_LE(after, free_bytes - 128 * MIB);
	give(ptr);
	EXPECT_OK(weir_memory_info(0, &after, &total_bytes));
	EXPECT_EQ(after, device_free_bytes(0) + 128 * MIB);
	EXPECT_GE(total_bytes, after);
	EXPECT_OK(weir_memory_info(0, NULL, &total_bytes));
	EXPECT_OK(weir_memory_info(0, &free_bytes, NULL));
	EXPECT_EQ(free_bytes, after);
	EXPECT_STATUS(weir_memory_info(99, &free_bytes, NULL), WEIR_ENODEVICE);
}

TEST(free_memory_is_seen_within_the_limit)
{
	size_t free_bytes;
	size_t total_bytes;

	EXPECT_OK(weir_limit_set(0, 64 * MIB));
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total_bytes));
	EXPECT_EQ(free_bytes, 64 * MIB);
	EXPECT_EQ(total_bytes, 64 * MIB);
	void *ptr = take(40 * MIB, NULL);
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total_bytes));
	EXPECT_EQ(free_bytes, 24 * MIB);
	give(ptr);
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total_bytes));
	EXPECT_EQ(free_bytes, 64 * MIB);
	take(40 * MIB, NULL);
	EXPECT_OK(weir_limit_set(0, 32 * MIB));
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total_bytes));
	EXPECT_EQ(free_bytes, 0);
}

/* ---- Several devices --------------------------------------------------- */

TEST(devices_have_separate_memory_statistics_and_limits)
{
	size_t bytes;

	device_need(2);
	void *a = weir_malloc_on(0, 4 * MIB, NULL);
	void *b = weir_malloc_on(1, 8 * MIB, NULL);
	EXPECT_NOT_NULL(a);
	EXPECT_NOT_NULL(b);
	EXPECT_EQ(info_of(a).device, 0);
	EXPECT_EQ(info_of(b).device, 1);
	EXPECT_EQ(stats_of(0).allocated_bytes.all.current, 4 * MIB);
	EXPECT_EQ(stats_of(1).allocated_bytes.all.current, 8 * MIB);
	EXPECT_OK(weir_limit_set(1, 8 * MIB));
	EXPECT_NO_MEMORY(weir_malloc_on(1, 4 * MIB, NULL), WEIR_ENOMEM);
	EXPECT_EQ(stats_of(1).num_ooms, 1);
	EXPECT_EQ(stats_of(0).num_ooms, 0);
	EXPECT_OK(weir_limit_get(0, &bytes));
	EXPECT_EQ(bytes, SIZE_MAX);
	give(a);
	give(b);
	EXPECT_OK(weir_trim(1, 0, &bytes));
	EXPECT_EQ(bytes, 8 * MIB);
	EXPECT_EQ(stats_of(0).reserved_bytes.all.current, 4 * MIB);
	EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, &bytes));
	EXPECT_EQ(bytes, 4 * MIB);
	expect_healthy();
}

TEST(the_current_device_is_that_of_the_current_context)
{
	int device = -1;

	device_need(2);
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 0);
	EXPECT_OK(weir_set_device(1));
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 1);
	EXPECT_EQ(info_of(take(512, NULL)).device, 1);
	EXPECT_EQ(info_of(take(512, WEIR_STREAM_ANY)).device, 1);
	/* A stream brings its device with it. */
	weir_stream of_1 = new_stream();
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(info_of(take(512, of_1)).device, 1);
	EXPECT_EQ(info_of(take(512, NULL)).device, 0);
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 0);
	expect_healthy();
}

TEST(a_stream_of_another_device_is_refused)
{
	weir_stream of_1;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &of_1));
	EXPECT_NO_MEMORY(weir_malloc_on(0, 512, of_1), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "device 1");
	expect_healthy();
}

TEST(a_block_can_be_used_by_streams_of_another_device)
{
	weir_stream of_1;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &of_1));
	void *ptr = weir_malloc_on(0, 4 * MIB, NULL);
	busy(of_1, LATE_MS);
	record(ptr, of_1);
	give(ptr);
	EXPECT_NE(weir_malloc_on(0, 4 * MIB, NULL), ptr);
	finish(of_1);
	settle();
	EXPECT_EQ(weir_malloc_on(0, 4 * MIB, NULL), ptr);
	expect_healthy();
}

TEST(a_block_can_be_freed_while_another_device_is_current)
{
	weir_stream use;

	device_need(2);
	EXPECT_OK(weir_stream_create(0, 0, &use));
	void *a = weir_malloc_on(0, 4 * MIB, NULL);
	void *b = weir_malloc_on(0, 4 * MIB, NULL);
	void *c = weir_malloc_on(0, 4 * MIB, WEIR_STREAM_ANY);
	EXPECT_OK(weir_set_device(1));
	record(a, use);
	give(a);
	EXPECT_OK(weir_free_async(b, NULL));
	give(c);
	EXPECT_EQ(stats_of(0).allocated_bytes.all.current, 0);
	EXPECT_EQ(stats_of_stream(NULL).reserved_bytes.all.current, 0);
	size_t freed;
	EXPECT_OK(weir_trim(0, 0, &freed));
	EXPECT_EQ(freed, 28 * MIB);
	expect_healthy();
}

/* ---- A context that is gone -------------------------------------------- */

TEST(memory_of_a_context_that_was_reset_is_foreign_and_nothing_is_asked_of_it)
{
	weir_stream stream = foreign_stream(CU_STREAM_NON_BLOCKING);
	void *live = take(4 * MIB, NULL);
	void *pending = take(4 * MIB, NULL);

	busy(stream, LATE_MS);
	record(live, stream);
	record(pending, stream);
	give(pending);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	give(take(8 * MIB, stream));
	allocator_forget_device(0);
	EXPECT(!allocator_owns((CUdeviceptr)(uintptr_t)live));
	EXPECT_STATUS(weir_free(live), WEIR_EINVAL);
	EXPECT_STATUS(weir_free(pending), WEIR_EINVAL);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_EQ(weir_check(NULL, 0), 0);
	allocator_forget_device(0);
	allocator_forget_device(77);
	/* The device can be used again. */
	give(take(4 * MIB, NULL));
	EXPECT_EQ(stats().allocation.all.allocated, 1);
	EXPECT_EQ(weir_check(NULL, 0), 0);
}

/* By the driver's own call, which weir does not make. */
static void
reset_device(int device)
{
	const char *path = getenv("WEIR_LIBCUDA");
	CUresult (*reset)(CUdevice);
	void *library = dlopen(
	    path != NULL && *path != '\0' ? path : "libcuda.so.1", RTLD_NOW);

	EXPECT_NOT_NULL(library);
	void *symbol = dlsym(library, "cuDevicePrimaryCtxReset_v2");
	EXPECT_NOT_NULL(symbol);
	memcpy(&reset, &symbol, sizeof(reset));
	EXPECT_EQ(reset(device), CUDA_SUCCESS);
	allocator_forget_device(device);
}

/* Its streams run no more work. */
TEST(memory_elsewhere_that_streams_of_a_reset_device_used_is_free_again)
{
	weir_stream gone;
	char *pending[20];

	device_need(2);
	conf("tcache:0");
	EXPECT_OK(weir_stream_create(1, 0, &gone));
	char *live = take(4 * MIB, NULL);
	char *small = take(512, NULL);
	record(live, gone);
	record(small, gone);
	busy(gone, LATE_MS);
	for (int i = 0; i < 20; i++) { /* with an event, and without */
		pending[i] = take(i < 10 ? 2 * MIB : 512, NULL);
		record(pending[i], gone);
	}
	for (int i = 0; i < 20; i++)
		give(pending[i]);
	EXPECT_EQ(stats().pending_bytes, 20 * MIB + 10 * 512);
	reset_device(1);
	give(live);
	give(small);
	give(take(8 * MIB, NULL)); /* this request polls for pending memory */
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(stats().active_bytes.all.current, 0);
	expect_healthy();
}

TEST(nobody_waits_for_streams_of_a_device_that_was_reset)
{
	weir_stream gone;

	device_need(2);
	conf("tcache:0,prefer:memory");
	EXPECT_OK(weir_stream_create(1, 0, &gone));
	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	char *ptr = take(16 * MIB, NULL);
	record(ptr, gone);
	busy(gone, LATE_MS);
	give(ptr);
	reset_device(1);
	take(16 * MIB, new_stream());
	EXPECT_EQ(stats().num_host_waits, 0);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

/* The driver's part of a device's memory, which a reset does not end. */
static long
live_parts(void)
{
	return sim()->live("handle") + sim()->live("mapping") +
	    sim()->live("reservation");
}

static void
reset_with_refusal(const char *entry)
{
	device_need_sim("a call of the driver fails");
	give(take(40 * MIB, NULL));
	EXPECT_GT(live_parts(), 0);
	EXPECT_EQ(sim()->fail(entry, 1, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	reset_device(0);
	EXPECT_EQ(live_parts(), 0);
	expect_healthy();
}

TEST(a_reset_device_leaves_no_memory_though_the_driver_refuses_once)
{
	reset_with_refusal("cuMemRelease");
}

TEST(a_reset_device_leaves_no_mapping_though_the_driver_refuses_once)
{
	reset_with_refusal("cuMemUnmap");
}

TEST(a_reset_device_leaves_no_addresses_though_the_driver_refuses_once)
{
	reset_with_refusal("cuMemAddressFree");
}
