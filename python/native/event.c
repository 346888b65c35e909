/*
 * weir.Event: a point in the work of a stream.
 */
#include "python/native/native.h"

static PyObject *event_type;

bool
event_is(PyObject *object)
{
	return Py_TYPE(object) == (PyTypeObject *)event_type;
}

struct weir_event *
event_of(PyObject *object)
{
	if (event_is(object))
		return ((struct event *)object)->event;
	PyErr_Format(PyExc_TypeError, "event is a weir.Event, not %R", object);
	return NULL;
}

static struct weir_event *
self_event(PyObject *object)
{
	return ((struct event *)object)->event;
}

static PyObject *
event_make(unsigned flags)
{
	struct event *event = native_new(event_type);

	if (event == NULL)
		return NULL;
	enum weir_status status = weir_event_create(flags, &event->event);
	if (status == WEIR_OK)
		return (PyObject *)event;
	Py_DecRef((PyObject *)event);
	return error_raise(status);
}

static PyObject *
event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "timing", "blocking", "interprocess", NULL };
	int timing = 0;
	int blocking = 0;
	int interprocess = 0;

	(void)type;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ppp:Event", names,
		&timing, &blocking, &interprocess))
		return NULL;
	return event_make((timing ? WEIR_EVENT_TIMING : 0) |
	    (blocking ? WEIR_EVENT_BLOCKING : 0) |
	    (interprocess ? WEIR_EVENT_INTERPROCESS : 0));
}

/* The owner of another process's event is notified, which may take a while. */
static void
close_import(struct weir_ipc_import *import)
{
	NATIVE_RELEASE_GIL;
	weir_ipc_close(import, WEIR_STREAM_ANY);
	NATIVE_TAKE_GIL;
}

static void
event_dealloc(PyObject *object)
{
	struct event *event = (struct event *)object;
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (event->import != NULL)
		close_import(event->import);
	else if (event->shared != NULL)
		weir_ipc_release(event->shared);
	else
		weir_event_destroy(event->event);
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

PyObject *
event_wrap(struct weir_ipc_import *import, struct weir_event *event)
{
	struct event *object = native_new(event_type);

	if (object == NULL) {
		close_import(import);
		return NULL;
	}
	object->event = event;
	object->import = import;
	return (PyObject *)object;
}

enum weir_status
event_share(PyObject *object, struct weir_ipc_export **out)
{
	struct event *event = (struct event *)object;
	struct weir_ipc_export *shared = event->shared;
	enum weir_status status = WEIR_OK;

	if (shared == NULL) {
		NATIVE_RELEASE_GIL;
		status = weir_ipc_export_event(event->event, &shared);
		NATIVE_TAKE_GIL;
	}
	/* Another thread may have been faster while the GIL was released. */
	if (event->shared == NULL && status != WEIR_OK)
		return status;
	if (event->shared == NULL)
		event->shared = shared;
	*out = event->shared;
	return WEIR_OK;
}

PyObject *
event_recorded(weir_stream stream, int device)
{
	PyObject *event = event_make(WEIR_EVENT_DEFAULT);
	enum weir_status status;

	if (event == NULL)
		return NULL;
	NATIVE_RELEASE_GIL;
	status = visit_record(self_event(event), stream, device);
	NATIVE_TAKE_GIL;
	if (status == WEIR_OK)
		return event;
	Py_DecRef(event);
	return error_raise(status);
}

PyDoc_STRVAR(record_doc,
    "record($self, stream=None)\n--\n\n"
    "Mark this point of a stream; None is the current one. A second record\n"
    "replaces the first. Raises InvalidArgumentError if the event was first\n"
    "recorded on another device.");

static PyObject *
event_record(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	PyObject *named = Py_None;
	struct stream stream;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O:record", names, &named) ||
	    !visit_stream(named, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = visit_record(self_event(self), stream.handle, stream.device);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(wait_doc,
    "wait($self, stream=None)\n--\n\n"
    "Make work queued on a stream after this call wait for the event. The "
    "host\n"
    "does not wait.");

static PyObject *
event_wait(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	PyObject *named = Py_None;
	struct stream stream;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O:wait", names, &named) ||
	    !visit_stream(named, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = visit_wait(stream.handle, stream.device, self_event(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(query_doc,
    "query($self)\n--\n\n"
    "Is the marked work done? True also if nothing was recorded.");

static PyObject *
event_query(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_event_query(self_event(self));
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK && status != WEIR_ENOTREADY)
		return error_raise(status);
	return PyBool_FromLong(status == WEIR_OK);
}

PyDoc_STRVAR(synchronize_doc,
    "synchronize($self)\n--\n\n"
    "Wait for the marked work; returns at once if nothing was recorded. The\n"
    "GIL is released meanwhile.");

static PyObject *
event_synchronize(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_event_synchronize(self_event(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(elapsed_doc,
    "elapsed_ms($self, end)\n--\n\n"
    "Milliseconds from this event to another; both have timing=True. Raises\n"
    "NotReadyError if either is not done, InvalidArgumentError if either has "
    "no\n"
    "timing or was not recorded.");

static PyObject *
event_elapsed(PyObject *self, PyObject *arg)
{
	struct weir_event *end = event_of(arg);
	float milliseconds = 0;
	enum weir_status status;

	if (end == NULL)
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_event_elapsed_ms(self_event(self), end, &milliseconds);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	return PyFloat_FromDouble((double)milliseconds);
}

static PyObject *
event_get_handle(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr(weir_event_handle(self_event(self)));
}

static PyObject *
event_repr(PyObject *self)
{
	char text[128];

	weir_event_format(self_event(self), text, sizeof text);
	return PyUnicode_FromString(text);
}

static PyMethodDef methods[] = {
	{ "record", NATIVE_KEYWORDS(event_record), METH_VARARGS | METH_KEYWORDS,
	    record_doc },
	{ "wait", NATIVE_KEYWORDS(event_wait), METH_VARARGS | METH_KEYWORDS,
	    wait_doc },
	{ "query", event_query, METH_NOARGS, query_doc },
	{ "synchronize", event_synchronize, METH_NOARGS, synchronize_doc },
	{ "elapsed_ms", event_elapsed, METH_O, elapsed_doc },
	{ "__reduce_ex__", native_reduce, METH_O,
	    "__reduce_ex__($self, protocol)\n--\n\n"
	    "Shared between processes of multiprocessing (weir.ipc); else "
	    "refused." },
	{ NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
	{ "handle", event_get_handle, NULL,
	    "The CUevent, an int; 0 before the first record.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot slots[] = {
	{ Py_tp_doc,
	    (char *)"Event(*, timing=False, blocking=False, "
		    "interprocess=False)\n--\n\n"
		    "A point in the work of a stream.\n\n"
		    "timing: elapsed_ms() works. blocking: a waiting host "
		    "sleeps. interprocess: it can\nbe shared with another "
		    "process; excludes timing. One thread records it at a "
		    "time." },
	{ Py_tp_new, event_new },
	{ Py_tp_dealloc, event_dealloc },
	{ Py_tp_repr, event_repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};
static PyType_Spec spec = { "weir.Event", sizeof(struct event), 0,
	Py_TPFLAGS_DEFAULT, slots };

bool
event_setup(PyObject *module)
{
	event_type = native_add_type(module, &spec);
	return event_type != NULL;
}
