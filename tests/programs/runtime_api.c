/*
 * A program on the runtime API: memory of each of its kinds, errors and their
 * texts, two dimensions, and frees of memory that is in use.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 100, BYTES_MAX = 1 << 17 };

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

static size_t
wrong_bytes(const unsigned char *bytes, size_t n, int value)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += bytes[i] != value;
	return wrong;
}

static void
try_errors(void)
{
	void *ptr = &ptr;
	cudaError_t error;

	printf("malloc 0: %d, %d\n", cudaMalloc(&ptr, 0), ptr == NULL);
	printf("free nothing: %d\n", cudaFree(NULL));
	error = cudaMalloc(&ptr, (size_t)1 << 50);
	printf("too much: %s, %s\n", cudaGetErrorName(error),
	    cudaGetErrorString(error));
	printf("remembered: %d", cudaPeekAtLastError() == error);
	printf(" %d", cudaGetLastError() == error);
	printf(" %d\n", cudaGetLastError() == cudaSuccess);
	CHECK(cudaMalloc(&ptr, 1000));
	CHECK(cudaFree(ptr));
	printf("free again: %s\n", cudaGetErrorName(cudaFree(ptr)));
	cudaGetLastError();
}

static size_t
try_two_dimensions(void)
{
	enum { WIDTH = 300, HEIGHT = 40 };
	unsigned char host[WIDTH * HEIGHT];
	size_t pitch;
	void *ptr;

	memset(host, 0, sizeof(host));
	CHECK(cudaMallocPitch(&ptr, &pitch, WIDTH, HEIGHT));
	printf("pitch %zu\n", pitch);
	CHECK(cudaMemset2D(ptr, pitch, 0x5a, WIDTH, HEIGHT));
	CHECK(cudaMemcpy2D(
	    host, WIDTH, ptr, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(ptr));
	return wrong_bytes(host, sizeof(host), 0x5a);
}

static void
try_attributes(void)
{
	struct cudaPointerAttributes attributes;
	size_t free_bytes;
	size_t total;
	void *device;
	void *host;
	int local;

	CHECK(cudaMalloc(&device, 5000));
	CHECK(cudaMallocHost(&host, 5000));
	CHECK(cudaPointerGetAttributes(&attributes, device));
	printf("device memory: type %d, device %d\n", (int)attributes.type,
	    attributes.device);
	CHECK(cudaPointerGetAttributes(&attributes, host));
	printf("pinned memory: type %d\n", (int)attributes.type);
	CHECK(cudaPointerGetAttributes(&attributes, &local));
	printf("the stack: type %d\n", (int)attributes.type);
	CHECK(cudaMemGetInfo(&free_bytes, &total));
	printf("some is free: %d\n", free_bytes > 0 && free_bytes < total);
	CHECK(cudaFreeHost(host));
	CHECK(cudaFree(device));
}

/* The runtime returns the driver's functions, too. */
static void
try_driver(void)
{
	enum cudaDriverEntryPointQueryResult status;
	int (*allocate)(unsigned long long *, size_t);
	unsigned long long ptr;
	void *found;

	CHECK(cudaGetDriverEntryPointByVersion(
	    "cuMemAlloc", &found, 11020, cudaEnableDefault, &status));
	memcpy(&allocate, &found, sizeof(found));
	printf("by the driver: %d", allocate(&ptr, 12345));
	printf(", freed: %d\n", cudaFree((void *)(uintptr_t)ptr));
	CHECK(cudaGetDriverEntryPointByVersion(
	    "cuNoSuchEntry", &found, 11020, cudaEnableDefault, &status));
	printf("no such entry: %d %d\n", found == NULL,
	    status == cudaDriverEntryPointSymbolNotFound);
}

/* Freed memory can be used for allocations of another kind. */
static void
try_room(void)
{
	size_t free_bytes;
	size_t total;
	size_t pitch;
	void *ptr;

	CHECK(cudaMemGetInfo(&free_bytes, &total));
	CHECK(cudaMalloc(&ptr, free_bytes / 8 * 5));
	CHECK(cudaFree(ptr));
	CHECK(cudaMallocPitch(&ptr, &pitch, 4096, free_bytes / 8 * 5 / 4096));
	CHECK(cudaFree(ptr));
	CHECK(cudaMalloc(&ptr, free_bytes / 8 * 5));
	CHECK(cudaFree(ptr));
	printf("there is room\n");
}

/* Frees while work is queued, on the default stream and on another one. */
static void *
work(void *argument)
{
	static const size_t sizes[] = { 100, 4096, 50000, BYTES_MAX };
	size_t *wrong = argument;
	unsigned char *host;
	cudaStream_t own;
	void *a;
	void *b;

	CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
	CHECK(cudaMallocHost((void **)&host, BYTES_MAX));
	for (int i = 0; i < ROUNDS; i++) {
		cudaStream_t on = i % 3 == 0 ? 0 : own;
		size_t size = sizes[i % 4];

		CHECK(cudaMallocAsync(&a, size, on));
		CHECK(cudaMalloc(&b, size));
		CHECK(cudaMemsetAsync(a, i, size, on));
		CHECK(
		    cudaMemcpyAsync(b, a, size, cudaMemcpyDeviceToDevice, on));
		CHECK(cudaFreeAsync(a, on));
		CHECK(
		    cudaMemcpyAsync(host, b, size, cudaMemcpyDeviceToHost, on));
		CHECK(cudaFree(b));
		CHECK(cudaStreamSynchronize(on));
		*wrong += wrong_bytes(host, size, i);
	}
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(own));
	return NULL;
}

int
main(void)
{
	pthread_t threads[THREADS];
	size_t wrong[THREADS] = { 0 };
	size_t sum = 0;

	try_errors();
	sum += try_two_dimensions();
	try_attributes();
	try_driver();
	try_room();
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &wrong[i]) != 0)
			return 3;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += wrong[i];
	}
	printf("wrong bytes: %zu\n", sum);
	return sum != 0;
}
