/*
 * Pairs through PyTorch's interface, for weir-bench-instructions. This library
 * has the adapter, and the double of PyTorch from the adapter's tests. The
 * program loads it by name, because the program is in C.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <weir/weir.h>

namespace caching = c10::cuda::CUDACachingAllocator;

extern "C" int weir_torch_install(bool host, char *text, size_t size);
extern "C" WEIR_API bool torch_pairs_begin(cudaStream_t stream);
extern "C" WEIR_API void torch_pairs(size_t size, unsigned long n);

/* Install weir, and make `stream` the current stream. */
bool
torch_pairs_begin(cudaStream_t stream)
{
	char text[256];

	if (weir_torch_install(true, text, sizeof(text)) == 0)
		return false;
	caching::allocator.load()->init(1);
	if (stream != nullptr)
		c10::cuda::setCurrentCUDAStream(
		    c10::cuda::getStreamFromExternal(stream, 0));
	return true;
}

void
torch_pairs(size_t size, unsigned long n)
{
	caching::CUDAAllocator *allocator = caching::allocator.load();

	for (unsigned long i = 0; i < n; i++)
		allocator->raw_delete(allocator->raw_alloc(size));
}
