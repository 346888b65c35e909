/*
 * Arguments that many calls have: devices, sizes, streams, words.
 */
#include "python/native/native.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* The number of "cuda:N"; -1 for "cuda"; -2 with an exception set. */
static int
device_of_text(PyObject *object)
{
	const char *text;
	char *end;

	if (!PyArg_Parse(object, "s", &text))
		return -2;
	if (strcmp(text, "cuda") == 0)
		return WEIR_DEVICE_CURRENT;
	if (strncmp(text, "cpu", 3) == 0) {
		PyErr_Format(PyExc_ValueError,
		    "Expected a cuda device, but got: '%s'", text);
		return -2;
	}
	if (strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' &&
	    text[5] <= '9') {
		errno = 0;
		long number = strtol(text + 5, &end, 10);
		if (*end == '\0' && errno == 0 && number <= INT_MAX)
			return (int)number;
	}
	PyErr_Format(PyExc_ValueError,
	    "Invalid device string: '%s' (\"cuda\" or \"cuda:N\" is one)",
	    text);
	return -2;
}

int
arg_device(PyObject *object, void *out)
{
	int *device = out;

	if (object == Py_None) {
		*device = WEIR_DEVICE_CURRENT;
		return 1;
	}
	if (PyUnicode_Check(object)) {
		int number = device_of_text(object);
		if (number == -2)
			return 0;
		*device = number;
		return 1;
	}
	if (!PyIndex_Check(object)) {
		PyErr_Format(PyExc_TypeError,
		    "device is a number, \"cuda:N\" or None, not %R", object);
		return 0;
	}
	Py_ssize_t number = PyNumber_AsSsize_t(object, PyExc_ValueError);
	if (number == -1 && PyErr_Occurred() != NULL)
		return 0;
	if (number < 0 || number > INT_MAX) {
		PyErr_Format(
		    PyExc_ValueError, "device is %zd; it is 0 or more", number);
		return 0;
	}
	*device = (int)number;
	return 1;
}

int
arg_bytes(PyObject *object, void *out)
{
	PyObject *index = PyNumber_Index(object);

	if (index == NULL)
		return 0;
	size_t bytes = PyLong_AsSize_t(index);
	Py_DecRef(index);
	if (bytes == (size_t)-1 && PyErr_Occurred() != NULL) {
		PyErr_Clear();
		PyErr_Format(PyExc_ValueError,
		    "the number of bytes is %R; it is 0 or more and below "
		    "2**64",
		    object);
		return 0;
	}
	*(size_t *)out = bytes;
	return 1;
}

/* Read the handle from (version, handle), which __cuda_stream__ returns. */
static int
stream_of_protocol(PyObject *object, weir_stream *out)
{
	unsigned long version = 0;
	void *handle = NULL;
	PyObject *pair = PyObject_GetAttrString(object, "__cuda_stream__");

	if (pair != NULL && PyCallable_Check(pair)) {
		PyObject *method = pair;
		pair = PyObject_CallObject(method, NULL);
		Py_DecRef(method);
	}
	if (pair == NULL)
		return 0;
	bool right = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
	if (right) {
		version = PyLong_AsUnsignedLong(PyTuple_GetItem(pair, 0));
		handle = PyLong_AsVoidPtr(PyTuple_GetItem(pair, 1));
		right = PyErr_Occurred() == NULL && version == 0;
	}
	Py_DecRef(pair);
	if (!right) {
		PyErr_Clear();
		PyErr_Format(PyExc_TypeError,
		    "__cuda_stream__ of %R does not give (0, handle)", object);
		return 0;
	}
	*out = handle;
	return 1;
}

PyObject *arg_stream_type;

bool
arg_is_stream(PyObject *object)
{
	return Py_TYPE(object) == (PyTypeObject *)arg_stream_type;
}

char arg_stream_current;

int
arg_stream(PyObject *object, void *out)
{
	weir_stream *stream = out;

	if (object == Py_None) {
		*stream = ARG_STREAM_CURRENT;
		return 1;
	}
	if (arg_is_stream(object)) {
		*stream = ((struct stream *)object)->handle;
		return 1;
	}
	if (PyLong_Check(object)) {
		void *handle = PyLong_AsVoidPtr(object);
		if (handle == NULL && PyErr_Occurred() != NULL)
			return 0;
		*stream = handle;
		return 1;
	}
	if (PyObject_HasAttrString(object, "__cuda_stream__"))
		return stream_of_protocol(object, stream);
	PyErr_Format(PyExc_TypeError,
	    "stream is a weir.Stream, a handle, an object with "
	    "__cuda_stream__ or None, not %R",
	    object);
	return 0;
}

bool
arg_stream_resolve(int device, weir_stream *stream)
{
	if (*stream != ARG_STREAM_CURRENT)
		return true;
	enum weir_status status = weir_stream_current(device, stream);
	if (status != WEIR_OK)
		error_raise(status);
	return status == WEIR_OK;
}

PyObject *
arg_stream_number(weir_stream stream)
{
	if (stream == WEIR_STREAM_ANY)
		return PyLong_FromLong(-1);
	return PyLong_FromVoidPtr(stream);
}

int
arg_choice(const char *argument, const char *word, const char *const *words)
{
	char list[256] = "";

	for (int i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], word) == 0)
			return i;
		if (strlen(list) + strlen(words[i]) + 5 > sizeof list)
			continue;
		strcat(
		    strcat(strcat(list, i == 0 ? "'" : ", '"), words[i]), "'");
	}
	PyErr_Format(PyExc_ValueError, "%s is '%s'; it is one of %s", argument,
	    word, list);
	return -1;
}

bool
arg_only_device(PyObject *args, PyObject *kwargs, int *device)
{
	static char *names[] = { "device", NULL };

	*device = WEIR_DEVICE_CURRENT;
	return PyArg_ParseTupleAndKeywords(
	    args, kwargs, "|O&", names, arg_device, device);
}

PyObject *arg_pool_type;

int
arg_pool(PyObject *object, void *out)
{
	struct weir_pool **pool = out;

	if (object == Py_None) {
		*pool = NULL;
		return 1;
	}
	if (Py_TYPE(object) != (PyTypeObject *)arg_pool_type) {
		PyErr_Format(PyExc_TypeError,
		    "pool is a weir.Pool or None, not %R", object);
		return 0;
	}
	*pool = ((struct pool *)object)->pool;
	return 1;
}
