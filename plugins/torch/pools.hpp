/*
 * Private pools: filters, their own allocators, checkpoints.
 */
#ifndef PLUGINS_TORCH_POOLS_HPP
#define PLUGINS_TORCH_POOLS_HPP

#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "plugins/torch/statistics.hpp"

namespace weir_torch
{
namespace
{

/* ---- Filters and sources ----------------------------------------------- */

using Filter = std::function<bool(cudaStream_t)>;

bool
filter_matches(void *closure, weir_stream stream)
{
	return (*static_cast<Filter *>(closure))(cuda_of(stream));
}

void
filter_drop(void *closure)
{
	delete static_cast<Filter *>(closure);
}

/* A pool's own allocator. If it throws, that means out of memory. */
struct Source {
	std::shared_ptr<Base> owned;
	Base *allocator;
};

void *
source_take(void *closure, size_t size)
{
	try {
		return static_cast<Source *>(closure)->allocator->raw_alloc(
		    size);
	} catch (...) {
		return nullptr;
	}
}

void
source_give(void *closure, void *ptr)
{
	try {
		static_cast<Source *>(closure)->allocator->raw_delete(ptr);
	} catch (const std::exception &e) {
		std::fprintf(stderr,
		    "weir: a pool's allocator does not take %p back: %s\n", ptr,
		    e.what());
	}
}

void
source_drop(void *closure)
{
	delete static_cast<Source *>(closure);
}

/* ---- The state of a pool ----------------------------------------------- */

struct State final : caching::AllocatorState {
	explicit State(weir_torch_checkpoint *checkpoint)
	    : checkpoint_(checkpoint)
	{
	}
	~State() override
	{
		weir_torch_checkpoint_drop(checkpoint_);
	}
	weir_torch_checkpoint *checkpoint_;
};

/* ---- The allocator ----------------------------------------------------- */

class Pools : public Statistics
{
public:
	void
	createOrIncrefPool(
	    DeviceIndex device, PoolId id, std::shared_ptr<Base> allocator)
	{
		hold_pool(device, id, allocator.get(), allocator);
	}

	void
	createOrIncrefPool(DeviceIndex device, PoolId id, Base *allocator)
	{
		hold_pool(device, id, allocator, nullptr);
	}

	void
	createOrIncrefPool(DeviceIndex device, PoolId id)
	{
		hold_pool(device, id, nullptr, nullptr);
	}

	void
	ensureExistsAndIncrefPool(DeviceIndex device, PoolId id)
	{
		hold_pool(device, id, nullptr, nullptr);
	}

	void
	beginAllocateToPool(DeviceIndex device, PoolId id, Filter filter)
	{
		auto owned = std::make_unique<Filter>(std::move(filter));
		weir_torch_filter given = { filter_matches, filter_drop,
			owned.get() };

		bool made = adopt_allocator(device, id,
		    active_allocator<c10::cuda::MemPoolContext>(id));
		weir_status status =
		    weir_torch_pool_begin(device, id_of(id), &given);
		if (made) /* the route has its own count */
			(void)weir_torch_pool_release(device, id_of(id));

		TORCH_CHECK(status != WEIR_EINVAL,
		    "beginAllocateToPool: already recording to mempool_id");
		expect(status, "beginAllocateToPool");
		(void)owned.release();
	}

	void
	endAllocateToPool(DeviceIndex device, PoolId id)
	{
		TORCH_CHECK(weir_torch_pool_end(device, id_of(id)) == WEIR_OK,
		    "endAllocatePool: not currently recording to mempool_id");
	}

	/* For graphs that end: it does not throw. */
	void
	releasePool(DeviceIndex device, PoolId id)
	{
		if (weir_torch_pool_release(device, id_of(id)) != WEIR_OK)
			std::fprintf(stderr,
			    "weir: releasePool: nobody uses the pool "
			    "(%llu, %llu) of device %d\n",
			    id.first, id.second, static_cast<int>(device));
	}

	int
	getPoolUseCount(DeviceIndex device, PoolId id)
	{
		return weir_torch_pool_uses(device, id_of(id));
	}

	void
	setUseOnOOM(DeviceIndex device, PoolId id, bool use)
	{
		if (weir_torch_pool_flag(device, id_of(id),
			WEIR_POOL_USE_ON_OOM, use) != WEIR_OK &&
		    use)
			TORCH_CHECK(false, "setUseOnOOM: no such pool");
	}

	void
	setUseOnOOM(DeviceIndex device, PoolId id)
	{
		setUseOnOOM(device, id, true);
	}

	void
	setNoSplit(DeviceIndex device, PoolId id)
	{
		TORCH_CHECK(weir_torch_pool_flag(device, id_of(id),
				WEIR_POOL_NO_SPLIT, true) == WEIR_OK,
		    "setNoSplit: no such pool");
	}

	bool
	checkPoolLiveAllocations(DeviceIndex device, PoolId id,
	    const std::unordered_set<void *> &expected)
	{
		std::vector<const void *> all(expected.begin(), expected.end());
		bool equal = false;

		TORCH_CHECK(weir_torch_pool_uses(device, id_of(id)) > 0,
		    "Could not find pool of id");
		expect(weir_torch_pool_check_live(
			   device, id_of(id), all.data(), all.size(), &equal),
		    "checkPoolLiveAllocations");
		return equal;
	}

	std::shared_ptr<caching::AllocatorState>
	getCheckpointState(DeviceIndex device, PoolId id)
	{
		Call call(caching::RecordContext::ALL);
		weir_torch_checkpoint *checkpoint = nullptr;

		TORCH_CHECK(weir_torch_pool_uses(device, id_of(id)) > 0,
		    "Could not find pool of id");
		expect(
		    weir_torch_checkpoint_take(device, id_of(id), &checkpoint),
		    "getCheckpointState");
		return std::make_shared<State>(checkpoint);
	}

	caching::CheckpointDelta
	setCheckpointPoolState(
	    DeviceIndex device, std::shared_ptr<caching::AllocatorState> state)
	{
		Call call(caching::RecordContext::STATE);
		auto *mine = dynamic_cast<State *>(state.get());
		weir_restored restored{};
		caching::CheckpointDelta delta;

		TORCH_CHECK(mine != nullptr, "not a state of this allocator");
		restored.struct_size = sizeof(restored);
		expect(weir_torch_checkpoint_restore(
			   device, mine->checkpoint_, &restored),
		    "setCheckpointPoolState");
		delta.ptrs_freed.assign(
		    restored.freed, restored.freed + restored.n_freed);
		for (size_t i = 0; i < restored.n_live; i++)
			delta.dataptrs_allocd.emplace_back(restored.live[i],
			    restored.live[i], &delete_block,
			    c10::Device(c10::kCUDA, device));
		weir_restored_drop(&restored);
		return delta;
	}

private:
	/* Make a pool with this allocator and return true, or give the
	 * allocator to an existing pool that is empty. A pool that has live
	 * blocks, or has this allocator, is not changed. */
	bool
	adopt_allocator(DeviceIndex device, PoolId id, Base *allocator)
	{
		if (allocator == nullptr || allocator == this)
			return false;
		std::unique_ptr<Source> given(new Source{ nullptr, allocator });
		weir_torch_source source = { source_take, source_give,
			source_drop, given.get() };
		bool used = weir_torch_pool_uses(device, id_of(id)) > 0;
		weir_status status = used ?
		    weir_torch_pool_source(device, id_of(id), &source) :
		    weir_torch_pool_hold(device, id_of(id), &source);
		if (status == WEIR_OK)
			(void)given.release();
		else if (status != WEIR_EINVAL)
			expect(status, "a pool's own allocator");
		return status == WEIR_OK && !used;
	}

	void
	hold_pool(DeviceIndex device, PoolId id, Base *allocator,
	    std::shared_ptr<Base> owned)
	{
		weir_torch_source source{};
		std::unique_ptr<Source> given;

		if (allocator != nullptr && allocator != this) {
			given.reset(new Source{ std::move(owned), allocator });
			source = { source_take, source_give, source_drop,
				given.get() };
		}
		expect(weir_torch_pool_hold(
			   device, id_of(id), given ? &source : nullptr),
		    "createOrIncrefPool");
		(void)given.release();
	}
};

} // namespace
} // namespace weir_torch

#endif
