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

/*
 * The texts serve until a driver is there to give its own. Codes are written
 * as numbers because only some have a name in driver/abi.h.
 */
static const struct {
	int code;
	enum weir_status status;
	const char *text;
} codes[] = {
	{ 0, WEIR_OK, "no error" },
	{ 1, WEIR_EDRIVER, "invalid argument" },
	{ 2, WEIR_ENOMEM, "out of memory" },
	{ 3, WEIR_EEXIT, "initialization error" },
	{ 4, WEIR_EEXIT, "driver shutting down" },
	{ 34, WEIR_ENODRIVER, "stub library in place of the driver" },
	{ 46, WEIR_EDRIVER, "device busy or unavailable" },
	{ 100, WEIR_ENODEVICE, "no CUDA device found" },
	{ 101, WEIR_ENODEVICE, "invalid device" },
	{ 201, WEIR_ECONTEXT, "invalid context" },
	{ 205, WEIR_EDRIVER, "mapping failed" },
	{ 206, WEIR_EDRIVER, "unmapping failed" },
	{ 304, WEIR_EDRIVER, "call to the operating system failed" },
	{ 400, WEIR_EDRIVER, "invalid handle" },
	{ 401, WEIR_EDRIVER, "illegal state" },
	{ 500, WEIR_EDRIVER, "not found" },
	{ 600, WEIR_ENOTREADY, "not ready" },
	{ 700, WEIR_EDRIVER, "illegal memory access" },
	{ 702, WEIR_EDRIVER, "launch timed out" },
	{ 704, WEIR_EDRIVER, "peer access already enabled" },
	{ 705, WEIR_EDRIVER, "peer access not enabled" },
	{ 709, WEIR_ECONTEXT, "context is destroyed" },
	{ 712, WEIR_EDRIVER, "host memory already registered" },
	{ 713, WEIR_EDRIVER, "host memory not registered" },
	{ 719, WEIR_EDRIVER, "launch failed" },
	{ 800, WEIR_EDRIVER, "not permitted" },
	{ 801, WEIR_ENOTSUP, "not supported" },
	{ 802, WEIR_EDRIVER, "system not ready" },
	{ 803, WEIR_EDRIVER, "driver library and kernel module differ" },
	{ 804, WEIR_EDRIVER, "compatibility mode not supported here" },
	{ 900, WEIR_ECAPTURE, "not permitted during capture" },
	{ 901, WEIR_ECAPTURE, "capture invalidated" },
	{ 902, WEIR_ECAPTURE, "merge of captures" },
	{ 903, WEIR_ECAPTURE, "capture not begun on this stream" },
	{ 904, WEIR_ECAPTURE, "capture has unjoined work" },
	{ 905, WEIR_ECAPTURE, "capture crosses streams" },
	{ 906, WEIR_ECAPTURE, "capture depends on the legacy stream" },
	{ 907, WEIR_ECAPTURE, "event is of a capture" },
	{ 908, WEIR_ECAPTURE, "capture of another thread" },
	{ 999, WEIR_EDRIVER, "unknown error" },
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
		if (codes[i].code == (int)code)
			return codes[i].status;
	}
	return WEIR_EDRIVER;
}

const char *
driver_text(CUresult code)
{
	const struct driver *driver = atomic_load(&speaker);
	const char *text = NULL;

	/* In a forked child the driver is not called for anything. */
	if (driver != NULL && driver->cuGetErrorString != NULL &&
	    !os_forked() &&
	    driver->cuGetErrorString(code, &text) == CUDA_SUCCESS &&
	    text != NULL)
		return text;
	for (int i = 0; i < CODES; i++) {
		if (codes[i].code == (int)code)
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
