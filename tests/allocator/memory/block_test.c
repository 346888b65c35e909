/*
 * Blocks: cutting, merging, and the right tree for each. The arena is built by
 * hand and its addresses belong to no device.
 */
#include "allocator/memory/block.h"

#include <stdlib.h>

#include "allocator/account/counters.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pool.h"
#include "base/meta.h"
#include "tests/support/breach.h"
#include "tests/support/device.h"

#define BASE ((CUdeviceptr)0x7f0000000000)

/* One segment of `arena`, all of it one block of the first stream's pool. */
static struct arena arena;
static struct stream_heap owners[3]; /* the last belongs to WEIR_STREAM_ANY */
static struct stream streams[3];
static struct segment segment;

static struct pool *
pool(int owner)
{
	return &owners[owner].pool[POOL_LARGE];
}

/* Take the arena's lock, which the test keeps to its end. */
static void
hold_arena(void)
{
	static bool held;

	if (held)
		return;
	held = true;
	lock_init(&arena.lock, LOCK_RANK_ARENA);
	lock_enter(&arena.lock);
	lock_hand_over(&arena.lock);
}

static struct block *
build(size_t size, bool expandable)
{
	struct block *block;

	hold_arena();
	list_init(&arena.memory.heaps);
	list_init(&arena.memory.segments);
	list_init(&arena.memory.having_freed);
	arena.memory.any_heap = &owners[2];
	for (int i = 0; i < 3; i++) {
		owners[i].arena = &arena;
		owners[i].stream = &streams[i];
		owners[i].blocks = 0;
		for (int kind = 0; kind < POOL_KINDS; kind++)
			list_init(&owners[i].pool[kind].freed);
		list_init(&owners[i].freed_link);
		pool(i)->owner = &owners[i];
		pool(i)->kind = POOL_LARGE;
		tree_init(
		    &pool(i)->free, TREE_KEY(struct block, node, run, addr));
		tree_init(&pool(i)->unmapped,
		    TREE_KEY(struct block, node, addr, addr));
	}
	EXPECT_OK(block_new(&arena, BASE, &block));
	segment = (struct segment){ .arena = &arena,
		.addr = BASE,
		.size = size,
		.kind = POOL_LARGE,
		.expandable = expandable,
		.first = block };
	block->size = size;
	block->segment = &segment;
	block->pool = pool(0);
	owners[0].blocks = 1;
	return block;
}

/* Cut the block off the memory after it; the rest is in no tree either. */
static struct block *
cut(struct block *block, size_t size)
{
	struct block *rest;

	EXPECT_OK(block_new(&arena, block->addr + size, &rest));
	enum block_state state = block_state(block);
	if (state == BLOCK_ACTIVE) /* of which there is no split */
		block_set_state(block, BLOCK_UNMAPPING);
	block_split(block, size, rest);
	block_set_state(block, state);
	block_set_state(rest, state);
	return rest;
}

/* Three neighbours of 4, 2 and 10 MiB, all active. */
static void
build_three(struct block *out[3], bool expandable)
{
	out[0] = build(16 * MIB, expandable);
	out[0]->state = BLOCK_ACTIVE;
	lookup_set(out[0]->addr, out[0]);
	out[1] = cut(out[0], 4 * MIB);
	out[2] = cut(out[1], 2 * MIB);
}

TEST(a_new_block_is_empty_and_its_address_ready)
{
	struct block *block;

	hold_arena();
	EXPECT_OK(block_new(&arena, BASE, &block));
	EXPECT_EQ(block->arena, &arena);
	EXPECT_EQ(block->addr, BASE);
	EXPECT_EQ(block->size, 0);
	EXPECT_NULL(block->segment);
	EXPECT_NULL(block->pool);
	EXPECT_NULL(block->pending.uses);
	EXPECT_NULL(lookup_exact(BASE));
}

TEST(a_deleted_block_is_used_again_for_blocks_of_its_arena)
{
	struct block *first;
	struct block *second;

	hold_arena();
	EXPECT_OK(block_new(&arena, BASE, &first));
	first->segment = &segment;
	first->size = 77;
	block_delete(first);
	EXPECT_NULL(first->segment);
	EXPECT_EQ(first->arena, &arena);
	EXPECT_OK(block_new(&arena, BASE + 512, &second));
	EXPECT_EQ(second, first);
	EXPECT_EQ(second->size, 0);
}

TEST(blocks_cannot_be_made_without_host_memory)
{
	struct block *block = NULL;

	hold_arena();
	EXPECT_OK(lookup_prepare(BASE));
	meta_fail(1, 1);
	EXPECT_STATUS(block_new(&arena, BASE, &block), WEIR_EHOSTMEM);
	EXPECT_NULL(block);
	meta_fail(0, 0);
	EXPECT_OK(block_new(&arena, BASE, &block));
}

TEST(a_cut_leaves_the_front_and_makes_the_rest_its_neighbour)
{
	struct block *block[3];

	build_three(block, false);
	EXPECT_EQ(block[0]->addr, BASE);
	EXPECT_EQ(block[0]->size, 4 * MIB);
	EXPECT_EQ(block[1]->addr, BASE + 4 * MIB);
	EXPECT_EQ(block[1]->size, 2 * MIB);
	EXPECT_EQ(block[2]->addr, BASE + 6 * MIB);
	EXPECT_EQ(block[2]->size, 10 * MIB);
	EXPECT_NULL(block[0]->prev);
	EXPECT_EQ(block[0]->next, block[1]);
	EXPECT_EQ(block[1]->prev, block[0]);
	EXPECT_EQ(block[1]->next, block[2]);
	EXPECT_EQ(block[2]->prev, block[1]);
	EXPECT_NULL(block[2]->next);
	EXPECT_EQ(owners[0].blocks, 3);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(block[i]->pool, pool(0));
		EXPECT_EQ(block[i]->segment, &segment);
		EXPECT_EQ(block[i]->state, BLOCK_ACTIVE);
		EXPECT_EQ(lookup_exact(block[i]->addr), block[i]);
	}
}

TEST(an_unmapped_block_has_no_address_to_be_found_by)
{
	struct block *block = build(16 * MIB, true);
	struct block *rest = cut(block, 4 * MIB);

	EXPECT_NULL(lookup_exact(block->addr));
	EXPECT_NULL(lookup_exact(rest->addr));
	block_put(rest, BLOCK_UNMAPPED);
	block_put(block, BLOCK_FREE);
	EXPECT_EQ(lookup_exact(block->addr), block);
	EXPECT_NULL(lookup_exact(rest->addr));
	block_take(block);
	block_put(block, BLOCK_UNMAPPED);
	EXPECT_NULL(lookup_exact(BASE));
	EXPECT_EQ(pool(2)->unmapped.count, 1);
	EXPECT_EQ(segment.first->size, 16 * MIB);
}

TEST(a_freed_block_merges_with_the_free_one_before_it)
{
	struct block *block[3];

	build_three(block, true);
	block_put(block[0], BLOCK_FREE);
	EXPECT_EQ(block_put(block[1], BLOCK_FREE), block[0]);
	EXPECT_EQ(block[0]->size, 6 * MIB);
	EXPECT_EQ(block[0]->next, block[2]);
	EXPECT_EQ(block[2]->prev, block[0]);
	EXPECT_NULL(lookup_exact(BASE + 4 * MIB));
	EXPECT_EQ(pool(0)->free.count, 1);
	EXPECT_EQ(owners[0].blocks, 2);
}

TEST(a_freed_block_merges_with_the_free_one_behind_it)
{
	struct block *block[3];

	build_three(block, true);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(block_put(block[1], BLOCK_FREE), block[2]);
	EXPECT_EQ(block[2]->addr, BASE + 4 * MIB);
	EXPECT_EQ(block[2]->size, 12 * MIB);
	EXPECT_EQ(block[2]->prev, block[0]);
	EXPECT_EQ(block[0]->next, block[2]);
	EXPECT_EQ(lookup_exact(BASE + 4 * MIB), block[2]);
	EXPECT_NULL(lookup_exact(BASE + 6 * MIB));
	EXPECT_EQ(pool(0)->free.count, 1);
}

TEST(a_segment_begins_with_the_block_that_its_first_one_merged_into)
{
	struct block *block[3];

	build_three(block, true);
	block_put(block[1], BLOCK_FREE);
	EXPECT_EQ(segment.first, block[0]);
	EXPECT_EQ(block_put(block[0], BLOCK_FREE), block[1]);
	EXPECT_EQ(segment.first, block[1]);
	EXPECT_EQ(block[1]->addr, BASE);
	EXPECT_NULL(block[1]->prev);
	EXPECT_EQ(lookup_exact(BASE), block[1]);
}

TEST(a_block_merged_from_equal_frees_has_the_fence_of_the_lowest)
{
	for (int first = 0; first < 2; first++) {
		struct block *block[3];
		build_three(block, true);
		for (uint64_t i = 0; i < 3; i++) {
			block[i]->freed_at = 5;
			block[i]->epoch = i + 1;
		}
		block_put(block[first], BLOCK_FREE);
		block_put(block[!first], BLOCK_FREE);
		EXPECT_EQ(block_put(block[2], BLOCK_FREE)->epoch, 1);
	}
}

TEST(a_freed_block_between_two_free_ones_makes_one_of_three)
{
	struct block *block[3];

	build_three(block, true);
	block_put(block[0], BLOCK_FREE);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(pool(0)->free.count, 2);
	EXPECT_EQ(block_put(block[1], BLOCK_FREE), block[0]);
	EXPECT_EQ(block[0]->size, 16 * MIB);
	EXPECT_NULL(block[0]->next);
	EXPECT_EQ(pool(0)->free.count, 1);
	EXPECT_EQ(owners[0].blocks, 1);
}

TEST(a_merged_block_was_last_freed_when_its_latest_part_was)
{
	struct block *block[3];

	build_three(block, true);
	block[0]->freed_at = 5;
	block[1]->freed_at = 9;
	block[2]->freed_at = 7;
	block_put(block[0], BLOCK_FREE);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(block_put(block[1], BLOCK_FREE)->freed_at, 9);
}

TEST(free_and_unmapped_neighbours_stay_two)
{
	struct block *block[3];

	build_three(block, true);
	block_put(block[1], BLOCK_UNMAPPED);
	block_put(block[0], BLOCK_FREE);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(pool(0)->free.count, 2);
	EXPECT_EQ(pool(2)->unmapped.count, 1);
	EXPECT_EQ(block[0]->next, block[1]);
}

TEST(neighbours_of_two_heaps_stay_two)
{
	struct block *block[3];

	build_three(block, true);
	block_move(block[1], pool(1));
	for (int i = 0; i < 3; i++)
		block_put(block[i], BLOCK_FREE);
	EXPECT_EQ(pool(0)->free.count, 2);
	EXPECT_EQ(pool(1)->free.count, 1);
	EXPECT_EQ(owners[0].blocks, 2);
	EXPECT_EQ(owners[1].blocks, 1);
}

/* One event covers both blocks, or they stay two: the block freed early is
 * usable early. But they serve requests together. */
TEST(neighbours_that_no_one_event_covers_stay_two_and_are_one_run)
{
	struct block *block[3];

	build_three(block, true);
	arena.memory.streams = 2;
	block[1]->epoch = 1;
	block[2]->epoch = 1;
	for (int i = 0; i < 3; i++)
		block_put(block[i], BLOCK_FREE);
	struct block *rest = block[0]->next;
	EXPECT_EQ(rest->addr, BASE + 4 * MIB);
	EXPECT_EQ(rest->size, 12 * MIB);
	EXPECT_EQ(block[0]->run, 16 * MIB);
	EXPECT_EQ(rest->run, 0);
	EXPECT_EQ(pool(0)->free.count, 1);
	block_take(block[0]);
	EXPECT_EQ(rest->run, 12 * MIB);
	EXPECT_EQ(pool(0)->free.count, 1);
	arena.memory.streams = 0;
}

TEST(complete_memory_is_part_of_the_runs_of_all_streams_beside_it)
{
	struct block *block[3];

	build_three(block, true);
	block_move(block[1], pool(2));
	block_move(block[2], pool(1));
	block_put(block[0], BLOCK_FREE);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(block[0]->run, 4 * MIB);
	EXPECT_EQ(block[2]->run, 10 * MIB);
	block_put(block[1], BLOCK_FREE);
	EXPECT_EQ(block[0]->run, 6 * MIB);
	EXPECT_EQ(block[1]->run, 2 * MIB);
	EXPECT_EQ(block[2]->run, 12 * MIB);
	struct span run = block_run(block[2]);
	EXPECT_EQ(run.first, block[1]);
	EXPECT_EQ(run.last, block[2]);
	block_take(block[1]);
	EXPECT_EQ(block[0]->run, 4 * MIB);
	EXPECT_EQ(block[2]->run, 10 * MIB);
	EXPECT_EQ(pool(2)->free.count, 0);
}

TEST(runs_are_shorter_by_the_complete_memory_that_is_cut_off_them)
{
	struct block *block[3];

	build_three(block, true);
	block_move(block[1], pool(2));
	block_move(block[2], pool(1));
	for (int i = 0; i < 3; i++)
		block_put(block[i], BLOCK_FREE);
	struct block *front = block[1];
	EXPECT_OK(pool_cut(&front, NULL, MIB));
	EXPECT_EQ(front->addr, BASE + 4 * MIB);
	EXPECT_EQ(front->size, MIB);
	EXPECT_EQ(block[0]->run, 4 * MIB);
	EXPECT_EQ(front->next->run, MIB);
	EXPECT_EQ(block[2]->run, 11 * MIB);
	EXPECT_EQ(pool(2)->free.count, 1);
}

/* Neighbours of one stream that it freed one after the other. Complete memory
 * becomes usable for others, and stays a part of the run. */
TEST(a_promoted_block_is_complete_and_stays_in_the_run_of_its_stream)
{
	struct block *block[3];

	build_three(block, true);
	arena.memory.streams = 2;
	arena.memory.several = true;
	block[1]->epoch = 1;
	block[2]->epoch = 2;
	for (int i = 0; i < 3; i++)
		block_put(block[i], BLOCK_FREE);
	EXPECT_EQ(block[0]->run, 16 * MIB);
	block_promote(block[0]); /* it stood for the run */
	EXPECT_EQ(block[0]->pool, pool(2));
	EXPECT_EQ(block[0]->run, 4 * MIB);
	EXPECT_EQ(block[1]->run, 16 * MIB);
	EXPECT_EQ(block[2]->run, 0);
	EXPECT_EQ(list_empty(&block[0]->pending.link), true);
	EXPECT_EQ(pool(0)->free.count, 1);
	EXPECT_EQ(pool(2)->free.count, 1);
	block_promote(block[1]);
	EXPECT_EQ(segment.first->size, 6 * MIB);
	EXPECT_EQ(segment.first->run, 6 * MIB);
	EXPECT_EQ(segment.first->next->run, 16 * MIB);
	EXPECT_EQ(pool(2)->free.count, 1);
	block_promote(segment.first->next);
	EXPECT_EQ(segment.first->size, 16 * MIB);
	EXPECT_EQ(segment.first->run, 16 * MIB);
	EXPECT_NULL(segment.first->next);
	EXPECT_EQ(pool(0)->free.count, 0);
	EXPECT_EQ(list_empty(&pool(0)->freed), true);
	EXPECT_EQ(owners[0].blocks, 0);
	EXPECT_EQ(owners[2].blocks, 1);
	arena.memory.streams = 0;
	arena.memory.several = false;
}

/* Streams are queried in the order of their creation, without a search for
 * their places among many. */
TEST(
    heaps_that_have_freed_are_in_the_order_of_their_making_unless_they_are_many)
{
	struct block *block[3];

	build_three(block, true);
	arena.memory.several = true;
	owners[1].index = 1;
	block_move(block[0], pool(1));
	block_put(block[0], BLOCK_FREE);
	EXPECT_EQ(heap_first_freed(&arena), &owners[1]);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(heap_first_freed(&arena), &owners[0]);
	EXPECT_EQ(heap_next_freed(&owners[0]), &owners[1]);
	EXPECT_NULL(heap_next_freed(&owners[1]));
	block_promote(block[2]);
	heap_remove_freed(&owners[0]);
	EXPECT_EQ(heap_first_freed(&arena), &owners[1]);
	arena.memory.streams = STREAMS_MANY;
	block_put(block[1], BLOCK_FREE);
	EXPECT_EQ(heap_first_freed(&arena), &owners[1]);
	EXPECT_EQ(heap_next_freed(&owners[1]), &owners[0]);
	arena.memory.streams = 0;
	arena.memory.several = false;
}

TEST(promoted_blocks_of_a_driver_segment_are_inactive_split_as_one)
{
	struct block *block[3];

	build_three(block, false);
	arena.memory.streams = 2;
	arena.memory.several = true;
	block[2]->epoch = 1;
	block_put(block[1], BLOCK_FREE);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(arena.account.stats.inactive_split.all.current, 2);
	block_promote(block[1]);
	EXPECT_EQ(arena.account.stats.inactive_split.all.current, 2);
	block_promote(block[2]);
	EXPECT_EQ(arena.account.stats.inactive_split.all.current, 1);
	EXPECT_EQ(
	    arena.account.stats.inactive_split_bytes.all.current, 12 * MIB);
	EXPECT_EQ(owners[0].stats.inactive_split.all.current, 0);
	EXPECT_EQ(owners[2].stats.inactive_split.all.current, 1);
	arena.memory.streams = 0;
	arena.memory.several = false;
}

TEST(a_moved_block_takes_its_reserved_bytes_along)
{
	struct block *block[3];

	build_three(block, true);
	stats_change(pool(0), STAT3_reserved_bytes, 16 * MIB);
	block_move(block[1], pool(1));
	EXPECT_EQ(arena.account.stats.reserved_bytes.all.current, 16 * MIB);
	EXPECT_EQ(arena.account.stats.reserved_bytes.all.allocated, 16 * MIB);
	EXPECT_EQ(owners[0].stats.reserved_bytes.all.current, 14 * MIB);
	EXPECT_EQ(owners[0].stats.reserved_bytes.large_pool.freed, 2 * MIB);
	EXPECT_EQ(owners[1].stats.reserved_bytes.all.current, 2 * MIB);
	block_move(block[1], pool(1));
	EXPECT_EQ(owners[1].stats.reserved_bytes.all.current, 2 * MIB);
}

TEST(a_free_part_of_a_driver_segment_is_inactive_split_while_it_is_a_part)
{
	struct block *block[3];

	build_three(block, false);
	block_put(block[0], BLOCK_FREE);
	EXPECT_EQ(arena.account.stats.inactive_split.all.current, 1);
	EXPECT_EQ(
	    arena.account.stats.inactive_split_bytes.all.current, 4 * MIB);
	block_put(block[2], BLOCK_FREE);
	EXPECT_EQ(arena.account.stats.inactive_split.all.current, 2);
	EXPECT_EQ(
	    arena.account.stats.inactive_split_bytes.all.current, 14 * MIB);
	block_take(block[2]);
	EXPECT_EQ(
	    arena.account.stats.inactive_split_bytes.all.current, 4 * MIB);
	block_put(block[2], BLOCK_FREE);
	block_put(block[1], BLOCK_FREE);
	EXPECT_EQ(arena.account.stats.inactive_split.all.current, 0);
	EXPECT_EQ(arena.account.stats.inactive_split_bytes.all.current, 0);
	EXPECT_EQ(arena.account.stats.inactive_split_bytes.all.peak, 14 * MIB);
}

TEST(a_block_goes_home_to_its_pool_or_to_everyone_s_when_its_stream_has_passed)
{
	struct block *block = build(16 * MIB, false);

	arena.memory.any_heap = &owners[1];
	EXPECT_EQ(block_home(block), pool(0));
	owners[0].ended = true;
	EXPECT_EQ(block_home(block), pool(0));
	owners[0].completed = true;
	EXPECT_EQ(block_home(block), pool(1));
}

/* ---- In random order --------------------------------------------------- */

enum { PIECES = 64 };

static int
pick(uint64_t *seed, int n)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((*seed >> 33) % (uint64_t)n);
}

/* Tiles the segment, links both ways, no two free neighbours. */
static void
expect_tiled(void)
{
	CUdeviceptr at = BASE;
	size_t n = 0;

	for (struct block *b = segment.first; b != NULL; b = b->next, n++) {
		EXPECT_EQ(b->addr, at);
		EXPECT(b->next == NULL || b->next->prev == b);
		EXPECT(b->next == NULL || b->state != BLOCK_FREE ||
		    b->next->state != BLOCK_FREE);
		EXPECT_EQ(lookup_exact(b->addr), b);
		at += b->size;
	}
	EXPECT_EQ(at, BASE + segment.size);
	EXPECT_EQ(n, owners[0].blocks);
	EXPECT(tree_consistent(&pool(0)->free));
}

TEST(blocks_freed_in_any_order_become_one_again)
{
	struct block *block[PIECES];

	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t random = seed;
		arena.account.stats = (struct weir_stats){ 0 };
		block[0] = build((size_t)PIECES * 512, false);
		block[0]->state = BLOCK_ACTIVE;
		lookup_set(BASE, block[0]);
		for (int i = 1; i < PIECES; i++)
			block[i] = cut(block[i - 1], 512);
		for (int left = PIECES; left > 0; left--) {
			int i = pick(&random, left);
			block_put(block[i], BLOCK_FREE);
			block[i] = block[left - 1];
			expect_tiled();
		}
		EXPECT_EQ(owners[0].blocks, 1);
		EXPECT_EQ(arena.account.stats.inactive_split.all.current, 0);
		block_take(segment.first);
		block_delete(segment.first);
	}
}

/* ---- What debug builds refuse ------------------------------------------ */

/* Expect that `breach` ends a debug build with a message. */
static void
expect_refused(void (*breach)(void), const char *message)
{
	char text[512];

	if (!ASSERT_CHECKED)
		SKIP("a release build does not check preconditions");
	int status = breach_run(breach, text, sizeof(text));
	EXPECT(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
	EXPECT_STR_HAS(text, message);
}

static void
split_active(void)
{
	struct block *block = build(16 * MIB, true);
	struct block *rest;

	block_set_state(block, BLOCK_ACTIVE);
	if (block_new(&arena, block->addr + MIB, &rest) == WEIR_OK)
		block_split(block, MIB, rest);
}

TEST(an_active_block_is_not_split)
{
	expect_refused(split_active, "block_state(block) != BLOCK_ACTIVE");
}

static void
split_past_the_end(void)
{
	struct block *block = build(16 * MIB, true);
	struct block *rest;

	if (block_new(&arena, block->addr + 16 * MIB, &rest) == WEIR_OK)
		block_split(block, 16 * MIB, rest);
}

TEST(a_split_leaves_something_on_both_sides)
{
	expect_refused(split_past_the_end, "size < block->size");
}

static void
take_active(void)
{
	struct block *block = build(16 * MIB, true);

	block_set_state(block, BLOCK_ACTIVE);
	block_take(block);
}

TEST(an_active_block_is_in_no_pool_to_be_taken_from)
{
	expect_refused(take_active, "block.c");
}

static void
put_without_the_lock(void)
{
	struct block *block = build(16 * MIB, true);

	lock_take_over(&arena.lock);
	lock_leave(&arena.lock);
	block_put_free(block);
}

TEST(a_block_is_not_put_without_the_lock_of_its_arena)
{
	expect_refused(put_without_the_lock, "LOCK_RANK_ARENA");
}
