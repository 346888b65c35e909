/*
 * Copying and filling.
 */
#include <string.h>

#include "driver/sim/cudart/cudart.h"

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

/* Copies row by row, which is as fast as any other way on the simulated device.
 */
cudaError_t
cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
    size_t src_pitch, size_t width, size_t height, enum cudaMemcpyKind kind,
    cudaStream_t stream)
{
	cudaError_t error = cudaSuccess;

	if (width > dst_pitch || width > src_pitch)
		return runtime_error(cudaErrorInvalidPitchValue);
	for (size_t i = 0; i < height && error == cudaSuccess; i++)
		error = cudaMemcpyAsync((char *)dst + i * dst_pitch,
		    (const char *)src + i * src_pitch, width, kind, stream);
	return error;
}

cudaError_t
cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind)
{
	cudaError_t error = cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch,
	    width, height, kind, cudaStreamLegacy);

	if (error != cudaSuccess || kind == cudaMemcpyDeviceToDevice)
		return error;
	return cudaStreamSynchronize(cudaStreamLegacy);
}

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

/* The host does not wait for a fill of device memory. */
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
	cudaError_t error = cudaSuccess;

	if (width > pitch)
		return runtime_error(cudaErrorInvalidPitchValue);
	for (size_t i = 0; i < height && error == cudaSuccess; i++)
		error = cudaMemsetAsync(
		    (char *)ptr + i * pitch, value, width, stream);
	return error;
}

cudaError_t
cudaMemset2D(void *ptr, size_t pitch, int value, size_t width, size_t height)
{
	return cudaMemset2DAsync(
	    ptr, pitch, value, width, height, cudaStreamLegacy);
}

/* ---- Three dimensions: slice by slice --------------------------------- */

static size_t
slice(const struct cudaPitchedPtr *pitched)
{
	return pitched->pitch * pitched->ysize;
}

static char *
start_copy(const struct cudaPitchedPtr *pitched, const struct cudaPos *at)
{
	return (char *)pitched->ptr + at->z * slice(pitched) +
	    at->y * pitched->pitch + at->x;
}

cudaError_t
cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *what, cudaStream_t stream)
{
	cudaError_t error = cudaSuccess;

	if (what == NULL || what->srcArray != NULL || what->dstArray != NULL)
		return runtime_error(cudaErrorInvalidValue);
	for (size_t z = 0; z < what->extent.depth && error == cudaSuccess; z++)
		error =
		    cudaMemcpy2DAsync(start_copy(&what->dstPtr, &what->dstPos) +
			    z * slice(&what->dstPtr),
			what->dstPtr.pitch,
			start_copy(&what->srcPtr, &what->srcPos) +
			    z * slice(&what->srcPtr),
			what->srcPtr.pitch, what->extent.width,
			what->extent.height, what->kind, stream);
	return error;
}

cudaError_t
cudaMemcpy3D(const struct cudaMemcpy3DParms *what)
{
	cudaError_t error = cudaMemcpy3DAsync(what, cudaStreamLegacy);

	if (error != cudaSuccess || what->kind == cudaMemcpyDeviceToDevice)
		return error;
	return cudaStreamSynchronize(cudaStreamLegacy);
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
cudaMemset3D(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent)
{
	return cudaMemset3DAsync(pitched, value, extent, cudaStreamLegacy);
}
