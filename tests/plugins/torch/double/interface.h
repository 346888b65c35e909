/*
 * A double of PyTorch's allocator interfaces, of device memory and of
 * page-locked memory. See base.h. DOUBLE_VERSION picks the form:
 *
 *	206  PyTorch 2.6 and 2.7
 *	208  2.8: pools are made with an allocator; page-locked memory
 *	209  2.9: an interface for all kinds of devices lies under it
 *	210  2.10: metadata, no splits, pools that own their allocator
 *	211  2.11: streams are plain pointers in the history (the default)
 *	213  2.13: a block's context, observers of rejections
 *	214  2.14: annotations of blocks
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

#if DOUBLE_VERSION >= 210
class AcceleratorAllocatorConfig
{
public:
#if DOUBLE_VERSION >= 213
	static size_t
	pinned_max_round_threshold()
	{
		return 1 << 20;
	}
	static size_t
	pinned_max_cached_size()
	{
		return 1 << 21;
	}
#endif
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

#if DOUBLE_VERSION >= 211
using DoubleStream = void *;
#else
using DoubleStream = cudaStream_t;
#endif

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
#if DOUBLE_VERSION >= 210
	int32_t registration_counter = -1;
#endif
	size_t address = 0;
	size_t total_size = 0;
	size_t requested_size = 0;
	size_t allocated_size = 0;
	size_t active_size = 0;
	DoubleStream stream = nullptr;
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
		OOM,
#if DOUBLE_VERSION >= 214
		ANNOTATE,
#endif
	};
#if DOUBLE_VERSION >= 210
	TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size,
	    DoubleStream stream, MempoolId_t pool, uint64_t time,
	    std::shared_ptr<GatheredContext> context = nullptr,
	    std::string compile_context = "", std::string user_metadata = "")
	    : action_(action), device_(device), addr_(addr),
	      context_(std::move(context)), stream_(stream), size_(size),
	      mempool_(pool), compile_context_(std::move(compile_context)),
	      user_metadata_(std::move(user_metadata))
	{
		time_.approx_t_ = time;
	}
#elif DOUBLE_VERSION >= 208
	TraceEntry(Action action, DeviceIndex device, size_t addr, size_t size,
	    cudaStream_t stream, MempoolId_t pool, uint64_t time,
	    std::shared_ptr<GatheredContext> context = nullptr,
	    std::string compile_context = "")
	    : action_(action), device_(device), addr_(addr),
	      context_(std::move(context)), stream_(stream), size_(size),
	      mempool_(pool), compile_context_(std::move(compile_context))
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
	DoubleStream stream_{};
	size_t size_;
	trace_time_ time_{};
#if DOUBLE_VERSION >= 208
	MempoolId_t mempool_;
	std::string compile_context_;
#endif
#if DOUBLE_VERSION >= 210
	std::string user_metadata_;
#endif
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

#if DOUBLE_VERSION >= 209
struct DeviceAllocator : Allocator {
	virtual bool initialized() = 0;
	virtual void emptyCache(MempoolId_t id = { 0, 0 }) = 0;
	virtual void recordStream(const DataPtr &ptr, Stream stream) = 0;
	virtual CachingDeviceAllocator::DeviceStats getDeviceStats(
	    DeviceIndex device) = 0;
	virtual void resetAccumulatedStats(DeviceIndex device) = 0;
	virtual void resetPeakStats(DeviceIndex device) = 0;
};
#endif

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
#if DOUBLE_VERSION >= 209
	bool graph_capture_record_stream_reuse = true;
#endif
	std::string last_allocator_settings;
	std::vector<size_t> roundup_power2_divisions;
#if DOUBLE_VERSION >= 213
	size_t max_round_threshold;
	size_t max_cached_size;
#endif
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

#if DOUBLE_VERSION >= 213
using OomRejectionObserver = std::function<void(
    int64_t device, size_t size, size_t allocated, size_t total)>;
#endif

#if DOUBLE_VERSION >= 210
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

/* Every function that weir implements is pure, so an adapter that lacks one in
 * this form is an abstract class. */
#if DOUBLE_VERSION >= 209
class CUDAAllocator : public DeviceAllocator
#else
class CUDAAllocator : public Allocator
#endif
{
public:
	virtual void *raw_alloc(size_t size) = 0;
	virtual void *raw_alloc_with_stream(
	    size_t size, cudaStream_t stream) = 0;
	virtual void raw_delete(void *ptr) = 0;
	virtual void init(int count) = 0;
	virtual double getMemoryFraction(DeviceIndex device) = 0;
	virtual void setMemoryFraction(double fraction, DeviceIndex) = 0;
	virtual void enable(bool value) = 0;
	virtual bool isEnabled() const = 0;
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

#if DOUBLE_VERSION < 209
	virtual bool initialized() = 0;
	virtual DeviceStats getDeviceStats(DeviceIndex device) = 0;
	virtual void resetAccumulatedStats(DeviceIndex device) = 0;
	virtual void resetPeakStats(DeviceIndex device) = 0;
#else
	void
	recordStream(const DataPtr &ptr, Stream stream) override
	{
		recordStream(ptr, CUDAStream(stream));
	}
#endif

#if DOUBLE_VERSION < 208
	virtual void emptyCache() = 0;
	virtual SnapshotInfo snapshot() = 0;
	virtual void ensureExistsAndIncrefPool(
	    DeviceIndex device, MempoolId_t id) = 0;
	virtual void recordHistory(bool enabled, CreateContextFn recorder,
	    size_t max_entries, RecordContext when) = 0;
#else
	virtual void pushCompileContext(std::string &md) = 0;
	virtual void popCompileContext() = 0;
#endif

#if DOUBLE_VERSION == 208
	virtual void emptyCache(MempoolId_t id = { 0, 0 }) = 0;
#endif
#if DOUBLE_VERSION >= 208 && DOUBLE_VERSION < 211
	virtual SnapshotInfo snapshot(MempoolId_t id = { 0, 0 }) = 0;
#endif
#if DOUBLE_VERSION == 208 || DOUBLE_VERSION == 209
	virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
	    CUDAAllocator *allocator = nullptr) = 0;
	virtual void setUseOnOOM(DeviceIndex device, MempoolId_t id) = 0;
	virtual void recordHistory(bool enabled, CreateContextFn recorder,
	    size_t max_entries, RecordContext when, bool clear) = 0;
#endif

#if DOUBLE_VERSION >= 210
	virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(
	    DeviceIndex device) = 0;
	virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
	    std::shared_ptr<CUDAAllocator> allocator = nullptr) = 0;
	virtual void setUseOnOOM(DeviceIndex device, MempoolId_t, bool) = 0;
	virtual void setNoSplit(DeviceIndex device, MempoolId_t id) = 0;
	virtual void recordHistory(bool enabled, CreateContextFn recorder,
	    size_t max_entries, RecordContext when, bool clear,
	    const std::vector<std::string> &skip_actions) = 0;
	virtual void setUserMetadata(const std::string &metadata) = 0;
	virtual std::string getUserMetadata() = 0;
#endif

#if DOUBLE_VERSION >= 211
	virtual SnapshotInfo snapshot(
	    MempoolId_t id = { 0, 0 }, bool include_traces = true) = 0;
#endif

#if DOUBLE_VERSION >= 213
	virtual void attachOomRejectionObserver(OomRejectionObserver) = 0;
	virtual std::shared_ptr<GatheredContext> getContextForPointer(
	    const void *ptr) = 0;
	/* weir has neither. */
	virtual void
	markCaptureBegin(DeviceIndex)
	{
	}
	virtual void
	markCaptureEnd(DeviceIndex)
	{
	}
#endif

#if DOUBLE_VERSION >= 214
	virtual bool supportsUserMetadata() = 0;
	virtual void annotateMemory(
	    const void *ptr, const std::string &metadata) = 0;
#endif
};

extern std::atomic<CUDAAllocator *> allocator;
} // namespace cuda::CUDACachingAllocator

#if DOUBLE_VERSION < 208
namespace cuda
{
/* A user's pool, whose allocator is known to callers that ask for the active
 * pool. */
struct MemPool {
	MempoolId_t
	id()
	{
		return id_;
	}
	CUDACachingAllocator::CUDAAllocator *
	allocator()
	{
		return allocator_;
	}
	MempoolId_t id_;
	CUDACachingAllocator::CUDAAllocator *allocator_;
};

struct MemPoolContext {
	static MemPool *active;
	static MemPool *
	getActiveMemPool()
	{
		return active;
	}
};
} // namespace cuda
#endif

} // namespace c10

/* ---- Page-locked memory ------------------------------------------------ */

#if DOUBLE_VERSION >= 208
namespace at
{
struct HostStats {
#if DOUBLE_VERSION >= 211
	CachingAllocator::Stat active_requests, active_bytes;
	CachingAllocator::Stat allocations, allocated_bytes;
#else
	CachingAllocator::Stat allocation, segment;
	CachingAllocator::Stat allocated_bytes, reserved_bytes;
#endif
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
#if DOUBLE_VERSION >= 211
	virtual void begin_allocate_to_pool(
	    MempoolId_t id, std::function<bool(Stream)> filter) = 0;
	virtual void end_allocate_to_pool(MempoolId_t id) = 0;
	virtual void release_pool(MempoolId_t id) = 0;
#endif
};

void setHostAllocator(
    DeviceType type, HostAllocator *allocator, uint8_t priority = 0);
HostAllocator *getHostAllocator(DeviceType type);
} // namespace at
#endif

#endif
