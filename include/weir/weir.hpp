/**
 * weir for C++17: handles that end by themselves, exceptions that carry weir's
 * text, and allocators for containers. Header-only, over the C interface of
 * <weir/weir.h>, <weir/stream.h>, <weir/host.h> and <weir/graph.h>, whose rules
 * hold here too: sizes are in bytes where the name says nothing else, and
 * every call is thread-safe unless it says otherwise.
 *
 * Contents
 *
 * - weir::error and weir::out_of_memory: what a call throws that fails.
 * - weir::stream, weir::event, weir::pool, weir::graph: unique handles. They
 *   can be moved and not copied; a handle that was moved from is empty.
 * - weir::unique_device<T>, weir::unique_host<T>: arrays of memory, freed when
 *   they end.
 * - weir::device_resource: memory by size, alignment and stream.
 * - weir::host_resource: page-locked memory as a std::pmr::memory_resource.
 * - weir::device_allocator<T>: for containers and for libraries that ask for
 *   an allocator; with another pointer type, for Thrust's vectors.
 *
 * <weir/cccl.hpp> makes a resource of CCCL's cuda::mr of it, <weir/rmm.hpp> one
 * of RMM, and <weir/tensorrt.hpp> an allocator of TensorRT.
 *
 * Ends of handles never throw. A stream that allocates must live as long as
 * memory is asked for on it; memory itself may outlive its stream.
 */
#ifndef WEIR_WEIR_HPP
#define WEIR_WEIR_HPP

#if __cplusplus < 201703L
#error "weir.hpp needs C++17"
#endif

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/stream.h>
#include <weir/weir.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace weir
{

/* ---- Errors ---------------------------------------------------------- */

/** A call of weir failed for another reason than want of memory. what() is the
 * line of weir_last_error(). */
class error : public std::runtime_error
{
public:
	error(enum weir_status status, const std::string &text)
	    : std::runtime_error(text), status_(status)
	{
	}

	enum weir_status
	status() const noexcept
	{
		return status_;
	}

private:
	enum weir_status status_;
};

/** There is no memory: WEIR_ENOMEM of a device, WEIR_EHOSTMEM of the host.
 * what() is the report of weir_last_error(). */
class out_of_memory : public std::bad_alloc
{
public:
	out_of_memory(enum weir_status status, const char *text)
	    : status_(status), text_(std::make_shared<const std::string>(text))
	{
	}

	enum weir_status
	status() const noexcept
	{
		return status_;
	}

	const char *
	what() const noexcept override
	{
		return text_->c_str();
	}

private:
	enum weir_status status_;
	std::shared_ptr<const std::string> text_; /* copies do not throw */
};

/** Throw what the status stands for, with the text of the last failure on this
 * thread. */
[[noreturn]] inline void
fail(enum weir_status status)
{
	const char *text = weir_last_error();

	if (*text == '\0')
		text = weir_status_text(status);
	if (status == WEIR_ENOMEM || status == WEIR_EHOSTMEM)
		throw out_of_memory(status, text);
	throw error(status, text);
}

/** Throw if a call has failed. */
inline void
check(enum weir_status status)
{
	if (status != WEIR_OK)
		fail(status);
}

namespace detail
{

/* The result of a malloc-like call, or an exception for its failure. */
inline void *
given(void *ptr)
{
	if (ptr == nullptr)
		fail(weir_last_status());
	return ptr;
}

/* The bytes of `n` items. */
template <typename T>
std::size_t
bytes_of(std::size_t n)
{
	if (n > std::numeric_limits<std::size_t>::max() / sizeof(T))
		throw std::bad_array_new_length();
	return n * sizeof(T);
}

/* A stream as CUDA's handle: of a handle, or of a class with get(). */
inline weir_stream
stream_of(weir_stream stream) noexcept
{
	return stream;
}

template <typename Stream>
auto
stream_of(const Stream &stream) noexcept -> decltype(stream.get())
{
	return stream.get();
}

/* The common part of all unique handles. `End` ends one that is not Empty. */
template <typename Handle, typename End> class handle
{
public:
	handle() noexcept = default;
	explicit handle(Handle owned) noexcept : handle_(owned)
	{
	}
	handle(handle &&other) noexcept : handle_(other.release())
	{
	}
	handle &
	operator=(handle &&other) noexcept
	{
		if (this != &other)
			reset(other.release());
		return *this;
	}
	handle(const handle &) = delete;
	handle &operator=(const handle &) = delete;
	~handle()
	{
		reset();
	}

	/** The handle for the C interface. This object still owns it. */
	Handle
	get() const noexcept
	{
		return handle_;
	}

	explicit operator bool() const noexcept
	{
		return handle_ != Handle();
	}

	/** Give the ownership away; the handle is empty then. */
	Handle
	release() noexcept
	{
		return std::exchange(handle_, Handle());
	}

	/** End the owned handle, and own `owned`. */
	void
	reset(Handle owned = Handle()) noexcept
	{
		Handle old = std::exchange(handle_, owned);

		if (old != Handle())
			End()(old);
	}

private:
	Handle handle_ = Handle();
};

struct end_stream {
	void
	operator()(weir_stream stream) const noexcept
	{
		weir_stream_destroy(stream);
	}
};

struct end_event {
	void
	operator()(struct weir_event *event) const noexcept
	{
		weir_event_destroy(event);
	}
};

struct end_pool {
	void
	operator()(struct weir_pool *pool) const noexcept
	{
		weir_pool_release(pool);
	}
};

struct end_graph {
	void
	operator()(struct weir_graph *graph) const noexcept
	{
		weir_graph_destroy(graph);
	}
};

} // namespace detail

/* ---- Streams and events ---------------------------------------------- */

/** An event of weir_event_create(). */
class event : public detail::handle<struct weir_event *, detail::end_event>
{
public:
	using handle::handle;

	/** @param flags  of weir_event_create() */
	static event
	create(unsigned flags = 0)
	{
		struct weir_event *made = nullptr;

		check(weir_event_create(flags, &made));
		return event(made);
	}

	/** Mark this point of the stream's work. */
	void
	record(weir_stream stream)
	{
		check(weir_event_record(get(), stream));
	}

	/** True if the marked work is done, or nothing was recorded. */
	bool
	done() const
	{
		enum weir_status status = weir_event_query(get());

		if (status == WEIR_ENOTREADY)
			return false;
		check(status);
		return true;
	}

	/** Wait for the marked work. */
	void
	synchronize() const
	{
		check(weir_event_synchronize(get()));
	}
};

/** A stream of weir_stream_create(), destroyed when it ends. It converts to
 * the handle, so that it is passed where CUDA or weir take a stream. */
class stream : public detail::handle<weir_stream, detail::end_stream>
{
public:
	using handle::handle;

	/** @param priority  0 is normal, negative is high */
	static stream
	create(int device = WEIR_DEVICE_CURRENT, int priority = 0)
	{
		weir_stream made = nullptr;

		check(weir_stream_create(device, priority, &made));
		return stream(made);
	}

	operator weir_stream() const noexcept
	{
		return get();
	}

	/** True if all queued work is done. */
	bool
	done() const
	{
		enum weir_status status = weir_stream_query(get());

		if (status == WEIR_ENOTREADY)
			return false;
		check(status);
		return true;
	}

	/** Wait until all queued work is done. */
	void
	synchronize() const
	{
		check(weir_stream_synchronize(get()));
	}

	/** Work queued here from now on waits for the work `other` has now. */
	void
	wait(weir_stream other) const
	{
		check(weir_stream_wait_stream(get(), other));
	}

	/** Work queued here from now on waits for the event. */
	void
	wait(const event &other) const
	{
		check(weir_stream_wait_event(get(), other.get()));
	}
};

/* ---- Memory by hand -------------------------------------------------- */

/** Frees device memory: on its own stream, or from another one. */
struct device_deleter {
	void
	operator()(const volatile void *ptr) const noexcept
	{
		weir_free(const_cast<void *>(ptr));
	}
};

/** Frees page-locked memory. */
struct host_deleter {
	void
	operator()(const volatile void *ptr) const noexcept
	{
		weir_host_free(const_cast<void *>(ptr));
	}
};

/** An array in device memory. Only the device may look into it, and neither
 * constructors nor destructors of T run. */
template <typename T>
using unique_device = std::unique_ptr<T[], device_deleter>;

/** An array in page-locked host memory. Its items are not initialised. */
template <typename T> using unique_host = std::unique_ptr<T[], host_deleter>;

/**
 * Allocate an array of `n` items in device memory, first used on `stream`.
 *
 * @throw out_of_memory, error; std::bad_array_new_length if the bytes of the
 *        array are no size_t
 */
template <typename T>
unique_device<T>
make_device(std::size_t n, weir_stream stream)
{
	static_assert(std::is_trivially_copyable_v<T>,
	    "the items are copied to and from the device byte by byte");
	static_assert(alignof(T) <= 512, "blocks are aligned to 512 bytes");
	return unique_device<T>(static_cast<T *>(
	    detail::given(weir_malloc(detail::bytes_of<T>(n), stream))));
}

/** As make_device(), on a device that need not be the current one. */
template <typename T>
unique_device<T>
make_device_on(int device, std::size_t n, weir_stream stream)
{
	static_assert(std::is_trivially_copyable_v<T>,
	    "the items are copied to and from the device byte by byte");
	static_assert(alignof(T) <= 512, "blocks are aligned to 512 bytes");
	return unique_device<T>(static_cast<T *>(detail::given(
	    weir_malloc_on(device, detail::bytes_of<T>(n), stream))));
}

/** Allocate an array of `n` items in page-locked host memory. */
template <typename T>
unique_host<T>
make_host(std::size_t n)
{
	static_assert(std::is_trivially_copyable_v<T>,
	    "the items are copied to and from the device byte by byte");
	static_assert(alignof(T) <= 64, "blocks are aligned to 64 bytes");
	return unique_host<T>(static_cast<T *>(
	    detail::given(weir_host_malloc(detail::bytes_of<T>(n)))));
}

/** Say that the memory of an array is used on another stream too. */
template <typename T>
void
record(const unique_device<T> &memory, weir_stream stream)
{
	check(weir_record_stream(memory.get(), stream));
}

template <typename T>
void
record(const unique_host<T> &memory, weir_stream stream)
{
	check(weir_host_record(memory.get(), stream));
}

/** Say that all use of an array on another stream is queued by now. */
template <typename T>
void
record_use(const unique_device<T> &memory, weir_stream stream)
{
	check(weir_record_use(memory.get(), stream));
}

template <typename T>
void
record_use(const unique_host<T> &memory, weir_stream stream)
{
	check(weir_record_use(memory.get(), stream));
}

/** Free an array from `stream`: all its use comes before this point there, and
 * the memory belongs to that stream from now on. */
template <typename T>
void
free_on(unique_device<T> &&memory, weir_stream stream)
{
	check(weir_free_async(memory.get(), stream));
	(void)memory.release();
}

/* ---- Pools and graphs ------------------------------------------------ */

/** Memory that stays apart: a hold on a pool of <weir/graph.h>. */
class pool : public detail::handle<struct weir_pool *, detail::end_pool>
{
public:
	using handle::handle;

	/** @param flags  of weir_pool_create() */
	static pool
	create(int device = WEIR_DEVICE_CURRENT,
	    unsigned flags = WEIR_POOL_DEFAULT,
	    const struct weir_pool_source *source = nullptr)
	{
		struct weir_pool *made = nullptr;

		check(weir_pool_create(device, source, flags, &made));
		return pool(made);
	}

	/** Allocate an array from this pool, whatever the routes say. */
	template <typename T>
	unique_device<T>
	make(std::size_t n, weir_stream stream) const
	{
		static_assert(std::is_trivially_copyable_v<T>,
		    "the items are copied to and from the device byte by byte");
		return unique_device<T>(static_cast<T *>(detail::given(
		    weir_pool_malloc(get(), detail::bytes_of<T>(n), stream))));
	}

	/** Give unused memory back, all but `keep_bytes`. Returns the bytes. */
	std::size_t
	trim(std::size_t keep_bytes = 0) const
	{
		std::size_t freed = 0;

		check(weir_pool_trim(get(), keep_bytes, &freed));
		return freed;
	}
};

/** A captured graph of <weir/graph.h>. One thread uses it at a time. */
class graph : public detail::handle<struct weir_graph *, detail::end_graph>
{
public:
	using handle::handle;

	/** @param flags  of weir_graph_create() */
	static graph
	create(unsigned flags = 0)
	{
		struct weir_graph *made = nullptr;

		check(weir_graph_create(flags, &made));
		return graph(made);
	}

	/**
	 * Capture what `work` queues on the stream, and make it ready to be
	 * replayed, unless the graph was created with WEIR_GRAPH_KEEP. Memory
	 * that it asks for comes from the pool, or from one of the graph's own
	 * if there is none. If `work` throws, the capture ends, the graph is
	 * reset, and the exception goes on.
	 */
	template <typename Work>
	void
	capture(weir_stream stream, Work &&work,
	    struct weir_pool *from = nullptr,
	    enum weir_capture_mode mode = WEIR_CAPTURE_GLOBAL)
	{
		check(weir_graph_capture_begin(get(), stream, from, mode));
		try {
			std::forward<Work>(work)();
		} catch (...) {
			weir_graph_reset(get());
			throw;
		}
		check(weir_graph_capture_end(get()));
	}

	/** Queue the graph's work on a stream. */
	void
	replay(weir_stream stream) const
	{
		check(weir_graph_replay(get(), stream));
	}

	/** Drop the captured work, and its hold on memory. */
	void
	reset_capture()
	{
		check(weir_graph_reset(get()));
	}
};

/* ---- Resources ------------------------------------------------------- */

/**
 * Device memory as a memory resource: by size and alignment, on a stream or
 * without one. It has no state but a device, and is copied at will; two of them
 * are equal if they are of the same device.
 *
 * The calls without a stream give memory that all streams may use at once, and
 * take it back as soon as all work submitted before is done (WEIR_STREAM_ANY).
 * Streams are weir_stream (cudaStream_t), weir::stream, or any class whose
 * get() gives one, as cuda::stream_ref.
 *
 * An alignment above 512 bytes is WEIR_EINVAL.
 */
class device_resource
{
public:
	static constexpr std::size_t default_alignment = 256;

	explicit device_resource(int device = WEIR_DEVICE_CURRENT) noexcept
	    : device_(device)
	{
	}

	int
	device() const noexcept
	{
		return device_;
	}

	void *
	allocate(std::size_t bytes, std::size_t alignment = default_alignment)
	{
		return on(WEIR_STREAM_ANY, bytes, alignment);
	}

	void
	deallocate(void *ptr, std::size_t bytes = 0,
	    std::size_t alignment = default_alignment) noexcept
	{
		(void)bytes;
		(void)alignment;
		weir_free(ptr);
	}

	template <typename Stream,
	    typename = decltype(detail::stream_of(std::declval<Stream>()))>
	void *
	allocate(const Stream &stream, std::size_t bytes,
	    std::size_t alignment = default_alignment)
	{
		return on(detail::stream_of(stream), bytes, alignment);
	}

	/** All use of the memory comes before this point of the stream. */
	template <typename Stream,
	    typename = decltype(detail::stream_of(std::declval<Stream>()))>
	void
	deallocate(const Stream &stream, void *ptr, std::size_t bytes = 0,
	    std::size_t alignment = default_alignment) noexcept
	{
		(void)bytes;
		(void)alignment;
		if (weir_free_async(ptr, detail::stream_of(stream)) != WEIR_OK)
			weir_free(ptr);
	}

	/* The names that CCCL has had for them: _sync since 3.1, _async up to
	 * 3.0. */
	void *
	allocate_sync(
	    std::size_t bytes, std::size_t alignment = default_alignment)
	{
		return allocate(bytes, alignment);
	}

	void
	deallocate_sync(void *ptr, std::size_t bytes = 0,
	    std::size_t alignment = default_alignment) noexcept
	{
		deallocate(ptr, bytes, alignment);
	}

	template <typename Stream>
	void *
	allocate_async(
	    std::size_t bytes, std::size_t alignment, const Stream &stream)
	{
		return allocate(stream, bytes, alignment);
	}

	template <typename Stream>
	auto
	allocate_async(std::size_t bytes, const Stream &stream)
	    -> decltype(detail::stream_of(stream), static_cast<void *>(nullptr))
	{
		return allocate(stream, bytes, default_alignment);
	}

	template <typename Stream>
	void
	deallocate_async(void *ptr, std::size_t bytes, std::size_t alignment,
	    const Stream &stream) noexcept
	{
		deallocate(stream, ptr, bytes, alignment);
	}

	template <typename Stream>
	auto
	deallocate_async(
	    void *ptr, std::size_t bytes, const Stream &stream) noexcept
	    -> decltype(detail::stream_of(stream), void())
	{
		deallocate(stream, ptr, bytes, default_alignment);
	}

	friend bool
	operator==(const device_resource &a, const device_resource &b) noexcept
	{
		return a.device_ == b.device_;
	}

	friend bool
	operator!=(const device_resource &a, const device_resource &b) noexcept
	{
		return !(a == b);
	}

private:
	void *
	on(weir_stream stream, std::size_t bytes, std::size_t alignment)
	{
		if (alignment > WEIR_GRANULE)
			throw error(WEIR_EINVAL,
			    "weir::device_resource: an alignment of " +
				std::to_string(alignment) +
				" bytes, which is more than 512");
		/* A size of 0 is allowed here, and has an address. */
		return detail::given(
		    weir_malloc_on(device_, bytes == 0 ? 1 : bytes, stream));
	}

	int device_;
};

/**
 * Page-locked host memory as a std::pmr::memory_resource, for std::pmr's
 * containers whose contents are copied to and from the device. Its alignments
 * go up to a page of 4 KiB; more is WEIR_EINVAL.
 *
 * A container whose memory a copy on a stream still uses must not be freed or
 * grown before that copy is done, unless record() has said so.
 */
class host_resource : public std::pmr::memory_resource
{
public:
	/** @param flags  of weir_host_malloc_on() */
	explicit host_resource(int device = WEIR_DEVICE_CURRENT,
	    unsigned flags = WEIR_HOST_PORTABLE | WEIR_HOST_MAPPED) noexcept
	    : device_(device), flags_(flags)
	{
	}

	/** Say that work queued on a stream uses the memory at `ptr`. */
	static void
	record(const void *ptr, weir_stream stream)
	{
		check(weir_host_record(ptr, stream));
	}

private:
	/* Blocks are aligned the more the larger they are (<weir/host.h>). */
	void *
	do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		constexpr std::size_t page = 4096,
				      whole_pages = (256 << 10) + 1;

		if (alignment > page)
			throw error(WEIR_EINVAL,
			    "weir::host_resource: an alignment of " +
				std::to_string(alignment) +
				" bytes, which is more than 4096");
		if (bytes == 0)
			bytes = 1;
		if (alignment > 64 && bytes < page)
			bytes = page;
		if (alignment > WEIR_GRANULE && bytes < whole_pages)
			bytes = whole_pages;
		return detail::given(
		    weir_host_malloc_on(device_, bytes, flags_));
	}

	void
	do_deallocate(void *ptr, std::size_t, std::size_t) override
	{
		weir_host_free(ptr);
	}

	bool
	do_is_equal(
	    const std::pmr::memory_resource &other) const noexcept override
	{
		return dynamic_cast<const host_resource *>(&other) != nullptr;
	}

	int device_;
	unsigned flags_;
};

/* ---- An allocator ---------------------------------------------------- */

/**
 * An allocator of device memory on one stream, for containers that keep their
 * elements on the device: it constructs nothing. `Pointer` is the type that it
 * returns: T *, or a class that is made of one and returns it by get(), such as
 * thrust::device_ptr<T>:
 *
 *     weir::device_allocator<float, thrust::device_ptr<float>> on(stream);
 *     thrust::device_vector<float, decltype(on)> values(n, on);
 *
 * Where a library wants bytes for its own use, as thrust::cuda::par(allocator)
 * does, it is weir::device_allocator<char>.
 *
 * Copies are of the same stream; memory of one may be freed by any other. The
 * memory is freed on the stream it belongs to, as weir_free() does.
 */
template <typename T, typename Pointer = T *> class device_allocator
{
public:
	using value_type = T;
	using pointer = Pointer;
	using size_type = std::size_t;
	using difference_type = std::ptrdiff_t;
	using is_always_equal = std::true_type;
	using propagate_on_container_copy_assignment = std::true_type;
	using propagate_on_container_move_assignment = std::true_type;
	using propagate_on_container_swap = std::true_type;

	template <typename U> struct rebind {
		using other = device_allocator<U,
		    typename std::pointer_traits<Pointer>::template rebind<U>>;
	};

	device_allocator() noexcept = default;
	explicit device_allocator(
	    weir_stream stream, int device = WEIR_DEVICE_CURRENT) noexcept
	    : stream_(stream), device_(device)
	{
	}
	template <typename U, typename Other>
	device_allocator(const device_allocator<U, Other> &other) noexcept
	    : stream_(other.stream()), device_(other.device())
	{
	}

	weir_stream
	stream() const noexcept
	{
		return stream_;
	}

	int
	device() const noexcept
	{
		return device_;
	}

	pointer
	allocate(size_type n)
	{
		size_type bytes = detail::bytes_of<T>(n);

		return pointer(static_cast<T *>(detail::given(
		    weir_malloc_on(device_, bytes == 0 ? 1 : bytes, stream_))));
	}

	void
	deallocate(pointer ptr, size_type) noexcept
	{
		weir_free(raw(ptr));
	}

private:
	static void *
	raw(T *ptr) noexcept
	{
		return ptr;
	}

	template <typename Other>
	static auto
	raw(const Other &ptr) noexcept -> decltype(ptr.get())
	{
		return ptr.get();
	}

	weir_stream stream_ = nullptr;
	int device_ = WEIR_DEVICE_CURRENT;
};

template <typename T, typename P, typename U, typename Q>
bool
operator==(
    const device_allocator<T, P> &, const device_allocator<U, Q> &) noexcept
{
	return true;
}

template <typename T, typename P, typename U, typename Q>
bool
operator!=(
    const device_allocator<T, P> &, const device_allocator<U, Q> &) noexcept
{
	return false;
}

/* ---- Devices --------------------------------------------------------- */

/** Statistics of a device. */
inline struct weir_stats
stats(int device = WEIR_DEVICE_CURRENT)
{
	struct weir_stats found = {};

	found.struct_size = sizeof(found);
	check(weir_stats(device, &found));
	return found;
}

/** Give unused memory back to the driver, but for `keep_bytes`; the bytes that
 * went back. */
inline std::size_t
trim(int device = WEIR_DEVICE_CURRENT, std::size_t keep_bytes = 0)
{
	std::size_t freed = 0;

	check(weir_trim(device, keep_bytes, &freed));
	return freed;
}

/** Copy on a stream, and wait until it is done. */
inline void
copy(void *to, const void *from, std::size_t bytes, weir_stream stream)
{
	check(weir_copy(to, from, bytes, stream));
}

} // namespace weir

#endif
