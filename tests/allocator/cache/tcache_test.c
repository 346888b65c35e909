/*
 * Thread caches: a block that a thread has freed serves the thread again. To
 * all other parts it is free memory: to statistics, to trims, to requests of
 * other threads, and to the ends of streams and threads.
 */
#include "allocator/cache/tcache.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/allocator.h"
#include "allocator/magazines/depot.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/arenas.h"
#include <weir/host.h>

#include "tests/support/arena.h"
#include "tests/support/device.h"

/* Count the blocks of a stream in a state. */
static size_t
count(weir_stream stream, enum block_state state)
{
	struct arena *arena = arena_peek(0);
	size_t n = 0;

	lock_enter(&arena->lock);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		for (struct block *b =
			 CONTAINER_OF(l, struct segment, link)->first;
		     b != NULL; b = b->next)
			n += block_state(b) == state &&
			    b->pool->owner->stream->handle == stream;
	lock_leave(&arena->lock);
	return n;
}

static size_t
cached(weir_stream stream)
{
	return count(stream, BLOCK_CACHED);
}

/* Run a function in another thread, to its end. */
static void
in_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, run, argument), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
}

/* ---- One thread -------------------------------------------------------- */

TEST(the_block_that_was_freed_last_comes_first)
{
	weir_stream a = new_stream();
	void *block[3];

	for (int i = 0; i < 3; i++)
		block[i] = take(3000, a);
	for (int i = 0; i < 3; i++)
		give(block[i]);
	EXPECT_EQ(cached(a), 3);
	for (int i = 3; i-- > 0;)
		EXPECT_EQ(take(2561, a), block[i]);
	EXPECT_EQ(cached(a), 0);
	EXPECT_EQ(info_of(block[0]).requested_bytes, 2561);
	expect_healthy();
}

TEST(a_class_is_exact)
{
	weir_stream a = new_stream();
	void *small = take(512, a);
	void *large = take(1024, a);

	give(small);
	give(large);
	EXPECT_EQ(take(513, a), large);
	EXPECT_EQ(take(512, a), small);
	expect_healthy();
}

TEST(large_blocks_are_kept_until_the_thread_comes_to_the_pool)
{
	weir_stream a = new_stream();
	char *first = take(4 * MIB, a);
	void *second = take(4 * MIB, a);

	give(first);
	give(second);
	EXPECT_EQ(cached(a), 2);
	EXPECT_EQ(take(4 * MIB, a), second);
	give(second);
	/* They merge for a larger request. */
	EXPECT_EQ(take(8 * MIB, a), first);
	EXPECT_EQ(cached(a), 0);
	expect_healthy();
}

TEST(cached_memory_counts_as_free)
{
	weir_stream a = new_stream();
	void *block[100];

	for (int i = 0; i < 100; i++)
		block[i] = take(700, a);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 100; i++)
			give(block[i]);
		struct weir_stats s = stats();
		EXPECT_EQ(s.allocation.all.current, 0);
		EXPECT_EQ(s.active_bytes.all.current, 0);
		EXPECT_EQ(s.requested_bytes.all.current, 0);
		EXPECT_EQ(s.allocation.all.freed, 100 * (round + 1));
		EXPECT_EQ(stats_of_stream(a).allocated_bytes.all.current, 0);
		for (int i = 0; i < 100; i++)
			block[i] = take(700, a);
		s = stats();
		EXPECT_EQ(s.allocation.all.current, 100);
		EXPECT_EQ(s.allocation.all.allocated, 100 * (round + 2));
		EXPECT_EQ(s.allocated_bytes.small_pool.current, 100 * 1024);
		EXPECT_EQ(s.requested_bytes.all.current, 100 * 700);
		EXPECT_EQ(s.requested_bytes.all.peak, 100 * 700);
		EXPECT_EQ(stats_of_stream(a).requested_bytes.all.allocated,
		    100 * 700 * (round + 2));
	}
	expect_healthy();
}

/* The statistics that are expected, kept by hand. */
struct expected {
	uint64_t count, bytes, requested;
	uint64_t count_peak, bytes_peak, requested_peak;
};

static void
note(struct expected *t, int64_t count, int64_t bytes, int64_t requested)
{
	t->count += (uint64_t)count;
	t->bytes += (uint64_t)bytes;
	t->requested += (uint64_t)requested;
	if (t->count_peak < t->count)
		t->count_peak = t->count;
	if (t->bytes_peak < t->bytes)
		t->bytes_peak = t->bytes;
	if (t->requested_peak < t->requested)
		t->requested_peak = t->requested;
}

static void
expect_exact_peaks(unsigned seed, int streams)
{
	enum { LIVE = 64, STEPS = 20000, STREAMS_MAX = 24 };
	weir_stream stream[STREAMS_MAX];
	void *block[LIVE] = { NULL };
	size_t size[LIVE];
	struct expected t = { 0 };

	for (int i = 0; i < streams; i++)
		stream[i] = new_stream();
	for (int step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)rand_r(&seed) % LIVE;
		if (block[i] != NULL) {
			give(block[i]);
			block[i] = NULL;
			note(&t, -1, -(int64_t)round_up(size[i], GRANULE),
			    -(int64_t)size[i]);
			continue;
		}
		size[i] = 1 + (size_t)rand_r(&seed) % 5000;
		if (rand_r(&seed) % 8 == 0)
			size[i] = (size_t)MIB * (2 + (size_t)step % 3);
		block[i] = take(size[i], stream[step % streams]);
		note(&t, 1, (int64_t)round_up(size[i], GRANULE),
		    (int64_t)size[i]);
		if (step % 997 != 0)
			continue;
		struct weir_stats s = stats();
		EXPECT_EQ(s.allocation.all.current, t.count);
		EXPECT_EQ(s.allocated_bytes.all.current, t.bytes);
		EXPECT_EQ(s.requested_bytes.all.current, t.requested);
		EXPECT_EQ(s.allocation.all.peak, t.count_peak);
		EXPECT_EQ(s.allocated_bytes.all.peak, t.bytes_peak);
		EXPECT_EQ(s.active_bytes.all.peak, t.bytes_peak);
		EXPECT_EQ(s.requested_bytes.all.peak, t.requested_peak);
		if (step % (997 * 5) == 0) {
			EXPECT_OK(weir_stats_reset_peak(0));
			t.count_peak = t.count;
			t.bytes_peak = t.bytes;
			t.requested_peak = t.requested;
		}
	}
	expect_healthy();
}

TEST(peaks_are_exact_for_one_thread_on_several_streams)
{
	expect_exact_peaks(7, 3);
}

/* With these the cache passes a peak by blocks from the pool. */
TEST(blocks_that_one_cache_takes_from_the_pool_give_others_no_budget)
{
	expect_exact_peaks(8, 3);
}

/* Most are not used between two reports. */
TEST(peaks_are_exact_where_most_caches_of_a_thread_are_idle)
{
	expect_exact_peaks(9, 24);
}

TEST(a_malloc_from_the_pool_leaves_less_room_below_the_peak)
{
	enum { LIVE = 10 };
	weir_stream a = new_stream();
	void *block[LIVE];

	for (int i = 0; i < LIVE; i++)
		block[i] = take(1024, a);
	give(block[0]);             /* into the cache: 9, and room for one */
	void *other = take(512, a); /* from the pool: 10 */
	block[0] = take(1024, a);   /* from the cache: 11 */
	give(block[0]);
	EXPECT_EQ(stats().allocation.all.current, LIVE);
	EXPECT_EQ(stats().allocation.all.peak, LIVE + 1);
	give(other);
	expect_healthy();
}

TEST(a_block_that_is_cached_cannot_be_freed_again)
{
	weir_stream a = new_stream();
	char *block = take(2048, a);

	give(take(2048, a)); /* there is a cache now */
	give(block);
	struct weir_stats before = stats();
	EXPECT_STATUS(weir_free(block), WEIR_EINVAL);
	EXPECT(strstr(weir_last_error(), "freed before") != NULL);
	EXPECT_STATUS(weir_free(block + 512), WEIR_EINVAL);
	EXPECT_STATUS(weir_free_async(block, a), WEIR_EINVAL);
	EXPECT_STATUS(weir_record_stream(block, new_stream()), WEIR_EINVAL);
	EXPECT_EQ(
	    stats().allocation.all.current, before.allocation.all.current);
	EXPECT_EQ(take(2048, a), block);
	expect_healthy();
}

TEST(sizes_that_make_no_sense_are_refused_as_ever)
{
	weir_stream a = new_stream();

	give(take(512, a));
	EXPECT_NO_MEMORY(weir_malloc(0, a), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_malloc(SIZE_MAX, a), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_malloc(SIZE_MAX - 511, a), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_malloc_on(77, 512, a), WEIR_EINVAL);
	expect_healthy();
}

TEST(blocks_that_other_streams_used_do_not_come_into_a_cache)
{
	weir_stream a = new_stream();
	weir_stream use = new_stream();

	give(take(4096, a));
	void *block = take(4096, a);
	busy(use, LATE_MS);
	record(block, use);
	give(block);
	EXPECT_EQ(count(a, BLOCK_PENDING), 1);
	EXPECT_NE(take(4096, a), block);
	expect_healthy();
}

TEST(memory_of_no_stream_is_not_cached)
{
	give(take(4096, WEIR_STREAM_ANY));
	give(take(4096, WEIR_STREAM_ANY));
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	expect_healthy();
}

TEST(a_default_stream_has_a_separate_cache)
{
	EXPECT_OK(weir_set_device(0)); /* there is a current context */
	give(take(4096, NULL));
	void *block = take(4096, NULL);
	give(block);
	EXPECT_EQ(take(4096, WEIR_STREAM_LEGACY), block);
	EXPECT_NE(take(4096, WEIR_STREAM_PER_THREAD), block);
	expect_healthy();
}

/* Only if the block belongs to the named stream. */
TEST(cached_blocks_are_allocated_and_freed_with_no_driver_call)
{
	static const size_t sizes[] = { 3000, 1 << 20, 8 << 20 };
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	size_t requested = 0;

	for (int i = 0; i < 3; i++) {
		void *block = take(sizes[i], a);

		take(sizes[i], b);
		EXPECT_NULL(allocator_malloc_cached(0, sizes[i], a, NULL));
		EXPECT(!allocator_free_cached(block, b, NULL, &requested));
		EXPECT(allocator_free_cached(block, a, NULL, &requested));
		EXPECT_EQ(requested, sizes[i]);
		EXPECT(!allocator_free_cached(block, a, NULL, &requested));
		EXPECT_NULL(allocator_malloc_cached(0, sizes[i], b, NULL));
		EXPECT_EQ(allocator_malloc_cached(0, sizes[i], a, NULL), block);
	}
	EXPECT_NULL(allocator_malloc_cached(0, 0, a, NULL));
	EXPECT_NULL(allocator_malloc_cached(0, SIZE_MAX, a, NULL));
	expect_healthy();
}

/* Two streams that share a place of the thread's table, which has a cache of
 * the first; among many streams or alone. */
static void
share_a_place(weir_stream out[2], bool many)
{
	for (int i = 0; i < STREAMS_MANY && many; i++)
		take(512, new_stream());
	out[0] = new_stream();
	do
		out[1] = new_stream();
	while (tcache_way(out[1]) != tcache_way(out[0]));
	for (int i = 0; i < 200; i++)
		give(take(4 * KIB, out[0]));
	EXPECT_GT(cached(out[0]), 0);
}

TEST(the_stream_that_is_in_use_soon_gets_the_place_of_a_cache)
{
	weir_stream stream[2];

	share_a_place(stream, false);
	for (int i = 0; i < 64; i++)
		give(take(4 * KIB, stream[1]));
	EXPECT_EQ(cached(stream[0]), 0);
	EXPECT_GT(cached(stream[1]), 0);
	expect_healthy();
}

/* The first stream keeps the cache, and the pools serve the second. */
static void
use_in_turn(const weir_stream stream[2])
{
	for (int i = 0; i < 200; i++) {
		give(take(4 * KIB, stream[0]));
		EXPECT_GT(cached(stream[0]), 0);
		give(take(4 * KIB, stream[1]));
		EXPECT_EQ(cached(stream[1]), 0);
	}
	expect_healthy();
}

TEST(streams_that_are_used_in_turn_do_not_take_a_place_from_each_other)
{
	weir_stream stream[2];

	share_a_place(stream, false);
	use_in_turn(stream);
}

TEST(among_many_streams_a_cache_that_is_used_keeps_its_place)
{
	weir_stream stream[2];

	share_a_place(stream, true);
	use_in_turn(stream);
}

TEST(among_many_streams_an_idle_cache_gives_its_larger_blocks_to_the_pool)
{
	weir_stream stream[2];

	share_a_place(stream, true);
	give(
	    take(4 * MIB, stream[0])); /* all small blocks are drained for it */
	EXPECT_EQ(cached(stream[0]), 1);
	for (int i = 0; i < 3; i++)
		take(512, stream[1]);
	EXPECT_EQ(cached(stream[0]), 0);
	expect_healthy();
}

TEST(among_many_streams_a_cache_that_is_not_used_loses_its_place)
{
	weir_stream stream[2];
	int requests = 0;

	share_a_place(stream, true);
	for (; cached(stream[1]) == 0 && requests < 200; requests++)
		give(take(4 * KIB, stream[1]));
	EXPECT_GT(requests, 10);
	EXPECT_LT(requests, 200);
	EXPECT_EQ(cached(stream[0]), 0);
	expect_healthy();
}

TEST(freeing_on_the_stream_of_the_block_is_as_quick)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	give(take(4096, a));
	void *block = take(4096, a);
	EXPECT_OK(weir_free_async(block, a));
	EXPECT_EQ(cached(a), 1);
	EXPECT_EQ(take(4096, a), block);
	give(take(4096, b));
	EXPECT_OK(weir_free_async(block, b));
	EXPECT_EQ(cached(a), 0);
	EXPECT_EQ(count(b, BLOCK_ACTIVE) + count(a, BLOCK_ACTIVE), 0);
	expect_healthy();
}

/* ---- Options ----------------------------------------------------------- */

TEST(without_caches_nothing_is_kept)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	for (int i = 0; i < 10; i++)
		give(take(4096, a));
	give(take(4 * MIB, a));
	EXPECT_EQ(cached(a), 0);
	expect_healthy();
}

TEST(a_change_of_options_empties_all_caches)
{
	weir_stream a = new_stream();
	void *block[8];

	for (int i = 0; i < 8; i++)
		block[i] = take(4096, a);
	for (int i = 0; i < 8; i++)
		give(block[i]);
	EXPECT_GT(cached(a), 0);
	conf("tcache:1");
	EXPECT_EQ(cached(a), 0);
	expect_healthy();
	for (int i = 0; i < 8; i++)
		give(take(4096, a));
	EXPECT_GT(cached(a), 0);
	expect_healthy();
}

/* A thread that found the cache just before must not use it: blocks that it
 * took from the depot there would be lost. */
TEST(a_cache_that_is_out_of_use_cannot_be_entered)
{
	weir_stream stream = new_stream();

	give(take(512, stream));
	struct cache *cache = tcache_find(0, stream);
	EXPECT_NOT_NULL(cache);
	EXPECT(tcache_enter(cache));
	tcache_leave(cache);
	tcache_refresh();
	EXPECT(!tcache_is_alive(cache));
	EXPECT(!tcache_enter(cache));
	give(take(512, stream)); /* by now there is another cache */
	expect_healthy();
}

TEST(a_cache_rounds_as_the_options_say)
{
	weir_stream a = new_stream();

	conf("roundup_power2_divisions:4");
	give(take(9000, a));
	void *block = take(9000, a);
	EXPECT_EQ(info_of(block).size, 10240);
	give(block);
	EXPECT_EQ(take(10000, a), block);
	EXPECT_EQ(info_of(block).size, 10240);
	expect_healthy();
}

/* ---- Default streams of the primary context ------------------------------ */

TEST(for_the_primary_context_s_default_streams_no_driver_is_asked)
{
	static const weir_stream streams[] = { NULL, WEIR_STREAM_LEGACY,
		WEIR_STREAM_PER_THREAD };
	static const size_t sizes[] = { 1000, 64 * KIB, MIB, 20 * MIB };
	static const char *const confs[] = { "", "roundup_power2_divisions:4" };

	device_need_sim("counts the driver's calls");
	for (int k = 0; k < 2 * 3 * 4; k++) {
		if (k % 12 == 0)
			conf(confs[k / 12]);
		weir_stream stream = streams[k % 12 / 4];
		void *block = weir_malloc_primary(0, sizes[k % 4], stream);
		give(block);
		uint64_t calls = sim()->calls("cuCtxGetCurrent");
		EXPECT_EQ(weir_malloc_primary(0, sizes[k % 4], stream), block);
		EXPECT_EQ(sim()->calls("cuCtxGetCurrent"), calls);
		give(block);
	}
	expect_healthy();
}

/* NULL is a different stream in each context. */
TEST(the_primary_context_s_default_stream_is_meant_in_any_context)
{
	const struct driver *driver = device_driver();
	CUresult (*create)(CUcontext *, unsigned, CUdevice);
	void *symbol =
	    dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxCreate_v2");
	CUcontext other;
	CUcontext context;

	EXPECT_NOT_NULL(symbol);
	memcpy(&create, &symbol, sizeof(create));
	void *block = take(3000, NULL);
	EXPECT_EQ(create(&other, 0, 0), CUDA_SUCCESS);
	EXPECT_EQ(driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
	EXPECT_EQ(context, other);
	for (int i = 0; i < 64; i++) /* it gets the place of a cache */
		give(take(3000, NULL));
	void *of_other = take(3000, NULL);
	give(block);
	/* This thread's latest cache is that of the other's default stream. */
	EXPECT_EQ(weir_malloc_primary(0, 3000, NULL), block);
	EXPECT_EQ(driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
	EXPECT_EQ(context, other);
	give(of_other);
	give(block);
	EXPECT_EQ(weir_malloc_primary(0, 3000, WEIR_STREAM_LEGACY), block);
	EXPECT_EQ(take(3000, NULL), of_other);
	give(of_other);
	EXPECT_EQ(driver->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	give(block);
	EXPECT_EQ(take(3000, NULL), block);
	expect_healthy();
}

TEST(a_request_for_the_primary_context_is_refused_as_ever)
{
	EXPECT_NO_MEMORY(weir_malloc_primary(0, 0, NULL), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_malloc_primary(0, SIZE_MAX, NULL), WEIR_EINVAL);
	EXPECT_NO_MEMORY(weir_malloc_primary(77, 512, NULL), WEIR_ENODEVICE);
	EXPECT_NO_MEMORY(
	    weir_malloc_primary(WEIR_DEVICE_ALL, 512, NULL), WEIR_ENODEVICE);
	void *block = weir_malloc_primary(WEIR_DEVICE_CURRENT, 512, NULL);
	EXPECT_EQ(info_of(block).stream, WEIR_STREAM_LEGACY);
	give(block);
	EXPECT_NO_MEMORY(
	    weir_malloc_primary(77, 512, new_stream()), WEIR_EINVAL);
	expect_healthy();
}

/* ---- One thread, again --------------------------------------------------- */

TEST(a_cache_keeps_no_more_than_it_may)
{
	weir_stream a = new_stream();
	enum { MANY = 20000 };
	void **block = malloc(MANY * sizeof(*block));

	EXPECT_NOT_NULL(block);
	conf("tcache:1");
	for (int i = 0; i < MANY; i++)
		block[i] = take(1024, a);
	for (int i = 0; i < MANY; i++)
		give(block[i]);
	/* Two magazines of 64, and 1 MiB in the depot. */
	EXPECT_LE(cached(a), 2 * 64 + 1024);
	EXPECT_GT(cached(a), 1000);
	free(block);
	expect_healthy();
}

TEST(blocks_for_a_full_depot_go_to_the_pool_a_magazine_at_a_time)
{
	weir_stream a = new_stream();
	enum { MANY = 4000, MOST = 2 * TCACHE_BATCH + 1024 };
	void *block[MANY];
	int given = 0;

	conf("tcache:1");
	for (int i = 0; i < MANY; i++)
		block[i] = take(1024, a);
	while (cached(a) < MOST)
		give(block[given++]);
	give(block[given++]);
	EXPECT_EQ(cached(a), MOST - TCACHE_BATCH);
	for (int i = 0; i < TCACHE_BATCH; i++)
		give(block[given++]);
	EXPECT_EQ(cached(a), MOST);
	while (given < MANY)
		give(block[given++]);
	EXPECT_LE(cached(a), MOST);
	expect_healthy();
}

/* Count the requests that the pool has served so far. */
static uint64_t
served(void)
{
	struct arena *arena = arena_peek(0);

	lock_enter(&arena->lock);
	uint64_t served = arena->cache.served;
	lock_leave(&arena->lock);
	return served;
}

enum { MANY_SMALL = 2000 };
struct small {
	weir_stream stream;
	void *block[MANY_SMALL];
};

static void *
free_small(void *argument)
{
	struct small *small = argument;

	for (int i = 0; i < MANY_SMALL; i++)
		give(small->block[i]);
	return NULL;
}

/* Move all cached memory of device 0 to the pools. */
static size_t
largest_free(weir_stream stream)
{
	size_t largest;

	EXPECT_OK(weir_largest_free(0, stream, &largest));
	return largest;
}

TEST(a_thread_that_is_handed_memory_takes_a_magazine_at_a_time)
{
	struct small small = { .stream = new_stream() };
	int came = 0;

	for (int i = 0; i < MANY_SMALL; i++)
		small.block[i] = take(4096, small.stream);
	in_thread(free_small, &small);
	give(take(4096, small.stream)); /* of theirs */
	EXPECT_GE(largest_free(small.stream), MANY_SMALL * 4096);
	for (int i = 0; i < MANY_SMALL; i++) {
		size_t before = cached(small.stream);
		small.block[i] = take(4096, small.stream);
		came += cached(small.stream) >= before;
	}
	EXPECT_LE(came, MANY_SMALL / 8);
	EXPECT_LE(cached(small.stream), TCACHE_BATCH);
	EXPECT_EQ(stats().allocation.all.current, MANY_SMALL);
	EXPECT_EQ(stats().allocation.all.peak, MANY_SMALL);
	expect_healthy();
	/* The order is by address, as it would be without magazines. */
	for (int i = 1; i < MANY_SMALL; i++)
		EXPECT_GT((char *)small.block[i], (char *)small.block[i - 1]);
	free_small(&small);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(a_thread_that_frees_its_own_blocks_gets_one_block_at_a_time)
{
	struct small small = { .stream = new_stream() };

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY_SMALL; i++)
			small.block[i] = take(4096, small.stream);
		EXPECT_EQ(cached(small.stream), 0);
		free_small(&small);
		largest_free(small.stream);
	}
	expect_healthy();
}

/* ---- Who misses it takes it back --------------------------------------- */

TEST(a_trim_gives_back_cached_blocks)
{
	weir_stream a = new_stream();

	for (size_t size = 512; size <= 16 * MIB; size *= 2) {
		give(take(size, a));
		give(take(size, a));
	}
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

static void *
leave_some(void *argument)
{
	weir_stream stream = argument;

	for (int i = 0; i < 4; i++) {
		give(take(4096, stream));
		give(take(24 * MIB, stream));
	}
	EXPECT_GT(cached(stream), 0);
	return NULL;
}

TEST(a_thread_that_ends_leaves_nothing_in_its_caches)
{
	weir_stream a = new_stream();

	in_thread(leave_some, a);
	EXPECT_EQ(cached(a), 0);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* A thread that keeps blocks of a stream in its cache while the test looks on.
 * The two meet at a barrier, and one of them goes on between two meetings. */
struct holder {
	weir_stream stream;
	pthread_t thread;
	pthread_barrier_t barrier;
	int meetings; /* to come */
};

static void
meet_thread(struct holder *holder)
{
	pthread_barrier_wait(&holder->barrier);
	holder->meetings--;
}

/* Start the thread, and wait until it has cached blocks. `hold` meets the test
 * this many times. */
static void
start_to_hold(struct holder *holder, void *(*hold)(void *), int meetings)
{
	holder->meetings = meetings;
	EXPECT_EQ(pthread_barrier_init(&holder->barrier, NULL, 2), 0);
	EXPECT_EQ(pthread_create(&holder->thread, NULL, hold, holder), 0);
	meet_thread(holder);
}

/* Let the thread go on to its end. */
static void
stop_holding(struct holder *holder)
{
	while (holder->meetings > 0)
		meet_thread(holder);
	EXPECT_EQ(pthread_join(holder->thread, NULL), 0);
	EXPECT_EQ(pthread_barrier_destroy(&holder->barrier), 0);
}

/* Keep the cache full until a signal, and then use it again. */
static void *
hold_some(void *argument)
{
	struct holder *holder = argument;

	leave_some(holder->stream);
	pthread_barrier_wait(&holder->barrier);
	pthread_barrier_wait(&holder->barrier);
	leave_some(holder->stream);
	return NULL;
}

static void
start_to_hold_some(struct holder *holder)
{
	start_to_hold(holder, hold_some, 2);
}

TEST(a_request_takes_blocks_that_another_thread_has_cached)
{
	struct holder holder = { .stream = new_stream() };

	EXPECT_OK(weir_limit_set(0, (size_t)32 * MIB));
	start_to_hold_some(&holder);
	void *block = take(24 * MIB, holder.stream);
	EXPECT_EQ(stats().num_ooms, 0);
	give(block);
	stop_holding(&holder);
	expect_healthy();
}

/* Keep small blocks, which are in use once before each of the first two pairs
 * of barriers. */
static void *
hold_small(void *argument)
{
	struct holder *holder = argument;

	for (int round = 0; round < 3; round++) {
		void *block[20];
		for (int i = 0; i < 20 && round < 2; i++)
			block[i] = take(4096, holder->stream);
		for (int i = 0; i < 20 && round < 2; i++)
			give(block[i]);
		pthread_barrier_wait(&holder->barrier);
		pthread_barrier_wait(&holder->barrier);
	}
	return NULL;
}

/* Returns how many blocks the thread has cached. */
static size_t
start_to_hold_small(struct holder *holder)
{
	start_to_hold(holder, hold_small, 6);
	return cached(holder->stream);
}

/* Let the thread use its blocks once more. In the last round it does not. */
static void
hold_again(struct holder *holder)
{
	meet_thread(holder);
	meet_thread(holder);
}

TEST(a_request_leaves_other_threads_the_blocks_that_they_use)
{
	struct holder holder = { .stream = new_stream() };

	size_t kept = start_to_hold_small(&holder);
	EXPECT_GE(kept, 20);
	take(40 * MIB, holder.stream); /* new memory */
	EXPECT_EQ(cached(holder.stream), kept);
	hold_again(&holder);
	take(80 * MIB, holder.stream);
	EXPECT_EQ(cached(holder.stream), kept);
	hold_again(&holder);
	/* The block has not been used since. */
	take(160 * MIB, holder.stream);
	EXPECT_EQ(cached(holder.stream), 0);
	stop_holding(&holder);
	expect_healthy();
}

TEST(a_request_leaves_other_streams_their_cached_blocks)
{
	weir_stream a = new_stream();
	weir_stream c = new_stream();
	struct holder holder = { .stream = new_stream() };

	size_t kept = start_to_hold_small(&holder);
	for (size_t size = 4 * MIB; size <= 64 * (size_t)MIB; size *= 2)
		take(size, a);
	EXPECT_EQ(cached(holder.stream), kept);
	/* Once much more is held than live, new memory comes last: at the
	 * second inspection the blocks have not been used since. */
	void *block = take(400 * (size_t)MIB, c);
	busy(c, LATE_MS);
	give(block);
	take(300 * (size_t)MIB, a);
	EXPECT_EQ(cached(holder.stream), kept);
	take(300 * (size_t)MIB, a);
	EXPECT_EQ(cached(holder.stream), 0);
	stop_holding(&holder);
	expect_healthy();
}

/* No request waits briefly here, which would drain all caches. */
TEST(small_requests_leave_others_alone_until_they_are_many)
{
	conf("delay_percent:0");
	struct holder holder = { .stream = new_stream() };
	int small = 0;

	size_t kept = start_to_hold_small(&holder);
	/* The first inspection, after which the blocks seem unused. */
	take(40 * MIB, holder.stream);
	EXPECT_EQ(cached(holder.stream), kept);
	/* Each thread fills the memory that is mapped for it, so that others
	 * miss. */
	for (; small < 40; small++)
		take(MIB, holder.stream);
	EXPECT_EQ(cached(holder.stream), kept);
	for (; small < 200 && cached(holder.stream) > 0; small++)
		take(MIB, holder.stream);
	EXPECT_EQ(cached(holder.stream), 0);
	stop_holding(&holder);
	expect_healthy();
}

/* Otherwise streams that seldom allocate would keep their blocks, each of which
 * cuts free memory, for ever in a program that holds little. */
TEST(many_small_requests_take_idle_blocks_of_other_streams)
{
	weir_stream a = new_stream();
	struct holder holder = { .stream = new_stream() };

	size_t kept = start_to_hold_small(&holder);
	for (int small = 0; small < 40; small++)
		take(MIB, a);
	EXPECT_EQ(cached(holder.stream), kept);
	for (int small = 0; small < 400 && cached(holder.stream) > 0; small++)
		take(MIB, a);
	EXPECT_EQ(cached(holder.stream), 0);
	stop_holding(&holder);
	expect_healthy();
}

TEST(a_request_takes_all_blocks_that_its_thread_has_cached)
{
	struct small small = { .stream = new_stream() };
	weir_stream a = new_stream();

	for (int i = 0; i < MANY_SMALL; i++)
		small.block[i] = take(4096, small.stream);
	void *other = take(2048, a);
	free_small(&small);
	give(other);
	EXPECT_EQ(cached(small.stream), MANY_SMALL);
	EXPECT_EQ(cached(a), 1);
	take(40 * MIB, a);
	EXPECT_EQ(cached(small.stream), 0);
	EXPECT_EQ(cached(a), 0);
	expect_healthy();
}

TEST(a_request_that_is_short_of_memory_takes_all_that_is_cached)
{
	struct holder holder = { .stream = new_stream() };

	EXPECT_OK(weir_limit_set(0, (size_t)32 * MIB));
	EXPECT_GE(start_to_hold_small(&holder), 20);
	take(32 * MIB, new_stream());
	EXPECT_EQ(stats().reserved_bytes.all.current, 32 * MIB);
	EXPECT_EQ(cached(holder.stream), 0);
	EXPECT_EQ(stats().num_ooms, 0);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX)); /* the other one goes on */
	stop_holding(&holder);
	expect_healthy();
}

TEST(with_prefer_memory_nothing_cached_is_left_to_anyone)
{
	struct holder holder = { .stream = new_stream() };

	conf("prefer:memory");
	EXPECT_GE(start_to_hold_small(&holder), 20);
	take(40 * MIB, new_stream());
	EXPECT_EQ(cached(holder.stream), 0);
	stop_holding(&holder);
	expect_healthy();
}

TEST(a_stream_that_ends_takes_back_blocks_that_threads_have_cached)
{
	weir_stream a = foreign_stream(CU_STREAM_NON_BLOCKING);
	struct holder holder = { .stream = a };

	start_to_hold_some(&holder);
	leave_some(a);
	EXPECT_OK(weir_stream_retire(a));
	EXPECT_EQ(cached(a), 0);
	expect_healthy();
	holder.stream = new_stream();
	stop_holding(&holder);
	foreign_destroy(a);
	expect_healthy();
}

/* ---- From thread to thread --------------------------------------------- */

struct ring {
	weir_stream stream;
	void *_Atomic slot[64];
	int rounds;
};

static void *
free_all_of(void *argument)
{
	struct ring *ring = argument;

	for (int i = 0; i < ring->rounds; i++) {
		void *_Atomic *slot = &ring->slot[i % 64];
		void *block;
		while ((block = atomic_exchange(slot, NULL)) == NULL)
			sched_yield();
		give(block);
	}
	return NULL;
}

/* Allocate in this thread and free in another. */
static void
hand_over(struct ring *ring)
{
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, free_all_of, ring), 0);
	for (int i = 0; i < ring->rounds; i++) {
		void *_Atomic *slot = &ring->slot[i % 64];
		void *block = take(4096, ring->stream);
		while (atomic_load(slot) != NULL)
			sched_yield();
		/* Read it while the block is still this thread's: once the
		 * block is in the slot, the other thread may have freed it. */
		if (i % 4096 == 0)
			EXPECT_GE(stats().allocation.all.current, 1);
		atomic_store(slot, block);
	}
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_EQ(stats().allocation.all.current, 0);
	EXPECT_EQ(stats().allocation.all.allocated, ring->rounds);
	/* Only the blocks in transit at once and those in caches are held. */
	EXPECT_LE(stats().reserved_bytes.all.current, 8 * MIB);
	EXPECT_LE(stats().allocation.all.peak, 64 + 2 + 4 * TCACHE_BATCH);
	EXPECT_GE(stats().allocation.all.peak, 1);
	expect_healthy();
}

TEST(blocks_that_another_thread_frees_come_back)
{
	struct ring ring = { .stream = new_stream(), .rounds = 20000 };

	hand_over(&ring);
}

TEST(they_come_back_beside_another_arena_of_the_device)
{
	struct ring ring = { .stream = new_stream(), .rounds = 20000 };
	struct arena *other;

	EXPECT_OK(arena_make(main_arena(), NULL, 0, &other));
	hand_over(&ring);
	arena_drop(other);
	expect_healthy();
}

/* Lots of blocks that one thread allocates and another frees, in turns. */
enum { LOT = 1024, LOTS = 40 };
struct lots {
	weir_stream stream;
	void *block[LOT];
	pthread_barrier_t barrier;
};

static void *
free_lots(void *argument)
{
	struct lots *lots = argument;

	for (int n = 0; n < LOTS; n++) {
		pthread_barrier_wait(&lots->barrier);
		for (int i = 0; i < LOT; i++)
			give(lots->block[i]);
		pthread_barrier_wait(&lots->barrier);
	}
	return NULL;
}

/* Pass lots from thread to thread in which a class has magazines of `batch`. */
static void
hand_lots_over(size_t size, uint64_t batch)
{
	struct lots lots = { .stream = new_stream() };
	pthread_t thread;
	uint64_t before = 0;

	EXPECT_EQ(pthread_barrier_init(&lots.barrier, NULL, 2), 0);
	EXPECT_EQ(pthread_create(&thread, NULL, free_lots, &lots), 0);
	for (int n = 0; n < LOTS; n++) {
		if (n == 3)
			before = served();
		for (int i = 0; i < LOT; i++)
			lots.block[i] = take(size, lots.stream);
		pthread_barrier_wait(&lots.barrier);
		pthread_barrier_wait(&lots.barrier);
	}
	/* Once there are enough blocks, none pass through the pool. */
	EXPECT_EQ(served() - before, 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	struct weir_stats s = stats();
	EXPECT_EQ(s.allocation.all.current, 0);
	EXPECT_EQ(s.allocation.all.allocated, LOT * LOTS);
	EXPECT_GE(s.allocation.all.peak, LOT);
	EXPECT_LE(s.allocation.all.peak, LOT + 4 * batch);
	EXPECT_LE(s.reserved_bytes.all.current, LOT * size + 8 * MIB);
	expect_healthy();
}

TEST(lots_are_handed_over_from_cache_to_cache)
{
	hand_lots_over(64 * (size_t)KIB, 16);
}

TEST(lots_of_small_blocks_are_handed_over_from_cache_to_cache)
{
	hand_lots_over(1024, TCACHE_BATCH);
}

enum { EARLY = 100 };
struct early {
	weir_stream stream;
	void *block[EARLY];
};

/* Free blocks that another thread has allocated and not reported, and then
 * report the frees. */
static void *
free_early(void *argument)
{
	struct early *early = argument;

	give(take(8192, early->stream));
	give(take(8192, early->stream));
	for (int i = 0; i < EARLY; i++)
		give(early->block[i]);
	give(take(8192, early->stream));
	give(take(1024, early->stream)); /* out of the pool */
	return NULL;
}

TEST(a_free_that_is_reported_before_its_malloc_makes_no_peak)
{
	struct early early = { .stream = new_stream() };
	void *block[2 * EARLY];

	for (int i = 0; i < 2 * EARLY; i++)
		block[i] = take(8192, early.stream);
	for (int i = 0; i < 2 * EARLY; i++)
		give(block[i]);
	EXPECT_EQ(stats().allocation.all.current, 0);
	for (int i = 0; i < EARLY; i++)
		early.block[i] = take(8192, early.stream);
	in_thread(free_early, &early);
	struct weir_stats s = stats();
	EXPECT_EQ(s.allocation.all.current, 0);
	EXPECT_EQ(s.allocation.all.peak, 2 * EARLY);
	EXPECT_EQ(s.active.small_pool.peak, 2 * EARLY);
	EXPECT_EQ(s.requested_bytes.all.peak, 2 * EARLY * 8192);
	EXPECT_EQ(stats_of_stream(early.stream).allocation.all.peak, 2 * EARLY);
	/* The peak of live bytes hardly rises either. */
	EXPECT_LE(arena_peek(0)->policy.most_live, 2 * EARLY * 8192);
	expect_healthy();
}

/* ---- Complete memory --------------------------------------------------- */

enum { PIECES = 16, PIECE = 64 << 10 };

static void *rest; /* of the segment */

/* Fill a device-scope segment except for some complete blocks, and have all of
 * these but one kept whole. */
static void *
keep_pieces(void)
{
	void *piece[PIECES];
	size_t before = reserved();

	for (int i = 0; i < PIECES; i++)
		piece[i] = take(PIECE, WEIR_STREAM_ANY);
	rest = take(MIB, WEIR_STREAM_ANY);
	for (int i = 0; i < PIECES; i++)
		give(piece[i]);
	settle();
	void *one = take(PIECE, WEIR_STREAM_ANY);
	EXPECT_EQ(one, piece[PIECES - 1]);
	EXPECT_EQ(cached(WEIR_STREAM_ANY), PIECES - 1);
	EXPECT_EQ(reserved(), before + 2 * MIB);
	expect_healthy();
	return one;
}

TEST(complete_memory_stays_whole_for_requests_of_its_size)
{
	keep_pieces();
	for (int i = 1; i < PIECES; i++)
		take(PIECE, WEIR_STREAM_ANY);
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	EXPECT_EQ(reserved(), 2 * MIB);
	expect_healthy();
}

TEST(complete_memory_is_joined_for_a_larger_request)
{
	keep_pieces();
	take((PIECES - 2) * PIECE, WEIR_STREAM_ANY);
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	EXPECT_EQ(reserved(), 2 * MIB);
	expect_healthy();
}

static void *
take_most(void *stream)
{
	take((PIECES - 2) * PIECE, stream);
	return NULL;
}

/* Another thread gets the memory although no inspection of caches is due. */
TEST(complete_memory_that_a_thread_keeps_is_there_for_others)
{
	give(take(700, new_stream()));
	keep_pieces();
	size_t before = reserved();
	in_thread(take_most, WEIR_STREAM_ANY);
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	EXPECT_EQ(reserved(), before);
	expect_healthy();
}

TEST(complete_memory_that_is_kept_serves_streams)
{
	keep_pieces();
	take_most(new_stream());
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	EXPECT_EQ(reserved(), 2 * MIB);
	expect_healthy();
}

TEST(complete_memory_that_is_kept_is_trimmed)
{
	give(keep_pieces());
	give(rest);
	settle();
	EXPECT_GT(cached(WEIR_STREAM_ANY), 0);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(the_oldest_complete_memory_goes_to_the_pool)
{
	enum { SIZES = TCACHE_SLOTS + 8 };
	void *block[SIZES];

	for (size_t i = 0; i < SIZES; i++)
		block[i] = take((i + 1) * PIECE, WEIR_STREAM_ANY);
	for (size_t i = 0; i < SIZES; i++)
		give(block[i]);
	settle();
	for (int i = 0; i < 4; i++)
		take(512, WEIR_STREAM_ANY);
	EXPECT_GT(cached(WEIR_STREAM_ANY), 0);
	EXPECT_LE(cached(WEIR_STREAM_ANY), TCACHE_SLOTS);
	expect_healthy();
}

/* Without a cache for the stream there is none for this block either. */
TEST(without_caches_complete_memory_goes_to_the_pool)
{
	conf("tcache:0");
	void *block[PIECES];

	for (int i = 0; i < PIECES; i++)
		block[i] = take(PIECE, WEIR_STREAM_ANY);
	for (int i = 0; i < PIECES; i++)
		give(block[i]);
	settle();
	take(PIECE, WEIR_STREAM_ANY);
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	expect_healthy();
}

static void *
keep_some(void *unused)
{
	keep_pieces();
	return unused;
}

TEST(a_thread_that_ends_leaves_complete_memory_to_the_pool)
{
	in_thread(keep_some, NULL);
	EXPECT_EQ(cached(WEIR_STREAM_ANY), 0);
	EXPECT_EQ(reserved(), 2 * MIB);
	expect_healthy();
}

/* ---- All at once ------------------------------------------------------- */

struct worker {
	weir_stream own;
	weir_stream shared;
	unsigned seed;
	int steps;
};

static void *
work(void *argument)
{
	enum { LIVE = 32 };
	struct worker *w = argument;
	void *block[LIVE] = { NULL };

	for (int i = 0; i < w->steps; i++) {
		unsigned k = (unsigned)rand_r(&w->seed) % LIVE;
		size_t size = 1 + (size_t)rand_r(&w->seed) % 20000;
		if (rand_r(&w->seed) % 16 == 0)
			size = (size_t)MIB * (1 + (size_t)i % 4);
		if (block[k] != NULL)
			give(block[k]);
		block[k] = take(size, i % 3 == 0 ? w->shared : w->own);
	}
	for (int k = 0; k < LIVE; k++)
		give(block[k]);
	return NULL;
}

TEST(threads_that_take_everything_back_do_not_disturb_others)
{
	enum { WORKERS = 3 };
	struct worker worker[WORKERS];
	pthread_t thread[WORKERS];
	weir_stream shared = new_stream();
	int steps = 3000;

	for (int i = 0; i < WORKERS; i++) {
		worker[i] = (struct worker){ new_stream(), shared,
			(unsigned)i + 1, steps };
		EXPECT_EQ(
		    pthread_create(&thread[i], NULL, work, &worker[i]), 0);
	}
	for (int i = 0; i < 60; i++) {
		char text[256];
		EXPECT_EQ(weir_check(text, sizeof(text)), 0);
		stats();
		if (i % 4 == 0)
			trim(0);
		if (i % 16 == 0)
			conf(i % 32 == 0 ? "tcache:0" : "tcache:4");
	}
	for (int i = 0; i < WORKERS; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	EXPECT_EQ(stats().allocation.all.current, 0);
	EXPECT_EQ(stats().requested_bytes.all.current, 0);
	expect_healthy();
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(a_forked_child_may_free_and_is_refused_memory)
{
	weir_stream a = new_stream();
	void *block = take(4096, a);
	int status;

	give(take(4096, a));
	pid_t child = fork();
	EXPECT_GE(child, 0);
	if (child == 0) {
		bool good = weir_free(block) == WEIR_OK &&
		    weir_malloc(4096, a) == NULL &&
		    weir_last_status() == WEIR_EFORK;
		_exit(good ? 0 : 1);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	give(block);
	expect_healthy();
}

/* ---- Freed by two threads at once ---------------------------------------- */

/* Free a block that another thread has freed at the same moment: both have
 * found it allocated. */
static void
free_as_if_live(void *ptr)
{
	struct block *block = lookup_exact((CUdeviceptr)(uintptr_t)ptr);

	EXPECT_EQ(block_state(block), BLOCK_CACHED);
	block_set_state(block, BLOCK_ACTIVE);
	give(ptr);
}

/* Allocate as many of a size as are cached, and more: no two are the same. */
static void
expect_all_differ(size_t size, weir_stream stream)
{
	enum { MANY = 80 };
	void *taken[MANY];

	for (int i = 0; i < MANY; i++) {
		taken[i] = take(size, stream);
		for (int k = 0; k < i; k++)
			EXPECT_NE(taken[i], taken[k]);
	}
	for (int i = 0; i < MANY; i++)
		give(taken[i]);
}

static size_t
live_blocks(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	EXPECT_OK(weir_stats(0, &stats));
	return (size_t)stats.allocation.all.current;
}

static void
expect_one_of_two(size_t size)
{
	weir_stream a = new_stream();
	void *ptr = take(size, a);

	give(take(size, a));
	give(ptr);
	free_as_if_live(ptr);
	EXPECT_EQ(cached(a), 2);
	expect_all_differ(size, a);
	EXPECT_EQ(live_blocks(), 0);
	expect_healthy();
}

TEST(a_small_block_that_was_freed_twice_at_once_is_handed_out_once)
{
	expect_one_of_two(1024);
}

TEST(a_large_block_that_was_freed_twice_at_once_is_handed_out_once)
{
	expect_one_of_two(8 * MIB);
}

struct block_of {
	void *ptr;
	weir_stream stream;
};

static void *
free_elsewhere(void *argument)
{
	const struct block_of *block = argument;

	give(take(1024, block->stream)); /* a cache of its own */
	free_as_if_live(block->ptr);
	expect_all_differ(1024, block->stream);
	return NULL;
}

TEST(a_block_in_the_caches_of_two_threads_is_handed_out_once)
{
	struct block_of block = { .stream = new_stream() };

	block.ptr = take(1024, block.stream);
	give(block.ptr);
	in_thread(free_elsewhere, &block);
	expect_all_differ(1024, block.stream);
	EXPECT_EQ(live_blocks(), 0);
	expect_healthy();
}

TEST(a_block_that_was_freed_twice_at_once_goes_back_once)
{
	weir_stream a = new_stream();
	void *ptr = take(1024, a);

	give(ptr);
	free_as_if_live(ptr);
	EXPECT_OK(weir_trim(0, 0, NULL));
	expect_all_differ(1024, a);
	EXPECT_EQ(live_blocks(), 0);
	expect_healthy();
}

/* Two threads free one block in each round, as nearly at the same time as
 * possible, and then allocate one after the other. */
enum { EACH = 4 };
struct race {
	unsigned rounds;
	pthread_barrier_t barrier;
	atomic_uint ready;
	weir_stream stream;
	void *ptr;
	void *taken[2 * EACH];
	enum weir_status status[2];
	int both; /* rounds in which both frees succeeded */
};
struct racer {
	struct race *race;
	int i;
};

static void
free_at_once(struct race *race, int i)
{
	atomic_fetch_add(&race->ready, 1);
	for (unsigned n = 1; atomic_load(&race->ready) % 2 != 0; n++)
		if (n % 4096 == 0)
			sched_yield();
	race->status[i] = weir_free(race->ptr);
}

static void
look_at_race(struct race *race)
{
	bool freed[2] = { race->status[0] == WEIR_OK,
		race->status[1] == WEIR_OK };

	EXPECT(freed[0] || freed[1]);
	race->both += freed[0] && freed[1];
	for (int i = 0; i < 2 * EACH; i++)
		for (int k = 0; k < i; k++)
			EXPECT_NE(race->taken[i], race->taken[k]);
}

static void *
run_racer(void *argument)
{
	const struct racer *racer = argument;
	struct race *race = racer->race;
	void **taken = &race->taken[racer->i * EACH];

	give(take(
	    1024, race->stream)); /* a cache of its own, if there are any */
	for (unsigned round = 0; round < race->rounds; round++) {
		if (racer->i == 0)
			race->ptr = take(1024, race->stream);
		pthread_barrier_wait(&race->barrier);
		free_at_once(race, racer->i);
		for (int turn = 0; turn < 2; turn++) {
			pthread_barrier_wait(&race->barrier);
			for (int k = 0; k < EACH && turn == racer->i; k++)
				taken[k] = take(1024, race->stream);
		}
		pthread_barrier_wait(&race->barrier);
		if (racer->i == 0)
			look_at_race(race);
		pthread_barrier_wait(&race->barrier);
		for (int k = 0; k < EACH; k++)
			give(taken[k]);
		pthread_barrier_wait(&race->barrier);
	}
	return NULL;
}

/* Count the rounds in which both frees succeeded. */
static int
race_frees(void)
{
#if defined(__SANITIZE_THREAD__)
	SKIP("two frees of one block at once are a race of the program's");
#endif
	struct race race = { .rounds = (unsigned)test_effort(300),
		.stream = new_stream() };
	struct racer racers[2] = { { &race, 0 }, { &race, 1 } };
	pthread_t thread[2];

	EXPECT_EQ(pthread_barrier_init(&race.barrier, NULL, 2), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(
		    pthread_create(&thread[i], NULL, run_racer, &racers[i]), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	EXPECT_EQ(pthread_barrier_destroy(&race.barrier), 0);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT_EQ(live_blocks(), 0);
	expect_healthy();
	return race.both;
}

TEST(a_block_that_two_threads_free_at_once_is_handed_out_once)
{
	int both = race_frees();

	fprintf(stderr, "# both frees succeeded in %d rounds\n", both);
}

TEST(one_of_two_frees_at_once_is_refused_without_thread_caches)
{
	EXPECT_OK(weir_options_set("tcache:0"));
	EXPECT_EQ(race_frees(), 0);
}

TEST(one_of_two_frees_at_once_is_refused_while_the_history_is_on)
{
	EXPECT_OK(weir_history_start(NULL));
	EXPECT_EQ(race_frees(), 0);
}

/* ---- Arenas besides ----------------------------------------------------- */

static atomic_bool trimming;

static void *
trim_device(void *unused)
{
	(void)unused;
	while (atomic_load(&trimming))
		EXPECT_OK(weir_trim(0, 0, NULL));
	return NULL;
}

/* A thread has caches of the device and of host memory. Another thread empties
 * those of the device, under the device's lock, while this one uses host memory
 * under another lock. ThreadSanitizer reports it if this thread reads the
 * device's caches. */
TEST(caches_of_another_arena_are_left_alone)
{
	pthread_t thread;

	atomic_store(&trimming, true);
	give(take(4096, NULL));
	EXPECT_EQ(pthread_create(&thread, NULL, trim_device, NULL), 0);
	for (int i = 0; i < 300; i++) {
		void *host = weir_host_malloc(40 * MIB);

		EXPECT_NOT_NULL(host);
		give(take(4096, NULL));
		EXPECT_OK(weir_host_free(host));
	}
	atomic_store(&trimming, false);
	pthread_join(thread, NULL);
	expect_healthy();
}
