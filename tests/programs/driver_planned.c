/*
 * A program that repeats itself: it takes memory that it keeps, and in each
 * round the same large blocks, which it frees in another order than it took
 * them. Small blocks in between come as a seed says. It prints how many blocks
 * of a round had another address than in the round before, from the third round
 * on.
 *
 *	driver_planned stays SEED	all rounds are equal
 *	driver_planned leaves SEED	after some rounds, blocks have other
 *					sizes in each round
 *	driver_planned resets SEED	the device is reset between rounds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum {
	MIB = 1 << 20,
	KEPT = 9,
	LARGE = 12,
	SMALL = 6,
	STREAMS = 2,
	ROUNDS = 12,
	USED = 512,       /* bytes of each block */
	EQUAL_ROUNDS = 6, /* before it leaves, and between resets */
};

static const unsigned mib[LARGE] = { 24, 4, 10, 6, 30, 8, 12, 16, 2, 18, 40,
	14 };

static struct cuda cuda;
static stream streams[STREAMS];
static uint32_t state;
static unsigned moved;
static unsigned compared;

static uint32_t
any_below(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 16) % n;
}

static address
take(size_t bytes, stream on)
{
	address ptr;

	MUST(cuda.mem_alloc_async(&ptr, bytes, on));
	MUST(cuda.fill(ptr, state, USED / 4, on));
	return ptr;
}

static void
play_small(stream on)
{
	address small[SMALL];
	unsigned n = any_below(SMALL);

	for (unsigned i = 0; i < n; i++)
		small[i] = take(1024 * (1 + any_below(200)), on);
	for (unsigned i = 0; i < n; i++)
		MUST(cuda.mem_free_async(small[i], on));
}

/* A round of blocks that are `more` MiB larger. Every third one is the second
 * stream's. */
static void
play_round(unsigned more, address at[LARGE])
{
	for (unsigned i = 0; i < LARGE; i++) {
		stream on = streams[i % 3 == 2];

		play_small(on);
		at[i] = take((size_t)(mib[i] + more) * MIB, on);
		if (i % 4 == 3) { /* a block that lives for a moment */
			MUST(cuda.mem_free_async(at[i - 1], on));
			MUST(cuda.stream_synchronize(on));
		}
	}
	for (unsigned i = LARGE; i-- > 0;)
		if (i % 4 != 2)
			MUST(cuda.mem_free_async(at[i], streams[i % 3 == 2]));
	MUST(cuda.synchronize());
}

static void
play(unsigned rounds, unsigned more)
{
	address at[LARGE] = { 0 };
	address before[LARGE];

	for (unsigned n = 0; n < rounds; n++) {
		memcpy(before, at, sizeof(at));
		play_round(more * n, at);
		for (unsigned i = 0; n >= 2 && i < LARGE; i++) {
			moved += at[i] != before[i];
			compared++;
		}
	}
}

static void
start(void)
{
	cuda_start(&cuda);
	for (int i = 0; i < STREAMS; i++)
		MUST(cuda.stream_create(&streams[i], 1, 0));
	for (int i = 0; i < KEPT; i++)
		take(4 * MIB, streams[0]);
}

int
main(int argc, char **argv)
{
	result (*reset)(int);

	if (argc != 3)
		return 2;
	state = (uint32_t)strtoul(argv[2], NULL, 10);
	cuda_by_dlsym(&cuda);
	start();
	if (strcmp(argv[1], "stays") == 0)
		play(ROUNDS, 0);
	if (strcmp(argv[1], "leaves") == 0) {
		play(EQUAL_ROUNDS, 0);
		printf("moved: %u of %u\n", moved, compared);
		play(EQUAL_ROUNDS, 3);
		return 0;
	}
	if (strcmp(argv[1], "resets") == 0) {
		cuda_fetch("cuDevicePrimaryCtxReset_v2", &reset);
		for (int n = 0; n < 2; n++) {
			play(EQUAL_ROUNDS, 0);
			MUST(reset(0));
			start();
		}
		play(EQUAL_ROUNDS, 0);
	}
	printf("moved: %u of %u\n", moved, compared);
	return 0;
}
