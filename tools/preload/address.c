/*
 * What a pointer is: to the program each allocation is one of its own, though
 * it is a part of a larger range of the driver.
 */
#include <stdatomic.h>

#include "allocator/allocator.h"
#include "base/log.h"
#include "tools/preload/preload.h"

enum owner {
	OTHERS, /* not memory of weir */
	LIVE,   /* in an allocation */
	UNUSED, /* of weir, but in no allocation: nothing to the program */
};

/* Whose memory an address is, and if LIVE the allocation as the program made
 * it: the rest of a size class is no part of it. */
static enum owner
look_up(CUdeviceptr ptr, CUdeviceptr *base, size_t *size)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	bool ours;
	bool live;

	if (!gate_started())
		return OTHERS;
	gate_enter_weir();
	live = weir_block_info((void *)(uintptr_t)ptr, &info) == WEIR_OK;
	ours = live || allocator_owns(ptr);
	gate_leave_weir();
	if (!ours)
		return OTHERS;
	if (!live ||
	    ptr - (CUdeviceptr)(uintptr_t)info.address >= info.requested_bytes)
		return UNUSED;
	*base = (CUdeviceptr)(uintptr_t)info.address;
	*size = info.requested_bytes;
	return LIVE;
}

CUresult
cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
	CUdeviceptr found;
	size_t bytes;

	report_call(HOOK_cuMemGetAddressRange_v2);
	switch (look_up(ptr, &found, &bytes)) {
	case LIVE:
		break;
	case UNUSED:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return REAL(cuMemGetAddressRange_v2)(base, size, ptr);
	}
	report_served(HOOK_cuMemGetAddressRange_v2, CUDA_SUCCESS);
	if (base != NULL)
		*base = found;
	if (size != NULL)
		*size = bytes;
	return CUDA_SUCCESS;
}

/* Put the allocation into an attribute the driver has told of its range. */
static void
correct(int attribute, void *data, CUdeviceptr base, size_t size)
{
	if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
		*(CUdeviceptr *)data = base;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		*(size_t *)data = size;
}

CUresult
cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	CUdeviceptr base;
	enum owner owner;
	CUresult code;
	size_t size;

	report_call(HOOK_cuPointerGetAttribute);
	owner = look_up(ptr, &base, &size);
	if (owner == UNUSED)
		return CUDA_ERROR_INVALID_VALUE;
	code = REAL(cuPointerGetAttribute)(data, attribute, ptr);
	if (code == CUDA_SUCCESS && owner == LIVE) {
		report_served(HOOK_cuPointerGetAttribute, code);
		correct(attribute, data, base, size);
	}
	return code;
}

/* This form answers success for an address that is nothing, with nothing in
 * the attributes; so it is asked about address 0 for those. */
CUresult
cuPointerGetAttributes(
    unsigned count, int *attributes, void **data, CUdeviceptr ptr)
{
	CUdeviceptr base;
	enum owner owner;
	CUresult code;
	size_t size;

	report_call(HOOK_cuPointerGetAttributes);
	owner = look_up(ptr, &base, &size);
	code = REAL(cuPointerGetAttributes)(
	    count, attributes, data, owner == UNUSED ? 0 : ptr);
	if (code == CUDA_SUCCESS && owner == LIVE) {
		report_served(HOOK_cuPointerGetAttributes, code);
		for (unsigned i = 0; i < count; i++)
			correct(attributes[i], data[i], base, size);
	}
	return code;
}

/* True if the allocation begins an allocation of the driver, so that a handle
 * of the latter leads its reader to the former. */
static bool
begins_segment(CUdeviceptr ptr)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	bool live;

	gate_enter_weir();
	live = weir_block_info((void *)(uintptr_t)ptr, &info) == WEIR_OK;
	gate_leave_weir();
	return live && !info.expandable && info.segment == info.address;
}

/* The driver's handles are for its own allocations. A handle of the range that
 * ours is a part of would give its reader other memory than was meant. */
CUresult
cuIpcGetMemHandle(void *handle, CUdeviceptr ptr)
{
	static atomic_bool told;
	CUdeviceptr base;
	enum owner owner;
	size_t size;

	report_call(HOOK_cuIpcGetMemHandle);
	owner = look_up(ptr, &base, &size);
	if (owner == OTHERS || (owner == LIVE && begins_segment(ptr)))
		return REAL(cuIpcGetMemHandle)(handle, ptr);
	if (!atomic_exchange(&told, true))
		log_write(LOG_WARN,
		    "cuIpcGetMemHandle(0x%llx): a part of a larger allocation "
		    "cannot be shared so; run the program with "
		    "WEIR_PRELOAD_IPC=1",
		    (unsigned long long)ptr);
	return CUDA_ERROR_INVALID_VALUE;
}
