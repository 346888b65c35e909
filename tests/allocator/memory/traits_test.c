/*
 * Traits: which memory has which, and that an arena keeps the traits of its
 * creation. The effect of each trait is tested where it is read.
 */
#include "allocator/memory/traits.h"

#include <string.h>

#include <weir/graph.h>
#include <weir/host.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/source.h"
#include "allocator/private/arenas.h"
#include "tests/support/arena.h"

static const struct traits *const tables[] = { &traits_expandable,
	&traits_segments, &traits_page_locked, &traits_host_mapped };
enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

static const char *
name_of(const void *ptr)
{
	struct block *block = lookup_exact((CUdeviceptr)(uintptr_t)ptr);

	EXPECT_NOT_NULL(block);
	return block->arena->traits.name;
}

static struct arena *
make(const struct source *source)
{
	struct arena *arena = NULL;

	EXPECT_OK(arena_make(main_arena(), source, 0, &arena));
	return arena;
}

TEST(each_table_has_a_unique_name)
{
	for (int i = 0; i < TABLES; i++)
		for (int k = 0; k < i; k++)
			EXPECT(strcmp(tables[i]->name, tables[k]->name) != 0);
}

/* decay_is_due() takes the rest of a division by a mask. */
TEST(decay_comes_once_in_a_power_of_two_of_requests)
{
	for (int i = 0; i < TABLES; i++) {
		unsigned n = tables[i]->decay_requests;

		EXPECT_GT(n, 0);
		EXPECT_EQ(n & (n - 1), 0);
	}
}

TEST(driver_segments_differ_from_expandable_ones_in_mapping_alone)
{
	const struct traits *a = &traits_expandable;
	const struct traits *b = &traits_segments;

	EXPECT(a->can_map && !b->can_map);
	EXPECT_EQ(a->is_page_locked, b->is_page_locked);
	EXPECT_EQ(a->account, b->account);
	EXPECT_EQ(a->has_streams, b->has_streams);
	EXPECT_EQ(a->is_observed, b->is_observed);
	EXPECT_EQ(a->has_rounding, b->has_rounding);
	EXPECT_EQ(a->small_max, b->small_max);
	EXPECT_EQ(a->is_bounded, b->is_bounded);
	EXPECT_EQ(a->has_idle_limit, b->has_idle_limit);
	EXPECT_EQ(a->decay_requests, b->decay_requests);
	EXPECT_EQ(a->drains_caches, b->drains_caches);
	EXPECT_EQ(a->refills_caches, b->refills_caches);
}

TEST(each_memory_has_the_traits_of_its_source)
{
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_pool *segments = new_pool(0, WEIR_POOL_SEGMENTS);
	const char *own = name_of(take(512, NULL));

	EXPECT_STR_EQ(own, traits_expandable.name);
	EXPECT_STR_EQ(name_of(take_from(pool, 512, NULL)), own);
	EXPECT_STR_EQ(
	    name_of(take_from(segments, 512, NULL)), traits_segments.name);
	EXPECT_STR_EQ(name_of(weir_host_malloc(512)), traits_host_mapped.name);
	conf("pinned_source:system");
	EXPECT_STR_EQ(name_of(weir_host_malloc(512)), traits_page_locked.name);
	expect_healthy();
}

/* The option is read at each request, so it is no trait. */
TEST(the_option_expandable_segments_changes_no_traits)
{
	conf("expandable_segments:False");
	void *ptr = take(512, NULL);
	EXPECT_STR_EQ(name_of(ptr), traits_expandable.name);
	EXPECT(!info_of(ptr).expandable);
	expect_healthy();
}

/* Traits are read without a lock, so an arena's never change. */
TEST(an_arena_out_of_use_serves_memory_of_the_same_traits_only)
{
	struct arena *mapped = make(NULL);

	arena_drop(mapped);
	EXPECT(!mapped->private.in_use);
	struct arena *segments = make(&source_driver);
	EXPECT_NE(segments, mapped);
	EXPECT_STR_EQ(segments->traits.name, traits_segments.name);
	EXPECT_EQ(make(NULL), mapped);
	arena_drop(segments);
	EXPECT_EQ(make(&source_driver), segments);
	expect_healthy();
}
