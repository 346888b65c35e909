/*
 * Support for the test programs that call the driver.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum {
	CONTEXT = 1,
	MEMORY_TYPE = 2,
	RANGE_START = 11,
	RANGE_SIZE = 12,
	NON_BLOCKING = 1,
	MIB = 1 << 20,
	ALIVE = 24, /* the blocks of churn() */
};

void
must(result code, const char *what)
{
	if (code == SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", what, code);
	exit(3);
}

void
cuda_by_dlsym(struct cuda *cuda)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol;

	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
#define BY_DLSYM(field, name, base, version, params)                           \
	symbol = dlsym(library, #name);                                        \
	if (symbol == NULL) {                                                  \
		fprintf(stderr, "no %s\n", #name);                             \
		exit(3);                                                       \
	}                                                                      \
	memcpy(&cuda->field, &symbol, sizeof(symbol));
	CUDA_FUNCTIONS(BY_DLSYM)
#undef BY_DLSYM
}

void
cuda_fetch(const char *name, void *place)
{
	void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

	if (symbol == NULL)
		exit(3);
	memcpy(place, &symbol, sizeof(symbol));
}

context
cuda_start(const struct cuda *cuda)
{
	context primary;
	int device;

	MUST(cuda->init(0));
	MUST(cuda->device_get(&device, 0));
	MUST(cuda->retain(&primary, device));
	MUST(cuda->set_current(primary));
	return primary;
}

/* ---- Contents ------------------------------------------------------------ */

/* Count the words that are not `value`. */
static uint64_t
wrong_words(const struct cuda *cuda, address ptr, size_t n, uint32_t value)
{
	uint32_t *host = malloc(n * sizeof(*host));
	uint64_t wrong = 0;

	if (host == NULL)
		exit(3);
	memset(host, 0, n * sizeof(*host));
	MUST(cuda->copy_out(host, ptr, n * sizeof(*host)));
	for (size_t i = 0; i < n; i++)
		wrong += host[i] != value;
	free(host);
	return wrong;
}

static uint32_t
next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

struct held {
	address ptr;
	size_t words;
	uint32_t value;
	int async;
};

static uint64_t
drop(const struct cuda *cuda, struct held *held, stream on)
{
	uint64_t wrong;

	if (held->ptr == 0)
		return 0;
	MUST(cuda->stream_synchronize(on));
	wrong = wrong_words(cuda, held->ptr, held->words, held->value);
	if (held->async)
		MUST(cuda->mem_free_async(held->ptr, on));
	else
		MUST(cuda->mem_free(held->ptr));
	held->ptr = 0;
	return wrong;
}

uint64_t
churn(const struct cuda *cuda, unsigned n, uint32_t seed, stream on)
{
	struct held all[ALIVE] = { { 0 } };
	uint32_t state = seed * 2654435761u + 1;
	uint64_t wrong = 0;

	for (unsigned i = 0; i < n; i++) {
		struct held *held = &all[next(&state) % ALIVE];

		wrong += drop(cuda, held, on);
		held->words = 1 + next(&state) % (65536u >> next(&state) % 12);
		held->value = seed << 20 | i;
		held->async = next(&state) % 2 == 0;
		if (held->async)
			MUST(cuda->mem_alloc_async(
			    &held->ptr, held->words * 4, on));
		else
			MUST(cuda->mem_alloc(&held->ptr, held->words * 4));
		MUST(cuda->fill(held->ptr, held->value, held->words, on));
	}
	for (int i = 0; i < ALIVE; i++)
		wrong += drop(cuda, &all[i], on);
	return wrong;
}

/* ---- The exercise -------------------------------------------------------- */

/* Blocks of many sizes, each found by any address in it. */
static uint64_t
try_sizes(const struct cuda *cuda)
{
	static const size_t sizes[] = { 4, 508, 512, 1000, 4096, 100000, MIB,
		MIB + 4, 5 * MIB + 12, 32 * MIB };
	uint64_t wrong = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t words = sizes[i] / 4;
		address ptr;
		address base;
		size_t size;

		MUST(cuda->mem_alloc(&ptr, sizes[i]));
		MUST(cuda->get_range(&base, &size, ptr));
		printf("%zu bytes: aligned %d, range from it %d of its size %d",
		    sizes[i], ptr % 256 == 0, base == ptr, size >= sizes[i]);
		MUST(cuda->get_range(&base, NULL, ptr + sizes[i] - 1));
		printf(", last byte %d\n", base == ptr);
		MUST(cuda->fill(ptr, (uint32_t)i, words, NULL));
		wrong += wrong_words(cuda, ptr, words, (uint32_t)i);
		MUST(cuda->mem_free(ptr));
	}
	return wrong;
}

static void
try_wrong_frees(const struct cuda *cuda)
{
	address ptr;
	address other;
	int local;

	printf("alloc 0: %d\n", cuda->mem_alloc(&ptr, 0));
	printf("alloc to nowhere: %d\n", cuda->mem_alloc(NULL, 16));
	printf("free 0: %d\n", cuda->mem_free(0));
	MUST(cuda->mem_alloc(&ptr, 10000));
	MUST(cuda->mem_alloc(&other, 10000));
	printf("free inside: %d\n", cuda->mem_free(ptr + 512));
	printf("free: %d\n", cuda->mem_free(ptr));
	printf("free again: %d\n", cuda->mem_free(ptr));
	printf("free a host address: %d\n",
	    cuda->mem_free((address)(uintptr_t)&local));
	MUST(cuda->fill(other, 7, 2500, NULL));
	printf("wrong words in its neighbour: %llu\n",
	    (unsigned long long)wrong_words(cuda, other, 2500, 7));
	printf("free the neighbour: %d\n", cuda->mem_free(other));
}

static void
try_attributes(const struct cuda *cuda)
{
	int which[] = { MEMORY_TYPE, RANGE_START, RANGE_SIZE };
	unsigned type = 0;
	address start = 0;
	size_t size = 0;
	void *data[] = { &type, &start, &size };
	address ptr;

	MUST(cuda->mem_alloc(&ptr, 70000));
	MUST(cuda->get_attribute(&type, MEMORY_TYPE, ptr));
	MUST(cuda->get_attribute(&start, RANGE_START, ptr + 69999));
	MUST(cuda->get_attribute(&size, RANGE_SIZE, ptr));
	printf("attributes: type %u, start %d, size %d\n", type, start == ptr,
	    size >= 70000);
	start = 0;
	size = 0;
	MUST(cuda->get_attributes(3, which, data, ptr + 100));
	printf("together: type %u, start %d, size %d\n", type, start == ptr,
	    size >= 70000);
	MUST(cuda->mem_free(ptr));
	MUST(cuda->synchronize());
	printf("type once freed: %d\n",
	    cuda->get_attribute(&type, MEMORY_TYPE, ptr));
}

/* Stream-ordered memory belongs to no context, wherever it lies. */
static void
try_contexts(const struct cuda *cuda)
{
	address ptr;
	context its;

	/* Allocate where memory of the context was before, so that a stale
	 * record would show. */
	MUST(cuda->mem_alloc(&ptr, 3000));
	MUST(cuda->mem_free(ptr));
	MUST(cuda->synchronize());
	printf("a context:");
	for (size_t bytes = 3000; bytes < 4u * MIB; bytes *= 32) {
		MUST(cuda->mem_alloc_async(&ptr, bytes, NULL));
		MUST(cuda->get_attribute(&its, CONTEXT, ptr));
		printf(" %d", its != NULL);
		MUST(cuda->mem_free_async(ptr, NULL));
	}
	printf("\n");
}

static void
try_limits(const struct cuda *cuda)
{
	size_t before;
	size_t after;
	size_t total;
	address ptr;
	address small;

	printf("a pebibyte: %d\n", cuda->mem_alloc(&ptr, (size_t)1 << 50));
	MUST(cuda->mem_alloc(&small, 1000));
	printf("afterwards: %d\n", cuda->mem_free(small));
	MUST(cuda->get_info(&before, &total));
	MUST(cuda->mem_alloc(&ptr, 64 * MIB));
	MUST(cuda->get_info(&after, &total));
	printf("64 MiB taken: %d, free within total: %d\n",
	    before - after >= 64 * MIB, before <= total && after < before);
	MUST(cuda->mem_free(ptr));
	MUST(cuda->synchronize());
	MUST(cuda->get_info(&after, &total));
	printf("and back: %d\n", after >= before);
}

/* Frees on other streams, streams that end, and frees by the other call. */
static uint64_t
try_streams(const struct cuda *cuda)
{
	uint64_t wrong = 0;
	stream a;
	stream b;
	address ptr;

	MUST(cuda->stream_create(&a, NON_BLOCKING, 0));
	MUST(cuda->stream_create(&b, NON_BLOCKING, 0));
	MUST(cuda->mem_alloc_async(&ptr, MIB, a));
	MUST(cuda->fill(ptr, 5, MIB / 4, a));
	MUST(cuda->stream_synchronize(a));
	wrong += wrong_words(cuda, ptr, MIB / 4, 5);
	printf("free on another stream: %d\n", cuda->mem_free_async(ptr, b));
	MUST(cuda->mem_alloc_async(&ptr, MIB, b));
	MUST(cuda->stream_synchronize(b));
	printf("plain free of stream memory: %d\n", cuda->mem_free(ptr));
	MUST(cuda->mem_alloc(&ptr, MIB));
	printf(
	    "stream free of plain memory: %d\n", cuda->mem_free_async(ptr, a));
	MUST(cuda->mem_alloc_async(&ptr, 3 * MIB, a));
	MUST(cuda->fill(ptr, 6, 3 * MIB / 4, a));
	MUST(cuda->mem_free_async(ptr, a));
	printf("end a stream: %d\n", cuda->stream_destroy(a));
	MUST(cuda->mem_alloc_async(&ptr, 3 * MIB, b));
	MUST(cuda->fill(ptr, 9, 3 * MIB / 4, b));
	MUST(cuda->stream_synchronize(b));
	wrong += wrong_words(cuda, ptr, 3 * MIB / 4, 9);
	MUST(cuda->mem_free_async(ptr, b));
	MUST(cuda->stream_synchronize(b));
	wrong += churn(cuda, 300, 1, b);
	MUST(cuda->stream_destroy(b));
	return wrong;
}

int
exercise(const struct cuda *cuda)
{
	uint64_t wrong;

	wrong = try_sizes(cuda);
	try_wrong_frees(cuda);
	try_attributes(cuda);
	try_contexts(cuda);
	try_limits(cuda);
	wrong += try_streams(cuda);
	wrong += churn(cuda, 300, 2, NULL);
	MUST(cuda->synchronize());
	printf("wrong words: %llu\n", (unsigned long long)wrong);
	return wrong != 0;
}
