// weir's resource behind CCCL's type-erased references.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include <cstdio>

#include <cuda_runtime.h>
#include <weir/cccl.hpp>

#if CCCL_MAJOR_VERSION > 3 ||                                                  \
    (CCCL_MAJOR_VERSION == 3 && CCCL_MINOR_VERSION >= 1)
using reference = cuda::mr::resource_ref<cuda::mr::device_accessible>;

static void *
take(reference from, cuda::stream_ref stream, std::size_t bytes)
{
	return from.allocate(stream, bytes, 256);
}

static void
give(reference to, cuda::stream_ref stream, void *ptr, std::size_t bytes)
{
	to.deallocate(stream, ptr, bytes, 256);
}
#else
using reference = cuda::mr::async_resource_ref<cuda::mr::device_accessible>;

static void *
take(reference from, cuda::stream_ref stream, std::size_t bytes)
{
	return from.allocate_async(bytes, 256, stream);
}

static void
give(reference to, cuda::stream_ref stream, void *ptr, std::size_t bytes)
{
	to.deallocate_async(ptr, bytes, 256, stream);
}
#endif

int
main()
{
	weir::stream stream = weir::stream::create();
	weir::cuda_resource resource;
	reference ref = resource;
	char host[16] = "as it was", back[16] = "";
	void *ptr = take(ref, cuda::stream_ref(stream.get()), 1 << 20);
	struct weir_block_info info = {};

	info.struct_size = sizeof(info);
	weir::check(weir_block_info(ptr, &info));
	std::printf("on its stream: %d\n", info.stream == stream.get());
	cudaMemcpyAsync(ptr, host, 16, cudaMemcpyHostToDevice, stream);
	cudaMemcpyAsync(back, ptr, 16, cudaMemcpyDeviceToHost, stream);
	stream.synchronize();
	std::printf("%s\n", back);
	give(ref, cuda::stream_ref(stream.get()), ptr, 1 << 20);
	std::printf("again: %d\n",
	    take(ref, cuda::stream_ref(stream.get()), 1 << 20) == ptr);
	std::printf("equal: %d\n", ref == reference(resource));
	return 0;
}
