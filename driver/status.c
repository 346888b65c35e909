/*
 * The driver's result codes: the status and the text of each.
 *
 * driver_map() is the one place where codes are mapped. All codes that it does
 * not name become WEIR_EDRIVER. CUDA_ERROR_INVALID_VALUE does so too, because
 * the arguments of a failed driver call are weir's and not the caller's.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "base/os.h"
#include "base/status.h"
#include "driver/private.h"
#include "driver/tuning.h"

static const struct driver *_Atomic speaker;

/* This thread's latest code that became WEIR_EDRIVER only. */
static _Thread_local CUresult last_failure = CUDA_ERROR_UNKNOWN;

void
driver_text_from(const struct driver *driver)
{
	atomic_store(&speaker, driver);
}

enum weir_status
driver_map(CUresult code)
{
	switch ((int)code) {
	case CUDA_SUCCESS:
		return WEIR_OK;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return WEIR_ENOMEM;
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
		return os_forked() ? WEIR_EFORK : WEIR_EEXIT;
	case CUDA_ERROR_STUB_LIBRARY:
		return WEIR_ENODRIVER;
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
		return WEIR_ENODEVICE;
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return WEIR_ECONTEXT;
	case CUDA_ERROR_NOT_READY:
		return WEIR_ENOTREADY;
	case CUDA_ERROR_NOT_SUPPORTED:
		return WEIR_ENOTSUP;
	case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
	case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
	case CUDA_ERROR_STREAM_CAPTURE_MERGE:
	case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
	case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
	case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
	case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
	case CUDA_ERROR_CAPTURED_EVENT:
	case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
		return WEIR_ECAPTURE;
	default:
		return WEIR_EDRIVER;
	}
}

/* The text of a code when there is no driver to ask. */
static const char *
own_text(CUresult code)
{
	static const struct {
		CUresult code;
		const char *text;
	} texts[] = {
#define RESULT_TEXT(name, value, text) { name, text },
		DRIVER_RESULTS(RESULT_TEXT)
#undef RESULT_TEXT
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].code == code)
			return texts[i].text;
	}
	return "unknown error";
}

const char *
driver_text(CUresult code)
{
	const struct driver *driver = atomic_load(&speaker);
	const char *text = NULL;

	/* The driver is not called in a forked child, or after it has ended. */
	if (driver != NULL && !os_forked() && !driver_gone(code) &&
	    driver->cuGetErrorString(code, &text) == CUDA_SUCCESS &&
	    text != NULL)
		return text;
	return own_text(code);
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
	char call[CALL_SHOWN];
	va_list args;

	if (code == CUDA_SUCCESS)
		return WEIR_OK;
	va_start(args, format);
	vsnprintf(call, sizeof(call), format, args);
	va_end(args);
	if (driver_map(code) == WEIR_EDRIVER)
		last_failure = code;
	return status_set(driver_map(code), "%s: %s (%d)", call,
	    driver_text(code), (int)code);
}

CUresult
driver_last_failure(void)
{
	return last_failure;
}

enum weir_status
weir_check_driver(int code)
{
	return driver_status((CUresult)code, "CUDA driver");
}
