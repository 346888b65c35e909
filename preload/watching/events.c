/*
 * Reports the order that a program makes between its streams, so that memory
 * freed on one stream can serve a stream that is ordered after it. Each driver
 * call about an event is enclosed by calls of streams/order.h.
 */
#include "preload/preload.h"
#include "streams/delay.h"
#include "streams/order.h"

static CUstream
explicit_stream(CUstream stream, bool per_thread)
{
	if (stream != NULL)
		return stream;
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* 0: weir does not follow this record. */
static uint64_t
recording(CUevent event, CUstream stream)
{
	return gate_started() ? order_recording(event, stream) : 0;
}

/* With flags, the record or wait becomes part of a graph and happens at each
 * replay. Then it does not order the work that is queued or captured now. */
static uint64_t
waiting(CUevent event, unsigned flags)
{
	return gate_started() && flags == 0 ? order_waiting(event) : 0;
}

static void
recorded(CUevent event, CUstream stream, uint64_t tick, CUresult code)
{
	if (tick != 0)
		order_recorded(
		    event, code == CUDA_SUCCESS ? stream : NULL, tick);
	if (races_wanted() && code == CUDA_SUCCESS && stream != NULL)
		races_recorded(event, stream);
}

CUresult
cuEventRecord(CUevent event, CUstream stream)
{
	report_call(HOOK_cuEventRecord);
	uint64_t tick = recording(event, explicit_stream(stream, false));
	CUresult code = REAL(cuEventRecord)(event, stream);
	recorded(event, explicit_stream(stream, false), tick, code);
	return code;
}

CUresult
cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	report_call(HOOK_cuEventRecord_ptsz);
	uint64_t tick = recording(event, explicit_stream(stream, true));
	CUresult code = REAL(cuEventRecord_ptsz)(event, stream);
	recorded(event, explicit_stream(stream, true), tick, code);
	return code;
}

CUresult
cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
	report_call(HOOK_cuEventRecordWithFlags);
	CUstream on = flags == 0 ? explicit_stream(stream, false) : NULL;
	uint64_t tick = recording(event, on);
	CUresult code = REAL(cuEventRecordWithFlags)(event, stream, flags);
	recorded(event, on, tick, code);
	return code;
}

CUresult
cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
	report_call(HOOK_cuEventRecordWithFlags_ptsz);
	CUstream on = flags == 0 ? explicit_stream(stream, true) : NULL;
	uint64_t tick = recording(event, on);
	CUresult code = REAL(cuEventRecordWithFlags_ptsz)(event, stream, flags);
	recorded(event, on, tick, code);
	return code;
}

/* Only waits that weir follows are measured. */
static struct delay_wait
measuring(CUstream stream, CUevent event, uint64_t tick)
{
	return tick != 0 ? delay_program_begin(stream, event, tick) :
			   (struct delay_wait){ 0 };
}

static void
stream_waited(CUstream stream, CUevent event, uint64_t tick)
{
	order_waited(stream, event, tick);
	if (races_wanted())
		races_stream_waited(stream, event);
}

CUresult
cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	report_call(HOOK_cuStreamWaitEvent);
	CUstream on = explicit_stream(stream, false);
	uint64_t tick = waiting(event, flags);
	struct delay_wait wait = measuring(on, event, tick);
	CUresult code = REAL(cuStreamWaitEvent)(stream, event, flags);
	if (code == CUDA_SUCCESS)
		stream_waited(on, event, tick);
	delay_program_end(wait, event, code == CUDA_SUCCESS ? tick : 0);
	return code;
}

CUresult
cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
	report_call(HOOK_cuStreamWaitEvent_ptsz);
	CUstream on = explicit_stream(stream, true);
	uint64_t tick = waiting(event, flags);
	struct delay_wait wait = measuring(on, event, tick);
	CUresult code = REAL(cuStreamWaitEvent_ptsz)(stream, event, flags);
	if (code == CUDA_SUCCESS)
		stream_waited(on, event, tick);
	delay_program_end(wait, event, code == CUDA_SUCCESS ? tick : 0);
	return code;
}

/* Called before the driver destroys the event, because a new event may get the
 * same handle. */
static void
going(CUevent event)
{
	if (gate_started())
		order_gone(event);
	races_event_gone(event);
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
