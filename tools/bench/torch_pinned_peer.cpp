/*
 * PyTorch's caching allocator of page-locked host memory as a peer. It is
 * compiled and loaded like torch_peer.cpp. A block is freed by its context,
 * which is in the first bytes of the block.
 */
#include <exception>
#include <string>

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "tools/bench/peer.h"

namespace
{

thread_local std::string last_error;
c10::DeleterFnPtr deleter; /* of all blocks */

at::HostAllocator *
allocator()
{
	return at::getHostAllocator(at::kCUDA);
}

const char *
peer_error()
{
	return last_error.c_str();
}

void *
peer_malloc(size_t size, weir_stream)
{
	try {
		c10::DataPtr owner = allocator()->allocate(size);
		void *block = owner.get();
		*static_cast<void **>(block) = owner.release_context();
		return block;
	} catch (const std::exception &e) {
		last_error = e.what();
		return nullptr;
	}
}

void
peer_free(void *block, weir_stream)
{
	deleter(*static_cast<void **>(block));
}

void
peer_trim()
{
	allocator()->empty_cache();
}

/* The held bytes: reserved_bytes in versions in which allocated_bytes are bytes
 * in use, allocated_bytes in others. */
template <typename Stats>
auto
held_of(const Stats &stats, int) -> decltype(stats.reserved_bytes.current)
{
	return stats.reserved_bytes.current;
}

template <typename Stats>
auto
held_of(const Stats &stats, long)
{
	return stats.allocated_bytes.current;
}

uint64_t
peer_held()
{
	return static_cast<uint64_t>(held_of(allocator()->get_stats(), 0));
}

const char *
peer_open()
{
	try {
		c10::cuda::set_device(0);
		deleter = allocator()->allocate(512).get_deleter();
	} catch (const std::exception &e) {
		last_error = e.what();
		return peer_error();
	}
	return nullptr;
}

} // namespace

/* The fields are in the order of struct peer: C++17 cannot name them. */
extern "C" __attribute__((visibility("default")))
const struct peer weir_bench_peer = {
	"pytorch-pinned",
	"PyTorch's caching allocator of page-locked host memory, from C++",
	PEER_PINNED,
	false, /* slow */
	peer_open,
	nullptr, /* enter */
	nullptr, /* leave */
	peer_malloc,
	peer_free,
	nullptr, /* record */
	peer_trim,
	peer_error,
	nullptr, /* pairs */
	peer_held,
};
