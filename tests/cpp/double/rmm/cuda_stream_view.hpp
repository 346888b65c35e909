/*
 * Declarations of our own of what <weir/rmm.hpp> uses of RMM, which is not to
 * be had here: with them the header is compiled and run. They stand for 24.10
 * and later.
 */
#ifndef RMM_DOUBLE_CUDA_STREAM_VIEW_HPP
#define RMM_DOUBLE_CUDA_STREAM_VIEW_HPP

#include <cuda_runtime_api.h>

namespace rmm
{

class cuda_stream_view
{
public:
	constexpr cuda_stream_view() = default;

	constexpr cuda_stream_view(cudaStream_t stream) : stream_(stream)
	{
	}

	constexpr cudaStream_t
	value() const noexcept
	{
		return stream_;
	}

private:
	cudaStream_t stream_ = nullptr;
};

} // namespace rmm

#endif
