/*
 * Streams and captures that begin and end.
 *
 * weir has a heap for each stream, so it must act before the driver destroys a
 * stream. Captures are counted because an event over a whole context would
 * break every capture in it. The streams in which captures began are stored, so
 * that each end is counted once: a capture ends with its end call (even if the
 * call fails), with its stream, or with its context.
 */
#include <stdatomic.h>

#include <weir/stream.h>

#include "base/os.h"
#include "preload/ends.h"
#include "preload/tuning.h"
#include "streams/capture.h"

/* ---- Captures ---------------------------------------------------------- */

/* A stream in which a capture began. Handles are aligned; the key of a thread's
 * default stream is not, so it differs from all handles. There is no lock,
 * because these calls must work in a forked child as they would without weir.
 */
struct origin {
	_Atomic uintptr_t key; /* 0: unused */
	_Atomic(CUcontext) context;
};

static struct origin origins[STREAM_ORIGINS];

static uintptr_t
origin_key_of(CUstream stream, bool per_thread)
{
	bool own = (weir_stream)stream == WEIR_STREAM_PER_THREAD ||
	    (stream == NULL && per_thread);

	if (own)
		return ((uintptr_t)os_thread_id() << 3) | 2;
	return stream == NULL ? 1 : (uintptr_t)stream;
}

static CUcontext
stream_context_of(CUstream stream)
{
	const struct real *real = real_driver();
	CUcontext context = NULL;

	if (real != NULL && (uintptr_t)stream > 2 &&
	    real->cuStreamGetCtx(stream, &context) == CUDA_SUCCESS)
		return context;
	if (real != NULL && real->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
		return NULL;
	return context;
}

/* Count a capture before the driver begins it, so that no event is recorded in
 * between. NULL if there is no free entry; then weir stops counting captures.
 */
static struct origin *
capture_begin(CUstream stream, bool per_thread)
{
	uintptr_t key = origin_key_of(stream, per_thread);

	for (int i = 0; i < STREAM_ORIGINS; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(
			&origins[i].key, &none, key))
			continue;
		CUcontext context = stream_context_of(stream);
		atomic_store(&origins[i].context, context);
		capture_began(context);
		gate_changed();
		return &origins[i];
	}
	capture_missed();
	return NULL;
}

static void
origin_end(struct origin *origin)
{
	CUcontext context = atomic_load(&origin->context);

	if (atomic_exchange(&origin->key, 0) != 0)
		capture_ended(context);
}

static CUresult
capture_begun(struct origin *origin, CUresult code)
{
	if (code != CUDA_SUCCESS && origin != NULL)
		origin_end(origin);
	return code;
}

static void
capture_end_key(uintptr_t key)
{
	for (int i = 0; i < STREAM_ORIGINS; i++)
		if (atomic_load(&origins[i].key) == key)
			origin_end(&origins[i]);
}

void
lifetime_context_ended(CUcontext context)
{
	for (int i = 0; i < STREAM_ORIGINS; i++)
		if (atomic_load(&origins[i].key) != 0 &&
		    atomic_load(&origins[i].context) == context)
			origin_end(&origins[i]);
}

CUresult
cuStreamBeginCapture(CUstream stream)
{
	struct origin *origin = capture_begin(stream, false);

	report_call(HOOK_cuStreamBeginCapture);
	return capture_begun(origin, REAL(cuStreamBeginCapture)(stream));
}

CUresult
cuStreamBeginCapture_ptsz(CUstream stream)
{
	struct origin *origin = capture_begin(stream, true);

	report_call(HOOK_cuStreamBeginCapture_ptsz);
	return capture_begun(origin, REAL(cuStreamBeginCapture_ptsz)(stream));
}

CUresult
cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	struct origin *origin = capture_begin(stream, false);

	report_call(HOOK_cuStreamBeginCapture_v2);
	return capture_begun(
	    origin, REAL(cuStreamBeginCapture_v2)(stream, mode));
}

CUresult
cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	struct origin *origin = capture_begin(stream, true);

	report_call(HOOK_cuStreamBeginCapture_v2_ptsz);
	return capture_begun(
	    origin, REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode));
}

CUresult
cuStreamBeginCaptureToGraph(CUstream stream, void *graph,
    const void *dependencies, const void *edges, size_t count, int mode)
{
	struct origin *origin = capture_begin(stream, false);

	report_call(HOOK_cuStreamBeginCaptureToGraph);
	return capture_begun(origin,
	    REAL(cuStreamBeginCaptureToGraph)(
		stream, graph, dependencies, edges, count, mode));
}

CUresult
cuStreamBeginCaptureToGraph_ptsz(CUstream stream, void *graph,
    const void *dependencies, const void *edges, size_t count, int mode)
{
	struct origin *origin = capture_begin(stream, true);

	report_call(HOOK_cuStreamBeginCaptureToGraph_ptsz);
	return capture_begun(origin,
	    REAL(cuStreamBeginCaptureToGraph_ptsz)(
		stream, graph, dependencies, edges, count, mode));
}

/* After an end call the capture is over, unless the stream is still in a
 * capture. */
static void
capture_ends(CUstream stream, bool per_thread)
{
	const struct real *real = real_driver();
	CUstream explicit = stream;
	int capturing = 0;

	if (stream == NULL && per_thread)
		explicit = (CUstream)WEIR_STREAM_PER_THREAD;
	if (real != NULL &&
	    real->cuStreamIsCapturing(explicit, &capturing) == CUDA_SUCCESS &&
	    capturing != 0)
		return;
	capture_end_key(origin_key_of(stream, per_thread));
}

CUresult
cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult code;

	report_call(HOOK_cuStreamEndCapture);
	code = REAL(cuStreamEndCapture)(stream, graph);
	capture_ends(stream, false);
	return code;
}

CUresult
cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	CUresult code;

	report_call(HOOK_cuStreamEndCapture_ptsz);
	code = REAL(cuStreamEndCapture_ptsz)(stream, graph);
	capture_ends(stream, true);
	return code;
}

/* ---- Streams ----------------------------------------------------------- */

/* Called before the stream is created: memory that it will use must be complete
 * by then. */
CUresult
cuStreamCreate(CUstream *stream, unsigned flags)
{
	report_call(HOOK_cuStreamCreate);
	memory_other_stream();
	return REAL(cuStreamCreate)(stream, flags);
}

CUresult
cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	report_call(HOOK_cuStreamCreateWithPriority);
	memory_other_stream();
	return REAL(cuStreamCreateWithPriority)(stream, flags, priority);
}

CUresult
cuGreenCtxStreamCreate(
    CUstream *stream, void *context, unsigned flags, int priority)
{
	report_call(HOOK_cuGreenCtxStreamCreate);
	memory_other_stream();
	return REAL(cuGreenCtxStreamCreate)(stream, context, flags, priority);
}

/* weir must learn of the end even if the driver cannot name the stream's
 * context, because a new stream may get the handle. A stream that weir does not
 * know is ignored. */
static void
retire_stream(CUstream stream)
{
	races_stream_gone(stream);
	if (stream == NULL || !gate_started())
		return;
	gate_enter_weir();
	weir_stream_retire((weir_stream)stream);
	gate_leave_weir();
}

static CUresult
destroyed(CUstream stream, CUresult code)
{
	if (code == CUDA_SUCCESS)
		capture_end_key(origin_key_of(stream, false));
	gate_handles_changed();
	return code;
}

CUresult
cuStreamDestroy(CUstream stream)
{
	report_call(HOOK_cuStreamDestroy);
	retire_stream(stream);
	return destroyed(stream, REAL(cuStreamDestroy)(stream));
}

CUresult
cuStreamDestroy_v2(CUstream stream)
{
	report_call(HOOK_cuStreamDestroy_v2);
	retire_stream(stream);
	return destroyed(stream, REAL(cuStreamDestroy_v2)(stream));
}
