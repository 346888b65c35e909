/*
 * A random program: memory of both kinds and of the host, streams that are
 * created and destroyed, frees by either call, of wrong addresses and twice,
 * and queries of addresses. It prints every result; the argument is the seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum {
	BLOCKS = 48,
	STREAMS = 6,
	STEPS = 250,
	NON_BLOCKING = 1,
	GRANULE = 512,
	MEMORY_TYPE = 2,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	MAPPED = 13,
};

enum kind { PLAIN, ORDERED, HOST };

struct block {
	enum kind kind;
	address ptr;
	void *host;
	size_t words;
	uint32_t value;
};

static struct cuda cuda;
static uint64_t state;
static struct block blocks[BLOCKS];
static size_t n_blocks;
static stream streams[STREAMS];

static size_t
next(size_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static size_t
any_words(void)
{
	static const size_t most[] = { 150, 25000, 1 << 20, 8 << 20 };

	return 1 + next(most[next(4)]);
}

/* ---- Steps --------------------------------------------------------------- */

static result
allocate(struct block *block, stream on)
{
	size_t bytes = block->words * sizeof(uint32_t);

	switch (block->kind) {
	case PLAIN:
		return cuda.mem_alloc(&block->ptr, bytes);
	case ORDERED:
		return cuda.mem_alloc_async(&block->ptr, bytes, on);
	default:
		return cuda.host_alloc(&block->host, bytes, next(8));
	}
}

static void
step_allocate(void)
{
	struct block *block = &blocks[n_blocks];
	stream on = streams[next(STREAMS)];
	result code;

	if (n_blocks == BLOCKS)
		return;
	*block = (struct block){ .kind = (enum kind)next(3),
		.words = any_words(),
		.value = (uint32_t)next(1u << 31) };
	code = allocate(block, on);
	printf("kind %d, %zu words: %d\n", block->kind, block->words, code);
	if (code != SUCCESS)
		return;
	if (block->kind == HOST)
		memset(block->host, (int)block->value, block->words * 4);
	else
		MUST(cuda.fill(block->ptr, block->value, block->words, on));
	MUST(cuda.stream_synchronize(on));
	n_blocks++;
}

/* Count wrong words in a sample. */
static int
wrong(const struct block *block)
{
	uint32_t ends[2];

	MUST(cuda.copy_out(&ends[0], block->ptr, 4));
	MUST(cuda.copy_out(&ends[1], block->ptr + (block->words - 1) * 4, 4));
	return (ends[0] != block->value) + (ends[1] != block->value);
}

static void
free_host(const struct block *block)
{
	void *inside = (char *)block->host + GRANULE;

	if (block->words * 4 > GRANULE && next(4) == 0)
		printf("inside %d, ", cuda.free_host(inside));
	printf("host %d", cuda.free_host(block->host));
	if (next(4) == 0)
		printf(", again %d", cuda.free_host(block->host));
	printf("\n");
}

static void
free_device(const struct block *block)
{
	stream on = streams[next(STREAMS)];
	size_t ways = next(8);

	printf("wrong %d, ", wrong(block));
	if (block->words * 4 > GRANULE && next(4) == 0)
		printf("inside %d, ", cuda.mem_free(block->ptr + GRANULE));
	if (ways < (block->kind == ORDERED ? 6 : 1))
		printf("async %d", cuda.mem_free_async(block->ptr, on));
	else
		printf("plain %d", cuda.mem_free(block->ptr));
	MUST(cuda.synchronize());
	if (next(3) == 0)
		printf(", again %d", cuda.mem_free(block->ptr));
	if (next(3) == 0)
		printf(", and %d", cuda.mem_free_async(block->ptr, on));
	printf("\n");
}

static void
step_free(void)
{
	size_t i = next(n_blocks + 1);
	struct block block = blocks[i];

	if (i == n_blocks)
		return;
	blocks[i] = blocks[--n_blocks];
	if (block.kind == HOST)
		free_host(&block);
	else
		free_device(&block);
}

/* The driver decides how long ranges of stream-ordered memory are. */
static void
step_ask(void)
{
	size_t i = next(n_blocks + 1);
	const struct block *block = &blocks[i];
	address base = 0;
	address start = 0;
	size_t size = 0;
	unsigned type = 0;
	unsigned mapped = 0;

	if (i == n_blocks || block->kind == HOST)
		return;
	address ptr = block->ptr + next(block->words * 4);
	printf("range %d", cuda.get_range(&base, NULL, ptr));
	printf(" type %d", cuda.get_attribute(&type, MEMORY_TYPE, ptr));
	printf(" start %d", cuda.get_attribute(&start, RANGE_START, ptr));
	printf(" size %d", cuda.get_attribute(&size, RANGE_SIZE, ptr));
	printf(" mapped %d", cuda.get_attribute(&mapped, MAPPED, ptr));
	printf(": %d %u %d %d %u\n", base == block->ptr, type,
	    start == block->ptr, size / GRANULE >= block->words * 4 / GRANULE,
	    mapped);
}

static void
step_streams(void)
{
	size_t i = 2 + next(STREAMS - 2);

	printf("stream %d", cuda.stream_destroy(streams[i]));
	printf(" %d\n",
	    cuda.stream_create(&streams[i], next(2) * NON_BLOCKING, 0));
}

static void
step_wrong(void)
{
	address ptr;
	int local;

	printf("none %d", cuda.mem_alloc(&ptr, 0));
	printf(" all %d", cuda.mem_alloc(&ptr, SIZE_MAX));
	printf(" much %d", cuda.mem_alloc_async(&ptr, (size_t)1 << 50, NULL));
	printf(" zero %d", cuda.mem_free(0));
	printf(" local %d\n", cuda.mem_free((address)(uintptr_t)&local));
}

int
main(int argc, char **argv)
{
	state = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : 1;
	state *= 2654435761u;
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	streams[1] = (stream)1;
	for (size_t i = 2; i < STREAMS; i++)
		MUST(cuda.stream_create(&streams[i], NON_BLOCKING, 0));
	for (int i = 0; i < STEPS; i++) {
		size_t die = next(100);

		if (die < 42)
			step_allocate();
		else if (die < 80)
			step_free();
		else if (die < 94)
			step_ask();
		else if (die < 98)
			step_streams();
		else
			step_wrong();
	}
	while (n_blocks > 0)
		step_free();
	return 0;
}
