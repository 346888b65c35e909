/*
 * A double of the part of PyTorch below its allocator interface that weir's
 * adapter uses: devices, streams, data pointers, errors, and observers. It is
 * written from the interface's description and has the interface's names and
 * types, and none of its code. With interface.h it replaces PyTorch in tests on
 * the simulated device.
 */
#ifndef DOUBLE_BASE_H
#define DOUBLE_BASE_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#define C10_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define C10_NOINLINE __attribute__((noinline))

namespace c10
{

/* ---- Errors ------------------------------------------------------------ */

struct Error : std::runtime_error {
	using std::runtime_error::runtime_error;
};
struct OutOfMemoryError : Error {
	using Error::Error;
};

template <typename... Parts>
std::string
double_text(const Parts &...parts)
{
	std::ostringstream out;

	(out << ... << parts);
	return out.str();
}

/* The latest warning. */
extern std::string double_warning;

} // namespace c10

#define TORCH_CHECK_WITH(error, condition, ...)                                \
	do {                                                                   \
		if (!(condition))                                              \
			throw ::c10::error(::c10::double_text(__VA_ARGS__));   \
	} while (0)
#define TORCH_CHECK(condition, ...)                                            \
	TORCH_CHECK_WITH(Error, condition, __VA_ARGS__)
#define TORCH_WARN(...)                                                        \
	(::c10::double_warning = ::c10::double_text(__VA_ARGS__))
#define C10_CUDA_CHECK(call)                                                   \
	do {                                                                   \
		cudaError_t code_ = (call);                                    \
		TORCH_CHECK(code_ == cudaSuccess, "CUDA error ", int(code_));  \
	} while (0)

namespace c10
{

/* ---- Devices and streams ----------------------------------------------- */

using DeviceIndex = int8_t;
using StreamId = int64_t;

enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCUDA = DeviceType::CUDA;

struct Device {
	Device(DeviceType type, DeviceIndex index = -1)
	    : type_(type), index_(index)
	{
	}
	DeviceType
	type() const
	{
		return type_;
	}
	DeviceIndex
	index() const
	{
		return index_;
	}

private:
	DeviceType type_;
	DeviceIndex index_;
};

struct Stream {
	Device device_;
	StreamId id_;
};

namespace cuda
{

struct CUDAStream {
	explicit CUDAStream(Stream stream) : stream_(stream)
	{
	}
	StreamId
	id() const
	{
		return stream_.id_;
	}
	DeviceIndex
	device_index() const
	{
		return stream_.device_.index();
	}
	cudaStream_t
	stream() const
	{
		return reinterpret_cast<cudaStream_t>(stream_.id_);
	}
	Stream
	unwrap() const
	{
		return stream_;
	}

private:
	Stream stream_;
};

CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex device);
void setCurrentCUDAStream(CUDAStream stream);
cudaError_t GetDevice(DeviceIndex *device);

struct CUDAGuard {
	explicit CUDAGuard(DeviceIndex device)
	{
		(void)cudaGetDevice(&before_);
		(void)cudaSetDevice(device);
	}
	~CUDAGuard()
	{
		(void)cudaSetDevice(before_);
	}

private:
	int before_ = 0;
};

} // namespace cuda

/* ---- Data pointers, allocators ----------------------------------------- */

using DeleterFnPtr = void (*)(void *);

class DataPtr
{
public:
	DataPtr() : held_(nullptr, nothing), device_(DeviceType::CPU)
	{
	}
	DataPtr(void *data, void *context, DeleterFnPtr deleter, Device device)
	    : data_(data), held_(context, deleter), device_(device)
	{
	}
	void *
	get() const
	{
		return data_;
	}
	void *
	get_context() const
	{
		return held_.get();
	}
	DeleterFnPtr
	get_deleter() const
	{
		return held_.get_deleter();
	}
	Device
	device() const
	{
		return device_;
	}

private:
	static void
	nothing(void *)
	{
	}
	void *data_ = nullptr;
	std::unique_ptr<void, DeleterFnPtr> held_;
	Device device_;
};

struct Allocator {
	virtual ~Allocator() = default;
	virtual DataPtr allocate(size_t size) = 0;
	virtual DeleterFnPtr
	raw_deleter() const
	{
		return nullptr;
	}
	virtual void copy_data(void *to, const void *from, size_t n) const = 0;
};

void SetAllocator(DeviceType type, Allocator *allocator, uint8_t priority = 0);
Allocator *GetAllocator(const DeviceType &type);

struct GatheredContext {
	virtual ~GatheredContext() = default;
};

/* ---- Observers --------------------------------------------------------- */

bool memoryProfilingEnabled();
void reportMemoryUsageToProfiler(
    void *ptr, int64_t size, size_t allocated, size_t reserved, Device device);
void reportOutOfMemoryToProfiler(
    int64_t size, size_t allocated, size_t reserved, Device device);

namespace impl
{

struct PyInterpreterVTable {
	virtual ~PyInterpreterVTable() = default;
	virtual void trace_gpu_memory_allocation(
	    DeviceType type, uintptr_t ptr) const = 0;
	virtual void trace_gpu_memory_deallocation(
	    DeviceType type, uintptr_t ptr) const = 0;
};

struct PyInterpreter {
	const PyInterpreterVTable *table;
	const PyInterpreterVTable *
	operator->() const
	{
		return table;
	}
};

struct GPUTrace {
	static std::atomic<const PyInterpreter *> state;
	static const PyInterpreter *
	get_trace()
	{
		return state.load();
	}
};

} // namespace impl

/* Objects that hold memory for others. */
struct FreeMemoryCallback {
	virtual ~FreeMemoryCallback() = default;
	virtual bool Execute() = 0;
};

struct DoubleRegistry {
	std::map<std::string,
	    std::function<std::unique_ptr<FreeMemoryCallback>()>>
	    makers;
	std::vector<std::string>
	Keys() const
	{
		std::vector<std::string> keys;

		for (const auto &maker : makers)
			keys.push_back(maker.first);
		return keys;
	}
	std::unique_ptr<FreeMemoryCallback>
	Create(const std::string &key)
	{
		return makers.at(key)();
	}
};
DoubleRegistry *FreeCudaMemoryCallbacksRegistry();

} // namespace c10

#endif
