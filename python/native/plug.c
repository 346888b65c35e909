/*
 * Addresses of functions that other libraries call without Python.
 */
#include "python/native/native.h"

#include <weir/onnxruntime.h>

PyDoc_STRVAR(onnxruntime_doc,
    "_onnxruntime_options($module)\n--\n\n"
    "The options of weir.onnxruntime.provider_options().");

static PyObject *
module_onnxruntime(PyObject *module, PyObject *none)
{
	struct weir_onnxruntime_options o = weir_onnxruntime_options();

	(void)module;
	(void)none;
	return Py_BuildValue("{ssssss}", "gpu_external_alloc", o.alloc,
	    "gpu_external_free", o.free, "gpu_external_empty_cache",
	    o.empty_cache);
}

PyMethodDef plug_methods[] = {
	{ "_onnxruntime_options", module_onnxruntime, METH_NOARGS,
	    onnxruntime_doc },
	{ NULL, NULL, 0, NULL },
};
