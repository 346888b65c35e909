/*
 * A program whose threads allocate and free plain memory while another one
 * captures a graph again and again, in the mode that forbids these calls. With
 * the driver alone they break the captures, or the calls fail.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, CAPTURES = 300, BYTES = 1 << 20, BLOCKS = 4 };

static atomic_bool stop;

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

static void *
come_and_go(void *argument)
{
	void *blocks[BLOCKS];

	(void)argument;
	while (!atomic_load(&stop)) {
		for (int i = 0; i < BLOCKS; i++)
			CHECK(cudaMalloc(&blocks[i], (size_t)BYTES << i));
		for (int i = 0; i < BLOCKS; i++)
			CHECK(cudaFree(blocks[i]));
	}
	return NULL;
}

/* True if the capture was not broken. */
static int
capture(cudaStream_t stream, void *memory)
{
	cudaGraph_t graph = NULL;
	int good;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemsetAsync(memory, 1, BYTES, stream));
	good = cudaStreamEndCapture(stream, &graph) == cudaSuccess;
	if (good)
		CHECK(cudaGraphDestroy(graph));
	else
		cudaGetLastError();
	return good;
}

int
main(void)
{
	pthread_t threads[THREADS];
	cudaStream_t stream;
	void *memory;
	int good = 0;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&memory, BYTES));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, come_and_go, NULL) != 0)
			return 3;
	for (int i = 0; i < CAPTURES; i++)
		good += capture(stream, memory);
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(cudaFree(memory));
	CHECK(cudaStreamDestroy(stream));
	printf("captures: %d of %d\n", good, CAPTURES);
	return good != CAPTURES;
}
