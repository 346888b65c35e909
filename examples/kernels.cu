// The kernels of the examples for a GPU.
#include "kernels.h"

namespace
{

__global__ void
fill(uint32_t *out, uint32_t value, size_t n)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += step)
		out[i] = value;
}

__global__ void
add(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t n)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += step)
		out[i] = a[i] + b[i];
}

__global__ void
copy(uint32_t *out, const uint32_t *in, size_t n)
{
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += step)
		out[i] = in[i];
}

__device__ uint64_t
now()
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
	return ns;
}

__global__ void
sleep(uint64_t ns)
{
	uint64_t start = now();

	while (now() - start < ns)
		;
}

const unsigned threads = 256;

// Enough blocks for n elements, but no more than fill a device.
unsigned
blocks(size_t n)
{
	size_t wanted = (n + threads - 1) / threads;

	return (unsigned)(wanted < 1024 ? wanted : 1024);
}

} // namespace

cudaError_t
launch_fill(uint32_t *out, uint32_t value, size_t n, cudaStream_t stream)
{
	fill<<<blocks(n), threads, 0, stream>>>(out, value, n);
	return cudaGetLastError();
}

cudaError_t
launch_add(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t n,
    cudaStream_t stream)
{
	add<<<blocks(n), threads, 0, stream>>>(out, a, b, n);
	return cudaGetLastError();
}

cudaError_t
launch_copy(uint32_t *out, const uint32_t *in, size_t n, cudaStream_t stream)
{
	copy<<<blocks(n), threads, 0, stream>>>(out, in, n);
	return cudaGetLastError();
}

cudaError_t
launch_sleep(uint64_t ns, cudaStream_t stream)
{
	sleep<<<1, 1, 0, stream>>>(ns);
	return cudaGetLastError();
}
