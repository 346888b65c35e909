/**
 * weir as the allocator of TensorRT 10 and later:
 *
 *     weir::tensorrt_allocator allocator;   // outlives all that uses it
 *     builder->setGpuAllocator(&allocator);
 *     runtime->setGpuAllocator(&allocator);
 *     context->setTemporaryStorageAllocator(&allocator);
 */
#ifndef WEIR_TENSORRT_HPP
#define WEIR_TENSORRT_HPP

#include <weir/weir.hpp>

#include <NvInferRuntime.h>

namespace weir
{

/**
 * Memory of the current device, or of one that is named, in the order of
 * TensorRT's streams. Where it names no stream, memory may be used on all at
 * once, and serves again when all work submitted before its free is done.
 *
 * A failure is a null pointer, as TensorRT has it; on_failure() is called
 * before with weir's text, and may be overridden to report it. Thread-safe.
 */
class tensorrt_allocator : public nvinfer1::IGpuAsyncAllocator
{
public:
	explicit tensorrt_allocator(int device = WEIR_DEVICE_CURRENT) noexcept
	    : device_(device)
	{
	}

	~tensorrt_allocator() override = default;

	/** Alignments are up to 512 bytes; a size of 0 is a null pointer. */
	void *
	allocateAsync(std::uint64_t const size, std::uint64_t const alignment,
	    nvinfer1::AllocatorFlags const flags,
	    cudaStream_t stream) noexcept override
	{
		(void)flags;
		if (size == 0)
			return nullptr;
		if (alignment > 512) {
			on_failure("weir: TensorRT asks for an alignment of "
				   "more than 512 bytes");
			return nullptr;
		}
		void *ptr = weir_malloc_on(device_, size, handle(stream));
		if (ptr == nullptr)
			on_failure(weir_last_error());
		return ptr;
	}

	/** Without a stream, all streams may have used the memory. */
	bool
	deallocateAsync(
	    void *const memory, cudaStream_t stream) noexcept override
	{
		if (memory == nullptr)
			return true;
		if (stream == nullptr)
			return weir_record_stream(memory, WEIR_STREAM_ANY) ==
			    WEIR_OK &&
			    weir_free(memory) == WEIR_OK;
		return weir_free_async(memory, handle(stream)) == WEIR_OK ||
		    weir_free(memory) == WEIR_OK;
	}

protected:
	/** Called with the text of a failure, on the thread that asked. */
	virtual void
	on_failure(const char *text) noexcept
	{
		(void)text;
	}

private:
	static weir_stream
	handle(cudaStream_t stream) noexcept
	{
		return stream == nullptr ?
		    WEIR_STREAM_ANY :
		    reinterpret_cast<weir_stream>(stream);
	}

	int device_;
};

} // namespace weir

#endif
