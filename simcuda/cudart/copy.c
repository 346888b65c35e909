/*
 * Copying and filling.
 */
#include <string.h>

#include "simcuda/cudart/cudart.h"

static CUresult
copy_in_stream(void *dst, const void *src, size_t size,
    enum cudaMemcpyKind kind, CUstream stream)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return driver.cuMemcpyHtoDAsync(
		    address(dst), src, size, stream);
	case cudaMemcpyDeviceToHost:
		return driver.cuMemcpyDtoHAsync(
		    dst, address(src), size, stream);
	case cudaMemcpyDeviceToDevice:
		return driver.cuMemcpyDtoDAsync(
		    address(dst), address(src), size, stream);
	default:
		return driver.cuMemcpyAsync(
		    address(dst), address(src), size, stream);
	}
}

/* Copy, and wait unless only device memory is concerned. */
static cudaError_t
copy_and_wait(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
    CUstream stream)
{
	CUresult code;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || size == 0)
		return error;
	if ((unsigned)kind > cudaMemcpyDefault)
		return runtime_error(cudaErrorInvalidMemcpyDirection);
	code = copy_in_stream(dst, src, size, kind, stream);
	if (code == CUDA_SUCCESS && kind != cudaMemcpyDeviceToDevice)
		code = driver.cuStreamSynchronize(stream);
	return runtime_check(code);
}

cudaError_t
cudaMemcpy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	return copy_and_wait(dst, src, size, kind, CU_STREAM_LEGACY);
}

cudaError_t
cudaMemcpy_ptds(
    void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	return copy_and_wait(dst, src, size, kind, CU_STREAM_PER_THREAD);
}

cudaError_t
cudaMemcpyAsync(void *dst, const void *src, size_t size,
    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || size == 0)
		return error;
	if ((unsigned)kind > cudaMemcpyDefault)
		return runtime_error(cudaErrorInvalidMemcpyDirection);
	return runtime_check(copy_in_stream(dst, src, size, kind, stream));
}

cudaError_t
cudaMemcpyAsync_ptsz(void *dst, const void *src, size_t size,
    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpyAsync(dst, src, size, kind, per_thread(stream));
}

/* ---- Two dimensions ----------------------------------------------------- */

/* The kinds of memory that a copy of this kind is from and to. */
static CUmemorytype
type_from(enum cudaMemcpyKind kind)
{
	switch (kind) {
	case cudaMemcpyHostToHost:
	case cudaMemcpyHostToDevice:
		return CU_MEMORYTYPE_HOST;
	case cudaMemcpyDeviceToHost:
	case cudaMemcpyDeviceToDevice:
		return CU_MEMORYTYPE_DEVICE;
	default:
		return CU_MEMORYTYPE_UNIFIED;
	}
}

static CUmemorytype
type_to(enum cudaMemcpyKind kind)
{
	switch (kind) {
	case cudaMemcpyHostToHost:
	case cudaMemcpyDeviceToHost:
		return CU_MEMORYTYPE_HOST;
	case cudaMemcpyHostToDevice:
	case cudaMemcpyDeviceToDevice:
		return CU_MEMORYTYPE_DEVICE;
	default:
		return CU_MEMORYTYPE_UNIFIED;
	}
}

/* The host waits for a copy unless it is between devices. */
static cudaError_t
finish_copy(cudaError_t error, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (error != cudaSuccess || kind == cudaMemcpyDeviceToDevice)
		return error;
	return runtime_check(driver.cuStreamSynchronize(stream));
}

cudaError_t
cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
    size_t src_pitch, size_t width, size_t height, enum cudaMemcpyKind kind,
    cudaStream_t stream)
{
	CUDA_MEMCPY2D params = { .srcMemoryType = type_from(kind),
		.srcHost = src,
		.srcDevice = address(src),
		.srcPitch = src_pitch,
		.dstMemoryType = type_to(kind),
		.dstHost = dst,
		.dstDevice = address(dst),
		.dstPitch = dst_pitch,
		.WidthInBytes = width,
		.Height = height };
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if ((unsigned)kind > cudaMemcpyDefault)
		return runtime_error(cudaErrorInvalidMemcpyDirection);
	if (width > dst_pitch || width > src_pitch)
		return runtime_error(cudaErrorInvalidPitchValue);
	return runtime_check(driver.cuMemcpy2DAsync(&params, stream));
}

cudaError_t
cudaMemcpy2DAsync_ptsz(void *dst, size_t dst_pitch, const void *src,
    size_t src_pitch, size_t width, size_t height, enum cudaMemcpyKind kind,
    cudaStream_t stream)
{
	return cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height,
	    kind, per_thread(stream));
}

cudaError_t
cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return finish_copy(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch,
			       width, height, kind, cudaStreamLegacy),
	    kind, cudaStreamLegacy);
}

cudaError_t
cudaMemcpy2D_ptds(void *dst, size_t dst_pitch, const void *src,
    size_t src_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return finish_copy(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch,
			       width, height, kind, cudaStreamPerThread),
	    kind, cudaStreamPerThread);
}

/* ---- Between devices ---------------------------------------------------- */

/* The driver stages copies between devices without access to each other. */
static cudaError_t
contexts_of(int dst_device, int src_device, CUcontext *to, CUcontext *from)
{
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess)
		error = runtime_context(dst_device, to);
	if (error == cudaSuccess)
		error = runtime_context(src_device, from);
	return error;
}

cudaError_t
cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
    size_t size, cudaStream_t stream)
{
	CUcontext to, from;
	cudaError_t error = contexts_of(dst_device, src_device, &to, &from);

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemcpyPeerAsync(
	    address(dst), to, address(src), from, size, stream));
}

cudaError_t
cudaMemcpyPeer(
    void *dst, int dst_device, const void *src, int src_device, size_t size)
{
	CUcontext to, from;
	cudaError_t error = contexts_of(dst_device, src_device, &to, &from);

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuMemcpyPeer(address(dst), to, address(src), from, size));
}

cudaError_t
cudaMemsetAsync(void *ptr, int value, size_t size, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || size == 0)
		return error;
	return runtime_check(driver.cuMemsetD8Async(
	    address(ptr), (unsigned char)value, size, stream));
}

cudaError_t
cudaMemsetAsync_ptsz(void *ptr, int value, size_t size, cudaStream_t stream)
{
	return cudaMemsetAsync(ptr, value, size, per_thread(stream));
}

/* The host does not wait for a fill of device memory. Memory of another device
 * is refused without peer access, as by the driver's fills. */
cudaError_t
cudaMemset(void *ptr, int value, size_t size)
{
	return cudaMemsetAsync(ptr, value, size, cudaStreamLegacy);
}

cudaError_t
cudaMemset_ptds(void *ptr, int value, size_t size)
{
	return cudaMemsetAsync(ptr, value, size, cudaStreamPerThread);
}

cudaError_t
cudaMemset2DAsync(void *ptr, size_t pitch, int value, size_t width,
    size_t height, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (width > pitch)
		return runtime_error(cudaErrorInvalidPitchValue);
	return runtime_check(driver.cuMemsetD2D8Async(
	    address(ptr), pitch, (unsigned char)value, width, height, stream));
}

cudaError_t
cudaMemset2DAsync_ptsz(void *ptr, size_t pitch, int value, size_t width,
    size_t height, cudaStream_t stream)
{
	return cudaMemset2DAsync(
	    ptr, pitch, value, width, height, per_thread(stream));
}

cudaError_t
cudaMemset2D(void *ptr, size_t pitch, int value, size_t width, size_t height)
{
	return cudaMemset2DAsync(
	    ptr, pitch, value, width, height, cudaStreamLegacy);
}

cudaError_t
cudaMemset2D_ptds(
    void *ptr, size_t pitch, int value, size_t width, size_t height)
{
	return cudaMemset2DAsync(
	    ptr, pitch, value, width, height, cudaStreamPerThread);
}

/* ---- Three dimensions --------------------------------------------------- */

static size_t
slice(const struct cudaPitchedPtr *pitched)
{
	return pitched->pitch * pitched->ysize;
}

CUDA_MEMCPY3D
box_params(const struct cudaMemcpy3DParms *what)
{
	return (CUDA_MEMCPY3D){ .srcXInBytes = what->srcPos.x,
		.srcY = what->srcPos.y,
		.srcZ = what->srcPos.z,
		.srcMemoryType = type_from(what->kind),
		.srcHost = what->srcPtr.ptr,
		.srcDevice = address(what->srcPtr.ptr),
		.srcPitch = what->srcPtr.pitch,
		.srcHeight = what->srcPtr.ysize,
		.dstXInBytes = what->dstPos.x,
		.dstY = what->dstPos.y,
		.dstZ = what->dstPos.z,
		.dstMemoryType = type_to(what->kind),
		.dstHost = what->dstPtr.ptr,
		.dstDevice = address(what->dstPtr.ptr),
		.dstPitch = what->dstPtr.pitch,
		.dstHeight = what->dstPtr.ysize,
		.WidthInBytes = what->extent.width,
		.Height = what->extent.height,
		.Depth = what->extent.depth };
}

cudaError_t
cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *what, cudaStream_t stream)
{
	CUDA_MEMCPY3D params;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (what == NULL || what->srcArray != NULL || what->dstArray != NULL)
		return runtime_error(cudaErrorInvalidValue);
	if ((unsigned)what->kind > cudaMemcpyDefault)
		return runtime_error(cudaErrorInvalidMemcpyDirection);
	params = box_params(what);
	if (params.WidthInBytes > params.srcPitch ||
	    params.WidthInBytes > params.dstPitch)
		return runtime_error(cudaErrorInvalidPitchValue);
	return runtime_check(driver.cuMemcpy3DAsync(&params, stream));
}

cudaError_t
cudaMemcpy3DAsync_ptsz(
    const struct cudaMemcpy3DParms *what, cudaStream_t stream)
{
	return cudaMemcpy3DAsync(what, per_thread(stream));
}

cudaError_t
cudaMemcpy3D(const struct cudaMemcpy3DParms *what)
{
	cudaError_t error = cudaMemcpy3DAsync(what, cudaStreamLegacy);

	return error != cudaSuccess ?
	    error :
	    finish_copy(error, what->kind, cudaStreamLegacy);
}

cudaError_t
cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *what)
{
	cudaError_t error = cudaMemcpy3DAsync(what, cudaStreamPerThread);

	return error != cudaSuccess ?
	    error :
	    finish_copy(error, what->kind, cudaStreamPerThread);
}

cudaError_t
cudaMemcpy3DPeerAsync(
    const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream)
{
	struct cudaMemcpy3DParms plain;
	CUDA_MEMCPY3D box;
	CUDA_MEMCPY3D_PEER params;
	CUcontext to, from;
	cudaError_t error;

	if (what == NULL || what->srcArray != NULL || what->dstArray != NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = contexts_of(what->dstDevice, what->srcDevice, &to, &from);
	if (error != cudaSuccess)
		return error;
	plain = (struct cudaMemcpy3DParms){ .srcPos = what->srcPos,
		.srcPtr = what->srcPtr,
		.dstPos = what->dstPos,
		.dstPtr = what->dstPtr,
		.extent = what->extent,
		.kind = cudaMemcpyDeviceToDevice };
	box = box_params(&plain);
	memcpy(&params, &box, sizeof(params));
	params.dstContext = to;
	params.srcContext = from;
	return runtime_check(driver.cuMemcpy3DPeerAsync(&params, stream));
}

cudaError_t
cudaMemcpy3DPeerAsync_ptsz(
    const struct cudaMemcpy3DPeerParms *what, cudaStream_t stream)
{
	return cudaMemcpy3DPeerAsync(what, per_thread(stream));
}

cudaError_t
cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *what)
{
	return cudaMemcpy3DPeerAsync(what, cudaStreamLegacy);
}

cudaError_t
cudaMemcpy3DPeer_ptds(const struct cudaMemcpy3DPeerParms *what)
{
	return cudaMemcpy3DPeerAsync(what, cudaStreamPerThread);
}

cudaError_t
cudaMemset3DAsync(struct cudaPitchedPtr pitched, int value,
    struct cudaExtent extent, cudaStream_t stream)
{
	cudaError_t error = cudaSuccess;

	for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
		error = cudaMemset2DAsync(
		    (char *)pitched.ptr + z * slice(&pitched), pitched.pitch,
		    value, extent.width, extent.height, stream);
	return error;
}

cudaError_t
cudaMemset3DAsync_ptsz(struct cudaPitchedPtr pitched, int value,
    struct cudaExtent extent, cudaStream_t stream)
{
	return cudaMemset3DAsync(pitched, value, extent, per_thread(stream));
}

cudaError_t
cudaMemset3D(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent)
{
	return cudaMemset3DAsync(pitched, value, extent, cudaStreamLegacy);
}

cudaError_t
cudaMemset3D_ptds(
    struct cudaPitchedPtr pitched, int value, struct cudaExtent extent)
{
	return cudaMemset3DAsync(pitched, value, extent, cudaStreamPerThread);
}
