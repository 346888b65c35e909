/*
 * The contexts that exist, and what happens when one ends.
 *
 * weir serves the primary context of each device. Work of any other context may
 * also use memory of cuMemAlloc(). If the work belongs to another device's
 * primary context, weir records a stream use. If it belongs to a context that
 * the program has created and given access, weir waits for it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <weir/stream.h>

#include "base/log.h"
#include "preload/preload.h"
#include "preload/tuning.h"
#include "streams/capture.h"

/* ---- Which there are --------------------------------------------------- */

/* The existing primary contexts, by device. */
static _Atomic(CUcontext) primaries[PRELOAD_DEVICES];
static atomic_int n_primaries;

/* A context created by the program that may use memory of `device`. */
struct guest {
	_Atomic(CUcontext) context; /* NULL: unused */
	atomic_int device;
};

static void
ignore_device(int device)
{
	(void)device;
}

static void
ignore_context(CUcontext context)
{
	(void)context;
}

/* The linker takes the table of ends.c instead. */
__attribute__((weak)) const struct contexts_calls contexts_calls = {
	.primary_began = ignore_device,
	.context_ended = ignore_context,
	.memory_gone = ignore_device,
	.device_ended = ignore_device,
};

static struct guest guests[CONTEXT_GUESTS];
static atomic_int n_guests;

void
contexts_primary(int device, CUcontext context)
{
	if (device < 0 || device >= PRELOAD_DEVICES)
		return;
	if (atomic_exchange(&primaries[device], context) != NULL)
		return;
	atomic_fetch_add(&n_primaries, 1);
	contexts_calls.primary_began(device);
}

CUcontext
contexts_primary_of(int device)
{
	return atomic_load(&primaries[device]);
}

static void
forget_primary(int device)
{
	if (device >= 0 && device < PRELOAD_DEVICES &&
	    atomic_exchange(&primaries[device], NULL) != NULL)
		atomic_fetch_sub(&n_primaries, 1);
}

int
contexts_device_of(CUcontext context)
{
	if (context == NULL)
		return -1;
	for (int i = 0; i < PRELOAD_DEVICES; i++)
		if (atomic_load(&primaries[i]) == context)
			return i;
	return -1;
}

static void
add_guest(CUcontext context, int device)
{
	for (int i = 0; i < CONTEXT_GUESTS; i++) {
		CUcontext none = NULL;

		if (!atomic_compare_exchange_strong(
			&guests[i].context, &none, context))
			continue;
		atomic_store(&guests[i].device, device);
		atomic_fetch_add(&n_guests, 1);
		return;
	}
	log_write(LOG_ERROR,
	    "more than %d contexts with access to others' memory: use "
	    "WEIR_DISABLE=1",
	    CONTEXT_GUESTS);
}

static void
forget_guest(CUcontext context)
{
	for (int i = 0; i < CONTEXT_GUESTS; i++) {
		CUcontext its = context;

		if (atomic_compare_exchange_strong(
			&guests[i].context, &its, NULL))
			atomic_fetch_sub(&n_guests, 1);
	}
}

/* The new context may get the address of the last one. So weir must know,
 * before it is made, whether the last one has ended. */
CUresult
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult code;

	report_call(HOOK_cuDevicePrimaryCtxRetain);
	code = contexts_settle(device);
	if (code != CUDA_SUCCESS)
		return code;
	code = REAL(cuDevicePrimaryCtxRetain)(context, device);
	if (code == CUDA_SUCCESS && gate_admits())
		contexts_primary(device, *context);
	return code;
}

void
contexts_enabled(CUcontext peer)
{
	CUcontext current;

	if (gate_admits() &&
	    real_driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	    contexts_device_of(peer) >= 0 && contexts_device_of(current) < 0)
		add_guest(current, contexts_device_of(peer));
}

/* ---- Their work -------------------------------------------------------- */

bool
contexts_several(void)
{
	return atomic_load_explicit(&n_primaries, memory_order_relaxed) > 1 ||
	    atomic_load_explicit(&n_guests, memory_order_relaxed) > 0;
}

/* True if all of them were waited for. */
static bool
wait_for_guests(const struct real *real, int device)
{
	bool done = true;
	CUcontext popped;

	for (int i = 0; i < CONTEXT_GUESTS && atomic_load(&n_guests) > 0; i++) {
		CUcontext context = atomic_load(&guests[i].context);

		if (context == NULL || atomic_load(&guests[i].device) != device)
			continue;
		if (capture_any() ||
		    real->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) {
			done = false;
			continue;
		}
		if (real->cuCtxSynchronize() != CUDA_SUCCESS)
			done = false;
		real->cuCtxPopCurrent_v2(&popped);
	}
	return done;
}

void
contexts_use(CUdeviceptr ptr, int device)
{
	const struct real *real = real_driver();
	CUcontext popped;

	for (int i = 0; i < PRELOAD_DEVICES; i++) {
		CUcontext context = atomic_load(&primaries[i]);

		if (i == device || context == NULL ||
		    real->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
			continue;
		/* There is no host memory to record the use, so wait for the
		 * work. */
		if (weir_record_stream(
			(void *)(uintptr_t)ptr, WEIR_STREAM_ANY) != WEIR_OK &&
		    !capture_any())
			real->cuCtxSynchronize();
		real->cuCtxPopCurrent_v2(&popped);
	}
	wait_for_guests(real, device);
}

bool
contexts_wait(int device)
{
	/* Waiting is not allowed in a capture. */
	if (capture_any())
		return false;
	bool done = weir_device_synchronize(device) == WEIR_OK;
	for (int i = 0; i < PRELOAD_DEVICES; i++)
		if (i != device && atomic_load(&primaries[i]) != NULL &&
		    weir_device_synchronize(i) != WEIR_OK)
			done = false;
	return wait_for_guests(real_driver(), device) && done;
}

/* ---- Their end --------------------------------------------------------- */

static CUresult
context_destroyed(CUcontext context, CUresult code)
{
	if (code == CUDA_SUCCESS) {
		contexts_calls.context_ended(context);
		forget_guest(context);
		gate_handles_changed();
	}
	return code;
}

CUresult
cuCtxDestroy(CUcontext context)
{
	report_call(HOOK_cuCtxDestroy);
	return context_destroyed(context, REAL(cuCtxDestroy)(context));
}

CUresult
cuCtxDestroy_v2(CUcontext context)
{
	report_call(HOOK_cuCtxDestroy_v2);
	return context_destroyed(context, REAL(cuCtxDestroy_v2)(context));
}

CUresult
cuGreenCtxDestroy(void *context)
{
	CUresult code;

	report_call(HOOK_cuGreenCtxDestroy);
	code = REAL(cuGreenCtxDestroy)(context);
	gate_handles_changed();
	return code;
}

static CUresult
ask_active(CUdevice device, bool *active)
{
	const struct real *real = real_driver();
	unsigned flags;
	int answer = 0;
	CUresult code = real == NULL ?
	    CUDA_SUCCESS :
	    real->cuDevicePrimaryCtxGetState(device, &flags, &answer);

	*active = answer != 0;
	return code;
}

/* Is the primary context of a device active? If the driver fails to say, the
 * answer is yes. */
static bool
primary_is_active(CUdevice device)
{
	bool active;

	return ask_active(device, &active) != CUDA_SUCCESS || active;
}

/* The primary context of a device if it is active, else NULL. A known context
 * is returned without asking the driver, because the driver might fail and weir
 * would miss the context's end. */
static CUcontext
primary_of(CUdevice device)
{
	const struct real *real = real_driver();
	CUcontext context = NULL;

	if (device >= 0 && device < PRELOAD_DEVICES)
		context = contexts_primary_of(device);
	if (context != NULL || !primary_is_active(device) ||
	    real->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
		return context;
	real->cuDevicePrimaryCtxRelease_v2(device);
	return context;
}

/*
 * Primary contexts that may have ended when they were released, by device. If
 * the driver fails to say whether one has ended, weir can neither forget its
 * memory, which may exist, nor allocate it, because it may be gone. So the
 * driver is asked again before the device is next used.
 */
static _Atomic(CUcontext) doubtful[PRELOAD_DEVICES];

/* A primary context has ended, and with it all its memory, including weir's. */
static void
primary_ended(CUdevice device, CUcontext context)
{
	contexts_calls.context_ended(context);
	forget_primary(device);
	if (device >= 0 && device < PRELOAD_DEVICES)
		atomic_store(&doubtful[device], NULL);
	contexts_calls.memory_gone(device);
	gate_handles_changed();
	if (!gate_started())
		return;
	gate_enter_weir();
	contexts_calls.device_ended(device);
	gate_leave_weir();
}

static CUresult
settle_primary(CUdevice device, CUcontext context)
{
	bool active;
	CUresult code = ask_active(device, &active);

	if (code != CUDA_SUCCESS)
		atomic_store(&doubtful[device], context);
	else if (!active)
		primary_ended(device, context);
	return code;
}

CUresult
contexts_settle(CUdevice device)
{
	CUcontext context = NULL;

	if (device >= 0 && device < PRELOAD_DEVICES &&
	    atomic_load(&doubtful[device]) != NULL)
		context = atomic_exchange(&doubtful[device], NULL);
	return context != NULL ? settle_primary(device, context) : CUDA_SUCCESS;
}

static CUresult
primary_was_reset(CUdevice device, CUcontext before, CUresult code)
{
	if (code == CUDA_SUCCESS && before != NULL)
		primary_ended(device, before);
	return code;
}

CUresult
cuDevicePrimaryCtxReset(CUdevice device)
{
	CUcontext before = primary_of(device);

	report_call(HOOK_cuDevicePrimaryCtxReset);
	return primary_was_reset(
	    device, before, REAL(cuDevicePrimaryCtxReset)(device));
}

CUresult
cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUcontext before = primary_of(device);

	report_call(HOOK_cuDevicePrimaryCtxReset_v2);
	return primary_was_reset(
	    device, before, REAL(cuDevicePrimaryCtxReset_v2)(device));
}

/* The last release ends the context, because weir holds no reference that would
 * keep it (see for_weir.c). */
static CUresult
primary_released(CUdevice device, CUcontext before, CUresult code)
{
	if (code != CUDA_SUCCESS || before == NULL || device < 0 ||
	    device >= PRELOAD_DEVICES)
		return code;
	if (settle_primary(device, before) != CUDA_SUCCESS)
		gate_handles_changed();
	return code;
}

CUresult
cuDevicePrimaryCtxRelease(CUdevice device)
{
	CUcontext before = primary_of(device);

	report_call(HOOK_cuDevicePrimaryCtxRelease);
	return primary_released(
	    device, before, REAL(cuDevicePrimaryCtxRelease)(device));
}

CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUcontext before = primary_of(device);

	report_call(HOOK_cuDevicePrimaryCtxRelease_v2);
	return primary_released(
	    device, before, REAL(cuDevicePrimaryCtxRelease_v2)(device));
}
