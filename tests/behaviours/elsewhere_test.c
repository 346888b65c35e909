/*
 * Faults that users of other caching allocators have reported do not happen
 * here. Other tests of this folder cover some of them; the rest are here.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weir/graph.h>

#include "tests/support/device.h"

static struct weir_route *
route_here(struct weir_pool *pool)
{
	struct weir_route *route;

	EXPECT_OK(weir_route_thread(pool, &route));
	return route;
}

/* ---- Routing is not capturing ------------------------------------------ */

TEST(blocks_come_back_while_a_thread_is_routed_to_a_pool)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *first = take(64 * MIB, a);
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_route *route = route_here(pool);

	busy(b, LATE_MS);
	record(first, b);
	give(first);
	EXPECT_EQ(stats().pending_bytes, 64 * MIB);
	finish(b);
	/* Any later request polls the freed block. */
	give(take(64 * MIB, a));
	weir_route_end(route);
	EXPECT_EQ(take(64 * MIB, a), first);
	EXPECT_EQ(stats().pending_bytes, 0);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(a_full_device_is_reclaimed_while_a_thread_is_routed_to_a_pool)
{
	size_t half = device_total(0) / 2 + 64 * MIB;
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *block = take(half, a);
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_route *route = route_here(pool);

	/* The memory is unused, but work on it is still to be done. */
	busy(b, LATE_MS);
	record(block, b);
	give(block);
	block = take(half, a);
	EXPECT_EQ(stats().num_ooms, 0);
	fill(block, MIB, 3, a);
	expect_filled(block, MIB, 3, a);
	EXPECT_OK(weir_free(block));
	/* The reverse: the pool's memory serves the other requests. */
	weir_route_end(route);
	block = take(half, b);
	EXPECT_EQ(stats().num_ooms, 0);
	give(block);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(a_pool_ends_while_another_is_routed_to)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct weir_pool *first = new_pool(0, 0);
	struct weir_pool *second = new_pool(0, 0);
	struct weir_route *route = route_here(first);
	void *block = take(8 * MIB, a);

	weir_route_end(route);
	route = route_here(second);
	give(take(2 * MIB, a));
	busy(b, LATE_MS);
	record(block, b);
	give(block);
	weir_pool_release(first);
	EXPECT_EQ(trim(0), 8 * MIB + 2 * MIB);
	weir_route_end(route);
	weir_pool_release(second);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* ---- The device that is current ---------------------------------------- */

/* Memory is unmapped once the work of its device is done, whichever device is
 * current for the caller. */
TEST(a_trim_waits_for_the_device_of_the_memory)
{
	device_need(2);
	EXPECT_OK(weir_set_device(0));
	weir_stream stream = new_stream();
	void *block = take(64 * MIB, stream);

	busy(stream, LATE_MS);
	fill(block, 64 * MIB, 7, stream);
	give(block);
	EXPECT_OK(weir_set_device(1));
	give(take(2 * MIB, NULL));
	size_t freed;
	EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, &freed));
	EXPECT_EQ(freed, 66 * MIB);
	EXPECT_EQ(stats_of(0).reserved_bytes.all.current, 0);
	int device;
	EXPECT_OK(weir_get_device(&device));
	EXPECT_EQ(device, 1);
	expect_healthy();
}

/* ---- Options that contradict each other -------------------------------- */

/* Garbage collection, max_split_size_mb and expandable segments are changed
 * while blocks of each are live and free. */
TEST(options_change_while_memory_of_both_kinds_is_there)
{
	static const char *const confs[] = { "expandable_segments:True",
		"large_segment_size_mb:20,max_split_size_mb:20",
		"max_split_size_mb:64,garbage_collection_threshold:0.3",
		"max_split_size_mb:unlimited,roundup_power2_divisions:4",
		"expandable_segments:False",
		"max_split_size_mb:unlimited,large_segment_size_mb:32",
		"roundup_power2_divisions:0,garbage_collection_threshold:0" };
	void *blocks[40] = { NULL };
	unsigned state = 12345;

	EXPECT_OK(weir_limit_set(0, (size_t)2 << 30));
	for (int i = 0; i < 3000; i++) {
		state = state * 1103515245u + 12345;
		size_t k = state >> 16 & 31;

		if (i % 50 == 0)
			conf(confs[(state >> 8) % 7]);
		EXPECT_OK(weir_free(blocks[k]));
		blocks[k] = take(1 + (state >> 4) % (48 * MIB), NULL);
		if (i % 50 == 0)
			expect_healthy();
	}
	for (int k = 0; k < 40; k++)
		EXPECT_OK(weir_free(blocks[k]));
	trim(0);
	struct weir_stats s = stats();
	EXPECT_EQ(s.reserved_bytes.all.current, 0);
	EXPECT_EQ(s.segment.all.current, 0);
	EXPECT_EQ(s.inactive_split_bytes.all.current, 0);
	EXPECT_EQ(s.oversize_allocations.current, 0);
	EXPECT_EQ(s.oversize_segments.current, 0);
	expect_healthy();
}

/* ---- Failing while failing --------------------------------------------- */

/* Other holders of memory are reported if they are visible, and only then. */
TEST(a_report_needs_no_nvml)
{
	EXPECT_EQ(setenv("WEIR_LIBNVML", "/nonexistent/libnvidia-ml.so", 1), 0);
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 49, NULL), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "Tried to allocate 512.00 TiB");
	EXPECT(strstr(weir_last_error(), "rocess") == NULL);
	give(take(MIB, NULL));
	expect_healthy();
}

/* ---- Address space ----------------------------------------------------- */

/* Valgrind and ThreadSanitizer leave a program few addresses. */
static bool
has_addresses(size_t bytes)
{
	void *start = mmap(NULL, bytes, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return false;
	munmap(start, bytes);
	return true;
}

/* Each stream's pools reserve as many addresses as the device has memory, and
 * the number of addresses is limited. */
TEST(addresses_last_for_very_many_streams)
{
	enum { MANY = 1200 };
	void *blocks[2 * MANY];

	EXPECT_EQ(setenv("SIMCUDA_CONF", "memory_mb:184320", 1), 0);
	device_need_sim("as many streams as that are slow to make");
	if (!has_addresses((size_t)32 << 40))
		SKIP("what watches this process has left it few addresses");
	for (int i = 0; i < MANY; i++) {
		weir_stream stream = new_stream();

		blocks[2 * i] = take(512, stream);
		blocks[2 * i + 1] = take(2 * MIB, stream);
	}
	for (int i = 0; i < 2 * MANY; i++)
		give(blocks[i]);
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
}
