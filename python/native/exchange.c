/*
 * Exchanging memory with other libraries: Python's buffers and the CUDA Array
 * Interface, in both directions.
 *
 * Imported memory keeps a reference to its owner until the last tensor on it is
 * gone. The reference is dropped with the GIL held; after the interpreter has
 * ended it is not dropped.
 */
#include "python/native/tensor.h"

#include <stdlib.h>

#include <weir/exchange.h>

/* The buffer protocol's names of the types; the other types have none. */
static const char *const formats[WEIR_FLOAT8_E8M0FNU + 1] = {
	[WEIR_BOOL] = "?",
	[WEIR_INT8] = "b",
	[WEIR_INT16] = "h",
	[WEIR_INT32] = "i",
	[WEIR_INT64] = "q",
	[WEIR_UINT8] = "B",
	[WEIR_UINT16] = "H",
	[WEIR_UINT32] = "I",
	[WEIR_UINT64] = "Q",
	[WEIR_FLOAT16] = "e",
	[WEIR_FLOAT32] = "f",
	[WEIR_FLOAT64] = "d",
	[WEIR_COMPLEX64] = "Zf",
	[WEIR_COMPLEX128] = "Zd",
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

const char *
tensor_format(enum weir_dtype dtype)
{
	return formats[dtype];
}

/* ---- Taking memory over ------------------------------------------------ */

/* The bytes below and above the element at index 0, 0, ... that contain
 * elements. False, with an exception set, if they exceed the range of a
 * pointer. */
static bool
extent(const struct weir_layout *layout, size_t *below, size_t *above)
{
	__int128 item = (__int128)weir_dtype_size(layout->dtype);
	__int128 low = 0;
	__int128 high = item;
	const __int128 most = (__int128)WEIR_SIZE_MAX;

	*below = 0;
	*above = 0;
	for (int i = 0; i < layout->ndim; i++) {
		if (layout->shape[i] < 0) {
			PyErr_Format(PyExc_ValueError,
			    "shape[%d] is %lld; it is 0 or more", i,
			    (long long)layout->shape[i]);
			return false;
		}
		if (layout->shape[i] == 0)
			return true;
	}
	for (int i = 0; i < layout->ndim; i++) {
		__int128 step = (__int128)(layout->shape[i] - 1) *
		    layout->strides[i] * item;
		low += step < 0 ? step : 0;
		high += step > 0 ? step : 0;
		if (low < -most || high > most) {
			PyErr_Format(PyExc_ValueError,
			    "the elements lie in more than 2**60 bytes");
			return false;
		}
	}
	*below = (size_t)-low;
	*above = (size_t)high;
	return true;
}

/* Row-major strides of a shape, in elements; without elements they may have any
 * value. */
static void
row_major(const int64_t *shape, int n, int64_t *strides)
{
	uint64_t stride = 1;

	for (int i = n - 1; i >= 0; i--) {
		strides[i] = (int64_t)stride;
		stride *= (uint64_t)shape[i];
	}
}

/* Foreign memory with a layout, to become a tensor. `layout` begins at the
 * element at index 0, at `first`. On failure `foreign->give` is called, too. */
struct tensor_import {
	struct weir_foreign foreign; /* data and bytes are computed */
	struct weir_layout layout;
	void *first;
	int64_t strides[WEIR_DIMS_MAX]; /* for layout.strides */
};

/* Return memory that cannot be imported, and preserve the exception. Returns
 * NULL. */
static PyObject *
tensor_give_up(const struct weir_foreign *foreign)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	foreign->give(foreign->closure, foreign->data);
	PyErr_Restore(type, value, traceback);
	return NULL;
}

static PyObject *
tensor_import(struct tensor_import *import)
{
	struct weir_foreign *foreign = &import->foreign;
	struct weir_storage *storage = NULL;
	struct weir_tensor *tensor = NULL;
	size_t below;
	size_t above;

	if (import->layout.strides == NULL) {
		row_major(
		    import->layout.shape, import->layout.ndim, import->strides);
		import->layout.strides = import->strides;
	}
	if (!extent(&import->layout, &below, &above))
		return tensor_give_up(foreign);
	if (import->first == NULL && above != 0) {
		PyErr_SetString(PyExc_ValueError,
		    "data is NULL, but the shape has elements");
		return tensor_give_up(foreign);
	}
	foreign->struct_size = sizeof *foreign;
	foreign->bytes = below + above;
	foreign->data =
	    foreign->bytes == 0 ? NULL : (char *)import->first - below;
	import->layout.struct_size = sizeof import->layout;
	import->layout.offset_bytes = below;
	enum weir_status status = weir_storage_wrap(foreign, &storage);
	if (status != WEIR_OK) {
		error_raise(status);
		return tensor_give_up(foreign);
	}
	status = weir_tensor_over(storage, &import->layout,
	    foreign->has_stream ? foreign->stream : NULL, &tensor);
	if (status != WEIR_OK)
		error_raise(status);
	/* The last reference returns the memory. */
	weir_storage_release(storage);
	return status == WEIR_OK ? tensor_wrap(tensor) : NULL;
}

/* Call `drop(closure)` with the GIL, on any thread, and preserve the current
 * exception. Without an interpreter there is nothing to drop. */
static bool
drop_with_gil(void (*drop)(void *), void *closure)
{
	if (!Py_IsInitialized())
		return false;
	PyGILState_STATE gil = PyGILState_Ensure();
	PyObject *type;
	PyObject *value;
	PyObject *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	drop(closure);
	PyErr_Restore(type, value, traceback);
	PyGILState_Release(gil);
	return true;
}

static void
drop_reference(void *object)
{
	Py_DecRef(object);
}

static void
drop_view(void *view)
{
	native_release_buffer(view);
}

static void
give_object(void *closure, void *data)
{
	(void)data;
	drop_with_gil(drop_reference, closure);
}

static void
give_buffer(void *closure, void *data)
{
	(void)data;
	if (drop_with_gil(drop_view, closure))
		free(closure);
}

/* ---- Buffers ----------------------------------------------------------- */

static bool
asks(int flags, int wanted)
{
	return (flags & wanted) == wanted;
}

/* Column-major, without gaps. */
static bool
is_column_major(const struct weir_tensor_info *info)
{
	int64_t stride = 1;

	if (info->elements == 0)
		return true;
	for (int i = 0; i < info->ndim; i++) {
		if (info->shape[i] != 1 && info->strides[i] != stride)
			return false;
		stride *= info->shape[i];
	}
	return true;
}

/* Are the elements in an order that the reader of a buffer can use? */
static bool
has_order(const struct weir_tensor_info *info, int flags)
{
	bool row = info->contiguous;
	bool column = is_column_major(info);

	if (!asks(flags, NATIVE_BUF_STRIDES) || asks(flags, NATIVE_BUF_C))
		return row;
	if (asks(flags, NATIVE_BUF_F))
		return column;
	return !asks(flags, NATIVE_BUF_ANY) || row || column;
}

int
tensor_get_buffer(PyObject *self, struct native_buffer *view, int flags)
{
	enum { FORMAT = NATIVE_BUF_FORMAT, ND = NATIVE_BUF_ND };
	struct weir_tensor_info info = tensor_info(self);
	const char *format = formats[info.dtype];
	bool strided = asks(flags, NATIVE_BUF_STRIDES);
	const char *wrong = NULL;

	view->obj = NULL;
	if (info.memory == WEIR_MEMORY_DEVICE)
		wrong = "the memory is on a device: use numpy() or to('cpu')";
	else if (format == NULL)
		wrong = "buffers have no name for the type";
	else if (info.read_only && (flags & NATIVE_BUF_WRITABLE) != 0)
		wrong = "the tensor is read-only";
	else if (!has_order(&info, flags))
		wrong = "the tensor is not contiguous";
	if (wrong != NULL) {
		PyErr_SetString(PyExc_BufferError, wrong);
		return -1;
	}
	Py_ssize_t *strides = malloc(((size_t)info.ndim + 1) * sizeof *strides);
	if (strides == NULL) {
		PyErr_NoMemory();
		return -1;
	}
	size_t item = weir_dtype_size(info.dtype);
	for (int i = 0; i < info.ndim; i++)
		strides[i] = (Py_ssize_t)(info.strides[i] * (int64_t)item);
	*view = (struct native_buffer){
		.buf = info.data,
		.obj = self,
		.len = (Py_ssize_t)info.bytes,
		.itemsize = (Py_ssize_t)item,
		.readonly = info.read_only,
		.ndim = info.ndim,
		.format = (flags & FORMAT) != 0 ? (char *)format : NULL,
		.shape = (flags & ND) == ND ? (Py_ssize_t *)info.shape : NULL,
		.strides = strided ? strides : NULL,
		.internal = strides,
	};
	Py_IncRef(self);
	return 0;
}

void
tensor_release_buffer(PyObject *self, struct native_buffer *view)
{
	(void)self;
	free(view->internal);
}

/* The type of a buffer's format, with this machine's sizes and byte order. */
static enum weir_dtype
dtype_of_format(const char *format, Py_ssize_t item)
{
	if (format == NULL)
		return WEIR_UINT8;
	if (*format == '@' || *format == '=' || *format == '<' ||
	    *format == '|')
		format++;
	/* "l" and "L" have the size of the items. */
	const char *same = strcmp(format, "l") == 0 ? item == 8 ? "q" : "i" :
	    strcmp(format, "L") == 0                ? item == 8 ? "Q" : "I" :
	    strcmp(format, "c") == 0                ? "B" :
						      format;
	for (int d = 1; d < FORMATS; d++)
		if (formats[d] != NULL && strcmp(formats[d], same) == 0 &&
		    weir_dtype_size((enum weir_dtype)d) == (size_t)item)
			return (enum weir_dtype)d;
	return WEIR_DTYPE_NONE;
}

/* Describe a buffer; false with an exception set. */
static bool
read_buffer(const struct native_buffer *view, struct tensor_import *import)
{
	import->layout.dtype = dtype_of_format(view->format, view->itemsize);
	if (import->layout.dtype == WEIR_DTYPE_NONE) {
		PyErr_Format(PyExc_TypeError,
		    "a buffer of format '%s' has no type of weir's",
		    view->format);
		return false;
	}
	if (view->ndim > WEIR_DIMS_MAX) {
		PyErr_Format(PyExc_ValueError,
		    "the buffer has %d dimensions; there are at most %d",
		    view->ndim, WEIR_DIMS_MAX);
		return false;
	}
	for (int i = 0; i < view->ndim; i++) {
		if (view->strides[i] % view->itemsize != 0) {
			PyErr_Format(PyExc_ValueError,
			    "strides[%d] is %zd bytes, no multiple of %zd", i,
			    view->strides[i], view->itemsize);
			return false;
		}
		import->strides[i] = view->strides[i] / view->itemsize;
	}
	import->layout.ndim = view->ndim;
	import->layout.shape = (const int64_t *)view->shape;
	import->layout.strides = import->strides;
	import->first = view->buf;
	return true;
}

PyDoc_STRVAR(from_buffer_doc,
    "from_buffer($module, object)\n--\n\n"
    "A tensor of the host on the memory of an object that has the buffer\n"
    "protocol (numpy.ndarray, bytearray, bytes, memoryview), which is kept. "
    "It\n"
    "is read-only if the buffer is. Raises TypeError for a type there is not.");

static PyObject *
module_from_buffer(PyObject *module, PyObject *object)
{
	enum { FLAGS = NATIVE_BUF_STRIDES | NATIVE_BUF_FORMAT };
	struct native_buffer *view = malloc(sizeof *view);

	(void)module;
	if (view == NULL)
		return PyErr_NoMemory();
	if (native_get_buffer(object, view, FLAGS) != 0) {
		free(view);
		return NULL;
	}
	struct tensor_import import = { .foreign = { .memory = WEIR_MEMORY_HOST,
					    .read_only = view->readonly != 0,
					    .give = give_buffer,
					    .closure = view } };
	if (!read_buffer(view, &import))
		return tensor_give_up(&import.foreign);
	return tensor_import(&import);
}

/* ---- The CUDA Array Interface ------------------------------------------ */

/* The values of an interface, as Python objects. */
static PyObject *
interface_dict(const struct weir_array_interface *array)
{
	PyObject *strides = array->has_strides ?
	    tensor_lengths(array->strides, array->ndim) :
	    native_none();

	return Py_BuildValue("{sNsss(NN)sNsisN}", "shape",
	    tensor_lengths(array->shape, array->ndim), "typestr",
	    array->typestr, "data", PyLong_FromVoidPtr(array->data),
	    PyBool_FromLong(array->read_only), "strides", strides, "version",
	    array->version, "stream",
	    PyLong_FromUnsignedLongLong(array->stream));
}

PyObject *
tensor_get_interface(PyObject *self, void *closure)
{
	struct weir_array_interface array = { .struct_size = sizeof array };
	struct weir_tensor_info info = tensor_info(self);
	enum weir_status status;

	(void)closure;
	if (info.memory == WEIR_MEMORY_HOST ||
	    info.memory == WEIR_MEMORY_PINNED) {
		PyErr_Format(PyExc_AttributeError,
		    "%R has no __cuda_array_interface__", self);
		return NULL;
	}
	NATIVE_RELEASE_GIL;
	status = weir_tensor_array_interface(tensor_of(self), &array);
	NATIVE_TAKE_GIL;
	if (status == WEIR_ENOTSUP) {
		PyErr_Format(PyExc_TypeError,
		    "the CUDA Array Interface has no %s: use DLPack",
		    weir_dtype_name(info.dtype));
		return NULL;
	}
	if (status != WEIR_OK)
		return error_raise(status);
	return interface_dict(&array);
}

/* ---- Reading an interface ---------------------------------------------- */

static bool
wrong(PyObject *class, const char *what, PyObject *value)
{
	PyErr_Format(class, "__cuda_array_interface__: %s, not %R", what,
	    value == NULL ? Py_None : value);
	return false;
}

/* The members of an interface. A conversion may run Python code that changes
 * the dict, so a reference to each is held until all are read. */
enum member {
	MEMBER_VERSION,
	MEMBER_MASK,
	MEMBER_SHAPE,
	MEMBER_STRIDES,
	MEMBER_TYPESTR,
	MEMBER_DATA,
	MEMBER_STREAM,
	MEMBERS
};

struct members {
	PyObject *value[MEMBERS]; /* owned; NULL: there is none */
};

static bool
take_members(PyObject *dict, struct members *out)
{
	static const char *const names[MEMBERS] = { "version", "mask", "shape",
		"strides", "typestr", "data", "stream" };

	for (int i = 0; i < MEMBERS; i++) {
		PyObject *name = PyUnicode_FromString(names[i]);

		if (name != NULL)
			out->value[i] = PyDict_GetItemWithError(dict, name);
		Py_IncRef(out->value[i]);
		Py_DecRef(name);
		if (PyErr_Occurred() != NULL)
			return false;
	}
	return true;
}

static void
drop_members(struct members *members)
{
	for (int i = 0; i < MEMBERS; i++)
		Py_DecRef(members->value[i]);
}

/* weir decides whether it has the type, but a text that names no type at all is
 * a TypeError, as in other libraries. */
static bool
read_typestr(PyObject *value, struct weir_array_interface *out)
{
	const char *text;

	if (value == NULL || !PyUnicode_Check(value))
		return wrong(PyExc_TypeError, "typestr is a str", value);
	if (!PyArg_Parse(value, "s", &text))
		return false;
	size_t length = strlen(text);
	if (length < 3 || length >= sizeof out->typestr ||
	    strchr("biufcV", text[1]) == NULL)
		return wrong(
		    PyExc_TypeError, "typestr has a type of weir's own", value);
	memcpy(out->typestr, text, length + 1);
	return true;
}

static bool
read_data(PyObject *value, struct weir_array_interface *out)
{
	if (value == NULL || !PyTuple_Check(value) || PyTuple_Size(value) != 2)
		return wrong(
		    PyExc_TypeError, "data is (address, read-only)", value);
	PyObject *address = PyTuple_GetItem(value, 0);
	if (!PyLong_Check(address))
		return wrong(PyExc_TypeError, "data[0] is an int", address);
	out->data = PyLong_AsVoidPtr(address);
	int read_only = PyObject_IsTrue(PyTuple_GetItem(value, 1));
	out->read_only = read_only > 0;
	return read_only >= 0 && PyErr_Occurred() == NULL;
}

static bool
read_lengths(
    PyObject *shape, PyObject *strides, struct weir_array_interface *out)
{
	struct tensor_shape lengths;

	if (shape == NULL || !PyTuple_Check(shape))
		return wrong(PyExc_TypeError, "shape is a tuple", shape);
	if (!tensor_arg_shape(shape, &lengths))
		return false;
	out->ndim = lengths.n;
	memcpy(out->shape, lengths.lengths, sizeof out->shape);
	out->has_strides = strides != NULL && strides != Py_None;
	if (!out->has_strides)
		return true;
	if (!PyTuple_Check(strides))
		return wrong(PyExc_TypeError, "strides is a tuple", strides);
	if (!tensor_arg_shape(strides, &lengths))
		return false;
	memcpy(out->strides, lengths.lengths, sizeof out->strides);
	return lengths.n == out->ndim ||
	    wrong(PyExc_ValueError, "strides has a number for each dimension",
		strides);
}

static bool
read_stream(PyObject *value, struct weir_array_interface *out)
{
	out->has_stream = value != NULL && value != Py_None;
	if (!out->has_stream)
		return true;
	if (!PyLong_Check(value))
		return wrong(
		    PyExc_TypeError, "stream is an int or None", value);
	out->stream = (uintptr_t)PyLong_AsVoidPtr(value);
	return PyErr_Occurred() == NULL;
}

static bool
read_members(PyObject *const *value, struct weir_array_interface *out)
{
	PyObject *version = value[MEMBER_VERSION];
	PyObject *mask = value[MEMBER_MASK];

	if (version == NULL || !PyLong_Check(version))
		return wrong(PyExc_TypeError, "version is an int", version);
	/* A later version has all members of this one. */
	out->version = 3;
	out->has_mask = mask != NULL && mask != Py_None;
	return read_lengths(value[MEMBER_SHAPE], value[MEMBER_STRIDES], out) &&
	    read_typestr(value[MEMBER_TYPESTR], out) &&
	    read_data(value[MEMBER_DATA], out) &&
	    read_stream(value[MEMBER_STREAM], out);
}

static bool
read_interface(PyObject *dict, struct weir_array_interface *out)
{
	struct members members = { { NULL } };

	if (!PyDict_Check(dict))
		return wrong(PyExc_TypeError, "it is a dict", dict);
	bool right =
	    take_members(dict, &members) && read_members(members.value, out);
	drop_members(&members);
	return right;
}

PyDoc_STRVAR(from_interface_doc,
    "from_cuda_array_interface($module, object, device=None, stream=None)\n"
    "--\n\n"
    "A tensor on the memory of an object with __cuda_array_interface__, which "
    "is\n"
    "kept; nothing is copied.\n\n"
    "device: the device that it says; None asks the driver. stream: it is "
    "put\n"
    "behind the stream that the object names, which in turn is put behind\n"
    "weir's work when the last tensor on the memory is gone; None is the\n"
    "current one.\n\n"
    "Raises TypeError and ValueError for what the interface does not allow: a\n"
    "missing key, stream 0, a mask, big-endian types, strides that are no\n"
    "multiples of the item size, an address of no device.");

static PyObject *
import_interface(PyObject *object, const struct weir_array_interface *array,
    int device, weir_stream stream)
{
	const struct weir_owner owner = { .struct_size = sizeof owner,
		.give = give_object,
		.closure = object };
	struct weir_tensor *tensor = NULL;
	enum weir_status status;

	Py_IncRef(object); /* dropped by `give` */
	NATIVE_RELEASE_GIL;
	status = weir_tensor_from_array_interface(
	    array, device, stream, &owner, &tensor);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		Py_DecRef(object);
	return tensor_result(status, tensor);
}

static PyObject *
module_from_interface(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "object", "device", "stream", NULL };
	struct weir_array_interface array = { .struct_size = sizeof array };
	PyObject *object;
	int device = WEIR_DEVICE_CURRENT;
	weir_stream stream = ARG_STREAM_CURRENT;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs,
		"O|O&O&:from_cuda_array_interface", names, &object, arg_device,
		&device, arg_stream, &stream))
		return NULL;
	PyObject *dict =
	    PyObject_GetAttrString(object, "__cuda_array_interface__");
	if (dict == NULL)
		return NULL;
	bool right = read_interface(dict, &array);
	Py_DecRef(dict);
	if (!right || !arg_stream_resolve(device, &stream))
		return NULL;
	return import_interface(object, &array, device, stream);
}

PyMethodDef exchange_functions[] = {
	{ "from_buffer", module_from_buffer, METH_O, from_buffer_doc },
	{ "from_cuda_array_interface", NATIVE_KEYWORDS(module_from_interface),
	    METH_VARARGS | METH_KEYWORDS, from_interface_doc },
	{ NULL, NULL, 0, NULL },
};
