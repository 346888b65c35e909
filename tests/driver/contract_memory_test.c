/*
 * Contract tests, the same on simcuda and on a GPU's driver: cuMemAlloc(), host
 * memory, copies, and queries of addresses.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda.h"

enum { MIB = 1 << 20, GRANULE = 2 * MIB };

static size_t
free_bytes(void)
{
	size_t available = 0, total = 0;

	CU(cu.cuMemGetInfo_v2(&available, &total));
	EXPECT_LE(available, total);
	return available;
}

/* ---- cuMemAlloc() ------------------------------------------------------- */

TEST(allocations_are_aligned_and_apart)
{
	cuda_begin();
	CUdeviceptr small = cuda_alloc(1), other = cuda_alloc(1);
	CUdeviceptr large = cuda_alloc(3 * MIB);

	EXPECT_EQ(small % 512, 0);
	EXPECT_EQ(other % 512, 0);
	EXPECT_EQ(large % GRANULE, 0);
	EXPECT_GE(small < other ? other - small : small - other, 512);
}

TEST(nothing_and_too_much_are_refused)
{
	CUdeviceptr address = 0;
	size_t total = 0;

	cuda_begin();
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuDeviceTotalMem_v2(&total, 0));
	EXPECT_CU(
	    cu.cuMemAlloc_v2(&address, total * 2), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuMemAlloc_v2(&address, (size_t)1 << 60),
	    CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuMemAlloc_v2(NULL, 512), CUDA_ERROR_INVALID_VALUE);
	/* It works afterwards. */
	CU(cu.cuMemAlloc_v2(&address, 512));
}

TEST(free_memory_is_counted)
{
	cuda_begin();
	size_t before = free_bytes();
	CUdeviceptr address = cuda_alloc(64 * MIB);

	EXPECT_EQ(free_bytes(), before - 64 * MIB);
	CU(cu.cuMemFree_v2(address));
	EXPECT_EQ(free_bytes(), before);
}

TEST(only_allocated_memory_is_freed_and_only_once)
{
	int host = 0;

	cuda_begin();
	CUdeviceptr address = cuda_alloc(4096);

	CU(cu.cuMemFree_v2(0));
	EXPECT_CU(cu.cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)&host),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemFree_v2(address));
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(freeing_waits_for_the_context)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096), other = cuda_alloc(4096);

	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(stream, memory, 1, 1024);
	CU(cu.cuMemFree_v2(other));
	CU(cu.cuStreamQuery(stream));
	EXPECT_EQ(cuda_word(memory), 1);
}

TEST(rows_are_padded)
{
	CUdeviceptr address = 0;
	size_t pitch = 0;

	cuda_begin();
	CU(cu.cuMemAllocPitch_v2(&address, &pitch, 100, 10, 4));
	EXPECT_GE(pitch, 100);
	EXPECT_EQ(pitch % 512, 0);
	CU(cu.cuMemsetD8_v2(address, 1, pitch * 10));
	EXPECT_CU(cu.cuMemAllocPitch_v2(&address, &pitch, 100, 10, 3),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(managed_memory_is_reached_by_both)
{
	CUdeviceptr address = 0;
	bool managed = false;

	cuda_begin();
	CU(cu.cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_GLOBAL));
	CU(cu.cuMemsetD32_v2(address, 7, 1024));
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(*(uint32_t *)(uintptr_t)address, 7);
	CU(cu.cuPointerGetAttribute(
	    &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	EXPECT(managed);
	CU(cu.cuMemFree_v2(address));
}

/* ---- Copies and fills --------------------------------------------------- */

TEST(bytes_come_back_as_they_went)
{
	static unsigned char there[3 * MIB], back[3 * MIB];

	cuda_begin();
	CUdeviceptr first = cuda_alloc(sizeof(there));
	CUdeviceptr second = cuda_alloc(sizeof(there));

	for (size_t i = 0; i < sizeof(there); i++)
		there[i] = (unsigned char)(i * 31 + i / 7);
	CU(cu.cuMemcpyHtoD_v2(first, there, sizeof(there)));
	CU(cu.cuMemcpyDtoD_v2(second, first, sizeof(there)));
	CU(cu.cuMemcpyDtoH_v2(back, second, sizeof(back)));
	EXPECT_MEM_EQ(back, there, sizeof(back));
	memset(back, 0, sizeof(back));
	CU(cu.cuMemcpy((CUdeviceptr)(uintptr_t)back, first, sizeof(back)));
	EXPECT_MEM_EQ(back, there, sizeof(back));
}

TEST(fills_are_of_one_two_and_four_bytes)
{
	uint8_t bytes[16];

	cuda_begin();
	CUdeviceptr memory = cuda_alloc(64);
	CUstream stream = cuda_stream();

	CU(cu.cuMemsetD8_v2(memory, 0xff, 64));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemsetD8Async(memory, 0x11, 3, stream));
	CU(cu.cuMemsetD16Async(memory + 4, 0x2233, 2, stream));
	CU(cu.cuMemsetD32Async(memory + 8, 0x44556677, 1, stream));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemcpyDtoH_v2(bytes, memory, sizeof(bytes)));
	static const uint8_t expected[16] = { 0x11, 0x11, 0x11, 0xff, 0x33,
		0x22, 0x33, 0x22, 0x77, 0x66, 0x55, 0x44, 0xff, 0xff, 0xff,
		0xff };
	EXPECT_MEM_EQ(bytes, expected, sizeof(bytes));
	EXPECT_CU(
	    cu.cuMemsetD32_v2(memory + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(copies_of_nothing_do_nothing)
{
	cuda_begin();
	CUdeviceptr memory = cuda_alloc(64);

	CU(cu.cuMemcpyDtoDAsync_v2(memory, memory + 32, 0, NULL));
	CU(cu.cuMemsetD8Async(memory, 1, 0, NULL));
}

TEST(copies_of_unknown_device_memory_are_refused)
{
	char host[64] = "";

	cuda_begin();
	CUdeviceptr memory = cuda_alloc(4096);

	CU(cu.cuMemFree_v2(memory));
	EXPECT_CU(cu.cuMemcpyHtoD_v2(memory, host, sizeof(host)),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemcpyDtoHAsync_v2(host, memory, sizeof(host), NULL),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(
	    cu.cuMemsetD8Async(memory, 1, 1, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(pageable_memory_may_be_changed_after_the_call)
{
	static unsigned char bytes[4096];

	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr memory = cuda_alloc(sizeof(bytes));

	memset(bytes, 7, sizeof(bytes));
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, bytes, sizeof(bytes), stream));
	memset(bytes, 9, sizeof(bytes));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemcpyDtoH_v2(bytes, memory, sizeof(bytes)));
	EXPECT_EQ(bytes[0], 7);
	EXPECT_EQ(bytes[4095], 7);
}

TEST(a_copy_to_pageable_memory_is_done_when_it_returns)
{
	static unsigned char bytes[4096];

	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr memory = cuda_alloc(sizeof(bytes));

	CU(cu.cuMemsetD8Async(memory, 3, sizeof(bytes), stream));
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuMemcpyDtoHAsync_v2(bytes, memory, sizeof(bytes), stream));
	EXPECT_EQ(bytes[4095], 3);
}

TEST(a_copy_to_pinned_memory_is_done_when_its_stream_is)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096);
	unsigned char *pinned = NULL;

	CU(cu.cuMemHostAlloc((void **)&pinned, 4096, 0));
	memset(pinned, 0, 4096);
	CU(cu.cuMemsetD8Async(memory, 3, 4096, stream));
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuMemcpyDtoHAsync_v2(pinned, memory, 4096, stream));
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(pinned[0], 0);
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(pinned[0], 3);
	CU(cu.cuMemFreeHost(pinned));
}

/* ---- Host memory -------------------------------------------------------- */

TEST(pinned_memory_has_flags_and_a_device_address)
{
	cuda_begin();
	void *host = NULL;
	CUdeviceptr address = 0;
	unsigned flags = 0;

	CU(cu.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
	CU(cu.cuMemHostGetDevicePointer_v2(&address, host, 0));
	EXPECT_EQ(address, (CUdeviceptr)(uintptr_t)host);
	CU(cu.cuMemHostGetFlags(&flags, host));
	EXPECT_EQ(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	CU(cu.cuMemFreeHost(host));
	EXPECT_CU(cu.cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemHostAlloc(&host, 0, 0));
	EXPECT_NULL(host);
	CU(cu.cuMemFreeHost(NULL));
	EXPECT_CU(cu.cuMemHostAlloc(&host, 64, 64), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_kernel_writes_pinned_memory)
{
	cuda_begin();
	uint32_t *host = NULL;

	CU(cu.cuMemAllocHost_v2((void **)&host, 4096));
	memset(host, 0, 4096);
	cuda_fill(NULL, (CUdeviceptr)(uintptr_t)host, 5, 1024);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(host[1023], 5);
	CU(cu.cuMemFreeHost(host));
}

TEST(registered_memory_is_pinned_until_it_is_not)
{
	cuda_begin();
	size_t size = 16 * 4096;
	void *host = aligned_alloc(4096, size);
	CUmemorytype type;

	CU(cu.cuMemHostRegister_v2(host, size, 0));
	CU(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	    (CUdeviceptr)(uintptr_t)host));
	EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
	EXPECT_CU(cu.cuMemHostRegister_v2(host, size, 0),
	    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	cuda_fill(NULL, (CUdeviceptr)(uintptr_t)host, 6, 1024);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(*(uint32_t *)host, 6);
	CU(cu.cuMemHostUnregister(host));
	EXPECT_CU(cu.cuMemHostUnregister(host),
	    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	EXPECT_CU(
	    cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		(CUdeviceptr)(uintptr_t)host),
	    CUDA_ERROR_INVALID_VALUE);
	free(host);
}

/* ---- What an address is ------------------------------------------------- */

TEST(an_address_knows_its_allocation)
{
	CUcontext context = cuda_begin(), its = NULL;
	CUdeviceptr address = cuda_alloc(3 * MIB), base = 0;
	size_t size = 0;
	CUmemorytype type = 0;
	int ordinal = -1;
	bool flag = true;

	CU(cu.cuMemGetAddressRange_v2(&base, &size, address + 12345));
	EXPECT_EQ(base, address);
	EXPECT_EQ(size, 3 * MIB);
	CU(cu.cuPointerGetAttribute(
	    &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 1));
	EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
	CU(cu.cuPointerGetAttribute(
	    &its, CU_POINTER_ATTRIBUTE_CONTEXT, address + 1));
	EXPECT_EQ(its, context);
	CU(cu.cuPointerGetAttribute(
	    &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	EXPECT_EQ(ordinal, 0);
	CU(cu.cuPointerGetAttribute(
	    &base, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 1));
	EXPECT_EQ(base, address + 1);
	CU(cu.cuPointerGetAttribute(
	    &base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 1));
	EXPECT_EQ(base, address);
	CU(cu.cuPointerGetAttribute(
	    &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 1));
	EXPECT_EQ(size, 3 * MIB);
	CU(cu.cuPointerGetAttribute(
	    &flag, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	EXPECT(!flag);
	EXPECT_CU(cu.cuPointerGetAttribute(
		      &base, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemFree_v2(address));
	EXPECT_CU(cu.cuMemGetAddressRange_v2(&base, &size, address),
	    CUDA_ERROR_NOT_FOUND);
	EXPECT_EQ(base, 0);
	EXPECT_EQ(size, 0);
	CU(cu.cuCtxSetCurrent(NULL));
	EXPECT_CU(cu.cuMemGetAddressRange_v2(&base, &size, address),
	    CUDA_ERROR_INVALID_CONTEXT);
}

TEST(each_allocation_has_an_identity)
{
	cuda_begin();
	CUdeviceptr address = cuda_alloc(4 * MIB);
	unsigned long long first = 0, same = 0, second = 0;

	CU(cu.cuPointerGetAttribute(
	    &first, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
	CU(cu.cuPointerGetAttribute(
	    &same, CU_POINTER_ATTRIBUTE_BUFFER_ID, address + MIB));
	EXPECT_EQ(first, same);
	CU(cu.cuMemFree_v2(address));
	CU(cu.cuPointerGetAttribute(
	    &second, CU_POINTER_ATTRIBUTE_BUFFER_ID, cuda_alloc(4 * MIB)));
	EXPECT_NE(first, second);
}

TEST(an_address_of_the_host_is_unknown)
{
	int host = 0, ordinal = 7;
	CUmemorytype type = CU_MEMORYTYPE_DEVICE;
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)&host;
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	void *values[] = { &type, &ordinal };

	cuda_begin();
	EXPECT_CU(cu.cuPointerGetAttribute(
		      &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuPointerGetAttributes(2, attributes, values, address));
	EXPECT_EQ(type, 0);
	EXPECT_EQ(ordinal, -2);
}

TEST(several_attributes_come_at_once)
{
	cuda_begin();
	CUdeviceptr address = cuda_alloc(512), start = 0;
	size_t size = 0;
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE
	};
	void *values[] = { &start, &size };

	CU(cu.cuPointerGetAttributes(2, attributes, values, address + 3));
	EXPECT_EQ(start, address);
	EXPECT_EQ(size, 512);
	EXPECT_CU(cu.cuPointerGetAttributes(0, attributes, values, address),
	    CUDA_ERROR_INVALID_VALUE);
}
