/*
 * The module: types, functions, constants.
 */
#include "python/native/native.h"
#include "python/native/tensor.h"

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

static bool
add_constants(PyObject *module)
{
	return PyModule_AddStringConstant(
		   module, "__version__", weir_version()) == 0 &&
	    PyModule_AddIntConstant(module, "ANY_STREAM", -1) == 0 &&
	    PyModule_AddIntConstant(module, "GRANULE", (long)WEIR_GRANULE) == 0;
}

static bool
add_functions(PyObject *module)
{
	PyMethodDef *const tables[] = { memory_methods, copy_methods,
		stream_methods, device_methods, stats_methods, option_methods,
		history_methods, plug_methods };

	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
		if (PyModule_AddFunctions(module, tables[i]) != 0)
			return false;
	return true;
}

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "weir._weir",
	.m_doc = "The C half of weir; import weir instead.",
	.m_size = -1,
};

PyMODINIT_FUNC
PyInit__weir(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (module == NULL)
		return NULL;
	if (error_setup(module) && memory_setup(module) &&
	    stream_setup(module) && event_setup(module) && pool_setup(module) &&
	    graph_setup(module) && observe_setup(module) &&
	    tensor_setup(module) && ipc_setup(module) &&
	    add_constants(module) && add_functions(module))
		return module;
	Py_DecRef(module);
	return NULL;
}
