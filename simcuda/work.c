/*
 * Host functions on a stream, and operations that wait for a value in memory or
 * write one.
 */
#include "simcuda/capture.h"
#include "simcuda/sim.h"

/* ---- host functions ----------------------------------------------------- */

CUresult
cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
	CUresult code = gate_enter(E_cuLaunchHostFunc);
	struct action action = { .kind = OP_HOST,
		.duration_ns = 1,
		.host = { .function = function, .data = data } };
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS && function == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = submit(stream, &action);
	return gate_leave(code);
}

CUresult
cuStreamAddCallback(
    CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
	CUresult code = gate_enter(E_cuStreamAddCallback);
	struct action action = { .kind = OP_HOST,
		.duration_ns = 1,
		.host = { .callback = callback,
		    .stream = handle_bits(handle),
		    .data = data } };
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS && (callback == NULL || flags != 0))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse(stream);
	if (code == CUDA_SUCCESS)
		code = submit(stream, &action);
	return gate_leave(code);
}

/* ---- values in memory --------------------------------------------------- */

static CUresult
value_on(enum sim_entry entry, CUstream handle, enum op_kind kind,
    const struct value_call *call)
{
	CUresult code = gate_enter(entry);
	struct action action = { .kind = kind, .value = *call };
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS &&
	    (call->address % call->width != 0 ||
		!memory_covers(call->address, call->width)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS && kind == OP_WAIT_VALUE)
		code = capture_refuse(stream);
	if (code == CUDA_SUCCESS)
		code = submit(stream, &action);
	return gate_leave(code);
}

CUresult
cuStreamWaitValue32(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32_v2(stream, address, value, flags);
}

CUresult
cuStreamWaitValue32_v2(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	struct value_call call = { .address = address,
		.value = value,
		.width = sizeof(value),
		.flags = flags };

	return value_on(E_cuStreamWaitValue32_v2, stream, OP_WAIT_VALUE, &call);
}

CUresult
cuStreamWaitValue64_v2(
    CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	struct value_call call = { .address = address,
		.value = value,
		.width = sizeof(value),
		.flags = flags };

	return value_on(E_cuStreamWaitValue64_v2, stream, OP_WAIT_VALUE, &call);
}

CUresult
cuStreamWriteValue32(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult
cuStreamWriteValue32_v2(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	struct value_call call = { .address = address,
		.value = value,
		.width = sizeof(value),
		.flags = flags };

	return value_on(
	    E_cuStreamWriteValue32_v2, stream, OP_WRITE_VALUE, &call);
}

CUresult
cuStreamWriteValue64_v2(
    CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	struct value_call call = { .address = address,
		.value = value,
		.width = sizeof(value),
		.flags = flags };

	return value_on(
	    E_cuStreamWriteValue64_v2, stream, OP_WRITE_VALUE, &call);
}
