/*
 * A program that is linked with the runtime statically, as nvcc does: memory of
 * its three calls, by several threads, and the errors that the runtime
 * remembers.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 100, BYTES_MAX = 1 << 16 };

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
work(void *argument)
{
	unsigned char host[BYTES_MAX];
	size_t *wrong = argument;
	cudaStream_t on;

	CHECK(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking));
	for (int i = 0; i < ROUNDS; i++) {
		size_t size = 64 + (size_t)i * 650;
		void *a;
		void *b;

		CHECK(cudaMalloc(&a, size));
		CHECK(cudaMallocAsync(&b, size, on));
		CHECK(cudaMemsetAsync(b, i, size, on));
		CHECK(
		    cudaMemcpyAsync(a, b, size, cudaMemcpyDeviceToDevice, on));
		CHECK(cudaFreeAsync(b, on));
		CHECK(
		    cudaMemcpyAsync(host, a, size, cudaMemcpyDeviceToHost, on));
		CHECK(cudaStreamSynchronize(on));
		CHECK(cudaFree(a));
		for (size_t k = 0; k < size; k++)
			*wrong += host[k] != i;
	}
	CHECK(cudaStreamDestroy(on));
	return NULL;
}

int
main(void)
{
	pthread_t threads[THREADS];
	size_t wrong[THREADS] = { 0 };
	size_t sum = 0;
	void *ptr;

	printf("too much: %s\n",
	    cudaGetErrorName(cudaMalloc(&ptr, (size_t)1 << 50)));
	printf("remembered: %s\n", cudaGetErrorName(cudaGetLastError()));
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &wrong[i]) != 0)
			return 3;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += wrong[i];
	}
	CHECK(cudaDeviceSynchronize());
	printf("wrong bytes: %zu\n", sum);
	return sum != 0;
}
