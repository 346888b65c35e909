/*
 * A program on less usual calls of the runtime: managed memory, the flags of
 * host memory, limits, copies between devices without access to each other, and
 * the way that a launch's configuration takes.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, WORDS = BYTES / 4 };

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

static void
use_managed(void)
{
	struct cudaMemLocation device = { cudaMemLocationTypeDevice, 0 };
	struct cudaMemLocation host = { cudaMemLocationTypeHost, 0 };
	struct cudaMemLocation none = { cudaMemLocationTypeInvalid, 0 };
	struct cudaPointerAttributes attributes;
	void *memory, *plain;
	int words[WORDS];

	CHECK(cudaMallocManaged(&memory, BYTES, cudaMemAttachGlobal));
	CHECK(cudaPointerGetAttributes(&attributes, memory));
	printf("type: %d\n", (int)attributes.type);
	memset(memory, 5, BYTES);
	CHECK(cudaMemAdvise(
	    memory, BYTES, cudaMemAdviseSetPreferredLocation, device));
	CHECK(cudaMemPrefetchAsync(memory, BYTES, device, 0, NULL));
	CHECK(cudaMemcpy(words, memory, BYTES, cudaMemcpyDefault));
	CHECK(cudaMemPrefetchAsync(memory, BYTES, host, 0, NULL));
	CHECK(cudaDeviceSynchronize());
	printf("word: %#x\n", (unsigned)words[WORDS - 1]);
	printf("no place: %s\n",
	    cudaGetErrorName(
		cudaMemPrefetchAsync(memory, BYTES, none, 0, NULL)));
	printf("no size: %s\n",
	    cudaGetErrorName(
		cudaMallocManaged(&plain, 0, cudaMemAttachGlobal)));
	CHECK(cudaFree(memory));
	CHECK(cudaMalloc(&plain, BYTES));
	printf("not managed: %s\n",
	    cudaGetErrorName(
		cudaMemPrefetchAsync(plain, BYTES, device, 0, NULL)));
	CHECK(cudaFree(plain));
	(void)cudaGetLastError();
}

static void
use_host(void)
{
	unsigned flags = 99;
	void *memory;

	CHECK(cudaHostAlloc(&memory, BYTES,
	    cudaHostAllocPortable | cudaHostAllocWriteCombined));
	CHECK(cudaHostGetFlags(&flags, memory));
	printf("portable: %d\n", (flags & cudaHostAllocPortable) != 0);
	printf(
	    "write combined: %d\n", (flags & cudaHostAllocWriteCombined) != 0);
	CHECK(cudaFreeHost(memory));
}

static void
use_limits(void)
{
	size_t value = 0;
	unsigned flags = 0;

	CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
	CHECK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
	printf("heap: %d\n", value >= 32 << 20);
	CHECK(cudaGetDeviceFlags(&flags));
	printf("host memory is mapped: %d\n", (flags & cudaDeviceMapHost) != 0);
	printf("no such limit: %s\n",
	    cudaGetErrorName(cudaDeviceGetLimit(&value, (enum cudaLimit)99)));
	(void)cudaGetLastError();
}

static void
use_peers(void)
{
	unsigned char back[16] = { 0 };
	int count = 0;
	void *here, *there;

	CHECK(cudaGetDeviceCount(&count));
	if (count < 2)
		return;
	CHECK(cudaMalloc(&here, BYTES));
	CHECK(cudaMemset(here, 9, BYTES));
	CHECK(cudaSetDevice(1));
	CHECK(cudaMalloc(&there, BYTES));
	CHECK(cudaMemcpyPeer(there, 1, here, 0, BYTES));
	CHECK(cudaMemcpy(back, there, sizeof(back), cudaMemcpyDeviceToHost));
	if (back[15] != 9) {
		fprintf(stderr, "the peer has %d\n", back[15]);
		exit(3);
	}
	/* A fill, unlike a copy, takes place on the current device. */
	printf("fill elsewhere: %s\n",
	    cudaGetErrorName(cudaMemset(here, 8, BYTES)));
	(void)cudaGetLastError();
	CHECK(cudaSetDevice(0));
	CHECK(cudaMemset(here, 8, BYTES));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaSetDevice(1));
	CHECK(cudaMemcpy(back, here, sizeof(back), cudaMemcpyDefault));
	if (back[15] != 8) {
		fprintf(stderr, "the first device has %d\n", back[15]);
		exit(3);
	}
	CHECK(cudaFree(there));
	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(here));
}

/* Each configuration is popped by its launch, the inner one first. */
static void
use_configurations(void)
{
	dim3 one = { 1, 2, 3 }, two = { 4, 5, 6 }, grid, block;
	size_t bytes = 0;
	cudaStream_t stream = NULL;

	CHECK((cudaError_t)__cudaPushCallConfiguration(one, two, 64, NULL));
	CHECK((cudaError_t)__cudaPushCallConfiguration(
	    two, one, 128, cudaStreamPerThread));
	CHECK(__cudaPopCallConfiguration(&grid, &block, &bytes, &stream));
	printf("inner: %u %u %zu %d\n", grid.x, block.z, bytes,
	    stream == cudaStreamPerThread);
	CHECK(__cudaPopCallConfiguration(&grid, &block, &bytes, &stream));
	printf("outer: %u %u %zu %d\n", grid.x, block.z, bytes, stream == NULL);
}

int
main(void)
{
	use_managed();
	use_host();
	use_limits();
	use_peers();
	use_configurations();
	return 0;
}
