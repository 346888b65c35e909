/*
 * A program whose report is known in advance: the most memory that it holds,
 * its repeated requests, and, with "leak", the blocks that it does not free.
 */
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20, WEIGHTS = 3, SMALL = 4, ROUNDS = 100 };

/* Unknown to the compiler: an unrolled loop would have several calls. */
static volatile int n_weights = WEIGHTS;
static volatile int n_small = SMALL;

static void *weights[WEIGHTS];
static void *small[SMALL];
static void *scratch;

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

/* The report has the names of these functions. */
__attribute__((noinline)) static void
load_weights(void)
{
	for (int i = 0; i < n_weights; i++)
		CHECK(cudaMalloc(&weights[i], MIB));
}

__attribute__((noinline)) static void
make_scratch(cudaStream_t stream)
{
	CHECK(cudaMallocAsync(&scratch, 3 * MIB, stream));
}

__attribute__((noinline)) static void
make_small(void)
{
	for (int i = 0; i < n_small; i++)
		CHECK(cudaMalloc(&small[i], 100 * KIB));
}

__attribute__((noinline)) static void
work_in_rounds(cudaStream_t stream)
{
	for (int i = 0; i < ROUNDS; i++) {
		void *ptr;

		CHECK(cudaMallocAsync(&ptr, 256 * KIB, stream));
		CHECK(cudaMemsetAsync(ptr, i, 256 * KIB, stream));
		CHECK(cudaFreeAsync(ptr, stream));
	}
}

static int
use_streams(void)
{
	enum { STREAMS = 100 };
	cudaStream_t streams[STREAMS];

	for (int i = 0; i < STREAMS; i++) {
		void *ptr;

		CHECK(cudaStreamCreate(&streams[i]));
		CHECK(cudaMallocAsync(&ptr, 10 * KIB, streams[i]));
		CHECK(cudaFreeAsync(ptr, streams[i]));
	}
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	printf("streams: %d\n", STREAMS);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "streams") == 0)
		return use_streams();

	bool leak = argc > 1 && strcmp(argv[1], "leak") == 0;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	work_in_rounds(stream);
	load_weights();
	make_small();
	make_scratch(stream);
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < SMALL; i++)
		CHECK(cudaFree(small[i]));
	if (!leak)
		CHECK(cudaFreeAsync(scratch, stream));
	for (int i = leak ? 1 : 0; i < WEIGHTS; i++)
		CHECK(cudaFree(weights[i]));
	CHECK(cudaStreamSynchronize(stream));
	printf("rounds: %d\n", ROUNDS);
	return 0;
}
