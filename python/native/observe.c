/*
 * Python callbacks: for events as they happen, and for requests that failed for
 * lack of memory.
 *
 * weir knows a callback by a number, which is looked up under the GIL. So a
 * callback that is removed while another thread is about to call it is not
 * found. Nothing is called after the interpreter has ended.
 */
#include "python/native/native.h"

#include <stdatomic.h>

static PyObject *callbacks; /* number -> callable */
static PyObject *numbers;   /* (kind, callable) -> number */
static PyObject *event_type;
static PyObject *oom_type;
static unsigned long last_number;
static atomic_bool ended;

/* Indexed by enum weir_trace_kind. */
static const char *const kinds[] = { "event_creation", "event_deletion",
	"event_record", "event_wait", "memory_allocation",
	"memory_deallocation", "stream_creation", "device_synchronization",
	"stream_synchronization", "event_synchronization", NULL };
_Static_assert(
    sizeof kinds / sizeof kinds[0] == WEIR_TRACE_KINDS + 1, "a name each");

/* ---- Calling ----------------------------------------------------------- */

/* Store a value in a struct sequence, which takes ownership. */
static bool
put_field(PyObject *sequence, Py_ssize_t i, PyObject *value)
{
	if (value == NULL)
		return false;
	PyStructSequence_SetItem(sequence, i, value);
	return true;
}

static PyObject *
trace_object(const struct weir_trace *t)
{
	PyObject *o = PyStructSequence_New((PyTypeObject *)event_type);

	if (o != NULL &&
	    put_field(o, 0, PyUnicode_FromString(kinds[t->kind])) &&
	    put_field(o, 1, PyLong_FromLong(t->device)) &&
	    put_field(o, 2, PyLong_FromVoidPtr(t->event)) &&
	    put_field(o, 3, arg_stream_number(t->stream)) &&
	    put_field(o, 4, PyLong_FromVoidPtr(t->address)) &&
	    put_field(o, 5, PyLong_FromSize_t(t->size)))
		return o;
	Py_XDECREF(o);
	return NULL;
}

static PyObject *
oom_object(const struct weir_oom *oom)
{
	PyObject *o = PyStructSequence_New((PyTypeObject *)oom_type);

	if (o != NULL && put_field(o, 0, PyLong_FromLong(oom->device)) &&
	    put_field(o, 1, arg_stream_number(oom->stream)) &&
	    put_field(o, 2, PyLong_FromSize_t(oom->requested_bytes)) &&
	    put_field(o, 3, PyLong_FromSize_t(oom->rounded_bytes)) &&
	    put_field(o, 4, PyLong_FromSize_t(oom->limit_bytes)) &&
	    put_field(o, 5, PyLong_FromSize_t(oom->reserved_bytes)) &&
	    put_field(o, 6, PyLong_FromSize_t(oom->allocated_bytes)) &&
	    put_field(o, 7, PyLong_FromSize_t(oom->pending_bytes)) &&
	    put_field(o, 8, PyLong_FromSize_t(oom->device_free_bytes)) &&
	    put_field(o, 9,
		PyUnicode_DecodeUTF8(
		    oom->report, (Py_ssize_t)strlen(oom->report), "replace")))
		return o;
	Py_XDECREF(o);
	return NULL;
}

/* Call the callback with a number, with an object of which it takes ownership.
 * The GIL is held. An exception of the callback is printed and not passed on.
 */
static void
call(void *user, PyObject *object)
{
	PyObject *number = PyLong_FromVoidPtr(user);
	PyObject *callable =
	    number == NULL ? NULL : PyDict_GetItemWithError(callbacks, number);

	if (callable != NULL && object != NULL) {
		Py_IncRef(callable); /* it may remove itself */
		PyObject *result =
		    PyObject_CallFunctionObjArgs(callable, object, NULL);
		if (result == NULL)
			PyErr_WriteUnraisable(callable);
		Py_XDECREF(result);
		Py_DecRef(callable);
	}
	PyErr_Clear();
	Py_XDECREF(number);
	Py_XDECREF(object);
}

bool
call_begin(struct called *c)
{
	if (atomic_load(&ended) || !Py_IsInitialized())
		return false;
	c->gil = PyGILState_Ensure();
	PyErr_Fetch(&c->type, &c->value, &c->traceback);
	return true;
}

void
call_end(struct called *c)
{
	PyErr_Restore(c->type, c->value, c->traceback);
	PyGILState_Release(c->gil);
}

static void
on_trace(const struct weir_trace *trace, void *user)
{
	struct called c;

	if (!call_begin(&c))
		return;
	call(user, trace_object(trace));
	call_end(&c);
}

static void
on_oom(const struct weir_oom *oom, void *user)
{
	struct called c;

	if (!call_begin(&c))
		return;
	call(user, oom_object(oom));
	call_end(&c);
}

/* ---- Adding and removing ----------------------------------------------- */

/* Out-of-memory observers follow the kinds of events. */
enum { KIND_OOM = WEIR_TRACE_KINDS };

static enum weir_status
tell_weir(int kind, void *user, bool add)
{
	if (kind == KIND_OOM)
		return add ? weir_oom_observer_add(on_oom, user) :
			     weir_oom_observer_remove(on_oom, user);
	return add ? weir_trace_callback_add(
			 (enum weir_trace_kind)kind, on_trace, user) :
		     weir_trace_callback_remove(
			 (enum weir_trace_kind)kind, on_trace, user);
}

/* Forget a callback. False with an exception set: the callable's own __hash__
 * or
 * __eq__ has failed or changed its mind. */
static bool
forget(PyObject *key, PyObject *number)
{
	if (PyDict_DelItem(callbacks, number) != 0)
		PyErr_Clear(); /* the interpreter ends */
	return PyDict_DelItem(numbers, key) == 0;
}

static PyObject *
observe_add(int kind, PyObject *callable)
{
	if (!PyCallable_Check(callable)) {
		PyErr_Format(PyExc_TypeError,
		    "callback is callable, and %R is not", callable);
		return NULL;
	}
	PyObject *key = Py_BuildValue("(iO)", kind, callable);
	if (key == NULL)
		return NULL;
	if (PyDict_GetItemWithError(numbers, key) != NULL) {
		PyErr_Format(
		    PyExc_ValueError, "callback %R is there already", callable);
		Py_DecRef(key);
		return NULL;
	}
	unsigned long own = ++last_number;
	PyObject *number = PyLong_FromUnsignedLong(own);
	if (PyErr_Occurred() != NULL || number == NULL ||
	    PyDict_SetItem(numbers, key, number) != 0 ||
	    PyDict_SetItem(callbacks, number, callable) != 0) {
		Py_XDECREF(number);
		Py_DecRef(key);
		return NULL;
	}
	enum weir_status status = tell_weir(kind, (void *)(uintptr_t)own, true);
	if (status != WEIR_OK && !forget(key, number))
		PyErr_Clear();
	Py_DecRef(number);
	Py_DecRef(key);
	return error_none(status);
}

static PyObject *
observe_remove(int kind, PyObject *callable)
{
	PyObject *key = Py_BuildValue("(iO)", kind, callable);

	if (key == NULL)
		return NULL;
	PyObject *number = PyDict_GetItemWithError(numbers, key);
	if (number == NULL) {
		if (PyErr_Occurred() == NULL && !atomic_load(&ended))
			PyErr_Format(PyExc_ValueError,
			    "callback %R is not there", callable);
		Py_DecRef(key);
		return PyErr_Occurred() == NULL ? native_none() : NULL;
	}
	Py_IncRef(number);
	enum weir_status status =
	    tell_weir(kind, PyLong_AsVoidPtr(number), false);
	bool forgotten = forget(key, number);
	Py_DecRef(number);
	Py_DecRef(key);
	return forgotten ? error_none(status) : NULL;
}

PyDoc_STRVAR(add_oom_doc,
    "add_oom_observer($module, callback)\n--\n\n"
    "Call callback(oom) whenever a request finds no memory, after every step "
    "to\n"
    "get some was tried; oom is a weir.OutOfMemory. It runs on the thread "
    "that\n"
    "asked, with no lock of weir held, and may call weir. What it raises is\n"
    "printed and goes no further. Raises ValueError if it is there already.");
PyDoc_STRVAR(remove_oom_doc,
    "remove_oom_observer($module, callback)\n--\n\n"
    "Stop calling it. Raises ValueError if it is not there.");
PyDoc_STRVAR(add_trace_doc,
    "add_trace_callback($module, kind, callback)\n--\n\n"
    "Call callback(event) at every event of a kind; event is a\n"
    "weir.TraceEvent. kind: 'event_creation', 'event_deletion', "
    "'event_record',\n"
    "'event_wait', 'memory_allocation', 'memory_deallocation',\n"
    "'stream_creation', 'device_synchronization', 'stream_synchronization' or\n"
    "'event_synchronization'. Deletions, deallocations and synchronisations "
    "are\n"
    "reported before they happen, the others after.\n\n"
    "It runs on the thread that met the event, with no lock of weir held, and\n"
    "may call weir. What it raises is printed and goes no further.");
PyDoc_STRVAR(remove_trace_doc,
    "remove_trace_callback($module, kind, callback)\n--\n\n"
    "Stop calling it. Raises ValueError if it is not there.");

static PyObject *
module_add_oom(PyObject *module, PyObject *arg)
{
	(void)module;
	return observe_add(KIND_OOM, arg);
}

static PyObject *
module_remove_oom(PyObject *module, PyObject *arg)
{
	(void)module;
	return observe_remove(KIND_OOM, arg);
}

static PyObject *
with_kind(PyObject *args, PyObject *kwargs,
    PyObject *(*act)(int kind, PyObject *callable))
{
	static char *names[] = { "kind", "callback", NULL };
	const char *word;
	PyObject *callable;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "sO", names, &word, &callable))
		return NULL;
	int kind = arg_choice("kind", word, kinds);
	return kind < 0 ? NULL : act(kind, callable);
}

static PyObject *
module_add_trace(PyObject *module, PyObject *args, PyObject *kwargs)
{
	(void)module;
	return with_kind(args, kwargs, observe_add);
}

static PyObject *
module_remove_trace(PyObject *module, PyObject *args, PyObject *kwargs)
{
	(void)module;
	return with_kind(args, kwargs, observe_remove);
}

/* The interpreter ends: weir may go on, but does not call Python any more. A
 * callback holds the names of its module, which would otherwise outlive the
 * interpreter, with all their objects. */
static PyObject *
module_end(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	atomic_store(&ended, true);
	PyDict_Clear(callbacks);
	PyDict_Clear(numbers);
	return native_none();
}

static PyMethodDef observe_methods[] = {
	{ "add_oom_observer", module_add_oom, METH_O, add_oom_doc },
	{ "remove_oom_observer", module_remove_oom, METH_O, remove_oom_doc },
	{ "add_trace_callback", NATIVE_KEYWORDS(module_add_trace),
	    METH_VARARGS | METH_KEYWORDS, add_trace_doc },
	{ "remove_trace_callback", NATIVE_KEYWORDS(module_remove_trace),
	    METH_VARARGS | METH_KEYWORDS, remove_trace_doc },
	{ "_end", module_end, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

/* ---- What callbacks are given ------------------------------------------ */

static PyStructSequence_Field event_fields[] = {
	{ "kind", "as add_trace_callback() names it" },
	{ "device", "the device's number" },
	{ "event", "a CUevent, or 0" },
	{ "stream", "a handle; 0: the default stream, -1: any" },
	{ "address", "the first byte of the block, or 0" },
	{ "size", "bytes asked for, or 0" },
	{ NULL, NULL },
};
static PyStructSequence_Desc event_desc = { "weir.TraceEvent",
	"An event that a callback gets.", event_fields, 6 };

static PyStructSequence_Field oom_fields[] = {
	{ "device", "the device's number" },
	{ "stream", "a handle; 0: the default stream, -1: any" },
	{ "requested_bytes", "what the caller asked for" },
	{ "rounded_bytes", "its size class" },
	{ "limit_bytes", "the limit in force, or the device's total" },
	{ "reserved_bytes", "what weir holds" },
	{ "allocated_bytes", "of these, in the hands of callers" },
	{ "pending_bytes", "of these, waiting for other streams" },
	{ "device_free_bytes", "what the driver has free" },
	{ "report", "the text of the error" },
	{ NULL, NULL },
};
static PyStructSequence_Desc oom_desc = { "weir.OutOfMemory",
	"A request that found no memory.", oom_fields, 10 };

static PyObject *
add_sequence(PyObject *module, PyStructSequence_Desc *desc)
{
	PyObject *type = (PyObject *)PyStructSequence_NewType(desc);

	if (type == NULL)
		return NULL;
	Py_IncRef(type);
	if (PyModule_AddObject(module, strchr(desc->name, '.') + 1, type) == 0)
		return type;
	Py_DecRef(type);
	return NULL;
}

/* Register module_end() with atexit. */
static bool
end_with_interpreter(PyObject *module)
{
	PyObject *end = PyObject_GetAttrString(module, "_end");
	PyObject *atexit = end == NULL ? NULL : PyImport_ImportModule("atexit");
	PyObject *result = atexit == NULL ?
	    NULL :
	    PyObject_CallMethod(atexit, "register", "O", end);

	Py_XDECREF(result);
	Py_XDECREF(atexit);
	Py_XDECREF(end);
	return result != NULL;
}

bool
observe_setup(PyObject *module)
{
	callbacks = PyDict_New();
	numbers = PyDict_New();
	event_type = add_sequence(module, &event_desc);
	oom_type = add_sequence(module, &oom_desc);
	return callbacks != NULL && numbers != NULL && event_type != NULL &&
	    oom_type != NULL &&
	    PyModule_AddFunctions(module, observe_methods) == 0 &&
	    end_with_interpreter(module);
}
