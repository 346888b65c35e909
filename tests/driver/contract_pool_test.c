/*
 * Contract tests, the same on simcuda and on a GPU's driver: stream-ordered
 * memory.
 */
#include "tests/support/cuda.h"

enum { WORDS = 1024 };

static CUdeviceptr
alloc_on(CUstream stream, size_t size)
{
	CUdeviceptr address = 0;

	CU(cu.cuMemAllocAsync(&address, size, stream));
	return address;
}

static uint64_t
attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = UINT64_MAX;

	CU(cu.cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

static CUmemoryPool
new_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool = NULL;

	CU(cu.cuMemPoolCreate(&pool, &props));
	return pool;
}

TEST(memory_comes_and_goes_in_stream_order)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr result = cuda_alloc(4096);

	cuda_sleep(stream, CUDA_LONG_NS);
	CUdeviceptr address = alloc_on(stream, 4096);
	cuda_fill(stream, address, 7, WORDS);
	cuda_copy(stream, result, address, WORDS);
	CU(cu.cuMemFreeAsync(address, stream));
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(cuda_word(result), 7);
}

TEST(a_stream_gets_back_memory_that_it_freed)
{
	cuda_begin();
	CUstream stream = cuda_stream();

	cuda_sleep(stream, CUDA_LONG_NS);
	CUdeviceptr first = alloc_on(stream, 1 << 20);
	CU(cu.cuMemFreeAsync(first, stream));
	CUdeviceptr second = alloc_on(stream, 1 << 20);
	EXPECT_EQ(first, second);
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuMemFreeAsync(second, stream));
	CU(cu.cuStreamSynchronize(stream));
}

TEST(sizes_and_addresses_are_checked)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr address = 0;
	int host;

	EXPECT_CU(cu.cuMemAllocAsync(&address, (size_t)1 << 50, stream),
	    CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuMemFreeAsync((CUdeviceptr)(uintptr_t)&host, stream),
	    CUDA_ERROR_INVALID_VALUE);
	address = alloc_on(stream, 4096);
	CU(cu.cuMemFreeAsync(address, stream));
	EXPECT_CU(cu.cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuStreamSynchronize(stream));
}

TEST(a_device_has_a_default_pool)
{
	CUmemoryPool pool = NULL, current = NULL, own;

	cuda_begin();
	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cu.cuDeviceGetMemPool(&current, 0));
	EXPECT_EQ(pool, current);
	EXPECT_CU(cu.cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	own = new_pool();
	EXPECT_NE(own, pool);
	CU(cu.cuDeviceSetMemPool(0, own));
	CU(cu.cuDeviceGetMemPool(&current, 0));
	EXPECT_EQ(current, own);
	CU(cu.cuMemPoolDestroy(own));
	CU(cu.cuDeviceGetMemPool(&current, 0));
	EXPECT_EQ(current, pool);
}

TEST(pools_are_found_by_location_too)
{
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemoryPool pool = NULL, current = NULL, own;

	cuda_begin();
	cuda_need(cuMemGetDefaultMemPool);
	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cu.cuMemGetDefaultMemPool(
	    &current, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	EXPECT_EQ(current, pool);
	own = new_pool();
	CU(cu.cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, own));
	CU(cu.cuDeviceGetMemPool(&current, 0));
	EXPECT_EQ(current, own);
	CU(cu.cuDeviceSetMemPool(0, pool));
	CU(cu.cuMemGetMemPool(&current, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	EXPECT_EQ(current, pool);
	CU(cu.cuMemPoolDestroy(own));
}

TEST(attributes_have_defaults_and_are_set)
{
	int reuse = 0;
	cuuint64_t value = 64 << 20;

	cuda_begin();
	CUmemoryPool pool = new_pool();
	for (int which = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
	     which++) {
		CU(cu.cuMemPoolGetAttribute(
		    pool, (CUmemPool_attribute)which, &reuse));
		EXPECT_EQ(reuse, 1);
	}
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
	CU(cu.cuMemPoolSetAttribute(
	    pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 64 << 20);
	reuse = 0;
	CU(cu.cuMemPoolSetAttribute(
	    pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
	reuse = 1;
	CU(cu.cuMemPoolGetAttribute(
	    pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
	EXPECT_EQ(reuse, 0);
	EXPECT_CU(cu.cuMemPoolSetAttribute(
		      pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemPoolSetAttribute(
		      pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_pool_counts_used_and_held_bytes)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUmemoryPool pool = new_pool();
	CUdeviceptr address = 0;
	cuuint64_t zero = 0;

	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	CU(cu.cuMemAllocFromPoolAsync(&address, 8 << 20, pool, stream));
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 8 << 20);
	EXPECT_GE(
	    attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 << 20);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 8 << 20);
	CU(cu.cuMemPoolSetAttribute(
	    pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
}

TEST(idle_memory_is_given_back_when_the_host_waits)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUmemoryPool pool = new_pool();
	CUdeviceptr address = 0;

	CU(cu.cuMemAllocFromPoolAsync(&address, 8 << 20, pool, stream));
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

TEST(a_threshold_keeps_idle_memory)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUmemoryPool pool = new_pool();
	CUdeviceptr address = 0;
	cuuint64_t all = UINT64_MAX;

	CU(cu.cuMemPoolSetAttribute(
	    pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	CU(cu.cuMemAllocFromPoolAsync(&address, 8 << 20, pool, stream));
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_GE(
	    attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 << 20);
	CU(cu.cuMemPoolTrimTo(pool, 0));
	EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

TEST(either_kind_of_memory_is_freed_either_way)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr address = alloc_on(stream, 4096);

	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemFree_v2(address));
	address = cuda_alloc(4096);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(pooled_memory_knows_its_pool)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUmemoryPool pool = NULL, its = NULL;
	CUdeviceptr address = alloc_on(stream, 4096), base = 0;
	CUmemorytype type = 0;
	size_t size = 0;

	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cu.cuPointerGetAttribute(
	    &its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
	EXPECT_EQ(its, pool);
	CU(cu.cuPointerGetAttribute(
	    &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
	CU(cu.cuMemGetAddressRange_v2(&base, &size, address + 100));
	EXPECT_EQ(base, address);
	EXPECT_GE(size, 4096);
}

TEST(a_pool_grants_its_device_access)
{
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

	cuda_begin();
	CU(cu.cuMemPoolGetAccess(&flags, new_pool(), &here));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST(a_destroyed_pool_keeps_memory_in_use)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUmemoryPool pool = new_pool();
	CUdeviceptr address = 0;

	CU(cu.cuMemAllocFromPoolAsync(&address, 4096, pool, stream));
	CU(cu.cuMemPoolDestroy(pool));
	cuda_fill(stream, address, 5, WORDS);
	EXPECT_EQ(cuda_word(address), 5);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
}
