/*
 * Tensors and events of other processes; weir.ipc is Python code over this.
 */
#include "python/native/tensor.h"

/* ---- The owner: weir.ipc.Shared ---------------------------------------- */

struct shared {
	/* NULL: nothing can be opened, or it was released. */
	PyObject_HEAD struct weir_ipc_export *export;
	PyObject *handle; /* bytes */
	PyObject *event;  /* a weir.Event, which owns the export; or NULL */
};

static PyObject *shared_type;

static struct shared *
shared_of(PyObject *object)
{
	return (struct shared *)object;
}

/* Never waits: the block is freed when no process has it open any more. */
static void
release(struct shared *shared)
{
	struct weir_ipc_export *export = shared->export;
	PyObject *event = shared->event;

	shared->export = NULL;
	shared->event = NULL;
	if (event == NULL)
		weir_ipc_release(export);
	Py_XDECREF(event);
}

static void
shared_dealloc(PyObject *object)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	release(shared_of(object));
	Py_XDECREF(shared_of(object)->handle);
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

static PyObject *
shared_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(
	    PyExc_TypeError, "a weir.ipc.Shared is made by weir.ipc.share()");
	return NULL;
}

static PyObject *
shared_release(PyObject *self, PyObject *none)
{
	(void)none;
	release(shared_of(self));
	return native_none();
}

static PyObject *
shared_enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_IncRef(self);
	return self;
}

static PyObject *
shared_get_handle(PyObject *self, void *closure)
{
	(void)closure;
	Py_IncRef(shared_of(self)->handle);
	return shared_of(self)->handle;
}

static PyObject *
get_peers(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(weir_ipc_peers(shared_of(self)->export));
}

static PyObject *
get_opened(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(
	    weir_ipc_opened(shared_of(self)->export));
}

static PyMethodDef shared_methods[] = {
	{ "release", shared_release, METH_NOARGS,
	    "release($self)\n--\n\n"
	    "Nobody can open it any more; those who have it open keep it, and "
	    "the memory is\nfreed when all have let go of it. Never waits; "
	    "does nothing the second time." },
	{ "__enter__", shared_enter, METH_NOARGS, NULL },
	{ "__exit__", shared_release, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
static PyGetSetDef shared_attributes[] = {
	{ "handle", shared_get_handle, NULL,
	    "bytes for weir.ipc.open() in another process. Whoever of the same "
	    "user has them can\nopen it.",
	    NULL },
	{ "peers", get_peers, NULL,
	    "How often it is open in other processes now; 0 once released.",
	    NULL },
	{ "opened", get_opened, NULL,
	    "How often other processes have opened it; 0 once released.",
	    NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot shared_slots[] = {
	{ Py_tp_doc,
	    (char *)"What other processes may open, as long as this object "
		    "lives: weir.ipc.share()\nmakes it. It holds the memory or "
		    "the event. A `with` block releases it at the end." },
	{ Py_tp_new, shared_new },
	{ Py_tp_dealloc, shared_dealloc },
	{ Py_tp_methods, shared_methods },
	{ Py_tp_getset, shared_attributes },
	{ 0, NULL },
};
static PyType_Spec shared_spec = { "weir.Shared", sizeof(struct shared), 0,
	Py_TPFLAGS_DEFAULT, shared_slots };

/* Takes ownership of the export, or of the event that has it. */
static PyObject *
shared_wrap(struct weir_ipc_export *export, PyObject *event, const void *handle,
    size_t size)
{
	struct shared *shared = native_new(shared_type);

	if (shared == NULL) {
		if (event == NULL)
			weir_ipc_release(export);
		Py_XDECREF(event);
		return NULL;
	}
	shared->export = export;
	shared->event = event;
	shared->handle = PyBytes_FromStringAndSize(handle, (Py_ssize_t)size);
	if (shared->handle != NULL)
		return (PyObject *)shared;
	Py_DecRef((PyObject *)shared);
	return NULL;
}

static PyObject *
share_event(PyObject *object)
{
	struct weir_ipc_export *export;
	struct weir_ipc_handle handle;
	enum weir_status status = event_share(object, &export);

	if (status == WEIR_OK)
		status = weir_ipc_handle_of(export, &handle);
	if (status != WEIR_OK)
		return error_raise(status);
	Py_IncRef(object);
	return shared_wrap(export, object, &handle, sizeof handle);
}

static PyObject *
share_tensor(PyObject *object, weir_stream stream)
{
	struct weir_ipc_export *export;
	struct weir_ipc_tensor text;
	enum weir_status status;

	if (!arg_stream_resolve(tensor_info(object).device, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status =
	    weir_ipc_share_tensor(tensor_of(object), stream, &text, &export);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	return shared_wrap(export, NULL, &text, sizeof text);
}

PyDoc_STRVAR(share_doc,
    "_share($module, object, stream=None)\n--\n\n"
    "weir.ipc.share() without its words.");

static PyObject *
module_share(PyObject *module, PyObject *args)
{
	PyObject *object;
	weir_stream stream = ARG_STREAM_CURRENT;

	(void)module;
	if (!PyArg_ParseTuple(args, "O|O&:share", &object, arg_stream, &stream))
		return NULL;
	if (event_is(object))
		return share_event(object);
	if (tensor_is(object))
		return share_tensor(object, stream);
	PyErr_Format(PyExc_TypeError,
	    "object is a weir.Tensor or a weir.Event, not %R", object);
	return NULL;
}

/* ---- The others -------------------------------------------------------- */

/* The bytes of a block as a tensor. Takes ownership of the import. */
static PyObject *
view_memory(struct weir_ipc_import *import, weir_stream stream)
{
	struct weir_tensor *tensor = NULL;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = weir_ipc_view(import, stream, &tensor);
	NATIVE_TAKE_GIL;
	return tensor_result(status, tensor);
}

/* Open a handle made in C, of a block or an event. */
static PyObject *
open_handle(
    const struct weir_ipc_handle *handle, int device, weir_stream stream)
{
	struct weir_ipc_info info = { .struct_size = sizeof info };
	struct weir_ipc_import *import;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = weir_ipc_open(handle, device, stream, &import);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	weir_ipc_info(import, &info);
	return info.event != NULL ? event_wrap(import, info.event) :
				    view_memory(import, stream);
}

static PyObject *
open_tensor(const struct weir_ipc_tensor *text, int device, weir_stream stream)
{
	struct weir_tensor *tensor = NULL;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = weir_ipc_open_tensor(text, device, stream, &tensor);
	NATIVE_TAKE_GIL;
	return tensor_result(status, tensor);
}

PyDoc_STRVAR(open_doc,
    "_open($module, handle, device=None, stream=None)\n--\n\n"
    "weir.ipc.open() without its words.");

static PyObject *
module_open(PyObject *module, PyObject *args)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_tensor text;
	const char *bytes;
	Py_ssize_t size;
	PyObject *named_device = Py_None;
	PyObject *named_stream = Py_None;
	int device;
	weir_stream stream;

	(void)module;
	if (!PyArg_ParseTuple(args, "y#|OO:open", &bytes, &size, &named_device,
		&named_stream))
		return NULL;
	if (size != sizeof handle && size != sizeof text) {
		PyErr_Format(PyExc_ValueError,
		    "handle has %zd bytes; that of a tensor has %zu, any other "
		    "%zu",
		    size, sizeof text, sizeof handle);
		return NULL;
	}
	/* Copied first, because the conversions may run Python code, which may
	 * change what has the bytes. */
	if (size == sizeof text)
		memcpy(&text, bytes, sizeof text);
	else
		memcpy(&handle, bytes, sizeof handle);
	if (!arg_device(named_device, &device) ||
	    !arg_stream(named_stream, &stream) ||
	    !arg_stream_resolve(device, &stream))
		return NULL;
	if (size == sizeof text)
		return open_tensor(&text, device, stream);
	return open_handle(&handle, device, stream);
}

/* ---- The module -------------------------------------------------------- */

static PyMethodDef functions[] = {
	{ "_share", module_share, METH_VARARGS, share_doc },
	{ "_open", module_open, METH_VARARGS, open_doc },
	{ NULL, NULL, 0, NULL },
};

bool
ipc_setup(PyObject *module)
{
	shared_type = native_add_type(module, &shared_spec);
	return shared_type != NULL &&
	    PyModule_AddFunctions(module, functions) == 0;
}
