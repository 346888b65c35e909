/*
 * Note [Remapping] and Note [Addresses]: where a request is served, and which
 * memory is moved there.
 */
#include "allocator/memory/remap_plan.h"

#include "tests/support/device.h"

/* No memory is new as long as any can be moved, even if that is more. */
TEST(a_larger_piece_is_moved_rather_than_a_new_one_made)
{
	weir_stream a = new_stream();
	char *idle[2];

	take_apart(idle, 2, 8 * MIB, a);
	give(idle[0]);
	give(idle[1]);
	char *whole = take(10 * MIB, a);
	EXPECT_EQ(reserved(), 20 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 16 * MIB);
	/* The surplus serves the next request. */
	EXPECT_EQ(take(6 * MIB, a), whole + 10 * MIB);
	EXPECT_EQ(reserved(), 20 * MIB);
	expect_healthy();
}

TEST(free_memory_in_place_is_part_of_the_memory_that_is_mapped_together)
{
	weir_stream a = new_stream();
	char *first = take(4 * MIB, a);
	char *live = take(2 * MIB, a);
	char *last = take(6 * MIB, a);

	give(first);
	give(last); /* at the end, where it can grow */
	EXPECT_EQ(take(10 * MIB, a), last);
	EXPECT_EQ(reserved(), 12 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 4 * MIB);
	give(live);
	expect_healthy();
}

/* A hole that no free piece fits into takes new memory, and the holes behind it
 * take the pieces that fit them. */
TEST(a_hole_that_is_too_small_for_a_piece_leaves_it_to_the_next_hole)
{
	weir_stream a = new_stream();
	size_t freed = 0;

	conf("tcache:0");
	char *small_hole = take(2 * MIB, a);
	char *between = take(4 * MIB, a);
	char *large_hole = take(8 * MIB, a);
	take(2 * MIB, a);
	char *piece = take(8 * MIB, a);
	take(2 * MIB, a);
	give(small_hole);
	give(large_hole);
	finish(a);
	EXPECT_OK(weir_trim(0, 0, &freed));
	EXPECT_EQ(freed, 10 * MIB);
	give(between);
	give(piece);
	EXPECT_EQ(take(14 * MIB, a), small_hole);
	EXPECT_EQ(stats().remapped_bytes, 8 * MIB);
	EXPECT_EQ(reserved(), 18 * MIB);
	fill(small_hole, 14 * MIB, 1, a);
	expect_filled(small_hole, 14 * MIB, 1, a);
	expect_healthy();
}

/* The run that needs the fewest new bytes begins with addresses and ends with a
 * part of free memory. That part could not be moved then, and the limit has no
 * space for new memory. */
TEST(a_run_does_not_prevent_moving_memory)
{
	weir_stream a = new_stream();
	size_t freed = 0;

	conf("tcache:0,handle_mb:2");
	char *gone = take(24 * MIB, a);
	char *idle = take(32 * MIB, a);
	take(2 * MIB, a);
	give(gone);
	finish(a);
	EXPECT_OK(weir_trim(0, 0, &freed));
	EXPECT_EQ(freed, 24 * MIB);
	EXPECT_OK(weir_limit_set(0, 42 * MIB));
	busy(a, LATE_MS);
	give(idle);
	char *whole = take(40 * MIB, a);
	EXPECT(!is_done(a));
	EXPECT_EQ(stats().num_host_waits, 0);
	EXPECT_EQ(stats().remapped_bytes, 32 * MIB);
	EXPECT_EQ(reserved(), 42 * MIB);
	fill(whole, 40 * MIB, 1, a);
	expect_filled(whole, 40 * MIB, 1, a);
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	expect_healthy();
}

TEST(addresses_are_reserved_once_for_all_streams)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	device_need_sim("calls are counted");
	conf("tcache:0");
	char *ptr = take(30 * MIB, a);
	EXPECT_EQ(sim()->calls("cuMemAddressReserve"), 1);
	busy(a, LATE_MS);
	give(ptr);
	take(20 * MIB, b);
	EXPECT_EQ(sim()->calls("cuMemAddressReserve"), 1);
	EXPECT_EQ(sim()->calls("cuMemAddressFree"), 0);
	expect_healthy();
}

/* With prefer:memory a stream grows the block that another has freed last. */
TEST(memory_grows_where_another_streams_memory_ends)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf("prefer:memory,tcache:0");
	char *first = take(8 * MIB, a);
	char *second = take(8 * MIB, b);
	EXPECT_EQ(second, first + 8 * MIB);
	give(second);
	finish(b);
	EXPECT_EQ(take(12 * MIB, a), second);
	EXPECT_EQ(reserved(), 20 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 0);
	fill(second, 12 * MIB, 1, a);
	expect_filled(second, 12 * MIB, 1, a);
	expect_healthy();
}
