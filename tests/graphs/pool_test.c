/*
 * Pools: their owners, their properties, their memory; and routes to them.
 */
#include <weir/graph.h>

#include <stdlib.h>
#include <string.h>

#include "allocator/memory/keep.h"
#include "allocator/memory/lookup.h"
#include "base/meta.h"
#include "graphs/pool.h"
#include "tests/support/device.h"

static struct weir_stats
pool_stats(struct weir_pool *pool)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	EXPECT_OK(weir_pool_stats(pool, &s));
	return s;
}

static bool
is_of(struct weir_pool *pool, const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr)->arena == pool->arena;
}

/* ---- Names ------------------------------------------------------------- */

TEST(a_pool_has_a_name_or_none)
{
	static const char *const wrong[] = { "7", "pool:7", "a,b", "a;b", "a\n",
		"\x7f" };
	char longer[WEIR_POOL_NAME_SIZE + 1] = "";
	struct weir_pool *pool = new_pool(0, 0);
	char name[WEIR_POOL_NAME_SIZE];

	weir_pool_name(pool, name);
	EXPECT_STR_EQ(name, "");
	EXPECT_OK(weir_pool_name_set(pool, "kv cache: \xc3\xa9"));
	weir_pool_name(pool, name);
	EXPECT_STR_EQ(name, "kv cache: \xc3\xa9");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EXPECT_STATUS(weir_pool_name_set(pool, wrong[i]), WEIR_EINVAL);
		EXPECT_STR_HAS(weir_last_error(), "is no name");
	}
	memset(longer, 'a', WEIR_POOL_NAME_SIZE);
	EXPECT_STATUS(weir_pool_name_set(pool, longer), WEIR_EINVAL);
	weir_pool_name(pool, name);
	EXPECT_STR_EQ(name, "kv cache: \xc3\xa9");
	longer[WEIR_POOL_NAME_SIZE - 1] = '\0';
	EXPECT_OK(weir_pool_name_set(pool, longer));
	EXPECT_OK(weir_pool_name_set(pool, NULL));
	weir_pool_name(pool, name);
	EXPECT_STR_EQ(name, "");
	EXPECT_STATUS(weir_pool_name_set(NULL, "a"), WEIR_EINVAL);
	weir_pool_name(NULL, name);
	weir_pool_name(pool, NULL);
	expect_healthy();
}

/* ---- Holding ----------------------------------------------------------- */

TEST(a_pool_is_held_by_callers_and_routes)
{
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_route *route = NULL;

	EXPECT_EQ(weir_pool_use_count(pool), 1);
	EXPECT_OK(weir_route_thread(pool, &route));
	EXPECT_EQ(weir_pool_use_count(pool), 2);
	EXPECT_OK(weir_pool_acquire(pool));
	EXPECT_EQ(weir_pool_use_count(pool), 3);
	weir_route_end(route);
	EXPECT_EQ(weir_pool_use_count(pool), 2);
	weir_pool_release(pool);
	weir_pool_release(pool);
	weir_pool_release(NULL);
	weir_route_end(NULL);
	EXPECT_EQ(weir_pool_use_count(NULL), 0);
	expect_healthy();
}

TEST(each_pool_has_a_unique_number)
{
	struct weir_pool *a = new_pool(0, 0);
	struct weir_pool *b = new_pool(0, 0);
	uint64_t first = weir_pool_id(a);

	EXPECT_NE(first, 0);
	EXPECT_NE(weir_pool_id(b), first);
	weir_pool_release(a);
	EXPECT_NE(weir_pool_id(new_pool(0, 0)), first);
	uint64_t id[2] = { 7, 7 };

	EXPECT_EQ(weir_pool_id(NULL), 0);
	weir_pool_segment_id(NULL, id);
	EXPECT_EQ(id[0] + id[1], 0);
	weir_pool_segment_id(NULL, NULL);
}

TEST(a_released_pool_gives_its_memory_back_when_the_last_block_dies)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	void *a = take_from(pool, 4 * MIB, stream);
	void *b = take_from(pool, 4 * MIB, stream);

	finish(stream);
	give(a);
	EXPECT_EQ(stats().reserved_bytes.all.current, 8 * MIB);
	weir_pool_release(pool);
	EXPECT_EQ(stats().reserved_bytes.all.current, 4 * MIB);
	fill(b, 4 * MIB, 1, stream);
	expect_filled(b, 4 * MIB, 1, stream);
	give(b);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(a_dying_pool_comes_back_to_life_by_its_number)
{
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_pool *again = NULL;
	weir_stream stream = new_stream();
	uint64_t id = weir_pool_id(pool);
	void *a = take_from(pool, 4 * MIB, stream);

	weir_pool_release(pool);
	EXPECT_OK(weir_pool_find(id, &again));
	EXPECT_EQ(weir_pool_id(again), id);
	EXPECT_EQ(weir_pool_use_count(again), 1);
	give(a);
	EXPECT_EQ(take_from(again, 4 * MIB, stream), a);
	give(a);
	finish(stream);
	weir_pool_release(again);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_STATUS(weir_pool_find(id, &again), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "nothing of it is left");
	/* Another pool that uses its arena now is a different pool. */
	pool = new_pool(0, 0);
	EXPECT_STATUS(weir_pool_find(id, &again), WEIR_EINVAL);
	EXPECT_OK(weir_pool_find(weir_pool_id(pool), &again));
	EXPECT_EQ(again, pool);
	EXPECT_STATUS(weir_pool_find(0, &again), WEIR_EINVAL);
	expect_healthy();
}

TEST(a_pool_that_cannot_be_made_leaves_nothing)
{
	struct weir_pool *pool = NULL;
	struct weir_pool_source source = { .struct_size = sizeof(source) };
	bool failed = false;

	give(take(512, NULL));
	for (unsigned long nth = 1; nth < 30 && pool == NULL; nth++) {
		meta_fail(nth, 1);
		enum weir_status status = weir_pool_create(0, NULL, 0, &pool);
		meta_fail(0, 0);
		EXPECT(status == WEIR_EHOSTMEM || pool != NULL);
		failed |= status != WEIR_OK;
		expect_healthy();
	}
	EXPECT(failed);
	EXPECT_STATUS(weir_pool_create(0, NULL, 1u << 30, &pool), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_create(99, NULL, 0, &pool), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_pool_create(0, &source, 0, &pool), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_create(0, NULL, 0, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_pool_create: out is NULL");
	EXPECT_STATUS(weir_pool_acquire(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_find(1, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_pool_find: out is NULL");
	EXPECT_NO_MEMORY(weir_pool_malloc(NULL, 512, NULL), WEIR_EINVAL);
	EXPECT_NO_MEMORY(
	    weir_pool_malloc(new_pool(0, 0), 0, NULL), WEIR_EINVAL);
}

/* ---- What it is like --------------------------------------------------- */

TEST(a_pool_has_separate_statistics_that_are_part_of_the_device_s)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct weir_stats s = { 0 };

	take(4 * MIB, stream);
	take_from(pool, 1000, stream);
	EXPECT_EQ(pool_stats(pool).allocated_bytes.all.current, 1024);
	EXPECT_EQ(pool_stats(pool).requested_bytes.all.current, 1000);
	EXPECT_EQ(pool_stats(pool).reserved_bytes.all.current, 2 * MIB);
	EXPECT_EQ(stats().allocated_bytes.all.current, 4 * MIB + 1024);
	EXPECT_EQ(stats().reserved_bytes.all.current, 6 * MIB);
	EXPECT_STATUS(weir_pool_stats(pool, &s), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_stats(NULL, &s), WEIR_EINVAL);
	expect_healthy();
}

TEST(one_pool_is_trimmed_and_no_other_memory)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	size_t freed = 0;

	give(take(4 * MIB, stream));
	give(take_from(pool, 8 * MIB, stream));
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 8 * MIB);
	EXPECT_EQ(stats().reserved_bytes.all.current, 4 * MIB);
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	EXPECT_STATUS(weir_pool_trim(NULL, 0, NULL), WEIR_EINVAL);
	expect_healthy();
}

static unsigned taken;
static unsigned given;
static bool empty;

static void *
source_take(void *closure, int device, size_t size)
{
	EXPECT_EQ(closure, &taken);
	EXPECT_EQ(device, 0);
	if (empty)
		return NULL;
	CUdeviceptr addr = 0;
	EXPECT_EQ(device_driver()->cuMemAlloc(&addr, size), CUDA_SUCCESS);
	taken++;
	return (void *)(uintptr_t)addr;
}

static bool
source_give(void *closure, int device, void *ptr, size_t size)
{
	EXPECT_EQ(closure, &taken);
	EXPECT_EQ(device, 0);
	EXPECT_GT(size, 0);
	given++;
	return device_driver()->cuMemFree((CUdeviceptr)(uintptr_t)ptr) ==
	    CUDA_SUCCESS;
}

static const struct weir_pool_source own_source = { .struct_size =
							sizeof(own_source),
	.name = "own source",
	.take = source_take,
	.give = source_give,
	.closure = &taken };

TEST(a_pool_s_own_source_serves_it_and_gets_all_back)
{
	struct weir_pool *pool = NULL;
	weir_stream stream = new_stream();

	EXPECT_OK(weir_pool_create(0, &own_source, 0, &pool));
	empty = true;
	EXPECT_NO_MEMORY(weir_pool_malloc(pool, 4 * MIB, stream), WEIR_ENOMEM);
	empty = false;
	void *a = take_from(pool, 4 * MIB, stream);
	void *b = take_from(pool, 512, stream);
	EXPECT_EQ(taken, 2);
	EXPECT(!info_of(a).expandable);
	give(a);
	finish(stream);
	weir_pool_release(pool);
	EXPECT_EQ(given, 1);
	give(b);
	EXPECT_EQ(given, 2);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(a_pool_that_does_not_split_gives_whole_pieces)
{
	struct weir_pool *pool = NULL;
	weir_stream stream = new_stream();

	EXPECT_OK(weir_pool_create(0, &own_source, WEIR_POOL_NO_SPLIT, &pool));
	void *a = take_from(pool, 4 * MIB, stream);
	give(a);
	void *b = take_from(pool, 1 * MIB, stream);
	EXPECT_EQ(taken, 2);
	EXPECT_EQ(take_from(pool, 4 * MIB, stream), a);
	give(b);
	EXPECT_EQ(pool_stats(pool).reserved_bytes.all.current, 5 * MIB);
	expect_healthy();
}

TEST(a_pool_serves_other_requests_when_memory_is_short)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_USE_ON_OOM);
	struct weir_pool *selfish = new_pool(0, 0);
	weir_stream stream = new_stream();

	conf("tcache:0");
	EXPECT_OK(weir_limit_set(0, 32 * MIB));
	void *its = take_from(pool, 8 * MIB, stream);
	void *live = take_from(pool, 2 * MIB, stream);
	void *other = take_from(selfish, 8 * MIB, stream);
	void *mine = take(14 * MIB, stream);
	give(its);
	arena_keep(pool->arena);
	arena_keep(selfish->arena);
	give(other);
	EXPECT_EQ(take(8 * MIB, stream), its);
	EXPECT(is_of(pool, its));
	EXPECT_NO_MEMORY(weir_malloc(8 * MIB, stream), WEIR_ENOMEM);
	EXPECT_EQ(pool_stats(pool).allocated_bytes.all.current, 10 * MIB);
	give(its);
	EXPECT_EQ(take_from(pool, 8 * MIB, stream), its);
	give(its);
	/* A request in a pool is served by that pool or not at all. */
	EXPECT_NO_MEMORY(
	    weir_pool_malloc(selfish, 16 * MIB, stream), WEIR_ENOMEM);
	give(live);
	give(mine);
	expect_healthy();
}

TEST(live_blocks_of_a_pool_are_compared_with_a_list)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	bool equal = false;
	const void *list[3];

	EXPECT_OK(weir_pool_check_live(pool, NULL, 0, &equal));
	EXPECT(equal);
	for (int i = 0; i < 3; i++)
		list[2 - i] = take_from(pool, (size_t)(i + 1) * MIB, stream);
	EXPECT_OK(weir_pool_check_live(pool, list, 3, &equal));
	EXPECT(equal);
	EXPECT_OK(weir_pool_check_live(pool, list, 2, &equal));
	EXPECT(!equal);
	const void *mine = take(512, stream);
	const void *four[4] = { list[0], list[1], list[2], mine };
	EXPECT_OK(weir_pool_check_live(pool, four, 4, &equal));
	EXPECT(!equal);
	give((void *)list[1]);
	EXPECT_OK(weir_pool_check_live(pool, list, 3, &equal));
	EXPECT(!equal);
	const void *two[2] = { list[0], list[2] };
	EXPECT_OK(weir_pool_check_live(pool, two, 2, &equal));
	EXPECT(equal);
	EXPECT_STATUS(weir_pool_check_live(NULL, two, 2, &equal), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_check_live(pool, NULL, 2, &equal), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_check_live(pool, two, 2, NULL), WEIR_EINVAL);
	expect_healthy();
}

/* ---- Routes ------------------------------------------------------------ */

static bool
say(weir_stream stream, void *closure)
{
	(void)stream;
	return *(bool *)closure;
}

TEST(routes_of_all_kinds_lead_to_their_pool_until_they_end)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct weir_route *route = NULL;
	bool yes = true;

	EXPECT_OK(weir_route_thread(pool, &route));
	EXPECT(is_of(pool, take(512, NULL)));
	weir_route_end(route);
	EXPECT_OK(weir_route_stream(pool, stream, &route));
	EXPECT(is_of(pool, take(512, stream)));
	EXPECT(!is_of(pool, take(512, NULL)));
	weir_route_end(route);
	EXPECT_OK(weir_route_filter(pool, say, &yes, &route));
	EXPECT(is_of(pool, take(512, stream)));
	yes = false;
	EXPECT(!is_of(pool, take(512, stream)));
	weir_route_end(route);
	EXPECT(!is_of(pool, take(512, stream)));
	EXPECT_EQ(weir_pool_use_count(pool), 1);
	expect_healthy();
}

TEST(an_invalid_route_is_refused_by_name)
{
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_route *route = NULL;
	weir_stream stream = new_stream();

	EXPECT_OK(weir_stream_destroy(stream));
	EXPECT_STATUS(weir_route_stream(pool, stream, &route), WEIR_EINVAL);
	EXPECT_STATUS(weir_route_thread(NULL, &route), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_route_thread");
	EXPECT_STATUS(weir_route_thread(pool, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_route_filter(pool, NULL, NULL, &route), WEIR_EINVAL);
	for (unsigned long nth = 1; nth <= 2; nth++) {
		meta_fail(nth, 1);
		enum weir_status status = weir_route_thread(pool, &route);
		meta_fail(0, 0);
		EXPECT_EQ(status, WEIR_EHOSTMEM);
	}
	EXPECT_NULL(route);
	EXPECT_EQ(weir_pool_use_count(pool), 1);
	EXPECT_EQ(pool->arena->private.owners, 1);
	expect_healthy();
}

/* ---- Flags that change ------------------------------------------------- */

TEST(memory_of_a_pool_that_is_kept_stays)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_KEEP);
	size_t freed = 1;
	void *block = take_from(pool, 4 * MIB, NULL);

	give(block);
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 0);
	EXPECT_EQ(trim(0), 0);
	EXPECT_EQ(take_from(pool, 4 * MIB, NULL), block);
	give(block);
	EXPECT_OK(weir_pool_flags_set(pool, WEIR_POOL_KEEP, 0));
	settle();
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 4 * MIB);
	EXPECT_OK(weir_pool_flags_set(pool, WEIR_POOL_KEEP, WEIR_POOL_KEEP));
	give(take_from(pool, 4 * MIB, NULL));
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 0);
	weir_pool_release(pool);
	settle();
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(a_pool_of_segments_is_cut_as_segments_are)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_SEGMENTS);
	struct weir_block_info info;

	take_from(pool, 12 * MIB, NULL);
	take_from(pool, 12 * MIB, NULL);
	info = info_of(take_from(pool, 100, NULL));
	EXPECT(!info.expandable);
	EXPECT_EQ(pool_stats(pool).segment.all.current, 3);
	EXPECT_EQ(pool_stats(pool).reserved_bytes.all.current, 26 * MIB);
	EXPECT(info_of(take(100, NULL)).expandable);
	expect_healthy();
}

/* Count the GPU waits of a request of 4 MiB in a pool. The limit leaves no
 * space for it beside 2 MiB of small blocks, freed on a stream that is late. */
static uint64_t
waits_beside_small_memory(unsigned flags, const struct weir_pool_source *source)
{
	struct weir_pool *pool = NULL;
	weir_stream late = new_stream();

	EXPECT_OK(weir_pool_create(0, source, flags, &pool));
	void *small = take_from(pool, 100, late);
	busy(late, LATE_MS);
	fill(small, 100, 1, late);
	give(small);
	EXPECT_OK(weir_limit_set(0, 4 * MIB));
	take_from(pool, 4 * MIB, new_stream());
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
	return pool_stats(pool).num_gpu_waits;
}

TEST(a_pool_waits_for_small_memory_only_if_a_large_block_can_use_it)
{
	EXPECT_EQ(waits_beside_small_memory(0, NULL), 1);
}

TEST(a_pool_of_segments_does_not_wait_on_the_gpu_for_memory_it_cannot_use)
{
	EXPECT_EQ(waits_beside_small_memory(WEIR_POOL_SEGMENTS, NULL), 0);
}

TEST(a_pool_that_does_not_split_does_not_wait_for_memory_it_cannot_use)
{
	EXPECT_EQ(waits_beside_small_memory(WEIR_POOL_NO_SPLIT, NULL), 0);
}

TEST(a_pool_with_a_source_does_not_wait_for_memory_it_cannot_use)
{
	EXPECT_EQ(waits_beside_small_memory(0, &own_source), 0);
}

TEST(flags_of_a_pool_change)
{
	struct weir_pool *pool = new_pool(0, 0);

	EXPECT_OK(weir_pool_flags_set(
	    pool, WEIR_POOL_USE_ON_OOM, WEIR_POOL_USE_ON_OOM));
	EXPECT_EQ(atomic_load(&pool->arena->memory.flags), ARENA_SERVES_OOM);
	EXPECT_OK(
	    weir_pool_flags_set(pool, WEIR_POOL_NO_SPLIT, WEIR_POOL_NO_SPLIT));
	EXPECT_EQ(atomic_load(&pool->arena->memory.flags),
	    ARENA_SERVES_OOM | ARENA_NO_SPLIT);
	EXPECT_OK(weir_pool_flags_set(pool, WEIR_POOL_USE_ON_OOM, 0));
	EXPECT_EQ(atomic_load(&pool->arena->memory.flags), ARENA_NO_SPLIT);
	EXPECT_STATUS(
	    weir_pool_flags_set(pool, WEIR_POOL_SEGMENTS, 0), WEIR_EINVAL);
	EXPECT_STATUS(weir_pool_flags_set(NULL, 0, 0), WEIR_EINVAL);
	weir_pool_release(pool);
	expect_healthy();
}
