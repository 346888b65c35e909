/*
 * The promises of the C++ interface, tested as a program uses it. CASES is
 * `first` or `second`, for the compiler.
 */
#include <weir/onnxruntime.h>
#include <weir/rmm.hpp>
#include <weir/tensorrt.hpp>
#include <weir/weir.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cpp/cases.h"

#define CASE_NAME_(which, name) cpp_##which##_##name
#define CASE_NAME(which, name) CASE_NAME_(which, name)
#define CASE(name) extern "C" const char *CASE_NAME(CASES, name)(void)

/* Leave the case with a text that says where and what. */
#define EXPECT(condition)                                                      \
	do {                                                                   \
		if (!(condition))                                              \
			return wrong(__LINE__, #condition);                    \
	} while (false)

static const char *
wrong(int line, const char *what)
{
	static std::string text;

	text = "cases.cpp:" + std::to_string(line) + ": " + what;
	return text.c_str();
}

static std::uint64_t
live_bytes()
{
	return weir::stats().allocated_bytes.all.current;
}

/* Where weir hands out a class for a pointer: what Thrust and others do. */
template <typename T> class fancy
{
public:
	using element_type = T;
	using difference_type = std::ptrdiff_t;
	template <typename U> using rebind = fancy<U>;

	explicit fancy(T *ptr = nullptr) : ptr_(ptr)
	{
	}

	T *
	get() const
	{
		return ptr_;
	}

private:
	T *ptr_;
};

/* A stream of another library. */
struct stream_view {
	weir_stream handle;

	weir_stream
	get() const noexcept
	{
		return handle;
	}
};

CASE(an_array_is_served_and_freed)
{
	std::vector<int> host(1000, 7), back(1000);
	std::uint64_t before = live_bytes();

	{
		auto array = weir::make_device<int>(host.size(), nullptr);

		EXPECT(live_bytes() >= before + 4000);
		weir::copy(array.get(), host.data(), 4000, nullptr);
		weir::copy(back.data(), array.get(), 4000, nullptr);
		weir::record(array, WEIR_STREAM_PER_THREAD);
	}
	EXPECT(back == host);
	EXPECT(live_bytes() == before);
	return nullptr;
}

CASE(a_failure_throws_with_the_text_of_weir)
{
	int local = 0;

	try {
		weir::check(weir_record_stream(&local, nullptr));
	} catch (const weir::error &error) {
		EXPECT(error.status() == WEIR_EINVAL);
		EXPECT(std::strcmp(error.what(), weir_last_error()) == 0);
		EXPECT(*error.what() != '\0');
		return nullptr;
	}
	return wrong(__LINE__, "nothing was thrown");
}

CASE(want_of_memory_is_a_bad_alloc)
{
	std::uint64_t before = live_bytes();

	try {
		(void)weir::make_device<char>(std::size_t(1) << 50, nullptr);
	} catch (const std::bad_alloc &error) {
		auto *ours = dynamic_cast<const weir::out_of_memory *>(&error);

		EXPECT(ours != nullptr);
		EXPECT(ours->status() == WEIR_ENOMEM);
		EXPECT(std::strstr(error.what(), "memory") != nullptr);
		EXPECT(live_bytes() == before);
		return nullptr;
	}
	return wrong(__LINE__, "nothing was thrown");
}

CASE(a_size_that_is_no_size_t_is_refused)
{
	weir::device_allocator<double> allocator;
	int caught = 0;

	try {
		(void)weir::make_device<double>(SIZE_MAX / 4, nullptr);
	} catch (const std::bad_array_new_length &) {
		caught++;
	}
	try {
		(void)allocator.allocate(SIZE_MAX / 4);
	} catch (const std::bad_array_new_length &) {
		caught++;
	}
	EXPECT(caught == 2);
	return nullptr;
}

CASE(handles_move_and_end)
{
	weir::stream first = weir::stream::create();
	weir_stream handle = first.get();
	weir::stream second = std::move(first);
	weir::event event;

	EXPECT(handle != nullptr);
	EXPECT(!first && second && second.get() == handle);
	first = weir::stream::create(WEIR_DEVICE_CURRENT, -1);
	EXPECT(first.get() != handle);
	second = std::move(first);
	/* The handle that was replaced has ended. */
	EXPECT(weir_malloc(512, handle) == nullptr);
	EXPECT(weir_last_status() == WEIR_EINVAL);
	EXPECT(!event && event.get() == nullptr);
	event.reset(weir::event::create().release());
	EXPECT(event && event.done());
	static_assert(!std::is_copy_constructible_v<weir::stream>);
	static_assert(std::is_nothrow_move_constructible_v<weir::pool>);
	return nullptr;
}

CASE(streams_wait_for_streams_and_events)
{
	weir::stream a = weir::stream::create(), b = weir::stream::create();
	weir::event event = weir::event::create();
	auto from = weir::make_host<int>(256), to = weir::make_host<int>(256);
	auto array = weir::make_device<int>(256, a);

	for (int i = 0; i < 256; i++)
		from[i] = i;
	weir::copy(array.get(), from.get(), 1024, a);
	event.record(a);
	b.wait(event);
	b.wait(a);
	weir::copy(to.get(), array.get(), 1024, b);
	weir::record_use(array, b);
	weir::record(to, b);
	b.synchronize();
	EXPECT(a.done() && b.done() && event.done());
	EXPECT(std::memcmp(from.get(), to.get(), 1024) == 0);
	return nullptr;
}

CASE(a_pool_is_apart)
{
	weir::pool pool = weir::pool::create();
	struct weir_stats stats = {};

	stats.struct_size = sizeof(stats);
	{
		auto array = pool.make<float>(1 << 20, nullptr);

		weir::check(weir_pool_stats(pool.get(), &stats));
		EXPECT(stats.allocated_bytes.all.current == 4 << 20);
	}
	EXPECT(pool.trim() >= 4 << 20);
	weir::check(weir_pool_stats(pool.get(), &stats));
	EXPECT(stats.reserved_bytes.all.current == 0);
	return nullptr;
}

CASE(a_graph_is_captured_and_replayed)
{
	weir::stream stream = weir::stream::create();
	weir::stream fork = weir::stream::create();
	weir::graph graph = weir::graph::create();
	void *inside = nullptr;

	graph.capture(stream, [&] {
		auto array = weir::make_device<char>(1 << 16, stream);

		inside = array.get();
		/* Work for the graph: an edge to another stream and back. */
		fork.wait(stream);
		stream.wait(fork);
	});
	EXPECT(inside != nullptr);
	graph.replay(stream);
	stream.synchronize();
	graph.reset_capture();
	return nullptr;
}

CASE(a_capture_that_throws_leaves_nothing)
{
	weir::stream stream = weir::stream::create();
	weir::graph graph = weir::graph::create();
	bool caught = false;

	try {
		graph.capture(stream, [] { throw 42; });
	} catch (int thrown) {
		caught = thrown == 42;
	}
	EXPECT(caught);
	/* The stream is not captured any more, and the graph is new. */
	EXPECT(stream.done());
	graph.capture(stream, [] {});
	return nullptr;
}

CASE(page_locked_memory_serves_pmr_containers)
{
	weir::host_resource resource, other;
	std::pmr::vector<int> numbers(&resource);

	for (int i = 0; i < 10000; i++)
		numbers.push_back(i);
	EXPECT(weir_host_is_pinned(numbers.data()));
	EXPECT(numbers[9999] == 9999);
	weir::host_resource::record(numbers.data(), nullptr);
	EXPECT(resource.is_equal(other));
	EXPECT(!resource.is_equal(*std::pmr::new_delete_resource()));
	{
		std::pmr::vector<std::pmr::string> texts(&resource);

		texts.emplace_back("a text that is too long to be kept inside");
		EXPECT(weir_host_is_pinned(texts[0].data()));
	}
	return nullptr;
}

CASE(page_locked_memory_is_aligned)
{
	weir::host_resource resource;

	for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
		for (std::size_t bytes : { 0, 1, 100, 5000, 300000 }) {
			void *ptr = resource.allocate(bytes, alignment);

			EXPECT((std::uintptr_t)ptr % alignment == 0);
			resource.deallocate(ptr, bytes, alignment);
		}
	}
	try {
		(void)resource.allocate(64, 8192);
	} catch (const weir::error &error) {
		EXPECT(error.status() == WEIR_EINVAL);
		EXPECT(std::strstr(error.what(), "8192") != nullptr);
		return nullptr;
	}
	return wrong(__LINE__, "nothing was thrown");
}

CASE(a_resource_serves_with_and_without_streams)
{
	weir::stream stream = weir::stream::create();
	weir::device_resource resource, same, other(1);
	struct weir_block_info info = {};
	void *ptr = resource.allocate(1000);

	info.struct_size = sizeof(info);
	weir::check(weir_block_info(ptr, &info));
	EXPECT(info.stream == WEIR_STREAM_ANY && info.requested_bytes == 1000);
	resource.deallocate(ptr, 1000);
	ptr = resource.allocate(stream, 1 << 20, 512);
	weir::check(weir_block_info(ptr, &info));
	EXPECT(info.stream == stream.get());
	resource.deallocate(stream, ptr, 1 << 20, 512);
	/* The stream has its own memory again at once. */
	EXPECT(resource.allocate(stream, 1 << 20) == ptr);
	resource.deallocate(ptr);
	EXPECT(resource.allocate(0) != nullptr);
	EXPECT(resource == same && resource != other);
	try {
		(void)resource.allocate(64, 1024);
	} catch (const weir::error &error) {
		EXPECT(error.status() == WEIR_EINVAL);
		EXPECT(std::strstr(error.what(), "1024") != nullptr);
		return nullptr;
	}
	return wrong(__LINE__, "nothing was thrown");
}

CASE(a_resource_accepts_objects_made_of_a_stream)
{
	weir::stream stream = weir::stream::create();
	stream_view view = { stream.get() };
	weir::device_resource resource;
	std::uint64_t before = live_bytes();
	void *a = resource.allocate(view, 512), *b, *c;

	b = resource.allocate_async(512, 256, view);
	c = resource.allocate_async(512, stream);
	EXPECT(live_bytes() == before + 3 * 512);
	resource.deallocate(view, a, 512);
	resource.deallocate_async(b, 512, 256, view);
	resource.deallocate_async(c, 512, stream);
	resource.deallocate_sync(resource.allocate_sync(512), 512);
	EXPECT(live_bytes() == before);
	return nullptr;
}

/* A container as a library would write it. */
template <typename T, typename Allocator> class device_array
{
public:
	using traits = std::allocator_traits<Allocator>;

	device_array(std::size_t n, const Allocator &allocator)
	    : allocator_(allocator), n_(n),
	      data_(traits::allocate(allocator_, n))
	{
	}
	device_array(const device_array &) = delete;
	~device_array()
	{
		traits::deallocate(allocator_, data_, n_);
	}

	typename traits::pointer
	data() const
	{
		return data_;
	}

private:
	Allocator allocator_;
	std::size_t n_;
	typename traits::pointer data_;
};

CASE(an_allocator_serves_a_container)
{
	using allocator = weir::device_allocator<float>;
	using of_bytes = std::allocator_traits<allocator>::rebind_alloc<char>;
	weir::stream stream = weir::stream::create();
	std::uint64_t before = live_bytes();

	{
		device_array<float, allocator> array(
		    1 << 18, allocator(stream));
		of_bytes bytes((allocator(stream)));
		device_array<char, of_bytes> more(512, bytes);

		EXPECT(live_bytes() == before + (1 << 20) + 512);
		EXPECT(bytes.stream() == stream.get());
		EXPECT(bytes == allocator(nullptr));
	}
	EXPECT(live_bytes() == before);
	return nullptr;
}

CASE(an_allocator_gives_pointers_of_a_class)
{
	using allocator = weir::device_allocator<int, fancy<int>>;
	using of_bytes = std::allocator_traits<allocator>::rebind_alloc<char>;
	std::uint64_t before = live_bytes();

	static_assert(std::is_same_v<std::allocator_traits<of_bytes>::pointer,
	    fancy<char>>);
	{
		device_array<int, allocator> array(128, allocator());

		EXPECT(array.data().get() != nullptr);
		EXPECT(live_bytes() == before + 512);
	}
	EXPECT(live_bytes() == before);
	return nullptr;
}

CASE(memory_is_freed_from_another_stream)
{
	weir::stream a = weir::stream::create(), b = weir::stream::create();
	auto array = weir::make_device_on<char>(0, 1 << 20, a);
	void *where = array.get();

	b.wait(a);
	weir::free_on(std::move(array), b);
	EXPECT(array == nullptr);
	EXPECT(weir::make_device<char>(1 << 20, b).get() == where);
	EXPECT(weir::trim() >= 1 << 20);
	return nullptr;
}

/* ---- Other libraries' allocators --------------------------------------- */

static cudaStream_t
runtime_stream(const weir::stream &stream)
{
	return reinterpret_cast<cudaStream_t>(stream.get());
}

static struct weir_block_info
block_at(const void *ptr)
{
	struct weir_block_info info = {};

	info.struct_size = sizeof(info);
	weir::check(weir_block_info(ptr, &info));
	return info;
}

CASE(rmm_is_served_in_the_order_of_its_streams)
{
	weir::stream a = weir::stream::create(), b = weir::stream::create();
	weir::rmm_resource own;
	rmm::mr::device_memory_resource &resource = own;
	void *ptr = resource.allocate(1 << 20, runtime_stream(a));

	EXPECT(own.device() == 0);
	EXPECT(block_at(ptr).stream == a.get());
	b.wait(a);
	resource.deallocate(ptr, 1 << 20, runtime_stream(b));
	/* Memory freed on a stream serves that stream. */
	EXPECT(resource.allocate(1 << 20, runtime_stream(b)) == ptr);
	/* The stream may have ended by the free. */
	b = weir::stream();
	resource.deallocate(ptr, 1 << 20, runtime_stream(a));
	EXPECT(resource.allocate(0) == nullptr);
	resource.deallocate(nullptr, 0);
	ptr = resource.allocate(1);
	EXPECT(block_at(ptr).stream != WEIR_STREAM_ANY);
	resource.deallocate(ptr, 1);
	EXPECT(live_bytes() == 0);
	return nullptr;
}

CASE(resources_of_rmm_are_equal_by_device)
{
	weir::rmm_resource first, same(0), other(1);

	EXPECT(first.is_equal(same) && !first.is_equal(other));
	return nullptr;
}

CASE(rmm_gets_failures_as_its_exceptions)
{
	weir::rmm_resource resource, nowhere(99);

	weir::check(weir_limit_set(0, 4 << 20));
	try {
		(void)resource.allocate(8 << 20);
		return wrong(__LINE__, "nothing was thrown");
	} catch (const rmm::out_of_memory &error) {
		EXPECT(std::strstr(error.what(), "8") != nullptr);
	}
	try {
		(void)nowhere.allocate(100);
	} catch (const rmm::out_of_memory &) {
		return wrong(__LINE__, "it is another failure");
	} catch (const rmm::bad_alloc &error) {
		EXPECT(std::strstr(error.what(), "99") != nullptr);
		return nullptr;
	}
	return wrong(__LINE__, "nothing was thrown");
}

/* Notes what it is told. */
class noting_allocator : public weir::tensorrt_allocator
{
public:
	std::string said;

private:
	void
	on_failure(const char *text) noexcept override
	{
		said = text;
	}
};

CASE(tensorrt_is_served_with_and_without_streams)
{
	weir::stream a = weir::stream::create(), b = weir::stream::create();
	weir::tensorrt_allocator own;
	nvinfer1::IGpuAsyncAllocator &allocator = own;
	void *ptr = allocator.allocateAsync(1 << 20, 256, 0, runtime_stream(a));

	EXPECT(block_at(ptr).stream == a.get());
	b.wait(a);
	EXPECT(allocator.deallocateAsync(ptr, runtime_stream(b)));
	EXPECT(
	    allocator.allocateAsync(1 << 20, 0, 0, runtime_stream(b)) == ptr);
	/* Freed for all streams, whatever it was allocated for. */
	EXPECT(allocator.deallocate(ptr));
	ptr = allocator.allocate(3000, 512, 0);
	EXPECT(block_at(ptr).stream == WEIR_STREAM_ANY);
	EXPECT(allocator.deallocate(ptr));
	EXPECT(allocator.allocate(0, 0, 0) == nullptr);
	EXPECT(allocator.deallocate(nullptr));
	EXPECT(live_bytes() == 0);
	return nullptr;
}

CASE(tensorrt_gets_null_for_failures)
{
	noting_allocator own;
	nvinfer1::IGpuAsyncAllocator &allocator = own;
	char local;

	weir::check(weir_limit_set(0, 4 << 20));
	EXPECT(allocator.allocate(8 << 20, 0, 0) == nullptr);
	EXPECT(own.said.find("8") != std::string::npos);
	EXPECT(allocator.allocate(8, 1024, 0) == nullptr);
	EXPECT(own.said.find("512") != std::string::npos);
	EXPECT(!allocator.deallocate(&local));
	return nullptr;
}

CASE(onnxruntime_is_served_by_the_addresses_of_its_options)
{
	struct weir_onnxruntime_options o = weir_onnxruntime_options();
	auto alloc =
	    reinterpret_cast<void *(*)(std::size_t)>(std::stoull(o.alloc));
	auto free = reinterpret_cast<void (*)(void *)>(std::stoull(o.free));
	auto empty = reinterpret_cast<void (*)()>(std::stoull(o.empty_cache));
	void *ptr = alloc(3 << 20);

	EXPECT(block_at(ptr).stream == WEIR_STREAM_ANY);
	free(ptr);
	EXPECT(live_bytes() == 0);
	EXPECT(weir::stats().reserved_bytes.all.current > 0);
	empty();
	EXPECT(weir::stats().reserved_bytes.all.current == 0);
	EXPECT(alloc(0) == nullptr);
	free(nullptr);
	weir::check(weir_limit_set(0, 4 << 20));
	EXPECT(alloc(8 << 20) == nullptr);
	return nullptr;
}
