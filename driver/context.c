/*
 * Contexts: the primary context of each device, and making a context current
 * for a call.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "base/os.h"
#include "base/status.h"
#include "driver/driver.h"

/* Creating a context is a call that another thread's capture may forbid. */
static enum weir_status
retain(const struct driver *driver, int device, CUcontext *out)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdevice handle;
	CUresult code = driver->cuDeviceGet(&handle, device);

	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuDeviceGet(%d)", device);
	code = driver->cuThreadExchangeStreamCaptureMode(&mode);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuThreadExchangeStreamCaptureMode(relaxed)");
	code = driver->cuDevicePrimaryCtxRetain(out, handle);
	driver->cuThreadExchangeStreamCaptureMode(&mode);
	return driver_status(
	    code, "cuDevicePrimaryCtxRetain(device %d)", device);
}

/*
 * Takes no lock, so it may be called under any lock. If several threads call it
 * at once, each retains the context and all get the same one. The surplus
 * references do no harm, because the context is never released.
 */
enum weir_status
driver_context(int device, CUcontext *out)
{
	const struct driver *driver;
	CUcontext context = NULL;
	enum weir_status status = driver_get(&driver);

	if (status != WEIR_OK)
		return status;
	if (device < 0 || device >= driver->device_count)
		return status_set(WEIR_ENODEVICE,
		    "device %d: there are %d, numbered from 0", device,
		    driver->device_count);
	context = atomic_load_explicit(
	    &driver->contexts[device], memory_order_acquire);
	if (context == NULL) {
		status = retain(driver, device, &context);
		if (status != WEIR_OK)
			return status;
		atomic_store_explicit(
		    &driver->contexts[device], context, memory_order_release);
	}
	*out = context;
	return WEIR_OK;
}

CUcontext
driver_context_peek(int device)
{
	const struct driver *driver = driver_peek();

	if (driver == NULL || device < 0 || device >= driver->device_count)
		return NULL;
	return atomic_load_explicit(
	    &driver->contexts[device], memory_order_acquire);
}

static inline enum weir_status
push_context(
    const struct driver *driver, CUcontext context, struct driver_guard *guard)
{
	CUcontext current = NULL;
	CUresult code = driver->cuCtxGetCurrent(&current);

	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuCtxGetCurrent()");
	if (current != context) {
		code = driver->cuCtxPushCurrent(context);
		if (code != CUDA_SUCCESS)
			return driver_status(
			    code, "cuCtxPushCurrent(%p)", (void *)context);
		guard->pushed = true;
	}
	return WEIR_OK;
}

static inline enum weir_status
relax(const struct driver *driver, struct driver_guard *guard)
{
	CUcontext popped;
	CUresult code = driver->cuThreadExchangeStreamCaptureMode(&guard->mode);

	if (code == CUDA_SUCCESS)
		return WEIR_OK;
	if (guard->pushed)
		driver->cuCtxPopCurrent(&popped);
	return driver_status(
	    code, "cuThreadExchangeStreamCaptureMode(relaxed)");
}

static inline enum weir_status
enter_context(CUcontext context, bool relaxed, struct driver_guard *guard)
{
	struct driver_guard entered = { false, CU_STREAM_CAPTURE_MODE_RELAXED };
	const struct driver *driver;
	enum weir_status status = driver_get(&driver);

	if (status == WEIR_OK && context != NULL)
		status = push_context(driver, context, &entered);
	if (status == WEIR_OK && relaxed)
		status = relax(driver, &entered);
	if (status == WEIR_OK)
		*guard = entered;
	return status;
}

enum weir_status
driver_enter(CUcontext context, struct driver_guard *guard)
{
	return enter_context(context, true, guard);
}

enum weir_status
driver_enter_unrelaxed(CUcontext context, struct driver_guard *guard)
{
	return enter_context(context, false, guard);
}

/* The results are ignored: either both calls work, as driver_enter()'s did, or
 * the driver has ended and there is nothing to restore. */
void
driver_leave(const struct driver_guard *guard)
{
	const struct driver *driver = driver_peek();
	CUstreamCaptureMode mode = guard->mode;
	CUcontext context;

	if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		driver->cuThreadExchangeStreamCaptureMode(&mode);
	if (guard->pushed)
		driver->cuCtxPopCurrent(&context);
}
