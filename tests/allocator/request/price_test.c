/*
 * Waits that are worth their price: when a request makes one, and which memory
 * it gets. Times are of the simulated device.
 */
#include "allocator/request/price.h"

#include "allocator/memory/arena.h"
#include "tests/support/device.h"

enum { BLOCK = 200 * MIB, MS = 1000000 };

static uint64_t
gpu_waits(void)
{
	return stats().num_gpu_waits;
}

/* A freed block that `user` uses for some time. Enough other memory is live
 * that another block would make memory dear. */
static void *
freed_while_used(weir_stream owner, weir_stream user, unsigned ms)
{
	void *block = take(BLOCK, owner);

	record(block, user);
	busy(user, ms);
	give(block);
	return block;
}

static void
arrange(const char *options)
{
	device_need_sim("its clock stands still while nobody lets time pass");
	conf(options);
}

/* Enough time that some ms are a hundredth of it. */
static void
let_time_pass(void)
{
	take(512, new_stream());
	sim()->advance_ns((uint64_t)10000 * MS);
}

TEST(memory_behind_a_short_wait_is_used_where_new_memory_is_dear)
{
	arrange("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	let_time_pass();
	void *block = freed_while_used(a, b, 5);
	EXPECT_EQ(take(BLOCK, a), block);
	EXPECT_EQ(gpu_waits(), 1);
	EXPECT_EQ(stats().num_served_wait, 1);
	expect_healthy();
}

TEST(time_before_the_first_request_counts_for_the_budget)
{
	arrange("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	sim()->advance_ns((uint64_t)10000 * MS);
	void *block = freed_while_used(a, b, 5);
	EXPECT_EQ(take(BLOCK, a), block);
	EXPECT_EQ(gpu_waits(), 1);
	expect_healthy();
}

TEST(no_wait_is_made_where_the_program_may_not_be_delayed)
{
	arrange("tcache:0,delay_percent:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	let_time_pass();
	void *block = freed_while_used(a, b, 5);
	EXPECT_NE(take(BLOCK, a), block);
	EXPECT_EQ(gpu_waits(), 0);
	expect_healthy();
}

TEST(a_stream_that_waits_have_made_late_waits_no_more)
{
	arrange("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	let_time_pass();
	void *block = freed_while_used(a, b, 400); /* 4 % of the time */
	EXPECT_EQ(take(BLOCK, a), block);
	busy(a, 10000);
	sim()->advance_ns((uint64_t)500 * MS);
	EXPECT_EQ(gpu_waits(), 1);
	void *second = freed_while_used(a, b, 5);
	EXPECT_NE(take(BLOCK, a), second);
	EXPECT_EQ(gpu_waits(), 1);
	expect_healthy();
}

/* The forecast of the wait is 10 ms. The new block would make the held bytes a
 * twentieth more than the live ones, so a MiB is worth less than a ns. */
TEST(no_wait_is_made_that_costs_more_than_new_memory)
{
	arrange("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	let_time_pass();
	take((size_t)20 * BLOCK, a);
	void *slow = freed_while_used(a, b, 10);
	sim()->advance_ns(10 * MS);
	EXPECT_EQ(take(BLOCK, a), slow);
	void *block = freed_while_used(a, b, 10);
	EXPECT_NE(take(BLOCK, a), block);
	EXPECT_EQ(gpu_waits(), 0);
	expect_healthy();
}

TEST(the_run_behind_the_shorter_of_two_waits_is_used)
{
	arrange("tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream c = new_stream();

	let_time_pass();
	void *old = take(BLOCK, a);
	void *young = take(BLOCK, a);
	record(young, b);
	record(old, c);
	busy(b, 50);
	busy(c, 50);
	give(old);
	sim()->advance_ns(20 * MS);
	give(young);
	EXPECT_EQ(take(BLOCK, a), old);
	expect_healthy();
}
