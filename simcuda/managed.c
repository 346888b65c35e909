/*
 * Prefetch and advice for managed memory, and the limits of a context.
 *
 * The host and every device can access managed memory where it is, so prefetch
 * and advice move nothing. Their arguments are checked, and they are queued on
 * the stream.
 */
#include "simcuda/capture.h"
#include "simcuda/sim.h"

/* Check the device, or the host, that a location names. */
static CUresult
check_managed_location(const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location->id >= 0 && location->id < sim.n_devices ?
		    CUDA_SUCCESS :
		    CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Check that each byte is managed memory. */
static CUresult
check_managed(uint64_t address, size_t size)
{
	uint64_t end = address + size;

	if (size == 0 || end < address)
		return CUDA_ERROR_INVALID_VALUE;
	while (address < end) {
		struct range *range = memory_find(address);

		if (range == NULL || range->kind != RANGE_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		address = range->start + range->size;
	}
	return CUDA_SUCCESS;
}

static CUresult
prefetch(CUdeviceptr address, size_t size, const CUmemLocation *location,
    CUstream handle)
{
	CUresult code = check_managed(address, size);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		code = check_managed_location(location);
	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS && stream->capture != NULL)
		code = capture_refuse(stream);
	return code;
}

static CUresult
advise(CUdeviceptr address, size_t size, CUmem_advise advice,
    const CUmemLocation *location)
{
	CUresult code = check_managed(address, size);

	if (code == CUDA_SUCCESS &&
	    (advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
		advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
		code = CUDA_ERROR_INVALID_VALUE;
	/* Read-mostly memory is read-mostly for all devices. */
	if (code == CUDA_SUCCESS && advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
	    advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
	    advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
		code = check_managed_location(location);
	return code;
}

/* The first forms name a device; device -1 is the host. */
static CUmemLocation
location_of(CUdevice device)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, device };

	if (device == CU_DEVICE_CPU)
		location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST, 0 };
	return location;
}

CUresult
cuMemPrefetchAsync(
    CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
	CUmemLocation location = location_of(device);
	CUresult code = gate_enter(E_cuMemPrefetchAsync);

	if (code == CUDA_SUCCESS)
		code = prefetch(address, size, &location, stream);
	return gate_leave(code);
}

CUresult
cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location,
    unsigned int flags, CUstream stream)
{
	CUresult code = gate_enter(E_cuMemPrefetchAsync_v2);

	if (code == CUDA_SUCCESS && flags != 0)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = prefetch(address, size, &location, stream);
	return gate_leave(code);
}

CUresult
cuMemAdvise(
    CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device)
{
	CUmemLocation location = location_of(device);
	CUresult code = gate_enter(E_cuMemAdvise);

	if (code == CUDA_SUCCESS)
		code = advise(address, size, advice, &location);
	return gate_leave(code);
}

CUresult
cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice,
    CUmemLocation location)
{
	CUresult code = gate_enter(E_cuMemAdvise_v2);

	if (code == CUDA_SUCCESS)
		code = advise(address, size, advice, &location);
	return gate_leave(code);
}

/* ---- limits ------------------------------------------------------------- */

static const size_t default_limits[SIM_LIMITS] = {
	[CU_LIMIT_STACK_SIZE] = 1024,
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
	[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
	[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0,
};

enum { LIMITS_KNOWN = 10 }; /* to CUDA 13.0 */

/* A number that the driver does not know is an invalid value; a limit that it
 * knows and this device does not have is not supported. */
static CUresult
limit_check(CUlimit limit)
{
	if ((unsigned)limit >= LIMITS_KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	return (unsigned)limit >= SIM_LIMITS ? CUDA_ERROR_UNSUPPORTED_LIMIT :
					       CUDA_SUCCESS;
}

CUresult
cuCtxGetLimit(size_t *value, CUlimit limit)
{
	CUresult code = gate_enter(E_cuCtxGetLimit);

	if (code == CUDA_SUCCESS && value == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = limit_check(limit);
	if (code == CUDA_SUCCESS)
		*value = sim.here->limits_set & 1u << limit ?
		    sim.here->limits[limit] :
		    default_limits[limit];
	return gate_leave(code);
}

CUresult
cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUresult code = gate_enter(E_cuCtxSetLimit);

	if (code == CUDA_SUCCESS)
		code = limit_check(limit);
	if (code == CUDA_SUCCESS) {
		sim.here->limits[limit] = value;
		sim.here->limits_set |= 1u << limit;
	}
	return gate_leave(code);
}

/* ---- modules ------------------------------------------------------------ */

CUresult
cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult code = gate_enter(E_cuModuleGetLoadingMode);

	if (code == CUDA_SUCCESS && mode == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*mode = CU_MODULE_EAGER_LOADING;
	return gate_leave(code);
}
