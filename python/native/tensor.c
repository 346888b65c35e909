/*
 * weir.Tensor: a view of counted memory, and the functions that make one.
 */
#include "python/native/tensor.h"

/* Dropping the last reference to foreign memory may wait for work. It is done
 * without the GIL, which that work may need. */
static void
destroy(struct weir_tensor *tensor)
{
	struct weir_tensor_info info = { .struct_size = sizeof info };
	struct weir_storage_info storage = { .struct_size = sizeof storage };

	if (weir_tensor_info(tensor, &info) != WEIR_OK ||
	    weir_storage_info(info.storage, &storage) != WEIR_OK ||
	    !storage.foreign) {
		weir_tensor_destroy(tensor);
		return;
	}
	NATIVE_RELEASE_GIL;
	weir_tensor_destroy(tensor);
	NATIVE_TAKE_GIL;
}

static void
tensor_dealloc(PyObject *object)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	if (tensor_of(object) != NULL)
		destroy(tensor_of(object));
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

static PyObject *
refuse_tensor(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(PyExc_TypeError,
	    "a weir.Tensor is made by weir.empty(), zeros(), full() or "
	    "asarray()");
	return NULL;
}

/* ---- Attributes -------------------------------------------------------- */

static PyObject *
get_shape(PyObject *self, void *closure)
{
	struct weir_tensor_info info = tensor_info(self);

	(void)closure;
	return tensor_lengths(info.shape, info.ndim);
}

static PyObject *
get_strides(PyObject *self, void *closure)
{
	struct weir_tensor_info info = tensor_info(self);

	(void)closure;
	return tensor_lengths(info.strides, info.ndim);
}

static PyObject *
get_dtype(PyObject *self, void *closure)
{
	(void)closure;
	return PyUnicode_FromString(weir_dtype_name(tensor_info(self).dtype));
}

static PyObject *
get_place(PyObject *self, void *closure)
{
	struct weir_tensor_info info = tensor_info(self);

	(void)closure;
	if (info.memory == WEIR_MEMORY_DEVICE)
		return PyUnicode_FromFormat("cuda:%d", info.device);
	return PyUnicode_FromString(info.memory == WEIR_MEMORY_HOST ?
		"cpu" :
		weir_memory_name(info.memory));
}

static PyObject *
get_transposed(PyObject *self, void *closure)
{
	struct weir_tensor *view = NULL;
	int dims[WEIR_DIMS_MAX];
	int ndim = tensor_info(self).ndim;

	(void)closure;
	for (int i = 0; i < ndim; i++)
		dims[i] = ndim - 1 - i;
	enum weir_status status =
	    weir_tensor_permute(tensor_of(self), dims, &view);
	return tensor_result(status, view);
}

/* A property that is a number; the closure selects it. */
enum number { DEVICE, NDIM, SIZE, NBYTES, ITEMSIZE, ADDRESS, STREAM };

static PyObject *
get_number(PyObject *self, void *closure)
{
	struct weir_tensor_info info = tensor_info(self);

	switch ((enum number)(uintptr_t)closure) {
	case DEVICE:
		return PyLong_FromLong(info.device);
	case NDIM:
		return PyLong_FromLong(info.ndim);
	case SIZE:
		return PyLong_FromLongLong(info.elements);
	case NBYTES:
		return PyLong_FromSize_t(info.bytes);
	case ITEMSIZE:
		return PyLong_FromSize_t(weir_dtype_size(info.dtype));
	case ADDRESS:
		return PyLong_FromVoidPtr(info.data);
	default:
		return arg_stream_number(info.stream);
	}
}

static PyObject *
get_contiguous(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(tensor_info(self).contiguous);
}

static PyObject *
get_read_only(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(tensor_info(self).read_only);
}

static PyObject *
tensor_repr(PyObject *self)
{
	char text[1024];

	weir_tensor_format(tensor_of(self), text, sizeof text);
	return PyUnicode_FromString(text);
}

static Py_ssize_t
tensor_length(PyObject *self)
{
	struct weir_tensor_info info = tensor_info(self);

	if (info.ndim == 0) {
		PyErr_SetString(
		    PyExc_TypeError, "a tensor of no dimensions has no length");
		return -1;
	}
	return (Py_ssize_t)info.shape[0];
}

/* Iteration as over a sequence. */
static PyObject *
tensor_sequence_item(PyObject *self, Py_ssize_t index)
{
	struct weir_tensor_info info = tensor_info(self);
	struct weir_tensor *view = NULL;

	if (info.ndim > 0 && index >= info.shape[0]) {
		PyErr_SetString(PyExc_IndexError, "index out of range");
		return NULL;
	}
	enum weir_status status =
	    weir_tensor_select(tensor_of(self), 0, index, &view);
	return tensor_result(status, view);
}

/* ---- The type ---------------------------------------------------------- */

static PyMethodDef own_methods[] = {
	{ "__dlpack__", NATIVE_KEYWORDS(dlpack_export),
	    METH_VARARGS | METH_KEYWORDS,
	    "__dlpack__($self, *, stream=None, max_version=None,\n"
	    "           dl_device=None, copy=None)\n--\n\n"
	    "A capsule of the tensor, as the DLPack standard has it: the "
	    "consumer's stream is\nput behind all work on the memory, which is "
	    "not reused before the work queued\nthere when the consumer lets "
	    "go of it. stream: None or 1 is the default stream, 2\nthat of the "
	    "thread, -1 none; 0 raises ValueError. Raises BufferError for what "
	    "the\nconsumer's version, device or a legacy capsule cannot "
	    "have." },
	{ "__dlpack_device__", dlpack_device, METH_NOARGS,
	    "__dlpack_device__($self)\n--\n\n(device type, device number)" },
	{ "__reduce_ex__", native_reduce, METH_O,
	    "__reduce_ex__($self, protocol)\n--\n\n"
	    "Pickled by value; between processes of multiprocessing, memory "
	    "of a device is shared\n(weir.ipc)." },
	{ NULL, NULL, 0, NULL },
};
#define NUMBER(name, which, doc)                                               \
	{                                                                      \
		name, get_number, NULL, doc, (void *)(uintptr_t)(which)        \
	}
static PyGetSetDef attributes[] = {
	{ "shape", get_shape, NULL, "Lengths, in elements.", NULL },
	{ "strides", get_strides, NULL, "Strides, in elements.", NULL },
	{ "T", get_transposed, NULL, "The dimensions in reverse order.", NULL },
	{ "dtype", get_dtype, NULL, "The type's name, as 'float32'.", NULL },
	{ "place", get_place, NULL,
	    "Where it is: 'cuda:0', 'pinned', 'cpu' or 'managed'.", NULL },
	NUMBER("device", DEVICE, "The device's number."),
	NUMBER("ndim", NDIM, "The number of dimensions."),
	NUMBER("size", SIZE, "The number of elements."),
	NUMBER("nbytes", NBYTES, "Bytes of the elements."),
	NUMBER("itemsize", ITEMSIZE, "Bytes of an element."),
	NUMBER("address", ADDRESS,
	    "The element at index 0, 0, ...; 0 if there is no element."),
	NUMBER("stream", STREAM, "The handle of its stream; -1 is any."),
	{ "is_contiguous", get_contiguous, NULL,
	    "Is it row-major, without gaps?", NULL },
	{ "read_only", get_read_only, NULL, "May it not be written to?", NULL },
	{ "__cuda_array_interface__", tensor_get_interface, NULL,
	    "The CUDA Array Interface, version 3. Memory of the host has none "
	    "(AttributeError);\nnor have types it cannot name (TypeError): "
	    "DLPack can.",
	    NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

/* The methods of all files, in one table. */
enum { METHODS_MAX = 64 };
static PyMethodDef methods[METHODS_MAX];

static void
gather_methods(void)
{
	PyMethodDef *const tables[] = { own_methods, tensor_view_methods,
		tensor_copy_methods };
	size_t n = 0;

	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
		for (size_t k = 0; tables[i][k].ml_name != NULL; k++)
			if (n < METHODS_MAX - 1)
				methods[n++] = tables[i][k];
	methods[n] = (PyMethodDef){ NULL, NULL, 0, NULL };
}

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	    (char *)"A view of counted memory: elements of one type with a "
		    "shape and strides.\n\n"
		    "weir.empty(), zeros(), ones(), full(), asarray() and "
		    "from_dlpack() make one. Views\n(indexing, reshape(), "
		    "permute() ...) share the memory and copy nothing. A "
		    "tensor "
		    "is\nread by all that know DLPack or the CUDA Array "
		    "Interface; host and page-locked\nmemory has the buffer "
		    "protocol as well. The memory is freed with its last "
		    "tensor "
		    "and\nlast consumer, and not reused before the work that "
		    "weir queued on it is done." },
	{ Py_tp_new, refuse_tensor },
	{ Py_tp_dealloc, tensor_dealloc },
	{ Py_tp_repr, tensor_repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ Py_mp_subscript, tensor_get_item },
	{ Py_mp_ass_subscript, tensor_set_item },
	{ Py_mp_length, tensor_length },
	{ Py_sq_item, tensor_sequence_item },
	{ NATIVE_BF_GETBUFFER, tensor_get_buffer },
	{ NATIVE_BF_RELEASEBUFFER, tensor_release_buffer },
	{ 0, NULL },
};
static PyType_Spec spec = { "weir.Tensor", sizeof(struct tensor), 0,
	Py_TPFLAGS_DEFAULT, slots };

/* ---- Making ------------------------------------------------------------ */

/* The arguments of all functions that make a tensor. */
struct making {
	struct tensor_shape shape;
	enum weir_dtype dtype;
	struct tensor_place place;
	weir_stream stream;
};

static PyObject *
make_empty(struct making *m)
{
	struct weir_tensor *tensor = NULL;
	enum weir_status status;

	if (!tensor_place_resolve(&m->place, m->stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_tensor_empty(
	    m->dtype, m->shape.n, m->shape.lengths, &m->place.place, &tensor);
	NATIVE_TAKE_GIL;
	return tensor_result(status, tensor);
}

/* The stream that the values are written on: the tensor's, or the current one
 * if the memory is for any stream. False with an exception set. */
static bool
filling_stream(const struct weir_place *place, weir_stream *stream)
{
	*stream = place->stream;
	if (*stream != WEIR_STREAM_ANY)
		return true;
	*stream = NULL;
	if (place->memory == WEIR_MEMORY_HOST)
		return true;
	*stream = ARG_STREAM_CURRENT;
	return arg_stream_resolve(place->device, stream);
}

static PyObject *
make_filled(struct making *m, const struct tensor_scalar *value)
{
	PyObject *object = make_empty(m);
	weir_stream stream;
	enum weir_status status;

	if (object == NULL)
		return NULL;
	if (!filling_stream(&m->place.place, &stream)) {
		Py_DecRef(object);
		return NULL;
	}
	NATIVE_RELEASE_GIL;
	status = weir_tensor_fill(
	    tensor_of(object), value->dtype, &value->value, stream);
	NATIVE_TAKE_GIL;
	if (status == WEIR_OK)
		return object;
	Py_DecRef(object);
	return error_raise(status);
}

/* A default stream of another device makes a tensor there. */
static bool
making_stream(struct making *m, PyObject *stream)
{
	if (!arg_stream(stream, &m->stream))
		return false;
	if (!m->place.given) {
		tensor_arg_place(Py_None, &m->place);
		m->place.given = true;
		m->place.place.device = visit_default_device(stream);
	}
	return true;
}

static bool
parse_making(PyObject *args, PyObject *kwargs, struct making *m)
{
	static char *names[] = { "shape", "dtype", "place", "stream", NULL };

	PyObject *stream = Py_None;

	m->dtype = WEIR_FLOAT32;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&O&O", names,
		tensor_arg_shape, &m->shape, tensor_arg_dtype, &m->dtype,
		tensor_arg_place, &m->place, &stream) ||
	    !making_stream(m, stream))
		return false;
	if (m->dtype == WEIR_DTYPE_NONE)
		m->dtype = WEIR_FLOAT32;
	return true;
}

#define PLACE_DOC                                                              \
	"shape: an int or a sequence of lengths. dtype: 'float32' and so on, " \
	"or NumPy's or\nPyTorch's type of that name. place: 'cuda', "          \
	"'cuda:N', "                                                           \
	"a device's number, 'pinned' or\n'cpu'; None is the current device. "  \
	"stream: the tensor's, which outlives it; None is the "                \
	"current one.\nANY_STREAM: any may use the memory; the values are "    \
	"written on the current one.\n\n"
#define RAISES_DOC                                                             \
	"Raises OutOfMemoryError, InvalidArgumentError, ValueError for a "     \
	"place or a type\nthat there is not."

PyDoc_STRVAR(empty_doc,
    "empty($module, shape, dtype='float32', place=None, stream=None)\n--\n\n"
    "A row-major tensor with undefined content.\n\n" PLACE_DOC RAISES_DOC);
PyDoc_STRVAR(zeros_doc,
    "zeros($module, shape, dtype='float32', place=None, stream=None)\n--\n\n"
    "A row-major tensor of zeros.\n\n" PLACE_DOC RAISES_DOC);
PyDoc_STRVAR(ones_doc,
    "ones($module, shape, dtype='float32', place=None, stream=None)\n--\n\n"
    "A row-major tensor of ones.\n\n" PLACE_DOC RAISES_DOC);
PyDoc_STRVAR(full_doc,
    "full($module, shape, value, dtype=None, place=None, stream=None)\n--\n\n"
    "A row-major tensor of one value, a bool, int, float or complex; dtype "
    "None\n"
    "is 'bool', 'int64', 'float32' or 'complex64'.\n\n" PLACE_DOC RAISES_DOC);

static PyObject *
module_empty(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct making m = { 0 };

	(void)module;
	return parse_making(args, kwargs, &m) ? make_empty(&m) : NULL;
}

static PyObject *
module_zeros(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct making m = { 0 };
	const struct tensor_scalar zero = { .dtype = WEIR_INT64 };

	(void)module;
	return parse_making(args, kwargs, &m) ? make_filled(&m, &zero) : NULL;
}

static PyObject *
module_ones(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct making m = { 0 };
	const struct tensor_scalar one = { .dtype = WEIR_INT64,
		.value.whole = 1 };

	(void)module;
	return parse_making(args, kwargs, &m) ? make_filled(&m, &one) : NULL;
}

static enum weir_dtype
default_dtype(enum weir_dtype scalar)
{
	switch (scalar) {
	case WEIR_BOOL:
		return WEIR_BOOL;
	case WEIR_FLOAT64:
		return WEIR_FLOAT32;
	case WEIR_COMPLEX128:
		return WEIR_COMPLEX64;
	default:
		return scalar;
	}
}

static PyObject *
module_full(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "shape", "value", "dtype", "place", "stream",
		NULL };
	struct making m = { 0 };
	PyObject *stream = Py_None;
	PyObject *value;
	struct tensor_scalar scalar;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|O&O&O:full", names,
		tensor_arg_shape, &m.shape, &value, tensor_arg_dtype, &m.dtype,
		tensor_arg_place, &m.place, &stream) ||
	    !making_stream(&m, stream))
		return NULL;
	int kind = tensor_scalar(value, &scalar);
	if (kind == 0)
		PyErr_Format(
		    PyExc_TypeError, "value is a number, not %R", value);
	if (kind <= 0)
		return NULL;
	if (m.dtype == WEIR_DTYPE_NONE)
		m.dtype = default_dtype(scalar.dtype);
	return make_filled(&m, &scalar);
}

static PyMethodDef tensor_functions[] = {
	{ "empty", NATIVE_KEYWORDS(module_empty), METH_VARARGS | METH_KEYWORDS,
	    empty_doc },
	{ "zeros", NATIVE_KEYWORDS(module_zeros), METH_VARARGS | METH_KEYWORDS,
	    zeros_doc },
	{ "ones", NATIVE_KEYWORDS(module_ones), METH_VARARGS | METH_KEYWORDS,
	    ones_doc },
	{ "full", NATIVE_KEYWORDS(module_full), METH_VARARGS | METH_KEYWORDS,
	    full_doc },
	{ NULL, NULL, 0, NULL },
};

bool
tensor_setup(PyObject *module)
{
	gather_methods();
	tensor_type = native_add_type(module, &spec);
	return tensor_type != NULL && dlpack_setup(tensor_type) &&
	    PyModule_AddFunctions(module, tensor_functions) == 0 &&
	    PyModule_AddFunctions(module, exchange_functions) == 0 &&
	    PyModule_AddFunctions(module, dlpack_functions) == 0 &&
	    PyModule_AddFunctions(module, save_functions) == 0;
}
