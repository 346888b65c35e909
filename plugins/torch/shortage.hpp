/*
 * Reports of memory and of out of memory to profilers, interpreters and
 * observers, and the exception for the caller.
 */
#ifndef PLUGINS_TORCH_SHORTAGE_HPP
#define PLUGINS_TORCH_SHORTAGE_HPP

#include <mutex>
#include <vector>

#include <c10/core/impl/GPUTrace.h>
#include <cuda_runtime_api.h>

#include "plugins/torch/common.hpp"

namespace weir_torch
{
namespace
{

/* ---- Other observers --------------------------------------------------- */

inline void
trace_allocation(void *ptr)
{
	const c10::impl::PyInterpreter *interpreter =
	    c10::impl::GPUTrace::get_trace();

	if (C10_UNLIKELY(interpreter != nullptr))
		(*interpreter)
		    ->trace_gpu_memory_allocation(
			c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
}

inline void
trace_deallocation(void *ptr)
{
	const c10::impl::PyInterpreter *interpreter =
	    c10::impl::GPUTrace::get_trace();

	if (C10_UNLIKELY(interpreter != nullptr))
		(*interpreter)
		    ->trace_gpu_memory_deallocation(
			c10::kCUDA, reinterpret_cast<uintptr_t>(ptr));
}

C10_NOINLINE void
report_profile(void *ptr, int64_t size, DeviceIndex device)
{
	Stats stats = stats_of(device);

	c10::reportMemoryUsageToProfiler(ptr, size,
	    stats.allocated_bytes.all.current, stats.reserved_bytes.all.current,
	    c10::Device(c10::kCUDA, device));
}

/* ---- Shortage ---------------------------------------------------------- */

std::mutex observers_lock;
std::vector<caching::OutOfMemoryObserver> observers;

/* Ask the code that holds memory for later use to free it. */
bool
ask_holders()
{
	bool freed = false;

	for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
		freed |= c10::FreeCudaMemoryCallbacksRegistry()
			     ->Create(name)
			     ->Execute();
	return freed;
}

[[noreturn]] C10_NOINLINE void
throw_shortage(DeviceIndex device, size_t size)
{
	char text[TEXT];
	size_t free_bytes = 0;
	size_t total = 0;

	weir_torch_oom_text(text, sizeof(text), device, size);
	Stats stats = stats_of(device);
	(void)cudaMemGetInfo(&free_bytes, &total);
	(void)cudaGetLastError();
	size_t limit = SIZE_MAX;
	(void)weir_limit_get(device, &limit);
	c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size),
	    stats.allocated_bytes.all.current, stats.reserved_bytes.all.current,
	    c10::Device(c10::kCUDA, device));
	std::vector<caching::OutOfMemoryObserver> all;
	{
		std::lock_guard<std::mutex> guard(observers_lock);
		all = observers;
	}
	for (const auto &observer : all)
		observer(
		    device, size, limit < total ? limit : total, free_bytes);
	TORCH_CHECK_WITH(OutOfMemoryError, false, text);
	__builtin_unreachable();
}

inline void *
request(DeviceIndex device, size_t size, cudaStream_t stream)
{
	bool routed = __atomic_load_n(&weir_torch_routes, __ATOMIC_RELAXED) > 0;

	return C10_UNLIKELY(routed) ?
	    weir_torch_malloc(device, size, weir_of(stream)) :
	    weir_malloc_primary(device, size, weir_of(stream));
}

C10_NOINLINE void *
take_hard(DeviceIndex device, size_t size, cudaStream_t stream)
{
	void *ptr = nullptr;

	if (size >= WEIR_SIZE_MAX)
		throw_shortage(device, size);
	if (weir_last_status() == WEIR_ENOMEM && ask_holders())
		ptr = request(device, size, stream);
	if (ptr != nullptr)
		return ptr;
	if (weir_last_status() == WEIR_ENOMEM)
		throw_shortage(device, size);
	C10_CUDA_CHECK(cudaGetLastError());
	expect(weir_last_status(), "weir_malloc");
	return nullptr;
}

} // namespace
} // namespace weir_torch

#endif
