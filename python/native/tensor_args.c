/*
 * Arguments of tensors: types, places, shapes, numbers.
 */
#include "python/native/tensor.h"

#include <limits.h>

/* ---- Types ------------------------------------------------------------- */

/* The type with a name, also "torch.float32"; 0 with an exception set. */
static int
dtype_of_text(PyObject *text, enum weir_dtype *out)
{
	const char *name;

	if (!PyArg_Parse(text, "s", &name))
		return 0;
	const char *dot = strrchr(name, '.');
	if (dot != NULL)
		name = dot + 1;
	if (weir_dtype_find(name, out) == WEIR_OK)
		return 1;
	PyErr_Format(PyExc_ValueError, "dtype '%s' is no type of weir's", name);
	return 0;
}

/* Python's own number types. */
static enum weir_dtype
dtype_of_class(PyObject *object)
{
	if (object == (PyObject *)&PyBool_Type)
		return WEIR_BOOL;
	if (object == (PyObject *)&PyLong_Type)
		return WEIR_INT64;
	if (object == (PyObject *)&PyFloat_Type)
		return WEIR_FLOAT64;
	if (object == (PyObject *)&PyComplex_Type)
		return WEIR_COMPLEX128;
	return WEIR_DTYPE_NONE;
}

int
tensor_arg_dtype(PyObject *object, void *out)
{
	enum weir_dtype *dtype = out;

	if (object == Py_None) {
		*dtype = WEIR_DTYPE_NONE;
		return 1;
	}
	enum weir_dtype own = dtype_of_class(object);
	if (own != WEIR_DTYPE_NONE) {
		*dtype = own;
		return 1;
	}
	if (PyUnicode_Check(object))
		return dtype_of_text(object, dtype);
	/* numpy.dtype has `name`, numpy.float32 has `__name__`; PyTorch's types
	 * are converted to text. */
	PyObject *name = PyObject_GetAttrString(object, "name");
	if (name == NULL) {
		PyErr_Clear();
		name = PyObject_GetAttrString(object, "__name__");
	}
	if (name == NULL) {
		PyErr_Clear();
		name = PyObject_Str(object);
	}
	if (name == NULL)
		return 0;
	int found = dtype_of_text(name, dtype);
	Py_DecRef(name);
	return found;
}

/* ---- Places ------------------------------------------------------------ */

int
tensor_arg_place(PyObject *object, void *out)
{
	struct tensor_place *place = out;
	const char *text;

	place->given = object != Py_None;
	place->place = (struct weir_place){ .struct_size = sizeof place->place,
		.memory = WEIR_MEMORY_DEVICE,
		.device = WEIR_DEVICE_CURRENT };
	if (object == Py_None)
		return 1;
	if (!PyUnicode_Check(object))
		return arg_device(object, &place->place.device);
	if (!PyArg_Parse(object, "s", &text))
		return 0;
	/* Host memory needs no device. */
	if (strcmp(text, "cpu") == 0) {
		place->place.memory = WEIR_MEMORY_HOST;
		return 1;
	}
	enum weir_status status = weir_place_parse(text, &place->place);
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

bool
tensor_place_resolve(struct tensor_place *place, weir_stream stream)
{
	struct weir_place *p = &place->place;

	if (!place->given)
		tensor_arg_place(Py_None, place);
	if (p->memory == WEIR_MEMORY_HOST && stream == ARG_STREAM_CURRENT)
		return true;
	p->stream = stream;
	return arg_stream_resolve(p->device, &p->stream);
}

/* ---- Shapes ------------------------------------------------------------ */

static int
one_length(PyObject *object, int64_t *out)
{
	PyObject *index = PyNumber_Index(object);

	if (index == NULL)
		return 0;
	*out = PyLong_AsLongLong(index);
	Py_DecRef(index);
	return *out != -1 || PyErr_Occurred() == NULL;
}

static int
shape_of_tuple(PyObject *tuple, struct tensor_shape *shape)
{
	Py_ssize_t n = PyTuple_Size(tuple);

	if (n > WEIR_DIMS_MAX) {
		PyErr_Format(PyExc_ValueError,
		    "shape has %zd dimensions; there are at most %d", n,
		    WEIR_DIMS_MAX);
		return 0;
	}
	shape->n = (int)n;
	for (int i = 0; i < shape->n; i++)
		if (!one_length(PyTuple_GetItem(tuple, i), &shape->lengths[i]))
			return 0;
	return 1;
}

int
tensor_arg_shape(PyObject *object, void *out)
{
	struct tensor_shape *shape = out;

	if (PyIndex_Check(object)) {
		shape->n = 1;
		return one_length(object, &shape->lengths[0]);
	}
	PyObject *tuple = PySequence_Tuple(object);
	if (tuple == NULL)
		return 0;
	int right = shape_of_tuple(tuple, shape);
	Py_DecRef(tuple);
	return right;
}

int
tensor_arg_shapes(PyObject *args, struct tensor_shape *out)
{
	if (PyTuple_Size(args) == 1)
		return tensor_arg_shape(PyTuple_GetItem(args, 0), out);
	return shape_of_tuple(args, out);
}

/* ---- Numbers ----------------------------------------------------------- */

static int
whole_number(PyObject *object, struct tensor_scalar *out)
{
	PyObject *index = PyNumber_Index(object);

	if (index == NULL)
		return -1;
	int overflow = 0;
	out->dtype = WEIR_INT64;
	out->value.whole = PyLong_AsLongLongAndOverflow(index, &overflow);
	if (overflow > 0) {
		out->dtype = WEIR_UINT64;
		out->value.natural = PyLong_AsUnsignedLongLong(index);
	} else if (overflow < 0) {
		PyErr_Format(PyExc_OverflowError,
		    "%R is below the least 64-bit integer", object);
	}
	Py_DecRef(index);
	return PyErr_Occurred() == NULL ? 1 : -1;
}

int
tensor_scalar(PyObject *object, struct tensor_scalar *out)
{
	if (PyBool_Check(object)) {
		out->dtype = WEIR_BOOL;
		out->value.truth = object == Py_True;
		return 1;
	}
	if (PyComplex_Check(object)) {
		out->dtype = WEIR_COMPLEX128;
		out->value.complex[0] = PyComplex_RealAsDouble(object);
		out->value.complex[1] = PyComplex_ImagAsDouble(object);
		return 1;
	}
	if (PyFloat_Check(object)) {
		out->dtype = WEIR_FLOAT64;
		out->value.real = PyFloat_AsDouble(object);
		return 1;
	}
	/* Other numbers, like NumPy's. NumPy's arrays have an index too, but
	 * also a length. */
	if (PyObject_HasAttrString(object, "__len__"))
		return 0;
	if (PyIndex_Check(object))
		return whole_number(object, out);
	if (PyObject_HasAttrString(object, "__float__")) {
		out->dtype = WEIR_FLOAT64;
		PyObject *real = PyNumber_Float(object);
		out->value.real = real == NULL ? 0 : PyFloat_AsDouble(real);
		Py_XDECREF(real);
		return PyErr_Occurred() == NULL ? 1 : -1;
	}
	return 0;
}
