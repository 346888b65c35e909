/*
 * Memory in the order of a stream: cuMemAllocAsync() and its kin.
 *
 * It is of the pool of its stream, whichever memory pool of the program it is
 * counted in. An allocation in a stream that is being captured is a node of a
 * graph, and the driver's.
 */
#include <weir/stream.h>

#include "allocator/allocator.h"
#include "tools/preload/preload.h"

/* ---- Allocate ---------------------------------------------------------- */

/* What the program has asked for: `pool` counts unless it is `of_device`. */
struct wish {
	size_t bytes;
	CUmemoryPool pool;
	bool of_device;
	CUstream stream;
	bool per_thread;
};

static bool
allocate(const struct wish *wish, CUdeviceptr *out, CUresult *code)
{
	struct request request = { .bytes = wish->bytes };

	if (out == NULL || wish->bytes == 0 ||
	    !gate_stream(wish->stream, wish->per_thread, &request.device,
		&request.stream) ||
	    gate_capturing(request.stream))
		return false;
	if (request.stream != WEIR_STREAM_LEGACY)
		memory_other_stream();
	request.pool =
	    mempool_serving(request.device, wish->pool, wish->of_device);
	return request.pool != NULL && memory_allocate(&request, out, code);
}

/* The driver's turn, where weir has not served it. */
static CUresult
served(enum hook_id id, CUresult code)
{
	report_served(id, code);
	return code;
}

CUresult
cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	struct wish wish = { bytes, NULL, true, stream, false };
	CUresult code;

	report_call(HOOK_cuMemAllocAsync);
	if (allocate(&wish, out, &code))
		return served(HOOK_cuMemAllocAsync, code);
	code = REAL(cuMemAllocAsync)(out, bytes, stream);
	if (room_made(code))
		code = REAL(cuMemAllocAsync)(out, bytes, stream);
	return code;
}

CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	struct wish wish = { bytes, NULL, true, stream, true };
	CUresult code;

	report_call(HOOK_cuMemAllocAsync_ptsz);
	if (allocate(&wish, out, &code))
		return served(HOOK_cuMemAllocAsync_ptsz, code);
	code = REAL(cuMemAllocAsync_ptsz)(out, bytes, stream);
	if (room_made(code))
		code = REAL(cuMemAllocAsync_ptsz)(out, bytes, stream);
	return code;
}

CUresult
cuMemAllocFromPoolAsync(
    CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct wish wish = { bytes, pool, false, stream, false };
	CUresult code;

	report_call(HOOK_cuMemAllocFromPoolAsync);
	if (allocate(&wish, out, &code))
		return served(HOOK_cuMemAllocFromPoolAsync, code);
	code = REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream);
	if (room_made(code))
		code = REAL(cuMemAllocFromPoolAsync)(out, bytes, pool, stream);
	return code;
}

CUresult
cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct wish wish = { bytes, pool, false, stream, true };
	CUresult code;

	report_call(HOOK_cuMemAllocFromPoolAsync_ptsz);
	if (allocate(&wish, out, &code))
		return served(HOOK_cuMemAllocFromPoolAsync_ptsz, code);
	code = REAL(cuMemAllocFromPoolAsync_ptsz)(out, bytes, pool, stream);
	if (room_made(code))
		code = REAL(cuMemAllocFromPoolAsync_ptsz)(
		    out, bytes, pool, stream);
	return code;
}

/* ---- Free -------------------------------------------------------------- */

/*
 * Free on a stream that weir cannot give the block to: one of another device
 * or of a context that is not primary. Waiting for the stream is the order
 * that is left.
 */
static CUresult
free_after(const struct held *held, CUstream stream)
{
	enum weir_status status;
	CUresult code = real_driver()->cuStreamSynchronize(stream);

	if (code != CUDA_SUCCESS) {
		memory_keep(held);
		return code;
	}
	gate_enter_weir();
	status = weir_free((void *)(uintptr_t)held->ptr);
	gate_leave_weir();
	return memory_let_go(held, status);
}

/* In a captured stream only memory of the graph may be freed, and ours is
 * not. */
static CUresult
free_on(const struct held *held, CUstream handle, bool per_thread)
{
	enum weir_status status;
	weir_stream stream;
	int device;

	if (!gate_stream(handle, per_thread, &device, &stream)) {
		if (handle == NULL && per_thread)
			handle = (CUstream)WEIR_STREAM_PER_THREAD;
		return free_after(held, handle);
	}
	if (gate_capturing(stream)) {
		memory_keep(held);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (device != held->device)
		return free_after(held, (CUstream)stream);
	if (stream != WEIR_STREAM_LEGACY)
		memory_other_stream();
	gate_enter_weir();
	status = weir_free_async((void *)(uintptr_t)held->ptr, stream);
	gate_leave_weir();
	return memory_let_go(held, status);
}

/* True if weir has answered. */
static bool
release(CUdeviceptr ptr, CUstream handle, bool per_thread, CUresult *code)
{
	struct held held;

	switch (memory_hold(ptr, &held)) {
	case OTHERS:
		return false;
	case UNUSED:
		*code = CUDA_ERROR_INVALID_VALUE;
		return true;
	case LIVE:
		break;
	}
	*code = free_on(&held, handle, per_thread);
	return true;
}

CUresult
cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemFreeAsync);
	if (!release(ptr, stream, false, &code))
		return REAL(cuMemFreeAsync)(ptr, stream);
	return served(HOOK_cuMemFreeAsync, code);
}

CUresult
cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuMemFreeAsync_ptsz);
	if (!release(ptr, stream, true, &code))
		return REAL(cuMemFreeAsync_ptsz)(ptr, stream);
	return served(HOOK_cuMemFreeAsync_ptsz, code);
}
