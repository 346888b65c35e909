/*
 * The driver as a source of segments.
 */
#include "allocator/memory/source.h"

#include "driver/driver.h"

static enum weir_status
driver_take(void *closure, int device, size_t size, CUdeviceptr *out)
{
	(void)closure;
	return driver_status(driver_peek()->cuMemAlloc(out, size),
	    "cuMemAlloc(%zu bytes, device %d)", size, device);
}

static bool
driver_give(void *closure, int device, CUdeviceptr addr, size_t size)
{
	(void)closure;
	(void)device;
	(void)size;
	return driver_peek()->cuMemFree(addr) == CUDA_SUCCESS;
}

const struct source source_driver = {
	.name = "cuMemAlloc",
	.traits = &traits_segments,
	.take = driver_take,
	.give = driver_give,
};
