/*
 * Options: weir.options is a mapping in Python over these two calls.
 */
#include "python/native/native.h"

PyDoc_STRVAR(options_set_doc,
    "options_set($module, conf)\n--\n\n"
    "Set options from a text 'key:value,key:value'; all of it is checked "
    "first.\n"
    "Raises InvalidArgumentError that names the key and what is accepted;\n"
    "nothing has changed then.");

static PyObject *
module_options_set(PyObject *module, PyObject *arg)
{
	const char *conf;
	enum weir_status status;

	(void)module;
	if (!PyArg_Parse(arg, "s:options_set", &conf))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_options_set(conf);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(options_list_doc,
    "options_list($module)\n--\n\n"
    "All options in the manual's order: tuples of key, value, type, default,\n"
    "range, help, source.");

static PyObject *
module_options_list(PyObject *module, PyObject *none)
{
	static const char *const sources[] = { "default", "environment",
		"call" };
	struct weir_option option;
	PyObject *list = PyList_New(0);

	(void)module;
	(void)none;
	for (size_t i = 0; list != NULL; i++) {
		enum weir_status status = weir_option_at(i, &option);
		if (status != WEIR_OK && i > 0)
			return list;
		PyObject *row = status != WEIR_OK ?
		    error_raise(status) :
		    Py_BuildValue("(sssssss)", option.key, option.value,
			option.type, option.fallback, option.range, option.help,
			sources[option.source]);
		if (row == NULL || PyList_Append(list, row) != 0) {
			Py_DecRef(list);
			list = NULL;
		}
		Py_XDECREF(row);
	}
	return list;
}

PyMethodDef option_methods[] = {
	{ "options_set", module_options_set, METH_O, options_set_doc },
	{ "options_list", module_options_list, METH_NOARGS, options_list_doc },
	{ NULL, NULL, 0, NULL },
};
