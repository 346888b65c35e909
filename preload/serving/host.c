/*
 * Page-locked host memory: cuMemHostAlloc(), cuMemAllocHost() and
 * cuMemFreeHost().
 *
 * It comes from handles of the driver, which do not know the program's flags,
 * or is registered: named.c answers for them. The program does not say which
 * streams use it. So a freed block waits for all work that was submitted before
 * the free, like device-scope memory. cuMemFreeHost() itself waits as Note
 * [What a free waits for] says of cuMemFree().
 */
#include <weir/host.h>

#include "allocator/allocator.h"
#include "preload/preload.h"

static bool
allocate_pinned(void **out, size_t bytes, unsigned flags, CUresult *code)
{
	enum weir_status status;
	void *memory = NULL;
	int device;

	if (out == NULL || bytes == 0 || !gate_context(&device))
		return false;
	gate_enter_weir();
	status = allocator_malloc_host(device, bytes, flags, &memory);
	if (status == WEIR_OK) {
		status = weir_host_record(memory, WEIR_STREAM_ANY);
		if (status != WEIR_OK)
			weir_host_free(memory);
	}
	gate_leave_weir();
	*code = gate_result(status);
	if (status == WEIR_OK) {
		tsan_host_allocated();
		*out = memory;
	}
	return status == WEIR_OK || status == WEIR_EHOSTMEM;
}

CUresult
cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	CUresult code;

	report_call(HOOK_cuMemHostAlloc);
	if (!allocate_pinned(out, bytes, flags, &code))
		return REAL(cuMemHostAlloc)(out, bytes, flags);
	report_served(HOOK_cuMemHostAlloc, code);
	return code;
}

CUresult
cuMemAllocHost_v2(void **out, size_t bytes)
{
	CUresult code;

	report_call(HOOK_cuMemAllocHost_v2);
	if (!allocate_pinned(out, bytes, 0, &code))
		return REAL(cuMemAllocHost_v2)(out, bytes);
	report_served(HOOK_cuMemAllocHost_v2, code);
	return code;
}

static enum weir_status
free_host(void *ptr, int device)
{
	if (gate_free_mode() == FREE_STRICT && contexts_wait(device))
		return allocator_free_done(ptr);
	if (contexts_several())
		contexts_use((CUdeviceptr)(uintptr_t)ptr, device);
	return weir_host_free(ptr);
}

CUresult
cuMemFreeHost(void *ptr)
{
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)ptr;
	struct allocator_block block;
	enum weir_status status;
	CUresult code;

	report_call(HOOK_cuMemFreeHost);
	if (ptr == NULL || !gate_started() || !allocator_owns(address))
		return REAL(cuMemFreeHost)(ptr);
	if (!allocator_find(ptr, &block) || !block.host)
		return CUDA_ERROR_INVALID_VALUE;
	address_forget(address);
	tsan_host_freed();
	gate_enter_weir();
	status = free_host(ptr, block.device);
	gate_leave_weir();
	/* A driver that is ending frees the memory itself. */
	code = status == WEIR_EEXIT ? CUDA_SUCCESS : gate_result(status);
	report_served(HOOK_cuMemFreeHost, code);
	return code;
}
