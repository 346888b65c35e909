/*
 * Page-locked memory.
 */
#ifndef PLUGINS_TORCH_HOST_HPP
#define PLUGINS_TORCH_HOST_HPP

#include <cstring>
#include <functional>
#include <memory>

#include "plugins/torch/pools.hpp"

namespace weir_torch
{
namespace
{

void
delete_host(void *ptr)
{
	if (!is_of_no_matter(weir_torch_host_free(ptr)))
		complain("free of page-locked memory");
}

cudaStream_t
handle_of(c10::Stream stream)
{
	return handle_of(c10::cuda::CUDAStream(stream));
}

/* The interface of 2.8 and later. It is a template, because earlier versions
 * lack its base class. */
template <typename HostBase> class Host final : public HostBase
{
public:
	DataPtr
	allocate(size_t size)
	{
		void *ptr = nullptr;

		if (size > 0) {
			DeviceIndex device = current_device();
			ptr = weir_torch_host_malloc(
			    size, weir_of(current_stream(device)));
			TORCH_CHECK_WITH(OutOfMemoryError, ptr != nullptr,
			    weir_last_error());
		}
		return { ptr, ptr, &delete_host, c10::DeviceType::CPU };
	}

	c10::DeleterFnPtr
	raw_deleter() const
	{
		return &delete_host;
	}

	void
	copy_data(void *to, const void *from, size_t size) const
	{
		std::memcpy(to, from, size);
	}

	bool
	record_event(void *ptr, void *context, c10::Stream stream)
	{
		weir_stream handle = weir_of(handle_of(stream));

		return (context != nullptr &&
			   weir_torch_host_record(context, handle) ==
			       WEIR_OK) ||
		    weir_torch_host_record(ptr, handle) == WEIR_OK;
	}

	void
	empty_cache()
	{
		(void)weir_host_trim(WEIR_DEVICE_ALL, 0, nullptr);
	}

	auto
	get_stats() -> decltype(std::declval<HostBase &>().get_stats())
	{
		Stats sum = host_stats();
		decltype(std::declval<HostBase &>().get_stats()) to;

		convert_host(to, sum, 0);
		set_num_host_alloc(to, sum.num_device_alloc, 0);
		set_num_host_free(to, sum.num_device_free, 0);
		set_duration(
		    to.host_alloc_time, sum.num_device_alloc, sum.pin_ns);
		set_duration(
		    to.host_free_time, sum.num_device_free, sum.unpin_ns);
		return to;
	}

	/* Durations are in microseconds. weir keeps no longest and no shortest
	 * one. */
	template <typename Duration>
	static void
	set_duration(Duration &to, uint64_t count, uint64_t ns)
	{
		to.count = static_cast<int64_t>(count);
		to.total = static_cast<int64_t>(ns / 1000);
	}

	void
	reset_accumulated_stats()
	{
		each_device(weir_host_stats_reset_accumulated);
	}

	void
	reset_peak_stats()
	{
		each_device(weir_host_stats_reset_peak);
	}

	void
	begin_allocate_to_pool(
	    PoolId id, std::function<bool(c10::Stream)> filter)
	{
		auto owned = std::make_unique<Filter>(
		    [filter = std::move(filter)](cudaStream_t stream) {
			    return filter(c10::cuda::getStreamFromExternal(
				stream, current_device())
					      .unwrap());
		    });
		weir_torch_filter given = { filter_matches, filter_drop,
			owned.get() };

		expect(weir_torch_host_begin(id_of(id), &given),
		    "begin_allocate_to_pool");
		(void)owned.release();
	}

	void
	end_allocate_to_pool(PoolId id)
	{
		expect(weir_torch_host_end(id_of(id)), "end_allocate_to_pool");
	}

	/* For graphs that end: it does not throw. */
	void
	release_pool(PoolId id)
	{
		(void)weir_torch_host_release(id_of(id));
	}

private:
	static void
	add(weir_stat &to, const weir_stat &from)
	{
		to.current += from.current;
		to.peak += from.peak;
		to.allocated += from.allocated;
		to.freed += from.freed;
	}

	/* For all devices together. */
	static Stats
	host_stats()
	{
		Stats sum{};
		int count = 0;

		expect(weir_device_count(&count), "weir_device_count");
		for (int i = 0; i < count; i++) {
			Stats one{};
			one.struct_size = sizeof(one);
			expect(weir_host_stats(i, &one), "weir_host_stats");
			add(sum.active.all, one.active.all);
			add(sum.active_bytes.all, one.active_bytes.all);
			add(sum.segment.all, one.segment.all);
			add(sum.reserved_bytes.all, one.reserved_bytes.all);
			sum.num_device_alloc += one.num_device_alloc;
			sum.num_device_free += one.num_device_free;
			sum.pin_ns += one.pin_ns;
			sum.unpin_ns += one.unpin_ns;
		}
		return sum;
	}

	/* Since 2.10 bytes in use are "active", and "allocated" means all
	 * bytes. */
	template <typename To>
	static auto
	convert_host(To &to, const Stats &from, int)
	    -> decltype(to.active_bytes, void())
	{
		convert(to.active_requests, from.active.all);
		convert(to.active_bytes, from.active_bytes.all);
		convert(to.allocations, from.segment.all);
		convert(to.allocated_bytes, from.reserved_bytes.all);
	}

	template <typename To>
	static void
	convert_host(To &to, const Stats &from, long)
	{
		convert(to.allocation, from.active.all);
		convert(to.allocated_bytes, from.active_bytes.all);
		convert(to.segment, from.segment.all);
		convert(to.reserved_bytes, from.reserved_bytes.all);
	}

	static void
	each_device(weir_status (*act)(int device))
	{
		int count = 0;

		expect(weir_device_count(&count), "weir_device_count");
		for (int i = 0; i < count; i++)
			expect(act(i), "statistics of page-locked memory");
	}
};

/* Found by the types of its arguments, if this version has such a function. */
template <typename HostBase>
bool
install_host()
{
	if constexpr (is_defined<HostBase>::value) {
		static auto *host = new Host<HostBase>;
		setHostAllocator(
		    c10::DeviceType::CUDA, static_cast<HostBase *>(host), 0);
		return true;
	} else {
		return false;
	}
}

} // namespace
} // namespace weir_torch

#endif
