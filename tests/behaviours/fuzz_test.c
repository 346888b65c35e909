/*
 * docs/behaviours.md, allocator_fuzz: ten thousand random allocations, frees
 * and trims; each block is filled when it is allocated and every byte of it
 * read back before it is freed, and the memory held stays bounded.
 *
 * WEIR_TEST_SEED in the environment starts elsewhere; the seed is printed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/device.h"

enum { STEPS = 10000, LIVE_MAX = 400 };

#define LIVE_BYTES_MAX ((size_t)256 * MIB)

struct live {
	void *ptr;
	size_t size;
	weir_stream stream;
	unsigned char value;
};

static struct live live[LIVE_MAX];
static size_t count;
static size_t live_bytes;
static uint64_t random_state;

static uint64_t
next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void
start(void)
{
	const char *seed = getenv("WEIR_TEST_SEED");

	random_state = seed != NULL ? strtoull(seed, NULL, 0) : 20240607;
	if (random_state == 0)
		random_state = 1;
	fprintf(stderr, "# WEIR_TEST_SEED=%llu\n",
	    (unsigned long long)random_state);
}

/* Small sizes are as frequent as large ones: up to 8 MiB by magnitude. */
static size_t
some_size(void)
{
	unsigned bits = (unsigned)(next_random() % 24);

	return (next_random() & (((size_t)1 << bits) - 1)) + 1;
}

static void
allocate(weir_stream stream)
{
	struct live *block = &live[count];

	block->size = some_size();
	block->stream = stream;
	block->value = (unsigned char)next_random();
	block->ptr = take(block->size, stream);
	fill(block->ptr, block->size, block->value, stream);
	live_bytes += block->size;
	count++;
}

static void
release(size_t i)
{
	struct live *block = &live[i];

	expect_filled(block->ptr, block->size, block->value, block->stream);
	give(block->ptr);
	live_bytes -= block->size;
	live[i] = live[--count];
}

static void
step(const weir_stream *streams, unsigned n)
{
	uint64_t dice = next_random() % 1000;

	if (dice < 5)
		trim(dice < 3 ? 0 : some_size() * 16);
	else if (count == LIVE_MAX || live_bytes > LIVE_BYTES_MAX ||
	    (count > 0 && dice < 480))
		release(next_random() % count);
	else
		allocate(streams[next_random() % n]);
}

static void
run(const weir_stream *streams, unsigned n)
{
	start();
	for (uint64_t i = test_effort(STEPS); i > 0; i--) {
		step(streams, n);
		if (i % 500 == 0)
			expect_healthy();
	}
	while (count > 0)
		release(count - 1);
	expect_healthy();
	struct weir_stats s = stats();
	EXPECT_EQ(s.allocated_bytes.all.current, 0);
	EXPECT_EQ(s.active.all.current, 0);
	EXPECT_EQ(s.num_ooms, 0);
	/* The peak of live bytes, with some space for gaps between them. */
	EXPECT_LE(s.reserved_bytes.all.peak, 2 * LIVE_BYTES_MAX);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST_TIMEOUT(ten_thousand_random_steps_on_the_default_stream, 300)
{
	weir_stream streams[] = { NULL };

	run(streams, 1);
}

TEST_TIMEOUT(ten_thousand_random_steps_on_four_streams, 300)
{
	weir_stream streams[] = { NULL, new_stream(), new_stream(),
		WEIR_STREAM_PER_THREAD };

	EXPECT_OK(weir_set_device(0));
	run(streams, 4);
}

TEST_TIMEOUT(ten_thousand_random_steps_with_segments_of_the_driver, 300)
{
	weir_stream streams[] = { NULL, new_stream() };

	conf("expandable_segments:False");
	run(streams, 2);
}

TEST_TIMEOUT(ten_thousand_random_steps_with_steps_between_powers_of_two, 300)
{
	weir_stream streams[] = { NULL };

	conf("roundup_power2_divisions:8,garbage_collection_threshold:0.5");
	EXPECT_OK(weir_limit_set(0, 2 * LIVE_BYTES_MAX));
	run(streams, 1);
}
