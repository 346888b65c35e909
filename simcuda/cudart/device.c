/*
 * Devices: their number, their properties, and which can access whose memory.
 */
#include <string.h>

#include "simcuda/cudart/cudart.h"

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

cudaError_t
cudaSetDevice(int device)
{
	int count;
	cudaError_t error = cudaGetDeviceCount(&count);

	if (error != cudaSuccess)
		return error;
	if (device < 0 || device >= count)
		return runtime_error(cudaErrorInvalidDevice);
	return runtime_choose(device);
}

static int
device_attribute(CUdevice_attribute which, int device)
{
	int value = 0;

	driver.cuDeviceGetAttribute(&value, which, device);
	return value;
}

/* Properties, besides sizes, that programs which manage memory read. */
static void
fill_properties(struct cudaDeviceProp *prop, int device)
{
	prop->sharedMemPerBlock = 48 << 10;
	prop->regsPerBlock = 65536;
	prop->memPitch = 0x7fffffff;
	prop->totalConstMem = 64 << 10;
	prop->surfaceAlignment = 512;
	prop->concurrentKernels = 1;
	prop->pciBusID = device + 1;
	prop->asyncEngineCount = 2;
	prop->unifiedAddressing = 1;
	prop->maxThreadsPerMultiProcessor = 2048;
	prop->streamPrioritiesSupported = 1;
	prop->managedMemory = 1;
	prop->concurrentManagedAccess = 1;
	prop->hostRegisterSupported = 1;
	prop->memoryPoolsSupported = 1;
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
	found.major = device_attribute(
	    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	found.minor = device_attribute(
	    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	found.multiProcessorCount =
	    device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	found.texturePitchAlignment = (size_t)device_attribute(
	    CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, device);
	fill_properties(&found, device);
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

cudaError_t
cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	cudaError_t error = runtime_load();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDeviceGetByPCIBusId(device, id));
}

cudaError_t
cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t
cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t
cudaGetDeviceFlags(unsigned *flags)
{
	unsigned found = 0;
	int device, active;
	cudaError_t error = runtime_load();

	if (error == cudaSuccess)
		error = runtime_device(&device);
	if (error != cudaSuccess)
		return error;
	if (flags == NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = runtime_check(
	    driver.cuDevicePrimaryCtxGetState(device, &found, &active));
	if (error == cudaSuccess)
		*flags = found | cudaDeviceMapHost;
	return error;
}

/* All contexts map host memory: the driver has no flag for it any more. */
cudaError_t
cudaSetDeviceFlags(unsigned flags)
{
	int device;
	cudaError_t error = runtime_load();

	if (error == cudaSuccess)
		error = runtime_device(&device);
	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuDevicePrimaryCtxSetFlags(
	    device, flags & ~(unsigned)cudaDeviceMapHost));
}

cudaError_t
cudaProfilerStart(void)
{
	return cudaSuccess;
}

cudaError_t
cudaProfilerStop(void)
{
	return cudaSuccess;
}
