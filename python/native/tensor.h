/*
 * weir.Tensor in C: the type, its parts, and their shared declarations.
 */
#ifndef PYTHON_TENSOR_H
#define PYTHON_TENSOR_H

#include "python/native/native.h"

#include <weir/tensor.h>

struct tensor {
	PyObject_HEAD struct weir_tensor *tensor;
};

/* ---- The type (tensor.c) ----------------------------------------------- */

bool tensor_setup(PyObject *module);

/* ---- The object (tensor_object.c) -------------------------------------- */

extern PyObject *tensor_type; /* weir.Tensor; set by tensor_setup() */
bool tensor_is(PyObject *object);
struct weir_tensor *tensor_of(PyObject *object);
struct weir_tensor_info tensor_info(PyObject *object);

/* Wrap a tensor, which is destroyed on failure. */
PyObject *tensor_wrap(struct weir_tensor *tensor);

/* Wrap the tensor of a call that returned `status`, or raise. */
PyObject *tensor_result(enum weir_status status, struct weir_tensor *tensor);

/* A tuple of int64_t values. */
PyObject *tensor_lengths(const int64_t *values, int n);

/* ---- Arguments (tensor_args.c) ----------------------------------------- */

/* Converter, enum weir_dtype *: None is WEIR_DTYPE_NONE; a name, bool, int,
 * float, complex, or an object with a name, like the types of NumPy and
 * PyTorch. */
int tensor_arg_dtype(PyObject *object, void *out);

/* The place of a tensor, as given in Python. */
struct tensor_place {
	bool given;
	struct weir_place place;
};
/* Converter, struct tensor_place *: None is not given; the number of a device,
 * "cuda", "cuda:N", "cpu" or "pinned". The stream is set later. */
int tensor_arg_place(PyObject *object, void *out);
/* Set the stream; without a place, use memory of the current device. False with
 * an exception set. */
bool tensor_place_resolve(struct tensor_place *place, weir_stream stream);

/* A shape: an int or a sequence of up to WEIR_DIMS_MAX. */
struct tensor_shape {
	int n;
	int64_t lengths[WEIR_DIMS_MAX];
};
/* Converter, struct tensor_shape *. */
int tensor_arg_shape(PyObject *object, void *out);
/* The shape in the arguments of f(2, 3) or f((2, 3)). */
int tensor_arg_shapes(PyObject *args, struct tensor_shape *out);

/* A number, in the form for fill(). */
struct tensor_scalar {
	enum weir_dtype dtype;
	union {
		uint8_t truth;
		int64_t whole;
		uint64_t natural;
		double real;
		double complex[2];
	} value;
};
/* 1; 0 if it is no number; -1 with an exception set. */
int tensor_scalar(PyObject *object, struct tensor_scalar *out);

/* ---- Methods (tensor_view.c, tensor_copy.c, exchange.c, dlpack.c) ------- */

PyObject *tensor_get_item(PyObject *self, PyObject *key);
int tensor_set_item(PyObject *self, PyObject *key, PyObject *value);
extern PyMethodDef tensor_view_methods[];
extern PyMethodDef tensor_copy_methods[];

int tensor_get_buffer(PyObject *self, struct native_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, struct native_buffer *view);
PyObject *tensor_get_interface(PyObject *self, void *closure);
extern PyMethodDef exchange_functions[];

PyObject *dlpack_export(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *dlpack_device(PyObject *self, PyObject *none);
extern PyMethodDef dlpack_functions[];
/* Add the attributes that C extensions look for to the type. */
bool dlpack_setup(PyObject *type);

extern PyMethodDef save_functions[]; /* save.c */

/* ---- Other processes (ipc.c) ------------------------------------------- */

bool ipc_setup(PyObject *module);

/* The buffer protocol's name of a type, or NULL. */
const char *tensor_format(enum weir_dtype dtype);

#endif
