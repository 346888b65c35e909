/*
 * An allocator as a user writes it for a pool: it only allocates and frees. It
 * has the functions of all forms of the interface.
 */
#ifndef TESTS_PLUGINS_TORCH_OWN_ALLOCATOR_H
#define TESTS_PLUGINS_TORCH_OWN_ALLOCATOR_H

#include "tests/plugins/torch/double/double.h"

class OwnAllocator : public c10::cuda::CUDACachingAllocator::CUDAAllocator
{
public:
	OwnAllocator(void *(*take)(size_t), void (*give)(void *))
	    : take_(take), give_(give)
	{
	}
	void *
	raw_alloc(size_t size)
	{
		return take_(size);
	}
	void
	raw_delete(void *ptr)
	{
		give_(ptr);
	}

#define UNUSED(result, call)                                                   \
	result call                                                            \
	{                                                                      \
		throw c10::Error("not for a pool");                            \
	}
	using Id = c10::MempoolId_t;
	using Index = c10::DeviceIndex;
	using Stats = c10::CachingDeviceAllocator::DeviceStats;
	UNUSED(c10::DataPtr, allocate(size_t))
	UNUSED(void, copy_data(void *, const void *, size_t) const)
	UNUSED(bool, initialized())
	UNUSED(void, emptyCache())
	UNUSED(void, emptyCache(Id))
	UNUSED(Stats, getDeviceStats(Index))
	UNUSED(void, resetAccumulatedStats(Index))
	UNUSED(void, resetPeakStats(Index))
	UNUSED(void *, raw_alloc_with_stream(size_t, cudaStream_t))
	UNUSED(void, init(int))
	UNUSED(double, getMemoryFraction(Index))
	UNUSED(void, setMemoryFraction(double, Index))
#if DOUBLE_VERSION >= 210
	UNUSED(std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize>,
	    getExpandableSegmentSizes(Index))
#endif
	UNUSED(void, enable(bool))
	UNUSED(bool, isEnabled() const)
	UNUSED(void, cacheInfo(Index, size_t *))
	UNUSED(void *, getBaseAllocation(void *, size_t *))
	UNUSED(void, recordStream(const c10::DataPtr &, c10::cuda::CUDAStream))
	using Snapshot = c10::cuda::CUDACachingAllocator::SnapshotInfo;
	UNUSED(Snapshot, snapshot())
	UNUSED(Snapshot, snapshot(Id))
	UNUSED(Snapshot, snapshot(Id, bool))
	UNUSED(void,
	    beginAllocateToPool(Index, Id, std::function<bool(cudaStream_t)>))
	UNUSED(void, endAllocateToPool(Index, Id))
	UNUSED(void, releasePool(Index, Id))
	UNUSED(int, getPoolUseCount(Index, Id))
	UNUSED(void, ensureExistsAndIncrefPool(Index, Id))
	UNUSED(void, createOrIncrefPool(Index, Id, CUDAAllocator *))
	UNUSED(
	    void, createOrIncrefPool(Index, Id, std::shared_ptr<CUDAAllocator>))
	UNUSED(void, setUseOnOOM(Index, Id))
	UNUSED(void, setUseOnOOM(Index, Id, bool))
	UNUSED(void, setNoSplit(Index, Id))
	UNUSED(bool,
	    checkPoolLiveAllocations(
		Index, Id, const std::unordered_set<void *> &))
	UNUSED(c10::cuda::CUDACachingAllocator::ShareableHandle,
	    shareIpcHandle(void *))
	UNUSED(std::shared_ptr<void>, getIpcDevPtr(std::string))
	UNUSED(bool, isHistoryEnabled())
	using Gather = c10::CachingDeviceAllocator::CreateContextFn;
	using When = c10::CachingDeviceAllocator::RecordContext;
	UNUSED(void, recordHistory(bool, Gather, size_t, When))
	UNUSED(void, recordHistory(bool, Gather, size_t, When, bool))
	UNUSED(void,
	    recordHistory(bool, Gather, size_t, When, bool,
		const std::vector<std::string> &))
	using Texts = std::vector<std::pair<std::string, std::string>>;
	UNUSED(void, recordAnnotation(const Texts &))
	UNUSED(void, pushCompileContext(std::string &))
	UNUSED(void, popCompileContext())
	UNUSED(void, setUserMetadata(const std::string &))
	UNUSED(std::string, getUserMetadata())
	UNUSED(bool, supportsUserMetadata())
	UNUSED(void, annotateMemory(const void *, const std::string &))
	UNUSED(std::shared_ptr<c10::GatheredContext>,
	    getContextForPointer(const void *))
#if DOUBLE_VERSION >= 213
	UNUSED(void,
	    attachOomRejectionObserver(
		c10::cuda::CUDACachingAllocator::OomRejectionObserver))
#endif
	UNUSED(void,
	    attachOutOfMemoryObserver(
		c10::cuda::CUDACachingAllocator::OutOfMemoryObserver))
	UNUSED(void,
	    attachAllocatorTraceTracker(
		c10::CachingDeviceAllocator::AllocatorTraceTracker))
	UNUSED(void, enablePeerAccess(Index, Index))
	UNUSED(cudaError_t,
	    memcpyAsync(
		void *, int, const void *, int, size_t, cudaStream_t, bool))
	using State = c10::cuda::CUDACachingAllocator::AllocatorState;
	UNUSED(std::shared_ptr<State>, getCheckpointState(Index, Id))
	UNUSED(c10::cuda::CUDACachingAllocator::CheckpointDelta,
	    setCheckpointPoolState(Index, std::shared_ptr<State>))
	UNUSED(std::string, name())
#undef UNUSED

private:
	void *(*take_)(size_t);
	void (*give_)(void *);
};

#endif
