/*
 * The driver's result codes: what status each maps to, and its text.
 *
 * The table is the one place where codes are mapped. A code that is not in it
 * is WEIR_EDRIVER; so is CUDA_ERROR_INVALID_VALUE, because the arguments of a
 * failed driver call are ours and not the caller's.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "base/os.h"
#include "base/status.h"
#include "driver/private.h"

/* The texts serve where there is no driver to give its own. */
static const struct {
	CUresult code;
	enum weir_status status;
	const char *text;
} codes[] = {
	{ CUDA_SUCCESS, WEIR_OK, "no error" },
	{ CUDA_ERROR_INVALID_VALUE, WEIR_EDRIVER, "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, WEIR_ENOMEM, "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, WEIR_EEXIT, "initialization error" },
	{ CUDA_ERROR_DEINITIALIZED, WEIR_EEXIT, "driver shutting down" },
	{ CUDA_ERROR_STUB_LIBRARY, WEIR_ENODRIVER,
	    "stub library in place of the driver" },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, WEIR_EDRIVER,
	    "device busy or unavailable" },
	{ CUDA_ERROR_NO_DEVICE, WEIR_ENODEVICE, "no CUDA device found" },
	{ CUDA_ERROR_INVALID_DEVICE, WEIR_ENODEVICE, "invalid device" },
	{ CUDA_ERROR_INVALID_CONTEXT, WEIR_ECONTEXT, "invalid context" },
	{ CUDA_ERROR_MAP_FAILED, WEIR_EDRIVER, "mapping failed" },
	{ CUDA_ERROR_UNMAP_FAILED, WEIR_EDRIVER, "unmapping failed" },
	{ CUDA_ERROR_OPERATING_SYSTEM, WEIR_EDRIVER,
	    "call to the operating system failed" },
	{ CUDA_ERROR_INVALID_HANDLE, WEIR_EDRIVER, "invalid handle" },
	{ CUDA_ERROR_ILLEGAL_STATE, WEIR_EDRIVER, "illegal state" },
	{ CUDA_ERROR_NOT_FOUND, WEIR_EDRIVER, "not found" },
	{ CUDA_ERROR_NOT_READY, WEIR_ENOTREADY, "not ready" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, WEIR_EDRIVER, "illegal memory access" },
	{ CUDA_ERROR_LAUNCH_TIMEOUT, WEIR_EDRIVER, "launch timed out" },
	{ CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, WEIR_EDRIVER,
	    "peer access already enabled" },
	{ CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, WEIR_EDRIVER,
	    "peer access not enabled" },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, WEIR_ECONTEXT,
	    "context is destroyed" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, WEIR_EDRIVER,
	    "host memory already registered" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, WEIR_EDRIVER,
	    "host memory not registered" },
	{ CUDA_ERROR_LAUNCH_FAILED, WEIR_EDRIVER, "launch failed" },
	{ CUDA_ERROR_NOT_PERMITTED, WEIR_EDRIVER, "not permitted" },
	{ CUDA_ERROR_NOT_SUPPORTED, WEIR_ENOTSUP, "not supported" },
	{ CUDA_ERROR_SYSTEM_NOT_READY, WEIR_EDRIVER, "system not ready" },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, WEIR_EDRIVER,
	    "driver library and kernel module differ" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, WEIR_ECAPTURE,
	    "not permitted during capture" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, WEIR_ECAPTURE,
	    "capture invalidated" },
	{ CUDA_ERROR_STREAM_CAPTURE_MERGE, WEIR_ECAPTURE, "merge of captures" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, WEIR_ECAPTURE,
	    "capture not begun on this stream" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNJOINED, WEIR_ECAPTURE,
	    "capture has unjoined work" },
	{ CUDA_ERROR_STREAM_CAPTURE_ISOLATION, WEIR_ECAPTURE,
	    "capture crosses streams" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, WEIR_ECAPTURE,
	    "capture depends on the legacy stream" },
	{ CUDA_ERROR_CAPTURED_EVENT, WEIR_ECAPTURE, "event is of a capture" },
	{ CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, WEIR_ECAPTURE,
	    "capture of another thread" },
	{ CUDA_ERROR_UNKNOWN, WEIR_EDRIVER, "unknown error" },
};

enum { CODES = sizeof(codes) / sizeof(codes[0]) };

static const struct driver *_Atomic speaker;

void
driver_text_from(const struct driver *driver)
{
	atomic_store(&speaker, driver);
}

enum weir_status
driver_map(CUresult code)
{
	if (driver_gone(code))
		return os_forked() ? WEIR_EFORK : WEIR_EEXIT;
	for (int i = 0; i < CODES; i++) {
		if (codes[i].code == code)
			return codes[i].status;
	}
	return WEIR_EDRIVER;
}

const char *
driver_text(CUresult code)
{
	const struct driver *driver = atomic_load(&speaker);
	const char *text = NULL;

	/* In a forked child, or once the driver is gone, it is not called. */
	if (driver != NULL && driver->cuGetErrorString != NULL &&
	    !os_forked() && !driver_gone(code) &&
	    driver->cuGetErrorString(code, &text) == CUDA_SUCCESS &&
	    text != NULL)
		return text;
	for (int i = 0; i < CODES; i++) {
		if (codes[i].code == code)
			return codes[i].text;
	}
	return "unknown error";
}

bool
driver_gone(CUresult code)
{
	return code == CUDA_ERROR_NOT_INITIALIZED ||
	    code == CUDA_ERROR_DEINITIALIZED;
}

enum weir_status
driver_status(CUresult code, const char *format, ...)
{
	char call[STATUS_TEXT_SIZE / 2];
	va_list args;

	if (code == CUDA_SUCCESS)
		return WEIR_OK;
	va_start(args, format);
	vsnprintf(call, sizeof(call), format, args);
	va_end(args);
	return status_set(driver_map(code), "%s: %s (%d)", call,
	    driver_text(code), (int)code);
}

enum weir_status
weir_check_driver(int code)
{
	return driver_status((CUresult)code, "CUDA driver");
}
