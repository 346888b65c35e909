/*
 * weir.Tensor as an object: what is in it, and making one.
 */
#include "python/native/tensor.h"

PyObject *tensor_type;

bool
tensor_is(PyObject *object)
{
	return Py_TYPE(object) == (PyTypeObject *)tensor_type;
}

struct weir_tensor *
tensor_of(PyObject *object)
{
	return ((struct tensor *)object)->tensor;
}

struct weir_tensor_info
tensor_info(PyObject *object)
{
	struct weir_tensor_info info = { .struct_size = sizeof info };

	weir_tensor_info(tensor_of(object), &info);
	return info;
}

PyObject *
tensor_wrap(struct weir_tensor *tensor)
{
	struct tensor *object = native_new(tensor_type);

	if (object == NULL) {
		weir_tensor_destroy(tensor);
		return NULL;
	}
	object->tensor = tensor;
	return (PyObject *)object;
}

PyObject *
tensor_result(enum weir_status status, struct weir_tensor *tensor)
{
	return status == WEIR_OK ? tensor_wrap(tensor) : error_raise(status);
}

PyObject *
tensor_lengths(const int64_t *values, int n)
{
	PyObject *tuple = PyTuple_New(n);

	for (int i = 0; tuple != NULL && i < n; i++) {
		PyObject *value = PyLong_FromLongLong(values[i]);
		if (value == NULL) {
			Py_DecRef(tuple);
			return NULL;
		}
		PyTuple_SetItem(tuple, i, value);
	}
	return tuple;
}
