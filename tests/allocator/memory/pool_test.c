/*
 * Best fit: the smallest free block of one stream and kind that is large
 * enough; among equal ones, the lowest; the rest of it stays free.
 */
#include "allocator/memory/pool.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "base/meta.h"
#include "tests/support/device.h"

/* Blocks of so many MiB, in address order, with a live block of 2 MiB after
 * each, so that they do not merge once freed. */
static void
take_sizes_apart(void **out, const unsigned *mib, int n)
{
	for (int i = 0; i < n; i++) {
		out[i] = take((size_t)mib[i] * MIB, NULL);
		take(2 * MIB, NULL);
	}
	for (int i = 1; i < n; i++)
		EXPECT_GT(out[i], out[i - 1]);
}

static void
give_all(void **blocks, int n)
{
	for (int i = 0; i < n; i++)
		give(blocks[i]);
}

TEST(the_smallest_block_that_fits_is_taken)
{
	void *block[3];

	take_sizes_apart(block, (unsigned[]){ 8, 4, 6 }, 3);
	give_all(block, 3);
	EXPECT_EQ(take(3 * MIB, NULL), block[1]);
	EXPECT_EQ(take(5 * MIB, NULL), block[2]);
	EXPECT_EQ(take(7 * MIB, NULL), block[0]);
	expect_healthy();
}

TEST(the_lowest_of_equal_blocks_is_allocated_whatever_was_freed_first)
{
	void *block[3];

	take_sizes_apart(block, (unsigned[]){ 4, 4, 4 }, 3);
	give(block[1]);
	give(block[2]);
	give(block[0]);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(take(4 * MIB, NULL), block[i]);
	expect_healthy();
}

TEST(the_rest_of_a_block_serves_the_next_request)
{
	char *block[1];

	take_sizes_apart((void **)block, (unsigned[]){ 8 }, 1);
	give(block[0]);
	EXPECT_EQ(take(2 * MIB, NULL), block[0]);
	EXPECT_EQ(take(5 * MIB, NULL), block[0] + 2 * MIB);
	expect_healthy();
}

TEST(a_block_that_cannot_grow_is_preferred_to_one_that_can)
{
	void *inner[1];
	uint64_t reserved;

	take_sizes_apart(inner, (unsigned[]){ 6 }, 1);
	void *last = take(4 * MIB, NULL);
	give(inner[0]);
	give(last);
	EXPECT_EQ(take(4 * MIB, NULL), inner[0]);
	/* The last block can still grow. */
	reserved = stats().reserved_bytes.all.current;
	EXPECT_EQ(take(10 * MIB, NULL), last);
	EXPECT_EQ(stats().reserved_bytes.all.current, reserved + 6 * MIB);
	expect_healthy();
}

TEST(small_requests_are_cut_from_separate_blocks)
{
	conf("tcache:0");
	char *a = take(100, NULL);
	char *b = take(513, NULL);
	char *c = take(512, NULL);

	EXPECT_EQ(b, a + 512);
	EXPECT_EQ(c, b + 1024);
	give(b);
	EXPECT_EQ(take(600, NULL), b);
	give(b);
	EXPECT_EQ(take(1, NULL), b);
	EXPECT_EQ(take(1, NULL), b + 512);
	expect_healthy();
}

TEST(small_and_large_requests_do_not_share_blocks)
{
	char *large = take(8 * MIB, NULL);
	char *small = take(512, NULL);

	give(large);
	EXPECT(small < large || small >= large + 8 * MIB);
	small = take(MIB, NULL);
	EXPECT(small < large || small >= large + 8 * MIB);
	give(small);
	EXPECT_EQ(take(MIB + 1, NULL), large);
	expect_healthy();
}

TEST(streams_do_not_take_each_other_s_blocks_before_their_work_is_done)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *of_a = take(4 * MIB, a);

	busy(a, LATE_MS);
	give(of_a);
	EXPECT_NE(take(4 * MIB, b), of_a);
	EXPECT_NE(take(4 * MIB, NULL), of_a);
	EXPECT(!is_done(a));
	EXPECT_EQ(take(4 * MIB, a), of_a);
	expect_healthy();
}

TEST(streams_take_each_other_s_blocks_once_their_work_is_done)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *of_a = take(4 * MIB, a);

	take(512, b); /* small blocks need no more memory later */
	busy(a, 1);
	give(of_a);
	void *of_b = take(4 * MIB, b); /* fences the other stream */
	EXPECT_NE(of_b, of_a);
	finish(a);
	EXPECT_EQ(take(4 * MIB, b), of_a);
	EXPECT_EQ(info_of(of_a).stream, b);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	EXPECT_EQ(stats().num_host_waits, 0);
	expect_healthy();
}

TEST(a_freed_block_serves_its_stream_again_with_no_call_to_the_driver)
{
	weir_stream stream = new_stream();
	void *block = take(4 * MIB, stream);

	give(block);
	EXPECT_EQ(take(4 * MIB, stream), block);
	give(block);
	device_need_sim("counts the driver's calls");
	sim()->reset();
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(take(4 * MIB, stream), block);
		give(block);
	}
	EXPECT_EQ(sim()->calls("cuMemCreate"), 0);
	EXPECT_EQ(sim()->calls("cuMemMap"), 0);
	EXPECT_EQ(sim()->calls("cuStreamSynchronize"), 0);
	EXPECT_EQ(sim()->calls("cuEventSynchronize"), 0);
	EXPECT_EQ(sim()->calls("cuEventRecord"), 0);
}

TEST(the_largest_free_block_of_a_stream_is_returned)
{
	weir_stream stream = new_stream();
	void *block[2];
	size_t bytes = 1;

	EXPECT_OK(weir_largest_free(0, stream, &bytes));
	EXPECT_EQ(bytes, 0);
	take_sizes_apart(block, (unsigned[]){ 4, 10 }, 2);
	busy(NULL, LATE_MS); /* so that the other stream has separate memory */
	give_all(block, 2);
	EXPECT_OK(weir_largest_free(0, NULL, &bytes));
	EXPECT_EQ(bytes, 10 * MIB);
	EXPECT_OK(weir_largest_free(0, stream, &bytes));
	EXPECT_EQ(bytes, 0);
	give(take(512, stream));
	EXPECT_OK(weir_largest_free(0, stream, &bytes));
	EXPECT_EQ(bytes, 2 * MIB);
	EXPECT_STATUS(weir_largest_free(0, stream, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_largest_free(77, NULL, &bytes), WEIR_ENODEVICE);
	EXPECT_EQ(bytes, 2 * MIB);
}

TEST(a_block_that_cannot_be_cut_for_want_of_host_memory_stays_as_it_was)
{
	void *block[1];

	take_sizes_apart(block, (unsigned[]){ 8 }, 1);
	give(block[0]);
	struct weir_stats before = stats();
	arena_peek(0)->memory.spare = NULL; /* as if all had been used */
	meta_fail(1, 1);
	EXPECT_NO_MEMORY(weir_malloc(4 * MIB, NULL), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(
	    stats().active_bytes.all.current, before.active_bytes.all.current);
	EXPECT_EQ(stats().reserved_bytes.all.current,
	    before.reserved_bytes.all.current);
	expect_healthy();
	EXPECT_EQ(take(4 * MIB, NULL), block[0]);
}

/* Cut 8 MiB out of the middle of a free block of 30 MiB. */
static enum weir_status
cut_middle(char *free_block, struct block **out)
{
	struct block *block = lookup_exact((CUdeviceptr)(uintptr_t)free_block);
	const struct options *options;

	EXPECT_OK(options_get(&options));
	lock_enter(&block->arena->lock);
	enum weir_status status = pool_cut_span((struct span){ block, block },
	    block->addr + 4 * MIB, block->pool, options, 8 * MIB, out);
	lock_leave(&block->arena->lock);
	return status;
}

/* Expect the cut to fail for want of a record, the nth that it needs. */
static void
expect_no_record(char *free_block, int n)
{
	struct arena *arena = arena_peek(0);
	struct block *spare = arena->memory.spare;
	struct block *others = spare->next;
	struct block *block;

	arena->memory.spare = n == 1 ? NULL : spare;
	spare->next = NULL;
	meta_fail(1, 1);
	EXPECT_STATUS(cut_middle(free_block, &block), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(arena->memory.spare, n == 1 ? NULL : spare);
	EXPECT_NULL(spare->next);
	spare->next = others;
	arena->memory.spare = spare;
	expect_healthy();
}

TEST(a_block_is_cut_out_of_the_middle_of_a_free_one)
{
	conf("tcache:0"); /* else a freed block is kept, and not FREE */
	char *whole = take(30 * MIB, NULL);
	struct block *block;

	take(2 * MIB, NULL);
	give(whole);
	EXPECT_OK(lookup_prepare((CUdeviceptr)(uintptr_t)whole + 4 * MIB));
	EXPECT_OK(lookup_prepare((CUdeviceptr)(uintptr_t)whole + 12 * MIB));
	expect_no_record(whole, 1);
	expect_no_record(whole, 2);
	EXPECT_EQ(lookup_exact((CUdeviceptr)(uintptr_t)whole)->size, 30 * MIB);
	EXPECT_OK(cut_middle(whole, &block));
	EXPECT_EQ(block->addr, (CUdeviceptr)(uintptr_t)whole + 4 * MIB);
	EXPECT_EQ(block->size, 8 * MIB);
	EXPECT_EQ(block_state(block), BLOCK_ACTIVE);
	EXPECT_EQ(block->prev->size, 4 * MIB);
	EXPECT_EQ(block_state(block->prev), BLOCK_FREE);
	EXPECT_EQ(block->next->size, 18 * MIB);
	EXPECT_EQ(block_state(block->next), BLOCK_FREE);
	/* The parts serve requests. */
	EXPECT_EQ(take(4 * MIB, NULL), whole);
	EXPECT_EQ(take(18 * MIB, NULL), whole + 12 * MIB);
}

/* ---- Segments of the driver -------------------------------------------- */

TEST(driver_segments_are_cut_by_the_remainder_rule)
{
	conf("expandable_segments:False");
	char *a = take(4 * MIB, NULL); /* makes a segment of 20 MiB */
	char *b = take(3 * MIB, NULL);
	EXPECT_EQ(b, a + 4 * MIB);
	/* 13 MiB are left. Cutting 12 would leave 1 MiB, which is too little
	 * to keep, so all of it is handed out. */
	char *c = take(9 * MIB, NULL);
	EXPECT_EQ(c, b + 3 * MIB);
	give(c);
	EXPECT_EQ(take(12 * MIB, NULL), c);
	EXPECT_EQ(info_of(c).size, 13 * MIB);
	give(c);
	EXPECT_EQ(take(12 * MIB - 512, NULL), c);
	EXPECT_EQ(info_of(c).size, 12 * MIB - 512);
	expect_healthy();
}

TEST(large_blocks_are_kept_for_large_requests_by_max_split_size)
{
	conf("expandable_segments:False,max_split_size_mb:200,"
	     "max_non_split_rounding_mb:20");
	void *big = take((size_t)250 * MIB, NULL);
	give(big);
	void *other = take((size_t)150 * MIB, NULL);
	EXPECT_NE(other, big);
	give(other);
	/* 230 MiB and 20 of rounding do not reach 250: strictly less. */
	other = take((size_t)230 * MIB, NULL);
	EXPECT_NE(other, big);
	EXPECT_EQ(info_of(other).size, (size_t)230 * MIB);
	void *same = take((size_t)231 * MIB, NULL);
	EXPECT_EQ(same, big);
	EXPECT_EQ(info_of(same).size, (size_t)250 * MIB);
	give(same);
	EXPECT_EQ(take((size_t)250 * MIB, NULL), big);
	expect_healthy();
}

TEST(blocks_below_max_split_size_are_cut)
{
	conf("expandable_segments:False,max_split_size_mb:200");
	char *block = take((size_t)198 * MIB, NULL);
	give(block);
	EXPECT_EQ(take((size_t)50 * MIB, NULL), block);
	EXPECT_EQ(info_of(block).size, (size_t)50 * MIB);
	EXPECT_EQ(take((size_t)100 * MIB, NULL), block + (size_t)50 * MIB);
	expect_healthy();
}

/* The driver's segment for it is rounded up to max_split_size itself. */
TEST(a_request_just_below_max_split_size_is_served)
{
	conf("expandable_segments:False,max_split_size_mb:20");
	void *block = take(20 * MIB - 512, NULL);
	EXPECT_GE(info_of(block).size, 20 * MIB - 512);
	give(block);
	expect_healthy();
	give(take(19 * MIB, NULL));
	expect_healthy();
}

TEST(turning_expandable_segments_off_and_on_keeps_held_memory_in_use)
{
	void *expandable = take(4 * MIB, NULL);

	EXPECT(info_of(expandable).expandable);
	conf("expandable_segments:False");
	void *plain = take(4 * MIB, NULL);
	EXPECT(!info_of(plain).expandable);
	give(expandable);
	give(plain);
	expect_healthy();
	EXPECT_EQ(take(20 * MIB, NULL), plain);
	EXPECT_EQ(take(4 * MIB, NULL), expandable);
	give(plain);
	conf("expandable_segments:True");
	EXPECT_EQ(take(20 * MIB, NULL), plain);
	EXPECT(info_of(take((size_t)40 * MIB, NULL)).expandable);
	expect_healthy();
}
