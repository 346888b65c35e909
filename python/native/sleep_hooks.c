/*
 * Python's hooks around a sleep. The library has one hook for all of them,
 * which calls two functions of weir._sleep.
 */
#include <weir/sleep.h>

#include "python/native/native.h"

/* `before` returns nothing and may raise, `after` does not raise. */
static PyObject *before;
static PyObject *after;

/* The exception of a hook in the sleep that this thread waits for. */
static _Thread_local struct {
	bool catches;
	PyObject *type; /* NULL: nothing */
	PyObject *value;
	PyObject *traceback;
} raised;

void
hooks_catch(void)
{
	raised.catches = true;
}

bool
hooks_raised(void)
{
	raised.catches = false;
	if (raised.type == NULL)
		return false;
	PyErr_Restore(raised.type, raised.value, raised.traceback);
	raised.type = NULL;
	raised.value = NULL;
	raised.traceback = NULL;
	return true;
}

/* The status that a name stands for. */
static enum weir_status
status_named(PyObject *name)
{
	static const enum weir_status all[] = {
#define SLEEP_HOOKS_STATUS(status, text) status,
		WEIR_STATUSES(SLEEP_HOOKS_STATUS)
#undef SLEEP_HOOKS_STATUS
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (all[i] != WEIR_OK &&
		    PyUnicode_CompareWithASCIIString(
			name, weir_status_name(all[i])) == 0)
			return all[i];
	return WEIR_ENOTREADY;
}

/* The status for the current exception, which is kept for the caller of sleep()
 * or, if there is none on this thread, printed. */
static enum weir_status
refuse_sleep(void)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;
	enum weir_status status = WEIR_ENOTREADY;

	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	PyObject *name =
	    value == NULL ? NULL : PyObject_GetAttrString(value, "status");
	if (name != NULL && PyUnicode_Check(name))
		status = status_named(name);
	Py_XDECREF(name);
	PyErr_Clear();
	if (raised.catches && raised.type == NULL) {
		raised.type = type;
		raised.value = value;
		raised.traceback = traceback;
		return status;
	}
	PyErr_Restore(type, value, traceback);
	PyErr_WriteUnraisable(before);
	return status;
}

static enum weir_status
call_before(void *user)
{
	enum weir_status status = WEIR_OK;
	struct called c;

	(void)user;
	if (!call_begin(&c))
		return WEIR_OK;
	PyObject *result = PyObject_CallFunctionObjArgs(before, NULL);
	if (result == NULL)
		status = refuse_sleep();
	Py_XDECREF(result);
	call_end(&c);
	return status;
}

static void
call_after(void *user)
{
	struct called c;

	(void)user;
	if (!call_begin(&c))
		return;
	PyObject *result = PyObject_CallFunctionObjArgs(after, NULL);
	if (result == NULL)
		PyErr_WriteUnraisable(after);
	Py_XDECREF(result);
	call_end(&c);
}

/* _hook_sleep(before, after), once. */
static PyObject *
module_hook_sleep(PyObject *module, PyObject *args)
{
	const struct weir_sleep_hook hook = { sizeof(hook), call_before,
		call_after, NULL };

	(void)module;
	if (before != NULL)
		return native_none();
	if (!PyArg_ParseTuple(args, "OO:_hook_sleep", &before, &after))
		return NULL;
	Py_IncRef(before);
	Py_IncRef(after);
	return error_none(weir_sleep_hook_add(&hook));
}

/* _print_raised(function, exception): report what cannot be raised. */
static PyObject *
module_print_raised(PyObject *module, PyObject *args)
{
	PyObject *function;
	PyObject *error;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO:_print_raised", &function, &error))
		return NULL;
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	PyErr_WriteUnraisable(function);
	return native_none();
}

PyMethodDef sleep_hook_methods[] = {
	{ "_hook_sleep", module_hook_sleep, METH_VARARGS, NULL },
	{ "_print_raised", module_print_raised, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
