/*
 * DLPack in Python: capsules over <weir/exchange.h>.
 *
 * An exported tensor refers to no Python object, because its deleter may be
 * called on any thread, without the GIL, and after the interpreter has ended.
 */
#include "python/native/tensor.h"

#include <weir/exchange.h>

static const char legacy_name[] = "dltensor";
static const char legacy_used[] = "used_dltensor";
static const char versioned_name[] = "dltensor_versioned";
static const char versioned_used[] = "used_dltensor_versioned";

/* The content of a capsule, in one of its two forms. */
struct content {
	bool versioned;
	union {
		struct weir_dl_managed *legacy;
		struct weir_dl_versioned *now;
	} as;
};

/* Call the content's deleter, and preserve the current exception. */
static void
content_delete(const struct content *c)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (c->versioned && c->as.now->deleter != NULL)
		c->as.now->deleter(c->as.now);
	else if (!c->versioned && c->as.legacy->deleter != NULL)
		c->as.legacy->deleter(c->as.legacy);
	PyErr_Restore(type, value, traceback);
}

/* False if the capsule has another content, or was used already. */
static bool
content_of(PyObject *capsule, struct content *out)
{
	out->versioned = PyCapsule_IsValid(capsule, versioned_name);
	if (out->versioned)
		out->as.now = PyCapsule_GetPointer(capsule, versioned_name);
	else if (PyCapsule_IsValid(capsule, legacy_name))
		out->as.legacy = PyCapsule_GetPointer(capsule, legacy_name);
	else
		return false;
	return true;
}

/* ---- Giving ------------------------------------------------------------ */

/* A capsule that was never consumed deletes its content. */
static void
capsule_dealloc(PyObject *capsule)
{
	struct content content;

	if (content_of(capsule, &content))
		content_delete(&content);
}

/* The streams are ordered already. */
static PyObject *
make_capsule(PyObject *self, bool versioned, bool copied)
{
	struct weir_tensor *tensor = tensor_of(self);
	struct content c = { .versioned = versioned };
	enum weir_status status = versioned ?
	    weir_tensor_to_dlpack(tensor, WEIR_STREAM_ANY,
		copied ? WEIR_DL_IS_COPIED : 0, &c.as.now) :
	    weir_tensor_to_dlpack_unversioned(
		tensor, WEIR_STREAM_ANY, &c.as.legacy);

	if (status != WEIR_OK)
		return error_raise(status);
	PyObject *capsule = versioned ?
	    PyCapsule_New(c.as.now, versioned_name, capsule_dealloc) :
	    PyCapsule_New(c.as.legacy, legacy_name, capsule_dealloc);
	if (capsule == NULL)
		content_delete(&c);
	return capsule;
}

/* A consumer's request. */
struct asked {
	PyObject *stream;
	PyObject *max_version;
	PyObject *dl_device;
	PyObject *copy;
};

static bool
refuse_export(const char *why)
{
	PyErr_SetString(PyExc_BufferError, why);
	return false;
}

/* Does the consumer support versions, and may it have the tensor? */
static bool
choose_version(
    const struct weir_tensor_info *info, PyObject *max_version, bool *versioned)
{
	long major = 0;
	long minor = 0;

	if (max_version != Py_None &&
	    !PyArg_Parse(max_version, "(ll)", &major, &minor))
		return false;
	*versioned = major >= 1;
	if (strncmp(weir_dtype_name(info->dtype), "float8", 6) == 0 &&
	    (!*versioned || (major == 1 && minor < 1)))
		return refuse_export(
		    "the type is known from version 1.1 on only");
	return true;
}

/* Is there a device to copy to? */
static bool
can_move(int type, int id)
{
	int count = 0;

	if (type == WEIR_DL_CPU)
		return true;
	return type == WEIR_DL_CUDA && id >= 0 &&
	    weir_device_count(&count) == WEIR_OK && id < count;
}

/* The tensor that is exported: the object itself, or a copy. A new reference.
 */
static PyObject *
choose_copy(PyObject *self, const struct asked *asked, bool *copied)
{
	struct weir_dl_device own = { 0 };

	weir_tensor_dl_device(tensor_of(self), &own);
	int type = own.type;
	int id = own.id;
	int copy = asked->copy == Py_None ? -1 : PyObject_IsTrue(asked->copy);

	if (PyErr_Occurred() != NULL ||
	    (asked->dl_device != Py_None &&
		!PyArg_Parse(asked->dl_device, "(ii)", &type, &id)))
		return NULL;
	bool moved = type != own.type || id != own.id;
	*copied = moved || copy == 1;
	if (!*copied) {
		Py_IncRef(self);
		return self;
	}
	if (copy == 0) {
		refuse_export("the device asked for needs a copy");
		return NULL;
	}
	if (moved && !can_move(type, id)) {
		refuse_export("the device asked for is none of weir's");
		return NULL;
	}
	PyObject *place = type == WEIR_DL_CPU && moved ?
	    PyUnicode_FromString("cpu") :
	    moved ? PyLong_FromLong(id) :
		    native_none();
	PyObject *to = PyObject_GetAttrString(self, "to");
	PyObject *args = PyTuple_Pack(1, place);
	PyObject *kwargs = Py_BuildValue("{sO}", "copy", Py_True);
	PyObject *result = to == NULL || args == NULL || kwargs == NULL ?
	    NULL :
	    PyObject_Call(to, args, kwargs);
	Py_XDECREF(place);
	Py_XDECREF(to);
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
	return result;
}

/* Order the consumer's stream after the work on the memory, and keep the memory
 * alive until the work that is queued on that stream when the tensor is
 * released. */
static bool
hand_to_consumer(PyObject *self, PyObject *asked)
{
	struct weir_tensor_info info = tensor_info(self);
	long long handle = 1;
	enum weir_status status;

	if (asked != Py_None && !PyArg_Parse(asked, "L", &handle))
		return false;
	if (info.memory == WEIR_MEMORY_HOST ||
	    info.memory == WEIR_MEMORY_PINNED) {
		if (asked == Py_None || handle == -1)
			return true;
		PyErr_Format(PyExc_ValueError,
		    "stream is %lld; it is None for memory of the host",
		    handle);
		return false;
	}
	if (handle == 0 || handle < -1) {
		PyErr_Format(PyExc_ValueError,
		    "stream is %lld; it is -1, 1, 2 or a handle", handle);
		return false;
	}
	if (handle == -1)
		return true;
	weir_stream stream = (weir_stream)(uintptr_t)handle;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_join(tensor_of(self), stream);
	if (status == WEIR_OK)
		status = weir_tensor_record(tensor_of(self), stream);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

PyObject *
dlpack_export(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy",
		NULL };
	struct asked asked = { Py_None, Py_None, Py_None, Py_None };
	struct weir_tensor_info info = tensor_info(self);
	bool versioned;
	bool copied;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__",
		names, &asked.stream, &asked.max_version, &asked.dl_device,
		&asked.copy))
		return NULL;
	if (!choose_version(&info, asked.max_version, &versioned))
		return NULL;
	PyObject *given = choose_copy(self, &asked, &copied);
	if (given == NULL)
		return NULL;
	/* A copy from a device to the host is waited for; the stream is not
	 * the consumer's. */
	bool host = tensor_info(given).memory == WEIR_MEMORY_HOST &&
	    info.memory != WEIR_MEMORY_HOST;
	bool ready = host || hand_to_consumer(given, asked.stream);
	if (ready && !versioned && tensor_info(given).read_only)
		ready = refuse_export(
		    "the tensor is read-only, which a capsule without a "
		    "version cannot say");
	PyObject *capsule =
	    ready ? make_capsule(given, versioned, copied) : NULL;
	Py_DecRef(given);
	return capsule;
}

PyObject *
dlpack_device(PyObject *self, PyObject *none)
{
	struct weir_dl_device device = { 0 };

	(void)none;
	weir_tensor_dl_device(tensor_of(self), &device);
	return Py_BuildValue("(ii)", (int)device.type, (int)device.id);
}

/* ---- Taking ------------------------------------------------------------ */

/* The stream on which a foreign tensor is used; host memory has none. */
static bool
choose_stream(const struct content *c, weir_stream *stream)
{
	const struct weir_dl_tensor *tensor =
	    c->versioned ? &c->as.now->tensor : &c->as.legacy->tensor;

	/* The members of a later version are unknown. */
	if (c->versioned && c->as.now->version.major != WEIR_DLPACK_MAJOR)
		return true;
	if (tensor->device.type == WEIR_DL_CUDA)
		return arg_stream_resolve(tensor->device.id, stream);
	*stream = NULL;
	return true;
}

/* BufferError if weir lacks the version, device or type. */
static PyObject *
take_tensor(
    const struct content *c, weir_stream stream, struct weir_tensor **tensor)
{
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = c->versioned ?
	    weir_tensor_from_dlpack(c->as.now, stream, tensor) :
	    weir_tensor_from_dlpack_unversioned(c->as.legacy, stream, tensor);
	NATIVE_TAKE_GIL;
	if (status != WEIR_ENOTSUP)
		return tensor_result(status, *tensor);
	PyErr_SetString(PyExc_BufferError, weir_last_error());
	return NULL;
}

/* Import a tensor. It is consumed even if the import fails. */
static PyObject *
import_content(const struct content *content, weir_stream stream)
{
	struct weir_tensor *tensor = NULL;
	PyObject *result = NULL;

	if (choose_stream(content, &stream))
		result = take_tensor(content, stream, &tensor);
	if (tensor == NULL)
		content_delete(content);
	return result;
}

static PyObject *
import_capsule(PyObject *capsule, weir_stream stream)
{
	struct content content;

	if (!content_of(capsule, &content)) {
		PyErr_Format(PyExc_ValueError,
		    "%R is no capsule of DLPack, or was used before", capsule);
		return NULL;
	}
	if (PyCapsule_SetName(
		capsule, content.versioned ? versioned_used : legacy_used) != 0)
		return NULL;
	return import_content(&content, stream);
}

/* The keywords for __dlpack__ of an object on a device: a new dict. */
static PyObject *
keywords_for(PyObject *object, weir_stream stream)
{
	int type;
	int id;
	PyObject *device =
	    PyObject_CallMethod(object, "__dlpack_device__", NULL);
	bool right = device != NULL && PyTuple_Check(device) &&
	    PyTuple_Size(device) == 2;

	if (device != NULL && !right)
		PyErr_Format(PyExc_TypeError,
		    "__dlpack_device__ of %R does not give a pair", object);
	if (right) {
		type = (int)PyLong_AsLong(PyTuple_GetItem(device, 0));
		id = (int)PyLong_AsLong(PyTuple_GetItem(device, 1));
		right = PyErr_Occurred() == NULL;
	}
	Py_XDECREF(device);
	if (!right)
		return NULL;
	PyObject *keywords = Py_BuildValue(
	    "{s(ii)}", "max_version", WEIR_DLPACK_MAJOR, WEIR_DLPACK_MINOR);
	if (type != WEIR_DL_CUDA || keywords == NULL)
		return keywords;
	if (!arg_stream_resolve(id, &stream)) {
		Py_DecRef(keywords);
		return NULL;
	}
	PyObject *handle =
	    PyLong_FromVoidPtr(stream == NULL ? WEIR_STREAM_LEGACY : stream);
	if (handle == NULL ||
	    PyDict_SetItemString(keywords, "stream", handle) != 0) {
		Py_DecRef(keywords);
		keywords = NULL;
	}
	Py_XDECREF(handle);
	return keywords;
}

/* Request a capsule; producers older than versions do not know the keyword. */
static PyObject *
ask_capsule(PyObject *object, PyObject *keywords)
{
	PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
	PyObject *none = PyTuple_New(0);
	PyObject *capsule = method == NULL || none == NULL ?
	    NULL :
	    PyObject_Call(method, none, keywords);

	if (capsule == NULL && method != NULL &&
	    PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		if (PyDict_DelItemString(keywords, "max_version") == 0)
			capsule = PyObject_Call(method, none, keywords);
	}
	Py_XDECREF(method);
	Py_XDECREF(none);
	return capsule;
}

PyDoc_STRVAR(from_dlpack_doc,
    "from_dlpack($module, object, stream=None)\n--\n\n"
    "A tensor on the memory of an object with __dlpack__, or of a capsule, "
    "which\n"
    "is kept; nothing is copied.\n\n"
    "stream: the producer puts it behind its work on the memory; None is the\n"
    "current one. The memory is given back when the last tensor on it is gone\n"
    "and weir's work on it is done.\n\n"
    "Raises BufferError for a type, device or version that weir does not "
    "have,\n"
    "ValueError for a capsule that was used before.");

static PyObject *
module_from_dlpack(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "object", "stream", NULL };
	PyObject *object;
	weir_stream stream = ARG_STREAM_CURRENT;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&:from_dlpack",
		names, &object, arg_stream, &stream))
		return NULL;
	if (PyCapsule_CheckExact(object))
		return import_capsule(object, stream);
	PyObject *keywords = keywords_for(object, stream);
	if (keywords == NULL)
		return NULL;
	PyObject *capsule = ask_capsule(object, keywords);
	Py_DecRef(keywords);
	if (capsule == NULL)
		return NULL;
	PyObject *tensor = import_capsule(capsule, stream);
	Py_DecRef(capsule);
	return tensor;
}

/* ---- The exchange table ------------------------------------------------ */

/*
 * Functions that C extensions call instead of the methods, with the GIL held.
 * They order no streams; the work stream is the current one.
 */

static bool
expect_tensor(PyObject *object)
{
	if (!tensor_is(object))
		PyErr_Format(
		    PyExc_TypeError, "object is a weir.Tensor, not %R", object);
	return tensor_is(object);
}

static int
table_give(void *object, struct weir_dl_versioned **out)
{
	enum weir_status status;

	if (!expect_tensor(object))
		return -1;
	status =
	    weir_tensor_to_dlpack(tensor_of(object), WEIR_STREAM_ANY, 0, out);
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK ? 0 : -1;
}

static int
table_take(struct weir_dl_versioned *managed, void **out)
{
	const struct content content = { .versioned = true, .as.now = managed };
	PyObject *tensor = import_content(&content, ARG_STREAM_CURRENT);

	if (tensor == NULL)
		return -1;
	*out = tensor;
	return 0;
}

static int
table_view(void *object, struct weir_dl_tensor *out)
{
	if (!expect_tensor(object))
		return -1;
	weir_tensor_dl_view(tensor_of(object), out);
	return 0;
}

bool
dlpack_setup(PyObject *type)
{
	static struct weir_dl_exchange table;

	weir_dl_exchange_init(&table);
	table.managed_tensor_from_py_object_no_sync = table_give;
	table.managed_tensor_to_py_object_no_sync = table_take;
	table.dltensor_from_py_object_no_sync = table_view;
	PyObject *capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL);
	bool set = capsule != NULL &&
	    PyObject_SetAttrString(
		type, "__dlpack_c_exchange_api__", capsule) == 0;
	Py_XDECREF(capsule);
	return set;
}

PyMethodDef dlpack_functions[] = {
	{ "from_dlpack", NATIVE_KEYWORDS(module_from_dlpack),
	    METH_VARARGS | METH_KEYWORDS, from_dlpack_doc },
	{ NULL, NULL, 0, NULL },
};
