/*
 * A program that uses the default stream only, and frees memory that is in use
 * there. With the argument "streams" it continues with another stream, which is
 * not ordered with the default one, and with memory that it had before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum { ROUNDS = 200, WORDS = 1 << 16, NON_BLOCKING = 1 };

static struct cuda cuda;
static uint32_t host[WORDS];

/* Fill memory, queue a copy behind that, and free the memory before either is
 * done. */
static unsigned
round_trip(uint32_t value, size_t words)
{
	unsigned wrong = 0;
	address ptr;

	MUST(cuda.mem_alloc(&ptr, words * 4));
	MUST(cuda.fill(ptr, value, words, NULL));
	MUST(cuda.fill(ptr, ~value, words / 2, NULL));
	MUST(cuda.copy_out(host, ptr, words * 4));
	MUST(cuda.fill(ptr, 0, words, NULL));
	MUST(cuda.mem_free(ptr));
	for (size_t i = 0; i < words; i++)
		wrong += host[i] != (i < words / 2 ? ~value : value);
	return wrong;
}

/* The default stream may still be at work on memory from before. */
static unsigned
on_another(void)
{
	unsigned wrong = 0;
	stream other;
	address old;
	address ptr;

	MUST(cuda.mem_alloc(&old, sizeof(host)));
	MUST(cuda.fill(old, 1, WORDS, NULL));
	MUST(cuda.mem_free(old));
	MUST(cuda.mem_alloc(&old, sizeof(host)));
	MUST(cuda.stream_create(&other, NON_BLOCKING, 0));
	MUST(cuda.fill(old, 2, WORDS, other));
	MUST(cuda.mem_alloc(&ptr, sizeof(host)));
	MUST(cuda.fill(ptr, 3, WORDS, other));
	MUST(cuda.stream_synchronize(other));
	MUST(cuda.copy_out(host, old, sizeof(host)));
	for (size_t i = 0; i < WORDS; i++)
		wrong += host[i] != 2;
	MUST(cuda.fill(old, 4, WORDS, NULL));
	MUST(cuda.fill(ptr, 4, WORDS, other));
	MUST(cuda.mem_free(old));
	MUST(cuda.mem_free(ptr));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		stream on = i % 2 == 0 ? other : NULL;

		MUST(cuda.mem_alloc(&ptr, sizeof(host)));
		MUST(cuda.fill(ptr, i, WORDS, on));
		MUST(cuda.mem_free(ptr));
	}
	MUST(cuda.stream_destroy(other));
	return wrong;
}

int
main(int argc, char **argv)
{
	unsigned wrong = 0;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	for (uint32_t i = 0; i < ROUNDS; i++)
		wrong += round_trip(i, WORDS >> i % 8);
	if (argc > 1 && strcmp(argv[1], "streams") == 0)
		wrong += on_another();
	MUST(cuda.synchronize());
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
