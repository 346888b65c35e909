/*
 * See ../cuda_stream_view.hpp.
 */
#ifndef RMM_DOUBLE_DEVICE_MEMORY_RESOURCE_HPP
#define RMM_DOUBLE_DEVICE_MEMORY_RESOURCE_HPP

#include <rmm/cuda_stream_view.hpp>

#include <cstddef>

namespace rmm::mr
{

class device_memory_resource
{
public:
	virtual ~device_memory_resource() = default;

	void *
	allocate(std::size_t bytes, cuda_stream_view stream = {})
	{
		return do_allocate(bytes, stream);
	}

	void
	deallocate(
	    void *ptr, std::size_t bytes, cuda_stream_view stream = {}) noexcept
	{
		do_deallocate(ptr, bytes, stream);
	}

	bool
	is_equal(const device_memory_resource &other) const noexcept
	{
		return do_is_equal(other);
	}

private:
	virtual void *do_allocate(
	    std::size_t bytes, cuda_stream_view stream) = 0;
	virtual void do_deallocate(
	    void *ptr, std::size_t bytes, cuda_stream_view stream) noexcept = 0;

	virtual bool
	do_is_equal(const device_memory_resource &other) const noexcept
	{
		return this == &other;
	}
};

} // namespace rmm::mr

#endif
