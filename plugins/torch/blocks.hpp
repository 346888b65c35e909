/*
 * Allocating and freeing.
 */
#ifndef PLUGINS_TORCH_BLOCKS_HPP
#define PLUGINS_TORCH_BLOCKS_HPP

#include <atomic>
#include <cstdlib>

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "plugins/torch/context.hpp"
#include "plugins/torch/shortage.hpp"

namespace weir_torch
{
namespace
{

/* PYTORCH_NO_CUDA_MEMORY_CACHING is set; enable() does not override it. */
bool never_cached = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr;
bool caching_on = !never_cached;

C10_NOINLINE void
profile_allocation(void *ptr, DeviceIndex device)
{
	bool found;

	report_profile(
	    ptr, static_cast<int64_t>(info_of(ptr, &found).size), device);
}

inline void *
take(DeviceIndex device, size_t size, cudaStream_t stream)
{
	void *ptr = request(device, size, stream);

	if (C10_UNLIKELY(ptr == nullptr))
		ptr = take_hard(device, size, stream);
	if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
		profile_allocation(ptr, device);
	trace_allocation(ptr);
	return ptr;
}

C10_NOINLINE void *
take_watched(DeviceIndex device, size_t size, cudaStream_t stream)
{
	Call call(caching::RecordContext::STATE);

	return take(device, size, stream);
}

inline void *
allocate_on(DeviceIndex device, size_t size, cudaStream_t stream)
{
	return C10_UNLIKELY(watched()) ? take_watched(device, size, stream) :
					 take(device, size, stream);
}

C10_NOINLINE weir_status
free_profiled(void *ptr)
{
	bool found;
	BlockInfo info = info_of(ptr, &found);
	weir_status status = weir_torch_free(ptr);

	if (status == WEIR_OK && found)
		report_profile(ptr, -static_cast<int64_t>(info.size),
		    static_cast<DeviceIndex>(info.device));
	return status;
}

inline weir_status
free_now(void *ptr)
{
	trace_deallocation(ptr);
	if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
		return free_profiled(ptr);
	return weir_torch_free(ptr);
}

C10_NOINLINE weir_status
free_watched(void *ptr)
{
	Call call(caching::RecordContext::ALL);

	return free_now(ptr);
}

inline weir_status
free_block(void *ptr)
{
	return C10_UNLIKELY(watched()) ? free_watched(ptr) : free_now(ptr);
}

/* The program has made no error: its process is ending, or is a forked child,
 * which has no GPU. */
bool
is_of_no_matter(weir_status status)
{
	return status == WEIR_OK || status == WEIR_EEXIT ||
	    status == WEIR_EFORK;
}

/* Free the memory of data pointers. It runs in destructors, so it does not
 * throw. */
void
delete_block(void *ptr)
{
	if (ptr != nullptr && !is_of_no_matter(free_block(ptr)))
		complain("free");
}

/* delete_block() without a cache. */
void
delete_uncached(void *ptr)
{
	trace_deallocation(ptr);
	(void)cudaFree(ptr);
}

void *
allocate_uncached(size_t size)
{
	void *ptr = nullptr;

	C10_CUDA_CHECK(cudaMalloc(&ptr, size));
	trace_allocation(ptr);
	return ptr;
}

/* Free a raw pointer while the cache is off. PyTorch cannot tell it from
 * pointers that were allocated before; weir knows its own. */
C10_NOINLINE void
raw_delete_uncached(void *ptr)
{
	bool is_weirs;

	(void)info_of(ptr, &is_weirs);
	if (is_weirs)
		delete_block(ptr);
	else
		delete_uncached(ptr);
}

/* PyTorch's allocator. Each part has a file: this is the first, and Allocator
 * in adapter.cpp is the whole. */
class Blocks : public Base
{
public:
	DataPtr
	allocate(size_t size)
	{
		DeviceIndex device =
		    size == 0 ? current_device() : allocating_device();
		c10::Device place(c10::kCUDA, device);

		if (C10_UNLIKELY(!caching_on)) {
			void *ptr = allocate_uncached(size);
			return { ptr, ptr, &delete_uncached, place };
		}
		void *ptr = size == 0 ?
		    nullptr :
		    allocate_on(device, size, current_stream(device));
		return { ptr, ptr, &delete_block, place };
	}

	c10::DeleterFnPtr
	raw_deleter() const
	{
		return caching_on ? &delete_block : &delete_uncached;
	}

	void
	copy_data(void *to, const void *from, size_t size) const
	{
		C10_CUDA_CHECK(
		    cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice));
	}

	void *
	raw_alloc(size_t size)
	{
		if (size == 0)
			return nullptr;
		if (C10_UNLIKELY(!caching_on))
			return allocate_uncached(size);
		DeviceIndex device = allocating_device();
		return allocate_on(device, size, current_stream(device));
	}

	void *
	raw_alloc_with_stream(size_t size, cudaStream_t stream)
	{
		if (size == 0)
			return nullptr;
		if (C10_UNLIKELY(!caching_on))
			return allocate_uncached(size);
		return allocate_on(allocating_device(), size, stream);
	}

	void
	raw_delete(void *ptr)
	{
		if (ptr == nullptr)
			return;
		if (C10_UNLIKELY(!caching_on))
			return raw_delete_uncached(ptr);
		weir_status status = free_block(ptr);
		if (!is_of_no_matter(status))
			fail("invalid device pointer: %p: %s", ptr,
			    weir_last_error());
	}

	static bool
	is_default(cudaStream_t handle)
	{
		return handle == nullptr || handle == cudaStreamLegacy ||
		    handle == cudaStreamPerThread;
	}

	/* The default streams of all devices have one handle of each kind,
	 * which means that of the current device. */
	static void
	record_default(void *ptr, c10::cuda::CUDAStream stream)
	{
		c10::cuda::CUDAGuard guard(stream.device_index());
		expect(weir_record_stream(ptr, weir_of(handle_of(stream))),
		    "record_stream");
	}

	void
	recordStream(const DataPtr &ptr, c10::cuda::CUDAStream stream)
	{
		if (ptr.get() == nullptr || ptr.get_deleter() != &delete_block)
			return;
		cudaStream_t handle = handle_of(stream);
		if (is_default(handle) && !only_device)
			return record_default(ptr.get(), stream);
		expect(weir_record_stream(ptr.get(), weir_of(handle)),
		    "record_stream");
	}

	void
	recordStream(const DataPtr &ptr, c10::Stream stream)
	{
		recordStream(ptr, c10::cuda::CUDAStream(stream));
	}

	void
	init(int device_count)
	{
		expect(weir_init(), "weir_init");
		only_device = device_count == 1;
		devices_.store(device_count);
	}

	bool
	initialized()
	{
		return devices_.load() > 0;
	}

	void
	enable(bool value)
	{
		enabled_ = value;
		caching_on = value && !never_cached;
	}

	bool
	isEnabled() const
	{
		return enabled_;
	}

	/* Programs, and PyTorch itself, take this name to mean the whole
	 * interface, which weir implements; weir.torch.installed()
	 * distinguishes the two. */
	std::string
	name()
	{
		return "native";
	}

protected:
	std::atomic<int> devices_{ 0 };
	bool enabled_ = true;
};

} // namespace
} // namespace weir_torch

#endif
