/*
 * The differences between versions of PyTorch, found when the adapter is
 * compiled.
 *
 * A class of another version may lack a member, a type or a parameter. Virtual
 * functions need no code here: the adapter declares each in all forms that it
 * has had, none of them with `override`; those that the base class has override
 * it. All other names are used where their absence is not an error (SFINAE).
 */
#ifndef PLUGINS_TORCH_COMPAT_H
#define PLUGINS_TORCH_COMPAT_H

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#if __has_include(<c10/core/AllocatorConfig.h>)
#include <c10/core/AllocatorConfig.h>
#endif
#if __has_include(<c10/cuda/CUDAAllocatorConfig.h>)
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif
#if __has_include(<ATen/core/CachingHostAllocator.h>)
#include <ATen/core/CachingHostAllocator.h>
#endif

#include <type_traits>

namespace at
{
/* 2.8 and later. */
struct HostAllocator;
} // namespace at

namespace c10::CachingAllocator
{
/* 2.9 and later. */
class AcceleratorAllocatorConfig;
} // namespace c10::CachingAllocator

namespace c10::cuda
{
/* 2.6 and 2.7. */
struct MemPoolContext;
} // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator
{
class CUDAAllocatorConfig;
} // namespace c10::cuda::CUDACachingAllocator

namespace weir_torch
{

namespace caching = c10::cuda::CUDACachingAllocator;

using Base = caching::CUDAAllocator;
using PoolId = std::pair<unsigned long long, unsigned long long>;
using Context = std::shared_ptr<c10::GatheredContext>;

/* Does PyTorch define a class that is declared here? */
template <typename T, typename = void> struct is_defined : std::false_type {
};
template <typename T>
struct is_defined<T, std::void_t<decltype(sizeof(T))>> : std::true_type {
};

/* The result of getExpandableSegmentSizes(), 2.10 and later. */
template <typename B, typename = void> struct expandable_sizes {
	using type = std::vector<int>;
	static constexpr bool there = false;
};
template <typename B>
struct expandable_sizes<B,
    std::void_t<decltype(std::declval<B &>().getExpandableSegmentSizes(
	c10::DeviceIndex()))>> {
	using type = decltype(std::declval<B &>().getExpandableSegmentSizes(
	    c10::DeviceIndex()));
	static constexpr bool there = true;
};

/* The parameter of attachOomRejectionObserver(), 2.13 and later. */
struct no_observer {
};
template <typename C, typename A> A only_parameter(void (C::*)(A));
template <typename B, typename = void> struct rejection_observer {
	using type = no_observer;
};
template <typename B>
struct rejection_observer<B,
    std::void_t<decltype(only_parameter(&B::attachOomRejectionObserver))>> {
	using type = decltype(only_parameter(&B::attachOomRejectionObserver));
};

/* The allocator of the user's pool that is active in this thread, if that pool
 * has this id. Later versions pass it when the pool is made. */
template <typename Contexts>
Base *
active_allocator(PoolId id)
{
	if constexpr (is_defined<Contexts>::value) {
		auto *pool = Contexts::getActiveMemPool();

		return pool != nullptr && pool->id() == id ? pool->allocator() :
							     nullptr;
	} else {
		(void)id;
		return nullptr;
	}
}

/* Set a member if the type has one with this name. */
#define WEIR_SET_MEMBER(name)                                                  \
	template <typename T, typename V>                                      \
	auto set_##name(T &object, V &&value, int)                             \
	    ->decltype(object.name, void())                                    \
	{                                                                      \
		object.name =                                                  \
		    static_cast<std::decay_t<decltype(object.name)>>(          \
			std::forward<V>(value));                               \
	}                                                                      \
	template <typename T, typename V> void set_##name(T &, V &&, long)     \
	{                                                                      \
	}
WEIR_SET_MEMBER(garbage_collection_threshold)
WEIR_SET_MEMBER(max_split_size)
WEIR_SET_MEMBER(pinned_num_register_threads)
WEIR_SET_MEMBER(expandable_segments)
WEIR_SET_MEMBER(release_lock_on_malloc)
WEIR_SET_MEMBER(release_lock_on_cudamalloc)
WEIR_SET_MEMBER(pinned_use_host_register)
WEIR_SET_MEMBER(pinned_use_cuda_host_register)
WEIR_SET_MEMBER(graph_capture_record_stream_reuse)
WEIR_SET_MEMBER(last_allocator_settings)
WEIR_SET_MEMBER(roundup_power2_divisions)
WEIR_SET_MEMBER(max_round_threshold)
WEIR_SET_MEMBER(max_cached_size)
WEIR_SET_MEMBER(num_device_alloc)
WEIR_SET_MEMBER(num_device_free)
WEIR_SET_MEMBER(num_sync_all_streams)
WEIR_SET_MEMBER(active_requests)
WEIR_SET_MEMBER(active_bytes)
WEIR_SET_MEMBER(allocations)
WEIR_SET_MEMBER(allocation)
WEIR_SET_MEMBER(allocated_bytes)
WEIR_SET_MEMBER(segment)
WEIR_SET_MEMBER(reserved_bytes)
WEIR_SET_MEMBER(num_host_alloc)
WEIR_SET_MEMBER(num_host_free)
WEIR_SET_MEMBER(registration_counter)
#undef WEIR_SET_MEMBER

/* PyTorch's settings, or their defaults. */
#define WEIR_SETTING(name)                                                     \
	template <typename C, typename V>                                      \
	auto setting_##name(const V &, int)->decltype(V(C::name()))            \
	{                                                                      \
		return V(C::name());                                           \
	}                                                                      \
	template <typename C, typename V>                                      \
	V setting_##name(const V &fallback, long)                              \
	{                                                                      \
		return fallback;                                               \
	}
WEIR_SETTING(garbage_collection_threshold)
WEIR_SETTING(max_split_size)
WEIR_SETTING(pinned_num_register_threads)
WEIR_SETTING(expandable_segments)
WEIR_SETTING(release_lock_on_cudamalloc)
WEIR_SETTING(pinned_use_cuda_host_register)
WEIR_SETTING(graph_capture_record_stream_reuse)
WEIR_SETTING(last_allocator_settings)
WEIR_SETTING(roundup_power2_divisions)
WEIR_SETTING(pinned_max_round_threshold)
WEIR_SETTING(pinned_max_cached_size)
#undef WEIR_SETTING

/* The fields of a trace entry, for all versions. */
struct EntryParts {
	c10::DeviceIndex device;
	size_t address;
	size_t size;
	cudaStream_t stream;
	PoolId pool;
	Context context;
	std::string compile;
	std::string metadata;
};

/*
 * An entry of a trace, made by the longest constructor of this version: 2.10
 * and later have the metadata, 2.8 and later the pool and the compile context.
 * The stream is a cudaStream_t up to 2.10, and in 2.11 a void *, to which it
 * converts.
 */
template <typename Entry, typename Action>
Entry
make_entry(Action action, EntryParts p)
{
	using Time = decltype(std::declval<Entry>().time_.approx_t_);
	using Device = c10::DeviceIndex;
	using Text = std::string;

	if constexpr (std::is_constructible_v<Entry, Action, Device, size_t,
			  size_t, cudaStream_t, PoolId, Time, Context, Text,
			  Text>)
		return Entry(action, p.device, p.address, p.size, p.stream,
		    p.pool, Time(), p.context, p.compile, p.metadata);
	else if constexpr (std::is_constructible_v<Entry, Action, Device,
			       size_t, size_t, cudaStream_t, PoolId, Time,
			       Context, Text>)
		return Entry(action, p.device, p.address, p.size, p.stream,
		    p.pool, Time(), p.context, p.compile);
	else
		return Entry(action, p.device, p.address, p.size, p.stream,
		    Time(), p.context);
}

/*
 * Be notified when PyTorch's settings change, 2.9 and later. False: this
 * version has no notification, and weir.torch reports changes that are made
 * through Python.
 */
template <typename Config, typename Follow>
auto
hook_settings(Follow follow, int)
    -> decltype(Config::getConfigParserHook(), bool())
{
	auto &hook = Config::getConfigParserHook();
	auto before = hook;

	hook = [before, follow](const std::string &text) {
		if (before)
			before(text);
		follow(text);
	};
	return true;
}
template <typename Config, typename Follow>
bool
hook_settings(Follow, long)
{
	return false;
}

} // namespace weir_torch

#endif
