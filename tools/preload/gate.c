/*
 * The gate: whether weir may serve a call.
 *
 * weir stays out of the way (and the driver serves the call) under a memory
 * checker, which must see each allocation; in a forked child; in a context
 * that is not its device's primary one; in calls that weir itself has caused;
 * and, after one message, where weir cannot start.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os.h"
#include "driver/driver.h"
#include "streams/capture.h"
#include "tools/preload/preload.h"

PRELOAD_THREAD int gate_in_weir;

/* ---- Enabled at all ---------------------------------------------------- */

/* compute-sanitizer tells its injected library where to connect by variables
 * of this name. */
static bool
under_checker(void)
{
	static const char prefix[] = "NV_SANITIZER_INJECTION";

	for (char **e = environ; e != NULL && *e != NULL; e++)
		if (strncmp(*e, prefix, sizeof(prefix) - 1) == 0)
			return true;
	return false;
}

static bool enabled;
static bool ipc;
static enum gate_free free_mode = FREE_DEFERRED;

/* Unset and empty mean `otherwise`, "0" no, anything else yes. */
static bool
variable_set(const char *name, bool otherwise)
{
	const char *value = getenv(name);

	if (value == NULL || *value == '\0')
		return otherwise;
	return strcmp(value, "0") != 0;
}

static void
read_free_mode(void)
{
	const char *value = getenv("WEIR_PRELOAD_FREE");

	if (value == NULL || *value == '\0' || strcmp(value, "deferred") == 0)
		return;
	if (strcmp(value, "strict") == 0)
		free_mode = FREE_STRICT;
	else if (strcmp(value, "fast") == 0)
		free_mode = FREE_FAST;
	else if (enabled)
		log_write(LOG_ERROR,
		    "WEIR_PRELOAD_FREE: \"%s\" is not strict, deferred or "
		    "fast; "
		    "deferred it is",
		    value);
}

/* WEIR_DISABLE=0 asks for weir even under a checker. */
static void
read_environment(void)
{
	enabled = !variable_set("WEIR_DISABLE", under_checker());
	ipc = variable_set("WEIR_PRELOAD_IPC", false);
	read_free_mode();
}

/* Every call comes by here: once it has been read that costs a load. */
static void
need_environment(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool ready;

	if (atomic_load_explicit(&ready, memory_order_acquire))
		return;
	pthread_once(&once, read_environment);
	atomic_store_explicit(&ready, true, memory_order_release);
}

bool
gate_enabled(void)
{
	need_environment();
	return enabled;
}

bool
gate_ipc(void)
{
	need_environment();
	return ipc;
}

enum gate_free
gate_free_mode(void)
{
	need_environment();
	return free_mode;
}

/* ---- Started ----------------------------------------------------------- */

enum state { NOT_STARTED, STARTED, FAILED };

static _Atomic(enum state) state;

static atomic_bool ending;

/* The program ends, and with it the driver, which is asked about each call from
 * now on: it knows when it is over. */
static void
end(void)
{
	atomic_store(&ending, true);
	gate_changed();
}

/* The driver has been initialised by now: when the program ends, end() comes
 * before what ends the driver. */
static void
expect_end(void)
{
	atexit(end);
}

/* A program that is linked with libweir calls this library's weir, perhaps
 * before any hook: weir's own calls must not come to the hooks then. */
static __attribute__((constructor)) void
prepare(void)
{
	driver_set_finder(real_for_weir);
}

static enum state
start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool told;
	enum weir_status status;

	os_watch_fork();
	pthread_once(&once, expect_end);
	capture_announce_all();
	gate_enter_weir();
	status = weir_init();
	gate_leave_weir();
	if (status == WEIR_OK) {
		atomic_store(&state, STARTED);
		return STARTED;
	}
	if (!atomic_exchange(&told, true))
		log_write(LOG_ERROR, "%s; the program runs without weir",
		    weir_last_error());
	atomic_store(&state, FAILED);
	return FAILED;
}

/* A program that calls weir itself, as one with PyTorch's adapter does, may
 * never make a call that weir serves: then it begins here. */
bool
gate_started(void)
{
	if (gate_in_weir != 0 || os_forked())
		return false;
	enum state now = atomic_load(&state);
	if (now == NOT_STARTED && driver_peek() != NULL && gate_enabled())
		now = start();
	return now == STARTED;
}

/* Start if that has not been tried. The driver has been initialised by the
 * program, or there would be no current context. */
static bool
started_now(void)
{
	enum state now = atomic_load(&state);

	if (now == NOT_STARTED)
		now = start();
	return now == STARTED;
}

/* ---- Contexts ---------------------------------------------------------- */

/* Counts the times contexts or streams may have ended: a handle may then name
 * another. */
static atomic_uint handles_ended;
_Atomic(uint64_t) gate_changes = 1;
/* This thread's last finding about a context. */
static PRELOAD_THREAD struct {
	CUcontext context;
	unsigned ended;
	int device; /* -1 if it is not the primary context of one */
} known;

/* And about a stream. */
static PRELOAD_THREAD struct {
	CUstream stream;
	CUcontext context;
	unsigned ended;
} known_stream;

void
gate_changed(void)
{
	atomic_fetch_add(&gate_changes, 1);
}

uint64_t
gate_change(void)
{
	uint64_t change = atomic_load(&gate_changes);

	return capture_any() || atomic_load(&ending) ? 0 : change;
}

void
gate_handles_changed(void)
{
	atomic_fetch_add(&handles_ended, 1);
	gate_changed();
}

/* The device of the context that is current, in *device, or -1 if it is not its
 * device's primary one. False if the driver failed. An inactive primary context
 * is not woken. */
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

/* As find_current_device(), for any context. */
static bool
find_device(
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
serves(
    const struct real *real, CUcontext context, CUcontext current, int *device)
{
	unsigned ended = atomic_load(&handles_ended);

	if (context == NULL)
		return false;
	if (known.context != context || known.ended != ended) {
		known.context = NULL;
		if (!find_device(real, context, current, &known.device))
			return false;
		known.context = context;
		known.ended = ended;
	}
	if (known.device < 0 || !started_now())
		return false;
	*device = known.device;
	return true;
}

bool
gate_admits(void)
{
	return gate_in_weir == 0 && gate_enabled() && !os_forked() &&
	    atomic_load(&state) != FAILED && real_driver() != NULL;
}

/* The driver, if this call may be weir's; and the current context. */
static const struct real *
admit(CUcontext *current)
{
	const struct real *real;

	if (gate_in_weir != 0 || !gate_enabled() || os_forked() ||
	    atomic_load(&state) == FAILED)
		return NULL;
	real = real_driver();
	if (real == NULL || real->cuCtxGetCurrent(current) != CUDA_SUCCESS)
		return NULL;
	return real;
}

bool
gate_context(int *device)
{
	CUcontext current;
	const struct real *real = admit(&current);

	return real != NULL && serves(real, current, current, device);
}

/* The context of a stream that is not a default one. */
static bool
stream_context(const struct real *real, CUstream stream, CUcontext *context)
{
	unsigned ended = atomic_load(&handles_ended);

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
	if (!serves(real, context, current, device))
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
