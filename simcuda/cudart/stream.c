/*
 * Streams, events, captures and graphs: the driver's calls under the runtime's
 * names.
 */
#include <string.h>

#include "simcuda/cudart/cudart.h"

cudaError_t
cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t
cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamDestroy(stream));
}

cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamQuery(stream));
}

cudaError_t
cudaStreamQuery_ptsz(cudaStream_t stream)
{
	return cudaStreamQuery(per_thread(stream));
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamSynchronize(stream));
}

cudaError_t
cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
	return cudaStreamSynchronize(per_thread(stream));
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamWaitEvent(stream, event, flags));
}

cudaError_t
cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	return cudaStreamWaitEvent(per_thread(stream), event, flags);
}

cudaError_t
cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamGetFlags(stream, flags));
}

cudaError_t
cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamGetPriority(stream, priority));
}

cudaError_t
cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuLaunchHostFunc(stream, function, user));
}

cudaError_t
cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void *user)
{
	return cudaLaunchHostFunc(per_thread(stream), function, user);
}

/* ---- Events ------------------------------------------------------------ */

cudaError_t
cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (driver.cuStreamGetId == NULL)
		return runtime_error(cudaErrorNotSupported);
	return runtime_check(driver.cuStreamGetId(stream, id));
}

cudaError_t
cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
    void *user, unsigned flags)
{
	CUstreamCallback function;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	/* A callback may see only codes that are equal in the runtime and the
	 * driver. */
	memcpy(&function, &callback, sizeof(function));
	return runtime_check(
	    driver.cuStreamAddCallback(stream, function, user, flags));
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuEventCreate(event, flags));
}

cudaError_t
cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuEventDestroy(event));
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuEventRecord(event, stream));
}

cudaError_t
cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecord(event, per_thread(stream));
}

cudaError_t
cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t
cudaEventQuery(cudaEvent_t event)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuEventQuery(event));
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuEventSynchronize(event));
}

cudaError_t
cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuEventElapsedTime(milliseconds, start, end));
}

/* ---- Captures and graphs ----------------------------------------------- */

cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	CUstreamCaptureMode exchanged;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (mode == NULL)
		return runtime_error(cudaErrorInvalidValue);
	exchanged = (CUstreamCaptureMode)*mode;
	error =
	    runtime_check(driver.cuThreadExchangeStreamCaptureMode(&exchanged));
	if (error == cudaSuccess)
		*mode = (enum cudaStreamCaptureMode)exchanged;
	return error;
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t
cudaStreamBeginCapture_ptsz(
    cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	return cudaStreamBeginCapture(per_thread(stream), mode);
}

cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuStreamEndCapture(stream, graph));
}

cudaError_t
cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph)
{
	return cudaStreamEndCapture(per_thread(stream), graph);
}

cudaError_t
cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	CUstreamCaptureStatus found;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (status == NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = runtime_check(driver.cuStreamIsCapturing(stream, &found));
	if (error == cudaSuccess)
		*status = (enum cudaStreamCaptureStatus)found;
	return error;
}

cudaError_t
cudaStreamIsCapturing_ptsz(
    cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	return cudaStreamIsCapturing(per_thread(stream), status);
}

cudaError_t
cudaGraphInstantiate(
    cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t
cudaGraphInstantiateWithFlags(
    cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t
cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphUpload(exec, stream));
}

cudaError_t
cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphGetNodes(graph, nodes, count));
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphLaunch(exec, stream));
}

cudaError_t
cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
	return cudaGraphLaunch(exec, per_thread(stream));
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphExecDestroy(exec));
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphDestroy(graph));
}
