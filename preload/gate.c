/*
 * Decides whether weir may serve a call, and for which device.
 *
 * The driver serves the call if weir takes no part (inside.c), and in a context
 * that is not its device's primary one.
 */
#include <stdatomic.h>

#include "driver/driver.h"
#include "preload/preload.h"
#include "streams/capture.h"

/* ---- Contexts ---------------------------------------------------------- */

/* The last context this thread asked about. */
static PRELOAD_THREAD struct {
	CUcontext context;
	unsigned ended;
	int device; /* -1 if it is no device's primary context */
} known;

/* The last stream this thread asked about. */
static PRELOAD_THREAD struct {
	CUstream stream;
	CUcontext context;
	unsigned ended;
} known_stream;

/* Find the device of the current context. *device is -1 if it is not the
 * device's primary context. False if the driver failed. An inactive primary
 * context is not activated. */
static bool
find_current_device(const struct real *real, CUcontext context, int *device)
{
	CUdevice found;
	CUcontext primary;
	unsigned flags;
	int active = 0;

	*device = -1;
	if (real->cuCtxGetDevice(&found) != CUDA_SUCCESS ||
	    contexts_settle(found) != CUDA_SUCCESS ||
	    real->cuDevicePrimaryCtxGetState(found, &flags, &active) !=
		CUDA_SUCCESS)
		return false;
	if (!active)
		return true;
	if (real->cuDevicePrimaryCtxRetain(&primary, found) != CUDA_SUCCESS)
		return false;
	real->cuDevicePrimaryCtxRelease_v2(found);
	contexts_primary(found, primary);
	if (primary == context)
		*device = found;
	return true;
}

/* find_current_device() for any context. */
static bool
find_primary(
    const struct real *real, CUcontext context, CUcontext current, int *device)
{
	CUcontext popped;
	bool found;

	if (context != current &&
	    real->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
		return false;
	found = find_current_device(real, context, device);
	if (context != current)
		real->cuCtxPopCurrent_v2(&popped);
	return found;
}

static bool
weir_serves(
    const struct real *real, CUcontext context, CUcontext current, int *device)
{
	unsigned ended = atomic_load(&gate_handles_ended);

	if (context == NULL)
		return false;
	if (known.context != context || known.ended != ended) {
		known.context = NULL;
		if (!find_primary(real, context, current, &known.device))
			return false;
		known.context = context;
		known.ended = ended;
	}
	if (known.device < 0 || !gate_start())
		return false;
	*device = known.device;
	return true;
}

/* The driver's table if weir may serve this call, and the current context; else
 * NULL. */
static const struct real *
admit(CUcontext *current)
{
	const struct real *real = gate_driver();

	if (real == NULL || real->cuCtxGetCurrent(current) != CUDA_SUCCESS)
		return NULL;
	return real;
}

bool
gate_context(int *device)
{
	CUcontext current;
	const struct real *real = admit(&current);

	return real != NULL && weir_serves(real, current, current, device);
}

/* The context of a stream that is not a default stream. */
static bool
stream_context(const struct real *real, CUstream stream, CUcontext *context)
{
	unsigned ended = atomic_load(&gate_handles_ended);

	if (known_stream.stream != stream || known_stream.ended != ended) {
		known_stream.stream = NULL;
		if (real->cuStreamGetCtx(stream, &known_stream.context) !=
		    CUDA_SUCCESS)
			return false;
		known_stream.stream = stream;
		known_stream.ended = ended;
	}
	*context = known_stream.context;
	return true;
}

bool
gate_stream(CUstream handle, bool per_thread, int *device, weir_stream *stream)
{
	weir_stream explicit = (weir_stream)handle;
	CUcontext current;
	CUcontext context;
	const struct real *real = admit(&current);

	if (real == NULL)
		return false;
	if (handle == NULL)
		explicit =
		    per_thread ? WEIR_STREAM_PER_THREAD : WEIR_STREAM_LEGACY;
	context = current;
	if (explicit != WEIR_STREAM_PER_THREAD &&
	    explicit != WEIR_STREAM_LEGACY &&
	    !stream_context(real, (CUstream) explicit, &context))
		return false;
	if (!weir_serves(real, context, current, device))
		return false;
	*stream = explicit;
	return true;
}

CUresult
gate_ask_capturing(weir_stream stream, bool *capturing)
{
	int answer = 0;
	CUresult code = capture_any() ?
	    real_driver()->cuStreamIsCapturing((CUstream)stream, &answer) :
	    CUDA_SUCCESS;

	*capturing = answer != 0;
	return code;
}

bool
gate_capturing(weir_stream stream)
{
	bool capturing;

	return gate_ask_capturing(stream, &capturing) != CUDA_SUCCESS ||
	    capturing;
}

/* ---- Results ----------------------------------------------------------- */

CUresult
gate_result(enum weir_status status)
{
	switch (status) {
	case WEIR_OK:
		return CUDA_SUCCESS;
	case WEIR_EINVAL:
		return CUDA_ERROR_INVALID_VALUE;
	case WEIR_ENOMEM:
	case WEIR_EHOSTMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case WEIR_ECONTEXT:
		return CUDA_ERROR_INVALID_CONTEXT;
	case WEIR_EFORK:
		return CUDA_ERROR_NOT_INITIALIZED;
	case WEIR_EEXIT:
		return CUDA_ERROR_DEINITIALIZED;
	case WEIR_EDRIVER:
		return driver_last_failure();
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}
