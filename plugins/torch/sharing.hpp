/*
 * Other devices, and other processes.
 */
#ifndef PLUGINS_TORCH_SHARING_HPP
#define PLUGINS_TORCH_SHARING_HPP

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "plugins/torch/trace.hpp"

namespace weir_torch
{
namespace
{

/* The memory of other processes that is open here, by handle. It lives as long
 * as the process, because the last user may be a static object of PyTorch. */
struct Opened {
	std::mutex lock;
	std::map<std::string, std::weak_ptr<void>> memory;
};

Opened &
opened()
{
	static auto *all = new Opened;

	return *all;
}

/* The last user of a handle's memory is gone. Forget the handle, unless it has
 * been opened again since. */
void
close_shared(const std::string &handle, void *link)
{
	if (weir_torch_close_shared(link) != WEIR_OK)
		complain("closing shared memory");
	std::lock_guard<std::mutex> guard(opened().lock);
	auto at = opened().memory.find(handle);
	if (at != opened().memory.end() && at->second.expired())
		opened().memory.erase(at);
}

class Sharing : public Traces
{
public:
	void
	enablePeerAccess(DeviceIndex device, DeviceIndex other)
	{
		c10::cuda::CUDAGuard guard(device);
		cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);

		if (code == cudaErrorPeerAccessAlreadyEnabled)
			(void)cudaGetLastError();
		else
			C10_CUDA_CHECK(code);
		expect(weir_peer_access(other, device), "enablePeerAccess");
	}

	cudaError_t
	memcpyAsync(void *to, int to_device, const void *from, int from_device,
	    size_t size, cudaStream_t stream, bool p2p)
	{
		if (p2p || to_device == from_device)
			return cudaMemcpyAsync(
			    to, from, size, cudaMemcpyDeviceToDevice, stream);
		return cudaMemcpyPeerAsync(
		    to, to_device, from, from_device, size, stream);
	}

	caching::ShareableHandle
	shareIpcHandle(void *ptr)
	{
		std::string bytes(WEIR_TORCH_HANDLE_MAX, '\0');
		size_t length = 0;
		size_t offset = 0;

		expect(weir_torch_share(
			   ptr, &bytes[0], bytes.size(), &length, &offset),
		    "shareIpcHandle");
		bytes.resize(length);
		return { static_cast<ptrdiff_t>(offset), bytes };
	}

	std::shared_ptr<void>
	getIpcDevPtr(std::string handle)
	{
		std::lock_guard<std::mutex> guard(opened().lock);
		auto at = opened().memory.find(handle);
		std::shared_ptr<void> shared;
		void *ptr = nullptr;
		void *link = nullptr;

		if (at != opened().memory.end())
			shared = at->second.lock();
		if (shared)
			return shared;
		expect(weir_torch_open_shared(handle.data(), handle.size(),
			   current_device(), &ptr, &link),
		    "getIpcDevPtr");
		shared = std::shared_ptr<void>(ptr,
		    [handle, link](void *) { close_shared(handle, link); });
		opened().memory[handle] = shared;
		return shared;
	}
};

} // namespace
} // namespace weir_torch

#endif
