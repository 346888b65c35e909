/*
 * Note [Decay]: memory that has not been used for `decay_ms` goes back, used
 * memory stays, and a program that needs the memory again does not map it again
 * and again. The tests let time pass.
 */
#include "allocator/request/decay.h"

#include "base/os.h"
#include "tests/support/device.h"

static const uint64_t second = 1000000000;
static const uint64_t hour = 3600 * second;

static const char options[] = "tcache:0,handle_mb:64,decay_ms:3600000";

/* Let time pass, and make as many requests as there are between two
 * inspections; and again, because the second inspection finds done what the
 * first has fenced, if the device is not slow. */
static void
wait_for(uint64_t ns, weir_stream stream)
{
	os_time_skip(ns);
	for (int look = 0; look < 3; look++) {
		EXPECT_OK(weir_stream_synchronize(stream));
		for (int i = 0; i < 64; i++)
			give(take(512, stream));
	}
}

TEST(memory_that_has_not_been_used_for_the_time_goes_back)
{
	device_need_bytes((size_t)64 << 30); /* handles may be of 64 MiB */
	weir_stream a = new_stream();

	conf(options);
	give(take(512 * MIB, a));
	wait_for(0, a);
	EXPECT_EQ(reserved(), 514 * MIB);
	wait_for(hour - 60 * second, a);
	EXPECT_EQ(reserved(), 514 * MIB);
	EXPECT_EQ(stats().num_unmap_calls, 0);
	wait_for(60 * second, a);
	EXPECT_EQ(reserved(), 514 * MIB); /* a quarter has not passed */
	wait_for(hour / 4, a);
	EXPECT_EQ(reserved(), 2 * MIB);
	EXPECT_EQ(stats().num_host_waits, 0);
	expect_healthy();
}

TEST(memory_that_was_used_in_between_stays)
{
	weir_stream a = new_stream();

	conf("tcache:0,handle_mb:16,decay_ms:3600000");
	char *live = take(64 * MIB, a);
	char *pinned = take(64 * MIB, a);
	EXPECT_OK(weir_pin(pinned));
	give(pinned);
	give(take(32 * MIB, a)); /* a part of it */
	for (int quarter = 0; quarter < 20; quarter++) {
		give(take(96 * MIB, a));
		wait_for(hour / 4, a);
	}
	uint64_t held = reserved();
	EXPECT_GE(held, (64 + 96) * MIB);
	wait_for(hour / 4 * 5, a);
	/* But pinned pages do not, nor the piece with small blocks. */
	EXPECT_LE(reserved(), held - 16 * MIB);
	EXPECT_GE(reserved(), (64 + 64) * MIB);
	expect_healthy();
	EXPECT_OK(weir_unpin(pinned));
	give(live);
}

TEST(a_program_that_goes_on_as_it_did_makes_no_calls)
{
	weir_stream a = new_stream();
	char *block[8];

	conf(options);
	take(512, a); /* otherwise all of its pool could move each time */
	for (int round = 0; round < 100; round++) {
		uint64_t calls = stats().num_map_calls;
		for (int i = 0; i < 8; i++)
			block[i] = take((size_t)(4 + i) * MIB, a);
		for (int i = 0; i < 8; i++)
			give(block[i]);
		wait_for(hour / 3, a);
		EXPECT(round == 0 || stats().num_map_calls == calls);
	}
	EXPECT_EQ(stats().num_unmap_calls, 0);
	expect_healthy();
}

TEST(memory_whose_work_is_not_done_stays)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	conf(options);
	char *block = take(64 * MIB, a);
	busy(a, LATE_MS);
	fill(block, 64 * MIB, 1, a);
	give(block);
	wait_for(0, b);
	wait_for(2 * hour, b);
	EXPECT_GE(reserved(), 64 * MIB);
	finish(a);
	wait_for(hour, b);
	EXPECT_LE(reserved(), 4 * MIB);
	expect_healthy();
}

/* The cost of decay is bounded, however long the program runs. */
TEST(the_time_doubles_when_memory_is_needed_again)
{
	enum { ROUNDS = 60 };
	weir_stream a = new_stream();
	uint64_t fetched = 0;

	conf(options);
	give(take(64 * MIB, a));
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t before = stats().num_device_alloc;
		for (int quarter = 0; quarter < 12; quarter++)
			wait_for(hour / 4, a);
		give(take(64 * MIB, a));
		fetched += stats().num_device_alloc - before > 0;
	}
	EXPECT_GE(fetched, 2);
	EXPECT_LE(fetched, 4);
	expect_healthy();
}

TEST(nothing_goes_back_if_it_is_off)
{
	device_need_bytes((size_t)64 << 30); /* handles may be of 64 MiB */
	weir_stream a = new_stream();

	conf("tcache:0,decay_ms:off");
	give(take(512 * MIB, a));
	wait_for(0, a);
	wait_for(1000 * hour, a);
	wait_for(1000 * hour, a);
	EXPECT_EQ(reserved(), 514 * MIB);
	expect_healthy();
}

/* No request waits for the driver as long as it takes to unmap everything. */
TEST(memory_goes_back_in_portions)
{
	enum { BLOCKS = 100, PORTION = 16 };
	char *blocks[BLOCKS];
	weir_stream a = new_stream();

	conf(options);
	take_apart(blocks, BLOCKS, 4 * MIB, a);
	give(take(512, a));
	size_t held = reserved();
	for (int i = 0; i < BLOCKS; i++)
		give(blocks[i]);
	/* The first look fences their work, the second finds it done. */
	wait_for(0, a);
	wait_for(hour / 2, a);
	EXPECT_EQ(reserved(), held);
	os_time_skip(2 * hour);
	for (uint64_t before = 0, now = 0; now < BLOCKS; before = now) {
		for (int i = 0; i < 64; i++)
			give(take(512, a));
		now = stats().num_unmap_calls;
		EXPECT_GT(now, before);
		EXPECT_LE(now - before, PORTION);
		expect_healthy();
	}
	EXPECT_EQ(reserved(), held - BLOCKS * (size_t)4 * MIB);
}
