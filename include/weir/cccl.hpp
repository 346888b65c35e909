/**
 * weir as a memory resource of CCCL (cuda::mr), where its headers are: for
 * cuda::experimental's buffers, for cuDF, RAPIDS and others that take one.
 *
 *     weir::cuda_resource resource;          // of the current device
 *     cuda::mr::resource_ref<cuda::mr::device_accessible> ref = resource;
 *
 * Up to CCCL 3.0 its interface is experimental, and is there only if
 * LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE is defined before the first
 * header of CCCL is included.
 */
#ifndef WEIR_CCCL_HPP
#define WEIR_CCCL_HPP

#include <weir/weir.hpp>

#include <cuda/memory_resource>

namespace weir
{

/** weir::device_resource, with the property that the device reaches it. */
class cuda_resource : public device_resource
{
public:
	using device_resource::device_resource;

	friend void
	get_property(
	    const cuda_resource &, ::cuda::mr::device_accessible) noexcept
	{
	}

	friend bool
	operator==(const cuda_resource &a, const cuda_resource &b) noexcept
	{
		return a.device() == b.device();
	}

	friend bool
	operator!=(const cuda_resource &a, const cuda_resource &b) noexcept
	{
		return !(a == b);
	}
};

#if CCCL_MAJOR_VERSION > 3 ||                                                  \
    (CCCL_MAJOR_VERSION == 3 && CCCL_MINOR_VERSION >= 1)
static_assert(
    ::cuda::mr::resource_with<cuda_resource, ::cuda::mr::device_accessible>,
    "weir::cuda_resource is a resource with streams");
#else
static_assert(::cuda::mr::async_resource_with<cuda_resource,
		  ::cuda::mr::device_accessible>,
    "weir::cuda_resource is a resource with streams");
#endif

} // namespace weir

#endif
