/*
 * A double of the part of TensorRT 10 that <weir/tensorrt.hpp> uses. TensorRT
 * is not available in CI; with these declarations the header is compiled and
 * run.
 */
#ifndef TENSORRT_DOUBLE_NV_INFER_RUNTIME_H
#define TENSORRT_DOUBLE_NV_INFER_RUNTIME_H

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nvinfer1
{

using AllocatorFlags = std::uint32_t;

class IGpuAllocator
{
public:
	virtual ~IGpuAllocator() = default;
	virtual void *allocate(std::uint64_t size, std::uint64_t alignment,
	    AllocatorFlags flags) noexcept = 0;
	virtual bool deallocate(void *memory) noexcept = 0;
};

class IGpuAsyncAllocator : public IGpuAllocator
{
public:
	virtual void *allocateAsync(std::uint64_t size, std::uint64_t alignment,
	    AllocatorFlags flags, cudaStream_t stream) noexcept = 0;
	virtual bool deallocateAsync(
	    void *memory, cudaStream_t stream) noexcept = 0;

	void *
	allocate(std::uint64_t size, std::uint64_t alignment,
	    AllocatorFlags flags) noexcept override
	{
		return allocateAsync(size, alignment, flags, nullptr);
	}

	bool
	deallocate(void *memory) noexcept override
	{
		return deallocateAsync(memory, nullptr);
	}
};

} // namespace nvinfer1

#endif
