/* The double's part of PyTorch's libraries: see base.h. */
#include "double.h"

namespace c10
{

std::string double_warning;
std::vector<double_report> double_reports;
bool double_profiling;

namespace
{
thread_local cuda::CUDAStream current_stream(Stream{ Device(kCUDA, 0), 0 });
Allocator *allocators[2];
} // namespace

namespace cuda
{

CUDAStream
getCurrentCUDAStream(DeviceIndex)
{
	return current_stream;
}

CUDAStream
getStreamFromExternal(cudaStream_t stream, DeviceIndex device)
{
	return CUDAStream(Stream{
	    Device(kCUDA, device), reinterpret_cast<StreamId>(stream) });
}

void
setCurrentCUDAStream(CUDAStream stream)
{
	current_stream = stream;
}

cudaError_t
GetDevice(DeviceIndex *device)
{
	int current = 0;
	cudaError_t code = cudaGetDevice(&current);

	*device = static_cast<DeviceIndex>(current);
	return code;
}

namespace CUDACachingAllocator
{
std::string CUDAAllocatorConfig::text;
std::atomic<CUDAAllocator *> allocator;
} // namespace CUDACachingAllocator

#if DOUBLE_VERSION < 208
MemPool *MemPoolContext::active;
#endif

} // namespace cuda

void
SetAllocator(DeviceType type, Allocator *allocator, uint8_t)
{
	allocators[static_cast<int>(type)] = allocator;
}

Allocator *
GetAllocator(const DeviceType &type)
{
	return allocators[static_cast<int>(type)];
}

bool
memoryProfilingEnabled()
{
	return double_profiling;
}

void
reportMemoryUsageToProfiler(
    void *ptr, int64_t size, size_t allocated, size_t reserved, Device device)
{
	double_reports.push_back(
	    { ptr, size, allocated, reserved, device.index() });
}

void
reportOutOfMemoryToProfiler(
    int64_t size, size_t allocated, size_t reserved, Device device)
{
	if (double_profiling)
		double_reports.push_back(
		    { nullptr, size, allocated, reserved, device.index() });
}

namespace impl
{
std::atomic<const PyInterpreter *> GPUTrace::state;
} // namespace impl

DoubleRegistry *
FreeCudaMemoryCallbacksRegistry()
{
	static DoubleRegistry registry;

	return &registry;
}

} // namespace c10

#if DOUBLE_VERSION >= 208
namespace at
{
namespace
{
HostAllocator *host_allocator;
}

void
setHostAllocator(DeviceType, HostAllocator *allocator, uint8_t)
{
	host_allocator = allocator;
}

HostAllocator *
getHostAllocator(DeviceType)
{
	return host_allocator;
}
} // namespace at
#endif
