/*
 * Sleep and wake.
 */
#include <weir/sleep.h>

#include "python/native/native.h"

PyDoc_STRVAR(sleep_doc,
    "sleep($module, device=None, *, discard_pools=(), discard_ranges=(),\n"
    "      discard_names=(), discard_all=False, live_only=False, fail=False)\n"
    "--\n\n"
    "Put a device to sleep: what is live is copied to host memory, and all\n"
    "memory that weir has from handles goes back to the driver. Addresses "
    "stay.\n"
    "Until wake() its memory must not be used. device \"all\": all devices.\n\n"
    "discard_pools, discard_names, discard_ranges: ids and names of pools, "
    "and\n"
    "pairs (address, bytes), whose contents are undefined afterwards;\n"
    "discard_all: all contents.\n"
    "live_only: do not copy the free memory of pools that graphs keep, where\n"
    "replays may have left results. fail: let requests of all threads fail\n"
    "meanwhile instead of waiting; those of this thread always fail.\n\n"
    "Returns a dict: freed_bytes, copied_bytes, discarded_bytes, stays (bytes\n"
    "that cannot leave, by reason), wait_ns, copy_ns, unmap_ns. After an "
    "error\n"
    "the device is awake.");

/* int *: as arg_device(); "all" is all devices. */
static int
arg_devices(PyObject *object, void *out)
{
	if (PyUnicode_Check(object) &&
	    PyUnicode_CompareWithASCIIString(object, "all") == 0) {
		*(int *)out = WEIR_DEVICE_ALL;
		return 1;
	}
	return arg_device(object, out);
}

/* The numbers of a sequence, `width` to an item (1 or 2). Returns an array of
 * *n items, to be freed with PyMem_Free(); NULL with an exception. */
static uint64_t *
read_numbers(PyObject *object, int width, Py_ssize_t *n)
{
	PyObject *items = PySequence_Tuple(object);
	uint64_t *numbers = NULL;

	if (items == NULL)
		return NULL;
	*n = PyTuple_Size(items);
	numbers =
	    PyMem_Calloc((size_t)*n * (size_t)width + 1, sizeof(*numbers));
	if (numbers == NULL)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; numbers != NULL && i < *n; i++) {
		PyObject *item = PyTuple_GetItem(items, i);
		unsigned long long a = 0;
		unsigned long long b = 0;

		if (width == 2 && !PyTuple_Check(item))
			PyErr_SetString(PyExc_TypeError,
			    "discard_ranges has pairs (address, bytes)");
		else if (width == 2)
			PyArg_ParseTuple(item, "KK", &a, &b);
		else
			a = PyLong_AsUnsignedLongLong(item);
		if (PyErr_Occurred() != NULL) {
			PyMem_Free(numbers);
			numbers = NULL;
			break;
		}
		numbers[i * width] = a;
		if (width == 2)
			numbers[i * width + 1] = b;
	}
	Py_DecRef(items);
	return numbers;
}

static PyObject *
stays_dict(const struct weir_sleep_result *result)
{
	PyObject *dict = PyDict_New();

	for (int i = 0; dict != NULL && i < WEIR_SLEEP_REASON_COUNT; i++) {
		PyObject *bytes = PyLong_FromSize_t(result->stays[i].bytes);
		int failed = bytes == NULL ||
		    PyDict_SetItemString(dict,
			weir_sleep_reason_text((enum weir_sleep_reason)i),
			bytes) != 0;
		if (bytes != NULL)
			Py_DecRef(bytes);
		if (failed) {
			Py_DecRef(dict);
			return NULL;
		}
	}
	return dict;
}

static PyObject *
sleep_result(const struct weir_sleep_result *result)
{
	PyObject *stays = stays_dict(result);

	return stays == NULL ?
	    NULL :
	    Py_BuildValue("{sNsNsNsNsKsKsK}", "freed_bytes",
		PyLong_FromSize_t(result->freed_bytes), "copied_bytes",
		PyLong_FromSize_t(result->copied_bytes), "discarded_bytes",
		PyLong_FromSize_t(result->discarded_bytes), "stays", stays,
		"wait_ns", (unsigned long long)result->wait_ns, "copy_ns",
		(unsigned long long)result->copy_ns, "unmap_ns",
		(unsigned long long)result->unmap_ns);
}

/* Names, as weir_sleep() takes them. */
struct names {
	PyObject *texts;     /* a list of bytes, which own the names */
	const char **values; /* PyMem_Free() */
	size_t n;
};

static void
drop_names(struct names *names)
{
	Py_XDECREF(names->texts);
	PyMem_Free(names->values);
}

/* Append a string; false with an exception. */
static bool
add_name(struct names *names, PyObject *item)
{
	PyObject *text =
	    PyUnicode_Check(item) ? PyUnicode_AsUTF8String(item) : NULL;
	bool added = text != NULL && PyList_Append(names->texts, text) == 0;

	if (added)
		names->values[names->n++] = PyBytes_AsString(text);
	else if (PyErr_Occurred() == NULL)
		PyErr_SetString(
		    PyExc_TypeError, "discard_names has names of pools");
	Py_XDECREF(text);
	return added;
}

/* Read a sequence of strings; false with an exception. */
static bool
read_names(PyObject *object, struct names *names)
{
	PyObject *items =
	    PyUnicode_Check(object) ? NULL : PySequence_Tuple(object);
	Py_ssize_t n = items != NULL ? PyTuple_Size(items) : 0;
	bool right = items != NULL;

	if (PyUnicode_Check(object))
		PyErr_SetString(PyExc_TypeError,
		    "discard_names is a sequence of names, not one name");
	if (right) {
		names->texts = PyList_New(0);
		names->values =
		    PyMem_Calloc((size_t)n + 1, sizeof(*names->values));
		right = names->texts != NULL && names->values != NULL;
		if (names->texts != NULL && names->values == NULL)
			PyErr_NoMemory();
	}
	for (Py_ssize_t i = 0; right && i < n; i++)
		right = add_name(names, PyTuple_GetItem(items, i));
	Py_XDECREF(items);
	return right;
}

/* Call weir_sleep(), with `pairs` as ranges. */
static enum weir_status
sleep_without_gil(int device, struct weir_sleep_options *options,
    const uint64_t *pairs, struct weir_sleep_result *result)
{
	size_t n = options->discard_range_count;
	struct weir_sleep_range *ranges = PyMem_Calloc(n + 1, sizeof(*ranges));
	enum weir_status status;

	if (ranges == NULL)
		return WEIR_EHOSTMEM;
	for (size_t i = 0; i < n; i++)
		ranges[i] = (struct weir_sleep_range){
			(const void *)(uintptr_t)pairs[2 * i],
			(size_t)pairs[2 * i + 1]
		};
	options->discard_ranges = ranges;
	NATIVE_RELEASE_GIL;
	status = weir_sleep(device, options, result);
	NATIVE_TAKE_GIL;
	PyMem_Free(ranges);
	return status;
}

static PyObject *
module_sleep(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *keywords[] = { "device", "discard_pools", "discard_ranges",
		"discard_names", "discard_all", "live_only", "fail", NULL };
	struct weir_sleep_options options = { .struct_size = sizeof options };
	struct weir_sleep_result result = { .struct_size = sizeof result };
	struct names names = { NULL, NULL, 0 };
	PyObject *pools = NULL;
	PyObject *ranges = NULL;
	PyObject *named = NULL;
	int device = WEIR_DEVICE_CURRENT;
	int all = 0;
	int live = 0;
	int fail = 0;
	Py_ssize_t n = 0;
	uint64_t *ids = NULL;
	uint64_t *pairs = NULL;
	PyObject *out = NULL;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&$OOOppp:sleep",
		keywords, arg_devices, &device, &pools, &ranges, &named, &all,
		&live, &fail))
		return NULL;
	options.flags = (all ? WEIR_SLEEP_DISCARD_ALL : 0u) |
	    (live ? WEIR_SLEEP_LIVE_ONLY : 0u) | (fail ? WEIR_SLEEP_FAIL : 0u);
	if (pools != NULL && (ids = read_numbers(pools, 1, &n)) == NULL)
		return NULL;
	options.discard_pools = ids;
	options.discard_pool_count = (size_t)n;
	n = 0;
	if (ranges != NULL && (pairs = read_numbers(ranges, 2, &n)) == NULL)
		goto drop;
	options.discard_range_count = (size_t)n;
	if (named != NULL && !read_names(named, &names))
		goto drop;
	options.discard_names = names.values;
	options.discard_name_count = names.n;
	hooks_catch();
	enum weir_status status =
	    sleep_without_gil(device, &options, pairs, &result);
	if (!hooks_raised())
		out = status == WEIR_OK ? sleep_result(&result) :
					  error_raise(status);
drop:
	drop_names(&names);
	PyMem_Free(ids);
	PyMem_Free(pairs);
	return out;
}

PyDoc_STRVAR(wake_doc,
    "wake($module, device=None, *, wait_ms=0)\n--\n\n"
    "Wake a device: map its memory at the same addresses, with its contents.\n"
    "wait_ms: how long to wait for memory that others hold. Returns a dict:\n"
    "mapped_bytes, copied_bytes, wait_ns, map_ns. Raises OutOfMemoryError if\n"
    "there is no memory; the device sleeps on then, and the call can be "
    "repeated.");

static PyObject *
module_wake(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", "wait_ms", NULL };
	struct weir_wake_result result = { .struct_size = sizeof result };
	int device = WEIR_DEVICE_CURRENT;
	unsigned long long wait_ms = 0;
	enum weir_status status;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&$K:wake", names,
		arg_devices, &device, &wait_ms))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_wake(device, wait_ms, &result);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	return Py_BuildValue("{sNsNsKsK}", "mapped_bytes",
	    PyLong_FromSize_t(result.mapped_bytes), "copied_bytes",
	    PyLong_FromSize_t(result.copied_bytes), "wait_ns",
	    (unsigned long long)result.wait_ns, "map_ns",
	    (unsigned long long)result.map_ns);
}

PyDoc_STRVAR(is_asleep_doc,
    "is_asleep($module, device=None)\n--\n\n"
    "Is the device asleep, or about to be, or about to wake?");

static PyObject *
module_is_asleep(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", NULL };
	int device = WEIR_DEVICE_CURRENT;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O&:is_asleep", names, arg_devices, &device))
		return NULL;
	return PyBool_FromLong(weir_is_asleep(device));
}

PyMethodDef sleep_methods[] = {
	{ "sleep", NATIVE_KEYWORDS(module_sleep), METH_VARARGS | METH_KEYWORDS,
	    sleep_doc },
	{ "wake", NATIVE_KEYWORDS(module_wake), METH_VARARGS | METH_KEYWORDS,
	    wake_doc },
	{ "is_asleep", NATIVE_KEYWORDS(module_is_asleep),
	    METH_VARARGS | METH_KEYWORDS, is_asleep_doc },
	{ NULL, NULL, 0, NULL },
};
