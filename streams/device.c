/*
 * Devices: resolves a device's number, describes a device, reads its telemetry.
 */
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/status.h"
#include "streams/stream.h"

/* The device of this thread while no context is current. */
static _Thread_local int chosen;

static enum weir_status
current_device(int *out)
{
	const struct driver *driver = driver_peek();
	CUcontext context = NULL;
	CUdevice device;

	if (driver->device_count == 1)
		*out = 0;
	else if (driver->cuCtxGetCurrent(&context) == CUDA_SUCCESS &&
	    context != NULL && driver->cuCtxGetDevice(&device) == CUDA_SUCCESS)
		*out = device;
	else
		*out = chosen;
	return WEIR_OK;
}

enum weir_status
device_resolve(int device, int *out)
{
	const struct driver *driver;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	if (device == WEIR_DEVICE_CURRENT)
		return current_device(out);
	if (device < 0 || device >= driver->device_count)
		return status_set(WEIR_ENODEVICE,
		    "device %d: there are %d, numbered from 0", device,
		    driver->device_count);
	*out = device;
	return WEIR_OK;
}

enum weir_status
weir_device_count(int *count)
{
	if (os_forked())
		return status_forked("weir_device_count");
	const struct driver *driver;

	if (count == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_device_count: count is NULL");
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	*count = driver->device_count;
	return WEIR_OK;
}

enum weir_status
weir_get_device(int *device)
{
	if (os_forked())
		return status_forked("weir_get_device");
	if (device == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_get_device: device is NULL");
	return device_resolve(WEIR_DEVICE_CURRENT, device);
}

enum weir_status
weir_set_device(int device)
{
	if (os_forked())
		return status_forked("weir_set_device");
	CUcontext context;
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	status = driver_context(device, &context);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuCtxSetCurrent(context);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuCtxSetCurrent(device %d)", device);
	chosen = device;
	return WEIR_OK;
}

static CUresult
attribute(int device, CUdevice_attribute which, int *value)
{
	return driver_peek()->cuDeviceGetAttribute(value, which, device);
}

static void
format_uuid(const CUuuid *uuid, char *text, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(text, size,
	    "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
	    "%02x%02x%02x%02x%02x%02x",
	    b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
	    b[11], b[12], b[13], b[14], b[15]);
}

static CUresult
describe_device(int device, struct weir_device_info *info)
{
	const struct driver *driver = driver_peek();
	CUuuid uuid;
	CUresult code =
	    driver->cuDeviceGetName(info->name, sizeof(info->name), device);
	if (code == CUDA_SUCCESS)
		code = driver->cuDeviceTotalMem(&info->total_bytes, device);
	if (code == CUDA_SUCCESS)
		code = attribute(device,
		    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		    &info->capability_major);
	if (code == CUDA_SUCCESS)
		code = attribute(device,
		    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		    &info->capability_minor);
	if (code == CUDA_SUCCESS)
		code = driver->cuDeviceGetUuid(&uuid, device);
	if (code == CUDA_SUCCESS) {
		format_uuid(&uuid, info->uuid, sizeof(info->uuid));
		code = driver->cuDeviceGetPCIBusId(
		    info->pci_bus_id, sizeof(info->pci_bus_id), device);
	}
	return code;
}

enum weir_status
weir_device_info(int device, struct weir_device_info *out)
{
	if (os_forked())
		return status_forked("weir_device_info");
	struct weir_device_info info = { .struct_size = sizeof(info) };

	if (out == NULL || out->struct_size < sizeof(info))
		return status_set(WEIR_EINVAL,
		    "weir_device_info: out is NULL or its "
		    "struct_size is not set");
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	CUresult code = describe_device(device, &info);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "describing device %d", device);
	info.driver_version = driver_peek()->version;
	info.simulated = driver_peek()->simulated;
	info.struct_size = out->struct_size;
	*out = info;
	return WEIR_OK;
}

enum weir_status
weir_telemetry(int device, struct weir_telemetry *out)
{
	if (os_forked())
		return status_forked("weir_telemetry");
	char pci_bus_id[32];

	if (out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_telemetry: out is NULL or its "
		    "struct_size is not set");
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuDeviceGetPCIBusId(
	    pci_bus_id, sizeof(pci_bus_id), device);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuDeviceGetPCIBusId(device %d)", device);
	return nvml_telemetry(pci_bus_id, out);
}
