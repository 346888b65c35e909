/*
 * weir.Stream: a CUDA stream, whoever created it.
 */
#include "python/native/native.h"

/* The streams that were current on this thread before each `with stream:` block
 * that it is in, each with its device. Blocks nest. */
enum { WITH_DEPTH = 64 };
static _Thread_local struct {
	weir_stream before[WITH_DEPTH];
	int devices[WITH_DEPTH];
	int n;
} with;

static struct stream *
stream_of_object(PyObject *object)
{
	return (struct stream *)object;
}

/* ---- Default streams of other devices ----------------------------------- */

static enum weir_status
set_current(weir_stream stream, int device)
{
	struct visit visit;
	enum weir_status status = visit_begin(&visit, stream, device);

	if (status != WEIR_OK)
		return status;
	status = weir_stream_set_current(stream);
	visit_end(&visit);
	return status;
}

/* Call a function for an object's stream, without the GIL. */
static enum weir_status
call_on(PyObject *self, enum weir_status (*function)(weir_stream))
{
	const struct stream *stream = stream_of_object(self);
	struct visit visit;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = visit_begin(&visit, stream->handle, stream->device);
	if (status == WEIR_OK) {
		status = function(stream->handle);
		visit_end(&visit);
	}
	NATIVE_TAKE_GIL;
	return status;
}

/* As weir_stream_wait_stream(), for streams of any two devices. */
static enum weir_status
wait_for_stream(const struct stream *stream, const struct stream *other)
{
	struct weir_event *event;
	enum weir_status status = weir_event_create(WEIR_EVENT_DEFAULT, &event);

	if (status != WEIR_OK)
		return status;
	status = visit_record(event, other->handle, other->device);
	if (status == WEIR_OK)
		status = visit_wait(stream->handle, stream->device, event);
	weir_event_destroy(event);
	return status;
}

/* ---- Objects ------------------------------------------------------------ */

static PyObject *
stream_wrap(weir_stream handle, int device, bool owned)
{
	struct stream *stream = native_new(arg_stream_type);

	if (stream == NULL) {
		if (owned)
			weir_stream_destroy(handle);
		return NULL;
	}
	stream->handle = handle;
	stream->device = device;
	stream->owned = owned;
	return (PyObject *)stream;
}

/* ---- Making ------------------------------------------------------------ */

/* Both constructors take the same arguments. */
static PyObject *
new_stream_object(PyObject *args, PyObject *kwargs, bool pooled)
{
	static char *names[] = { "device", "priority", NULL };
	int device = WEIR_DEVICE_CURRENT;
	int priority = 0;
	weir_stream handle;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&i:Stream", names,
		arg_device, &device, &priority) ||
	    !visit_resolve_device(&device))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = pooled ? weir_stream_from_pool(device, priority, &handle) :
			  weir_stream_create(device, priority, &handle);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	return stream_wrap(handle, device, !pooled);
}

static PyObject *
stream_type_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	return new_stream_object(args, kwargs, false);
}

PyDoc_STRVAR(from_pool_doc,
    "from_pool(device=None, priority=0)\n--\n\n"
    "One of the 32 shared streams of a device, round robin. It is never\n"
    "destroyed. A priority below 0 is high.");

static PyObject *
stream_from_pool(PyObject *class, PyObject *args, PyObject *kwargs)
{
	(void)class;
	return new_stream_object(args, kwargs, true);
}

PyDoc_STRVAR(external_doc,
    "external(handle, device=None)\n--\n\n"
    "A stream that somebody else created and destroys: a handle (0 is the\n"
    "default stream) or an object with __cuda_stream__. device: its device;\n"
    "None asks the driver.");

static PyObject *
stream_external(PyObject *class, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "handle", "device", NULL };
	weir_stream handle;
	PyObject *named = Py_None;
	int device = WEIR_DEVICE_CURRENT;
	enum weir_status status;

	(void)class;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O:external", names,
		arg_stream, &handle, &named))
		return NULL;
	if (handle == ARG_STREAM_CURRENT || handle == WEIR_STREAM_ANY) {
		PyErr_SetString(PyExc_ValueError,
		    "handle is a stream; None and ANY_STREAM are none");
		return NULL;
	}
	if (named != Py_None) {
		if (!arg_device(named, &device) ||
		    !visit_resolve_device(&device))
			return NULL;
		return stream_wrap(handle, device, false);
	}
	NATIVE_RELEASE_GIL;
	status = weir_stream_device(handle, &device);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	return stream_wrap(handle, device, false);
}

/* A stream that weir has created is destroyed with its object; queued work is
 * still executed. */
static void
stream_dealloc(PyObject *object)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (stream_of_object(object)->owned)
		weir_stream_destroy(stream_of_object(object)->handle);
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

/* ---- Methods ----------------------------------------------------------- */

/* True if the work is done, False if not, NULL for other failures. */
static PyObject *
answer_of(enum weir_status status)
{
	if (status != WEIR_OK && status != WEIR_ENOTREADY)
		return error_raise(status);
	return PyBool_FromLong(status == WEIR_OK);
}

PyDoc_STRVAR(query_doc,
    "query($self)\n--\n\n"
    "Is all work queued on the stream done?");

static PyObject *
stream_query(PyObject *self, PyObject *none)
{
	(void)none;
	return answer_of(call_on(self, weir_stream_query));
}

PyDoc_STRVAR(synchronize_doc,
    "synchronize($self)\n--\n\n"
    "Wait until all queued work is done. The GIL is released meanwhile.");

static PyObject *
stream_synchronize(PyObject *self, PyObject *none)
{
	(void)none;
	return error_none(call_on(self, weir_stream_synchronize));
}

PyDoc_STRVAR(wait_stream_doc,
    "wait_stream($self, other)\n--\n\n"
    "Make work queued here after this call wait for what is queued on another\n"
    "stream now. The host does not wait.");

static PyObject *
stream_wait_stream(PyObject *self, PyObject *arg)
{
	const struct stream *stream = stream_of_object(self);
	struct stream other = { .device = stream->device };
	enum weir_status status;

	if (!arg_stream(arg, &other.handle))
		return NULL;
	if (arg_is_stream(arg))
		other.device = stream_of_object(arg)->device;
	else if (other.handle != ARG_STREAM_CURRENT)
		other.device = WEIR_DEVICE_CURRENT;
	if (!visit_resolve_device(&other.device) ||
	    !arg_stream_resolve(stream->device, &other.handle))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = wait_for_stream(stream, &other);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(wait_event_doc,
    "wait_event($self, event)\n--\n\n"
    "Make work queued here after this call wait for an event. Does nothing if\n"
    "nothing was recorded. The host does not wait.");

static PyObject *
stream_wait_event(PyObject *self, PyObject *arg)
{
	const struct stream *stream = stream_of_object(self);
	struct weir_event *event = event_of(arg);
	enum weir_status status;

	if (event == NULL)
		return NULL;
	NATIVE_RELEASE_GIL;
	status = visit_wait(stream->handle, stream->device, event);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(record_event_doc,
    "record_event($self)\n--\n\n"
    "A new weir.Event that marks this point of the stream.");

static PyObject *
stream_record_event(PyObject *self, PyObject *none)
{
	const struct stream *stream = stream_of_object(self);

	(void)none;
	return event_recorded(stream->handle, stream->device);
}

PyDoc_STRVAR(retire_doc,
    "retire($self)\n--\n\n"
    "Say that the stream, which somebody else created, is about to be\n"
    "destroyed: its cached memory serves any stream once the work queued so\n"
    "far is done.");

static PyObject *
stream_retire(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_stream_retire(stream_of_object(self)->handle);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

static PyObject *
stream_protocol(PyObject *self, PyObject *none)
{
	(void)none;
	return Py_BuildValue(
	    "(iN)", 0, PyLong_FromVoidPtr(stream_of_object(self)->handle));
}

/* ---- Being current ----------------------------------------------------- */

static PyObject *
stream_enter(PyObject *self, PyObject *none)
{
	weir_stream before;

	(void)none;
	if (with.n == WITH_DEPTH) {
		PyErr_SetString(
		    PyExc_RuntimeError, "`with stream` is nested too deeply");
		return NULL;
	}
	const struct stream *stream = stream_of_object(self);
	enum weir_status status = weir_stream_current(stream->device, &before);
	if (status == WEIR_OK)
		status = set_current(stream->handle, stream->device);
	if (status != WEIR_OK)
		return error_raise(status);
	with.devices[with.n] = stream->device;
	with.before[with.n++] = before;
	Py_IncRef(self);
	return self;
}

static PyObject *
stream_exit(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (with.n == 0) {
		PyErr_SetString(PyExc_RuntimeError,
		    "the stream was entered by another thread");
		return NULL;
	}
	with.n--;
	return error_none(
	    set_current(with.before[with.n], with.devices[with.n]));
}

/* ---- Attributes -------------------------------------------------------- */

static PyObject *
stream_get_handle(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr(stream_of_object(self)->handle);
}

static PyObject *
stream_get_device(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromLong(stream_of_object(self)->device);
}

static PyObject *
get_priority(PyObject *self, void *closure)
{
	int priority;
	enum weir_status status =
	    weir_stream_priority(stream_of_object(self)->handle, &priority);

	(void)closure;
	if (status != WEIR_OK)
		return error_raise(status);
	return PyLong_FromLong(priority);
}

static PyObject *
stream_repr(PyObject *self)
{
	return PyUnicode_FromFormat("<weir.Stream device=%d handle=%p>",
	    stream_of_object(self)->device,
	    (void *)stream_of_object(self)->handle);
}

/* Default streams have equal handles on all devices. */
static PyObject *
stream_compare(PyObject *self, PyObject *other, int op)
{
	if (!arg_is_stream(other) || (op != Py_EQ && op != Py_NE)) {
		Py_IncRef(Py_NotImplemented);
		return Py_NotImplemented;
	}
	bool same =
	    stream_of_object(self)->handle == stream_of_object(other)->handle &&
	    stream_of_object(self)->device == stream_of_object(other)->device;
	return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t
stream_hash(PyObject *self)
{
	Py_hash_t hash =
	    (Py_hash_t)((uintptr_t)stream_of_object(self)->handle >> 4) ^
	    stream_of_object(self)->device;

	return hash == -1 ? -2 : hash;
}

/* ---- The type ---------------------------------------------------------- */

static PyMethodDef methods[] = {
	{ "from_pool", NATIVE_KEYWORDS(stream_from_pool),
	    METH_VARARGS | METH_KEYWORDS | METH_STATIC, from_pool_doc },
	{ "external", NATIVE_KEYWORDS(stream_external),
	    METH_VARARGS | METH_KEYWORDS | METH_STATIC, external_doc },
	{ "query", stream_query, METH_NOARGS, query_doc },
	{ "synchronize", stream_synchronize, METH_NOARGS, synchronize_doc },
	{ "wait_stream", stream_wait_stream, METH_O, wait_stream_doc },
	{ "wait_event", stream_wait_event, METH_O, wait_event_doc },
	{ "record_event", stream_record_event, METH_NOARGS, record_event_doc },
	{ "retire", stream_retire, METH_NOARGS, retire_doc },
	{ "__cuda_stream__", stream_protocol, METH_NOARGS,
	    "__cuda_stream__($self)\n--\n\n(0, handle)" },
	{ "__enter__", stream_enter, METH_NOARGS, NULL },
	{ "__exit__", stream_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
	{ "handle", stream_get_handle, NULL, "The CUstream, an int.", NULL },
	{ "device", stream_get_device, NULL, "The device's number.", NULL },
	{ "priority", get_priority, NULL,
	    "0 is normal, lower numbers are served first.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot slots[] = {
	{ Py_tp_doc,
	    (char *)"Stream(device=None, priority=0)\n--\n\n"
		    "A CUDA stream that does not synchronise with the default "
		    "stream.\n\n"
		    "device: a number, 'cuda:N' or None. priority: 0 is "
		    "normal; "
		    "lower numbers are\nserved first; clamped to what the "
		    "device has.\n\n"
		    "`with stream:` makes it the current stream of the thread "
		    "on its device. It is\ndestroyed when nothing refers to "
		    "it; "
		    "work queued on it goes on, and its memory\nserves others "
		    "once that is done. Streams of the same handle and device "
		    "are equal." },
	{ Py_tp_new, stream_type_new },
	{ Py_tp_dealloc, stream_dealloc },
	{ Py_tp_repr, stream_repr },
	{ Py_tp_richcompare, stream_compare },
	{ Py_tp_hash, stream_hash },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};
static PyType_Spec spec = { "weir.Stream", sizeof(struct stream), 0,
	Py_TPFLAGS_DEFAULT, slots };

bool
stream_setup(PyObject *module)
{
	arg_stream_type = native_add_type(module, &spec);
	return arg_stream_type != NULL;
}

/* ---- Functions --------------------------------------------------------- */

PyDoc_STRVAR(current_stream_doc,
    "current_stream($module, device=None)\n--\n\n"
    "The current stream of the calling thread on a device; at first the\n"
    "default stream, handle 0.");

static PyObject *
module_current_stream(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", NULL };
	int device = WEIR_DEVICE_CURRENT;
	weir_stream handle;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&:current_stream",
		names, arg_device, &device) ||
	    !visit_resolve_device(&device))
		return NULL;
	enum weir_status status = weir_stream_current(device, &handle);
	if (status != WEIR_OK)
		return error_raise(status);
	return stream_wrap(handle, device, false);
}

PyDoc_STRVAR(set_current_doc,
    "set_current_stream($module, stream)\n--\n\n"
    "Set the current stream of the calling thread on the stream's device.");

static PyObject *
module_set_current(PyObject *module, PyObject *arg)
{
	struct stream stream;

	(void)module;
	if (!visit_stream(arg, &stream))
		return NULL;
	return error_none(set_current(stream.handle, stream.device));
}

PyMethodDef stream_methods[] = {
	{ "current_stream", NATIVE_KEYWORDS(module_current_stream),
	    METH_VARARGS | METH_KEYWORDS, current_stream_doc },
	{ "set_current_stream", module_set_current, METH_O, set_current_doc },
	{ NULL, NULL, 0, NULL },
};
