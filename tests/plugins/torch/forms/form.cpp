/*
 * The adapter in one form of PyTorch's interface, for forms_test.c: a program
 * that is compiled once for each DOUBLE_VERSION, with the adapter and the
 * double in that form. It checks that nothing is lost which the form can hold.
 * It exits with 0, or prints what is wrong. With the argument "uncached" it
 * checks that nothing is cached.
 */
#include <cstdio>
#include <cstring>

#include <cuda_runtime.h>

#include "plugins/torch/weir_torch.h"
#include "tests/plugins/torch/double/double.h"
#include "tests/plugins/torch/own_allocator.h"

extern "C" int weir_torch_install(bool host, char *text, size_t size);

namespace caching = c10::cuda::CUDACachingAllocator;
using caching::CUDAAllocator;
using Pool = c10::MempoolId_t;

namespace
{

#define NEED(condition)                                                        \
	do {                                                                   \
		if (!(condition))                                              \
			throw std::runtime_error(                              \
			    std::to_string(__LINE__) + ": " #condition);       \
	} while (0)

constexpr size_t SIZE = 3 << 20;
const Pool pool = { 0, 9 };

struct Stack : c10::GatheredContext {
};

std::shared_ptr<c10::GatheredContext>
gather()
{
	return std::make_shared<Stack>();
}

/* ---- Calls whose parameters differ ------------------------------------- */

void
record(CUDAAllocator &a)
{
	auto all = caching::RecordContext::ALL;

#if DOUBLE_VERSION >= 210
	a.recordHistory(true, gather, 100, all, true, { "snapshot" });
#elif DOUBLE_VERSION >= 208
	a.recordHistory(true, gather, 100, all, true);
#else
	a.recordHistory(true, gather, 100, all);
#endif
}

void
hold_pool(CUDAAllocator &a)
{
#if DOUBLE_VERSION >= 208
	a.createOrIncrefPool(0, pool, nullptr);
#else
	a.ensureExistsAndIncrefPool(0, pool);
#endif
}

void
use_on_oom(CUDAAllocator &a)
{
#if DOUBLE_VERSION >= 210
	a.setUseOnOOM(0, pool, true);
	a.setNoSplit(0, pool);
#elif DOUBLE_VERSION >= 208
	a.setUseOnOOM(0, pool);
#endif
	NEED(a.getPoolUseCount(0, pool) == 1);
}

/* ---- What is checked --------------------------------------------------- */

void
check_entry(const caching::TraceEntry &entry, const void *ptr)
{
	NEED(entry.action_ == caching::TraceEntry::ALLOC);
	NEED(entry.addr_ == reinterpret_cast<size_t>(ptr));
	NEED(entry.size_ == SIZE);
	NEED(entry.device_ == 0);
	NEED(entry.time_.t_ > 0);
	NEED(std::dynamic_pointer_cast<Stack>(entry.context_) != nullptr);
#if DOUBLE_VERSION >= 208
	NEED(entry.mempool_ == pool);
	NEED(entry.compile_context_ == "region 1");
#endif
#if DOUBLE_VERSION >= 210
	NEED(entry.user_metadata_ == "step 7");
#endif
}

void
check_segment(const caching::SegmentInfo &segment)
{
	NEED(segment.owner_private_pool_id == pool);
	NEED(segment.active_size >= SIZE && segment.requested_size == SIZE);
	NEED(segment.blocks.at(0).context_when_allocated != nullptr);
#if DOUBLE_VERSION >= 210
	NEED(segment.registration_counter >= 0);
#endif
}

void
check_settings(const caching::AllocatorConfigInfo &settings)
{
	NEED(settings.max_split_size == SIZE_MAX);
	NEED(!settings.release_lock_on_malloc);
	NEED(settings.roundup_power2_divisions.size() == 16);
#if DOUBLE_VERSION >= 209
	NEED(!settings.graph_capture_record_stream_reuse);
#endif
#if DOUBLE_VERSION >= 213
	NEED(settings.max_round_threshold == 1 << 20);
	NEED(settings.max_cached_size == 1 << 21);
#endif
}

/* Check the facts of a block that only later forms tell. */
void
check_block(CUDAAllocator &a, const void *ptr)
{
#if DOUBLE_VERSION >= 213
	NEED(a.getContextForPointer(ptr) != nullptr);
#endif
#if DOUBLE_VERSION >= 214
	NEED(a.supportsUserMetadata());
	a.annotateMemory(ptr, "weights");
	a.annotateMemory(&a, "not a block");
	caching::TraceEntry last = a.snapshot().device_traces.at(0).back();
	NEED(last.action_ == caching::TraceEntry::ANNOTATE);
	NEED(last.addr_ == reinterpret_cast<size_t>(ptr));
	NEED(last.user_metadata_ == "weights");
#endif
	(void)a;
	(void)ptr;
}

void
check_pool(CUDAAllocator &a)
{
	cudaStream_t stream = nullptr;

	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	hold_pool(a);
	use_on_oom(a);
	a.beginAllocateToPool(
	    0, pool, [stream](cudaStream_t s) { return s == stream; });
#if DOUBLE_VERSION >= 208
	std::string region = "region 1";
	a.pushCompileContext(region);
#endif
#if DOUBLE_VERSION >= 210
	a.setUserMetadata("step 7");
	NEED(a.getUserMetadata() == "step 7");
#endif
	void *ptr = a.raw_alloc_with_stream(SIZE, stream);
	caching::SnapshotInfo all = a.snapshot();
	check_entry(all.device_traces.at(0).back(), ptr);
	check_segment(all.segments.at(0));
	check_settings(all.config_metadata);
	check_block(a, ptr);
#if DOUBLE_VERSION >= 208
	NEED(a.snapshot(pool).segments.size() == 1);
	NEED(a.snapshot(Pool(0, 77)).segments.empty());
	a.popCompileContext();
#endif
	a.endAllocateToPool(0, pool);
	a.raw_delete(ptr);
	a.releasePool(0, pool);
	a.releasePool(0, pool);
	a.emptyCache();
	NEED(a.getDeviceStats(0).reserved_bytes[0].current == 0);
}

/* ---- A pool's own allocator -------------------------------------------- */

int taken;
int given;

void *
take_own(size_t size)
{
	void *ptr = nullptr;

	taken++;
	return cudaMalloc(&ptr, size) == cudaSuccess ? ptr : nullptr;
}

void
give_own(void *ptr)
{
	given++;
	cudaFree(ptr);
}

/* In 2.6 and 2.7 the pool that is active has it, in 2.8 and later the call that
 * makes the pool. */
void
check_own_allocator(CUDAAllocator &a)
{
	auto own = std::make_shared<OwnAllocator>(take_own, give_own);
	Pool id = { 0, 10 };

#if DOUBLE_VERSION >= 210
	a.createOrIncrefPool(0, id, own);
#elif DOUBLE_VERSION >= 208
	a.createOrIncrefPool(0, id, own.get());
#else
	c10::cuda::MemPool active = { id, own.get() };
	a.ensureExistsAndIncrefPool(0, id);
	c10::cuda::MemPoolContext::active = &active;
#endif
	NEED(a.getPoolUseCount(0, id) == 1);
	a.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	NEED(a.getPoolUseCount(0, id) == 2);
	void *ptr = a.raw_alloc(SIZE);
	NEED(taken == 1);
	a.endAllocateToPool(0, id);
	a.raw_delete(ptr);
	a.releasePool(0, id);
	a.releasePool(0, id);
	a.emptyCache();
	NEED(given == 1);
#if DOUBLE_VERSION < 208
	/* Other pools have nothing to do with it. */
	a.beginAllocateToPool(0, pool, [](cudaStream_t) { return true; });
	a.raw_delete(a.raw_alloc(SIZE));
	NEED(taken == 1);
	a.endAllocateToPool(0, pool);
	a.releasePool(0, pool);
	a.emptyCache();
	/* Nobody has made this one before. */
	active.id_ = Pool(0, 11);
	a.beginAllocateToPool(0, active.id_, [](cudaStream_t) { return true; });
	NEED(a.getPoolUseCount(0, active.id_) == 1);
	ptr = a.raw_alloc(SIZE);
	NEED(taken == 2);
	a.endAllocateToPool(0, active.id_);
	a.releasePool(0, active.id_);
	/* It has a block and no user, and is routed to again. */
	a.beginAllocateToPool(0, active.id_, [](cudaStream_t) { return true; });
	NEED(a.getPoolUseCount(0, active.id_) == 1);
	a.raw_delete(ptr);
	a.endAllocateToPool(0, active.id_);
	a.releasePool(0, active.id_);
	a.emptyCache();
	NEED(given == 2);
	c10::cuda::MemPoolContext::active = nullptr;
#endif
}

void
check_streams(CUDAAllocator &a)
{
	c10::DataPtr block = a.allocate(SIZE);
	c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(0);

	a.recordStream(block, stream);
#if DOUBLE_VERSION >= 209
	static_cast<c10::DeviceAllocator &>(a).recordStream(
	    block, stream.unwrap());
#endif
	NEED(a.getDeviceStats(0).allocation[0].current == 1);
#if DOUBLE_VERSION >= 210
	NEED(!a.getExpandableSegmentSizes(0).empty());
#endif
}

void
check_host()
{
#if DOUBLE_VERSION >= 208
	at::HostAllocator *host = at::getHostAllocator(c10::kCUDA);

	NEED(host != nullptr);
	c10::DataPtr block = host->allocate(1000);
	at::HostStats stats = host->get_stats();
#if DOUBLE_VERSION >= 211
	NEED(stats.active_requests.current == 1);
	NEED(stats.allocated_bytes.current >= stats.active_bytes.current);
#else
	NEED(stats.allocation.current == 1);
	NEED(stats.reserved_bytes.current >= stats.allocated_bytes.current);
#endif
	NEED(stats.num_host_alloc > 0);
	NEED(stats.host_alloc_time.count == stats.num_host_alloc);
	NEED(stats.host_alloc_time.total > 0);
#endif
}

/* As after PYTORCH_NO_CUDA_MEMORY_CACHING=1. */
void
check_uncached(CUDAAllocator &a)
{
	for (int i = 0; i < 2; i++) {
		c10::DataPtr block = a.allocate(SIZE);
		void *raw = a.raw_alloc(SIZE);
		NEED(a.isEnabled());
		NEED(block.get_deleter() == a.raw_deleter());
		NEED(a.getDeviceStats(0).allocation[0].allocated == 0);
		a.raw_delete(raw);
		a.enable(true);
	}
}

} // namespace

int
main(int argc, char **argv)
{
	char text[256];

	try {
		NEED(weir_torch_install(true, text, sizeof(text)) != 0);
		CUDAAllocator &a = *caching::allocator.load();
		a.init(1);
		NEED(a.initialized());
		if (argc > 1 && std::strcmp(argv[1], "uncached") == 0) {
			check_uncached(a);
			return 0;
		}
		record(a);
		check_pool(a);
		check_own_allocator(a);
		check_streams(a);
		check_host();
		return 0;
	} catch (const std::exception &error) {
		std::fprintf(stderr, "%s\n", error.what());
		return 1;
	}
}
