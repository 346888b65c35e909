/*
 * Views: other elements or another shape of the same memory. No view reads or
 * writes memory, waits, or needs a device.
 */
#include "python/native/tensor.h"

/* ---- Indexing ---------------------------------------------------------- */

/* A view that is being made, and the dimension of the next index. */
struct indexing {
	struct weir_tensor *view; /* owned */
	int dim;
};

/* Continue with the next view, if the call for it succeeded. */
static bool
step_to(struct indexing *at, enum weir_status status, struct weir_tensor *next)
{
	if (status != WEIR_OK) {
		error_raise(status);
		return false;
	}
	weir_tensor_destroy(at->view);
	at->view = next;
	return true;
}

static bool
index_number(struct indexing *at, PyObject *object)
{
	struct weir_tensor_info info = { .struct_size = sizeof info };
	struct weir_tensor *next = NULL;
	Py_ssize_t index = PyNumber_AsSsize_t(object, PyExc_IndexError);

	if (index == -1 && PyErr_Occurred() != NULL)
		return false;
	weir_tensor_info(at->view, &info);
	int64_t length = info.shape[at->dim];
	if (index >= length || index < -length) {
		PyErr_Format(PyExc_IndexError,
		    "index %zd is out of range for dimension %d of length %lld",
		    index, at->dim, (long long)length);
		return false;
	}
	enum weir_status status =
	    weir_tensor_select(at->view, at->dim, index, &next);
	return step_to(at, status, next);
}

static bool
index_slice(struct indexing *at, PyObject *object)
{
	struct weir_tensor *next = NULL;
	Py_ssize_t start;
	Py_ssize_t stop;
	Py_ssize_t step;

	if (PySlice_Unpack(object, &start, &stop, &step) != 0)
		return false;
	const struct weir_slice slice = { start, stop, step };
	enum weir_status status =
	    weir_tensor_slice(at->view, at->dim, &slice, &next);
	at->dim++;
	return step_to(at, status, next);
}

static bool
index_new(struct indexing *at)
{
	struct weir_tensor *next = NULL;
	enum weir_status status =
	    weir_tensor_unsqueeze(at->view, at->dim, &next);

	at->dim++;
	return step_to(at, status, next);
}

static bool
index_one(struct indexing *at, PyObject *object, int skipped)
{
	if (object == Py_None)
		return index_new(at);
	if (object == Py_Ellipsis) {
		at->dim += skipped;
		return true;
	}
	if (PySlice_Check(object))
		return index_slice(at, object);
	if (PyIndex_Check(object) && !PyBool_Check(object))
		return index_number(at, object);
	PyErr_Format(PyExc_TypeError,
	    "an index is an int, a slice, None or ..., not %R", object);
	return false;
}

/* How many dimensions an ellipsis stands for, or -1 with an exception set. */
static int
dims_of_ellipsis(PyObject *key, int ndim)
{
	int used = 0;
	int ellipses = 0;

	for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++) {
		PyObject *one = PyTuple_GetItem(key, i);
		ellipses += one == Py_Ellipsis;
		used += one != Py_Ellipsis && one != Py_None;
	}
	if (ellipses > 1 || used > ndim) {
		PyErr_Format(PyExc_IndexError,
		    ellipses > 1 ? "more than one ... in an index" :
				   "%d indices for %d dimensions",
		    used, ndim);
		return -1;
	}
	return ndim - used;
}

static struct weir_tensor *
index_all(PyObject *self, PyObject *key)
{
	struct indexing at = { NULL, 0 };
	struct weir_tensor_info info = tensor_info(self);
	int skipped = dims_of_ellipsis(key, info.ndim);

	if (skipped < 0)
		return NULL;
	enum weir_status status =
	    weir_tensor_alias(tensor_of(self), info.stream, &at.view);
	if (status != WEIR_OK) {
		error_raise(status);
		return NULL;
	}
	for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++)
		if (!index_one(&at, PyTuple_GetItem(key, i), skipped)) {
			weir_tensor_destroy(at.view);
			return NULL;
		}
	return at.view;
}

PyObject *
tensor_get_item(PyObject *self, PyObject *key)
{
	PyObject *tuple =
	    PyTuple_Check(key) ? PySequence_Tuple(key) : PyTuple_Pack(1, key);

	if (tuple == NULL)
		return NULL;
	struct weir_tensor *view = index_all(self, tuple);
	Py_DecRef(tuple);
	return view == NULL ? NULL : tensor_wrap(view);
}

/* ---- Shapes ------------------------------------------------------------ */

static PyObject *
view_by_shape(PyObject *self, PyObject *args,
    enum weir_status (*make)(const struct weir_tensor *, int, const int64_t *,
	struct weir_tensor **))
{
	struct tensor_shape shape;
	struct weir_tensor *view = NULL;

	if (!tensor_arg_shapes(args, &shape))
		return NULL;
	enum weir_status status =
	    make(tensor_of(self), shape.n, shape.lengths, &view);
	return tensor_result(status, view);
}

PyDoc_STRVAR(reshape_doc,
    "reshape($self, *shape)\n--\n\n"
    "The same elements in the same row-major order, in another shape; one "
    "length\n"
    "may be -1. Raises InvalidArgumentError if the number of elements differs "
    "or\n"
    "the strides do not allow a view: use contiguous() first.");

static PyObject *
tensor_reshape(PyObject *self, PyObject *args)
{
	return view_by_shape(self, args, weir_tensor_reshape);
}

PyDoc_STRVAR(expand_doc,
    "expand($self, *shape)\n--\n\n"
    "Repeat without copying: dimensions of length 1 become as long as asked, "
    "and\n"
    "new ones may come first; -1 leaves a length. fill_() and copy_()\n"
    "refuse the result, but a consumer of DLPack or a buffer may write to it.\n"
    "Raises InvalidArgumentError if another dimension would change.");

static PyObject *
tensor_expand(PyObject *self, PyObject *args)
{
	return view_by_shape(self, args, weir_tensor_expand);
}

PyDoc_STRVAR(permute_doc,
    "permute($self, *dims)\n--\n\n"
    "The dimensions in another order: dimension i of the result is dims[i].\n"
    "Raises InvalidArgumentError unless each is there once.");

static PyObject *
tensor_permute(PyObject *self, PyObject *args)
{
	struct tensor_shape dims;
	struct weir_tensor *view = NULL;
	int numbers[WEIR_DIMS_MAX];

	if (!tensor_arg_shapes(args, &dims))
		return NULL;
	if (dims.n != tensor_info(self).ndim) {
		PyErr_Format(PyExc_ValueError,
		    "dims has %d numbers for %d dimensions", dims.n,
		    tensor_info(self).ndim);
		return NULL;
	}
	for (int i = 0; i < dims.n; i++)
		numbers[i] = (int)(dims.lengths[i] < -WEIR_DIMS_MAX ||
			    dims.lengths[i] > WEIR_DIMS_MAX ?
			WEIR_DIMS_MAX :
			dims.lengths[i]);
	enum weir_status status =
	    weir_tensor_permute(tensor_of(self), numbers, &view);
	return tensor_result(status, view);
}

static PyObject *
tensor_transpose(PyObject *self, PyObject *args)
{
	struct weir_tensor *view = NULL;
	int a;
	int b;

	if (!PyArg_ParseTuple(args, "ii:transpose", &a, &b))
		return NULL;
	enum weir_status status =
	    weir_tensor_transpose(tensor_of(self), a, b, &view);
	return tensor_result(status, view);
}

static PyObject *
tensor_squeeze(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "dim", NULL };
	struct weir_tensor *view = NULL;
	PyObject *dim = Py_None;
	int number = 0;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O:squeeze", names, &dim) ||
	    (dim != Py_None && !PyArg_Parse(dim, "i", &number)))
		return NULL;
	enum weir_status status = dim == Py_None ?
	    weir_tensor_squeeze_all(tensor_of(self), &view) :
	    weir_tensor_squeeze(tensor_of(self), number, &view);
	return tensor_result(status, view);
}

static PyObject *
tensor_unsqueeze(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "dim", NULL };
	struct weir_tensor *view = NULL;
	int dim;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "i:unsqueeze", names, &dim))
		return NULL;
	enum weir_status status =
	    weir_tensor_unsqueeze(tensor_of(self), dim, &view);
	return tensor_result(status, view);
}

static PyObject *
tensor_narrow(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "dim", "start", "length", NULL };
	struct weir_tensor *view = NULL;
	int dim;
	long long start;
	long long length;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "iLL:narrow", names, &dim, &start, &length))
		return NULL;
	enum weir_status status =
	    weir_tensor_narrow(tensor_of(self), dim, start, length, &view);
	return tensor_result(status, view);
}

static PyObject *
tensor_select(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "dim", "index", NULL };
	struct weir_tensor *view = NULL;
	int dim;
	long long index;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "iL:select", names, &dim, &index))
		return NULL;
	enum weir_status status =
	    weir_tensor_select(tensor_of(self), dim, index, &view);
	return tensor_result(status, view);
}

PyDoc_STRVAR(as_strided_doc,
    "as_strided($self, shape, strides, offset=0)\n--\n\n"
    "Any elements of the memory: shape and strides in elements, offset in "
    "bytes\n"
    "from the first byte of the memory. Raises InvalidArgumentError if an\n"
    "element lies outside of it.");

static PyObject *
tensor_as_strided(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "shape", "strides", "offset", NULL };
	struct tensor_shape shape;
	struct tensor_shape strides;
	struct weir_tensor *view = NULL;
	size_t offset = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&|O&:as_strided",
		names, tensor_arg_shape, &shape, tensor_arg_shape, &strides,
		arg_bytes, &offset))
		return NULL;
	if (shape.n != strides.n) {
		PyErr_Format(PyExc_ValueError,
		    "strides has %d numbers for %d dimensions", strides.n,
		    shape.n);
		return NULL;
	}
	const struct weir_layout layout = { .struct_size = sizeof layout,
		.dtype = tensor_info(self).dtype,
		.ndim = shape.n,
		.shape = shape.lengths,
		.strides = strides.lengths,
		.offset_bytes = offset };
	enum weir_status status =
	    weir_tensor_as_strided(tensor_of(self), &layout, &view);
	return tensor_result(status, view);
}

PyDoc_STRVAR(view_doc,
    "view($self, dtype)\n--\n\n"
    "The same bytes as elements of another type; the last dimension becomes\n"
    "longer or shorter by the ratio of sizes. Raises InvalidArgumentError "
    "where\n"
    "that does not come out even.");

static PyObject *
tensor_view_as(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "dtype", NULL };
	struct weir_tensor *view = NULL;
	enum weir_dtype dtype;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "O&:view", names, tensor_arg_dtype, &dtype))
		return NULL;
	enum weir_status status =
	    weir_tensor_view_dtype(tensor_of(self), dtype, &view);
	return tensor_result(status, view);
}

PyMethodDef tensor_view_methods[] = {
	{ "reshape", tensor_reshape, METH_VARARGS, reshape_doc },
	{ "expand", tensor_expand, METH_VARARGS, expand_doc },
	{ "permute", tensor_permute, METH_VARARGS, permute_doc },
	{ "transpose", tensor_transpose, METH_VARARGS,
	    "transpose($self, a, b)\n--\n\n"
	    "Two dimensions swapped. InvalidArgumentError if there is none of "
	    "a "
	    "number." },
	{ "squeeze", NATIVE_KEYWORDS(tensor_squeeze),
	    METH_VARARGS | METH_KEYWORDS,
	    "squeeze($self, dim=None)\n--\n\n"
	    "Without a dimension of length 1, or without all of them." },
	{ "unsqueeze", NATIVE_KEYWORDS(tensor_unsqueeze),
	    METH_VARARGS | METH_KEYWORDS,
	    "unsqueeze($self, dim)\n--\n\n"
	    "With a dimension of length 1 before `dim`; -1 is last." },
	{ "narrow", NATIVE_KEYWORDS(tensor_narrow),
	    METH_VARARGS | METH_KEYWORDS,
	    "narrow($self, dim, start, length)\n--\n\n"
	    "`length` elements of a dimension from `start`. "
	    "InvalidArgumentError if these are\nnot all there." },
	{ "select", NATIVE_KEYWORDS(tensor_select),
	    METH_VARARGS | METH_KEYWORDS,
	    "select($self, dim, index)\n--\n\n"
	    "One index of a dimension, which goes." },
	{ "as_strided", NATIVE_KEYWORDS(tensor_as_strided),
	    METH_VARARGS | METH_KEYWORDS, as_strided_doc },
	{ "view", NATIVE_KEYWORDS(tensor_view_as), METH_VARARGS | METH_KEYWORDS,
	    view_doc },
	{ NULL, NULL, 0, NULL },
};
