/*
 * The adapter's behaviour for PyTorch: adapter_cases.h. An exception that a
 * case does not expect is a failure.
 */
#include "tests/plugins/torch/adapter_cases.h"

#include <chrono>
#include <cstring>
#include <malloc.h>
#include <thread>

#include <cuda_runtime.h>

#include "plugins/torch/weir_torch.h"
#include "tests/plugins/torch/double/double.h"

extern "C" int weir_torch_install(bool host, char *text, size_t size);

namespace caching = c10::cuda::CUDACachingAllocator;
using caching::CUDAAllocator;
using Pool = c10::MempoolId_t;

namespace
{

constexpr int64_t MIB = 1 << 20;

struct Fault : std::runtime_error {
	using std::runtime_error::runtime_error;
};

#define NEED(condition)                                                        \
	do {                                                                   \
		if (!(condition))                                              \
			throw Fault(                                           \
			    std::to_string(__LINE__) + ": " #condition);       \
	} while (0)

/* The text of the exception that a call throws. */
template <typename Error, typename Call>
std::string
thrown(Call call)
{
	try {
		call();
	} catch (const Error &error) {
		return error.what();
	}
	throw Fault("nothing is thrown");
}

bool
has(const std::string &text, const char *part)
{
	return text.find(part) != std::string::npos;
}

/* PyTorch with weir in it. */
CUDAAllocator &
installed()
{
	char text[256];

	if (caching::allocator.load() == nullptr) {
		NEED(weir_torch_install(true, text, sizeof(text)) != 0);
		caching::allocator.load()->init(2);
	}
	return *caching::allocator.load();
}

template <typename Case>
const char *
run(Case body)
{
	static std::string fault;

	try {
		body(installed());
		return nullptr;
	} catch (const std::exception &error) {
		fault = error.what();
	} catch (...) {
		fault = "an exception of no known kind";
	}
	return fault.c_str();
}

/* A stream, current for this thread until the end. */
struct OnStream {
	OnStream() : before(c10::cuda::getCurrentCUDAStream())
	{
		cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
		c10::cuda::setCurrentCUDAStream(
		    c10::cuda::getStreamFromExternal(stream, 0));
	}
	~OnStream()
	{
		c10::cuda::setCurrentCUDAStream(before);
	}
	cudaStream_t stream = nullptr;
	c10::cuda::CUDAStream before;
};

int64_t
live_bytes(CUDAAllocator &a)
{
	return a.getDeviceStats(0).allocated_bytes[0].current;
}

/* A context that says how many there are, and which this is. */
struct Stack : c10::GatheredContext {
	static int count;
	static std::string next;
	std::string words = next;
	Stack()
	{
		count++;
	}
	~Stack() override
	{
		count--;
	}
};
int Stack::count;
std::string Stack::next;

std::shared_ptr<c10::GatheredContext>
gather()
{
	return std::make_shared<Stack>();
}

std::string
words_of(const std::shared_ptr<c10::GatheredContext> &context)
{
	return context ? static_cast<Stack &>(*context).words : "";
}

void
record(CUDAAllocator &a, caching::RecordContext when, size_t entries = 100,
    const std::vector<std::string> &skip = {})
{
	a.recordHistory(true, gather, entries, when, true, skip);
}

void
stop_recording(CUDAAllocator &a)
{
	a.recordHistory(
	    false, nullptr, 0, caching::RecordContext::NEVER, true, {});
}

std::vector<caching::TraceEntry>
trace(CUDAAllocator &a)
{
	return a.snapshot().device_traces.at(0);
}

} // namespace

/* ---- Installing -------------------------------------------------------- */

const char *
it_is_installed_once_and_not_too_late()
{
	return run([](CUDAAllocator &a) {
		char text[256];

		NEED(a.initialized());
		NEED(a.name() == "native");
		NEED(c10::GetAllocator(c10::kCUDA) == &a);
		NEED(at::getHostAllocator(c10::kCUDA) != nullptr);
		NEED(weir_torch_install(true, text, sizeof(text)) != 0);
		NEED(caching::allocator.load() == &a);
	});
}

const char *
with_one_device_that_is_the_current_one()
{
	return run([](CUDAAllocator &a) {
		a.init(1);
		NEED(a.allocate(1000).device().index() == 0);
		a.init(2);
		cudaSetDevice(1);
		NEED(a.allocate(1000).device().index() == 1);
		cudaSetDevice(0);
	});
}

/* ---- Allocating and freeing -------------------------------------------- */

const char *
a_data_pointer_is_freed_by_weir()
{
	return run([](CUDAAllocator &a) {
		{
			c10::DataPtr ptr = a.allocate(1000);
			NEED(ptr.get() != nullptr);
			NEED(ptr.get_context() == ptr.get());
			NEED(ptr.get_deleter() == a.raw_deleter());
			NEED(ptr.device().index() == 0);
			NEED(live_bytes(a) == 1024);
		}
		NEED(live_bytes(a) == 0);
		cudaSetDevice(1);
		c10::DataPtr other = a.allocate(1000);
		NEED(other.device().index() == 1);
		NEED(a.getDeviceStats(1).allocated_bytes[0].current == 1024);
		cudaSetDevice(0);
	});
}

const char *
an_empty_request_has_no_memory()
{
	return run([](CUDAAllocator &a) {
		c10::DataPtr ptr = a.allocate(0);
		NEED(ptr.get() == nullptr);
		NEED(ptr.get_deleter() == a.raw_deleter());
		NEED(ptr.device().type() == c10::kCUDA);
		NEED(a.raw_alloc(0) == nullptr);
		a.raw_delete(nullptr);
		NEED(live_bytes(a) == 0);
	});
}

const char *
raw_pointers_are_freed_and_wrong_ones_are_errors()
{
	return run([](CUDAAllocator &a) {
		OnStream on;
		void *p = a.raw_alloc(600);
		void *q = a.raw_alloc_with_stream(600, on.stream);
		size_t size = 0;

		NEED(p != nullptr && q != nullptr && p != q);
		NEED(a.getBaseAllocation(q, &size) <= q && size >= 2 * MIB);
		a.raw_delete(p);
		NEED(a.raw_alloc(600) == p);
		a.raw_delete(p);
		a.raw_delete(q);
		NEED(has(thrown<c10::Error>([&] { a.raw_delete(q); }),
		    "invalid device pointer"));
		thrown<c10::Error>([&] { a.getBaseAllocation(q, &size); });
	});
}

/* ---- Shortage ---------------------------------------------------------- */

const char *
a_shortage_is_an_exception_in_pytorchs_words()
{
	return run([](CUDAAllocator &a) {
		int64_t told = -1;

		record(a, caching::RecordContext::NEVER);
		a.attachOutOfMemoryObserver(
		    [&](int64_t device, size_t size, size_t total, size_t) {
			    NEED(device == 0 && total > 0);
			    told = static_cast<int64_t>(size);
		    });
		std::string text = thrown<c10::OutOfMemoryError>(
		    [&] { a.allocate(size_t(1) << 44); });
		NEED(text.find(
			 "CUDA out of memory. Tried to allocate "
			 "16384.00 GiB. GPU 0 has a total capacity of") == 0);
		NEED(has(text, "held by weir"));
		NEED(told == int64_t(1) << 44);
		NEED(a.getDeviceStats(0).num_ooms == 1);
		caching::TraceEntry last = trace(a).back();
		NEED(last.action_ == caching::TraceEntry::OOM);
		NEED(last.addr_ > 0 && last.size_ == size_t(1) << 44);
		stop_recording(a);
		text = thrown<c10::OutOfMemoryError>(
		    [&] { a.raw_alloc(size_t(1) << 60); });
		NEED(has(text, "Tried to allocate more than 1EB memory"));
	});
}

namespace
{
void *spare;
int asked;

struct Holder : c10::FreeMemoryCallback {
	bool
	Execute() override
	{
		asked++;
		if (spare == nullptr)
			return false;
		caching::allocator.load()->raw_delete(spare);
		spare = nullptr;
		return true;
	}
};
} // namespace

const char *
holders_are_asked_before_a_shortage()
{
	return run([](CUDAAllocator &a) {
		c10::FreeCudaMemoryCallbacksRegistry()->makers["holder"] = [] {
			return std::make_unique<Holder>();
		};
		a.setMemoryFraction(0.05, 0);
		size_t free_bytes = 0;
		size_t total = 0;
		cudaMemGetInfo(&free_bytes, &total);
		size_t size = total / 25;
		spare = a.raw_alloc(size);
		void *p = a.raw_alloc(size);
		NEED(asked == 1 && spare == nullptr);
		thrown<c10::OutOfMemoryError>([&] { a.raw_alloc(size); });
		NEED(asked == 2);
		a.raw_delete(p);
	});
}

/* ---- Statistics -------------------------------------------------------- */

const char *
statistics_are_those_of_weir()
{
	return run([](CUDAAllocator &a) {
		void *p = a.raw_alloc(3 * MIB);
		void *q = a.raw_alloc(1000);
		a.raw_delete(q);
		auto s = a.getDeviceStats(0);
		NEED(s.allocation[0].current == 1);
		NEED(s.allocation[1].current == 0);
		NEED(s.allocation[2].current == 1);
		NEED(s.allocation[0].allocated == 2);
		NEED(s.allocation[1].freed == 1);
		NEED(s.requested_bytes[0].current == 3 * MIB);
		NEED(s.allocated_bytes[0].peak == 3 * MIB + 1024);
		NEED(s.reserved_bytes[0].current >= 4 * MIB);
		NEED(s.num_device_alloc >= 2);
		NEED(s.max_split_size == -1);
		a.resetAccumulatedStats(0);
		a.resetPeakStats(0);
		s = a.getDeviceStats(0);
		NEED(s.allocation[0].allocated == 0);
		NEED(s.allocated_bytes[0].peak == 3 * MIB);
		size_t largest = 0;
		a.cacheInfo(0, &largest);
		NEED(largest > 0);
		NEED(!a.getExpandableSegmentSizes(0).empty());
		a.raw_delete(p);
		a.emptyCache();
		NEED(a.getDeviceStats(0).reserved_bytes[0].current == 0);
	});
}

const char *
limits_are_fractions()
{
	return run([](CUDAAllocator &a) {
		NEED(a.getMemoryFraction(0) == 1.0);
		a.setMemoryFraction(0.5, 0);
		NEED(a.getMemoryFraction(0) > 0.49);
		NEED(a.getMemoryFraction(0) < 0.51);
		NEED(has(
		    thrown<c10::Error>([&] { a.setMemoryFraction(1.5, 0); }),
		    "Please set within [0, 1]"));
		a.setMemoryFraction(1.0, 0);
		NEED(a.getMemoryFraction(0) == 1.0);
	});
}

/* ---- Streams ----------------------------------------------------------- */

const char *
a_recorded_stream_delays_the_block()
{
	return run([](CUDAAllocator &a) {
		OnStream on;
		cudaStream_t late = nullptr;
		void *source = nullptr;

		cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking);
		cudaMalloc(&source, 64 * MIB);
		c10::DataPtr block = a.allocate(64 * MIB);
		void *ptr = block.get();
		cudaMemcpyAsync(
		    ptr, source, 64 * MIB, cudaMemcpyDeviceToDevice, late);
		a.recordStream(
		    block, c10::cuda::getStreamFromExternal(late, 0));
		block = c10::DataPtr();
		auto s = a.getDeviceStats(0);
		NEED(s.active_bytes[0].current == 64 * MIB);
		NEED(s.allocated_bytes[0].current == 0);
		cudaStreamSynchronize(late);
		NEED(a.allocate(64 * MIB).get() == ptr);
		/* Memory of other allocators is left alone. */
		c10::DataPtr other(
		    source, source, [](void *) {}, c10::Device(c10::kCUDA, 0));
		a.recordStream(
		    other, c10::cuda::getStreamFromExternal(late, 0));
		a.recordStream(
		    c10::DataPtr(), c10::cuda::getStreamFromExternal(late, 0));
		cudaFree(source);
	});
}

/* Work that lasts until the calls after it have been made. */
void
sleep_a_while(void *)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

/* All default streams have one handle of each kind; which is meant depends on
 * the device. */
const char *
recorded_default(cudaStream_t handle)
{
	return run([handle](CUDAAllocator &a) {
		cudaStream_t side = nullptr;
		void *source = nullptr;

		cudaSetDevice(1);
		auto before = c10::cuda::getCurrentCUDAStream();
		auto of_one = c10::cuda::getStreamFromExternal(handle, 1);
		cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
		cudaMalloc(&source, 64 * MIB);
		c10::cuda::setCurrentCUDAStream(
		    c10::cuda::getStreamFromExternal(side, 1));
		c10::DataPtr block = a.allocate(64 * MIB);
		void *ptr = block.get();
		cudaMemcpyAsync(
		    ptr, source, 64 * MIB, cudaMemcpyDeviceToDevice, handle);
		cudaLaunchHostFunc(handle, sleep_a_while, nullptr);
		cudaSetDevice(0);
		a.recordStream(block, of_one);
		block = c10::DataPtr();
		int device = -1;
		cudaGetDevice(&device);
		NEED(device == 0);
		cudaSetDevice(1);
		NEED(cudaStreamQuery(handle) == cudaErrorNotReady);
		NEED(a.allocate(64 * MIB).get() != ptr);
		cudaDeviceSynchronize();
		cudaFree(source);
		c10::cuda::setCurrentCUDAStream(before);
		cudaSetDevice(0);
	});
}

const char *
a_recorded_default_stream_is_of_its_device()
{
	return recorded_default(nullptr);
}

const char *
a_recorded_legacy_stream_is_of_its_device()
{
	return recorded_default(cudaStreamLegacy);
}

const char *
a_recorded_per_thread_stream_is_of_its_device()
{
	return recorded_default(cudaStreamPerThread);
}

/* A thread remembers the handle of one stream: many are asked for in turn, by
 * two threads. */
const char *
many_streams_have_their_own_handles()
{
	return run([](CUDAAllocator &a) {
		constexpr int STREAMS = 400;
		std::vector<std::unique_ptr<OnStream>> streams;

		auto check = [&] {
			for (auto &on : streams) {
				c10::cuda::setCurrentCUDAStream(
				    c10::cuda::getStreamFromExternal(
					on->stream, 0));
				struct weir_block_info info {
				};
				info.struct_size = sizeof(info);
				void *ptr = a.raw_alloc(1000);
				NEED(weir_block_info(ptr, &info) == WEIR_OK);
				NEED(info.stream ==
				    reinterpret_cast<weir_stream>(on->stream));
				a.raw_delete(ptr);
			}
		};
		for (int i = 0; i < STREAMS; i++)
			streams.push_back(std::make_unique<OnStream>());
		check();
		std::string fault;
		std::thread([&] {
			try {
				check();
			} catch (const std::exception &error) {
				fault = error.what();
			}
		}).join();
		NEED(fault.empty());
		while (!streams.empty())
			streams.pop_back();
	});
}

/* ---- Pools ------------------------------------------------------------- */

const char *
a_pool_is_counted_and_routed_to()
{
	return run([](CUDAAllocator &a) {
		Pool id = { 0, 7 };
		OnStream on;
		auto mine = [&](cudaStream_t s) { return s == on.stream; };

		NEED(a.getPoolUseCount(0, id) == 0);
		a.createOrIncrefPool(0, id);
		NEED(a.getPoolUseCount(0, id) == 1);
		a.beginAllocateToPool(0, id, mine);
		NEED(a.getPoolUseCount(0, id) == 2);
		NEED(has(thrown<c10::Error>(
			     [&] { a.beginAllocateToPool(0, id, mine); }),
		    "already recording"));
		c10::DataPtr in = a.allocate(5 * MIB);
		a.endAllocateToPool(0, id);
		NEED(
		    has(thrown<c10::Error>([&] { a.endAllocateToPool(0, id); }),
			"not currently recording"));
		c10::DataPtr out = a.allocate(5 * MIB);
		auto segments = a.snapshot(id, false).segments;
		NEED(segments.size() == 1);
		NEED(segments[0].owner_private_pool_id == id);
		NEED(segments[0].address == reinterpret_cast<size_t>(in.get()));
		NEED(!segments[0].is_expandable);
		NEED(a.checkPoolLiveAllocations(0, id, { in.get() }));
		NEED(!a.checkPoolLiveAllocations(0, id, {}));
		a.releasePool(0, id);
		in = c10::DataPtr();
		/* Somebody uses it: nothing of it goes back. */
		a.emptyCache(id);
		NEED(a.snapshot(id, false).segments.size() == 1);
		a.setUseOnOOM(0, id, true);
		a.setNoSplit(0, id);
		a.setUseOnOOM(0, id, false);
		a.releasePool(0, id);
		cudaDeviceSynchronize();
		a.emptyCache(id);
		NEED(a.snapshot(id, false).segments.empty());
		NEED(has(thrown<c10::Error>(
			     [&] { a.checkPoolLiveAllocations(0, id, {}); }),
		    "Could not find pool of id"));
	});
}

const char *
a_pool_is_never_released_with_an_exception()
{
	return run([](CUDAAllocator &a) {
		Pool none = { 0, 99 };

		a.releasePool(0, none);
		a.setUseOnOOM(0, none, false);
		a.emptyCache(none);
		thrown<c10::Error>([&] { a.setUseOnOOM(0, none, true); });
		thrown<c10::Error>([&] { a.setNoSplit(0, none); });
		thrown<c10::Error>(
		    [&] { a.createOrIncrefPool(0, Pool(0, 0)); });
	});
}

namespace
{
/* Whose memory another one has by now: they live as long as the process. */
std::vector<c10::DataPtr> &stale = *new std::vector<c10::DataPtr>;

/* An allocator that a user writes: all but two functions are weir's. */
int own_taken;
int own_given;

void *
own_take(size_t size)
{
	void *ptr = nullptr;

	own_taken++;
	if (size > 64 * MIB)
		throw std::runtime_error("too much for it");
	cudaMalloc(&ptr, size);
	return ptr;
}
} // namespace

#include "tests/plugins/torch/own_allocator.h"

const char *
a_pool_has_an_allocator_of_its_own()
{
	return run([](CUDAAllocator &a) {
		auto own =
		    std::make_shared<OwnAllocator>(own_take, [](void *p) {
			    own_given++;
			    cudaFree(p);
		    });
		std::weak_ptr<CUDAAllocator> watch = own;
		Pool id = { 0, 8 };

		a.createOrIncrefPool(0, id, std::move(own));
		a.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
		c10::DataPtr p = a.allocate(5 * MIB);
		c10::DataPtr q = a.allocate(100);
		NEED(own_taken == 2);
		thrown<c10::OutOfMemoryError>([&] { a.allocate(100 * MIB); });
		a.endAllocateToPool(0, id);
		a.releasePool(0, id);
		a.releasePool(0, id);
		p = c10::DataPtr();
		q = c10::DataPtr();
		cudaDeviceSynchronize();
		a.emptyCache();
		NEED(own_given == 2);
		a.emptyCache(id);
		NEED(watch.expired());
	});
}

const char *
a_pool_is_restored()
{
	return run([](CUDAAllocator &a) {
		Pool id = { 3, 0 };

		a.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
		c10::DataPtr p = a.allocate(512);
		c10::DataPtr q = a.allocate(3 * MIB);
		void *at = p.get();
		auto state = a.getCheckpointState(0, id);
		p = c10::DataPtr();
		c10::DataPtr r = a.allocate(2048);
		a.endAllocateToPool(0, id);
		auto delta = a.setCheckpointPoolState(0, state);
		NEED(delta.ptrs_freed.size() == 2);
		NEED(delta.dataptrs_allocd.size() == 2);
		bool found = false;
		for (auto &ptr : delta.dataptrs_allocd) {
			NEED(ptr.get_deleter() == a.raw_deleter());
			found |= ptr.get() == at;
		}
		NEED(found);
		NEED(a.checkPoolLiveAllocations(0, id, { at, q.get() }));
		/* Their memory is the restored ones' now. */
		a.emptyCache();
		stale.push_back(std::move(q));
		stale.push_back(std::move(r));
		delta.dataptrs_allocd.clear();
		NEED(a.checkPoolLiveAllocations(0, id, {}));
		thrown<c10::Error>([&] {
			a.setCheckpointPoolState(
			    0, std::make_shared<caching::AllocatorState>());
		});
		thrown<c10::Error>(
		    [&] { a.getCheckpointState(0, Pool(77, 0)); });
		a.releasePool(0, id);
	});
}

/* ---- History ----------------------------------------------------------- */

const char *
contexts_are_kept_by_level()
{
	return run([](CUDAAllocator &a) {
		using When = caching::RecordContext;

		for (When when :
		    { When::NEVER, When::STATE, When::ALLOC, When::ALL }) {
			record(a, when);
			Stack::next = "allocated";
			c10::DataPtr kept = a.allocate(1000);
			c10::DataPtr ptr = a.allocate(3000);
			Stack::next = "freed";
			ptr = c10::DataPtr();
			auto info = a.snapshot();
			std::string on_block;
			for (const auto &s : info.segments)
				for (const auto &b : s.blocks)
					if (b.requested_size == 1000)
						on_block = words_of(
						    b.context_when_allocated);
			NEED(on_block ==
			    (when >= When::STATE ? "allocated" : ""));
			for (const auto &e : info.device_traces.at(0)) {
				std::string words = words_of(e.context_);
				if (when < When::ALLOC)
					NEED(words == "");
				else if (e.action_ ==
				    caching::TraceEntry::FREE_REQUESTED)
					NEED(words ==
					    (when == When::ALL ? "freed" :
								 "allocated"));
				else
					NEED(has(
					    "allocated freed", words.c_str()));
			}
			kept = c10::DataPtr();
			stop_recording(a);
			a.emptyCache();
		}
		NEED(Stack::count == 0);
		NEED(!a.isHistoryEnabled());
	});
}

const char *
a_snapshot_has_segments_traces_and_settings()
{
	return run([](CUDAAllocator &a) {
		record(a, caching::RecordContext::ALL);
		Stack::next = "here";
		NEED(a.isHistoryEnabled());
		std::string region = "region 1";
		a.pushCompileContext(region);
		a.setUserMetadata("phase");
		NEED(a.getUserMetadata() == "phase");
		c10::DataPtr p = a.allocate(1000);
		a.popCompileContext();
		a.setUserMetadata("");
		c10::DataPtr q = a.allocate(3 * MIB);
		p = c10::DataPtr();
		auto info = a.snapshot();
		NEED(info.device_traces.size() == 2);
		const auto &all = info.device_traces[0];
		const caching::TraceEntry *first = nullptr;
		for (const auto &e : all)
			if (first == nullptr &&
			    e.action_ == caching::TraceEntry::ALLOC)
				first = &e;
		NEED(first != nullptr && first->size_ == 1000);
		NEED(first->compile_context_ == "region 1");
		NEED(first->user_metadata_ == "phase");
		NEED(all.back().compile_context_ == "N/A");
		NEED(all.back().action_ == caching::TraceEntry::FREE_COMPLETED);
		NEED(all.back().time_.t_ > 1600000000000000);
		size_t total = 0;
		for (const auto &s : info.segments) {
			size_t sum = 0;
			for (const auto &b : s.blocks)
				sum += b.size;
			NEED(sum == s.total_size);
			NEED(words_of(s.context_when_allocated) == "here");
			total += sum;
		}
		NEED(total ==
		    size_t(a.getDeviceStats(0).reserved_bytes[0].current));
		NEED(info.config_metadata.max_split_size == SIZE_MAX);
		NEED(!info.config_metadata.expandable_segments);
		NEED(
		    info.config_metadata.roundup_power2_divisions.size() == 16);
		/* The look itself is told by the next one. */
		NEED(trace(a).back().action_ == caching::TraceEntry::SNAPSHOT);
		NEED(a.snapshot(Pool(0, 0), false).device_traces.at(0).empty());
		stop_recording(a);
		NEED(trace(a).empty());
	});
}

const char *
actions_are_skipped_and_wrong_ones_refused()
{
	return run([](CUDAAllocator &a) {
		using When = caching::RecordContext;

		record(a, When::NEVER, 100, { "free_requested", "oom" });
		a.allocate(1000);
		for (const auto &e : trace(a))
			NEED(e.action_ != caching::TraceEntry::FREE_REQUESTED);
		NEED(has(thrown<c10::Error>([&] {
			record(a, When::NEVER, 100, { "nonsense" });
		}),
		    "Unknown TraceEntry action: nonsense"));
		record(a, When::NEVER, 5);
		for (int i = 0; i < 20; i++)
			a.allocate(1000);
		NEED(trace(a).size() == 5);
		stop_recording(a);
	});
}

const char *
annotations_are_kept()
{
	return run([](CUDAAllocator &a) {
		a.recordAnnotation({ { "name", "too early" } });
		record(a, caching::RecordContext::NEVER);
		a.recordAnnotation(
		    { { "name", "step" }, { "stage", "START" } });
		auto all = a.snapshot().external_annotations;
		NEED(all.size() == 1);
		NEED(all[0].metadata_.at("name") == "step");
		NEED(all[0].metadata_.at("stage") == "START");
		NEED(all[0].time_.t_ > 1600000000000000);
		stop_recording(a);
		NEED(a.snapshot().external_annotations.empty());
	});
}

const char *
a_tracker_sees_every_event()
{
	return run([](CUDAAllocator &a) {
		/* It is called to the end of the process. */
		static std::string seen;

		a.attachAllocatorTraceTracker(
		    [&](const caching::TraceEntry &e) {
			    seen += std::to_string(e.action_) + " ";
		    });
		c10::DataPtr p = a.allocate(1000);
		void *ptr = p.get();
		p = c10::DataPtr();
		NEED(seen == "5 0 1 2 ");
		NEED(ptr != nullptr);
		NEED(trace(a).empty());
		p = c10::DataPtr();
	});
}

const char *
a_tracker_that_throws_is_survived()
{
	return run([](CUDAAllocator &a) {
		a.attachAllocatorTraceTracker([](const caching::TraceEntry &) {
			throw std::runtime_error("not registered");
		});
		c10::DataPtr p = a.allocate(1000);
		NEED(p.get() != nullptr);
		p = c10::DataPtr();
		NEED(a.getDeviceStats(0).allocated_bytes[0].current == 0);
	});
}

const char *
segments_of_a_pool_are_numbered_as_they_were_made()
{
	return run([](CUDAAllocator &a) {
		c10::MempoolId_t id = { 0, 7 };
		std::vector<c10::DataPtr> all;
		a.createOrIncrefPool(0, id);
		a.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
		for (int i = 0; i < 6; i++)
			all.push_back(a.allocate((60 - 8 * i) * MIB));
		a.endAllocateToPool(0, id);
		std::vector<caching::SegmentInfo> segments =
		    a.snapshot(id).segments;
		NEED(segments.size() == all.size());
#if DOUBLE_VERSION >= 209
		for (const auto &s : segments) {
			NEED(s.registration_counter >= 0);
			NEED(s.address ==
			    reinterpret_cast<size_t>(
				all[s.registration_counter].get()));
		}
#endif
		all.clear();
		a.releasePool(0, id);
		a.releasePool(0, id);
	});
}

/* ---- Who else is told -------------------------------------------------- */

namespace
{
struct Traced : c10::impl::PyInterpreterVTable {
	mutable std::vector<std::pair<bool, uintptr_t>> seen;
	void
	trace_gpu_memory_allocation(
	    c10::DeviceType, uintptr_t ptr) const override
	{
		seen.emplace_back(true, ptr);
	}
	void
	trace_gpu_memory_deallocation(
	    c10::DeviceType, uintptr_t ptr) const override
	{
		seen.emplace_back(false, ptr);
	}
};
} // namespace

const char *
allocations_are_traced_and_profiled()
{
	return run([](CUDAAllocator &a) {
		Traced traced;
		c10::impl::PyInterpreter interpreter = { &traced };

		c10::impl::GPUTrace::state.store(&interpreter);
		c10::double_profiling = true;
		void *ptr = a.raw_alloc(1000);
		a.raw_delete(ptr);
		c10::impl::GPUTrace::state.store(nullptr);
		c10::double_profiling = false;
		NEED(traced.seen.size() == 2);
		NEED(traced.seen[0].first && !traced.seen[1].first);
		NEED(traced.seen[1].second == reinterpret_cast<uintptr_t>(ptr));
		const auto &reports = c10::double_reports;
		NEED(reports.size() == 2);
		NEED(reports[0].size == 1024 && reports[0].allocated == 1024);
		NEED(reports[1].size == -1024 && reports[1].allocated == 0);
		NEED(reports[1].reserved >= 2 * MIB);
	});
}

const char *
the_cache_can_be_turned_off()
{
	return run([](CUDAAllocator &a) {
		NEED(a.isEnabled());
		c10::DataPtr cached = a.allocate(1000);
		void *before = a.raw_alloc(3000);
		a.enable(false);
		NEED(!a.isEnabled());
		{
			c10::DataPtr p = a.allocate(1000);
			NEED(p.get_deleter() == a.raw_deleter());
			NEED(p.get_deleter() != cached.get_deleter());
			NEED(live_bytes(a) == 1024 + 3072);
			a.raw_delete(a.raw_alloc(1000));
			a.raw_delete(before);
			NEED(live_bytes(a) == 1024);
		}
		a.enable(true);
		cached = c10::DataPtr();
		NEED(live_bytes(a) == 0);
	});
}

const char *
settings_reach_weir()
{
	return run([](CUDAAllocator &a) {
		auto &hook = c10::CachingAllocator::AcceleratorAllocatorConfig::
		    getConfigParserHook();

		hook("roundup_power2_divisions:8, backend:native");
		void *ptr = a.raw_alloc(84 * MIB);
		NEED(live_bytes(a) == 88 * MIB);
		a.raw_delete(ptr);
		hook("");
		a.emptyCache();
		ptr = a.raw_alloc(84 * MIB);
		NEED(live_bytes(a) == 84 * MIB);
		a.raw_delete(ptr);
		NEED(c10::double_warning.empty());
		hook("nonsense:1");
		NEED(has(c10::double_warning, "nonsense"));
	});
}

/* ---- Devices ----------------------------------------------------------- */

const char *
shared_memory_is_opened_once_and_again()
{
	return run([](CUDAAllocator &a) {
		void *block = a.raw_alloc(3 * MIB);
		caching::ShareableHandle handle = a.shareIpcHandle(block);

		std::shared_ptr<void> first = a.getIpcDevPtr(handle.handle);
		std::shared_ptr<void> second = a.getIpcDevPtr(handle.handle);
		NEED(first != nullptr && first == second);
		first.reset();
		second.reset();
		first = a.getIpcDevPtr(handle.handle);
		NEED(first != nullptr && first.use_count() == 1);
		first.reset();
		a.raw_delete(block);
		NEED(live_bytes(a) == 0);
	});
}

const char *
wrong_handles_leave_nothing()
{
	return run([](CUDAAllocator &a) {
		constexpr size_t HANDLE = 60000;
		constexpr int COUNT = 100;
		auto open = [&](int i) {
			std::string handle(HANDLE, 'x');
			handle.append(std::to_string(i));
			thrown<c10::Error>([&] { a.getIpcDevPtr(handle); });
		};

		open(0);
		size_t before = mallinfo2().uordblks;
		for (int i = 1; i <= COUNT; i++)
			open(i);
		NEED(mallinfo2().uordblks < before + COUNT * HANDLE / 4);
	});
}

const char *
copies_go_between_devices()
{
	return run([](CUDAAllocator &a) {
		std::vector<unsigned char> bytes(MIB, 7);
		std::vector<unsigned char> back(MIB, 0);
		c10::DataPtr here = a.allocate(MIB);
		cudaSetDevice(1);
		c10::DataPtr there = a.allocate(MIB);
		cudaSetDevice(0);
		cudaMemcpy(
		    here.get(), bytes.data(), MIB, cudaMemcpyHostToDevice);
		a.enablePeerAccess(0, 1);
		a.enablePeerAccess(0, 1);
		NEED(a.memcpyAsync(there.get(), 1, here.get(), 0, MIB, nullptr,
			 false) == cudaSuccess);
		cudaDeviceSynchronize();
		cudaMemcpy(
		    back.data(), there.get(), MIB, cudaMemcpyDeviceToHost);
		NEED(bytes == back);
		c10::DataPtr twin = a.allocate(MIB);
		a.copy_data(twin.get(), here.get(), MIB);
		NEED(a.memcpyAsync(here.get(), 0, twin.get(), 0, MIB, nullptr,
			 true) == cudaSuccess);
		cudaDeviceSynchronize();
	});
}

/* ---- Page-locked memory ------------------------------------------------ */

const char *
host_memory_is_weirs()
{
	return run([](CUDAAllocator &a) {
		at::HostAllocator *host = at::getHostAllocator(c10::kCUDA);
		OnStream on;
		void *ptr;

		{
			c10::DataPtr p = host->allocate(100000);
			ptr = p.get();
			NEED(weir_host_is_pinned(ptr));
			NEED(p.device().type() == c10::DeviceType::CPU);
			NEED(p.get_deleter() == host->raw_deleter());
			auto s = host->get_stats();
			NEED(s.active_requests.current == 1);
			NEED(s.active_bytes.current >= 100000);
			NEED(s.allocated_bytes.current >= 100000);
			NEED(s.num_host_alloc == 1);
		}
		NEED(host->allocate(100000).get() == ptr);
		NEED(host->allocate(0).get() == nullptr);
		c10::DataPtr p = host->allocate(100000);
		c10::DataPtr big = a.allocate(256 * MIB);
		c10::DataPtr twin = a.allocate(256 * MIB);
		cudaMemcpyAsync(big.get(), twin.get(), 256 * MIB,
		    cudaMemcpyDeviceToDevice, on.stream);
		auto *inside = static_cast<char *>(p.get()) + 10;
		auto stream = c10::cuda::getCurrentCUDAStream().unwrap();
		NEED(host->record_event(inside, p.get_context(), stream));
		NEED(!host->record_event(&stream, &stream, stream));
		p = c10::DataPtr();
		p = host->allocate(100000);
		NEED(p.get() != ptr);
		cudaStreamSynchronize(on.stream);
		p = c10::DataPtr();
		host->empty_cache();
		NEED(host->get_stats().allocated_bytes.current == 0);
		host->reset_accumulated_stats();
		host->reset_peak_stats();
		NEED(host->get_stats().active_bytes.peak == 0);
	});
}

const char *
host_memory_of_a_graph_stays()
{
	return run([](CUDAAllocator &) {
		at::HostAllocator *host = at::getHostAllocator(c10::kCUDA);
		OnStream on;
		Pool id = { 4, 0 };
		auto mine = c10::cuda::getCurrentCUDAStream().unwrap();

		host->begin_allocate_to_pool(
		    id, [mine](c10::Stream s) { return s.id_ == mine.id_; });
		c10::DataPtr p = host->allocate(5000);
		void *ptr = p.get();
		NEED(host->record_event(ptr, p.get_context(), mine));
		p = c10::DataPtr();
		NEED(host->allocate(5000).get() != ptr);
		host->end_allocate_to_pool(id);
		/* Nobody has it while the graph may read it. */
		for (int i = 0; i < 10; i++)
			NEED(host->allocate(5000).get() != ptr);
		host->release_pool(id);
		cudaDeviceSynchronize();
		host->empty_cache();
		NEED(host->get_stats().allocated_bytes.current == 0);
		thrown<c10::Error>([&] { host->end_allocate_to_pool(id); });
		host->release_pool(id);
	});
}
