/*
 * The waits of a program, observed for a report.
 *
 * Note [A free as a barrier]
 *
 * The driver's cuMemFree() waits for the device, and a program may rely on
 * that, knowingly or not: it has the device copy results to the host, frees
 * something, and reads the results. Under weir the free does not wait.
 *
 * Reads by the host cannot be seen. But a program that reads copied results
 * first waits for the copy, and there are few ways to do that: it waits for the
 * context, a stream or an event, queries one of them, has the device call a
 * host function, or makes a copy that itself waits. A free is suspicious if a
 * thread queues a copy to pinned memory, then frees memory by cuMemFree(), then
 * queues its next copy to the host or ends the program, and no thread has
 * waited in any of these ways in between. Then either nobody has read the
 * copied results, or the reader relied on the free. Each such free is reported
 * once.
 *
 * A wait of any thread for anything counts, so a report is rarely wrong, and
 * some faults are not reported. Results that kernels write to the host without
 * a copy are not seen.
 */
#include <stdatomic.h>

#include <weir/trace.h>

#include "preload/preload.h"
#include "streams/capture.h"
#include "streams/delay.h"
#include "trace/history.h"

static _Atomic uint64_t barriers;
static _Atomic uint64_t waits; /* of all threads */

/* The state of this thread's latest copy to the host. */
static PRELOAD_THREAD struct {
	enum { NONE, QUEUED, FREED_AFTER } stage;
	uint64_t waits; /* the count when the copy was queued */
} latest;

/* When this thread's present wait began: delay_host_begins(). */
static PRELOAD_THREAD uint64_t wait_began_ns;

void
watch_wait(void)
{
	if (report_wanted())
		atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed);
}

static bool
nobody_waited(void)
{
	return latest.waits ==
	    atomic_load_explicit(&waits, memory_order_relaxed);
}

void
watch_free(void)
{
	if (latest.stage == QUEUED && nobody_waited() && !capture_any())
		latest.stage = FREED_AFTER;
}

uint64_t
watch_barriers(void)
{
	return atomic_load(&barriers) +
	    (latest.stage == FREED_AFTER && nobody_waited());
}

static void
queued(void)
{
	if (latest.stage == FREED_AFTER && nobody_waited())
		atomic_fetch_add(&barriers, 1);
	latest.stage = QUEUED;
	latest.waits = atomic_load_explicit(&waits, memory_order_relaxed);
}

/* ---- Regions ----------------------------------------------------------- */

static void
annotate_wait(enum hook_id id, enum weir_stage stage)
{
	CUdevice device;

	if (!history_is_kept() || !gate_started() ||
	    real_driver()->cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return;
	gate_enter_weir();
	weir_annotate(hooks[id].base, stage, device);
	gate_leave_weir();
}

void
watch_begin(enum hook_id id)
{
	report_call(id);
	annotate_wait(id, WEIR_STAGE_START);
	wait_began_ns = delay_host_begins();
}

void
watch_end(enum hook_id id)
{
	annotate_wait(id, WEIR_STAGE_END);
}

/* Take the beginning of this thread's wait. 0: the call was no wait, or cost no
 * time. */
static uint64_t
take_began(void)
{
	uint64_t began_ns = wait_began_ns;

	wait_began_ns = 0;
	return began_ns;
}

static void
lose_time(CUstream stream, bool per_thread, uint64_t began_ns)
{
	if (began_ns == 0)
		return;
	if (stream == NULL)
		stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	delay_host_waited(stream, began_ns);
}

void
watch_lose_time(void)
{
	delay_host_waited_all(take_began());
}

static CUresult
waited_with(CUresult code)
{
	if (code == CUDA_SUCCESS)
		watch_wait();
	return code;
}

/* Record a copy by a call that waits for it. */
static CUresult
ended(enum hook_id id, CUresult code)
{
	watch_end(id);
	return waited_with(code);
}

/* ---- Known to be over -------------------------------------------------- */

/* The host knows that a stream is done; that an event is met. */
static CUresult
over(CUstream stream, bool per_thread, CUresult code)
{
	lose_time(stream, per_thread, take_began());
	if (code == CUDA_SUCCESS && races_wanted())
		races_waited(stream, per_thread);
	return code;
}

static CUresult
met(CUevent event, CUresult code)
{
	delay_host_waited_event(event, take_began());
	if (code == CUDA_SUCCESS && races_wanted())
		races_event_waited(event);
	return code;
}

/* A copy was queued. If the call returns after the copy, it has waited for the
 * stream. */
static CUresult
used(CUdeviceptr to, CUdeviceptr from, CUstream stream, bool per_thread,
    CUresult code)
{
	const CUdeviceptr both[] = { to, from };

	if (code == CUDA_SUCCESS && races_wanted())
		races_work(stream, per_thread, "a copy", both, 2, 2);
	return code;
}

/* A copy of two or three dimensions, on a default stream. */
static CUresult
copied(bool per_thread, enum hook_id id, CUresult code)
{
	lose_time(NULL, per_thread, take_began());
	return ended(id, code);
}

/* ---- Copies ------------------------------------------------------------ */

enum memory_kind { PAGEABLE, PINNED, OF_DEVICE };

static enum memory_kind
kind_of(CUdeviceptr ptr)
{
	enum { HOST = 1 };
	unsigned type = 0;

	if (REAL(cuPointerGetAttribute)(
		&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr) != CUDA_SUCCESS)
		return PAGEABLE;
	return type == HOST ? PINNED : OF_DEVICE;
}

/* A copy to pageable memory is done when the call returns. */
static CUresult
copy_is_queued(CUdeviceptr to, CUstream stream, bool per_thread, CUresult code)
{
	uint64_t began_ns = take_began();

	if (code != CUDA_SUCCESS || capture_any() ||
	    (!report_wanted() && began_ns == 0))
		return code;
	switch (kind_of(to)) {
	case PAGEABLE:
		watch_wait();
		lose_time(stream, per_thread, began_ns);
		break;
	case PINNED:
		queued();
		break;
	case OF_DEVICE:
		break;
	}
	return code;
}

static CUdeviceptr
address_of(const void *host)
{
	return (CUdeviceptr)(uintptr_t)host;
}

CUresult
cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	report_call(HOOK_cuMemcpyDtoHAsync_v2);
	wait_began_ns = delay_host_begins();
	return used(0, from, stream, false,
	    copy_is_queued(address_of(to), stream, false,
		HELD(REAL(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream))));
}

CUresult
cuMemcpyDtoHAsync_v2_ptsz(
    void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	report_call(HOOK_cuMemcpyDtoHAsync_v2_ptsz);
	wait_began_ns = delay_host_begins();
	return used(0, from, stream, true,
	    copy_is_queued(address_of(to), stream, true,
		HELD(
		    REAL(cuMemcpyDtoHAsync_v2_ptsz)(to, from, bytes, stream))));
}

CUresult
cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	report_call(HOOK_cuMemcpyAsync);
	wait_began_ns = delay_host_begins();
	return used(to, from, stream, false,
	    copy_is_queued(to, stream, false,
		HELD(REAL(cuMemcpyAsync)(to, from, bytes, stream))));
}

CUresult
cuMemcpyAsync_ptsz(
    CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	report_call(HOOK_cuMemcpyAsync_ptsz);
	wait_began_ns = delay_host_begins();
	return used(to, from, stream, true,
	    copy_is_queued(to, stream, true,
		HELD(REAL(cuMemcpyAsync_ptsz)(to, from, bytes, stream))));
}

CUresult
cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	watch_begin(HOOK_cuMemcpyDtoH_v2);
	return over(NULL, false,
	    used(0, from, NULL, false,
		ended(HOOK_cuMemcpyDtoH_v2,
		    HELD(REAL(cuMemcpyDtoH_v2)(to, from, bytes)))));
}

CUresult
cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes)
{
	watch_begin(HOOK_cuMemcpyDtoH_v2_ptds);
	return over(NULL, true,
	    used(0, from, NULL, true,
		ended(HOOK_cuMemcpyDtoH_v2_ptds,
		    HELD(REAL(cuMemcpyDtoH_v2_ptds)(to, from, bytes)))));
}

CUresult
cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	watch_begin(HOOK_cuMemcpy);
	return over(NULL, false,
	    used(to, from, NULL, false,
		ended(HOOK_cuMemcpy, HELD(REAL(cuMemcpy)(to, from, bytes)))));
}

CUresult
cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	watch_begin(HOOK_cuMemcpy_ptds);
	return over(NULL, true,
	    used(to, from, NULL, true,
		ended(HOOK_cuMemcpy_ptds,
		    HELD(REAL(cuMemcpy_ptds)(to, from, bytes)))));
}

CUresult
cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
	watch_begin(HOOK_cuMemcpy2D_v2);
	return copied(
	    false, HOOK_cuMemcpy2D_v2, HELD(REAL(cuMemcpy2D_v2)(copy)));
}

CUresult
cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	watch_begin(HOOK_cuMemcpy2D_v2_ptds);
	return copied(true, HOOK_cuMemcpy2D_v2_ptds,
	    HELD(REAL(cuMemcpy2D_v2_ptds)(copy)));
}

CUresult
cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
	watch_begin(HOOK_cuMemcpy2DUnaligned_v2);
	return ended(HOOK_cuMemcpy2DUnaligned_v2,
	    HELD(REAL(cuMemcpy2DUnaligned_v2)(copy)));
}

CUresult
cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy)
{
	watch_begin(HOOK_cuMemcpy2DUnaligned_v2_ptds);
	return copied(true, HOOK_cuMemcpy2DUnaligned_v2_ptds,
	    HELD(REAL(cuMemcpy2DUnaligned_v2_ptds)(copy)));
}

CUresult
cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
	watch_begin(HOOK_cuMemcpy3D_v2);
	return copied(
	    false, HOOK_cuMemcpy3D_v2, HELD(REAL(cuMemcpy3D_v2)(copy)));
}

CUresult
cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy)
{
	watch_begin(HOOK_cuMemcpy3D_v2_ptds);
	return copied(true, HOOK_cuMemcpy3D_v2_ptds,
	    HELD(REAL(cuMemcpy3D_v2_ptds)(copy)));
}

/* ---- Waits ------------------------------------------------------------- */

CUresult
cuStreamSynchronize(CUstream stream)
{
	watch_begin(HOOK_cuStreamSynchronize);
	return over(stream, false,
	    ended(HOOK_cuStreamSynchronize, REAL(cuStreamSynchronize)(stream)));
}

CUresult
cuStreamSynchronize_ptsz(CUstream stream)
{
	watch_begin(HOOK_cuStreamSynchronize_ptsz);
	return over(stream, true,
	    ended(HOOK_cuStreamSynchronize_ptsz,
		REAL(cuStreamSynchronize_ptsz)(stream)));
}

CUresult
cuStreamQuery(CUstream stream)
{
	report_call(HOOK_cuStreamQuery);
	return over(stream, false, waited_with(REAL(cuStreamQuery)(stream)));
}

CUresult
cuStreamQuery_ptsz(CUstream stream)
{
	report_call(HOOK_cuStreamQuery_ptsz);
	return over(
	    stream, true, waited_with(REAL(cuStreamQuery_ptsz)(stream)));
}

CUresult
cuStreamAddCallback(
    CUstream stream, CUstreamCallback callback, void *data, unsigned flags)
{
	report_call(HOOK_cuStreamAddCallback);
	return waited_with(
	    REAL(cuStreamAddCallback)(stream, callback, data, flags));
}

CUresult
cuStreamAddCallback_ptsz(
    CUstream stream, CUstreamCallback callback, void *data, unsigned flags)
{
	report_call(HOOK_cuStreamAddCallback_ptsz);
	return waited_with(
	    REAL(cuStreamAddCallback_ptsz)(stream, callback, data, flags));
}

CUresult
cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	report_call(HOOK_cuLaunchHostFunc);
	return waited_with(REAL(cuLaunchHostFunc)(stream, function, data));
}

CUresult
cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data)
{
	report_call(HOOK_cuLaunchHostFunc_ptsz);
	return waited_with(REAL(cuLaunchHostFunc_ptsz)(stream, function, data));
}

CUresult
cuEventSynchronize(CUevent event)
{
	watch_begin(HOOK_cuEventSynchronize);
	return met(event,
	    ended(HOOK_cuEventSynchronize, REAL(cuEventSynchronize)(event)));
}

CUresult
cuEventQuery(CUevent event)
{
	report_call(HOOK_cuEventQuery);
	return met(event, waited_with(REAL(cuEventQuery)(event)));
}
