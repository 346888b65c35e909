/*
 * Helpers for all parts of the adapter: conversions, failures as exceptions,
 * the device and the stream of a call.
 */
#ifndef PLUGINS_TORCH_COMMON_HPP
#define PLUGINS_TORCH_COMMON_HPP

#include <cstdarg>
#include <cstdio>
#include <string>

#include <cuda_runtime_api.h>

#include "plugins/torch/compat.h"
#include "plugins/torch/weir_torch.h"

namespace weir_torch
{
namespace
{

using c10::DataPtr;
using c10::DeviceIndex;

constexpr size_t TEXT = 4096;

/* Calls have these names too, so the structs get others. */
using Stats = struct weir_stats;
using BlockInfo = struct weir_block_info;

weir_torch_id
id_of(PoolId id)
{
	return { id.first, id.second };
}

PoolId
id_of(weir_torch_id id)
{
	return { id.graph, id.user };
}

/* Report a failure without an exception, for destructors, which must not throw.
 */
void
complain(const char *what)
{
	std::fprintf(stderr, "weir: %s: %s\n", what, weir_last_error());
}

/* Throw PyTorch's error, with a text that is made without a C++ stream. */
[[noreturn]] C10_NOINLINE __attribute__((format(printf, 1, 2))) void
fail(const char *format, ...)
{
	char text[TEXT];
	const char *all = text;
	va_list args;

	va_start(args, format);
	std::vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	TORCH_CHECK(false, all);
	__builtin_unreachable();
}

void
expect(weir_status status, const char *what)
{
	if (status != WEIR_OK)
		fail("%s: %s", what,
		    status == weir_last_status() ? weir_last_error() :
						   weir_status_text(status));
}

/* ---- The device and the stream of a call ------------------------------- */

/* Set by init(): there is one device, which is always current. Asking the
 * runtime takes longer than an allocation, and blocks other threads. */
bool only_device;

C10_NOINLINE DeviceIndex
asked_device()
{
	DeviceIndex device = 0;

	C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
	return device;
}

inline DeviceIndex
current_device()
{
	return C10_UNLIKELY(!only_device) ? asked_device() : DeviceIndex(0);
}

/*
 * The current device of a thread that allocates on it. In a thread without a
 * context the runtime takes microseconds to answer, and blocks other threads.
 * So such a thread gets its device's context, as its first kernel would give
 * it.
 */
C10_NOINLINE DeviceIndex
asked_and_bound_device()
{
	thread_local bool bound = false;
	DeviceIndex device = asked_device();

	if (C10_UNLIKELY(!bound)) {
		C10_CUDA_CHECK(cudaSetDevice(device));
		bound = true;
	}
	return device;
}

inline DeviceIndex
allocating_device()
{
	return C10_UNLIKELY(!only_device) ? asked_and_bound_device() :
					    DeviceIndex(0);
}

/*
 * The handle of a stream. PyTorch looks up the streams of its pools under a
 * device guard. A stream's number always stands for one handle, so a thread
 * stores the latest.
 */
cudaStream_t
handle_of(const c10::cuda::CUDAStream &stream)
{
	thread_local struct {
		c10::StreamId id = 0;
		DeviceIndex device = -1;
		cudaStream_t handle = nullptr;
	} last;

	if (stream.id() == 0)
		return nullptr;
	if (last.device != stream.device_index() || last.id != stream.id()) {
		last.handle = stream.stream();
		last.id = stream.id();
		last.device = stream.device_index();
	}
	return last.handle;
}

cudaStream_t
current_stream(DeviceIndex device)
{
	return handle_of(c10::cuda::getCurrentCUDAStream(device));
}

weir_stream
weir_of(cudaStream_t stream)
{
	return reinterpret_cast<weir_stream>(stream);
}

cudaStream_t
cuda_of(weir_stream stream)
{
	return reinterpret_cast<cudaStream_t>(stream);
}

/* ---- Data from weir ----------------------------------------------------- */

Stats
stats_of(DeviceIndex device)
{
	Stats stats{};

	stats.struct_size = sizeof(stats);
	expect(weir_stats(device, &stats), "weir_stats");
	return stats;
}

BlockInfo
info_of(const void *ptr, bool *found)
{
	BlockInfo info{};

	info.struct_size = sizeof(info);
	*found = weir_block_info(ptr, &info) == WEIR_OK;
	return info;
}

} // namespace
} // namespace weir_torch

#endif
