/*
 * A program with page-locked host memory of every kind: the driver's answers
 * about it, and frees of memory that a stream still copies from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum {
	ROUNDS = 300,
	BYTES = 1 << 18,
	NON_BLOCKING = 1,
	MEMORY_TYPE = 2,
	HOST_POINTER = 4,
	DEVICE_POINTER = 3,
	RANGE_START = 11,
	RANGE_SIZE = 12,
};

static struct cuda cuda;
static unsigned char out[BYTES];

/* Print the driver's answers about a block that begins at `host`. */
static void
describe(unsigned char *host, size_t size)
{
	unsigned flags = 99;
	unsigned type = 99;
	address at = 0;
	size_t bytes = 0;
	void *pointer = NULL;
	unsigned char *inside = host + size / 2;

	/* Memory may be mapped in any case. Small blocks may lie in memory that
	 * was made portable, or not, for another block. */
	MUST(cuda.host_flags(&flags, host));
	printf("flags %u", flags & ~3u);
	MUST(cuda.host_pointer(&at, inside, 0));
	printf(", device pointer %d", at == (address)(uintptr_t)inside);
	MUST(cuda.get_attribute(&type, MEMORY_TYPE, (address)(uintptr_t)host));
	MUST(cuda.get_attribute(
	    &pointer, HOST_POINTER, (address)(uintptr_t)inside));
	printf(", type %u, host pointer %d", type, pointer == (void *)inside);
	MUST(cuda.get_attribute(
	    &at, DEVICE_POINTER, (address)(uintptr_t)inside));
	printf(", %d", at == (address)(uintptr_t)inside);
	MUST(cuda.get_attribute(&at, RANGE_START, (address)(uintptr_t)inside));
	MUST(
	    cuda.get_attribute(&bytes, RANGE_SIZE, (address)(uintptr_t)inside));
	printf(", range %d %zu", at == (address)(uintptr_t)host, bytes);
	MUST(cuda.get_range(&at, &bytes, (address)(uintptr_t)inside));
	printf(", %d %zu\n", at == (address)(uintptr_t)host, bytes);
}

static void
try_kinds(void)
{
	static const size_t sizes[] = { 4096, 1 << 20, 5 << 20 };
	void *host;

	for (unsigned flags = 0; flags < 8; flags++) {
		for (int i = 0; i < 3; i++) {
			MUST(cuda.host_alloc(&host, sizes[i], flags));
			describe(host, sizes[i]);
			MUST(cuda.free_host(host));
		}
	}
	MUST(cuda.alloc_host(&host, 1000000));
	memset(host, 1, 1000000);
	MUST(cuda.free_host(host));
}

/* Memory that the program allocated itself, and the result of registering
 * memory that is pinned already. */
static void
try_registering(void)
{
	size_t size = 1 << 20;
	char *own = aligned_alloc(65536, size);
	unsigned type = 99;
	address at = 0;
	void *host;

	MUST(cuda.host_register(own, size, 3));
	MUST(cuda.host_pointer(&at, own + 100, 0));
	MUST(cuda.get_attribute(&type, MEMORY_TYPE, (address)(uintptr_t)own));
	printf("registered: type %u, pointer %d\n", type, at != 0);
	printf("twice: %d\n", cuda.host_register(own, size, 0));
	printf("freed as the driver's: %d\n", cuda.free_host(own) != SUCCESS);
	MUST(cuda.host_unregister(own));
	printf(
	    "unregistered twice: %d\n", cuda.host_unregister(own) != SUCCESS);
	MUST(cuda.host_alloc(&host, size, 0));
	printf("pinned already: %d\n",
	    cuda.host_register(host, size, 0) != SUCCESS);
	printf("never registered: %d\n", cuda.host_unregister(host) != SUCCESS);
	MUST(cuda.free_host(host));
	free(own);
}

/* The driver decides where small blocks lie. */
static void
try_small(void)
{
	enum { N = 40 };
	void *blocks[N];
	unsigned misplaced = 0;

	for (size_t i = 0; i < N; i++) {
		MUST(cuda.host_alloc(&blocks[i], 1 + 100 * i, 0));
		misplaced += (uintptr_t)blocks[i] % 512 != 0;
	}
	for (size_t i = 0; i < N; i++)
		MUST(cuda.free_host(blocks[i]));
	printf("misplaced: %u\n", misplaced);
}

static void
try_errors(void)
{
	void *host = NULL;
	int local = 0;

	printf("no bytes: %d\n", cuda.host_alloc(&host, 0, 0) == SUCCESS);
	printf("bad flags: %d\n", cuda.host_alloc(&host, 4096, 64));
	printf("too much: %d\n",
	    cuda.host_alloc(&host, (size_t)1 << 60, 0) == OUT_OF_MEMORY);
	printf("not pinned: %d\n", cuda.free_host(&local));
	MUST(cuda.host_alloc(&host, 1 << 20, 0));
	printf("in the middle: %d\n", cuda.free_host((char *)host + 4096));
	printf(
	    "as the device's: %d\n", cuda.mem_free((address)(uintptr_t)host));
	MUST(cuda.free_host(host));
	printf("again: %d\n", cuda.free_host(host));
}

/* Blocks are freed before a stream copies from them. */
static unsigned
round_trips(void)
{
	unsigned wrong = 0;
	address device;
	stream on;

	MUST(cuda.stream_create(&on, NON_BLOCKING, 0));
	MUST(cuda.mem_alloc(&device, (size_t)ROUNDS * BYTES));
	for (unsigned i = 0; i < ROUNDS; i++) {
		void *host;
		MUST(cuda.host_alloc(&host, BYTES, i % 2));
		memset(host, (int)i % 251, BYTES);
		MUST(cuda.copy_in_async(
		    device + (address)i * BYTES, host, BYTES, on));
		MUST(cuda.free_host(host));
	}
	MUST(cuda.stream_synchronize(on));
	for (unsigned i = 0; i < ROUNDS; i++) {
		MUST(cuda.copy_out(out, device + (address)i * BYTES, BYTES));
		for (size_t n = 0; n < BYTES; n++)
			wrong += out[n] != i % 251;
	}
	MUST(cuda.mem_free(device));
	MUST(cuda.stream_destroy(on));
	return wrong;
}

int
main(void)
{
	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	try_kinds();
	try_registering();
	try_small();
	try_errors();
	unsigned wrong = round_trips();
	MUST(cuda.synchronize());
	printf("wrong bytes: %u\n", wrong);
	return wrong != 0;
}
