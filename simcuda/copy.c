/*
 * Copies.
 *
 * An address is in device memory or pinned host memory, which the driver knows,
 * or in pageable host memory. Copies from pageable memory read it during the
 * call, and copies to it are finished when the call returns. Calls without a
 * stream use the default stream and wait for the copy. A copy reaches memory of
 * every device: the driver stages it where two devices have no access to each
 * other.
 */
#include <stdlib.h>
#include <string.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

/* Does the row lie in memory of one kind that the driver copies at once? A copy
 * may cross two mappings, but not two registrations. */
static bool
row_fits(const struct range *range, const struct access *row)
{
	if (range->released || !memory_covers(row->address, row->size))
		return false;
	return range->kind != RANGE_REGISTERED ||
	    row->size <= range->start + range->size - row->address;
}

bool
side_fits(const struct access *access, enum side side, bool *pageable)
{
	size_t n = access_rows(access);

	*pageable = false;
	for (size_t i = 0; i < n; i++) {
		struct access row = access_row(access, i);
		struct range *range = memory_find(row.address);

		if (range != NULL) {
			if (!row_fits(range, &row))
				return false;
			continue;
		}
		*pageable = true;
		if (side == SIDE_DEVICE || row.address == 0 ||
		    !memory_is_pageable(row.address, row.size))
			return false;
	}
	return true;
}

CUresult
copy_action(const struct request *request, struct action *action)
{
	struct copy *copy = &action->copy;
	struct access to = access_to_shape(
	    request->to, &request->shape, &request->to_layout, ACCESS_WRITE);
	struct access from = access_to_shape(
	    request->from, &request->shape, &request->from_layout, ACCESS_READ);
	CUresult code = CUDA_SUCCESS;

	*action = (struct action){ .kind = OP_COPY };
	for (int i = 0; i < 2; i++) {
		if (request->contexts[i] != NULL &&
		    context_find(request->contexts[i], &code) == NULL)
			return code;
	}
	copy->to = request->to;
	copy->from = request->from;
	copy->shape = request->shape;
	copy->to_layout = request->to_layout;
	copy->from_layout = request->from_layout;
	if (!side_fits(&to, request->to_side, &copy->to_pageable) ||
	    !side_fits(&from, request->from_side, &copy->from_pageable))
		return CUDA_ERROR_INVALID_VALUE;
	action->duration_ns =
	    copy_duration_ns(request->to, request->from, access_bytes(&to));
	return CUDA_SUCCESS;
}

/* Read pageable memory during the call. */
static void
stage(struct copy *copy)
{
	const struct shape *shape = &copy->shape;
	char *to;

	copy->staged = sim_alloc(shape->width * shape->rows * shape->slices);
	to = copy->staged;
	for (size_t z = 0; z < shape->slices; z++) {
		for (size_t y = 0; y < shape->rows; y++) {
			memcpy(to,
			    handle_pointer(copy->from +
				z * copy->from_layout.slice +
				y * copy->from_layout.pitch),
			    shape->width);
			to += shape->width;
		}
	}
}

/* The context that memory belongs to; NULL for host memory, or if the context
 * has ended. */
static struct context *
memory_context(uint64_t address)
{
	const struct range *range = memory_find(address);
	struct context *context;

	if (range == NULL || range->phys == NULL)
		return NULL;
	context = range->context != NULL ? range->context :
					   range->phys->device->primary;
	return context != NULL && context->active ? context : NULL;
}

/* The contexts of a copy between two of them; false if there is one only. */
static bool
is_between_contexts(const struct request *request, struct context *contexts[2])
{
	const uint64_t addresses[] = { request->to, request->from };
	CUresult code;

	for (int i = 0; i < 2; i++)
		contexts[i] = request->contexts[i] != NULL ?
		    context_find(request->contexts[i], &code) :
		    memory_context(addresses[i]);
	return contexts[0] != NULL && contexts[1] != NULL &&
	    contexts[0] != contexts[1];
}

/* A copy on the default stream between two contexts comes after all work of
 * both, and before all later work of both. */
static CUresult
copy_on(struct stream *stream, const struct request *request, bool wait)
{
	const struct shape *shape = &request->shape;
	struct context *peers[2];
	struct action action;
	CUresult code;

	if (shape->width == 0 || shape->rows == 0 || shape->slices == 0)
		return CUDA_SUCCESS;
	code = copy_action(request, &action);
	if (code != CUDA_SUCCESS)
		return code;
	if (stream->legacy && is_between_contexts(request, peers)) {
		context_wait(peers[0]);
		context_wait(peers[1]);
		wait = true;
	}
	if (action.copy.from_pageable && stream->capture == NULL)
		stage(&action.copy);
	code = submit(stream, &action);
	if (code == CUDA_SUCCESS && stream->capture == NULL &&
	    (wait || action.copy.to_pageable)) {
		struct context *context = stream->context;

		stream_wait(stream);
		code = context->sticky;
	}
	return code;
}

CUresult
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

/* Copy on the default stream and wait. Captures of streams that the default
 * stream does not wait for are not affected. */
CUresult
copy_now(enum sim_entry entry, CUstream handle, const struct request *request)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse_waiting(stream);
	if (code == CUDA_SUCCESS)
		code = copy_on(stream, request, true);
	return gate_leave(code);
}

static struct request
one_row(uint64_t to, uint64_t from, size_t size)
{
	return (struct request){ .to = to,
		.from = from,
		.shape = { size, 1, 1 },
		.to_side = SIDE_ANY,
		.from_side = SIDE_ANY };
}

static struct request
host_to_device(uint64_t to, const void *from, size_t size)
{
	struct request request = one_row(to, handle_bits(from), size);

	request.to_side = SIDE_DEVICE;
	request.from_side = SIDE_HOST;
	return request;
}

static struct request
device_to_host(void *to, uint64_t from, size_t size)
{
	struct request request = one_row(handle_bits(to), from, size);

	request.to_side = SIDE_HOST;
	request.from_side = SIDE_DEVICE;
	return request;
}

static struct request
device_to_device(uint64_t to, uint64_t from, size_t size)
{
	struct request request = one_row(to, from, size);

	request.to_side = SIDE_DEVICE;
	request.from_side = SIDE_DEVICE;
	return request;
}

/* The contexts say whose memory it is; so do the addresses. */
static struct request
peer_to_peer(uint64_t to, CUcontext to_context, uint64_t from,
    CUcontext from_context, size_t size)
{
	struct request request = device_to_device(to, from, size);

	request.contexts[0] = to_context;
	request.contexts[1] = from_context;
	return request;
}

/* ---- copies that wait --------------------------------------------------- */

CUresult
cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	struct request request = one_row(to, from, size);

	return copy_now(E_cuMemcpy, CU_STREAM_LEGACY, &request);
}

CUresult
cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	struct request request = one_row(to, from, size);

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
	struct request request = one_row(to, from, size);

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
