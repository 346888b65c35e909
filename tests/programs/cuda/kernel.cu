// A program with a compiled kernel, which the simulated device cannot run: each
// launch fails, and everything else works.
#include <cstdio>

#include <cuda_runtime.h>

__managed__ int answer;

__global__ void
twice(int *words)
{
	words[threadIdx.x] *= 2;
}

int
main()
{
	int *words;

	if (cudaMallocManaged(&words, 32 * sizeof(int)) != cudaSuccess)
		return 3;
	for (int i = 0; i < 32; i++)
		words[i] = i;
	for (int i = 0; i < 3; i++) {
		twice<<<1, 32>>>(words);
		std::printf(
		    "launch: %s\n", cudaGetErrorName(cudaGetLastError()));
	}
	std::printf("synchronize: %s\n",
	    cudaGetErrorName(cudaDeviceSynchronize()));
	std::printf("words: %d\n", words[31]);
	answer += 42;
	std::printf("answer: %d\n", answer);
	return cudaFree(words) == cudaSuccess ? 0 : 3;
}
