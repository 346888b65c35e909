/*
 * Memory pools, and memory that other processes open: the driver's calls under
 * the runtime's names.
 */
#include <string.h>

#include "simcuda/cudart/cudart.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps),
    "the runtime's properties of a pool are the driver's");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc),
    "and so is what it says of access");

cudaError_t
cudaMallocFromPoolAsync(
    void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (size == 0)
		return give(CUDA_SUCCESS, &found, ptr);
	return give(driver.cuMemAllocFromPoolAsync(&found, size, pool, stream),
	    &found, ptr);
}

cudaError_t
cudaMallocFromPoolAsync_ptsz(
    void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (size == 0)
		return give(CUDA_SUCCESS, &found, ptr);
	return give(
	    driver.cuMemAllocFromPoolAsync_ptsz(&found, size, pool, stream),
	    &found, ptr);
}

/* ---- Pools ------------------------------------------------------------- */

cudaError_t
cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	CUmemPoolProps its;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (pool == NULL || props == NULL)
		return runtime_error(cudaErrorInvalidValue);
	memcpy(&its, props, sizeof(its));
	return runtime_check(driver.cuMemPoolCreate(pool, &its));
}

cudaError_t
cudaMemPoolDestroy(cudaMemPool_t pool)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemPoolDestroy(pool));
}

cudaError_t
cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemPoolTrimTo(pool, keep));
}

cudaError_t
cudaMemPoolSetAttribute(
    cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemPoolSetAttribute(
	    pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t
cudaMemPoolGetAttribute(
    cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemPoolGetAttribute(
	    pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t
cudaMemPoolSetAccess(
    cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count)
{
	cudaError_t error = runtime_enter();

	for (size_t i = 0; i < count && error == cudaSuccess; i++) {
		CUmemAccessDesc one;

		memcpy(&one, &access[i], sizeof(one));
		error = runtime_check(driver.cuMemPoolSetAccess(pool, &one, 1));
	}
	return error;
}

cudaError_t
cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
    struct cudaMemLocation *location)
{
	CUmemAccess_flags found;
	CUmemLocation its;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (flags == NULL || location == NULL)
		return runtime_error(cudaErrorInvalidValue);
	memcpy(&its, location, sizeof(its));
	error = runtime_check(driver.cuMemPoolGetAccess(&found, pool, &its));
	if (error == cudaSuccess)
		*flags = (enum cudaMemAccessFlags)found;
	return error;
}

cudaError_t
cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t
cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceGetMemPool(pool, device));
}

cudaError_t
cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceSetMemPool(device, pool));
}

/* ---- Other processes --------------------------------------------------- */

cudaError_t
cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr)
{
	CUipcMemHandle its;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (handle == NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = runtime_check(driver.cuIpcGetMemHandle(&its, address(ptr)));
	if (error == cudaSuccess)
		memcpy(handle, &its, sizeof(its));
	return error;
}

cudaError_t
cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t handle, unsigned flags)
{
	CUipcMemHandle its;
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	memcpy(&its, &handle, sizeof(its));
	return give(driver.cuIpcOpenMemHandle(&found, its, flags), &found, ptr);
}

cudaError_t
cudaIpcCloseMemHandle(void *ptr)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuIpcCloseMemHandle(address(ptr)));
}

cudaError_t
cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	CUipcEventHandle its;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (handle == NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = runtime_check(driver.cuIpcGetEventHandle(&its, event));
	if (error == cudaSuccess)
		memcpy(handle, &its, sizeof(its));
	return error;
}

cudaError_t
cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle its;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	memcpy(&its, &handle, sizeof(its));
	return runtime_check(driver.cuIpcOpenEventHandle(event, its));
}
