/*
 * Decides whether weir may serve a call.
 *
 * The driver serves the call under a memory checker, which must see each
 * allocation; in a forked child; in a context that is not its device's primary
 * one; if weir itself has caused the call; and, after one message, if weir
 * cannot start.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/allocator.h"
#include "base/log.h"
#include "base/os.h"
#include "driver/driver.h"
#include "streams/capture.h"
#include "tools/preload/preload.h"

PRELOAD_THREAD int gate_in_weir;

/* ---- Enabled at all ---------------------------------------------------- */

/* compute-sanitizer passes the connection to its injected library in variables
 * with this prefix. */
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

/* Unset and empty mean `otherwise`, "0" means no, any other value yes. */
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
		    "deferred is used",
		    value);
}

/* WEIR_DISABLE=0 enables weir even under a checker. */
static void
read_gate_settings(void)
{
	enabled = !variable_set("WEIR_DISABLE", under_checker());
	ipc = variable_set("WEIR_PRELOAD_IPC", false);
	read_free_mode();
}

/* On the path of every call: one load once the environment has been read. */
static void
need_environment(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static atomic_bool ready;

	if (atomic_load_explicit(&ready, memory_order_acquire))
		return;
	pthread_once(&once, read_gate_settings);
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

/* The program is ending, and with it the driver. From now on the driver is
 * asked at each call, because it knows when it has ended. */
static void
end_program(void)
{
	atomic_store(&ending, true);
	gate_changed();
}

/* The driver is initialised already. So end_program() runs before the driver's
 * own exit handlers. */
static void
expect_end(void)
{
	atexit(end_program);
}

/* A program that is linked with libweir uses this library's weir, perhaps
 * before any hook is called. So this constructor makes weir's own calls bypass
 * the hooks. */
static __attribute__((constructor)) void
prepare(void)
{
	driver_set_finder(real_for_weir);
	allocator_keep_apart();
}

static enum state
start_weir(void)
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

/* A program that calls weir directly, as with PyTorch's adapter, may never make
 * a call that weir serves. Then the preload starts here. */
bool
gate_started(void)
{
	if (gate_in_weir != 0 || os_forked())
		return false;
	enum state now = atomic_load(&state);
	if (now == NOT_STARTED && driver_peek() != NULL && gate_enabled())
		now = start_weir();
	return now == STARTED;
}

/* Start weir if that has not been tried. The program has initialised the
 * driver, or there would be no current context. */
static bool
started_now(void)
{
	enum state now = atomic_load(&state);

	if (now == NOT_STARTED)
		now = start_weir();
	return now == STARTED;
}

/* ---- Contexts ---------------------------------------------------------- */

/* Counts how often contexts or streams may have ended, so that a handle may
 * name another one. */
static atomic_uint handles_ended;
_Atomic(uint64_t) gate_changes = 1;
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
	unsigned ended = atomic_load(&handles_ended);

	if (context == NULL)
		return false;
	if (known.context != context || known.ended != ended) {
		known.context = NULL;
		if (!find_primary(real, context, current, &known.device))
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

/* The driver's table if weir may serve this call, and the current context; else
 * NULL. */
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

	return real != NULL && weir_serves(real, current, current, device);
}

/* The context of a stream that is not a default stream. */
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
