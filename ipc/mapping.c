/*
 * Memory of another process at addresses of this one. A range is reserved for
 * all of it, the pieces are mapped one after the other, and then the device
 * gets access. The driver never maps more of a piece than there is.
 */
#include "allocator/memory/handle.h"
#include "base/status.h"
#include "ipc/ipc.h"

enum weir_status
ipc_driver_status(CUresult code, const char *call)
{
	if (code == CUDA_ERROR_INVALID_VALUE ||
	    code == CUDA_ERROR_INVALID_HANDLE ||
	    code == CUDA_ERROR_INVALID_CONTEXT ||
	    code == CUDA_ERROR_INVALID_RESOURCE_TYPE)
		return status_set(WEIR_EINVAL,
		    "%s: the driver takes nothing like what another process "
		    "gave: %s (%d)",
		    call, driver_text(code), (int)code);
	return driver_status(code, "%s", call);
}

enum weir_status
mapping_begin(struct ipc_mapping *mapping, size_t whole)
{
	CUresult code =
	    driver_peek()->cuMemAddressReserve(&mapping->addr, whole, 0, 0, 0);

	if (code == CUDA_SUCCESS)
		mapping->whole = whole;
	return driver_status(code, "cuMemAddressReserve(%zu bytes)", whole);
}

enum weir_status
mapping_add(struct ipc_mapping *mapping, const void *shareable,
    CUmemAllocationHandleType type, size_t size)
{
	const struct driver *driver = driver_peek();
	CUmemGenericAllocationHandle id;
	CUresult code;

	if (size > mapping->whole - mapping->mapped)
		return status_set(WEIR_EINVAL,
		    "there are more than the %zu bytes that were spoken of",
		    mapping->whole);
	code = driver->cuMemImportFromShareableHandle(
	    &id, (void *)shareable, type);
	if (code != CUDA_SUCCESS)
		return ipc_driver_status(
		    code, "cuMemImportFromShareableHandle()");
	code =
	    driver->cuMemMap(mapping->addr + mapping->mapped, size, 0, id, 0);
	handle_drop_hold(id);
	if (code == CUDA_SUCCESS)
		mapping->mapped += size;
	return driver_status(
	    code, "cuMemMap(%zu bytes of another process)", size);
}

enum weir_status
mapping_open(struct ipc_mapping *mapping, int device)
{
	if (mapping->mapped != mapping->whole)
		return status_set(WEIR_EINVAL,
		    "there are %zu bytes, and %zu were spoken of",
		    mapping->mapped, mapping->whole);
	return handles_open(device, mapping->addr, mapping->whole);
}

void
mapping_drop(struct ipc_mapping *mapping)
{
	if (mapping->mapped > 0)
		addresses_drop_mapping(mapping->addr, mapping->mapped);
	if (mapping->whole > 0)
		addresses_drop(mapping->addr, mapping->whole);
	*mapping = (struct ipc_mapping){ 0 };
}
