// A program that only manages memory, as nvcc builds it: each kind of memory
// that the runtime allocates, copies between them, streams, events, and
// variables of the device. It prints the same on a GPU and on the simulated
// device, with weir and without.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

static void
check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	std::exit(3);
}

#define CHECK(call) check((call), #call)

enum { N = 1 << 18 };

__device__ int table[64];
__constant__ float factors[16];

// The sum of a device buffer.
static long long
sum_of(const int *device, cudaStream_t stream)
{
	std::vector<int> host(N);
	long long sum = 0;

	CHECK(cudaMemcpyAsync(host.data(), device, N * sizeof(int),
	    cudaMemcpyDefault, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (int word : host)
		sum += word;
	return sum;
}

static void
use_plain()
{
	std::vector<int> host(N, 3);
	int *device;

	CHECK(cudaMalloc(&device, N * sizeof(int)));
	CHECK(cudaMemcpy(device, host.data(), N * sizeof(int),
	    cudaMemcpyHostToDevice));
	std::printf("plain: %lld\n", sum_of(device, 0));
	CHECK(cudaMemset(device, 0, N * sizeof(int)));
	std::printf("cleared: %lld\n", sum_of(device, 0));
	CHECK(cudaFree(device));
}

static void
use_streams()
{
	cudaStream_t first, second;
	cudaEvent_t filled;
	int *pinned, *a, *b;
	unsigned flags = 0;

	CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
	CHECK(cudaStreamCreate(&second));
	CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
	CHECK(cudaHostAlloc(
	    (void **)&pinned, N * sizeof(int), cudaHostAllocPortable));
	CHECK(cudaHostGetFlags(&flags, pinned));
	std::printf("portable: %d\n", (flags & cudaHostAllocPortable) != 0);
	for (int i = 0; i < N; i++)
		pinned[i] = i % 10;
	CHECK(cudaMallocAsync((void **)&a, N * sizeof(int), first));
	CHECK(cudaMallocAsync((void **)&b, N * sizeof(int), second));
	CHECK(cudaMemcpyAsync(
	    a, pinned, N * sizeof(int), cudaMemcpyHostToDevice, first));
	CHECK(cudaEventRecord(filled, first));
	CHECK(cudaStreamWaitEvent(second, filled, 0));
	CHECK(cudaMemcpyAsync(
	    b, a, N * sizeof(int), cudaMemcpyDeviceToDevice, second));
	std::printf("streams: %lld\n", sum_of(b, second));
	CHECK(cudaFreeAsync(a, second));
	CHECK(cudaFreeAsync(b, second));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaEventDestroy(filled));
	CHECK(cudaStreamDestroy(first));
	CHECK(cudaStreamDestroy(second));
}

static void
use_managed()
{
	cudaMemLocation device = { cudaMemLocationTypeDevice, 0 };
	cudaPointerAttributes attributes;
	int *managed;

	CHECK(cudaMallocManaged(&managed, N * sizeof(int)));
	CHECK(cudaPointerGetAttributes(&attributes, managed));
	std::printf("managed: %d\n", attributes.type == cudaMemoryTypeManaged);
	for (int i = 0; i < N; i++)
		managed[i] = 2;
	CHECK(cudaMemAdvise(managed, N * sizeof(int),
	    cudaMemAdviseSetPreferredLocation, device));
	CHECK(cudaMemPrefetchAsync(managed, N * sizeof(int), device, 0, 0));
	std::printf("prefetched: %lld\n", sum_of(managed, 0));
	CHECK(cudaFree(managed));
}

static void
use_symbols()
{
	int host[64], back[64] = { 0 };
	float zeroes[16] = { 0 }, three = 3, found = 0;
	void *address;
	size_t size;

	for (int i = 0; i < 64; i++)
		host[i] = i * i;
	CHECK(cudaMemcpyToSymbol(table, host, sizeof(host)));
	CHECK(cudaMemcpyFromSymbol(back, table, sizeof(back)));
	std::printf("table: %d\n", std::memcmp(host, back, sizeof(host)));
	CHECK(cudaMemcpyToSymbol(factors, zeroes, sizeof(zeroes)));
	CHECK(cudaMemcpyToSymbol(factors, &three, sizeof(three), 4));
	CHECK(cudaMemcpyFromSymbol(&found, factors, sizeof(found), 4));
	std::printf("factor: %g\n", found);
	CHECK(cudaGetSymbolAddress(&address, table));
	CHECK(cudaGetSymbolSize(&size, table));
	CHECK(cudaMemcpy(
	    back, (char *)address + 4, sizeof(int), cudaMemcpyDefault));
	std::printf("size: %zu, second: %d\n", size, back[0]);
	std::printf("past the end: %s\n",
	    cudaGetErrorName(cudaMemcpyToSymbol(table, host, 8, 252)));
	(void)cudaGetLastError();
}

static void
use_properties()
{
	cudaDeviceProp properties;
	size_t free_bytes, total_bytes, heap = 0;

	CHECK(cudaGetDeviceProperties(&properties, 0));
	CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
	std::printf("unified: %d, managed: %d, pools: %d\n",
	    properties.unifiedAddressing, properties.managedMemory,
	    properties.memoryPoolsSupported);
	std::printf("some is free: %d\n", free_bytes > 0 &&
	    free_bytes <= total_bytes &&
	    total_bytes <= properties.totalGlobalMem);
	CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
	CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
	std::printf("heap: %d\n", heap >= 16 << 20);
}

// If there is a second device, with access to it and without.
static void
use_peers()
{
	int count = 0;
	int *here, *there;

	CHECK(cudaGetDeviceCount(&count));
	if (count < 2)
		return;
	CHECK(cudaMalloc(&here, N * sizeof(int)));
	CHECK(cudaMemset(here, 1, N * sizeof(int)));
	CHECK(cudaSetDevice(1));
	CHECK(cudaMalloc(&there, N * sizeof(int)));
	CHECK(cudaMemcpyPeer(there, 1, here, 0, N * sizeof(int)));
	std::printf("peers: %lld\n", sum_of(there, 0) / 0x01010101);
	CHECK(cudaFree(there));
	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(here));
}

int
main()
{
	use_plain();
	use_streams();
	use_managed();
	use_symbols();
	use_properties();
	use_peers();
	std::printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
	return 0;
}
