/*
 * Devices. Programs see them as H200s: 132 processors, compute capability 9.0,
 * all devices peers of each other.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simcuda/joint.h"
#include "simcuda/sim.h"

static const char device_name[] = "simcuda";

bool
device_init(struct device *device, int ordinal)
{
	char name[64];

	snprintf(name, sizeof(name), "simcuda-device-%d", ordinal);
	device->ordinal = ordinal;
	device->limit_bytes = ordinal == SPACE_MACHINE ?
	    machine_bytes() :
	    (size_t)conf.memory_mb << 20;
	device->fd = memfd_create(name, MFD_CLOEXEC);
	return device->fd >= 0;
}

/* Locked pages need physical memory, so there cannot be more than the machine
 * has. */
size_t
machine_bytes(void)
{
	return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

struct device *
device_find(CUdevice device)
{
	if (device < 0 || device >= sim.n_devices)
		return NULL;
	return &sim.devices[device];
}

CUresult
cuDeviceGetCount(int *count)
{
	CUresult code = gate_enter(E_cuDeviceGetCount);

	if (code == CUDA_SUCCESS && count == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*count = sim.n_devices;
	return gate_leave(code);
}

CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult code = gate_enter(E_cuDeviceGet);

	if (code == CUDA_SUCCESS && device == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && device_find(ordinal) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS)
		*device = ordinal;
	return gate_leave(code);
}

/* Copy a text into a caller's buffer, cut to its size. */
static CUresult
copy_device_text(char *out, int size, const char *text)
{
	if (out == NULL || size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(out, (size_t)size, "%s", text);
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetName(char *name, int size, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceGetName);

	if (code == CUDA_SUCCESS && device_find(device) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS)
		code = copy_device_text(name, size, device_name);
	return gate_leave(code);
}

CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceTotalMem_v2);

	if (code == CUDA_SUCCESS && bytes == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && device_find(device) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS)
		*bytes = device_find(device)->limit_bytes;
	return gate_leave(code);
}

static const struct {
	CUdevice_attribute attribute;
	int value;
} attributes[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
	{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
	{ CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132 },
	{ CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0 },
	{ CU_DEVICE_ATTRIBUTE_INTEGRATED, 0 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0 },
	{ CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144 },
	{ CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560 },
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
	{ CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
	{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448 },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32 },
	{ CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1 },
	{ CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0 },
};

/* The range of attribute numbers in this version; unused ones have the value 0.
 */
enum { ATTRIBUTE_FIRST = 1, ATTRIBUTE_LAST = 147 };

static CUresult
get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	if (value == NULL || (int)attribute < ATTRIBUTE_FIRST ||
	    (int)attribute > ATTRIBUTE_LAST)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_find(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = device + 1;
	if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)
		*value = conf.fabric > 0;
	if (attribute ==
		CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ||
	    attribute ==
		CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
		*value = has_host_handles();
	if (attribute ==
	    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
		*value = (int)conf.rdma;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]);
	     i++) {
		if (attributes[i].attribute == attribute)
			*value = attributes[i].value;
	}
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceGetAttribute);

	if (code == CUDA_SUCCESS)
		code = get_attribute(value, attribute, device);
	return gate_leave(code);
}

CUresult
cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceComputeCapability);

	if (code == CUDA_SUCCESS)
		code = get_attribute(major,
		    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	if (code == CUDA_SUCCESS)
		code = get_attribute(minor,
		    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	return gate_leave(code);
}

/* "simcuda" and the ordinal; the simulated NVML returns the same bytes. */
static CUresult
get_uuid(CUuuid *uuid, CUdevice device)
{
	if (uuid == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_find(device) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid->bytes, device_name, sizeof(device_name) - 1);
	uuid->bytes[sizeof(uuid->bytes) - 1] = (char)device;
	return CUDA_SUCCESS;
}

CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceGetUuid);

	if (code == CUDA_SUCCESS)
		code = get_uuid(uuid, device);
	return gate_leave(code);
}

CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceGetUuid_v2);

	if (code == CUDA_SUCCESS)
		code = get_uuid(uuid, device);
	return gate_leave(code);
}

CUresult
cuDeviceCanAccessPeer(int *can_access, CUdevice device, CUdevice peer)
{
	CUresult code = gate_enter(E_cuDeviceCanAccessPeer);

	if (code == CUDA_SUCCESS && can_access == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS &&
	    (device_find(device) == NULL || device_find(peer) == NULL))
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS)
		*can_access = device != peer;
	return gate_leave(code);
}

CUresult
cuDeviceGetPCIBusId(char *bus_id, int size, CUdevice device)
{
	CUresult code = gate_enter(E_cuDeviceGetPCIBusId);
	char text[32];

	if (code == CUDA_SUCCESS && device_find(device) == NULL)
		code = CUDA_ERROR_INVALID_DEVICE;
	if (code == CUDA_SUCCESS) {
		snprintf(text, sizeof(text), "0000:%02x:00.0", device + 1);
		code = copy_device_text(bus_id, size, text);
	}
	return gate_leave(code);
}

CUresult
cuDeviceGetByPCIBusId(CUdevice *device, const char *bus_id)
{
	CUresult code = gate_enter(E_cuDeviceGetByPCIBusId);
	unsigned domain, bus, slot;

	if (code == CUDA_SUCCESS && (device == NULL || bus_id == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
		domain = 0;
		if (sscanf(bus_id, "%x:%x", &bus, &slot) != 2)
			return gate_leave(CUDA_ERROR_INVALID_VALUE);
	}
	if (domain != 0 || slot != 0 || device_find((int)bus - 1) == NULL)
		return gate_leave(CUDA_ERROR_INVALID_DEVICE);
	*device = (int)bus - 1;
	return gate_leave(CUDA_SUCCESS);
}

/* ---- controls ----------------------------------------------------------- */

size_t
simcuda_memory_used(int device)
{
	size_t bytes = 0;

	gate_lock();
	if (device_find(device) != NULL)
		bytes = device_find(device)->used_bytes;
	gate_unlock();
	return bytes;
}

size_t
simcuda_memory_used_by_all(int device)
{
	size_t bytes = 0;

	gate_lock();
	if (device_find(device) != NULL)
		bytes = joint_used(device, device_find(device)->used_bytes);
	gate_unlock();
	return bytes;
}

CUresult
simcuda_set_memory(int device, size_t bytes)
{
	CUresult code = CUDA_ERROR_INVALID_DEVICE;

	gate_lock();
	if (device_find(device) != NULL) {
		device_find(device)->limit_bytes = bytes;
		code = CUDA_SUCCESS;
	}
	gate_unlock();
	return code;
}

bool
has_host_handles(void)
{
	return conf.host_handles != 0 && conf.version >= 12020;
}
