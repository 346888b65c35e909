/*
 * Contract tests, the same on simcuda and on a GPU's driver: virtual memory
 * management.
 */
#include "tests/support/cuda.h"

enum { MIB = 1 << 20, GRANULE = 2 * MIB };

static CUdeviceptr
reserve(size_t size)
{
	CUdeviceptr address = 0;

	CU(cu.cuMemAddressReserve(&address, size, 0, 0, 0));
	return address;
}

/* ---- Address ranges ----------------------------------------------------- */

TEST(the_granularity_is_two_mebibytes)
{
	CUmemAllocationProp prop = cuda_prop(false);
	size_t size = 0;

	cuda_begin();
	CU(cu.cuMemGetAllocationGranularity(
	    &size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	EXPECT_EQ(size, GRANULE);
	CU(cu.cuMemGetAllocationGranularity(
	    &size, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	EXPECT_EQ(size, GRANULE);
	/* The device is not checked. */
	prop.location.id = 99;
	CU(cu.cuMemGetAllocationGranularity(
	    &size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

TEST(address_ranges_are_aligned_as_asked)
{
	CUdeviceptr address = 0;

	cuda_begin();
	CU(cu.cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
	EXPECT_EQ(address % GRANULE, 0);
	CU(cu.cuMemAddressFree(address, 4 * MIB));
	CU(cu.cuMemAddressReserve(&address, 4 * MIB, 64 * MIB, 0, 0));
	EXPECT_EQ(address % (64 * MIB), 0);
	CU(cu.cuMemAddressFree(address, 4 * MIB));
}

TEST(address_ranges_are_checked)
{
	CUdeviceptr address = 0;

	cuda_begin();
	EXPECT_CU(cu.cuMemAddressReserve(&address, 0, 0, 0, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemAddressReserve(&address, 4 * MIB, 3 * MIB, 0, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemAddressReserve(&address, 4 * MIB, 0, 0, 1),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemAddressReserve(NULL, 4 * MIB, 0, 0, 0),
	    CUDA_ERROR_INVALID_VALUE);
	address = reserve(4 * MIB);
	EXPECT_CU(
	    cu.cuMemAddressFree(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemAddressFree(address + GRANULE, GRANULE),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemAddressFree(address, 4 * MIB));
	EXPECT_CU(
	    cu.cuMemAddressFree(address, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
}

TEST(address_space_is_no_memory)
{
	size_t before = 0, after = 0, total = 0;
	CUmemorytype type;

	cuda_begin();
	CU(cu.cuMemGetInfo_v2(&before, &total));
	CUdeviceptr address = reserve((size_t)1 << 34);
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_EQ(before, after);
	EXPECT_CU(
	    cu.cuMemsetD8Async(address, 1, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuPointerGetAttribute(
		      &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
	    CUDA_ERROR_INVALID_VALUE);
}

/* ---- Handles ------------------------------------------------------------ */

TEST(handles_are_memory)
{
	size_t before = 0, after = 0, total = 0;

	cuda_begin();
	CU(cu.cuMemGetInfo_v2(&before, &total));
	CUmemGenericAllocationHandle handle = cuda_create(64 * MIB);
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_EQ(after, before - 64 * MIB);
	CU(cu.cuMemRelease(handle));
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_EQ(after, before);
	EXPECT_CU(cu.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

TEST(parameters_of_creation_are_checked)
{
	CUmemAllocationProp prop = cuda_prop(false);
	CUmemGenericAllocationHandle handle = 0;
	size_t total = 0;

	cuda_begin();
	EXPECT_CU(
	    cu.cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(
	    cu.cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemCreate(&handle, GRANULE, &prop, 1),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemCreate(&handle, GRANULE, NULL, 0),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuDeviceTotalMem_v2(&total, 0));
	total = total / GRANULE * GRANULE;
	EXPECT_CU(cu.cuMemCreate(&handle, total * 2, &prop, 0),
	    CUDA_ERROR_OUT_OF_MEMORY);
	prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	EXPECT_CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0),
	    CUDA_ERROR_INVALID_VALUE);
	prop = cuda_prop(false);
	prop.location.id = 99;
	EXPECT_CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0),
	    CUDA_ERROR_INVALID_DEVICE);
}

TEST(a_handle_remembers_how_it_was_made)
{
	CUmemAllocationProp prop = cuda_prop(true), back = { 0 };
	CUmemGenericAllocationHandle handle = 0;

	cuda_begin();
	CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0));
	CU(cu.cuMemGetAllocationPropertiesFromHandle(&back, handle));
	EXPECT_EQ(back.type, CU_MEM_ALLOCATION_TYPE_PINNED);
	EXPECT_EQ(back.requestedHandleTypes,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	EXPECT_EQ(back.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	EXPECT_EQ(back.location.id, 0);
}

/* ---- Mappings ----------------------------------------------------------- */

TEST(mapped_memory_is_used)
{
	cuda_begin();
	CUdeviceptr address = cuda_map(cuda_create(4 * MIB), 4 * MIB);

	CU(cu.cuMemsetD32_v2(address, 3, MIB));
	cuda_fill(NULL, address + 4096, 4, 1);
	EXPECT_EQ(cuda_word(address), 3);
	EXPECT_EQ(cuda_word(address + 4096), 4);
	EXPECT_EQ(cuda_word(address + 4 * MIB - 4), 3);
}

TEST(a_handle_is_mapped_at_two_addresses)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr first = cuda_map(handle, GRANULE);
	CUdeviceptr second = cuda_map(handle, GRANULE);

	EXPECT_NE(first, second);
	CU(cu.cuMemsetD32_v2(first, 11, 1));
	EXPECT_EQ(cuda_word(second), 11);
	CU(cu.cuMemUnmap(first, GRANULE));
	EXPECT_EQ(cuda_word(second), 11);
	CU(cu.cuMemUnmap(second, GRANULE));
}

TEST(memory_keeps_its_bytes_when_it_moves)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr first = cuda_map(handle, GRANULE), second;

	CU(cu.cuMemsetD32_v2(first, 12, 1));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemUnmap(first, GRANULE));
	second = cuda_map(handle, GRANULE);
	EXPECT_EQ(cuda_word(second), 12);
}

TEST(a_handle_is_mapped_whole)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(4 * MIB);
	CUdeviceptr address = reserve(16 * MIB);

	EXPECT_CU(cu.cuMemMap(address, GRANULE, 0, handle, 0),
	    CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_CU(cu.cuMemMap(address, GRANULE, GRANULE, handle, 0),
	    CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_CU(cu.cuMemMap(address, 8 * MIB, 0, handle, 0),
	    CUDA_ERROR_NOT_SUPPORTED);
	EXPECT_CU(cu.cuMemMap(address + MIB, 4 * MIB, 0, handle, 0),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemMap(address, 4 * MIB, 0, handle, 0));
}

TEST(mappings_do_not_overlap)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(4 * MIB);
	CUdeviceptr address = reserve(16 * MIB);

	CU(cu.cuMemMap(address, 4 * MIB, 0, handle, 0));
	EXPECT_CU(cu.cuMemMap(address, 4 * MIB, 0, handle, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemMap(address + GRANULE, 4 * MIB, 0, handle, 0),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemMap(address + 4 * MIB, 4 * MIB, 0, handle, 0));
}

TEST(a_mapping_is_unmapped_whole)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(4 * MIB);
	CUdeviceptr address = reserve(16 * MIB);

	CU(cu.cuMemMap(address, 4 * MIB, 0, handle, 0));
	CU(cu.cuMemMap(address + 4 * MIB, 4 * MIB, 0, handle, 0));
	EXPECT_CU(cu.cuMemUnmap(address, GRANULE), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemUnmap(address + GRANULE, 4 * MIB),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemUnmap(address, 6 * MIB), CUDA_ERROR_INVALID_VALUE);
	/* Several at once, and addresses with nothing mapped. */
	CU(cu.cuMemUnmap(address, 16 * MIB));
	CU(cu.cuMemUnmap(address, 4 * MIB));
}

TEST(a_range_with_mappings_is_not_freed)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr address = reserve(8 * MIB);

	CU(cu.cuMemMap(address, GRANULE, 0, handle, 0));
	EXPECT_CU(
	    cu.cuMemAddressFree(address, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemUnmap(address, GRANULE));
	CU(cu.cuMemAddressFree(address, 8 * MIB));
}

TEST(memory_lives_while_it_is_mapped)
{
	size_t before = 0, after = 0, total = 0;

	cuda_begin();
	CU(cu.cuMemGetInfo_v2(&before, &total));
	CUmemGenericAllocationHandle handle = cuda_create(64 * MIB);
	CUdeviceptr address = cuda_map(handle, 64 * MIB);
	CU(cu.cuMemRelease(handle));
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_EQ(after, before - 64 * MIB);
	CU(cu.cuMemsetD32_v2(address, 21, 1));
	EXPECT_EQ(cuda_word(address), 21);
	CU(cu.cuMemUnmap(address, 64 * MIB));
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_EQ(after, before);
}

TEST(a_handle_is_had_back_from_its_mapping)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE), again = 0;
	CUdeviceptr address = cuda_map(handle, GRANULE);

	CU(cu.cuMemRelease(handle));
	CU(cu.cuMemRetainAllocationHandle(
	    &again, (void *)(uintptr_t)(address + 5)));
	CU(cu.cuMemUnmap(address, GRANULE));
	CU(cu.cuMemMap(address, GRANULE, 0, again, 0));
	CU(cu.cuMemRelease(again));
	CU(cu.cuMemUnmap(address, GRANULE));
	EXPECT_CU(cu.cuMemRetainAllocationHandle(
		      &again, (void *)(uintptr_t)cuda_alloc(512)),
	    CUDA_ERROR_INVALID_VALUE);
}

/* ---- Access ------------------------------------------------------------- */

TEST(mapping_gives_no_access)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr address = reserve(GRANULE);
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned long long flags = 99;

	CU(cu.cuMemMap(address, GRANULE, 0, handle, 0));
	CU(cu.cuMemGetAccess(&flags, &here, address));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	cuda_allow(address, GRANULE);
	CU(cu.cuMemGetAccess(&flags, &here, address));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST(of_memory_without_handles_no_access_is_named)
{
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned long long flags = 99;
	void *host;

	cuda_begin();
	CUdeviceptr address = cuda_alloc(512);
	CU(cu.cuMemGetAccess(&flags, &here, address + 5));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CU(cu.cuMemHostAlloc(&host, 4096, 0));
	flags = 99;
	CU(cu.cuMemGetAccess(&flags, &here, (CUdeviceptr)(uintptr_t)host));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CU(cu.cuMemFree_v2(address));
	flags = 99;
	EXPECT_CU(cu.cuMemGetAccess(&flags, &here, address),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST(all_addresses_of_a_host_handle_have_one_device_pointer)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA } };
	CUmemAccessDesc access[] = {
		{ { CU_MEM_LOCATION_TYPE_HOST, 0 },
		    CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		    CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr device = 0;

	cuda_begin();
	CUdeviceptr address = reserve(2 * GRANULE);
	for (int i = 0; i < 2; i++) {
		if (cu.cuMemCreate(&handle, GRANULE, &prop, 0) != CUDA_SUCCESS)
			SKIP("this driver has no handles of host memory");
		CU(cu.cuMemMap(address + i * GRANULE, GRANULE, 0, handle, 0));
		CU(cu.cuMemRelease(handle));
	}
	CU(cu.cuMemSetAccess(address, 2 * GRANULE, access, 2));
	for (int i = 0; i < 2; i++) {
		CUdeviceptr start = address + i * GRANULE;
		CU(cu.cuMemHostGetDevicePointer_v2(
		    &device, (void *)(uintptr_t)(start + 4096), 0));
		EXPECT_EQ(device, start);
	}
}

TEST(access_is_given_to_mapped_memory)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr address = reserve(8 * MIB);
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	EXPECT_CU(cu.cuMemSetAccess(address, GRANULE, &access, 1),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemMap(address, GRANULE, 0, handle, 0));
	EXPECT_CU(cu.cuMemSetAccess(address, 4 * MIB, &access, 1),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemMap(address + GRANULE, GRANULE, 0, handle, 0));
	/* To several at once. */
	CU(cu.cuMemSetAccess(address, 4 * MIB, &access, 1));
	CU(cu.cuMemsetD8_v2(address, 1, 4 * MIB));
	EXPECT_CU(cu.cuMemSetAccess(address, 4 * MIB, &access, 0),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(access_goes_with_the_mapping)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr address = cuda_map(handle, GRANULE);
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned long long flags = 99;

	CU(cu.cuMemUnmap(address, GRANULE));
	CU(cu.cuMemMap(address, GRANULE, 0, handle, 0));
	CU(cu.cuMemGetAccess(&flags, &here, address));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

/* Also from one that has none. */
TEST(access_is_withdrawn_from_one_device_at_a_time)
{
	cuda_begin_conf("devices:2");
	int count = 0;
	int reaches = 0;

	CU(cu.cuDeviceGetCount(&count));
	if (count > 1)
		CU(cu.cuDeviceCanAccessPeer(&reaches, 1, 0));
	if (reaches == 0)
		SKIP("needs two devices that reach each other");
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
		CU_MEM_ACCESS_FLAGS_PROT_NONE };
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned long long flags = 99;

	for (int i = 0; i < 4; i++) {
		access.flags = i % 2 == 0 ? CU_MEM_ACCESS_FLAGS_PROT_NONE :
					    CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		CU(cu.cuMemSetAccess(address, GRANULE, &access, 1));
		CU(cu.cuMemGetAccess(&flags, &access.location, address));
		EXPECT_EQ(flags, access.flags);
		CU(cu.cuMemGetAccess(&flags, &here, address));
		EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	}
	CU(cu.cuMemsetD8_v2(address, 1, GRANULE));
}

/* ---- No waiting --------------------------------------------------------- */

TEST(no_call_waits_for_the_device)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	cuda_sleep(stream, CUDA_LONG_NS * 4);
	handle = cuda_create(GRANULE);
	address = cuda_map(handle, GRANULE);
	CU(cu.cuMemUnmap(address, GRANULE));
	CU(cu.cuMemAddressFree(address, GRANULE));
	CU(cu.cuMemRelease(handle));
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize(stream));
}

TEST(memory_is_mapped_and_used_while_other_work_goes_on)
{
	cuda_begin();
	CUstream busy = cuda_stream(), stream = cuda_stream();
	CUdeviceptr address;

	cuda_sleep(busy, CUDA_LONG_NS * 4);
	address = cuda_map(cuda_create(GRANULE), GRANULE);
	cuda_fill(stream, address, 31, 100);
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_CU(cu.cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(cuda_word(address), 31);
}

/* ---- What an address is ------------------------------------------------- */

TEST(a_mapped_address_knows_its_mapping)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(4 * MIB);
	CUdeviceptr address = cuda_map(handle, 4 * MIB), start = 0;
	CUmemorytype type = 0;
	CUcontext context = (CUcontext)&type;
	size_t size = 0;
	bool capable = true;

	CU(cu.cuPointerGetAttribute(
	    &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 1));
	EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
	CU(cu.cuPointerGetAttribute(
	    &context, CU_POINTER_ATTRIBUTE_CONTEXT, address + 1));
	EXPECT_NULL(context);
	CU(cu.cuPointerGetAttribute(&capable,
	    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
	EXPECT(!capable);
	CU(cu.cuMemGetAddressRange_v2(&start, &size, address + GRANULE));
	EXPECT_EQ(start, address);
	EXPECT_EQ(size, 4 * MIB);
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}
