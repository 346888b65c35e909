/*
 * Events: marks that the host and other streams can wait for.
 *
 * An event that was never recorded counts as complete. Recording it again
 * replaces the point. The host sees a record as done when it has happened, or
 * later if a test delays it; the device always sees it in time.
 */
#include <stdlib.h>

#include "simcuda/capture.h"
#include "simcuda/shared.h"
#include "simcuda/sim.h"

static uint64_t hold_state;
static uint64_t hold_max_ns;

/* ---- life --------------------------------------------------------------- */

struct event *
event_find(CUevent handle, CUresult *why)
{
	struct event *event = handle_find(HANDLE_EVENT, handle_bits(handle));

	if (event == NULL)
		*why = CUDA_ERROR_INVALID_HANDLE;
	else if (event->context_id != event->context->id)
		*why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	else if (event->context->sticky != CUDA_SUCCESS)
		*why = event->context->sticky;
	else
		return event;
	return NULL;
}

struct event *
event_new(struct context *context, unsigned flags)
{
	struct event *event = sim_alloc(sizeof(*event));

	event->context = context;
	event->context_id = context->id;
	event->flags = flags;
	event->handle = handle_new(HANDLE_EVENT, event);
	return event;
}

/* Drop the event's mark and its point. */
static void
event_clear(struct event *event)
{
	point_drop(&event->at);
	capture_forget_event(event);
	event->recorded = false;
}

/* ---- recording and waiting ---------------------------------------------- */

static uint64_t
next_hold(struct event *event)
{
	uint64_t ns = event->hold_ns;

	event->hold_ns = 0;
	if (hold_max_ns > 0) {
		hold_state =
		    hold_state * 6364136223846793005u + 1442695040888963407u;
		ns += (hold_state >> 33) % (hold_max_ns + 1);
	}
	return ns;
}

/* The mark for the next record: the old one if nothing else refers to it. */
static struct mark *
fresh_mark(struct event *event)
{
	if (event->mark == NULL || event->mark->refs > 1 ||
	    !event->mark->known) {
		mark_drop(event->mark);
		event->mark = mark_new();
	}
	event->mark->known = false;
	event->mark->hold_ns = next_hold(event);
	return event->mark;
}

void
event_record_at(struct event *event, const struct point *at)
{
	event_clear(event);
	event->at = point_copy(at);
	event->recorded = true;
	fresh_mark(event);
}

static void
event_record_on(struct event *event, struct stream *stream)
{
	struct action action = { .kind = OP_MARK };
	struct point at;

	stream_order(stream);
	line_join_host(&stream->line);
	at = line_point(&stream->line);
	event_record_at(event, &at);
	point_drop(&at);
	if (stream->blocker != NULL) {
		action.mark = event->mark;
		event->mark->refs++;
		op_append(stream, op_new(stream, &action));
	} else {
		uint64_t end_ns = time_now();

		if (end_ns < stream->tail_ns)
			end_ns = stream->tail_ns;
		end_ns += stream->delay_ns;
		stream->delay_ns = 0;
		mark_resolve(event->mark, end_ns);
		stream->tail_ns = end_ns;
		if (stream->visible_ns < event->mark->visible_ns)
			stream->visible_ns = event->mark->visible_ns;
	}
	if (event->shared != NULL)
		shared_event_record(event);
}

static void
event_wait_on(struct event *event, struct stream *stream)
{
	if (event->shared != NULL)
		shared_event_wait(event);
	if (!event->recorded)
		return;
	stream_order(stream);
	line_join_host(&stream->line);
	line_join(&stream->line, &event->at);
	stream_wait_event(stream, event->mark, !thread_self()->waits_uncounted);
}

static bool
event_done(const struct event *event)
{
	if (event->shared != NULL && !shared_event_done(event))
		return false;
	return !event->recorded ||
	    (event->mark->known && time_reached(event->mark->visible_ns));
}

static void
wait_for_event(struct event *event)
{
	struct point at = point_copy(&event->at);

	if (event->shared != NULL)
		shared_event_wait(event);
	if (event->recorded)
		time_wait_mark(event->mark);
	host_join(&at);
	point_drop(&at);
}

/* ---- calls -------------------------------------------------------------- */

CUresult
cuEventCreate(CUevent *event, unsigned int flags)
{
	const unsigned all = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
	    CU_EVENT_INTERPROCESS;
	CUresult code = gate_enter(E_cuEventCreate);

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (event == NULL || (flags & ~all) != 0 ||
	    ((flags & CU_EVENT_INTERPROCESS) != 0 &&
		(flags & CU_EVENT_DISABLE_TIMING) == 0))
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	*event = handle_pointer(event_new(sim.here, flags)->handle);
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuEventDestroy_v2(CUevent handle)
{
	CUresult code = gate_enter(E_cuEventDestroy_v2);
	struct event *event;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	event = handle_find(HANDLE_EVENT, handle_bits(handle));
	if (event == NULL)
		return gate_leave(CUDA_ERROR_INVALID_HANDLE);
	handle_drop(HANDLE_EVENT, event->handle);
	event_clear(event);
	mark_drop(event->mark);
	if (event->shared != NULL)
		shared_event_close(event);
	free(event);
	return gate_leave(CUDA_SUCCESS);
}

static CUresult
record(CUevent handle, CUstream stream_handle, unsigned flags)
{
	CUresult code = CUDA_SUCCESS;
	struct stream *stream = stream_for_work(stream_handle, &code);
	struct event *event =
	    code == CUDA_SUCCESS ? event_find(handle, &code) : NULL;

	if (code != CUDA_SUCCESS)
		return code;
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (event->context != stream->context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture != NULL)
		return capture_record(stream, event, flags != 0);
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	event_record_on(event, stream);
	return CUDA_SUCCESS;
}

CUresult
cuEventRecord(CUevent event, CUstream stream)
{
	CUresult code = gate_enter(E_cuEventRecord);

	if (code == CUDA_SUCCESS)
		code = record(event, stream, 0);
	return gate_leave(code);
}

CUresult
cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CUresult code = gate_enter(E_cuEventRecordWithFlags);

	if (code == CUDA_SUCCESS)
		code = record(event, stream, flags);
	return gate_leave(code);
}

CUresult
cuCtxRecordEvent(CUcontext handle, CUevent event_handle)
{
	CUresult code = gate_enter(E_cuCtxRecordEvent);
	struct context *context = NULL;
	struct event *event = NULL;

	if (code == CUDA_SUCCESS)
		context = context_find(handle, &code);
	if (code == CUDA_SUCCESS)
		event = event_find(event_handle, &code);
	if (code == CUDA_SUCCESS && event->context != context)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code == CUDA_SUCCESS)
		code = capture_refuse_context(context);
	if (code == CUDA_SUCCESS)
		event_record_on(event, context_gather(context));
	return gate_leave(code);
}

CUresult
cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
	CUresult code = gate_enter(E_cuStreamWaitEvent);
	struct stream *stream = NULL;
	struct event *event = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_find(stream_handle, &code);
	if (code == CUDA_SUCCESS)
		event = event_find(handle, &code);
	if (code == CUDA_SUCCESS && flags > CU_EVENT_WAIT_EXTERNAL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (stream->capture != NULL || event->deps_capture != 0)
		return gate_leave(capture_wait(stream, event, flags != 0));
	code = capture_check_legacy(stream);
	if (code == CUDA_SUCCESS)
		event_wait_on(event, stream);
	return gate_leave(code);
}

CUresult
cuEventQuery(CUevent handle)
{
	CUresult code = gate_enter(E_cuEventQuery);
	struct event *event = NULL;

	if (code == CUDA_SUCCESS)
		event = event_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse_event(event);
	if (code == CUDA_SUCCESS)
		code = capture_unsafe();
	if (code == CUDA_SUCCESS && !event_done(event))
		code = CUDA_ERROR_NOT_READY;
	if (code == CUDA_SUCCESS)
		host_join(&event->at);
	return gate_leave(code);
}

CUresult
cuEventSynchronize(CUevent handle)
{
	CUresult code = gate_enter(E_cuEventSynchronize);
	struct event *event = NULL;

	if (code == CUDA_SUCCESS)
		event = event_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse_event(event);
	if (code == CUDA_SUCCESS)
		code = capture_unsafe();
	if (code == CUDA_SUCCESS) {
		struct context *context = event->context;

		wait_for_event(event);
		code = context->sticky;
		pool_synced();
	}
	return gate_leave(code);
}

static CUresult
elapsed_time(float *milliseconds, CUevent start_handle, CUevent end_handle)
{
	CUresult code = CUDA_SUCCESS;
	struct event *start = event_find(start_handle, &code);
	struct event *end =
	    start == NULL ? NULL : event_find(end_handle, &code);

	if (code != CUDA_SUCCESS)
		return code;
	if (milliseconds == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (start->deps_capture != 0 || end->deps_capture != 0)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (!start->recorded || !end->recorded ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 ||
	    start->context->device != end->context->device)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event_done(start) || !event_done(end))
		return CUDA_ERROR_NOT_READY;
	*milliseconds =
	    (float)((double)(int64_t)(end->mark->end_ns - start->mark->end_ns) /
		1e6);
	return CUDA_SUCCESS;
}

CUresult
cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	CUresult code = gate_enter(E_cuEventElapsedTime);

	if (code == CUDA_SUCCESS)
		code = elapsed_time(milliseconds, start, end);
	return gate_leave(code);
}

CUresult
cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	CUresult code = gate_enter(E_cuEventElapsedTime_v2);

	if (code == CUDA_SUCCESS)
		code = elapsed_time(milliseconds, start, end);
	return gate_leave(code);
}

/* ---- controls ----------------------------------------------------------- */

CUresult
simcuda_hold_event(CUevent handle, uint64_t ns)
{
	CUresult code = CUDA_SUCCESS;
	struct event *event;

	gate_lock();
	event = event_find(handle, &code);
	if (event != NULL)
		event->hold_ns = ns;
	gate_unlock();
	return code;
}

void
event_hold_all(uint64_t seed, uint64_t max_ns)
{
	hold_state = seed;
	hold_max_ns = max_ns;
}

void
simcuda_hold_events(uint64_t seed, uint64_t max_ns)
{
	gate_lock();
	event_hold_all(seed, max_ns);
	gate_unlock();
}
