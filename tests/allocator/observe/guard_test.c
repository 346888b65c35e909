/*
 * Guarded blocks: weir finds writes before and after a block, fills freed
 * memory, and reports nothing about a program without faults.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/graph.h>
#include <weir/trace.h>

#include "allocator/allocator.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"

enum { TEXT = 4096 };

static char *
at(void *ptr, long offset)
{
	return (char *)ptr + offset;
}

/* The fault that weir_check() finds; NULL: none. */
static const char *
check(void)
{
	static char text[TEXT];

	return weir_check(text, sizeof(text)) == 0 ? NULL : text;
}

/* Send stderr to a file from now on. */
static FILE *
hear(void)
{
	FILE *file = tmpfile();

	EXPECT_NOT_NULL(file);
	fflush(stderr);
	EXPECT_NE(dup2(fileno(file), STDERR_FILENO), -1);
	return file;
}

static const char *
heard(FILE *file)
{
	static char text[TEXT];

	fflush(stderr);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	EXPECT_EQ(ftruncate(fileno(file), 0), 0);
	rewind(file);
	return text;
}

TEST(a_write_behind_a_block_is_a_fault)
{
	conf("guard:64");
	weir_stream a = new_stream();
	void *ptr = take(1000, a);

	EXPECT(check() == NULL);
	fill(at(ptr, 1000), 1, 7, a);
	finish(a);
	EXPECT_STR_HAS(check(), "1 byte behind the block of 1000 bytes");
	EXPECT_STR_HAS(check(), "0 behind its end, with 0x07");
}

TEST(a_write_before_a_block_is_a_fault)
{
	conf("guard:64");
	weir_stream a = new_stream();
	void *ptr = take(1000, a);

	fill(at(ptr, -8), 4, 0, a);
	finish(a);
	EXPECT_STR_HAS(check(), "4 bytes before the block of 1000 bytes");
	EXPECT_STR_HAS(check(), "8 before its start, with 0x00");
}

TEST(a_zone_has_the_requested_size)
{
	conf("guard:100000");
	weir_stream a = new_stream();
	void *ptr = take(3 << 20, a);

	fill(at(ptr, (3 << 20) + 99999), 1, 1, a);
	finish(a);
	EXPECT_STR_HAS(check(), "99999 behind its end");
}

TEST(a_free_reports_overwritten_bytes_and_the_stack_of_the_allocation)
{
	conf("guard:64,history:all");
	weir_stream a = new_stream();
	void *ptr = take(1000, a);
	FILE *file = hear();

	fill(at(ptr, 1004), 16, 3, a); /* not waited for: the free waits */
	give(ptr);
	const char *text = heard(file);
	EXPECT_STR_HAS(text, "16 bytes behind the block of 1000 bytes");
	EXPECT_STR_HAS(text, "4 behind its end");
	EXPECT_STR_HAS(text, "allocated at: ");
	EXPECT_STR_HAS(text, "guard_test");
	EXPECT(check() == NULL);
}

TEST(a_report_names_the_stream_of_the_block)
{
	static const struct {
		weir_stream stream;
		const char *name;
	} streams[] = { { WEIR_STREAM_ANY, "(no stream)" },
		{ WEIR_STREAM_LEGACY, "(the legacy default stream)" },
		{ WEIR_STREAM_PER_THREAD, "(the per-thread default stream)" } };

	conf("guard:64");
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		void *ptr = take(1000, streams[i].stream);
		FILE *file = hear();

		fill(at(ptr, 1000), 1, 3, NULL);
		EXPECT_OK(weir_stream_synchronize(NULL));
		give(ptr);
		EXPECT_STR_HAS(heard(file), streams[i].name);
	}
}

TEST(a_free_on_another_stream_reports_too)
{
	conf("guard:64");
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take(1000, a);
	FILE *file = hear();

	fill(at(ptr, -1), 1, 3, a);
	EXPECT_OK(weir_stream_wait_stream(b, a));
	EXPECT_OK(weir_free_async(ptr, b));
	EXPECT_STR_HAS(heard(file), "1 byte before the block of 1000 bytes");
	EXPECT(check() == NULL);
}

TEST(a_trim_reports_a_block_once)
{
	conf("guard:64");
	weir_stream a = new_stream();
	void *ptr = take(1000, a);
	FILE *file = hear();

	fill(at(ptr, 1000), 1, 3, a);
	finish(a);
	trim(0);
	EXPECT_STR_HAS(heard(file), "1 byte behind");
	trim(0);
	give(ptr);
	EXPECT_STR_EQ(heard(file), "");
}

TEST(freed_memory_is_filled)
{
	conf("guard:64");
	weir_stream a = new_stream();
	unsigned char bytes[1000];
	void *ptr = take(sizeof(bytes), a);

	fill(ptr, sizeof(bytes), 1, a);
	give(ptr);
	read_back(bytes, ptr, sizeof(bytes), a);
	for (size_t i = 0; i < sizeof(bytes); i++)
		EXPECT_EQ(bytes[i], 0xff);
}

TEST(zones_are_no_part_of_the_block)
{
	conf("guard:64");
	weir_stream a = new_stream();
	void *ptr = take(1000, a);

	EXPECT_EQ((uintptr_t)ptr % 512, 0);
	EXPECT_EQ(info_of(ptr).size, 1024);
	EXPECT_EQ(info_of(ptr).requested_bytes, 1000);
	EXPECT_EQ(stats().allocated_bytes.all.current, 1024);
	EXPECT_EQ(stats().active.all.current, 1);
	EXPECT_STATUS(weir_free(at(ptr, -512)), WEIR_EINVAL);
	EXPECT_STATUS(weir_free(at(ptr, 1024)), WEIR_EINVAL);
	give(ptr);
	EXPECT_STATUS(weir_free(ptr), WEIR_EINVAL);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* All ways to allocate and free, in random order. */
static void
play(weir_stream *streams, size_t n)
{
	enum { LIVE = 32, STEPS = 400 };
	void *live[LIVE] = { NULL };
	uint64_t random = 5;

	for (int i = 0; i < STEPS; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		size_t k = (random >> 33) % LIVE;
		weir_stream s = streams[(random >> 40) % n];
		size_t size =
		    1 + (random >> 20) % (i % 7 == 0 ? 3 << 20 : 9000);
		if (live[k] == NULL) {
			live[k] = take(size, s);
			if (s != WEIR_STREAM_ANY)
				fill(live[k], size, (unsigned char)i, s);
			continue;
		}
		weir_stream other = streams[0];
		size_t used = info_of(live[k]).requested_bytes;
		if (i % 3 == 0) {
			for (size_t m = 0; m < n; m++)
				if (streams[m] != WEIR_STREAM_ANY)
					finish(streams[m]);
			record(live[k], other);
			fill(live[k], used, 1, other);
		}
		give(live[k]);
		live[k] = NULL;
	}
	EXPECT(check() == NULL);
	for (int k = 0; k < LIVE; k++)
		give(live[k]);
}

/* Play on `n` streams without a fault: nothing is reported, and all memory goes
 * back to the driver. */
static void
expect_silence(weir_stream *streams, size_t n)
{
	FILE *file = hear();

	play(streams, n);
	settle();
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_STR_EQ(heard(file), "");
	expect_healthy();
}

TEST(a_correct_program_gets_no_report)
{
	conf("guard:512");
	weir_stream streams[4] = { new_stream(), new_stream(), new_stream(),
		WEIR_STREAM_ANY };

	expect_silence(streams, 4);
}

TEST(a_correct_program_with_driver_segments_gets_no_report)
{
	conf("guard:512,expandable_segments:False");
	weir_stream streams[2] = { new_stream(), new_stream() };

	expect_silence(streams, 2);
}

TEST(captures_go_on_as_ever)
{
	conf("guard:64");
	weir_stream a = new_stream();
	struct weir_graph *graph = NULL;
	void *before = take(1000, a);

	EXPECT_OK(weir_graph_create(0, &graph));
	EXPECT_OK(
	    weir_graph_capture_begin(graph, a, NULL, WEIR_CAPTURE_GLOBAL));
	void *inside = take(1000, a);
	fill(inside, 1000, 1, a);
	give(inside);
	give(before); /* it cannot be checked now */
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_replay(graph, a));
	finish(a);
	weir_graph_destroy(graph);
	expect_healthy();
}

/* ---- While another stream is captured ---------------------------------- */

TEST(memory_freed_during_a_capture_is_not_filled_before_its_work_is_done)
{
	conf("guard:512");
	weir_stream a = new_stream();
	FILE *file = hear();
	void *first = take(100 * KIB, a);
	weir_stream captured = new_stream();

	capture_begin(captured);
	busy(a, LATE_MS);
	fill(first, 100 * KIB, 7, a);
	give(first);
	void *second = take(1000, a);
	fill(second, 1000, 9, a);
	capture_end(captured);
	finish(a);
	EXPECT(check() == NULL);
	give(second);
	EXPECT_STR_EQ(heard(file), "");
	expect_healthy();
}

TEST(a_copy_from_memory_freed_during_a_capture_is_right)
{
	enum { N = 100 * KIB };
	conf("guard:512");
	weir_stream a = new_stream();
	void *first = take(N, a);
	void *to = take(N, a);
	weir_stream captured = new_stream();

	fill(first, N, 7, a);
	finish(a);
	capture_begin(captured);
	busy(a, LATE_MS);
	copy(to, first, N, a);
	give(first);
	void *second = take(1000, a);
	capture_end(captured);
	expect_filled(to, N, 7, a);
	give(second);
	expect_healthy();
}

TEST(a_write_behind_a_block_of_a_capture_of_another_stream_is_a_fault)
{
	conf("guard:64");
	weir_stream a = new_stream();
	weir_stream captured = new_stream();

	capture_begin(captured);
	void *ptr = take(1000, a);

	fill(at(ptr, 1000), 1, 7, a);
	capture_end(captured);
	finish(a);
	EXPECT_STR_HAS(check(), "1 byte behind the block of 1000 bytes");
}

/* The stream's own work cannot be waited for while it is captured. */
TEST(a_block_of_a_captured_stream_is_not_checked)
{
	conf("guard:512");
	weir_stream a = new_stream();
	void *first = take(100 * KIB, a);

	busy(a, LATE_MS);
	fill(first, 100 * KIB, 7, a);
	capture_begin(a);
	give(first);
	void *second = take(1000, a);
	capture_end(a);
	finish(a);
	EXPECT(check() == NULL);
	give(second);
	expect_healthy();
}

TEST(freed_memory_is_not_filled_before_the_work_of_another_device_is_done)
{
	device_need(2);
	conf("guard:64");
	EXPECT_OK(weir_peer_access(0, 1));
	weir_stream a = new_stream();
	EXPECT_OK(weir_set_device(1));
	weir_stream b = new_stream();
	void *to = take(1000, b);
	EXPECT_OK(weir_set_device(0));
	void *ptr = take(1000, a);

	fill(ptr, 1000, 7, a);
	finish(a);
	EXPECT_OK(weir_set_device(1));
	busy(b, LATE_MS);
	copy(to, ptr, 1000, b);
	record(ptr, b);
	give(ptr);
	expect_filled(to, 1000, 7, b);
	expect_healthy();
}

/* A zone that could not be written is not checked. */
TEST(a_driver_that_refuses_makes_no_false_report)
{
	device_need_sim("a GPU's calls cannot be made to fail");
	conf("guard:64");
	weir_stream a = new_stream();
	FILE *file = hear();

	give(take(1000, a));
	EXPECT_EQ(sim()->fail("cuMemsetD8Async", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	void *ptr = take(1000, a);
	EXPECT(check() == NULL);
	give(ptr);
	EXPECT_EQ(
	    sim()->fail("cuStreamCreateWithPriority", 1, 1, CUDA_ERROR_UNKNOWN),
	    0);
	EXPECT_EQ(
	    sim()->fail("cuMemcpyDtoHAsync", 1, 1, CUDA_ERROR_UNKNOWN), 0);
	give(take(1000, a));
	give(take(1000, a));
	sim()->reset();
	EXPECT_STR_EQ(heard(file), "");
	expect_healthy();
}

/* Is a block checked that is allocated now? */
static bool
is_guarded(weir_stream stream)
{
	void *ptr = take(1000, stream);

	fill(at(ptr, 1000), 1, 7, stream);
	finish(stream);
	bool found = weir_check(NULL, 0) == 1;
	fill(at(ptr, 1000), 1, 0xa5, stream);
	give(ptr);
	return found;
}

TEST(a_failure_costs_no_stream)
{
	static const char *const calls[] = { "cuMemsetD8Async",
		"cuStreamSynchronize", "cuMemcpyDtoHAsync" };

	device_need_sim("counts the driver's streams");
	conf("guard:64");
	weir_stream a = new_stream();
	EXPECT(is_guarded(a));
	long streams = sim()->live("stream");
	for (int i = 0; i < 3; i++)
		for (unsigned nth = 1; nth <= 3; nth++) {
			EXPECT_EQ(
			    sim()->fail(calls[i], nth, 1, CUDA_ERROR_UNKNOWN),
			    0);
			give(take(1000, a));
			sim()->reset();
			EXPECT(is_guarded(a));
			EXPECT_EQ(sim()->live("stream"), streams);
		}
	expect_healthy();
}

/* A program that weir is linked to can reset the device unnoticed. */
TEST(a_stream_that_the_driver_does_not_know_any_more_is_replaced)
{
	static const CUresult codes[] = { CUDA_ERROR_INVALID_HANDLE,
		CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED };

	device_need_sim("a GPU's calls cannot be made to fail");
	conf("guard:64");
	weir_stream a = new_stream();
	EXPECT(is_guarded(a));
	for (int i = 0; i < 3; i++) {
		uint64_t made = sim()->calls("cuStreamCreateWithPriority");
		uint64_t destroyed = sim()->calls("cuStreamDestroy");
		EXPECT_EQ(sim()->fail("cuMemsetD8Async", 1, 1, codes[i]), 0);
		give(take(1000, a));
		EXPECT(is_guarded(a));
		EXPECT_EQ(sim()->calls("cuStreamCreateWithPriority"), made + 1);
		EXPECT_EQ(sim()->calls("cuStreamDestroy"), destroyed);
	}
	expect_healthy();
}

TEST(after_a_device_reset_the_first_block_is_guarded)
{
	CUresult (*reset)(CUdevice);
	CUcontext context;

	device_need_sim("resets the device");
	conf("guard:64");
	EXPECT(is_guarded(NULL));
	void *symbol = dlsym(
	    dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxReset_v2");
	EXPECT_NOT_NULL(symbol);
	memcpy(&reset, &symbol, sizeof(reset));
	EXPECT_EQ(reset(0), CUDA_SUCCESS);
	allocator_forget_device(0);
	EXPECT_EQ(device_driver()->cuDevicePrimaryCtxRetain(&context, 0),
	    CUDA_SUCCESS);
	EXPECT(is_guarded(NULL));
	EXPECT_EQ(sim()->calls("cuStreamDestroy"), 0);
	expect_healthy();
}
