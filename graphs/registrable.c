/*
 * Segments of pools of WEIR_POOL_REGISTRABLE: each is one physical allocation,
 * mapped whole at addresses of its own.
 *
 * Libraries that register memory (NCCL, network cards) ask the driver for the
 * one handle of an address. Therefore a segment has one handle and is never
 * remapped. For the arena it is memory of a source, like an allocation of the
 * driver.
 */
#include "allocator/lifecycle.h"
#include "allocator/memory/arena.h"
#include "base/status.h"
#include "graphs/pool.h"

enum { REACH_MAX = 64 }; /* devices that may reach the memory */

/* ---- What a device can do ---------------------------------------------- */

static bool
device_has(CUdevice_attribute attribute, int device)
{
	int value = 0;

	return driver_peek()->cuDeviceGetAttribute(&value, attribute, device) ==
	    CUDA_SUCCESS &&
	    value != 0;
}

enum weir_status
registrable_check(int device)
{
	struct arena *main;
	enum weir_status status = arena_get(device, &main);

	if (status == WEIR_OK && !main->traits.can_map)
		return status_set(WEIR_ENOTSUP,
		    "weir_pool_create: device %d cannot map memory, which "
		    "WEIR_POOL_REGISTRABLE needs",
		    device);
	return status;
}

static CUmemAllocationProp
properties(int device)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = device },
	};

	prop.allocFlags.gpuDirectRDMACapable = device_has(
	    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
	    device);
	return prop;
}

/* Create physical memory, with a fabric handle if possible: a device may
 * support fabric handles while the system is not set up for them. */
static CUresult
create(size_t size, int device, CUmemGenericAllocationHandle *id)
{
	CUmemAllocationProp prop = properties(device);
	CUresult code = CUDA_ERROR_NOT_SUPPORTED;

	if (device_has(
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device)) {
		CUmemAllocationProp both = prop;

		both.requestedHandleTypes |= CU_MEM_HANDLE_TYPE_FABRIC;
		code = driver_peek()->cuMemCreate(id, size, &both, 0);
	}
	if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
		code = driver_peek()->cuMemCreate(id, size, &prop, 0);
	return code;
}

/* Make memory readable and writable by its device and all devices that can
 * reach it. */
static CUresult
open_to_all(CUdeviceptr addr, size_t size, int device)
{
	CUmemAccessDesc access[REACH_MAX];
	size_t n = 0;

	for (int d = 0; d < driver_peek()->device_count && n < REACH_MAX; d++) {
		int reaches = d == device;

		if (!reaches &&
		    driver_peek()->cuDeviceCanAccessPeer(&reaches, d, device) !=
			CUDA_SUCCESS)
			reaches = 0;
		if (reaches)
			access[n++] = (CUmemAccessDesc){
				.location = { CU_MEM_LOCATION_TYPE_DEVICE, d },
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			};
	}
	return driver_peek()->cuMemSetAccess(addr, size, access, n);
}

/* ---- The source -------------------------------------------------------- */

/* Round a segment's size up to the driver's granularity. */
static size_t
whole_size(int device, size_t size)
{
	struct arena *main = arena_peek(device);

	return round_up(size, main->granularity);
}

/* Map new memory. The mapping keeps the memory, so the handle is released. */
static enum weir_status
registrable_take(void *closure, int device, size_t size, CUdeviceptr *out)
{
	const struct driver *driver = driver_peek();
	CUmemGenericAllocationHandle id;
	size_t whole = whole_size(device, size);
	CUdeviceptr addr;
	CUresult code;

	(void)closure;
	code = create(whole, device, &id);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuMemCreate(%zu bytes, device %d)", whole, device);
	code = driver->cuMemAddressReserve(&addr, whole, 0, 0, 0);
	if (code != CUDA_SUCCESS)
		goto release;
	code = driver->cuMemMap(addr, whole, 0, id, 0);
	if (code != CUDA_SUCCESS)
		goto free_address;
	code = open_to_all(addr, whole, device);
	if (code != CUDA_SUCCESS)
		goto unmap;
	driver->cuMemRelease(id);
	*out = addr;
	return WEIR_OK;

unmap:
	driver->cuMemUnmap(addr, whole);
free_address:
	driver->cuMemAddressFree(addr, whole);
release:
	driver->cuMemRelease(id);
	return driver_status(
	    code, "mapping %zu bytes of device %d", whole, device);
}

/* Unmap memory. If only the addresses cannot be freed, they are lost, but no
 * memory is. */
static bool
registrable_give(void *closure, int device, CUdeviceptr addr, size_t size)
{
	size_t whole = whole_size(device, size);

	(void)closure;
	if (driver_peek()->cuMemUnmap(addr, whole) != CUDA_SUCCESS)
		return false;
	driver_peek()->cuMemAddressFree(addr, whole);
	return true;
}

const struct source source_registrable = { .name = "cuMemCreate",
	.traits = &traits_segments,
	.take = registrable_take,
	.give = registrable_give };
