/*
 * The module: types, functions, constants.
 */
#include "python/native/native.h"
#include "python/native/tensor.h"

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
		history_methods, plug_methods, sleep_methods,
		sleep_hook_methods };

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
