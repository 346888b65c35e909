/*
 * The calls whose stream 0 is the per-thread default stream, for programs built
 * with --default-stream per-thread. Each is the plain call with that stream.
 */
#include "simcuda/sim.h"

static CUstream
own(CUstream stream)
{
	return stream == NULL ? CU_STREAM_PER_THREAD : stream;
}

CUresult
cuStreamQuery_ptsz(CUstream stream)
{
	return cuStreamQuery(own(stream));
}

CUresult
cuStreamSynchronize_ptsz(CUstream stream)
{
	return cuStreamSynchronize(own(stream));
}

CUresult
cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
	return cuStreamWaitEvent(own(stream), event, flags);
}

CUresult
cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context)
{
	return cuStreamGetCtx(own(stream), context);
}

CUresult
cuStreamGetId_ptsz(CUstream stream, unsigned long long *id)
{
	return cuStreamGetId(own(stream), id);
}

CUresult
cuStreamGetPriority_ptsz(CUstream stream, int *priority)
{
	return cuStreamGetPriority(own(stream), priority);
}

CUresult
cuStreamGetFlags_ptsz(CUstream stream, unsigned int *flags)
{
	return cuStreamGetFlags(own(stream), flags);
}

CUresult
cuStreamGetDevice_ptsz(CUstream stream, CUdevice *device)
{
	return cuStreamGetDevice(own(stream), device);
}

CUresult
cuStreamAddCallback_ptsz(
    CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
	return cuStreamAddCallback(own(stream), callback, data, flags);
}

CUresult
cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
	return cuLaunchHostFunc(own(stream), function, data);
}

CUresult
cuStreamWaitValue32_ptsz(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32(own(stream), address, value, flags);
}

CUresult
cuStreamWaitValue32_v2_ptsz(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32_v2(own(stream), address, value, flags);
}

CUresult
cuStreamWriteValue32_ptsz(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32(own(stream), address, value, flags);
}

CUresult
cuStreamWriteValue32_v2_ptsz(
    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32_v2(own(stream), address, value, flags);
}

CUresult
cuStreamWaitValue64_v2_ptsz(
    CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return cuStreamWaitValue64_v2(own(stream), address, value, flags);
}

CUresult
cuStreamWriteValue64_v2_ptsz(
    CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return cuStreamWriteValue64_v2(own(stream), address, value, flags);
}

CUresult
cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *status)
{
	return cuStreamIsCapturing(own(stream), status);
}

CUresult
cuStreamGetCaptureInfo_ptsz(
    CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	return cuStreamGetCaptureInfo(own(stream), status, id);
}

CUresult
cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus *status,
    cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
    size_t *n_dependencies)
{
	return cuStreamGetCaptureInfo_v2(
	    own(stream), status, id, graph, dependencies, n_dependencies);
}

CUresult
cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *status,
    cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
    const CUgraphEdgeData **edges, size_t *n_dependencies)
{
	return cuStreamGetCaptureInfo_v3(own(stream), status, id, graph,
	    dependencies, edges, n_dependencies);
}

CUresult
cuStreamUpdateCaptureDependencies_ptsz(CUstream stream,
    CUgraphNode *dependencies, size_t n_dependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(
	    own(stream), dependencies, n_dependencies, flags);
}

CUresult
cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream,
    CUgraphNode *dependencies, const CUgraphEdgeData *edges,
    size_t n_dependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(
	    own(stream), dependencies, edges, n_dependencies, flags);
}

CUresult
cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(own(stream), mode);
}

CUresult
cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	return cuStreamEndCapture(own(stream), graph);
}

CUresult
cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return cuGraphUpload(exec, own(stream));
}

CUresult
cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return cuGraphLaunch(exec, own(stream));
}

CUresult
cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	return cuEventRecord(event, own(stream));
}

CUresult
cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
	return cuEventRecordWithFlags(event, own(stream), flags);
}

CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size, CUstream stream)
{
	return cuMemAllocAsync(address, size, own(stream));
}

CUresult
cuMemAllocFromPoolAsync_ptsz(
    CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
	return cuMemAllocFromPoolAsync(address, size, pool, own(stream));
}

CUresult
cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	return cuMemFreeAsync(address, own(stream));
}

CUresult
cuMemcpyAsync_ptsz(
    CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return cuMemcpyAsync(to, from, size, own(stream));
}

CUresult
cuMemcpyHtoDAsync_v2_ptsz(
    CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	return cuMemcpyHtoDAsync_v2(to, from, size, own(stream));
}

CUresult
cuMemcpyDtoHAsync_v2_ptsz(
    void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	return cuMemcpyDtoHAsync_v2(to, from, size, own(stream));
}

CUresult
cuMemcpyDtoDAsync_v2_ptsz(
    CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return cuMemcpyDtoDAsync_v2(to, from, size, own(stream));
}

CUresult
cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
    CUcontext from_context, size_t size, CUstream stream)
{
	return cuMemcpyPeerAsync(
	    to, to_context, from, from_context, size, own(stream));
}

CUresult
cuMemsetD8Async_ptsz(
    CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	return cuMemsetD8Async(to, value, n, own(stream));
}

CUresult
cuMemsetD16Async_ptsz(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	return cuMemsetD16Async(to, value, n, own(stream));
}

CUresult
cuMemsetD32Async_ptsz(
    CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
	return cuMemsetD32Async(to, value, n, own(stream));
}

CUresult
cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x,
    unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
    unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
    CUstream stream, void **parameters, void **extra)
{
	return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x,
	    block_y, block_z, shared_bytes, own(stream), parameters, extra);
}

CUresult
cuMemPrefetchAsync_ptsz(
    CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
	return cuMemPrefetchAsync(address, size, device, own(stream));
}

CUresult
cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t size,
    CUmemLocation location, unsigned int flags, CUstream stream)
{
	return cuMemPrefetchAsync_v2(
	    address, size, location, flags, own(stream));
}

CUresult
cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *params, CUstream stream)
{
	return cuMemcpy2DAsync_v2(params, own(stream));
}

CUresult
cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *params, CUstream stream)
{
	return cuMemcpy3DAsync_v2(params, own(stream));
}

CUresult
cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *params, CUstream stream)
{
	return cuMemcpy3DPeerAsync(params, own(stream));
}

CUresult
cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value,
    size_t width, size_t height, CUstream stream)
{
	return cuMemsetD2D8Async(to, pitch, value, width, height, own(stream));
}

CUresult
cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value,
    size_t width, size_t height, CUstream stream)
{
	return cuMemsetD2D16Async(to, pitch, value, width, height, own(stream));
}

CUresult
cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value,
    size_t width, size_t height, CUstream stream)
{
	return cuMemsetD2D32Async(to, pitch, value, width, height, own(stream));
}
