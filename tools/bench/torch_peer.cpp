/*
 * PyTorch's caching allocator as a peer. scripts/bench compiles this library
 * against the PyTorch of the machine, and weir-bench loads it. It needs no
 * Python at run time.
 */
#include <exception>
#include <string>

#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "tools/bench/peer.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace
{

/* The last failure of this thread. */
thread_local std::string last_error;

const char *
peer_error()
{
	return last_error.c_str();
}

bool
failed(const std::exception &e)
{
	last_error = e.what();
	return false;
}

/* Make the steps of PyTorch's first use of CUDA that the allocator needs. */
const char *
peer_open()
{
	try {
		allocator::init(static_cast<int>(c10::cuda::device_count()));
		c10::cuda::set_device(0);
		allocator::raw_delete(allocator::raw_alloc(512));
		return nullptr;
	} catch (const std::exception &e) {
		failed(e);
		return peer_error();
	}
}

void *
peer_malloc(size_t size, weir_stream stream)
{
	try {
		return allocator::raw_alloc_with_stream(size, stream);
	} catch (const std::exception &e) {
		failed(e);
		return nullptr;
	}
}

void
peer_free(void *block, weir_stream)
{
	try {
		allocator::raw_delete(block);
	} catch (const std::exception &e) {
		failed(e);
	}
}

/* recordStream() needs an owner that shows that the block is the
 * allocator's. */
bool
peer_record(void *block, weir_stream, weir_stream user)
{
	c10::DataPtr owned(block, block, allocator::get()->raw_deleter(),
	    c10::Device(c10::DeviceType::CUDA, 0));
	bool good = true;

	try {
		allocator::recordStream(
		    owned, c10::cuda::getStreamFromExternal(user, 0));
	} catch (const std::exception &e) {
		good = failed(e);
	}
	owned.release_context(); /* keep the block */
	return good;
}

void
peer_trim()
{
	try {
		allocator::emptyCache();
	} catch (const std::exception &e) {
		failed(e);
	}
}

} // namespace

/* The fields are in the order of struct peer: C++17 cannot name them. */
extern "C" __attribute__((visibility("default")))
const struct peer weir_bench_peer = {
	"pytorch",
	"PyTorch's caching allocator, called from C++",
	PEER_CACHING,
	false, /* slow */
	peer_open,
	nullptr, /* enter */
	nullptr, /* leave */
	peer_malloc,
	peer_free,
	peer_record,
	peer_trim,
	peer_error,
	nullptr, /* pairs */
};
