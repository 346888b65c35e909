/*
 * Limits and statistics.
 */
#ifndef PLUGINS_TORCH_STATISTICS_HPP
#define PLUGINS_TORCH_STATISTICS_HPP

#include <cuda_runtime_api.h>

#include "plugins/torch/blocks.hpp"

namespace weir_torch
{
namespace
{

template <typename Stat>
void
convert(Stat &to, const weir_stat &from)
{
	to.current = static_cast<int64_t>(from.current);
	to.peak = static_cast<int64_t>(from.peak);
	to.allocated = static_cast<int64_t>(from.allocated);
	to.freed = static_cast<int64_t>(from.freed);
}

template <typename Array>
void
convert3(Array &to, const weir_stat3 &from)
{
	convert(to[0], from.all);
	convert(to[1], from.small_pool);
	convert(to[2], from.large_pool);
}

caching::DeviceStats
convert_stats(const Stats &from)
{
	caching::DeviceStats to;

	convert3(to.allocation, from.allocation);
	convert3(to.segment, from.segment);
	convert3(to.active, from.active);
	convert3(to.inactive_split, from.inactive_split);
	convert3(to.allocated_bytes, from.allocated_bytes);
	convert3(to.reserved_bytes, from.reserved_bytes);
	convert3(to.active_bytes, from.active_bytes);
	convert3(to.inactive_split_bytes, from.inactive_split_bytes);
	convert3(to.requested_bytes, from.requested_bytes);
	convert(to.oversize_allocations, from.oversize_allocations);
	convert(to.oversize_segments, from.oversize_segments);
	to.num_alloc_retries = static_cast<int64_t>(from.num_alloc_retries);
	to.num_ooms = static_cast<int64_t>(from.num_ooms);
	to.max_split_size = static_cast<int64_t>(from.max_split_size);
	set_num_sync_all_streams(to, from.num_sync_all_streams, 0);
	set_num_device_alloc(to, from.num_device_alloc, 0);
	set_num_device_free(to, from.num_device_free, 0);
	return to;
}

/* The sizes of expandable segments, for versions that ask for them. */
template <typename Sizes>
void
list_expandable(Sizes &all, DeviceIndex device)
{
	if constexpr (!std::is_same_v<Sizes, std::vector<int>>) {
		struct To {
			Sizes *all;
			DeviceIndex device;
		} to = { &all, device };
		auto add = [](const weir_segment_view *s, void *user) {
			auto *at = static_cast<To *>(user);
			if (s->expandable && s->device == at->device)
				at->all->emplace_back(
				    cuda_of(s->stream), s->small, s->size);
		};
		expect(weir_torch_visit({ 0, 0 }, add, &to),
		    "getExpandableSegmentSizes");
	}
}

class Statistics : public Blocks
{
public:
	double
	getMemoryFraction(DeviceIndex device)
	{
		double fraction = 1;

		expect(
		    weir_fraction_get(device, &fraction), "getMemoryFraction");
		return fraction;
	}

	void
	setMemoryFraction(double fraction, DeviceIndex device)
	{
		if (!(fraction >= 0 && fraction <= 1))
			fail("invalid fraction:%g. Please set within [0, 1].",
			    fraction);
		expect(
		    weir_fraction_set(device, fraction), "setMemoryFraction");
	}

	void
	cacheInfo(DeviceIndex device, size_t *largest)
	{
		size_t found = 0;
		size_t total = 0;

		if (*largest == 0)
			C10_CUDA_CHECK(cudaMemGetInfo(largest, &total));
		if (weir_largest_free(device, weir_of(current_stream(device)),
			&found) == WEIR_OK &&
		    found > *largest)
			*largest = found;
	}

	void *
	getBaseAllocation(void *ptr, size_t *size)
	{
		bool found;
		BlockInfo info = info_of(ptr, &found);

		if (!found)
			fail("invalid device pointer: %p", ptr);
		if (size != nullptr)
			*size = info.segment_size;
		return info.segment;
	}

	void
	emptyCache(PoolId id)
	{
		Call call(caching::RecordContext::ALL);

		if (weir_torch_empty(id_of(id)) != WEIR_OK &&
		    !is_of_no_matter(weir_last_status()))
			complain("empty_cache");
	}

	void
	emptyCache()
	{
		emptyCache(PoolId(0, 0));
	}

	caching::DeviceStats
	getDeviceStats(DeviceIndex device)
	{
		return convert_stats(stats_of(device));
	}

	void
	resetAccumulatedStats(DeviceIndex device)
	{
		expect(weir_stats_reset_accumulated(device),
		    "resetAccumulatedStats");
	}

	void
	resetPeakStats(DeviceIndex device)
	{
		expect(weir_stats_reset_peak(device), "resetPeakStats");
	}

	typename expandable_sizes<Base>::type
	getExpandableSegmentSizes(DeviceIndex device)
	{
		typename expandable_sizes<Base>::type all;

		list_expandable(all, device);
		return all;
	}
};

} // namespace
} // namespace weir_torch

#endif
