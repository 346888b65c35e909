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
#include "allocator/memory/handle.h"
#include "base/status.h"
#include "graphs/pool.h"

enum { REACH_MAX = 64 }; /* devices that may reach the memory */

/* ---- What a device can do ---------------------------------------------- */

/* A driver may be too old to know the attribute. */
static enum weir_status
device_has(CUdevice_attribute attribute, int device, bool *out)
{
	int value = 0;
	CUresult code =
	    driver_peek()->cuDeviceGetAttribute(&value, attribute, device);

	*out = code == CUDA_SUCCESS && value != 0;
	if (code == CUDA_ERROR_INVALID_VALUE)
		return WEIR_OK;
	return driver_status(code, "cuDeviceGetAttribute(%d, device %d)",
	    (int)attribute, device);
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

static enum weir_status
get_properties(int device, CUmemAllocationProp *out)
{
	bool has_rdma;

	*out = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = device },
	};

	enum weir_status status = device_has(
	    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device,
	    &has_rdma);
	out->allocFlags.gpuDirectRDMACapable = has_rdma;
	return status;
}

/* Create physical memory, with a fabric handle if possible: a device may
 * support fabric handles while the system is not set up for them. */
static enum weir_status
create_registrable(size_t size, int device, CUmemGenericAllocationHandle *id)
{
	CUmemAllocationProp prop;
	CUresult code = CUDA_ERROR_NOT_SUPPORTED;
	bool has_fabric;
	enum weir_status status = get_properties(device, &prop);

	if (status == WEIR_OK)
		status =
		    device_has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
			device, &has_fabric);
	if (status != WEIR_OK)
		return status;
	if (has_fabric) {
		CUmemAllocationProp both = prop;

		both.requestedHandleTypes |= CU_MEM_HANDLE_TYPE_FABRIC;
		code = driver_peek()->cuMemCreate(id, size, &both, 0);
	}
	if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
		code = driver_peek()->cuMemCreate(id, size, &prop, 0);
	return driver_status(
	    code, "cuMemCreate(%zu bytes, device %d)", size, device);
}

/* Make memory readable and writable by its device and all devices that can
 * reach it. */
static enum weir_status
open_to_all(CUdeviceptr addr, size_t size, int device)
{
	CUmemAccessDesc access[REACH_MAX];
	CUresult code = CUDA_SUCCESS;
	size_t n = 0;

	for (int d = 0; d < driver_peek()->device_count && n < REACH_MAX; d++) {
		int reaches = d == device;

		if (!reaches)
			code = driver_peek()->cuDeviceCanAccessPeer(
			    &reaches, d, device);
		if (code != CUDA_SUCCESS)
			return driver_status(
			    code, "cuDeviceCanAccessPeer(%d, %d)", d, device);
		if (reaches)
			access[n++] = (CUmemAccessDesc){
				.location = { CU_MEM_LOCATION_TYPE_DEVICE, d },
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			};
	}
	return driver_status(
	    driver_peek()->cuMemSetAccess(addr, size, access, n),
	    "cuMemSetAccess(%#llx, %zu bytes, device %d)",
	    (unsigned long long)addr, size, device);
}

/* ---- The source -------------------------------------------------------- */

/* Round a segment's size up to the driver's granularity. */
static size_t
whole_size(int device, size_t size)
{
	struct arena *main = arena_peek(device);

	return round_up(size, main->memory.granularity);
}

/* Map new memory. The mapping keeps the memory, so the handle is released. */
static enum weir_status
registrable_take(void *closure, int device, size_t size, CUdeviceptr *out)
{
	const struct driver *driver = driver_peek();
	CUmemGenericAllocationHandle id;
	size_t whole = whole_size(device, size);
	CUdeviceptr addr;
	enum weir_status status;

	(void)closure;
	status = create_registrable(whole, device, &id);
	if (status != WEIR_OK)
		return status;
	status =
	    driver_status(driver->cuMemAddressReserve(&addr, whole, 0, 0, 0),
		"cuMemAddressReserve(%zu bytes)", whole);
	if (status != WEIR_OK)
		goto release;
	status = driver_status(driver->cuMemMap(addr, whole, 0, id, 0),
	    "cuMemMap(%#llx, %zu bytes)", (unsigned long long)addr, whole);
	if (status != WEIR_OK)
		goto free_address;
	status = open_to_all(addr, whole, device);
	if (status != WEIR_OK)
		goto unmap;
	handle_drop_hold(id);
	*out = addr;
	return WEIR_OK;

unmap:
	addresses_drop_mapping(addr, whole);
free_address:
	addresses_drop(addr, whole);
release:
	handle_drop_hold(id);
	return status;
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
	addresses_drop(addr, whole);
	return true;
}

const struct source source_registrable = { .name = "cuMemCreate",
	.traits = &traits_segments,
	.take = registrable_take,
	.give = registrable_give };
