/*
 * <weir/stream.h>: events. The driver's event is made at the first record,
 * because an event belongs to a context, which the stream has.
 */
#include <stdio.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"
#include "streams/stream.h"
#include "trace/observe.h"

struct weir_event {
	CUevent handle; /* NULL before the first record */
	CUcontext context;
	int device;
	unsigned flags; /* of enum weir_event_flags */
	bool reported;  /* its creation has been reported */
	bool owned;     /* an export's or an import's; see event_own() */
};

static const unsigned all_flags =
    WEIR_EVENT_TIMING | WEIR_EVENT_BLOCKING | WEIR_EVENT_INTERPROCESS;

static unsigned
driver_flags(unsigned flags)
{
	return (flags & WEIR_EVENT_TIMING ? 0 : CU_EVENT_DISABLE_TIMING) |
	    (flags & WEIR_EVENT_BLOCKING ? CU_EVENT_BLOCKING_SYNC : 0) |
	    (flags & WEIR_EVENT_INTERPROCESS ? CU_EVENT_INTERPROCESS : 0);
}

enum weir_status
weir_event_create(unsigned flags, struct weir_event **out)
{
	if (os_forked())
		return status_forked("weir_event_create");
	if (out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_event_create: out is NULL");
	if (flags & ~all_flags)
		return status_set(WEIR_EINVAL,
		    "weir_event_create: unknown flags %#x", flags & ~all_flags);
	if (flags & WEIR_EVENT_TIMING && flags & WEIR_EVENT_INTERPROCESS)
		return status_set(WEIR_EINVAL,
		    "weir_event_create: an event shared between "
		    "processes has no timing");
	struct weir_event *event = meta_zalloc(sizeof(*event));
	if (event == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "weir_event_create: no host memory");
	event->flags = flags;
	*out = event;
	return WEIR_OK;
}

void
event_own(struct weir_event *event)
{
	event->owned = true;
}

enum weir_status
event_end(struct weir_event *event)
{
	CUresult code = CUDA_SUCCESS;

	if (event == NULL)
		return WEIR_OK;
	if (os_forked()) {
		meta_free(event, sizeof(*event));
		return WEIR_OK;
	}
	if (event->handle != NULL)
		observe_event(WEIR_TRACE_EVENT_DELETION, event->device,
		    event->handle, NULL);
	order_gone(event->handle);
	if (event->handle != NULL && driver_peek() != NULL)
		code = driver_peek()->cuEventDestroy(event->handle);
	meta_free(event, sizeof(*event));
	if (code != CUDA_SUCCESS && !driver_gone(code))
		return driver_status(code, "cuEventDestroy()");
	return WEIR_OK;
}

enum weir_status
weir_event_destroy(struct weir_event *event)
{
	if (event != NULL && event->owned)
		return status_set(WEIR_EINVAL,
		    "weir_event_destroy(%p): the event belongs to an export or "
		    "an import, which destroys it",
		    (void *)event);
	return event_end(event);
}

static enum weir_status
check_event(const struct weir_event *event, const char *call)
{
	if (event == NULL)
		return status_set(WEIR_EINVAL, "%s: event is NULL", call);
	return WEIR_OK;
}

/* Make the driver's event, or check that it is of the stream's context. */
static enum weir_status
bind(struct weir_event *event, const struct stream *stream)
{
	if (event->handle == NULL) {
		unsigned flags = driver_flags(event->flags);
		CUresult code =
		    driver_peek()->cuEventCreate(&event->handle, flags);
		if (code != CUDA_SUCCESS)
			return driver_status(
			    code, "cuEventCreate(flags %#x)", flags);
		event->context = stream->context;
		event->device = stream->device;
	}
	if (event->context != stream->context)
		return status_set(WEIR_EINVAL,
		    "weir_event_record: the event belongs to device "
		    "%d and another context than stream %p of "
		    "device %d",
		    event->device, (void *)stream->handle, stream->device);
	return WEIR_OK;
}

/* Record the event in the driver, and note the record. stream_record() is not
 * used, because the user's event may be part of a capture. Another process may
 * record a shared event, so nothing is noted for it. */
static enum weir_status
record_user_event(struct weir_event *event, struct stream *stream)
{
	if (stream->handle == WEIR_STREAM_ANY)
		return stream_record(stream, event->handle);
	bool unknown = event->flags & WEIR_EVENT_INTERPROCESS;
	uint64_t tick = order_recording(event->handle, stream->handle);
	CUresult code =
	    driver_peek()->cuEventRecord(event->handle, stream->handle);
	order_recorded(event->handle,
	    unknown || code != CUDA_SUCCESS ? NULL : stream->handle, tick);
	return driver_status(
	    code, "cuEventRecord(stream %p)", (void *)stream->handle);
}

/* Call the callbacks for a record, and for the event's creation if this was its
 * first. */
static void
observe_record(struct weir_event *event, weir_stream handle, bool recorded)
{
	if (event->handle != NULL && !event->reported) {
		event->reported = true;
		observe_event(WEIR_TRACE_EVENT_CREATION, event->device,
		    event->handle, NULL);
	}
	if (recorded)
		observe_event(WEIR_TRACE_EVENT_RECORD, event->device,
		    event->handle, handle);
}

enum weir_status
weir_event_record(struct weir_event *event, weir_stream handle)
{
	if (os_forked())
		return status_forked("weir_event_record");
	struct driver_guard guard;
	struct stream *stream;
	enum weir_status status = check_event(event, "weir_event_record");
	if (status != WEIR_OK)
		return status;
	status = stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(stream->context, &guard);
	if (status != WEIR_OK)
		goto put;
	status = bind(event, stream);
	if (status != WEIR_OK)
		goto leave;
	status = record_user_event(event, stream);
leave:
	driver_leave(&guard);
	observe_record(event, handle, status == WEIR_OK);
put:
	stream_put(stream);
	return status;
}

enum weir_status
weir_event_query(struct weir_event *event)
{
	if (os_forked())
		return status_forked("weir_event_query");
	enum weir_status status = check_event(event, "weir_event_query");
	if (status != WEIR_OK || event->handle == NULL)
		return status;
	return driver_status(
	    driver_peek()->cuEventQuery(event->handle), "cuEventQuery()");
}

enum weir_status
weir_event_synchronize(struct weir_event *event)
{
	if (os_forked())
		return status_forked("weir_event_synchronize");
	enum weir_status status = check_event(event, "weir_event_synchronize");
	if (status != WEIR_OK || event->handle == NULL)
		return status;
	observe_event(WEIR_TRACE_EVENT_SYNCHRONIZATION, event->device,
	    event->handle, NULL);
	uint64_t began_ns = delay_host_begins();
	CUresult code = driver_peek()->cuEventSynchronize(event->handle);

	delay_host_waited_event(event->handle, began_ns);
	return driver_status(code, "cuEventSynchronize()");
}

enum weir_status
weir_stream_wait_event(weir_stream handle, struct weir_event *event)
{
	if (os_forked())
		return status_forked("weir_stream_wait_event");
	struct driver_guard guard;
	struct stream *stream;
	enum weir_status status = check_event(event, "weir_stream_wait_event");
	if (status != WEIR_OK)
		return status;
	if (handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "weir_stream_wait_event: "
		    "WEIR_STREAM_ANY cannot wait");
	status = stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	if (event->handle == NULL)
		goto put;
	status = driver_enter(stream->context, &guard);
	if (status != WEIR_OK)
		goto put;
	uint64_t tick = order_waiting(event->handle);
	struct delay_wait wait =
	    delay_program_begin(stream->handle, event->handle, tick);
	status = driver_status(
	    driver_peek()->cuStreamWaitEvent(stream->handle, event->handle, 0),
	    "cuStreamWaitEvent(stream %p)", (void *)handle);
	if (status == WEIR_OK)
		order_waited(stream->handle, event->handle, tick);
	stream_protect(stream);
	delay_program_end(wait, event->handle, status == WEIR_OK ? tick : 0);
	driver_leave(&guard);
	if (status == WEIR_OK)
		observe_event(WEIR_TRACE_EVENT_WAIT, stream->device,
		    event->handle, handle);
put:
	stream_put(stream);
	return status;
}

enum weir_status
weir_event_elapsed_ms(
    struct weir_event *start, struct weir_event *end, float *milliseconds)
{
	if (os_forked())
		return status_forked("weir_event_elapsed_ms");
	float value;

	if (start == NULL || end == NULL || milliseconds == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_event_elapsed_ms: %s is NULL",
		    start == NULL   ? "start" :
			end == NULL ? "end" :
				      "milliseconds");
	if (!(start->flags & end->flags & WEIR_EVENT_TIMING))
		return status_set(WEIR_EINVAL,
		    "weir_event_elapsed_ms: both "
		    "events need WEIR_EVENT_TIMING");
	if (start->handle == NULL || end->handle == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_event_elapsed_ms: %s was not recorded",
		    start->handle == NULL ? "start" : "end");
	CUresult code = driver_peek()->cuEventElapsedTime(
	    &value, start->handle, end->handle);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuEventElapsedTime()");
	*milliseconds = value;
	return WEIR_OK;
}

void *
weir_event_handle(struct weir_event *event)
{
	return event != NULL ? (void *)event->handle : NULL;
}

enum weir_status
event_adopt(
    int device, CUcontext context, CUevent handle, struct weir_event **out)
{
	enum weir_status status =
	    weir_event_create(WEIR_EVENT_INTERPROCESS, out);

	if (status == WEIR_OK) {
		(*out)->handle = handle;
		(*out)->context = context;
		(*out)->owned = true;
		(*out)->device = device;
	}
	return status;
}

CUcontext
event_context(const struct weir_event *event)
{
	return event->context;
}

int
event_device(const struct weir_event *event)
{
	return event->device;
}

unsigned
event_flags(const struct weir_event *event)
{
	return event->flags;
}

int
weir_event_format(struct weir_event *event, char *text, size_t size)
{
	return snprintf(text, size, "<weir.event %#tx>",
	    (ptrdiff_t)weir_event_handle(event));
}
