/**
 * weir as a memory resource of RMM, for cuDF, cuML and all that takes one:
 *
 *     weir::rmm_resource resource;          // of the current device
 *     rmm::mr::set_current_device_resource(&resource);
 *
 * For versions of RMM that have rmm::mr::device_memory_resource, up to 26.04.
 * Later ones take any resource of CCCL: weir::cuda_resource of
 * <weir/cccl.hpp>.
 */
#ifndef WEIR_RMM_HPP
#define WEIR_RMM_HPP

#include <weir/weir.hpp>

#if __has_include(<rmm/mr/device_memory_resource.hpp>)
#include <rmm/mr/device_memory_resource.hpp>
#elif __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#include <rmm/mr/device/device_memory_resource.hpp>
#else
#error "this RMM takes weir::cuda_resource of <weir/cccl.hpp>"
#endif
#if __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#else
#include <rmm/detail/error.hpp>
#endif

namespace weir
{

/**
 * Memory of one device, in the order of RMM's streams. It must outlive all that
 * uses it. Memory is freed on the stream that RMM names, and serves that stream
 * from then on.
 *
 * Failures are rmm::out_of_memory for want of memory, and rmm::bad_alloc for
 * any other; what() has weir's text.
 */
class rmm_resource final : public rmm::mr::device_memory_resource
{
public:
	/** Allocate on a device; default: the one that is current now.
	 * @throws weir::error if there is none */
	explicit rmm_resource(int device = WEIR_DEVICE_CURRENT)
	    : device_(device)
	{
		if (device == WEIR_DEVICE_CURRENT)
			check(weir_get_device(&device_));
	}

	int
	device() const noexcept
	{
		return device_;
	}

private:
	void *
	do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override
	{
		if (bytes == 0)
			return nullptr;
		void *ptr = weir_malloc_on(device_, bytes, handle(stream));
		if (ptr != nullptr)
			return ptr;
		if (weir_last_status() == WEIR_ENOMEM)
			throw rmm::out_of_memory(weir_last_error());
		throw rmm::bad_alloc(weir_last_error());
	}

	/* The stream may have ended, but not its work. */
	void
	do_deallocate(void *ptr, std::size_t bytes,
	    rmm::cuda_stream_view stream) noexcept override
	{
		(void)bytes;
		if (weir_free_async(ptr, handle(stream)) != WEIR_OK)
			weir_free(ptr);
	}

	bool
	do_is_equal(const rmm::mr::device_memory_resource &other)
	    const noexcept override
	{
		const auto *same = dynamic_cast<const rmm_resource *>(&other);

		return same != nullptr && same->device_ == device_;
	}

	static weir_stream
	handle(rmm::cuda_stream_view stream) noexcept
	{
		return reinterpret_cast<weir_stream>(stream.value());
	}

	int device_;
};

} // namespace weir

#endif
