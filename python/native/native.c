/*
 * Helpers over the stable ABI that all other files use.
 */
#include "python/native/native.h"

int
native_get_buffer(PyObject *object, struct native_buffer *view, int flags)
{
	extern int PyObject_GetBuffer(PyObject *, struct native_buffer *, int);
	return PyObject_GetBuffer(object, view, flags);
}

void
native_release_buffer(struct native_buffer *view)
{
	extern void PyBuffer_Release(struct native_buffer *);
	PyBuffer_Release(view);
}

int
native_fill_buffer(struct native_buffer *view, PyObject *object, void *buf,
    Py_ssize_t size, int flags)
{
	extern int PyBuffer_FillInfo(
	    struct native_buffer *, PyObject *, void *, Py_ssize_t, int, int);
	return PyBuffer_FillInfo(view, object, buf, size, 0, flags);
}

PyObject *
native_none(void)
{
	Py_IncRef(Py_None);
	return Py_None;
}

void *
native_new(PyObject *type)
{
	allocfunc alloc =
	    (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
	return alloc((PyTypeObject *)type, 0);
}

void
native_delete(void *object)
{
	PyTypeObject *type = Py_TYPE((PyObject *)object);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	release(object);
	/* An instance holds a reference to its heap type. */
	Py_DecRef((PyObject *)type);
}

PyObject *
native_add_type(PyObject *module, PyType_Spec *spec)
{
	PyObject *type = PyType_FromSpec(spec);

	if (type == NULL)
		return NULL;
	Py_IncRef(type); /* the module owns one reference */
	if (PyModule_AddObject(module, strchr(spec->name, '.') + 1, type) == 0)
		return type;
	Py_DecRef(type);
	Py_DecRef(type);
	return NULL;
}

PyObject *
native_reduce(PyObject *self, PyObject *protocol)
{
	PyObject *module = PyImport_ImportModule("weir.ipc");

	(void)protocol;
	if (module == NULL)
		return NULL;
	PyObject *result = PyObject_CallMethod(module, "_reduce", "O", self);
	Py_DecRef(module);
	return result;
}
