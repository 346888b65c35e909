/*
 * Calls that name memory by its address, but neither allocate nor free it nor
 * work on it: they ask about it, or change how the driver treats it.
 *
 * The driver knows weir's ranges and not the program's allocations. So an
 * address in memory that weir only keeps (freed memory, the rest of a size
 * class, reserved addresses) would be valid to it. There are three rules:
 *
 *   - Questions and changes about an address in no allocation of the program
 *     fail as the driver fails for memory that is not there.
 *   - The program has mapped none of weir's memory, so a call about a mapping
 *     never finds one there.
 *   - An answer with an extent is the allocation's: address.c, opened.c.
 *
 * Calls that queue work on memory (copies, fills, launches, graph nodes) are
 * not checked: docs/preload.md, Limits. The driver itself refuses calls about
 * managed memory for all of weir's. tests/preload/named_test.c has the
 * decision for each entry of the driver.
 */
#include "allocator/allocator.h"
#include "preload/preload.h"
#include "preload/serving/handles.h"

enum { HOST_PAGE = 4096 };

static CUdeviceptr
address_of(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

/* ---- Memory that is not there ------------------------------------------ */

static enum memory_owner
owner_of(CUdeviceptr ptr)
{
	struct place place;

	return address_find(ptr, &place);
}

static bool
is_unused(CUdeviceptr ptr)
{
	return owner_of(ptr) == UNUSED;
}

/* Does the memory at `ptr` belong to the program's page-locked memory? Finds
 * its flags. */
static bool
is_host(const struct place *place, unsigned *flags)
{
	struct allocator_block block;

	if (!allocator_find((void *)(uintptr_t)place->base, &block) ||
	    !block.host)
		return false;
	*flags = block.host_flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return true;
}

CUresult
cuMemHostGetFlags(unsigned *flags, void *ptr)
{
	struct place place;
	unsigned found;
	enum memory_owner owner = address_find(address_of(ptr), &place);

	report_call(HOOK_cuMemHostGetFlags);
	if (owner == OTHERS)
		return REAL(cuMemHostGetFlags)(flags, ptr);
	if (owner == UNUSED || flags == NULL || !is_host(&place, &found))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = found;
	return CUDA_SUCCESS;
}

/* Host memory has one address for both sides. Of an address in a mapping the
 * driver would give the start of the mapping. */
CUresult
cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *ptr, unsigned flags)
{
	struct place place;
	unsigned found;
	enum memory_owner owner = address_find(address_of(ptr), &place);

	report_call(HOOK_cuMemHostGetDevicePointer_v2);
	if (owner == OTHERS)
		return REAL(cuMemHostGetDevicePointer_v2)(out, ptr, flags);
	if (owner == UNUSED || out == NULL || flags != 0 ||
	    !is_host(&place, &found))
		return CUDA_ERROR_INVALID_VALUE;
	*out = address_of(ptr);
	return CUDA_SUCCESS;
}

/* The driver would find pages that are locked already. */
CUresult
cuMemHostRegister(void *ptr, size_t bytes, unsigned flags)
{
	report_call(HOOK_cuMemHostRegister);
	return is_unused(address_of(ptr)) ?
	    CUDA_ERROR_INVALID_VALUE :
	    REAL(cuMemHostRegister)(ptr, bytes, flags);
}

CUresult
cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
	report_call(HOOK_cuMemHostRegister_v2);
	return is_unused(address_of(ptr)) ?
	    CUDA_ERROR_INVALID_VALUE :
	    REAL(cuMemHostRegister_v2)(ptr, bytes, flags);
}

/* Pages that weir has registered are not the program's to unregister. */
CUresult
cuMemHostUnregister(void *ptr)
{
	struct place place;

	report_call(HOOK_cuMemHostUnregister);
	switch (address_find(address_of(ptr), &place)) {
	case LIVE:
		return CUDA_ERROR_INVALID_VALUE;
	case UNUSED:
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	default:
		return REAL(cuMemHostUnregister)(ptr);
	}
}

/*
 * The handle (a dma-buf) names whole pages. The driver rounds its allocations
 * to pages, and so a program may ask for the last page as a whole.
 */
static bool
is_within(const struct place *place, CUdeviceptr ptr, size_t bytes)
{
	CUdeviceptr end = place->base + place->size;

	end = (end + HOST_PAGE - 1) / HOST_PAGE * HOST_PAGE;
	return bytes <= end - ptr;
}

CUresult
cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t bytes,
    int type, unsigned long long flags)
{
	struct place place;
	enum memory_owner owner = address_find(ptr, &place);
	CUresult code;

	report_call(HOOK_cuMemGetHandleForAddressRange);
	if (owner == UNUSED ||
	    (owner == LIVE && !is_within(&place, ptr, bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	if (owner == OTHERS && !handles_wait(ptr, bytes))
		return CUDA_ERROR_NOT_READY;
	code = REAL(cuMemGetHandleForAddressRange)(
	    handle, ptr, bytes, type, flags);
	if (code == CUDA_SUCCESS && owner == OTHERS)
		handles_share(ptr, bytes);
	return code;
}

/* The driver finds memory that no handle was mapped for, but names no access of
 * it. */
CUresult
cuMemGetAccess(
    unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	enum memory_owner owner = owner_of(ptr);

	report_call(HOOK_cuMemGetAccess);
	if (owner == OTHERS || flags == NULL || location == NULL)
		return handles_wait(ptr, 1) ?
		    REAL(cuMemGetAccess)(flags, location, ptr) :
		    CUDA_ERROR_NOT_READY;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return owner == LIVE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Mappings ---------------------------------------------------------- */

/* A call about a mapping of the program at the address `ptr`. */
#define ABOUT_MAPPING(name, ptr, params, args)                                 \
	CUresult name params                                                   \
	{                                                                      \
		report_call(HOOK_##name);                                      \
		return address_is_of_weir(ptr) ? CUDA_ERROR_INVALID_VALUE :    \
						 REAL(name) args;              \
	}

CUresult
cuMulticastBindAddr(CUmemGenericAllocationHandle group, size_t offset,
    CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
	CUresult code;

	report_call(HOOK_cuMulticastBindAddr);
	if (address_is_of_weir(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	if (!handles_wait(ptr, bytes))
		return CUDA_ERROR_NOT_READY;
	code = REAL(cuMulticastBindAddr)(group, offset, ptr, bytes, flags);
	if (code == CUDA_SUCCESS)
		handles_share(ptr, bytes);
	return code;
}

/* weir serves no pool that may be shared, so none of its memory is of one. */
ABOUT_MAPPING(cuMemPoolExportPointer, ptr,
    (CUmemPoolPtrExportData * data, CUdeviceptr ptr), (data, ptr))
