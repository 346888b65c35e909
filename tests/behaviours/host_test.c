/*
 * docs/behaviours.md, rows on copies and pinned host memory.
 */
#include <weir/host.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda.h"
#include "tests/support/device.h"

static void *
host_take(size_t size)
{
	void *ptr = weir_host_malloc(size);

	if (ptr == NULL)
		FAIL("weir_host_malloc(%zu): %s", size, weir_last_error());
	return ptr;
}

static CUdeviceptr
address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

static void
expect_success(CUresult code)
{
	if (code != CUDA_SUCCESS)
		FAIL("%s (%d)", driver_text(code), (int)code);
}

static void
to_device(void *to, const void *from, size_t size, weir_stream stream)
{
	expect_success(device_driver()->cuMemcpyHtoDAsync(
	    address(to), from, size, stream));
	EXPECT_OK(weir_host_record(from, stream));
}

static void
to_host(void *to, const void *from, size_t size, weir_stream stream)
{
	expect_success(device_driver()->cuMemcpyDtoHAsync(
	    to, address(from), size, stream));
	EXPECT_OK(weir_host_record(to, stream));
}

/* ---- copy_non_blocking, to_non_blocking, to_cpu_blocking_by_default ----- */

TEST(copies_go_both_ways_also_of_views_at_an_offset)
{
	enum { N = 3 * MIB, AT = 12345, PART = 100000 };

	EXPECT_OK(weir_set_device(0));
	weir_stream stream = new_stream();
	unsigned char *host = host_take(N);
	unsigned char *back = host_take(N);
	unsigned char *device = take(N, stream);

	for (size_t i = 0; i < N; i++)
		host[i] = (unsigned char)(i * 31 + i / 256);
	to_device(device, host, N, stream);
	to_device(device + AT, host + 2 * AT, PART, stream);
	to_host(back + 7, device + AT, PART, stream);
	finish(stream);
	EXPECT_EQ(memcmp(back + 7, host + 2 * AT, PART), 0);
	EXPECT_OK(weir_host_free(host));
	EXPECT_OK(weir_host_free(back));
	expect_healthy();
}

TEST(a_copy_that_does_not_block_leaves_the_stream_busy)
{
	EXPECT_OK(weir_set_device(0));
	weir_stream stream = new_stream();
	unsigned char *host = host_take(MIB);
	void *device = take(MIB, stream);

	memset(host, 1, MIB);
	busy(stream, LATE_MS);
	to_device(device, host, MIB, stream);
	EXPECT(!is_done(stream));
	finish(stream);
	busy(stream, LATE_MS);
	to_host(host, device, MIB, stream);
	EXPECT(!is_done(stream));
	finish(stream);
	EXPECT_EQ(host[MIB - 1], 1);
	EXPECT_OK(weir_host_free(host));
	expect_healthy();
}

TEST(a_copy_that_blocks_leaves_the_stream_done)
{
	EXPECT_OK(weir_set_device(0));
	unsigned char *plain = malloc(MIB);
	void *device = take(MIB, NULL);

	EXPECT_NOT_NULL(plain);
	fill(device, MIB, 9, NULL);
	cuda_load();
	expect_success(cu.cuMemcpyDtoH_v2(plain, address(device), MIB));
	EXPECT(is_done(NULL));
	EXPECT_EQ(plain[MIB - 1], 9);
	EXPECT(!weir_host_is_pinned(plain));
	free(plain);
	expect_healthy();
}

/* ---- pinned_memory_with_cudaregister, _multithread ---------------------- */

static void
pin_by_registering(const char *options)
{
	EXPECT_OK(weir_set_device(0));
	conf(options);
	weir_stream stream = new_stream();
	unsigned char *host = host_take(20 * MIB);
	void *device = take(20 * MIB, stream);

	EXPECT(weir_host_is_pinned(host));
	memset(host, 0x33, 20 * MIB);
	to_device(device, host, 20 * MIB, stream);
	expect_filled(device, 20 * MIB, 0x33, stream);
	EXPECT_OK(weir_host_free(host));
	EXPECT_EQ((void *)host, host_take(20 * MIB));
	expect_healthy();
}

TEST(registered_memory_is_pinned)
{
	pin_by_registering("pinned_use_cuda_host_register:True,"
			   "pinned_num_register_threads:1");
}

TEST(registered_memory_is_pinned_with_eight_threads)
{
	pin_by_registering("pinned_use_cuda_host_register:True,"
			   "pinned_num_register_threads:8");
}

/* ---- cudart_register ---------------------------------------------------- */

TEST(registering_and_unregistering_flip_whether_memory_is_pinned)
{
	void *memory = malloc(MIB);

	EXPECT_NOT_NULL(memory);
	EXPECT(!weir_host_is_pinned(memory));
	EXPECT_OK(weir_host_register(memory, MIB, 0));
	EXPECT(weir_host_is_pinned(memory));
	EXPECT_OK(weir_host_unregister(memory));
	EXPECT(!weir_host_is_pinned(memory));
	free(memory);
	expect_healthy();
}

static void *
flip(void *unused)
{
	(void)unused;
	for (int i = 0; i < 10; i++) {
		void *memory = aligned_alloc(65536, MIB);
		EXPECT_OK(weir_host_register(memory, MIB, 0));
		EXPECT(weir_host_is_pinned(memory));
		EXPECT_OK(weir_host_unregister(memory));
		free(memory);
		void *ours = host_take(MIB);
		EXPECT(weir_host_is_pinned(ours));
		EXPECT_OK(weir_host_free(ours));
	}
	return NULL;
}

TEST(four_threads_pin_memory_at_once)
{
	pthread_t threads[4];

	conf("pinned_use_cuda_host_register:True,"
	     "pinned_num_register_threads:8");
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, flip, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	expect_healthy();
}

/* ---- noncontiguous_pinned_memory ---------------------------------------- */

/* A view of every other row, moved into pinned memory row by row. */
TEST(a_strided_view_copies_to_pinned_memory)
{
	enum { ROWS = 64, ROW = 4096 };

	EXPECT_OK(weir_set_device(0));
	weir_stream stream = new_stream();
	unsigned char *device = take((size_t)2 * ROWS * ROW, stream);
	unsigned char *host = host_take((size_t)ROWS * ROW);

	for (size_t i = 0; i < 2 * ROWS; i++)
		fill(device + i * ROW, ROW, (unsigned char)i, stream);
	for (size_t i = 0; i < ROWS; i++)
		to_host(host + i * ROW, device + 2 * i * ROW, ROW, stream);
	finish(stream);
	for (size_t i = 0; i < (size_t)ROWS * ROW; i++)
		EXPECT_EQ(host[i], 2 * (i / ROW));
	EXPECT(weir_host_is_pinned(host + 3 * ROW));
	EXPECT_OK(weir_host_free(host));
	expect_healthy();
}

/* ---- caching_pinned_memory ---------------------------------------------- */

TEST(a_freed_pinned_block_is_reused_but_not_while_a_copy_reads_it)
{
	EXPECT_OK(weir_set_device(0));
	weir_stream stream = new_stream();
	unsigned char *host = host_take(1);
	void *device = take(1, stream);

	EXPECT_OK(weir_host_free(host));
	EXPECT_EQ((void *)host, host_take(1));
	*host = 5;
	busy(stream, LATE_MS);
	to_device(device, host, 1, stream);
	EXPECT_OK(weir_host_free(host));
	unsigned char *other = host_take(1);
	EXPECT_NE((void *)other, (void *)host);
	*other = 6;
	expect_filled(device, 1, 5, stream);
	EXPECT_OK(weir_host_free(other));
	expect_healthy();
}
