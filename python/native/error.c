/*
 * Exceptions: one base class, and a subclass for each case that programs handle
 * differently.
 */
#include "python/native/native.h"

static PyObject *base;
static PyObject *out_of_memory;
static PyObject *host_out_of_memory;
static PyObject *invalid;
static PyObject *not_ready;
static PyObject *not_supported;
static PyObject *no_device;
static PyObject *file;

struct exception {
	const char *name; /* "weir.Error" */
	const char *doc;
	PyObject **own;
	PyObject **first; /* more bases; NULL: only weir's own */
	PyObject *second;
	bool theirs_first; /* the second base makes the instances */
};

static bool
add_exception(PyObject *module, const struct exception *e)
{
	PyObject *first = e->first != NULL ? *e->first : PyExc_RuntimeError;
	PyObject *bases = e->second == NULL ? PyTuple_Pack(1, first) :
	    e->theirs_first ? PyTuple_Pack(2, e->second, first) :
			      PyTuple_Pack(2, first, e->second);

	if (bases == NULL)
		return false;
	*e->own = PyErr_NewExceptionWithDoc(e->name, e->doc, bases, NULL);
	Py_DecRef(bases);
	if (*e->own == NULL)
		return false;
	Py_IncRef(*e->own); /* the module owns one reference */
	return PyModule_AddObject(module, e->name + strlen("weir."), *e->own) ==
	    0;
}

bool
error_setup(PyObject *module)
{
	const struct exception all[] = {
		{ "weir.Error",
		    "A call of weir failed. The text is weir's: what failed, "
		    "with which arguments,\nand the driver's own code.\n\n"
		    "status: the name of the status, as 'WEIR_EDRIVER'.",
		    &base, NULL, NULL, false },
		{ "weir.OutOfMemoryError",
		    "The device has no memory for a request, or a limit is "
		    "reached, and every step\nto get some was tried. The text "
		    "is a report: the request, the limit, the largest\nfree "
		    "blocks, pending bytes, other processes, advice.",
		    &out_of_memory, &base, PyExc_MemoryError, false },
		{ "weir.HostOutOfMemoryError",
		    "The host has no memory, or no page-locked memory.",
		    &host_out_of_memory, &base, PyExc_MemoryError, false },
		{ "weir.InvalidArgumentError",
		    "An argument is wrong; the text names it and its value.",
		    &invalid, &base, PyExc_ValueError, false },
		{ "weir.NotReadyError",
		    "Work that the call depends on is not done yet.",
		    &not_ready, &base, NULL, false },
		{ "weir.NotSupportedError",
		    "The device, the driver or the kind of memory cannot do "
		    "this.",
		    &not_supported, &base, NULL, false },
		{ "weir.NoDeviceError",
		    "There is no such device, or no usable CUDA driver; also "
		    "in a forked child.",
		    &no_device, &base, NULL, false },
		{ "weir.FileError",
		    "A file cannot be read or written, or is not in the "
		    "format; the text says what is\nwrong. errno and strerror "
		    "are None for a file that is not in the format; filename\n"
		    "is the path as it was given.",
		    &file, &base, PyExc_OSError, true },
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (!add_exception(module, &all[i]))
			return false;
	return true;
}

static PyObject *
class_of(enum weir_status status)
{
	switch (status) {
	case WEIR_ENOMEM:
		return out_of_memory;
	case WEIR_EHOSTMEM:
		return host_out_of_memory;
	case WEIR_EINVAL:
		return invalid;
	case WEIR_ENOTREADY:
		return not_ready;
	case WEIR_ENOTSUP:
		return not_supported;
	case WEIR_EFILE:
		return file;
	case WEIR_ENODEVICE:
	case WEIR_ENODRIVER:
	case WEIR_EOLDDRIVER:
	case WEIR_ENOENTRY:
	case WEIR_EFORK:
		return no_device;
	default:
		return base;
	}
}

static bool
set_attribute(PyObject *error, const char *name, PyObject *value)
{
	bool set =
	    value != NULL && PyObject_SetAttrString(error, name, value) == 0;

	Py_DecRef(value);
	return set;
}

/* The attributes of an OSError; weir's own text stays the exception's text. */
static bool
set_file(PyObject *error, int number, PyObject *path)
{
	if (path != Py_None) {
		Py_IncRef(path);
		if (!set_attribute(error, "filename", path))
			return false;
	}
	return number == 0 ||
	    (set_attribute(error, "errno", PyLong_FromLong(number)) &&
		set_attribute(error, "strerror",
		    PyUnicode_DecodeLocale(
			strerror(number), "surrogateescape")));
}

PyObject *
error_raise(enum weir_status status)
{
	return error_raise_path(status, Py_None);
}

PyObject *
error_raise_path(enum weir_status status, PyObject *path)
{
	PyObject *class = class_of(status);
	const char *text = weir_last_error();
	int number = weir_last_errno();

	/* A text may quote the program's own text, in any encoding. */
	if (weir_last_status() != status || text[0] == '\0') {
		text = weir_status_text(status);
		number = 0;
	}
	PyObject *message =
	    PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	if (message == NULL)
		return NULL;
	PyObject *error = PyObject_CallFunctionObjArgs(class, message, NULL);
	Py_DecRef(message);
	if (error == NULL)
		return NULL;
	if (set_attribute(error, "status",
		PyUnicode_FromString(weir_status_name(status))) &&
	    (class != file || set_file(error, number, path)))
		PyErr_SetObject(class, error);
	Py_DecRef(error);
	return NULL;
}

PyObject *
error_none(enum weir_status status)
{
	if (status != WEIR_OK)
		return error_raise(status);
	return native_none();
}

PyObject *
error_size(enum weir_status status, size_t bytes)
{
	if (status != WEIR_OK)
		return error_raise(status);
	return PyLong_FromSize_t(bytes);
}

PyObject *
error_closed(const char *what)
{
	PyErr_SetString(PyExc_ValueError, what);
	return NULL;
}
