/*
 * Copies and fills.
 *
 * An address is in device memory or pinned host memory, which the driver knows,
 * or in pageable host memory. Copies from pageable memory read it during the
 * call, and copies to it are finished when the call returns. Calls without a
 * stream use the default stream and wait for the copy.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/sim/capture.h"
#include "driver/sim/sim.h"

enum side { SIDE_ANY, SIDE_DEVICE, SIDE_HOST };

/* A copy as the caller states it. */
struct request {
	uint64_t to;
	uint64_t from;
	size_t size;
	enum side to_side, from_side;
	bool between_peers;
	CUcontext contexts[2]; /* of peers; NULL is accepted */
};

/* Can the memory be of the kind that the call says? */
static bool
side_fits(uint64_t address, size_t size, enum side side, bool *pageable)
{
	struct range *range = memory_find(address);

	*pageable = false;
	if (range != NULL)
		return !range->released && memory_covers(address, size);
	*pageable = memory_is_pageable(address, size);
	return side != SIDE_DEVICE && address != 0 && *pageable;
}

static CUresult
copy_action(const struct request *request, struct action *action)
{
	struct copy *copy = &action->copy;
	CUresult code = CUDA_SUCCESS;

	*action = (struct action){ .kind = OP_COPY };
	for (int i = 0; i < 2; i++) {
		if (request->contexts[i] != NULL &&
		    context_find(request->contexts[i], &code) == NULL)
			return code;
	}
	copy->to = request->to;
	copy->from = request->from;
	copy->size = request->size;
	if (!side_fits(request->to, request->size, request->to_side,
		&copy->to_pageable) ||
	    !side_fits(request->from, request->size, request->from_side,
		&copy->from_pageable))
		return CUDA_ERROR_INVALID_VALUE;
	copy->between_peers = request->between_peers;
	action->duration_ns =
	    copy_duration_ns(request->to, request->from, request->size);
	return CUDA_SUCCESS;
}

static CUresult
copy_on(struct stream *stream, const struct request *request, bool wait)
{
	struct action action;
	CUresult code;

	if (request->size == 0)
		return CUDA_SUCCESS;
	code = copy_action(request, &action);
	if (code != CUDA_SUCCESS)
		return code;
	if (action.copy.from_pageable && stream->capture == NULL) {
		action.copy.staged = sim_alloc(request->size);
		memcpy(action.copy.staged,
		    (const void *)(uintptr_t)request->from, request->size);
	}
	code = submit(stream, &action);
	if (code == CUDA_SUCCESS && stream->capture == NULL &&
	    (wait || action.copy.to_pageable)) {
		struct context *context = stream->context;

		stream_wait(stream);
		code = context->sticky;
	}
	return code;
}

static CUresult
copy_async(enum sim_entry entry, CUstream handle, const struct request *request)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = copy_on(stream, request, false);
	return gate_leave(code);
}

/* A copy between peers without a stream comes after all work of both contexts.
 */
static CUresult
wait_for_peers(const struct request *request)
{
	CUresult code = CUDA_SUCCESS;

	for (int i = 0; i < 2; i++) {
		struct context *context;

		if (request->contexts[i] == NULL)
			continue;
		context = context_find(request->contexts[i], &code);
		if (context == NULL)
			return code;
		context_wait(context);
	}
	return CUDA_SUCCESS;
}

/* Copy on the default stream and wait. Captures of streams that the default
 * stream does not wait for are not affected. */
static CUresult
copy_now(enum sim_entry entry, CUstream handle, const struct request *request)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse_waiting(stream);
	if (code == CUDA_SUCCESS)
		code = wait_for_peers(request);
	if (code == CUDA_SUCCESS)
		code = copy_on(stream, request, true);
	return gate_leave(code);
}

static struct request
any_to_any(uint64_t to, uint64_t from, size_t size)
{
	return (struct request){ .to = to,
		.from = from,
		.size = size,
		.to_side = SIDE_ANY,
		.from_side = SIDE_ANY };
}

static struct request
host_to_device(uint64_t to, const void *from, size_t size)
{
	return (struct request){ .to = to,
		.from = handle_bits(from),
		.size = size,
		.to_side = SIDE_DEVICE,
		.from_side = SIDE_HOST };
}

static struct request
device_to_host(void *to, uint64_t from, size_t size)
{
	return (struct request){ .to = handle_bits(to),
		.from = from,
		.size = size,
		.to_side = SIDE_HOST,
		.from_side = SIDE_DEVICE };
}

static struct request
device_to_device(uint64_t to, uint64_t from, size_t size)
{
	return (struct request){ .to = to,
		.from = from,
		.size = size,
		.to_side = SIDE_DEVICE,
		.from_side = SIDE_DEVICE };
}

/* The contexts say whose memory it is; so do the addresses. */
static struct request
peer_to_peer(uint64_t to, CUcontext to_context, uint64_t from,
    CUcontext from_context, size_t size)
{
	return (struct request){ .to = to,
		.from = from,
		.size = size,
		.to_side = SIDE_DEVICE,
		.from_side = SIDE_DEVICE,
		.between_peers = true,
		.contexts = { to_context, from_context } };
}

/* ---- copies that wait --------------------------------------------------- */

CUresult
cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	struct request request = any_to_any(to, from, size);

	return copy_now(E_cuMemcpy, CU_STREAM_LEGACY, &request);
}

CUresult
cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	struct request request = any_to_any(to, from, size);

	return copy_now(E_cuMemcpy, CU_STREAM_PER_THREAD, &request);
}

CUresult
cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	struct request request = host_to_device(to, from, size);

	return copy_now(E_cuMemcpyHtoD_v2, CU_STREAM_LEGACY, &request);
}

CUresult
cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t size)
{
	struct request request = host_to_device(to, from, size);

	return copy_now(E_cuMemcpyHtoD_v2, CU_STREAM_PER_THREAD, &request);
}

CUresult
cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	struct request request = device_to_host(to, from, size);

	return copy_now(E_cuMemcpyDtoH_v2, CU_STREAM_LEGACY, &request);
}

CUresult
cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t size)
{
	struct request request = device_to_host(to, from, size);

	return copy_now(E_cuMemcpyDtoH_v2, CU_STREAM_PER_THREAD, &request);
}

CUresult
cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	struct request request = device_to_device(to, from, size);

	return copy_now(E_cuMemcpyDtoD_v2, CU_STREAM_LEGACY, &request);
}

CUresult
cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	struct request request = device_to_device(to, from, size);

	return copy_now(E_cuMemcpyDtoD_v2, CU_STREAM_PER_THREAD, &request);
}

/* There is one address space, so the contexts add no information. */
CUresult
cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
    CUcontext from_context, size_t size)
{
	struct request request =
	    peer_to_peer(to, to_context, from, from_context, size);

	return copy_now(E_cuMemcpyPeer, CU_STREAM_LEGACY, &request);
}

CUresult
cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
    CUcontext from_context, size_t size)
{
	struct request request =
	    peer_to_peer(to, to_context, from, from_context, size);

	return copy_now(E_cuMemcpyPeer, CU_STREAM_PER_THREAD, &request);
}

/* ---- copies on a stream ------------------------------------------------- */

CUresult
cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	struct request request = any_to_any(to, from, size);

	return copy_async(E_cuMemcpyAsync, stream, &request);
}

CUresult
cuMemcpyHtoDAsync_v2(
    CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	struct request request = host_to_device(to, from, size);

	return copy_async(E_cuMemcpyHtoDAsync_v2, stream, &request);
}

CUresult
cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	struct request request = device_to_host(to, from, size);

	return copy_async(E_cuMemcpyDtoHAsync_v2, stream, &request);
}

CUresult
cuMemcpyDtoDAsync_v2(
    CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	struct request request = device_to_device(to, from, size);

	return copy_async(E_cuMemcpyDtoDAsync_v2, stream, &request);
}

CUresult
cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
    CUcontext from_context, size_t size, CUstream stream)
{
	struct request request =
	    peer_to_peer(to, to_context, from, from_context, size);

	return copy_async(E_cuMemcpyPeerAsync, stream, &request);
}

/* ---- fills -------------------------------------------------------------- */

static CUresult
fill_on(struct stream *stream, const struct fill *fill)
{
	struct action action = { .kind = OP_FILL, .fill = *fill };
	size_t size;
	bool pageable;

	if (fill->n == 0)
		return CUDA_SUCCESS;
	if (__builtin_mul_overflow(fill->n, fill->width, &size) ||
	    fill->to % fill->width != 0 ||
	    !side_fits(fill->to, size, SIDE_DEVICE, &pageable))
		return CUDA_ERROR_INVALID_VALUE;
	action.duration_ns = copy_duration_ns(fill->to, fill->to, size);
	return submit(stream, &action);
}

static CUresult
fill_async(enum sim_entry entry, CUstream handle, const struct fill *fill)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = fill_on(stream, fill);
	return gate_leave(code);
}

/* A fill of device memory on the default stream does not wait. */
static CUresult
fill_now(enum sim_entry entry, CUstream handle, const struct fill *fill)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse_waiting(stream);
	if (code == CUDA_SUCCESS)
		code = fill_on(stream, fill);
	return gate_leave(code);
}

CUresult
cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n)
{
	struct fill fill = { to, n, value, 1 };

	return fill_now(E_cuMemsetD8_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t n)
{
	struct fill fill = { to, n, value, 1 };

	return fill_now(E_cuMemsetD8_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n)
{
	struct fill fill = { to, n, value, 2 };

	return fill_now(E_cuMemsetD16_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t n)
{
	struct fill fill = { to, n, value, 2 };

	return fill_now(E_cuMemsetD16_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t n)
{
	struct fill fill = { to, n, value, 4 };

	return fill_now(E_cuMemsetD32_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t n)
{
	struct fill fill = { to, n, value, 4 };

	return fill_now(E_cuMemsetD32_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	struct fill fill = { to, n, value, 1 };

	return fill_async(E_cuMemsetD8Async, stream, &fill);
}

CUresult
cuMemsetD16Async(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	struct fill fill = { to, n, value, 2 };

	return fill_async(E_cuMemsetD16Async, stream, &fill);
}

CUresult
cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
	struct fill fill = { to, n, value, 4 };

	return fill_async(E_cuMemsetD32Async, stream, &fill);
}
