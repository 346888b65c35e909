/*
 * Filling, copying, converting; elements as Python numbers.
 */
#include "python/native/tensor.h"

/* ---- Filling ----------------------------------------------------------- */

static bool
fill_tensor(struct weir_tensor *tensor, const struct tensor_scalar *value,
    weir_stream stream)
{
	struct weir_tensor_info info = { .struct_size = sizeof info };
	enum weir_status status;

	weir_tensor_info(tensor, &info);
	if (info.memory != WEIR_MEMORY_HOST &&
	    !arg_stream_resolve(info.device, &stream))
		return false;
	if (stream == ARG_STREAM_CURRENT)
		stream = NULL;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_fill(tensor, value->dtype, &value->value, stream);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

PyDoc_STRVAR(fill_doc,
    "fill_($self, value, stream=None)\n--\n\n"
    "Set every element to a bool, int, float or complex. Gives the tensor.\n"
    "Raises InvalidArgumentError for a read-only tensor or one that repeats\n"
    "elements by a stride of 0. Does not wait for the device.");

static PyObject *
tensor_fill(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "value", "stream", NULL };
	PyObject *value;
	weir_stream stream = ARG_STREAM_CURRENT;
	struct tensor_scalar scalar;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "O|O&:fill_", names, &value, arg_stream, &stream))
		return NULL;
	int kind = tensor_scalar(value, &scalar);
	if (kind == 0)
		PyErr_Format(
		    PyExc_TypeError, "value is a number, not %R", value);
	if (kind <= 0 || !fill_tensor(tensor_of(self), &scalar, stream))
		return NULL;
	Py_IncRef(self);
	return self;
}

/* ---- Copying ----------------------------------------------------------- */

/* The device whose current stream a copy uses: that of the side that is on a
 * device. */
static bool
copy_stream(const struct weir_tensor *to, const struct weir_tensor *from,
    weir_stream *stream)
{
	struct weir_tensor_info a = { .struct_size = sizeof a };
	struct weir_tensor_info b = { .struct_size = sizeof b };

	weir_tensor_info(to, &a);
	weir_tensor_info(from, &b);
	if (*stream != ARG_STREAM_CURRENT)
		return true;
	if (a.memory == WEIR_MEMORY_HOST && b.memory == WEIR_MEMORY_HOST) {
		*stream = NULL;
		return true;
	}
	return arg_stream_resolve(
	    b.memory == WEIR_MEMORY_DEVICE ? b.device : a.device, stream);
}

static bool
copy(struct weir_tensor *to, const struct weir_tensor *from, weir_stream stream,
    unsigned flags)
{
	enum weir_status status;

	if (!copy_stream(to, from, &stream))
		return false;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_copy(to, from, stream, flags);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

/* The result of asarray() for an object: a new reference. */
static PyObject *
as_tensor(PyObject *object)
{
	if (tensor_is(object)) {
		Py_IncRef(object);
		return object;
	}
	PyObject *module = PyImport_ImportModule("weir");
	PyObject *tensor = module == NULL ?
	    NULL :
	    PyObject_CallMethod(module, "asarray", "O", object);
	Py_XDECREF(module);
	return tensor;
}

PyDoc_STRVAR(copy_doc,
    "copy_($self, source, non_blocking=False, stream=None)\n--\n\n"
    "Copy the elements of another tensor, or of what asarray() takes, "
    "converting\n"
    "types. A smaller source is repeated as by expand().\n\n"
    "non_blocking: do not wait for the device where page-locked memory makes\n"
    "that possible. A copy from or to the host waits otherwise. stream: where\n"
    "the work is queued; None is the current one. Gives the tensor. Raises\n"
    "InvalidArgumentError for shapes that do not fit or a read-only tensor.\n"
    "The GIL is released meanwhile.");

static PyObject *
tensor_copy(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "source", "non_blocking", "stream", NULL };
	PyObject *object;
	weir_stream stream = ARG_STREAM_CURRENT;
	int non_blocking = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pO&:copy_", names,
		&object, &non_blocking, arg_stream, &stream))
		return NULL;
	PyObject *source = as_tensor(object);
	if (source == NULL)
		return NULL;
	bool copied = copy(tensor_of(self), tensor_of(source), stream,
	    non_blocking ? WEIR_COPY_NON_BLOCKING : WEIR_COPY_DEFAULT);
	Py_DecRef(source);
	if (!copied)
		return NULL;
	Py_IncRef(self);
	return self;
}

int
tensor_set_item(PyObject *self, PyObject *key, PyObject *value)
{
	struct tensor_scalar scalar;

	if (value == NULL) {
		PyErr_SetString(
		    PyExc_TypeError, "elements of a tensor cannot be deleted");
		return -1;
	}
	int kind = tensor_scalar(value, &scalar);
	PyObject *view = kind < 0 ? NULL : tensor_get_item(self, key);
	if (view == NULL)
		return -1;
	bool set = false;
	if (kind > 0) {
		set = fill_tensor(tensor_of(view), &scalar, ARG_STREAM_CURRENT);
	} else {
		PyObject *source = as_tensor(value);
		if (source != NULL)
			set = copy(tensor_of(view), tensor_of(source),
			    ARG_STREAM_CURRENT, WEIR_COPY_DEFAULT);
		Py_XDECREF(source);
	}
	Py_DecRef(view);
	return set ? 0 : -1;
}

PyDoc_STRVAR(to_doc,
    "to($self, place=None, dtype=None, *, non_blocking=False, copy=False,\n"
    "   stream=None)\n--\n\n"
    "The tensor elsewhere or as another type: itself again if nothing would\n"
    "change and copy is False, else a new contiguous one.\n\n"
    "place: 'cuda', 'cuda:N', a device's number, 'pinned', 'cpu'; None is "
    "where\n"
    "it is. non_blocking: a copy to 'cpu' comes in page-locked memory then "
    "and\n"
    "can be read once the stream is synchronised. stream: where to copy, and "
    "the\n"
    "new tensor's. Raises as empty() and copy_(). The GIL is released "
    "meanwhile.");

/* The place of a tensor, with a stream. */
static struct tensor_place
place_of(PyObject *self)
{
	struct weir_tensor_info info = tensor_info(self);

	return (struct tensor_place){ .given = true,
		.place = { .struct_size = sizeof(struct weir_place),
		    .memory = info.memory,
		    .device = info.device } };
}

static PyObject *
convert(PyObject *self, enum weir_dtype dtype, struct tensor_place *place,
    unsigned flags)
{
	struct weir_tensor *result = NULL;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = weir_tensor_to(
	    tensor_of(self), dtype, &place->place, flags, &result);
	NATIVE_TAKE_GIL;
	return tensor_result(status, result);
}

static PyObject *
tensor_to(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "place", "dtype", "non_blocking", "copy",
		"stream", NULL };
	struct tensor_place place = { .given = false };
	enum weir_dtype dtype = WEIR_DTYPE_NONE;
	int non_blocking = 0;
	int always = 0;
	weir_stream stream = ARG_STREAM_CURRENT;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&O&$ppO&:to", names,
		tensor_arg_place, &place, tensor_arg_dtype, &dtype,
		&non_blocking, &always, arg_stream, &stream))
		return NULL;
	if (!place.given)
		place = place_of(self);
	else if (place.place.memory != WEIR_MEMORY_DEVICE)
		/* Copies to the host are queued on the tensor's device. */
		place.place.device = tensor_info(self).device;
	if (tensor_info(self).memory == WEIR_MEMORY_HOST &&
	    place.place.memory == WEIR_MEMORY_HOST &&
	    stream == ARG_STREAM_CURRENT)
		stream = NULL;
	else if (place.place.memory == WEIR_MEMORY_HOST &&
	    !arg_stream_resolve(place.place.device, &stream))
		return NULL;
	if (!tensor_place_resolve(&place, stream))
		return NULL;
	if (place.place.memory == WEIR_MEMORY_HOST)
		place.place.stream = stream;
	return convert(self, dtype, &place,
	    (non_blocking ? WEIR_COPY_NON_BLOCKING : 0) |
		(always ? WEIR_COPY_ALWAYS : 0));
}

PyDoc_STRVAR(contiguous_doc,
    "contiguous($self, stream=None)\n--\n\n"
    "The tensor itself if it is row-major without gaps, else such a copy in "
    "the\n"
    "same memory, made on a stream.");

static PyObject *
tensor_contiguous(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	weir_stream stream = ARG_STREAM_CURRENT;
	struct weir_tensor_info info = tensor_info(self);
	struct weir_tensor *result = NULL;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O&:contiguous", names, arg_stream, &stream))
		return NULL;
	if (info.memory == WEIR_MEMORY_HOST && stream == ARG_STREAM_CURRENT)
		stream = NULL;
	if (!arg_stream_resolve(info.device, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_contiguous(tensor_of(self), stream, &result);
	NATIVE_TAKE_GIL;
	return tensor_result(status, result);
}

/* ---- Streams ----------------------------------------------------------- */

static PyObject *
tensor_record(PyObject *self, PyObject *arg)
{
	weir_stream stream;

	if (!arg_stream(arg, &stream) ||
	    !arg_stream_resolve(tensor_info(self).device, &stream))
		return NULL;
	return error_none(weir_tensor_record(tensor_of(self), stream));
}

static PyObject *
tensor_join(PyObject *self, PyObject *arg)
{
	weir_stream stream;
	enum weir_status status;

	if (!arg_stream(arg, &stream) ||
	    !arg_stream_resolve(tensor_info(self).device, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_join(tensor_of(self), stream);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

static PyObject *
tensor_synchronize(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_synchronize(tensor_of(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

/* ---- Numbers of Python ------------------------------------------------- */

/* The widest type of a kind, which Python's numbers contain completely. */
static enum weir_dtype
widest(enum weir_dtype dtype)
{
	switch (dtype) {
	case WEIR_BOOL:
		return WEIR_BOOL;
	case WEIR_INT8:
	case WEIR_INT16:
	case WEIR_INT32:
	case WEIR_INT64:
		return WEIR_INT64;
	case WEIR_UINT8:
	case WEIR_UINT16:
	case WEIR_UINT32:
	case WEIR_UINT64:
		return WEIR_UINT64;
	case WEIR_COMPLEX64:
	case WEIR_COMPLEX128:
		return WEIR_COMPLEX128;
	default:
		return WEIR_FLOAT64;
	}
}

static PyObject *
number_at(enum weir_dtype dtype, const unsigned char *at)
{
	struct tensor_scalar s = { .dtype = dtype };

	memcpy(&s.value, at, weir_dtype_size(dtype));
	switch (dtype) {
	case WEIR_BOOL:
		return PyBool_FromLong(*at != 0);
	case WEIR_INT64:
		return PyLong_FromLongLong(s.value.whole);
	case WEIR_UINT64:
		return PyLong_FromUnsignedLongLong(s.value.natural);
	case WEIR_COMPLEX128:
		return PyComplex_FromDoubles(
		    s.value.complex[0], s.value.complex[1]);
	default:
		return PyFloat_FromDouble(s.value.real);
	}
}

/* The elements of dimension `dim` and the following ones as lists; *at is
 * advanced. */
static PyObject *
list_of(const struct weir_tensor_info *info, int dim, const unsigned char **at)
{
	if (dim == info->ndim) {
		PyObject *number = number_at(info->dtype, *at);
		*at += weir_dtype_size(info->dtype);
		return number;
	}
	PyObject *list = PyList_New(0);
	for (int64_t i = 0; list != NULL && i < info->shape[dim]; i++) {
		PyObject *one = list_of(info, dim + 1, at);
		if (one == NULL || PyList_Append(list, one) != 0) {
			Py_DecRef(list);
			list = NULL;
		}
		Py_XDECREF(one);
	}
	return list;
}

/* The elements as Python numbers: nested lists, or one number. */
static PyObject *
tensor_to_list(PyObject *self, PyObject *none)
{
	struct tensor_place host = { .given = true,
		.place = { .struct_size = sizeof host.place,
		    .memory = WEIR_MEMORY_HOST,
		    .device = tensor_info(self).device } };
	weir_stream stream = ARG_STREAM_CURRENT;

	(void)none;
	if (tensor_info(self).memory == WEIR_MEMORY_HOST)
		stream = NULL;
	if (!arg_stream_resolve(host.place.device, &stream))
		return NULL;
	host.place.stream = stream;
	PyObject *copy = convert(
	    self, widest(tensor_info(self).dtype), &host, WEIR_COPY_ALWAYS);
	if (copy == NULL)
		return NULL;
	struct weir_tensor_info info = tensor_info(copy);
	const unsigned char *at = info.data;
	PyObject *list = list_of(&info, 0, &at);
	Py_DecRef(copy);
	return list;
}

static PyObject *
tensor_item(PyObject *self, PyObject *none)
{
	struct weir_tensor *flat = NULL;
	struct weir_tensor_info info = tensor_info(self);

	if (info.elements != 1) {
		PyErr_Format(PyExc_ValueError,
		    "a tensor of %lld elements is not one number",
		    (long long)info.elements);
		return NULL;
	}
	enum weir_status status =
	    weir_tensor_squeeze_all(tensor_of(self), &flat);
	PyObject *view = tensor_result(status, flat);
	if (view == NULL)
		return NULL;
	PyObject *number = tensor_to_list(view, none);
	Py_DecRef(view);
	return number;
}

/* ---- NumPy ------------------------------------------------------------- */

PyDoc_STRVAR(numpy_doc,
    "numpy($self)\n--\n\n"
    "The elements as a NumPy array: the same memory for 'cpu' and 'pinned', a\n"
    "copy of what is on a device, which waits. Raises TypeError for a type "
    "that\n"
    "NumPy does not have.");

static PyObject *
tensor_numpy(PyObject *self, PyObject *none)
{
	struct weir_tensor_info info = tensor_info(self);

	(void)none;
	if (tensor_format(info.dtype) == NULL) {
		PyErr_Format(PyExc_TypeError,
		    "NumPy has no %s: convert it by to(dtype=...)",
		    weir_dtype_name(info.dtype));
		return NULL;
	}
	PyObject *numpy = PyImport_ImportModule("numpy");
	if (numpy == NULL)
		return NULL;
	PyObject *host = self;
	Py_IncRef(self);
	if (info.memory == WEIR_MEMORY_DEVICE) {
		Py_DecRef(self);
		host = PyObject_CallMethod(self, "to", "s", "cpu");
	}
	PyObject *array = host == NULL ?
	    NULL :
	    PyObject_CallMethod(numpy, "asarray", "O", host);
	Py_XDECREF(host);
	Py_DecRef(numpy);
	return array;
}

/* NumPy calls this for tensors without a buffer; otherwise it would read the
 * elements one by one. */
static PyObject *
tensor_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
	(void)args;
	(void)kwargs;
	PyErr_Format(PyExc_TypeError,
	    "%R is not turned into a NumPy array unasked: use numpy()", self);
	return NULL;
}

PyMethodDef tensor_copy_methods[] = {
	{ "fill_", NATIVE_KEYWORDS(tensor_fill), METH_VARARGS | METH_KEYWORDS,
	    fill_doc },
	{ "copy_", NATIVE_KEYWORDS(tensor_copy), METH_VARARGS | METH_KEYWORDS,
	    copy_doc },
	{ "to", NATIVE_KEYWORDS(tensor_to), METH_VARARGS | METH_KEYWORDS,
	    to_doc },
	{ "contiguous", NATIVE_KEYWORDS(tensor_contiguous),
	    METH_VARARGS | METH_KEYWORDS, contiguous_doc },
	{ "record_stream", tensor_record, METH_O,
	    "record_stream($self, stream)\n--\n\n"
	    "Say that work queued on a stream uses the memory, so that it is "
	    "not reused before\nthat work is done. weir's own calls do this by "
	    "themselves." },
	{ "join", tensor_join, METH_O,
	    "join($self, stream)\n--\n\n"
	    "Make work queued on a stream after this call come after all work "
	    "that is known of\non the memory. The host does not wait." },
	{ "synchronize", tensor_synchronize, METH_NOARGS,
	    "synchronize($self)\n--\n\n"
	    "Wait until all work known of on the memory is done." },
	{ "tolist", tensor_to_list, METH_NOARGS,
	    "tolist($self)\n--\n\n"
	    "The elements as nested lists of Python's numbers; of a tensor of "
	    "no dimensions,\none number. Waits." },
	{ "item", tensor_item, METH_NOARGS,
	    "item($self)\n--\n\n"
	    "The one element as a number of Python. ValueError if there are "
	    "others. Waits." },
	{ "numpy", tensor_numpy, METH_NOARGS, numpy_doc },
	{ "__array__", NATIVE_KEYWORDS(tensor_array),
	    METH_VARARGS | METH_KEYWORDS, NULL },
	{ NULL, NULL, 0, NULL },
};
