/*
 * Devices: how many, what they are, and who reaches whose memory.
 */
#include <string.h>

#include "driver/sim/cudart/cudart.h"

_Static_assert(sizeof(struct cudaDeviceProp) == 1008,
    "struct cudaDeviceProp has the size of CUDA 13");

cudaError_t
cudaDriverGetVersion(int *version)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDriverGetVersion(version));
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
	if (version == NULL)
		return runtime_error(cudaErrorInvalidValue);
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t
cudaGetDeviceCount(int *count)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	error = runtime_check(driver.cuDeviceGetCount(count));
	if (error == cudaSuccess && *count == 0)
		return runtime_error(cudaErrorNoDevice);
	return error;
}

cudaError_t
cudaGetDevice(int *device)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	if (device == NULL)
		return runtime_error(cudaErrorInvalidValue);
	return runtime_device(device);
}

static int
attribute(CUdevice_attribute which, int device)
{
	int value = 0;

	driver.cuDeviceGetAttribute(&value, which, device);
	return value;
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	struct cudaDeviceProp found = { .warpSize = 32,
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = { 1024, 1024, 64 },
		.maxGridSize = { 0x7fffffff, 65535, 65535 },
		.textureAlignment = 512,
		.canMapHostMemory = 1 };
	CUuuid uuid;
	CUresult code;
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	if (prop == NULL)
		return runtime_error(cudaErrorInvalidValue);
	code = driver.cuDeviceGetName(found.name, sizeof(found.name), device);
	if (code == CUDA_SUCCESS)
		code = driver.cuDeviceTotalMem(&found.totalGlobalMem, device);
	if (code == CUDA_SUCCESS)
		code = driver.cuDeviceGetUuid(&uuid, device);
	if (code != CUDA_SUCCESS)
		return runtime_check(code);
	memcpy(&found.uuid, &uuid, sizeof(uuid));
	found.major =
	    attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	found.minor =
	    attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	found.multiProcessorCount =
	    attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	found.texturePitchAlignment = (size_t)attribute(
	    CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device);
	*prop = found;
	return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceGetAttribute(
	    value, (CUdevice_attribute)which, device));
}

cudaError_t
cudaDeviceGetPCIBusId(char *id, int size, int device)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceGetPCIBusId(id, size, device));
}

cudaError_t
cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t
cudaDeviceSynchronize(void)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuCtxSynchronize());
}

cudaError_t
cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t
cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	CUcontext context;
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess)
		error = runtime_context(peer, &context);
	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuCtxEnablePeerAccess(context, flags));
}

cudaError_t
cudaDeviceDisablePeerAccess(int peer)
{
	CUcontext context;
	cudaError_t error = runtime_enter();

	if (error == cudaSuccess)
		error = runtime_context(peer, &context);
	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuCtxDisablePeerAccess(context));
}
