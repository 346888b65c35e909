/*
 * A double of PyTorch's allocator interfaces, of device memory and of
 * page-locked memory, in the shapes of PyTorch 2.11; with DOUBLE_VERSION 206 in
 * those of 2.6, which differ most. See base.h.
 */
#ifndef DOUBLE_INTERFACE_H
#define DOUBLE_INTERFACE_H

#include <array>
#include <ctime>
#include <unordered_map>
#include <unordered_set>

#include "base.h"

#ifndef DOUBLE_VERSION
#define DOUBLE_VERSION 211
#endif

namespace at
{
using namespace c10;
}

namespace c10
{

using CaptureId_t = unsigned long long;
using MempoolId_t = std::pair<CaptureId_t, CaptureId_t>;

namespace CachingAllocator
{
struct Stat {
	int64_t current = 0;
	int64_t peak = 0;
	int64_t allocated = 0;
	int64_t freed = 0;
};
using StatArray = std::array<Stat, 3>;
struct DurationStat {
	int64_t total = 0;
	int64_t max = 0;
	int64_t min = 0;
	int64_t count = 0;
};

#if DOUBLE_VERSION >= 209
class AcceleratorAllocatorConfig
{
public:
	static std::function<void(const std::string &)> &
	getConfigParserHook()
	{
		static std::function<void(const std::string &)> hook;

		return hook;
	}
};
#endif
} // namespace CachingAllocator

namespace CachingDeviceAllocator
{
using namespace CachingAllocator;

struct DeviceStats {
	StatArray allocation, segment, active, inactive_split;
	StatArray allocated_bytes, reserved_bytes, active_bytes;
	StatArray inactive_split_bytes, requested_bytes;
	int64_t num_alloc_retries = 0;
	int64_t num_ooms = 0;
	Stat oversize_allocations, oversize_segments;
	int64_t num_sync_all_streams = 0;
	int64_t num_device_alloc = 0;
	int64_t num_device_free = 0;
	int64_t max_split_size = 0;
};

using CreateContextFn = std::shared_ptr<GatheredContext> (*)();
enum struct RecordContext { NEVER, STATE, ALLOC, ALL };

struct BlockInfo {
	size_t size = 0;
	size_t requested_size = 0;
	int32_t gc_counter = 0;
	bool allocated = false;
	bool active = false;
	std::shared_ptr<GatheredContext> context_when_allocated;
};

struct SegmentInfo {
	DeviceIndex device = 0;
#if DOUBLE_VERSION >= 209
	int32_t registration_counter = -1;
#endif
	size_t address = 0;
	size_t total_size = 0;
	size_t requested_size = 0;
	size_t allocated_size = 0;
	size_t active_size = 0;
#if DOUBLE_VERSION >= 209
	void *stream = nullptr;
#else
	cudaStream_t stream = nullptr;
#endif
	bool is_large = false;
	bool is_expandable = false;
	MempoolId_t owner_private_pool_id = { 0, 0 };
	std::vector<BlockInfo> blocks;
	std::shared_ptr<GatheredContext> context_when_allocated;
};

union trace_time_ {
	time_t t_;
	uint64_t approx_t_;
};

struct TraceEntry {
	enum Action {
		ALLOC,
		FREE_REQUESTED,
		FREE_COMPLETED,
		SEGMENT_ALLOC,
		SEGMENT_FREE,
		SEGMENT_MAP,
		SEGMENT_UNMAP,
		SNAPSHOT,
		OOM
	};
#if DOUBLE_VERSION >= 209
	TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size,
	    void *stream, MempoolId_t pool, uint64_t time,
	    std::shared_ptr<GatheredContext> context = nullptr,
	    std::string compile_context = "", std::string user_metadata = "")
	    : action_(action), device_(device), addr_(addr),
	      context_(std::move(context)), stream_(stream), size_(size),
	      mempool_(pool), compile_context_(std::move(compile_context)),
	      user_metadata_(std::move(user_metadata))
	{
		time_.approx_t_ = time;
	}
#else
	TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size,
	    cudaStream_t stream, uint64_t time,
	    std::shared_ptr<GatheredContext> context = nullptr)
	    : action_(action), device_(device), addr_(addr),
	      context_(std::move(context)), stream_(stream), size_(size)
	{
		time_.approx_t_ = time;
	}
#endif
	Action action_;
	DeviceIndex device_;
	size_t addr_;
	std::shared_ptr<GatheredContext> context_;
	void *stream_{};
	size_t size_;
	MempoolId_t mempool_;
	trace_time_ time_{};
	std::string compile_context_;
	std::string user_metadata_;
};

struct AnnotationEntry {
	AnnotationEntry(DeviceIndex device, uint64_t time) : device_(device)
	{
		time_.approx_t_ = time;
	}
	void
	recordUserMetadata(const std::string &name, std::string value)
	{
		metadata_[name] = std::move(value);
	}
	DeviceIndex device_;
	trace_time_ time_{};
	std::unordered_map<std::string, std::string> metadata_;
};

using AllocatorTraceTracker = std::function<void(const TraceEntry &)>;
} // namespace CachingDeviceAllocator

namespace cuda::CUDACachingAllocator
{
using CachingDeviceAllocator::AllocatorTraceTracker;
using CachingDeviceAllocator::BlockInfo;
using CachingDeviceAllocator::CreateContextFn;
using CachingDeviceAllocator::DeviceStats;
using CachingDeviceAllocator::RecordContext;
using CachingDeviceAllocator::SegmentInfo;
using CachingDeviceAllocator::TraceEntry;

/* The user's settings. */
class CUDAAllocatorConfig
{
public:
	static std::string text;
	static std::string
	last_allocator_settings()
	{
		return text;
	}
	static bool
	expandable_segments()
	{
		return false;
	}
};

struct AllocatorState {
	virtual ~AllocatorState() = default;
};

struct AllocatorConfigInfo {
	double garbage_collection_threshold = -1;
	size_t max_split_size = 0;
	size_t pinned_num_register_threads = 0;
	bool expandable_segments = true;
	bool release_lock_on_malloc = true;
	bool pinned_use_host_register = true;
	std::string last_allocator_settings;
	std::vector<size_t> roundup_power2_divisions;
};

struct SnapshotInfo {
	std::vector<SegmentInfo> segments;
	std::vector<std::vector<TraceEntry>> device_traces;
	std::vector<CachingDeviceAllocator::AnnotationEntry>
	    external_annotations;
	AllocatorConfigInfo config_metadata;
};

struct CheckpointDelta {
	std::vector<void *> ptrs_freed;
	std::vector<DataPtr> dataptrs_allocd;
};

using OutOfMemoryObserver = std::function<void(
    int64_t device, size_t allocated, size_t total, size_t device_free)>;

struct ShareableHandle {
	ptrdiff_t offset;
	std::string handle;
};

#if DOUBLE_VERSION >= 209
struct StreamSegmentSize {
	StreamSegmentSize(cudaStream_t s, bool small, size_t size)
	    : stream(s), is_small_pool(small), total_size(size)
	{
	}
	cudaStream_t stream;
	bool is_small_pool;
	size_t total_size;
};
#endif

/* Every function is there to be overridden, so that an adapter that lacks one
 * is an abstract class. */
class CUDAAllocator : public Allocator
{
public:
	virtual bool initialized() = 0;
	virtual DeviceStats getDeviceStats(DeviceIndex device) = 0;
	virtual void resetAccumulatedStats(DeviceIndex device) = 0;
	virtual void resetPeakStats(DeviceIndex device) = 0;
	virtual void *raw_alloc(size_t size) = 0;
	virtual void *raw_alloc_with_stream(
	    size_t size, cudaStream_t stream) = 0;
	virtual void raw_delete(void *ptr) = 0;
	virtual void init(int count) = 0;
	virtual void setMemoryFraction(double fraction, DeviceIndex) = 0;
	virtual void cacheInfo(DeviceIndex device, size_t *largest) = 0;
	virtual void *getBaseAllocation(void *ptr, size_t *size) = 0;
	virtual void recordStream(const DataPtr &ptr, CUDAStream stream) = 0;
	virtual void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
	    std::function<bool(cudaStream_t)> filter) = 0;
	virtual void endAllocateToPool(DeviceIndex device, MempoolId_t) = 0;
	virtual void releasePool(DeviceIndex device, MempoolId_t id) = 0;
	virtual int getPoolUseCount(DeviceIndex device, MempoolId_t id) = 0;
	virtual bool checkPoolLiveAllocations(DeviceIndex device,
	    MempoolId_t id, const std::unordered_set<void *> &expected) = 0;
	virtual ShareableHandle shareIpcHandle(void *ptr) = 0;
	virtual std::shared_ptr<void> getIpcDevPtr(std::string handle) = 0;
	virtual bool isHistoryEnabled() = 0;
	virtual void recordAnnotation(
	    const std::vector<std::pair<std::string, std::string>> &md) = 0;
	virtual void attachOutOfMemoryObserver(OutOfMemoryObserver) = 0;
	virtual void attachAllocatorTraceTracker(AllocatorTraceTracker) = 0;
	virtual void enablePeerAccess(DeviceIndex a, DeviceIndex b) = 0;
	virtual cudaError_t memcpyAsync(void *to, int to_device,
	    const void *from, int from_device, size_t size, cudaStream_t stream,
	    bool p2p) = 0;
	virtual std::shared_ptr<AllocatorState> getCheckpointState(
	    DeviceIndex device, MempoolId_t id) = 0;
	virtual CheckpointDelta setCheckpointPoolState(
	    DeviceIndex device, std::shared_ptr<AllocatorState> state) = 0;
	virtual std::string name() = 0;
#if DOUBLE_VERSION >= 209
	virtual void emptyCache(MempoolId_t id = { 0, 0 }) = 0;
	virtual double getMemoryFraction(DeviceIndex device) = 0;
	virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(
	    DeviceIndex device) = 0;
	virtual void enable(bool value) = 0;
	virtual bool isEnabled() const = 0;
	virtual SnapshotInfo snapshot(
	    MempoolId_t id = { 0, 0 }, bool include_traces = true) = 0;
	virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
	    std::shared_ptr<CUDAAllocator> allocator = nullptr) = 0;
	virtual void setUseOnOOM(DeviceIndex device, MempoolId_t, bool) = 0;
	virtual void setNoSplit(DeviceIndex device, MempoolId_t id) = 0;
	virtual void recordHistory(bool enabled, CreateContextFn recorder,
	    size_t max_entries, RecordContext when, bool clear,
	    const std::vector<std::string> &skip_actions) = 0;
	virtual void pushCompileContext(std::string &md) = 0;
	virtual void popCompileContext() = 0;
	virtual void setUserMetadata(const std::string &metadata) = 0;
	virtual std::string getUserMetadata() = 0;
#else
	virtual void emptyCache() = 0;
	virtual SnapshotInfo snapshot() = 0;
	virtual void ensureExistsAndIncrefPool(
	    DeviceIndex device, MempoolId_t id) = 0;
	virtual void recordHistory(bool enabled, CreateContextFn recorder,
	    size_t max_entries, RecordContext when) = 0;
#endif
};

extern std::atomic<CUDAAllocator *> allocator;
} // namespace cuda::CUDACachingAllocator

} // namespace c10

/* ---- Page-locked memory ------------------------------------------------ */

#if DOUBLE_VERSION >= 208
namespace at
{
struct HostStats {
	CachingAllocator::Stat active_requests, active_bytes;
	CachingAllocator::Stat allocations, allocated_bytes;
	CachingAllocator::DurationStat host_alloc_time, host_free_time;
	int64_t num_host_alloc = 0;
	int64_t num_host_free = 0;
};

struct HostAllocator : Allocator {
	virtual bool record_event(void *ptr, void *ctx, Stream stream) = 0;
	virtual void empty_cache() = 0;
	virtual HostStats get_stats() = 0;
	virtual void reset_accumulated_stats() = 0;
	virtual void reset_peak_stats() = 0;
	virtual void begin_allocate_to_pool(
	    MempoolId_t id, std::function<bool(Stream)> filter) = 0;
	virtual void end_allocate_to_pool(MempoolId_t id) = 0;
	virtual void release_pool(MempoolId_t id) = 0;
};

void setHostAllocator(
    DeviceType type, HostAllocator *allocator, uint8_t priority = 0);
HostAllocator *getHostAllocator(DeviceType type);
} // namespace at
#endif

#endif
