/*
 * Streams as arguments, with the device that a default stream belongs to.
 */
#include "python/native/native.h"

static struct stream *
as_stream(PyObject *object)
{
	return (struct stream *)object;
}

static bool
is_default(weir_stream stream)
{
	return stream == NULL || stream == WEIR_STREAM_LEGACY ||
	    stream == WEIR_STREAM_PER_THREAD;
}

int
visit_default_device(PyObject *object)
{
	return arg_is_stream(object) && is_default(as_stream(object)->handle) ?
	    as_stream(object)->device :
	    WEIR_DEVICE_CURRENT;
}

enum weir_status
visit_begin(struct visit *visit, weir_stream stream, int device)
{
	int current;

	visit->home = -1;
	if (!is_default(stream))
		return WEIR_OK;
	enum weir_status status = weir_get_device(&current);
	if (status != WEIR_OK || current == device)
		return status;
	status = weir_set_device(device);
	if (status == WEIR_OK)
		visit->home = current;
	return status;
}

void
visit_end(const struct visit *visit)
{
	if (visit->home >= 0)
		weir_set_device(visit->home);
}

enum weir_status
visit_record(struct weir_event *event, weir_stream stream, int device)
{
	struct visit visit;
	enum weir_status status = visit_begin(&visit, stream, device);

	if (status != WEIR_OK)
		return status;
	status = weir_event_record(event, stream);
	visit_end(&visit);
	return status;
}

enum weir_status
visit_wait(weir_stream stream, int device, struct weir_event *event)
{
	struct visit visit;
	enum weir_status status = visit_begin(&visit, stream, device);

	if (status != WEIR_OK)
		return status;
	status = weir_stream_wait_event(stream, event);
	visit_end(&visit);
	return status;
}

bool
visit_resolve_device(int *device)
{
	enum weir_status status = WEIR_OK;

	if (*device == WEIR_DEVICE_CURRENT)
		status = weir_get_device(device);
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

bool
visit_stream(PyObject *object, struct stream *out)
{
	out->device = arg_is_stream(object) ? as_stream(object)->device :
					      WEIR_DEVICE_CURRENT;
	return arg_stream(object, &out->handle) &&
	    visit_resolve_device(&out->device) &&
	    arg_stream_resolve(out->device, &out->handle);
}
