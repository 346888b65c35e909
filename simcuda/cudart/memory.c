/*
 * Memory: allocation and queries. copy.c has copies and fills.
 */
#include "simcuda/cudart/cudart.h"

/* cudaMallocPitch() rounds rows for elements of this size. */
enum { PITCH_ELEMENT = 4 };

cudaError_t
cudaMalloc(void **ptr, size_t size)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (size == 0)
		return give(CUDA_SUCCESS, &found, ptr);
	return give(driver.cuMemAlloc(&found, size), &found, ptr);
}

cudaError_t
cudaFree(void *ptr)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || ptr == NULL)
		return error;
	return runtime_check(driver.cuMemFree(address(ptr)));
}

cudaError_t
cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL || pitch == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (width == 0 || height == 0) {
		*pitch = 0;
		return give(CUDA_SUCCESS, &found, ptr);
	}
	return give(
	    driver.cuMemAllocPitch(&found, pitch, width, height, PITCH_ELEMENT),
	    &found, ptr);
}

/* The slices of rows follow each other. */
cudaError_t
cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
	size_t pitch = 0;
	void *ptr = NULL;
	cudaError_t error;

	if (pitched == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (extent.height != 0 && extent.depth > SIZE_MAX / extent.height)
		return runtime_error(cudaErrorMemoryAllocation);
	error = cudaMallocPitch(
	    &ptr, &pitch, extent.width, extent.height * extent.depth);
	if (error == cudaSuccess)
		*pitched = make_cudaPitchedPtr(
		    ptr, pitch, extent.width, extent.height);
	return error;
}

cudaError_t
cudaMallocAsync(void **ptr, size_t size, cudaStream_t stream)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (size == 0)
		return give(CUDA_SUCCESS, &found, ptr);
	return give(driver.cuMemAllocAsync(&found, size, stream), &found, ptr);
}

cudaError_t
cudaMallocAsync_ptsz(void **ptr, size_t size, cudaStream_t stream)
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
	    driver.cuMemAllocAsync_ptsz(&found, size, stream), &found, ptr);
}

cudaError_t
cudaFreeAsync(void *ptr, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || ptr == NULL)
		return error;
	return runtime_check(driver.cuMemFreeAsync(address(ptr), stream));
}

cudaError_t
cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || ptr == NULL)
		return error;
	return runtime_check(driver.cuMemFreeAsync_ptsz(address(ptr), stream));
}

/* ---- Managed memory ----------------------------------------------------- */

cudaError_t
cudaMallocManaged(void **ptr, size_t size, unsigned flags)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	/* The driver refuses this. */
	if (size == 0) {
		*ptr = NULL;
		return cudaSuccess;
	}
	return give(driver.cuMemAllocManaged(&found, size, flags), &found, ptr);
}

/* The driver's first forms, which old drivers have too, take a device;
 * CU_DEVICE_CPU stands for any location on the host. */
static CUdevice
location_device(struct cudaMemLocation location)
{
	return location.type == cudaMemLocationTypeDevice ? location.id :
							    CU_DEVICE_CPU;
}

cudaError_t
cudaMemPrefetchAsync(const void *ptr, size_t size,
    struct cudaMemLocation location, unsigned flags, cudaStream_t stream)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (flags != 0 || location.type == cudaMemLocationTypeInvalid)
		return runtime_error(cudaErrorInvalidValue);
	return runtime_check(driver.cuMemPrefetchAsync(
	    address(ptr), size, location_device(location), stream));
}

cudaError_t
cudaMemAdvise(const void *ptr, size_t size, enum cudaMemoryAdvise advice,
    struct cudaMemLocation location)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemAdvise(address(ptr), size,
	    (CUmem_advise)advice, location_device(location)));
}

/* ---- Host memory ------------------------------------------------------- */

cudaError_t
cudaHostAlloc(void **ptr, size_t size, unsigned flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	if (size == 0) {
		*ptr = NULL;
		return cudaSuccess;
	}
	return runtime_check(driver.cuMemHostAlloc(ptr, size, flags));
}

cudaError_t
cudaMallocHost(void **ptr, size_t size)
{
	return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t
cudaFreeHost(void *ptr)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess || ptr == NULL)
		return error;
	return runtime_check(driver.cuMemFreeHost(ptr));
}

cudaError_t
cudaHostRegister(void *ptr, size_t size, unsigned flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemHostRegister(ptr, size, flags));
}

cudaError_t
cudaHostUnregister(void *ptr)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemHostUnregister(ptr));
}

cudaError_t
cudaHostGetDevicePointer(void **device_ptr, void *ptr, unsigned flags)
{
	CUdeviceptr found = 0;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (device_ptr == NULL)
		return runtime_error(cudaErrorInvalidValue);
	return give(driver.cuMemHostGetDevicePointer(&found, ptr, flags),
	    &found, device_ptr);
}

cudaError_t
cudaHostGetFlags(unsigned *flags, void *ptr)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemHostGetFlags(flags, ptr));
}

/* ---- Asking ------------------------------------------------------------ */

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuMemGetInfo(free_bytes, total_bytes));
}

/* A pointer that the driver does not know is ordinary host memory, and no
 * error. */
cudaError_t
cudaPointerGetAttributes(
    struct cudaPointerAttributes *attributes, const void *ptr)
{
	CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_IS_MANAGED };
	bool managed = false;
	struct cudaPointerAttributes found = { .device = -2 };
	unsigned type = 0;
	int device = -2;
	CUdeviceptr device_pointer = 0;
	void *host_pointer = NULL;
	void *data[] = { &type, &device, &device_pointer, &host_pointer,
		&managed };
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (attributes == NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = runtime_check(
	    driver.cuPointerGetAttributes(5, which, data, address(ptr)));
	if (error != cudaSuccess)
		return error;
	if (type == 0) {
		found.hostPointer = (void *)(uintptr_t)ptr;
	} else {
		found.type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost :
							  cudaMemoryTypeDevice;
		if (managed)
			found.type = cudaMemoryTypeManaged;
		found.device = device;
		found.devicePointer = (void *)(uintptr_t)device_pointer;
		found.hostPointer = host_pointer;
	}
	*attributes = found;
	return cudaSuccess;
}
