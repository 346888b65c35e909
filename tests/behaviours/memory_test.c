/*
 * docs/behaviours.md, rows on memory, statistics and devices: what a program
 * that was written for PyTorch's allocator relies on.
 */
#include <pthread.h>
#include <stdio.h>

#include "tests/support/device.h"

/* ---- memory_allocation ------------------------------------------------- */

TEST(one_byte_raises_allocated_memory_and_freeing_it_restores_it_exactly)
{
	take(3 * MIB, NULL);
	uint64_t before = stats().allocated_bytes.all.current;
	void *ptr = take(1, NULL);

	EXPECT_GT(stats().allocated_bytes.all.current, before);
	EXPECT_EQ(stats().allocated_bytes.all.current, before + 512);
	give(ptr);
	EXPECT_EQ(stats().allocated_bytes.all.current, before);
	expect_healthy();
}

/* ---- check_error ------------------------------------------------------- */

TEST(code_0_passes_and_code_2_is_an_error_with_the_text_out_of_memory)
{
	EXPECT_OK(weir_check_driver(0));
	EXPECT_EQ(weir_last_status(), WEIR_OK);
	EXPECT_STATUS(weir_check_driver(2), WEIR_ENOMEM);
	EXPECT_EQ(weir_last_status(), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "out of memory");
	EXPECT_STR_HAS(weir_last_error(), "(2)");
	EXPECT_STR_EQ(weir_status_text(WEIR_ENOMEM), "out of memory");
	EXPECT_STR_EQ(weir_status_name(WEIR_ENOMEM), "WEIR_ENOMEM");
}

TEST(error_texts_are_the_driver_s_own_once_there_is_one)
{
	static const int codes[] = { 1, 2, 101, 201, 400, 600, 700, 900 };
	const char *text;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		EXPECT_EQ(device_driver()->cuGetErrorString(
			      (CUresult)codes[i], &text),
		    CUDA_SUCCESS);
		EXPECT_NE(weir_check_driver(codes[i]), WEIR_OK);
		EXPECT_STR_HAS(weir_last_error(), text);
	}
	EXPECT_STATUS(weir_check_driver(123456), WEIR_EDRIVER);
	EXPECT_STR_HAS(weir_last_error(), "123456");
}

/* ---- cuda_get_device_name, cuda_get_device_capability ------------------ */

TEST(a_device_s_name_and_capability_are_the_same_however_it_is_named)
{
	struct weir_device_info current = { .struct_size = sizeof(current) };
	struct weir_device_info named = { .struct_size = sizeof(named) };
	int device;

	EXPECT_OK(weir_device_info(WEIR_DEVICE_CURRENT, &current));
	EXPECT_OK(weir_get_device(&device));
	EXPECT_OK(weir_device_info(device, &named));
	EXPECT_MEM_EQ(&current, &named, sizeof(named));
	EXPECT_OK(weir_set_device(device));
	EXPECT_OK(weir_device_info(WEIR_DEVICE_CURRENT, &named));
	EXPECT_STR_EQ(named.name, current.name);
	EXPECT_EQ(named.capability_major, current.capability_major);
	EXPECT_EQ(named.capability_minor, current.capability_minor);
}

/* ---- cuda_memory_leak_detection_propagates_errors ---------------------- */

/* A leak check around a test compares the statistics before and after. */
static uint64_t
leaked_since(const struct weir_stats *before)
{
	return stats().allocated_bytes.all.current -
	    before->allocated_bytes.all.current;
}

TEST(a_leak_check_reports_and_lets_the_original_error_through)
{
	struct weir_stats before;
	char error[256];

	take(512, NULL);
	before = stats();
	take(1, NULL);
	EXPECT_STATUS(weir_free(&before), WEIR_EINVAL);
	snprintf(error, sizeof(error), "%s", weir_last_error());
	EXPECT_EQ(leaked_since(&before), 512);
	EXPECT_EQ(weir_last_status(), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), error);
}

/* ---- matmul_memory_use ------------------------------------------------- */

/* A product of three buffers: the peak is exactly the bytes that were live at
 * once. */
TEST(peak_memory_is_reset_and_read_exactly)
{
	size_t size = 4 * MIB;
	void *a = take(size, NULL);
	void *b = take(size, NULL);
	void *waste = take(10 * size, NULL);

	give(waste);
	EXPECT_OK(weir_stats_reset_peak(0));
	EXPECT_EQ(stats().allocated_bytes.all.peak, 2 * size);
	void *product = take(size, NULL);
	EXPECT_EQ(stats().allocated_bytes.all.peak, 3 * size);
	give(product);
	give(a);
	give(b);
	EXPECT_EQ(stats().allocated_bytes.all.peak, 3 * size);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

/* ---- cublas, cudnn, cusparse _multiple_threads_same_device, ------------ */
/* ---- streaming_backwards ----------------------------------------------- */

enum { THREADS = 8, ROUNDS = 40 };

/* Each thread sends a pattern through two streams. */
static void *
work(void *arg)
{
	unsigned char value = (unsigned char)(uintptr_t)arg;
	weir_stream first = new_stream();
	weir_stream second = new_stream();

	for (uint64_t i = test_effort(ROUNDS); i > 0; i--) {
		size_t size = (size_t)((i * 37 + value) % 50 + 1) * 10000;
		void *input = take(size, first);
		void *workspace = take(size, first);
		fill(input, size, value, first);
		copy(workspace, input, size, first);
		EXPECT_OK(weir_stream_wait_stream(second, first));
		void *output = take(size, second);
		record(workspace, second);
		copy(output, workspace, size, second);
		give(workspace);
		give(input);
		expect_filled(output, size, value, second);
		give(output);
	}
	return NULL;
}

TEST(many_threads_and_streams_on_one_device_compute_correctly)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQ(
		    pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

/* ---- nvml_get_handler, temperature, power_draw, clock_speed ------------ */

TEST(the_device_s_own_measurements_are_plausible)
{
	struct weir_telemetry t = { .struct_size = sizeof(t) };

	take(512, NULL);
	EXPECT_OK(weir_telemetry(0, &t));
	EXPECT_GE(t.temperature_celsius, 0);
	EXPECT_LE(t.temperature_celsius, 150);
	EXPECT_LT(t.power_milliwatts, 3000000);
	EXPECT_LT(t.sm_clock_mhz, 20000);
	EXPECT_LT(t.memory_clock_mhz, 100000);
	EXPECT_LE(t.utilization_percent, 100);
	EXPECT_LE(t.memory_used_bytes, device_total(0) + ((size_t)1 << 32));
	EXPECT_OK(weir_telemetry(WEIR_DEVICE_CURRENT, &t));
}
