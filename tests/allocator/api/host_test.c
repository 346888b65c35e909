/*
 * <weir/host.h>: which block a request gets and when a freed one may be used
 * again, the held bytes, limits, kinds, registration, and refused calls.
 */
#include "allocator/api/host.h"
#include "allocator/host/known.h"

#include <weir/host.h>

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/allocator.h"
#include "allocator/host/pages.h"
#include "base/os.h"
#include "tests/support/device.h"

/* ---- Words ------------------------------------------------------------- */

/* A block that the host writes at once: the simulated device reports a race if
 * work may still use it. */
static void *
host_take(size_t size)
{
	void *ptr = weir_host_malloc(size);

	if (ptr == NULL)
		FAIL("weir_host_malloc(%zu): %s", size, weir_last_error());
	EXPECT_EQ((uintptr_t)ptr % (size < 4 * KIB ? 64 : GRANULE), 0);
	if (sim() != NULL)
		sim()->host_touch(ptr, size, 1);
	return ptr;
}

static void
host_give(void *ptr)
{
	EXPECT_OK(weir_host_free(ptr));
}

static size_t
held(void)
{
	return host_stats().reserved_bytes.all.current;
}

static size_t
host_trim(size_t keep)
{
	size_t freed = SIZE_MAX;

	EXPECT_OK(weir_host_trim(WEIR_DEVICE_CURRENT, keep, &freed));
	return freed;
}

/* Queue a copy between host and device, and record the host's side. */
static void
upload(void *to, const void *from, size_t size, weir_stream stream)
{
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(device_driver()->cuMemcpyHtoDAsync(
		      (CUdeviceptr)(uintptr_t)to, from, size, stream),
	    CUDA_SUCCESS);
	EXPECT_OK(weir_host_record(from, stream));
}

static void
download(void *to, const void *from, size_t size, weir_stream stream)
{
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(device_driver()->cuMemcpyDtoHAsync(
		      to, (CUdeviceptr)(uintptr_t)from, size, stream),
	    CUDA_SUCCESS);
	EXPECT_OK(weir_host_record(to, stream));
}

static void
registered(const char *more)
{
	char text[128];

	snprintf(text, sizeof(text), "pinned_source:system%s%s",
	    *more != '\0' ? "," : "", more);
	conf(text);
}

/* ---- Reuse ------------------------------------------------------------- */

TEST(a_block_is_the_host_s_to_write_and_the_device_s_to_copy)
{
	weir_stream stream = new_stream();
	unsigned char *host = host_take(3 * MIB);
	unsigned char *back = host_take(3 * MIB);
	void *device = take(3 * MIB, stream);

	memset(host, 0x5a, 3 * MIB);
	upload(device, host, 3 * MIB, stream);
	download(back, device, 3 * MIB, stream);
	finish(stream);
	EXPECT_EQ(memcmp(host, back, 3 * MIB), 0);
	host_give(host);
	host_give(back);
	expect_healthy();
}

TEST(a_freed_block_serves_the_next_request)
{
	static const size_t sizes[] = { 1, 512, 4096, 70000, 256 * KIB,
		256 * KIB + 1, 3 * MIB, 50 * MIB + 7 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *ptr = host_take(sizes[i]);
		host_give(ptr);
		EXPECT_EQ(host_take(sizes[i]), ptr);
		host_give(ptr);
		host_trim(0);
	}
	expect_healthy();
}

TEST(with_one_device_cached_blocks_need_no_driver_call)
{
	static const size_t sizes[] = { 1000, 64 * KIB, MIB };

	device_need_sim("counts the driver's calls");
	for (int i = 0; i < 3; i++) {
		void *block = weir_host_malloc(sizes[i]);

		host_give(block);
		uint64_t calls = sim()->calls("cuCtxGetCurrent");
		EXPECT_EQ(weir_host_malloc(sizes[i]), block);
		host_give(block);
		EXPECT_EQ(sim()->calls("cuCtxGetCurrent"), calls);
	}
	expect_healthy();
}

TEST(a_block_in_use_by_a_late_stream_is_not_handed_out)
{
	weir_stream late = new_stream();
	void *device = take(MIB, late);
	void *ptr = host_take(MIB);

	busy(late, LATE_MS);
	upload(device, ptr, MIB, late);
	host_give(ptr);
	EXPECT_EQ(host_stats().pending_bytes, MIB);
	void *other = host_take(MIB);
	EXPECT_NE(other, ptr);
	finish(late);
	EXPECT_EQ(host_take(MIB), ptr);
	expect_healthy();
}

TEST(a_copy_reads_bytes_written_before_the_block_was_freed)
{
	weir_stream late = new_stream();
	unsigned char *device = take(16 * MIB, late);

	busy(late, LATE_MS);
	for (unsigned i = 0; i < 16; i++) {
		void *ptr = host_take(MIB);
		memset(ptr, (int)i + 1, MIB);
		upload(device + i * (size_t)MIB, ptr, MIB, late);
		host_give(ptr);
	}
	for (unsigned i = 0; i < 16; i++)
		expect_filled(device + i * (size_t)MIB, MIB,
		    (unsigned char)(i + 1), late);
	expect_healthy();
}

TEST(the_simulation_reports_a_block_that_comes_back_too_early)
{
	device_need_sim("a GPU does not tell races");
	weir_stream late = new_stream();
	void *device = take(MIB, late);
	void *ptr = host_take(MIB);

	EXPECT_OK(weir_set_device(0));
	busy(late, LATE_MS);
	EXPECT_EQ(device_driver()->cuMemcpyHtoDAsync(
		      (CUdeviceptr)(uintptr_t)device, ptr, MIB, late),
	    CUDA_SUCCESS);
	host_give(ptr); /* and no use was recorded */
	EXPECT_EQ(host_take(MIB), ptr);
	finish(late);
	EXPECT_EQ(sim()->violations(), 1);
	EXPECT_STR_HAS(sim()->violation_text(0), "the host");
}

TEST(one_late_stream_holds_back_its_own_blocks_only)
{
	weir_stream late = new_stream();
	weir_stream quick = new_stream();
	void *device = take(MIB, late);
	void *a = host_take(MIB);
	void *b = host_take(MIB);

	busy(late, LATE_MS);
	upload(device, a, MIB, late);
	host_give(a);
	EXPECT_OK(weir_host_record(b, quick));
	host_give(b);
	finish(quick);
	EXPECT_EQ(host_take(MIB), b);
	EXPECT(!is_done(late));
	EXPECT_EQ(host_stats().pending_bytes, MIB);
	expect_healthy();
}

TEST(a_record_by_an_address_within_holds_back_the_block)
{
	weir_stream late = new_stream();
	char *ptr = host_take(MIB);

	busy(late, LATE_MS);
	EXPECT_OK(weir_host_record(ptr + 12345, late));
	EXPECT_OK(weir_record_stream(ptr + 1, late));
	host_give(ptr);
	EXPECT_NE(host_take(MIB), (void *)ptr);
	expect_healthy();
}

TEST(a_record_of_all_streams_waits_for_all_of_them)
{
	weir_stream late = new_stream();
	char *ptr = host_take(2 * MIB);

	busy(late, LATE_MS);
	EXPECT_OK(weir_host_record(ptr, WEIR_STREAM_ANY));
	host_give(ptr);
	EXPECT_NE(host_take(2 * MIB), (void *)ptr);
	finish(late);
	EXPECT_EQ(host_trim(0), 2 * MIB);
	expect_healthy();
}

TEST(a_stream_of_another_device_may_use_it)
{
	device_need(2);
	weir_stream late = NULL;
	void *ptr = host_take(MIB);

	EXPECT_OK(weir_stream_create(1, 0, &late));
	busy(late, LATE_MS);
	EXPECT_OK(weir_host_record(ptr, late));
	host_give(ptr);
	EXPECT_NE(host_take(MIB), ptr);
	finish(late);
	EXPECT_EQ(host_take(MIB), ptr);
	expect_healthy();
}

TEST(a_stream_that_is_destroyed_lets_go_of_its_blocks)
{
	weir_stream stream = new_stream();
	void *ptr = host_take(MIB);

	EXPECT_OK(weir_host_record(ptr, stream));
	EXPECT_OK(weir_stream_destroy(stream));
	host_give(ptr);
	settle();
	EXPECT_EQ(host_take(MIB), ptr);
	expect_healthy();
}

/* ---- Capture ----------------------------------------------------------- */

TEST(a_block_used_in_a_capture_waits_until_it_is_over_and_is_not_lost)
{
	weir_stream stream = new_stream();
	void *device = take(MIB, stream);
	void *ptr = host_take(MIB);

	capture_begin(stream);
	upload(device, ptr, MIB, stream);
	host_give(ptr);
	EXPECT_NE(host_take(MIB), ptr);
	EXPECT_EQ(host_stats().pending_bytes, MIB);
	capture_end(stream);
	settle();
	EXPECT_EQ(host_take(MIB), ptr);
	EXPECT_EQ(host_stats().pending_bytes, 0);
	expect_healthy();
}

TEST(memory_can_be_taken_and_given_back_during_a_capture)
{
	weir_stream stream = new_stream();

	capture_begin(stream);
	void *ptr = host_take(6 * MIB);
	host_give(ptr);
	EXPECT_EQ(host_trim(0), 6 * MIB);
	capture_end(stream);
	expect_healthy();
}

/* ---- What is held ------------------------------------------------------ */

TEST(mapped_memory_is_held_to_the_next_2_mib)
{
	size_t page = os_page_size();

	char *a = host_take(50 * MIB + 1);
	char *b = host_take(256 * KIB + 1);
	EXPECT_EQ(info_of(a).size, 50 * MIB + page);
	EXPECT_EQ(info_of(b).size, 256 * KIB + page);
	EXPECT_EQ((uintptr_t)a % page, 0);
	EXPECT_EQ((uintptr_t)b % page, 0);
	EXPECT_EQ(b, a + 50 * MIB + page);
	EXPECT_EQ(held(), 52 * MIB);
	expect_healthy();
}

TEST(the_driver_s_large_blocks_are_exact_to_the_page)
{
	size_t page = os_page_size();

	conf("pinned_source:driver");
	host_take(50 * MIB + 1);
	EXPECT_EQ(held(), 50 * MIB + page);
	host_take(256 * KIB + 1); /* of a segment that others share */
	EXPECT_EQ(held(), 50 * MIB + page + 4 * MIB);
	expect_healthy();
}

TEST(small_blocks_share_segments)
{
	conf("pinned_source:driver");
	for (int i = 0; i < 8; i++)
		host_take(256 * KIB);
	EXPECT_EQ(held(), 2 * MIB);
	EXPECT_EQ(host_stats().segment.all.current, 1);
	EXPECT_EQ(host_stats().requested_bytes.small_pool.current, 2 * MIB);
	expect_healthy();
}

/* Free neighbours serve a request together, and what is left of them the next,
 * wherever pages come from. */
TEST(large_blocks_are_cut_and_merged)
{
	static const char *const sources[] = { "pinned_source:handles",
		"pinned_source:system", "pinned_source:driver" };

	for (int i = 0; i < 3; i++) {
		conf(sources[i]);
		host_give(host_take(96 * MIB));
		char *a = host_take(32 * MIB);
		char *b = host_take(64 * MIB);
		EXPECT_EQ(b, a + 32 * MIB);
		host_give(a);
		host_give(b);
		EXPECT_EQ(host_take(96 * MIB), (void *)a);
		EXPECT_EQ(held(), 96 * MIB);
		host_give(a);
		EXPECT_EQ(host_trim(0), 96 * MIB);
	}
	expect_healthy();
}

/* Sizes of a loader whose batches vary, among small ones. A step of it takes
 * `step_us`. */
static struct weir_stats
mix_sizes(unsigned step_us)
{
	enum { LIVE = 48, STEPS = 6000 };
	void *blocks[LIVE] = { 0 };
	size_t sizes[LIVE] = { 0 };
	size_t live = 0;
	size_t most_live = 0;
	unsigned seed = 7;

	for (int i = 0; i < STEPS; i++) {
		int at = rand_r(&seed) % LIVE;
		if (blocks[at] != NULL)
			host_give(blocks[at]);
		live -= sizes[at];
		int what = rand_r(&seed) % 4;
		sizes[at] = what == 0 ?
		    4 * KIB + (size_t)rand_r(&seed) % (200 * KIB) :
		    1 * MIB + (size_t)rand_r(&seed) % (24 * (size_t)MIB);
		blocks[at] = host_take(sizes[at]);
		live += sizes[at];
		most_live = live > most_live ? live : most_live;
		if (step_us > 0)
			sim()->advance_ns(step_us * UINT64_C(1000));
	}
	struct weir_stats out = host_stats();
	printf("live %llu, held %llu, taken %llu times, delay %.3f s\n",
	    (unsigned long long)most_live,
	    (unsigned long long)out.reserved_bytes.all.peak,
	    (unsigned long long)out.num_device_alloc,
	    (double)out.pin_delay_ns / 1e9);
	expect_healthy();
	return out;
}

static double
excess_of(const struct weir_stats *out)
{
	return (double)out->reserved_bytes.all.peak /
	    (double)out->requested_bytes.all.peak;
}

/* A program that does nothing but allocate holds more, so that it need not wait
 * for the driver. */
TEST(a_busy_mix_of_sizes_is_not_delayed)
{
	device_need_sim("the calls for pages have a time there");
	uint64_t begin = sim()->now_ns();
	struct weir_stats out = mix_sizes(0);
	uint64_t took = sim()->now_ns() - begin;

	EXPECT_LT(excess_of(&out), 1.35);
	/* The largest budget, that of ten seconds, may be spent at once. */
	EXPECT_LE(out.pin_delay_ns, 10000000000 / 100 + took / 100);
	EXPECT_GE(out.pin_ns, out.pin_delay_ns / 2);
}

/* A program with other work holds less. */
TEST(a_mix_of_sizes_with_time_holds_a_fifth_more_than_is_live_at_most)
{
	device_need_sim("time has to pass");
	struct weir_stats out = mix_sizes(50000);

	EXPECT_LE(excess_of(&out), 1.2);
	EXPECT_LE(out.pin_delay_ns, UINT64_C(6000) * 50000 * 1000 / 100);
}

static size_t
roll_uniform(unsigned *seed)
{
	return 4 * KIB + (size_t)rand_r(seed) % (252 * KIB);
}

/* Each power of two from 64 bytes on is equally likely. */
static size_t
roll_any(unsigned *seed)
{
	size_t power = (size_t)64 << rand_r(seed) % 12;

	return power + (size_t)rand_r(seed) % power;
}

static void
mix_small(size_t (*roll)(unsigned *seed), int steps)
{
	enum { LIVE = 4000 };
	static void *blocks[LIVE];
	static size_t sizes[LIVE];
	size_t live = 0;
	size_t most_live = 0;
	unsigned seed = 5;

	for (int i = 0; i < steps; i++) {
		int at = rand_r(&seed) % LIVE;
		if (blocks[at] != NULL)
			host_give(blocks[at]);
		live -= sizes[at];
		sizes[at] = roll(&seed);
		blocks[at] = host_take(sizes[at]);
		live += sizes[at];
		most_live = live > most_live ? live : most_live;
	}
	size_t most_held = host_stats().reserved_bytes.all.peak;
	size_t spare = most_live / 8;
	printf("live %zu, held %zu\n", most_live, most_held);
	EXPECT_LE(most_held, most_live + (spare > 16 * MIB ? spare : 16 * MIB));
	expect_healthy();
}

TEST(a_mix_of_small_blocks_holds_an_eighth_more_than_is_live_at_most)
{
	mix_small(roll_uniform, 30000);
}

TEST(a_mix_of_tiny_to_small_blocks_holds_an_eighth_more_than_is_live_at_most)
{
	mix_small(roll_any, 30000);
}

static size_t
roll_tiny(unsigned *seed)
{
	return 8 + (size_t)rand_r(seed) % (4 * KIB - 7);
}

TEST(a_mix_of_8_bytes_to_4_kib_holds_an_eighth_more_than_is_live_at_most)
{
	mix_small(roll_tiny, 30000);
}

TEST(blocks_below_4_kib_are_multiples_of_64_bytes_and_lose_an_eighth_at_most)
{
	for (size_t size = 1; size < 5 * KIB; size += 37) {
		void *ptr = host_take(size);
		size_t got = info_of(ptr).size;
		EXPECT_LT(got - size, size < 4 * KIB ? 64 : 512);
		EXPECT(size < 512 || (got - size) * 8 < size);
		EXPECT_EQ(got % (got < 4 * KIB ? 64 : 512), 0);
	}
	expect_healthy();
}

TEST(a_tiny_block_is_freed_by_either_call_and_serves_again)
{
	char *a = host_take(100);
	char *b = host_take(100);
	char *c = host_take(100);

	EXPECT_EQ(b, a + 128);
	EXPECT_EQ(c, b + 128);
	host_give(b);
	EXPECT_EQ(host_take(128), (void *)b);
	give(b);
	EXPECT_EQ(host_take(65), (void *)b);
	EXPECT_STATUS(weir_host_free(b + 64), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "64 bytes into the block");
	EXPECT_STATUS(weir_host_free(b + 8), WEIR_EINVAL);
	host_give(b);
	EXPECT_STATUS(weir_host_free(b), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "freed before");
	EXPECT_STATUS(weir_free(b), WEIR_EINVAL);
	/* A pointer with bits that no address has. */
	EXPECT_STATUS(
	    weir_host_free((void *)((uintptr_t)c | (uintptr_t)1 << 62)),
	    WEIR_EINVAL);
	host_give(a);
	host_give(c);
	expect_healthy();
}

TEST(tiny_neighbours_wait_for_their_own_streams_only)
{
	weir_stream late = new_stream();
	char *a = host_take(64);
	char *b = host_take(64);
	void *device = take(64, late);

	EXPECT_EQ(b, a + 64);
	busy(late, LATE_MS);
	upload(device, b + 17, 16, late);
	host_give(a);
	host_give(b);
	EXPECT_EQ(host_stats().pending_bytes, 64);
	EXPECT_EQ(host_take(64), (void *)a);
	EXPECT_NE(host_take(64), (void *)b);
	finish(late);
	EXPECT_EQ(host_trim(SIZE_MAX), 0);
	EXPECT_EQ(host_stats().pending_bytes, 0);
	EXPECT_EQ(host_take(64), (void *)b);
	expect_healthy();
}

/* With one thread no peak is missed, whichever kinds its blocks have. */
TEST(peaks_count_tiny_and_other_blocks_together)
{
	enum { N = 64 };
	void *tiny[N];
	void *small[N];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++)
			tiny[i] = host_take(1000);
		for (int i = 0; i < N; i++)
			small[i] = host_take(8 * KIB);
		for (int i = 0; i < N; i++)
			host_give(small[i]);
		for (int i = 0; i < N; i++)
			host_give(tiny[i]);
	}
	EXPECT_EQ(host_stats().requested_bytes.all.peak,
	    N * (1000 + 8 * (uint64_t)KIB));
	EXPECT_EQ(host_stats().allocation.all.peak, 2 * N);
	EXPECT_EQ(host_stats().allocated_bytes.small_pool.peak,
	    N * (1024 + 8 * (uint64_t)KIB));
	EXPECT_EQ(host_stats().allocation.all.current, 0);
	expect_healthy();
}

TEST(tiny_memory_goes_back_like_all_other)
{
	enum { N = 4000 };
	static void *blocks[N];

	for (int i = 0; i < N; i++)
		blocks[i] = host_take(1000);
	EXPECT_GE(held(), 4000000);
	for (int i = 0; i < N; i++)
		host_give(blocks[i]);
	EXPECT_GT(host_trim(MIB), 2 * MIB);
	EXPECT_LE(held(), MIB);
	host_trim(0);
	EXPECT_EQ(held(), 0);
	conf("pinned_idle_mb:1");
	for (int i = 0; i < N; i++)
		blocks[i] = host_take(100);
	for (int i = 0; i < N; i++)
		host_give(blocks[i]);
	EXPECT_LE(held(), MIB);
	expect_healthy();
}

/* Programs that do not know weir expect the driver's alignment. */
TEST(memory_in_place_of_the_driver_s_is_aligned_as_the_driver_s)
{
	for (size_t size = 1; size < 3 * KIB; size += 200) {
		void *ptr;
		host_take(size);
		EXPECT_OK(allocator_malloc_host(0, size, 0, &ptr));
		EXPECT_EQ((uintptr_t)ptr % 512, 0);
		EXPECT_EQ(info_of(ptr).size % 512, 0);
	}
	expect_healthy();
}

TEST(trim_gives_back_all_but_the_bytes_to_keep)
{
	void *blocks[4];

	for (int i = 0; i < 4; i++)
		blocks[i] = host_take(8 * MIB);
	for (int i = 0; i < 3; i++)
		host_give(blocks[i]);
	EXPECT_EQ(host_trim(16 * MIB), 8 * MIB);
	EXPECT_EQ(host_trim(0), 16 * MIB);
	EXPECT_EQ(held(), 8 * MIB);
	host_give(blocks[3]);
	EXPECT_EQ(host_trim(0), 8 * MIB);
	EXPECT_EQ(held(), 0);
	if (sim() != NULL)
		EXPECT_EQ(sim()->live("host"), 0);
	expect_healthy();
}

TEST(trim_waits_for_pending_blocks)
{
	weir_stream late = new_stream();
	void *ptr = host_take(8 * MIB);

	busy(late, LATE_MS);
	EXPECT_OK(weir_host_record(ptr, late));
	host_give(ptr);
	EXPECT_EQ(host_trim(0), 8 * MIB);
	EXPECT(is_done(late));
	expect_healthy();
}

TEST(trimming_a_device_leaves_host_memory_and_the_other_way_round)
{
	weir_stream stream = new_stream();

	host_give(host_take(8 * MIB));
	give(take(8 * MIB, stream));
	trim(0);
	EXPECT_EQ(held(), 8 * MIB);
	give(take(8 * MIB, stream));
	EXPECT_EQ(host_trim(0), 8 * MIB);
	EXPECT_GT(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(a_cap_on_unused_memory_holds_after_every_free)
{
	void *blocks[6];

	conf("pinned_idle_mb:16");
	for (int i = 0; i < 6; i++)
		blocks[i] = host_take(8 * MIB);
	for (int i = 0; i < 6; i++) {
		host_give(blocks[i]);
		EXPECT_LE(
		    held() - host_stats().active_bytes.all.current, 16 * MIB);
	}
	EXPECT_EQ(held(), 16 * MIB);
	conf("pinned_idle_mb:0");
	host_give(host_take(MIB));
	EXPECT_EQ(held(), 0);
	expect_healthy();
}

TEST(memory_that_is_unused_for_long_goes_back)
{
	conf("decay_ms:20");
	host_give(host_take(14 * MIB));
	void *ptr = host_take(MIB);
	for (int i = 0; i < 6; i++) {
		os_time_skip(15 * 1000000);
		host_take(MIB); /* only requests read the clock */
	}
	EXPECT_NOT_NULL(ptr);
	EXPECT_EQ(held(), 8 * MIB); /* a handle of 6 MiB went back */
	expect_healthy();
}

TEST(nothing_decays_if_that_is_off)
{
	conf("decay_ms:off");
	host_give(host_take(8 * MIB));
	for (int i = 0; i < 4; i++) {
		os_time_skip(3600 * UINT64_C(1000000000));
		host_take(MIB);
	}
	EXPECT_EQ(held(), 8 * MIB);
	expect_healthy();
}

TEST(the_limit_is_kept_by_giving_back_and_then_reported)
{
	conf("pinned_limit_mb:32");
	void *a = host_take(16 * MIB);
	void *b = host_take(16 * MIB);

	EXPECT_NO_MEMORY(weir_host_malloc(MIB), WEIR_EHOSTMEM);
	EXPECT_STR_HAS(weir_last_error(), "1.00 MiB");
	EXPECT_STR_HAS(weir_last_error(), "the limit is 32.00 MiB");
	EXPECT_EQ(host_stats().num_ooms, 1);
	host_give(a);
	void *c = host_take(12 * MIB);
	EXPECT_LE(held(), 32 * MIB);
	EXPECT_EQ(stats().num_ooms, 0);
	host_give(b);
	host_give(c);
	expect_healthy();
}

TEST(a_limit_waits_for_pending_blocks_before_it_refuses)
{
	weir_stream late = new_stream();

	conf("pinned_limit_mb:16");
	void *ptr = host_take(16 * MIB);
	busy(late, LATE_MS);
	EXPECT_OK(weir_host_record(ptr, late));
	host_give(ptr);
	EXPECT_EQ(host_take(16 * MIB), ptr);
	EXPECT(is_done(late));
	EXPECT_GT(host_stats().num_host_waits, 0);
	expect_healthy();
}

TEST(one_kind_gives_back_for_another)
{
	conf("pinned_limit_mb:16");
	host_give(host_take(16 * MIB));
	void *ptr = weir_host_malloc_on(
	    0, 16 * MIB, WEIR_HOST_WRITE_COMBINED | WEIR_HOST_MAPPED);
	EXPECT_NOT_NULL(ptr);
	EXPECT_EQ(held(), 16 * MIB);
	host_give(ptr);
	expect_healthy();
}

/* The driver gives one device pointer for all addresses in a handle. */
TEST(mapped_memory_has_the_device_pointer_that_the_driver_gives)
{
	CUresult (*ask)(CUdeviceptr *, void *, unsigned) = NULL;
	void *symbol = dlsym(
	    dlopen("libcuda.so.1", RTLD_NOW), "cuMemHostGetDevicePointer_v2");
	CUdeviceptr device;

	EXPECT_NOT_NULL(symbol);
	memcpy(&ask, &symbol, sizeof(symbol));
	for (int i = 0; i < 3; i++) {
		void *ptr = weir_host_malloc_on(0, 1000, WEIR_HOST_MAPPED);
		EXPECT_NOT_NULL(ptr);
		EXPECT_OK(weir_set_device(0));
		EXPECT_EQ(ask(&device, ptr, 0), CUDA_SUCCESS);
		EXPECT_EQ(device, (CUdeviceptr)(uintptr_t)ptr);
	}
	expect_healthy();
}

TEST(host_memory_is_not_counted_for_the_device)
{
	host_take(8 * MIB);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_EQ(host_stats().allocated_bytes.all.current, 8 * MIB);
	EXPECT_OK(weir_limit_set(0, MIB));
	host_take(8 * MIB);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

TEST(statistics_of_all_kinds_are_one)
{
	void *a = host_take(8 * MIB);
	void *b = weir_host_malloc_on(0, 4 * MIB, WEIR_HOST_PORTABLE);

	EXPECT_NOT_NULL(b);
	host_give(a);
	EXPECT_EQ(host_stats().allocated_bytes.all.current, 4 * MIB);
	EXPECT_EQ(host_stats().allocated_bytes.all.peak, 12 * MIB);
	EXPECT_OK(weir_host_stats_reset_peak(0));
	EXPECT_EQ(host_stats().allocated_bytes.all.peak, 4 * MIB);
	EXPECT_EQ(host_stats().num_device_alloc, 2);
	EXPECT_OK(weir_host_stats_reset_accumulated(0));
	EXPECT_EQ(host_stats().num_device_alloc, 0);
	EXPECT_EQ(host_stats().allocation.all.allocated, 0);
	host_give(b);
	expect_healthy();
}

/* ---- Kinds ------------------------------------------------------------- */

TEST(kinds_are_apart)
{
	conf("pinned_source:driver");
	void *plain = host_take(MIB);
	host_give(plain);
	for (unsigned flags = 1; flags < 8; flags++) {
		void *ptr = weir_host_malloc_on(0, MIB, flags);
		EXPECT_NOT_NULL(ptr);
		EXPECT_NE(ptr, plain);
		EXPECT(weir_host_is_pinned(ptr));
		host_give(ptr);
		EXPECT_EQ(weir_host_malloc_on(0, MIB, flags), ptr);
	}
	expect_healthy();
}

TEST(portable_memory_is_the_same_memory_and_so_is_mapped_memory)
{
	void *plain = host_take(MIB);
	void *mapped = weir_host_malloc_on(0, MIB, WEIR_HOST_MAPPED);

	EXPECT_NE(mapped, plain);
	host_give(plain);
	host_give(mapped);
	for (unsigned flags = 0; flags < 4; flags++) {
		void *ptr = weir_host_malloc_on(0, MIB, flags);
		EXPECT_EQ(ptr, flags & WEIR_HOST_MAPPED ? mapped : plain);
		host_give(ptr);
	}
	EXPECT_NE(weir_host_malloc_on(0, MIB, WEIR_HOST_WRITE_COMBINED), plain);
	expect_healthy();
}

TEST(each_device_has_separate_host_memory)
{
	device_need(2);
	struct weir_stats out = { .struct_size = sizeof(out) };
	void *a = weir_host_malloc_on(0, MIB, 0);
	host_give(a);
	EXPECT_OK(weir_host_stats(1, &out));
	EXPECT_EQ(out.reserved_bytes.all.peak, 0);
	void *b = weir_host_malloc_on(1, MIB, 0);
	EXPECT_NE(b, a);
	EXPECT_EQ(info_of(b).device, 1);
	EXPECT_OK(weir_set_device(1));
	host_give(b);
	EXPECT_EQ(host_take(MIB), b);
	EXPECT_OK(weir_set_device(0));
	EXPECT_EQ(host_take(MIB), a);
	expect_healthy();
}

TEST(registered_memory_is_pinned_with_any_number_of_threads)
{
	static const char *const threads[] = { "1", "2", "8", "128" };
	char more[64];

	for (int i = 0; i < 4; i++) {
		snprintf(more, sizeof(more), "pinned_num_register_threads:%s",
		    threads[i]);
		registered(more);
		char *ptr = host_take(9 * MIB + 100);
		EXPECT(weir_host_is_pinned(ptr));
		EXPECT(weir_host_is_pinned(ptr + 9 * MIB));
		for (size_t at = 0; at < 9 * MIB; at += 4096)
			EXPECT_EQ(ptr[at], 0);
		memset(ptr, 1, 9 * MIB + 100);
		host_give(ptr);
		EXPECT_GE(host_trim(0), 9 * MIB);
		EXPECT(!weir_host_is_pinned(ptr));
	}
	expect_healthy();
}

TEST(small_registered_blocks_share_a_registration)
{
	registered("");
	for (int i = 0; i < 100; i++)
		EXPECT(weir_host_is_pinned(host_take(2000)));
	EXPECT_EQ(host_stats().num_device_alloc, 1);
	if (sim() != NULL)
		EXPECT_EQ(sim()->calls("cuMemHostRegister"), 1);
	expect_healthy();
}

TEST(write_combined_memory_is_never_registered)
{
	registered("");
	EXPECT_NOT_NULL(weir_host_malloc_on(0, MIB, WEIR_HOST_WRITE_COMBINED));
	if (sim() != NULL)
		EXPECT_EQ(sim()->calls("cuMemHostRegister"), 0);
	expect_healthy();
}

TEST(a_change_of_source_frees_blocks_as_they_came)
{
	static const char *const sources[] = { "pinned_source:handles",
		"pinned_source:system", "pinned_source:driver" };
	void *blocks[3];

	for (int i = 0; i < 3; i++) {
		conf(sources[i]);
		blocks[i] = host_take(2 * MIB);
	}
	for (int i = 0; i < 3; i++)
		host_give(blocks[i]);
	for (int i = 0; i < 3; i++) {
		conf(sources[i]);
		EXPECT_EQ(host_take(2 * MIB), blocks[i]);
		host_give(blocks[i]);
	}
	EXPECT_EQ(host_trim(0), 6 * MIB);
	expect_healthy();
}

/* Wait for the thread that gets a reserve. */
static void
await_held(size_t bytes)
{
	for (int i = 0; i < 10000 && held() < bytes; i++)
		usleep(1000);
	/* A request that came meanwhile may have taken memory of its own. */
	EXPECT_GE(held(), bytes);
	EXPECT_LE(held(), bytes + 2 * MIB);
}

TEST(a_reserve_is_got_ahead_and_kept)
{
	static const char *const sources[] = { "handles", "system", "driver" };
	char text[128];

	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text),
		    "pinned_reserve_segment_size_mb:160,pinned_source:%s",
		    sources[i]);
		conf(text);
		size_t before = held();
		void *first = host_take(2 * MIB);
		await_held(before + 160 * MIB);
		uint64_t taken = host_stats().num_device_alloc;
		void *a = host_take(64 * MIB);
		void *b = host_take(64 * MIB);
		EXPECT_EQ(host_stats().num_device_alloc, taken);
		host_give(a);
		host_give(b);
		host_give(first);
		EXPECT_LE(host_trim(0), 2 * MIB);
		EXPECT_GE(held(), before + 160 * MIB);
	}
	expect_healthy();
}

/* The part that is unused for longest may be larger than what may go. */
TEST(a_trim_leaves_a_reserve_whole)
{
	static const char *const sources[] = { "handles", "system", "driver" };
	char text[64];

	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "pinned_source:%s", sources[i]);
		conf(text);
		size_t before = held();
		EXPECT_OK(weir_host_reserve(0, 162 * MIB));
		await_held(before + 162 * MIB);
		host_give(host_take(2 * MIB));
		EXPECT_OK(weir_host_reserve(0, 160 * MIB));
		EXPECT_LE(host_trim(0), 2 * MIB);
		EXPECT_GE(held(), before + 160 * MIB);
		EXPECT_OK(weir_host_reserve(0, 0));
		host_trim(0);
	}
	expect_healthy();
}

TEST(a_reserve_can_be_asked_for_and_ended)
{
	EXPECT_OK(weir_host_reserve(0, 200 * MIB));
	await_held(200 * MIB);
	void *ptr = host_take(100 * MIB);
	EXPECT_EQ(held(), 200 * MIB);
	host_give(ptr);
	EXPECT_EQ(host_trim(0), 0);
	EXPECT_OK(weir_host_reserve(0, 0));
	EXPECT_EQ(host_trim(0), 200 * MIB);
	EXPECT_STATUS(weir_host_reserve(0, SIZE_MAX), WEIR_EHOSTMEM);
	EXPECT_STATUS(weir_host_reserve(99, MIB), WEIR_ENODEVICE);
	expect_healthy();
}

TEST(a_reserve_beyond_the_limit_is_what_there_is)
{
	conf("pinned_limit_mb:64");
	host_give(host_take(2 * MIB)); /* which sets the limit */
	EXPECT_OK(weir_host_reserve(0, 200 * MIB));
	await_held(64 * MIB);
	host_give(host_take(60 * MIB));
	EXPECT_EQ(held(), 64 * MIB);
	expect_healthy();
}

/* ---- Handles ----------------------------------------------------------- */

TEST(a_driver_without_handles_has_registered_pages)
{
	setenv("SIMCUDA_CONF", "host_handles:0", 1);
	device_need_sim("another driver is needed");
	host_give(host_take(5 * MIB));
	EXPECT_GT(sim()->calls("cuMemHostRegister"), 0);
	EXPECT_EQ(host_stats().num_map_calls, 0);
	expect_healthy();
}

static const char *
source_name(void)
{
	enum weir_host_source source;

	EXPECT_OK(weir_host_source(WEIR_DEVICE_CURRENT, &source));
	return weir_host_source_name(source);
}

TEST(the_source_in_use_is_told_before_and_after_the_first_request)
{
	enum weir_host_source source;

	EXPECT_STATUS(weir_host_source(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_host_source(99, &source), WEIR_ENODEVICE);
	EXPECT_NULL(weir_host_source_name((enum weir_host_source)3));
	for (int i = 0; i < 2; i++) {
		conf("pinned_source:driver");
		EXPECT_STR_EQ(source_name(), "driver");
		conf("pinned_source:system");
		EXPECT_STR_EQ(source_name(), "system");
		conf("pinned_source:handles");
		const char *name = source_name();
		EXPECT_STR_EQ(name,
		    host_stats().num_map_calls > 0 ? "handles" : "system");
		host_give(host_take(MIB));
	}
	expect_healthy();
}

TEST(the_source_is_the_one_that_the_driver_allows)
{
	device_need_sim("a call has to fail");
	EXPECT_OK(weir_init());
	sim()->fail("cuMemSetAccess", 1, 1, CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_STR_EQ(source_name(), "system");
	conf("pinned_source:driver");
	EXPECT_STR_EQ(source_name(), "driver");
	conf("pinned_source:handles");
	EXPECT_STR_EQ(source_name(), "system");
	expect_healthy();
}

TEST(a_driver_that_refuses_to_map_host_memory_has_registered_pages)
{
	device_need_sim("a call has to fail");
	EXPECT_OK(weir_init());
	sim()->fail("cuMemSetAccess", 1, 1, CUDA_ERROR_NOT_SUPPORTED);
	long before = sim()->live("handle");
	host_give(host_take(5 * MIB));
	EXPECT_GT(sim()->calls("cuMemHostRegister"), 0);
	EXPECT_EQ(sim()->live("handle"), before);
	expect_healthy();
}

TEST(a_driver_short_of_memory_at_first_has_handles_later)
{
	void *ptr;

	device_need_sim("a call has to fail");
	EXPECT_OK(weir_init());
	sim()->fail("cuMemCreate", 1, 2, CUDA_ERROR_OUT_OF_MEMORY);
	ptr = weir_host_malloc(5 * MIB);
	if (ptr != NULL)
		host_give(ptr);
	host_give(host_take(5 * MIB));
	EXPECT_EQ(sim()->calls("cuMemHostRegister"), 0);
	EXPECT_GT(host_stats().num_map_calls, 0);
	expect_healthy();
}

TEST(free_handles_are_moved_where_a_request_needs_them)
{
	char *blocks[8];

	for (int i = 0; i < 8; i++)
		blocks[i] = host_take(32 * MIB);
	for (int i = 0; i < 8; i += 2)
		host_give(blocks[i]);
	if (sim() != NULL) /* so that moves are paid for */
		sim()->advance_ns(UINT64_C(60000000000));
	char *ptr = host_take(128 * MIB);
	memset(ptr, 1, 128 * MIB);
	EXPECT_EQ(held(), 256 * MIB);
	EXPECT_EQ(host_stats().remapped_bytes, 128 * MIB);
	EXPECT_GT(host_stats().pin_delay_ns, 0);
	EXPECT(weir_host_is_pinned(ptr));
	expect_healthy();
}

TEST(all_devices_may_use_mapped_memory)
{
	device_need(2);
	char *ptr = host_take(4 * MIB);
	char *back = host_take(4 * MIB);

	for (int i = 0; i < 2; i++) {
		EXPECT_OK(weir_set_device(i));
		weir_stream stream = new_stream();
		CUdeviceptr device =
		    (CUdeviceptr)(uintptr_t)take(4 * MIB, stream);
		memset(ptr, 5 + i, 4 * MIB);
		EXPECT_EQ(device_driver()->cuMemcpyHtoDAsync(
			      device, ptr, 4 * MIB, stream),
		    CUDA_SUCCESS);
		EXPECT_EQ(device_driver()->cuMemcpyDtoHAsync(
			      back, device, 4 * MIB, stream),
		    CUDA_SUCCESS);
		finish(stream);
		EXPECT_EQ(memcmp(ptr, back, 4 * MIB), 0);
	}
	EXPECT_OK(weir_set_device(0));
	expect_healthy();
}

/* ---- NUMA -------------------------------------------------------------- */

static void
make_folders(char *path)
{
	for (char *at = path + 1; *at != '\0'; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
}

TEST(the_node_of_a_device_is_read_from_the_system_s_tables)
{
	char root[] = "/tmp/weir-host-XXXXXX";
	char path[256];

	EXPECT_NOT_NULL(mkdtemp(root));
	snprintf(path, sizeof(path),
	    "%s/bus/pci/devices/0000:3b:00.0/numa_node", root);
	make_folders(path);
	FILE *file = fopen(path, "w");
	EXPECT_NOT_NULL(file);
	fputs("3\n", file);
	fclose(file);
	EXPECT_EQ(host_node(root, "0000:3B:00.0"), 3);
	EXPECT_EQ(host_node(root, "0000:3b:00.0"), 3);
	EXPECT_EQ(host_node(root, "0000:3C:00.0"), -1);
	file = fopen(path, "w");
	fputs("-1\n", file);
	fclose(file);
	EXPECT_EQ(host_node(root, "0000:3B:00.0"), -1);
	file = fopen(path, "w");
	fputs("none\n", file);
	fclose(file);
	EXPECT_EQ(host_node(root, "0000:3B:00.0"), -1);
}

/* The system call that places pages is caught on its way out of weir; all
 * others go through. */
static struct {
	unsigned times;
	long refuse; /* an errno */
	uintptr_t addr;
	size_t size;
	long mode;
	unsigned long nodes;
} bound;

long caught_call(long number, ...) __asm__("syscall");

long
caught_call(long number, ...)
{
	long (*real)(long, long, long, long, long, long, long);
	long args[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	if (number != SYS_mbind)
		return real(number, args[0], args[1], args[2], args[3], args[4],
		    args[5]);
	bound.times++;
	bound.addr = (uintptr_t)args[0];
	bound.size = (size_t)args[1];
	bound.mode = args[2];
	bound.nodes = *(const unsigned long *)(uintptr_t)args[3];
	errno = (int)bound.refuse;
	return bound.refuse != 0 ? -1 : 0;
}

/* Tables in which device 0 is on a node. */
static void
put_on_node(char *root, int node)
{
	char bus_id[32];
	char path[256];

	EXPECT_EQ(
	    device_driver()->cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0),
	    CUDA_SUCCESS);
	for (char *at = bus_id; *at != '\0'; at++)
		*at = (char)tolower((unsigned char)*at);
	EXPECT_NOT_NULL(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", root,
	    bus_id);
	make_folders(path);
	FILE *file = fopen(path, "w");
	EXPECT_NOT_NULL(file);
	fprintf(file, "%d\n", node);
	fclose(file);
	host_tables = root;
}

TEST(pages_are_asked_for_on_the_node_of_the_device)
{
	char root[] = "/tmp/weir-host-XXXXXX";

	EXPECT_OK(weir_set_device(0));
	put_on_node(root, 3);
	registered("pinned_num_register_threads:2");
	char *ptr = host_take(5 * MIB);
	EXPECT_EQ(bound.times, 1);
	EXPECT_EQ(bound.addr, (uintptr_t)ptr);
	EXPECT_EQ(bound.size, 5 * MIB);
	EXPECT_EQ(bound.mode, 1); /* preferred, not forced */
	EXPECT_EQ(bound.nodes, 1ul << 3);
	expect_healthy();
}

TEST(where_pages_cannot_be_placed_they_are_where_the_system_likes)
{
	static const long reasons[] = { ENOSYS, EPERM, EINVAL };
	char root[] = "/tmp/weir-host-XXXXXX";

	EXPECT_OK(weir_set_device(0));
	put_on_node(root, 0);
	registered("");
	for (unsigned i = 0; i < 3; i++) {
		bound.refuse = reasons[i];
		char *ptr = host_take(5 * MIB);
		EXPECT_EQ(bound.times, i + 1);
		EXPECT_EQ(bound.nodes, 1);
		EXPECT(weir_host_is_pinned(ptr));
	}
	expect_healthy();
}

TEST(nothing_is_asked_for_where_there_are_no_nodes)
{
	char root[] = "/tmp/weir-host-XXXXXX";

	EXPECT_OK(weir_set_device(0));
	put_on_node(root, -1);
	registered("");
	host_take(5 * MIB);
	host_tables = "/nowhere";
	host_take(5 * MIB);
	conf("pinned_source:driver");
	host_take(5 * MIB); /* the driver has its own ways */
	EXPECT_EQ(bound.times, 0);
	expect_healthy();
}

/* ---- Memory of the caller's own ---------------------------------------- */

TEST(registering_and_unregistering_change_whether_memory_is_pinned)
{
	char *memory = aligned_alloc(4096, MIB);

	EXPECT(!weir_host_is_pinned(memory));
	EXPECT_OK(weir_host_register(memory, MIB, 0));
	EXPECT(weir_host_is_pinned(memory));
	EXPECT(weir_host_is_pinned(memory + MIB - 1));
	EXPECT(!weir_host_is_pinned(memory + MIB));
	EXPECT_OK(weir_host_unregister(memory));
	EXPECT(!weir_host_is_pinned(memory));
	free(memory);
	expect_healthy();
}

TEST(registering_twice_is_refused)
{
	char *memory = aligned_alloc(4096, MIB);

	EXPECT_OK(weir_host_register(memory, MIB, WEIR_HOST_PORTABLE));
	EXPECT_STATUS(weir_host_register(memory, MIB, 0), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_host_register(");
	EXPECT_STR_HAS(weir_last_error(), "already");
	EXPECT(weir_host_is_pinned(memory));
	EXPECT_OK(weir_host_unregister(memory));
	EXPECT_STATUS(weir_host_unregister(memory), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_host_unregister(");
	free(memory);
	expect_healthy();
}

TEST(registrations_that_overlap_are_refused)
{
	char *memory = aligned_alloc(65536, 4 * MIB);

	EXPECT_OK(weir_host_register(memory + MIB, MIB, 0));
	for (int i = 1; i <= 3; i++) {
		EXPECT_STATUS(
		    weir_host_register(memory + i * (MIB / 2), MIB, 0),
		    WEIR_EINVAL);
		EXPECT_STR_HAS(weir_last_error(), "weir_host_register(");
	}
	EXPECT(!weir_host_is_pinned(memory));
	EXPECT(!weir_host_is_pinned(memory + 2 * MIB));
	EXPECT(weir_host_is_pinned(memory + MIB));
	EXPECT_OK(weir_host_register(memory + 2 * MIB, MIB, 0));
	EXPECT_OK(weir_host_unregister(memory + MIB));
	EXPECT_OK(weir_host_unregister(memory + 2 * MIB));
	free(memory);
	expect_healthy();
}

TEST(memory_that_was_never_registered_cannot_be_unregistered)
{
	char *memory = aligned_alloc(65536, 4 * MIB);

	EXPECT_STATUS(weir_host_unregister(memory), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_host_unregister(");
	EXPECT_OK(weir_host_register(memory, 4 * MIB, 0));
	EXPECT_STATUS(weir_host_unregister(memory + MIB), WEIR_EINVAL);
	EXPECT(weir_host_is_pinned(memory + MIB));
	EXPECT_OK(weir_host_unregister(memory));
	free(memory);
	expect_healthy();
}

TEST(bad_registrations_are_refused)
{
	char *memory = aligned_alloc(4096, MIB);
	char *ours = host_take(MIB);

	EXPECT_STATUS(weir_host_register(NULL, MIB, 0), WEIR_EINVAL);
	EXPECT_STATUS(weir_host_register(memory, 0, 0), WEIR_EINVAL);
	EXPECT_STATUS(weir_host_register(memory, MIB, WEIR_HOST_WRITE_COMBINED),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_host_register(ours, MIB, 0), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir's own");
	EXPECT_STATUS(weir_host_unregister(ours), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir's own");
	EXPECT_STATUS(weir_host_unregister(NULL), WEIR_EINVAL);
	free(memory);
	expect_healthy();
}

static void *
register_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < 50; i++) {
		char *memory = aligned_alloc(4096, MIB);
		EXPECT_OK(weir_host_register(memory, MIB, 0));
		EXPECT(weir_host_is_pinned(memory + 100));
		EXPECT_OK(weir_host_unregister(memory));
		EXPECT(!weir_host_is_pinned(memory + 100));
		free(memory);
	}
	return NULL;
}

TEST(four_threads_register_at_once)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, register_often, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	expect_healthy();
}

TEST(any_address_can_be_queried_for_pinned_memory)
{
	int local = 0;
	char *ptr = host_take(MIB);
	void *device = take(MIB, new_stream());
	void *theirs = NULL;

	EXPECT_OK(weir_set_device(0));
	EXPECT(weir_host_is_pinned(ptr + 777));
	EXPECT(!weir_host_is_pinned(&local));
	EXPECT(!weir_host_is_pinned(NULL));
	EXPECT(!weir_host_is_pinned(device));
	EXPECT_EQ(
	    device_driver()->cuMemHostAlloc(&theirs, 4096, 0), CUDA_SUCCESS);
	EXPECT(weir_host_is_pinned(theirs));
	EXPECT_EQ(device_driver()->cuMemFreeHost(theirs), CUDA_SUCCESS);
	EXPECT(!weir_host_is_pinned(theirs));
	expect_healthy();
}

/* ---- What is refused --------------------------------------------------- */

/* Locked pages use memory of the machine; pages of this process would be
 * touched before the driver could refuse them. */
TEST(more_than_the_machine_has_is_refused)
{
	EXPECT_NO_MEMORY(weir_host_malloc((size_t)1 << 45), WEIR_EHOSTMEM);
	EXPECT_STR_HAS(weir_last_error(), "the machine has");
	EXPECT_OK(weir_options_set("pinned_source:system"));
	EXPECT_NO_MEMORY(weir_host_malloc((size_t)1 << 45), WEIR_EHOSTMEM);
	expect_healthy();
}

TEST(bad_requests_are_refused)
{
	EXPECT_NO_MEMORY(weir_host_malloc(0), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "0 bytes");
	EXPECT_NO_MEMORY(weir_host_malloc(WEIR_SIZE_MAX + 1), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 1EB memory");
	EXPECT_NO_MEMORY(weir_host_malloc_on(0, 1, 8), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "0x8");
	EXPECT_NO_MEMORY(weir_host_malloc_on(77, 1, 0), WEIR_ENODEVICE);
	EXPECT_NO_MEMORY(weir_host_malloc(WEIR_SIZE_MAX - 5000), WEIR_EHOSTMEM);
	host_give(host_take(1));
	expect_healthy();
}

TEST(bad_queries_are_refused)
{
	struct weir_stats none = { 0 };
	struct weir_stats out = { .struct_size = sizeof(out) };
	size_t freed = 7;

	host_take(MIB);
	EXPECT_STATUS(weir_host_stats(0, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_host_stats(0, &none), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_host_stats");
	EXPECT_STATUS(weir_host_stats(77, &out), WEIR_ENODEVICE);
	EXPECT_EQ(out.reserved_bytes.all.current, 0);
	EXPECT_STATUS(weir_host_stats_reset_peak(77), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_host_stats_reset_accumulated(77), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_host_trim(77, 0, &freed), WEIR_ENODEVICE);
	EXPECT_EQ(freed, 7);
	EXPECT_OK(weir_host_trim(0, 0, NULL));
}

TEST(bad_pointers_are_refused)
{
	int local = 0;
	char *ptr = host_take(MIB);
	void *device = take(MIB, new_stream());

	EXPECT_OK(weir_host_free(NULL));
	EXPECT_STATUS(weir_host_free(&local), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not allocated by weir");
	EXPECT_STATUS(weir_host_free(ptr + 512), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not the start of a block");
	EXPECT_STATUS(weir_host_free(device), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not of the host");
	EXPECT_STATUS(weir_host_record(device, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_host_record(&local, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_host_record(NULL, NULL), WEIR_EINVAL);
	weir_stream gone = new_stream();
	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_STATUS(weir_host_record(ptr, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_free_async(ptr, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "belongs to no stream");
	host_give(ptr);
	EXPECT_STATUS(weir_host_free(ptr), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "freed before");
	EXPECT_STATUS(weir_host_record(ptr, NULL), WEIR_EINVAL);
	give(host_take(MIB)); /* weir_free() takes it too */
	expect_healthy();
}

/* ---- Failures ---------------------------------------------------------- */

TEST(a_refusal_of_the_driver_is_reported_and_leaves_nothing)
{
	device_need_sim("a call has to fail");
	static const char *const entries[] = { "cuMemCreate",
		"cuMemHostRegister", "cuMemHostAlloc" };

	for (int i = 0; i < 3; i++) {
		if (i == 1)
			registered("pinned_num_register_threads:2");
		if (i == 2)
			conf("pinned_source:driver");
		host_give(host_take(1));
		long before = sim()->live("host");
		sim()->fail(entries[i], 1, 100, CUDA_ERROR_OUT_OF_MEMORY);
		EXPECT_NO_MEMORY(weir_host_malloc(5 * MIB), WEIR_EHOSTMEM);
		EXPECT_STR_HAS(weir_last_error(), entries[i]);
		sim()->reset();
		/* Handles are asked of the device's node, then of any. */
		sim()->fail(entries[i], 1, 2, CUDA_ERROR_OPERATING_SYSTEM);
		EXPECT_NO_MEMORY(weir_host_malloc(5 * MIB), WEIR_EDRIVER);
		sim()->reset();
		EXPECT_LE(sim()->live("host"), before);
		host_give(host_take(5 * MIB));
		EXPECT_EQ(host_stats().allocation.all.current, 0);
	}
	expect_healthy();
}

TEST(a_shortage_is_met_by_unused_memory)
{
	device_need_sim("a call has to fail");
	conf("pinned_source:driver");
	host_give(host_take(8 * MIB));
	sim()->fail("cuMemHostAlloc", 1, 3, CUDA_ERROR_OUT_OF_MEMORY);
	host_take(12 * MIB);
	EXPECT_EQ(held(), 12 * MIB);
	expect_healthy();
}

TEST(memory_that_the_driver_does_not_take_back_stays)
{
	device_need_sim("a call has to fail");
	registered("");
	void *ptr = host_take(8 * MIB);
	host_give(ptr);
	sim()->fail("cuMemHostUnregister", 1, 1, CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQ(host_trim(0), 0);
	EXPECT_EQ(host_take(8 * MIB), ptr);
	host_give(ptr);
	EXPECT_EQ(host_trim(0), 8 * MIB);
	expect_healthy();
}

/* ---- Threads ----------------------------------------------------------- */

enum { ROUNDS = 2000, THREADS = 4 };

static void *
churn(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;
	weir_stream stream = new_stream();
	unsigned char *kept[16] = { 0 };
	size_t sizes[16] = { 0 };
	void *device = take(MIB, stream);

	for (int i = 0; i < ROUNDS; i++) {
		int at = rand_r(&seed) % 16;
		if (kept[at] != NULL) {
			EXPECT_EQ(kept[at][0], (unsigned char)at);
			EXPECT_EQ(
			    kept[at][sizes[at] - 1], (unsigned char)(at + 1));
			host_give(kept[at]);
		}
		sizes[at] = 2 + (size_t)rand_r(&seed) % (MIB - 2);
		kept[at] = host_take(sizes[at]);
		kept[at][0] = (unsigned char)at;
		kept[at][sizes[at] - 1] = (unsigned char)(at + 1);
		if (i % 8 == 0)
			upload(device, kept[at], sizes[at], stream);
		if (i % 64 == 0) /* decay has memory to give back */
			os_time_skip(2 * 1000000);
	}
	for (int at = 0; at < 16; at++)
		if (kept[at] != NULL)
			host_give(kept[at]);
	finish(stream);
	return NULL;
}

/* `background`: memory that the background thread is giving back at this moment
 * still counts as held, and a trim cannot give it back. */
static void
run_threads(bool background)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(host_stats().allocation.all.current, 0);
	expect_healthy();
	host_trim(0);
	if (background)
		EXPECT_SOON(held() == 0);
	EXPECT_EQ(held(), 0);
	expect_healthy();
}

TEST(threads_allocate_and_free_at_once)
{
	run_threads(false);
}

TEST(threads_register_and_free_at_once_with_a_cap)
{
	registered("pinned_idle_mb:4,pinned_num_register_threads:2");
	run_threads(false);
}

TEST(a_background_thread_frees_complete_memory_and_gives_it_back)
{
	conf("pinned_use_background_threads:True,decay_ms:20");
	weir_stream stream = new_stream();
	void *ptr = host_take(8 * MIB);

	EXPECT_OK(weir_host_record(ptr, stream));
	host_give(ptr);
	EXPECT_SOON((os_time_skip(10 * 1000000), held() == 0));
	EXPECT_EQ(host_stats().pending_bytes, 0);
	expect_healthy();
}

TEST(a_background_thread_and_others_do_not_disturb_each_other)
{
	conf("pinned_use_background_threads:True,decay_ms:5");
	run_threads(true);
}

/* ---- A device that is reset -------------------------------------------- */

/* A thread that gets the reserve keeps what is forgotten until it is done. */
static void
await_reserve(void)
{
	usleep(50000);
}

TEST(host_memory_goes_with_the_context_and_comes_again)
{
	device_need_sim("the context is the tests' own on a GPU");
	static const char *const sources[] = { "handles", "system", "driver" };
	char text[128];

	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text),
		    "pinned_source:%s,pinned_reserve_segment_size_mb:%d",
		    sources[i], i == 0 ? 0 : 16);
		conf(text);
		void *ptr = host_take(8 * MIB);
		host_give(host_take(24 * MIB));
		await_reserve();
		allocator_forget_device(0);
		EXPECT_STATUS(weir_host_free(ptr), WEIR_EINVAL);
		host_give(host_take(8 * MIB));
	}
	expect_healthy();
}
