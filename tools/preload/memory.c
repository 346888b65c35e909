/*
 * Allocating and freeing.
 *
 * Memory of cuMemAlloc() belongs to no stream: weir hands it out only when all
 * earlier work on it is done everywhere, and frees it without waiting.
 * Memory of cuMemAllocAsync() belongs to its stream. What weir cannot serve,
 * for whatever reason but a full device, the driver is asked for; what weir
 * does not know at a free is the driver's.
 */
#include "allocator/allocator.h"
#include "streams/capture.h"
#include "tools/preload/preload.h"

static void *
pointer_of(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* ---- Allocate ---------------------------------------------------------- */

/* True if weir has answered, with *code; false leaves it to the driver. */
static bool
allocate(int device, size_t bytes, weir_stream stream, CUdeviceptr *out,
    CUresult *code)
{
	enum weir_status status;
	void *memory;

	gate_enter_weir();
	memory = weir_malloc_on(device, bytes, stream);
	status = memory == NULL ? weir_last_status() : WEIR_OK;
	gate_leave_weir();
	if (memory == NULL && status != WEIR_ENOMEM)
		return false;
	if (memory != NULL) {
		report_allocated(device, bytes);
		*out = (CUdeviceptr)(uintptr_t)memory;
	}
	*code = gate_result(status);
	return true;
}

CUresult
cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	CUresult code;
	int device;

	report_call(HOOK_cuMemAlloc_v2);
	if (out == NULL || bytes == 0 || gate_ipc() || !gate_context(&device) ||
	    !allocate(device, bytes, WEIR_STREAM_ANY, out, &code))
		return REAL(cuMemAlloc_v2)(out, bytes);
	report_served(HOOK_cuMemAlloc_v2, code);
	return code;
}

/* An allocation in a captured stream is a node of the graph. */
static bool
allocate_async(CUdeviceptr *out, size_t bytes, CUstream handle, bool per_thread,
    CUresult *code)
{
	weir_stream stream;
	int device;

	return out != NULL && bytes > 0 &&
	    gate_stream(handle, per_thread, &device, &stream) &&
	    !gate_capturing(stream) &&
	    allocate(device, bytes, stream, out, code);
}

CUresult
cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemAllocAsync);
	if (!allocate_async(out, bytes, stream, false, &code))
		return REAL(cuMemAllocAsync)(out, bytes, stream);
	report_served(HOOK_cuMemAllocAsync, code);
	return code;
}

CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemAllocAsync_ptsz);
	if (!allocate_async(out, bytes, stream, true, &code))
		return REAL(cuMemAllocAsync_ptsz)(out, bytes, stream);
	report_served(HOOK_cuMemAllocAsync_ptsz, code);
	return code;
}

/* ---- Left to the driver, with weir's unused memory given back for it --- */

/*
 * True if a failed request of the driver is worth a second try: memory ran
 * out, and weir had some to give back. Giving back waits for streams, which
 * would break a capture.
 */
static bool
made_room(CUresult code, int device)
{
	size_t freed = 0;

	if (code != CUDA_ERROR_OUT_OF_MEMORY || !gate_started() ||
	    capture_any())
		return false;
	gate_enter_weir();
	weir_trim(device, 0, &freed);
	gate_leave_weir();
	return freed > 0;
}

static bool
made_room_here(CUresult code)
{
	int device;

	return code == CUDA_ERROR_OUT_OF_MEMORY && gate_context(&device) &&
	    made_room(code, device);
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
    unsigned element)
{
	CUresult code;

	report_call(HOOK_cuMemAllocPitch_v2);
	code = REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
	if (made_room_here(code))
		code = REAL(cuMemAllocPitch_v2)(
		    out, pitch, width, height, element);
	return code;
}

CUresult
cuMemAllocFromPoolAsync(
    CUdeviceptr *out, size_t bytes, void *pool, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemAllocFromPoolAsync);
	code = REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream);
	if (made_room_here(code))
		code = REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream);
	return code;
}

CUresult
cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *out, size_t bytes, void *pool, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemAllocFromPoolAsync_ptsz);
	code = REAL(cuMemAllocFromPoolAsync_ptsz)(out, bytes, pool, stream);
	if (made_room_here(code))
		code = REAL(cuMemAllocFromPoolAsync_ptsz)(
		    out, bytes, pool, stream);
	return code;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *wanted, unsigned long long flags)
{
	CUresult code;

	report_call(HOOK_cuMemCreate);
	code = REAL(cuMemCreate)(handle, bytes, wanted, flags);
	if (code == CUDA_ERROR_OUT_OF_MEMORY &&
	    wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    made_room(code, wanted->location.id))
		code = REAL(cuMemCreate)(handle, bytes, wanted, flags);
	return code;
}

/* ---- Free -------------------------------------------------------------- */

/* What a free that weir has refused comes to. A driver that is going away
 * takes the memory with it. */
static CUresult
refused(enum weir_status status)
{
	return status == WEIR_EEXIT ? CUDA_SUCCESS : gate_result(status);
}

/* True if weir has answered: the pointer lies in its memory. */
static bool
release(CUdeviceptr ptr, CUresult *code)
{
	enum weir_status status;
	struct held held;
	bool ours;

	if (ptr == 0 || !gate_started())
		return false;
	gate_enter_weir();
	held = report_before_free(ptr);
	status = weir_free(pointer_of(ptr));
	ours = status == WEIR_OK || allocator_owns(ptr);
	gate_leave_weir();
	if (status == WEIR_OK)
		report_freed(held);
	*code = refused(status);
	return ours;
}

CUresult
cuMemFree_v2(CUdeviceptr ptr)
{
	CUresult code;

	report_call(HOOK_cuMemFree_v2);
	if (!release(ptr, &code))
		return REAL(cuMemFree_v2)(ptr);
	report_served(HOOK_cuMemFree_v2, code);
	return code;
}

/*
 * Free on a stream that weir cannot give the block to: one of another device
 * or of a context that is not primary. Waiting for the stream is the order
 * that is left.
 */
static CUresult
release_after(CUdeviceptr ptr, CUstream stream)
{
	CUresult code = real_driver()->cuStreamSynchronize(stream);

	if (code != CUDA_SUCCESS)
		return code;
	return release(ptr, &code) ? code : CUDA_ERROR_INVALID_VALUE;
}

/* The block at its very start, alive; false if there is none. */
static bool
block_at(CUdeviceptr ptr, struct weir_block_info *info)
{
	*info = (struct weir_block_info){ .struct_size = sizeof(*info) };
	return weir_block_info(pointer_of(ptr), info) == WEIR_OK &&
	    info->address == pointer_of(ptr);
}

/* True if weir has answered. In a captured stream only memory of the graph
 * may be freed, and ours is not. */
static bool
release_async(CUdeviceptr ptr, CUstream handle, bool per_thread, CUresult *code)
{
	struct weir_block_info info;
	enum weir_status status;
	weir_stream stream;
	struct held held;
	bool found;
	int device;

	if (ptr == 0 || !gate_started())
		return false;
	gate_enter_weir();
	found = block_at(ptr, &info);
	gate_leave_weir();
	if (!found) {
		*code = CUDA_ERROR_INVALID_VALUE;
		return allocator_owns(ptr);
	}
	if (!gate_stream(handle, per_thread, &device, &stream)) {
		if (handle == NULL && per_thread)
			handle = (CUstream)WEIR_STREAM_PER_THREAD;
		*code = release_after(ptr, handle);
		return true;
	}
	if (gate_capturing(stream)) {
		*code = CUDA_ERROR_INVALID_VALUE;
		return true;
	}
	if (device != info.device) {
		*code = release_after(ptr, (CUstream)stream);
		return true;
	}
	gate_enter_weir();
	held = report_before_free(ptr);
	status = weir_free_async(pointer_of(ptr), stream);
	gate_leave_weir();
	if (status == WEIR_OK)
		report_freed(held);
	*code = refused(status);
	return true;
}

CUresult
cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemFreeAsync);
	if (!release_async(ptr, stream, false, &code))
		return REAL(cuMemFreeAsync)(ptr, stream);
	report_served(HOOK_cuMemFreeAsync, code);
	return code;
}

CUresult
cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemFreeAsync_ptsz);
	if (!release_async(ptr, stream, true, &code))
		return REAL(cuMemFreeAsync_ptsz)(ptr, stream);
	report_served(HOOK_cuMemFreeAsync_ptsz, code);
	return code;
}

/* ---- How much there is ------------------------------------------------- */

CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	enum weir_status status;
	CUresult code;
	size_t available;
	size_t total;
	int device;

	report_call(HOOK_cuMemGetInfo_v2);
	code = REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
	if (code != CUDA_SUCCESS || !gate_context(&device))
		return code;
	gate_enter_weir();
	status = weir_memory_info(device, &available, &total);
	gate_leave_weir();
	if (status != WEIR_OK)
		return code;
	report_served(HOOK_cuMemGetInfo_v2, code);
	*free_bytes = available;
	*total_bytes = total;
	return code;
}
