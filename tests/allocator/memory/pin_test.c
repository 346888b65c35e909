/*
 * Pinned pages keep their place, also after their block was freed: they are not
 * moved, not unmapped and not given back.
 */
#include "allocator/memory/pin.h"

#include "allocator/allocator.h"
#include "allocator/private/arenas.h"
#include "tests/support/arena.h"
#include "tests/support/device.h"

/* ---- Staying ----------------------------------------------------------- */

TEST(pinned_pages_do_not_go_back_before_they_are_unpinned)
{
	weir_stream a = new_stream();
	size_t freed;

	conf("tcache:0,handle_mb:20");
	char *block = take(8 * MIB, a);
	char *other = take(8 * MIB, a);
	EXPECT_OK(weir_pin(block));
	fill(block, 8 * MIB, 7, a);
	give(block);
	give(other);
	freed = trim(0);
	EXPECT_EQ(freed, 8 * MIB);
	EXPECT_EQ(reserved(), 8 * MIB);
	expect_healthy();
	/* The memory can be used as any other. */
	EXPECT(take(8 * MIB, a) == block);
	expect_filled(block, 8 * MIB, 7, a);
	give(block);
	EXPECT_OK(weir_unpin(block));
	freed = trim(0);
	EXPECT_EQ(freed, 8 * MIB);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

/* A piece of 8 MiB lies under the block in part. */
TEST(a_piece_that_a_pinned_block_touches_stays_as_a_whole)
{
	weir_stream a = new_stream();
	size_t freed;

	conf("tcache:0,handle_mb:40");
	char *first = take(8 * MIB, a);
	char *pinned = take(2 * MIB, a);
	char *rest = take(6 * MIB, a);
	EXPECT_OK(weir_pin(pinned));
	give(first);
	give(pinned);
	give(rest);
	uint64_t held = reserved();
	freed = trim(0);
	EXPECT_GE(freed, 8 * MIB);
	EXPECT_GE(reserved(), 2 * MIB);
	EXPECT_EQ(reserved(), held - freed);
	EXPECT_OK(weir_unpin(pinned));
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(pages_on_both_sides_of_pinned_ones_go_back)
{
	weir_stream a = new_stream();
	char *block[5];
	size_t freed;

	conf("tcache:0");
	for (int i = 0; i < 5; i++)
		block[i] = take(4 * MIB, a);
	EXPECT_OK(weir_pin(block[1]));
	for (int i = 0; i < 5; i++)
		give(block[i]);
	freed = trim(0);
	EXPECT_EQ(freed, 16 * MIB);
	EXPECT_EQ(reserved(), 4 * MIB);
	expect_healthy();
	EXPECT_OK(weir_unpin(block[1]));
}

TEST(pinned_pages_are_not_mapped_elsewhere)
{
	weir_stream a = new_stream();
	char *idle[4];

	conf("tcache:0");
	take_apart(idle, 4, 4 * MIB, a);
	EXPECT_OK(weir_pin(idle[1]));
	for (int i = 0; i < 4; i++)
		give(idle[i]);
	take(16 * MIB, a);
	EXPECT_EQ(stats().remapped_bytes, 12 * MIB);
	EXPECT_EQ(reserved(), 28 * MIB);
	EXPECT(take(4 * MIB, a) == idle[1]);
	expect_healthy();
	EXPECT_OK(weir_unpin(idle[1]));
}

TEST(a_request_fails_rather_than_take_pinned_pages)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	char *block = take(4 * MIB, a);
	take(2 * MIB, a);
	EXPECT_OK(weir_pin(block));
	give(block);
	EXPECT_OK(weir_limit_set(0, reserved()));
	EXPECT_NULL(weir_malloc(6 * MIB, a));
	EXPECT_STATUS(weir_last_status(), WEIR_ENOMEM);
	expect_healthy();
	EXPECT_OK(weir_unpin(block));
	EXPECT_NULL(weir_malloc(6 * MIB, a)); /* 2 MiB are live */
	EXPECT_OK(weir_limit_set(0, 8 * MIB));
	EXPECT_NOT_NULL(weir_malloc(6 * MIB, a));
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

TEST(a_driver_segment_with_a_pin_does_not_go_back)
{
	size_t freed;

	conf("tcache:0");
	char *block = take(32 * MIB, WEIR_STREAM_ANY);
	EXPECT_OK(weir_pin(block));
	give(block);
	settle();
	freed = trim(0);
	EXPECT_EQ(freed, 0);
	expect_healthy();
	EXPECT_OK(weir_unpin(block));
	freed = trim(0);
	EXPECT_EQ(freed, 32 * MIB);
	expect_healthy();
}

/* ---- Counting ---------------------------------------------------------- */

TEST(pins_count)
{
	weir_stream a = new_stream();
	size_t freed;

	conf("tcache:0");
	char *block = take(4 * MIB, a);
	EXPECT_OK(weir_pin(block));
	EXPECT_OK(weir_pin(block));
	give(block);
	EXPECT_OK(weir_unpin(block));
	freed = trim(0);
	EXPECT_EQ(freed, 0);
	EXPECT_OK(weir_unpin(block));
	freed = trim(0);
	EXPECT_EQ(freed, 4 * MIB);
	EXPECT_STATUS(weir_unpin(block), WEIR_EINVAL);
	expect_healthy();
}

TEST(a_longer_block_at_the_same_address_is_pinned_as_a_whole)
{
	weir_stream a = new_stream();
	size_t freed;

	conf("tcache:0,handle_mb:20");
	char *block = take(4 * MIB, a);
	EXPECT_OK(weir_pin(block));
	give(block);
	EXPECT(take(8 * MIB, a) == block);
	EXPECT_OK(weir_pin(block));
	give(block);
	expect_healthy();
	EXPECT_OK(weir_unpin(block));
	freed = trim(0);
	EXPECT_EQ(freed, 0);
	EXPECT_OK(weir_unpin(block));
	freed = trim(0);
	EXPECT_EQ(freed, 8 * MIB);
	expect_healthy();
}

/* ---- What is refused --------------------------------------------------- */

TEST(only_live_blocks_are_pinned)
{
	weir_stream a = new_stream();
	char *block = take(4 * MIB, a);
	char here;

	EXPECT_STATUS(weir_pin(NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_pin(&here), WEIR_EINVAL);
	EXPECT_STATUS(weir_pin(block + 512), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_pin(0x");
	give(block);
	EXPECT_STATUS(weir_pin(block), WEIR_EINVAL);
	EXPECT_STATUS(weir_unpin(block), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_unpin(0x");
	EXPECT_STATUS(weir_unpin(NULL), WEIR_EINVAL);
	expect_healthy();
}

/* ---- Other arenas ------------------------------------------------------ */

TEST(an_arena_that_nobody_owns_keeps_its_pinned_pages_until_they_are_unpinned)
{
	weir_stream a = new_stream();
	struct arena *arena;
	void *block;

	EXPECT_OK(arena_make(main_arena(), NULL, 0, &arena));
	EXPECT_OK(allocator_malloc_in(arena, 8 * MIB, a, &block));
	EXPECT_OK(weir_pin(block));
	give(block);
	arena_drop(arena);
	EXPECT(arena->private.in_use);
	EXPECT_EQ(reserved(), 8 * MIB);
	expect_healthy();
	EXPECT_OK(weir_unpin(block));
	EXPECT(!arena->private.in_use);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}
