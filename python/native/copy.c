/*
 * Copies that are waited for, between any two objects with an address.
 */
#include "python/native/native.h"

/* One end of a copy. */
struct end {
	const char *name; /* name of the argument */
	void *address;
	size_t size;    /* SIZE_MAX: unknown */
	PyObject *held; /* NULL: no memory of weir's; the arguments own it */
	bool is_buffer;
	struct native_buffer buffer;
};

static void
end_close(struct end *end)
{
	if (end->held != NULL)
		memory_unhold(end->held);
	end->held = NULL;
	if (end->is_buffer)
		native_release_buffer(&end->buffer);
	end->is_buffer = false;
}

static bool
end_from_buffer(PyObject *object, struct end *end, bool written)
{
	if (native_get_buffer(object, &end->buffer,
		written ? NATIVE_BUF_WRITABLE : NATIVE_BUF_SIMPLE) != 0)
		return false;
	end->is_buffer = true;
	end->address = end->buffer.buf;
	end->size = (size_t)end->buffer.len;
	return true;
}

/* Read an object with an address: an int, weir's memory, or a host buffer. */
static bool
end_open(PyObject *object, struct end *end, bool written)
{
	end->size = SIZE_MAX;
	if (PyLong_Check(object)) {
		end->address = PyLong_AsVoidPtr(object);
		return PyErr_Occurred() == NULL;
	}
	if (PyObject_HasAttrString(object, "freed")) {
		if (!memory_hold(object, &end->address))
			return false;
		end->held = object;
		end->size = ((struct memory *)object)->size;
		return true;
	}
	if (end_from_buffer(object, end, written))
		return true;
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		PyErr_Format(PyExc_TypeError,
		    "%s is an address, weir.Memory, weir.PinnedMemory or a "
		    "buffer of the host, not %R",
		    end->name, object);
	return false;
}

/* Use the number of bytes that both ends have, if the caller gives none. */
static bool
choose_size(const struct end *to, const struct end *from, size_t *size)
{
	const struct end *small = to->size < from->size ? to : from;

	if (*size == SIZE_MAX && from->size != SIZE_MAX)
		*size = from->size;
	if (*size == SIZE_MAX)
		*size = to->size;
	if (*size == SIZE_MAX) {
		PyErr_SetString(PyExc_TypeError,
		    "size is needed: both ends are bare addresses");
		return false;
	}
	if (small->size < *size) {
		PyErr_Format(PyExc_ValueError,
		    "size is %zu, but %s has %zu bytes", *size, small->name,
		    small->size);
		return false;
	}
	return true;
}

PyDoc_STRVAR(copy_doc,
    "copy($module, to, from_, size=None, stream=None)\n--\n\n"
    "Copy bytes on a stream, after what is queued there, and wait until it is\n"
    "done.\n\n"
    "to, from_: each an address (an int), weir.Memory, weir.PinnedMemory, or "
    "a\n"
    "contiguous buffer of the host (bytearray, numpy.ndarray; what is read "
    "may\n"
    "be bytes).\n"
    "size: bytes; None is all of `from_`, or of `to` where that is an "
    "address.\n"
    "stream: None is the current stream of the current device.\n\n"
    "Raises ValueError if an end is smaller than size, or a status of weir's.\n"
    "The GIL is released meanwhile.");

static PyObject *
copy_ends(const struct end *to, const struct end *from, size_t size,
    weir_stream stream)
{
	enum weir_status status;

	if (!choose_size(to, from, &size) ||
	    !arg_stream_resolve(WEIR_DEVICE_CURRENT, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_copy(to->address, from->address, size, stream);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

static PyObject *
module_copy(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "to", "from_", "size", "stream", NULL };
	PyObject *object_to;
	PyObject *object_from;
	PyObject *object_size = Py_None;
	PyObject *result = NULL;
	weir_stream stream = ARG_STREAM_CURRENT;
	struct end to = { .name = "to" };
	struct end from = { .name = "from_" };
	size_t size = SIZE_MAX;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OO&:copy", names,
		&object_to, &object_from, &object_size, arg_stream, &stream))
		return NULL;
	if (object_size != Py_None && !arg_bytes(object_size, &size))
		return NULL;
	if (end_open(object_to, &to, true) &&
	    end_open(object_from, &from, false))
		result = copy_ends(&to, &from, size, stream);
	end_close(&to);
	end_close(&from);
	return result;
}

PyMethodDef copy_methods[] = {
	{ "copy", NATIVE_KEYWORDS(module_copy), METH_VARARGS | METH_KEYWORDS,
	    copy_doc },
	{ NULL, NULL, 0, NULL },
};
