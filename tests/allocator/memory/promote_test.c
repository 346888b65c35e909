/*
 * Free memory becomes every stream's in portions: no request lists or moves all
 * blocks of a stream that has freed very many, and in the end all are found.
 */
#include "allocator/memory/promote.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "tests/support/device.h"

enum { BLOCKS = 5000, SIZE = 2 << 10 };

static char *blocks[2 * BLOCKS];

/* Allocate blocks, and free every second one of them. */
static void
leave_pieces(weir_stream stream)
{
	for (int i = 0; i < 2 * BLOCKS; i++)
		blocks[i] = take(SIZE, stream);
	for (int i = 0; i < 2 * BLOCKS; i += 2)
		give(blocks[i]);
}

static struct stream_heap *
heap_of(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr)->pool->owner;
}

/* Blocks of the piece's heap that are free but not every stream's. */
static size_t
left_with(const void *ptr)
{
	return heap_of(ptr)->pool[POOL_SMALL].free.count;
}

static bool
is_behind(void)
{
	struct arena *arena = arena_peek(0);

	lock_enter(&arena->lock);
	bool behind = arena->memory.behind;
	lock_leave(&arena->lock);
	return behind;
}

TEST(a_second_stream_gets_the_first_ones_many_pieces_in_portions)
{
	conf("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	leave_pieces(a);
	finish(a);
	uint64_t held = reserved();
	take(SIZE, b);
	EXPECT_GT(left_with(blocks[1]), BLOCKS / 2);
	EXPECT_EQ(is_behind(), true);
	expect_healthy();
	for (int i = 1; i < BLOCKS; i++)
		take(SIZE, b);
	EXPECT_LT(left_with(blocks[1]), 512);
	EXPECT_EQ(reserved(), held);
	expect_healthy();
}

TEST(the_largest_memory_of_a_first_stream_with_many_pieces_comes_first)
{
	conf("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	char *large = take((size_t)40 * MIB, a);

	leave_pieces(a);
	give(large);
	finish(a);
	EXPECT_EQ(take((size_t)40 * MIB, b), large);
	EXPECT_EQ(is_behind(), true);
	expect_healthy();
}

TEST(a_stream_that_goes_on_while_its_memory_is_listed_keeps_all_in_place)
{
	conf("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	leave_pieces(a);
	busy(a, LATE_MS);
	take(SIZE, b);
	EXPECT_EQ(is_behind(), true);
	/* Runs rise, fall and join while they are not listed yet. */
	for (int i = 1; i < 200; i += 4) {
		give(blocks[i]);
		take(SIZE / 2, a);
		expect_healthy();
	}
	for (int i = 3; i < 200; i += 4)
		give(blocks[i]);
	expect_healthy();
	finish(a);
	uint64_t held = reserved();
	for (int i = 0; i < BLOCKS / 2; i++)
		take(SIZE, b);
	EXPECT_EQ(reserved(), held);
	expect_healthy();
}

TEST(trim_gives_back_all_memory_of_a_stream_with_very_many_pieces)
{
	conf("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	leave_pieces(a);
	give(take(SIZE, b));
	EXPECT_EQ(is_behind(), true);
	for (int i = 1; i < 2 * BLOCKS; i += 2)
		give(blocks[i]);
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

/* A request without a stream finds complete memory in one place only. */
TEST(a_request_without_a_stream_gets_all_complete_memory)
{
	conf("tcache:0,expandable_segments:False");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	leave_pieces(a);
	take(SIZE, b);
	finish(a);
	finish(b);
	uint64_t held = reserved();
	for (int i = 0; i < BLOCKS - 1; i++)
		take(SIZE, WEIR_STREAM_ANY);
	EXPECT_EQ(reserved(), held);
	expect_healthy();
}

/* Free blocks of two streams in turn: none is large, and all of each piece from
 * the driver is free. `kept`: but for one block in so many. */
static void
leave_pieces_of_two(weir_stream a, weir_stream b, int kept)
{
	for (int i = 0; i < 2 * BLOCKS; i++)
		blocks[i] = take(SIZE, i % 2 == 0 ? a : b);
	take(MIB, a);
	for (int i = 0; i < 2 * BLOCKS; i++)
		if (i % kept != kept - 1)
			give(blocks[i]);
	finish(a);
	finish(b);
	EXPECT_OK(weir_limit_set(0, reserved()));
}

TEST(a_request_gets_memory_whose_pieces_are_of_two_streams)
{
	conf("tcache:0,expandable_segments:False");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	leave_pieces_of_two(a, b, 4 * BLOCKS);
	take(12 * MIB, new_stream());
	EXPECT_EQ(stats().num_ooms, 0);
	expect_healthy();
}

TEST(a_request_that_fails_does_not_move_all_pieces)
{
	conf("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	leave_pieces_of_two(a, b, 4);
	EXPECT_NO_MEMORY(weir_malloc(8 * MIB, c), WEIR_ENOMEM);
	EXPECT_EQ(is_behind(), true);
	EXPECT_GT(left_with(blocks[3]), BLOCKS / 4);
	expect_healthy();
}
