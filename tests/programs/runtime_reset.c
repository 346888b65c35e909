/* A program that resets its device again and again, each time with memory left
 * behind: more than the device has, in all. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { RESETS = 12, BLOCKS = 4 }; /* each a twentieth of the device */

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}

#define CHECK(call) check((call), #call)

int
main(void)
{
	int wrong = 0;

	for (int i = 0; i < RESETS; i++) {
		size_t free_bytes;
		size_t total;
		unsigned char byte = 0;
		cudaStream_t stream;
		void *ptr[BLOCKS];

		CHECK(cudaMemGetInfo(&free_bytes, &total));
		CHECK(cudaStreamCreate(&stream));
		for (int k = 0; k < BLOCKS; k++) {
			size_t size = total / 20;

			if (k % 2 == 0)
				CHECK(cudaMalloc(&ptr[k], size));
			else
				CHECK(cudaMallocAsync(&ptr[k], size, stream));
			CHECK(cudaMemsetAsync(ptr[k], i + k, 4096, stream));
		}
		CHECK(cudaStreamSynchronize(stream));
		for (int k = 0; k < BLOCKS; k++) {
			CHECK(cudaMemcpy(
			    &byte, ptr[k], 1, cudaMemcpyDeviceToHost));
			wrong += byte != (unsigned char)(i + k);
		}
		/* A reset frees memory of cudaMalloc(), and not the rest. */
		for (int k = 1; k < BLOCKS; k += 2)
			CHECK(cudaFreeAsync(ptr[k], stream));
		CHECK(cudaStreamSynchronize(stream));
		CHECK(cudaDeviceReset());
	}
	printf("resets: %d, wrong bytes: %d\n", RESETS, wrong);
	return wrong != 0;
}
