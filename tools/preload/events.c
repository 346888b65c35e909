/*
 * The order a program makes between its streams, told to weir: memory freed on
 * one serves another that is known to come after it. One call to order.h for
 * each of the driver's that is about an event.
 */
#include "streams/order.h"
#include "tools/preload/preload.h"

static CUstream
explicit_stream(CUstream stream, bool per_thread)
{
	if (stream != NULL)
		return stream;
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Before the driver records: what comes in between is not yet in the event. */
static void
recording(CUevent event, CUstream stream, bool per_thread)
{
	if (gate_started())
		order_recorded(event, explicit_stream(stream, per_thread));
}

static CUresult
recorded(CUevent event, CUresult code)
{
	if (code != CUDA_SUCCESS && gate_started())
		order_gone(event);
	return code;
}

CUresult
cuEventRecord(CUevent event, CUstream stream)
{
	report_call(HOOK_cuEventRecord);
	recording(event, stream, false);
	return recorded(event, REAL(cuEventRecord)(event, stream));
}

CUresult
cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	report_call(HOOK_cuEventRecord_ptsz);
	recording(event, stream, true);
	return recorded(event, REAL(cuEventRecord_ptsz)(event, stream));
}

CUresult
cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
	report_call(HOOK_cuEventRecordWithFlags);
	recording(event, stream, false);
	return recorded(
	    event, REAL(cuEventRecordWithFlags)(event, stream, flags));
}

CUresult
cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
	report_call(HOOK_cuEventRecordWithFlags_ptsz);
	recording(event, stream, true);
	return recorded(
	    event, REAL(cuEventRecordWithFlags_ptsz)(event, stream, flags));
}

static CUresult
waited(CUstream stream, bool per_thread, CUevent event, CUresult code)
{
	if (code == CUDA_SUCCESS && gate_started())
		order_waited(explicit_stream(stream, per_thread), event);
	return code;
}

CUresult
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	report_call(HOOK_cuStreamWaitEvent);
	return waited(stream, false, event,
	    REAL(cuStreamWaitEvent)(stream, event, flags));
}

CUresult
cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
	report_call(HOOK_cuStreamWaitEvent_ptsz);
	return waited(stream, true, event,
	    REAL(cuStreamWaitEvent_ptsz)(stream, event, flags));
}

/* Before the driver destroys it and may make another of the same handle. */
static void
going(CUevent event)
{
	if (gate_started())
		order_gone(event);
}

CUresult
cuEventDestroy(CUevent event)
{
	report_call(HOOK_cuEventDestroy);
	going(event);
	return REAL(cuEventDestroy)(event);
}

CUresult
cuEventDestroy_v2(CUevent event)
{
	report_call(HOOK_cuEventDestroy_v2);
	going(event);
	return REAL(cuEventDestroy_v2)(event);
}
