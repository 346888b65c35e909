/*
 * Statistics, limits, trimming, checking.
 */
#include "python/native/native.h"

#include <stdlib.h>

PyObject *
stats_result(enum weir_status status, const struct weir_stats *stats)
{
	if (status != WEIR_OK)
		return error_raise(status);
	PyObject *dict = PyDict_New();
	const char *name;
	uint64_t value;

	for (size_t i = 0;
	     dict != NULL && weir_stats_item(stats, i, &name, &value); i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(value);
		if (number == NULL ||
		    PyDict_SetItemString(dict, name, number) != 0) {
			Py_DecRef(dict);
			dict = NULL;
		}
		Py_XDECREF(number);
	}
	return dict;
}

PyDoc_STRVAR(stats_doc,
    "stats($module, device=None, stream=None)\n--\n\n"
    "The statistics of a device, or the part of one stream of it, as a dict "
    "of\n"
    "flat names, as 'allocated_bytes.all.peak' or 'num_ooms'. Names and "
    "meaning\n"
    "are PyTorch's; 'pending_bytes' are freed and wait for other streams,\n"
    "'metadata_bytes' is host memory weir uses for itself. A device weir has "
    "not\n"
    "been used on reads as all zeros.");

static PyObject *
module_stats(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", "stream", NULL };
	struct weir_stats stats = { .struct_size = sizeof stats };
	int device = WEIR_DEVICE_CURRENT;
	PyObject *named = Py_None;
	weir_stream stream = NULL;
	enum weir_status status;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&O:stats", names,
		arg_device, &device, &named) ||
	    (named != Py_None && !arg_stream(named, &stream)))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = named == Py_None ? weir_stats(device, &stats) :
				    weir_stats_stream(device, stream, &stats);
	NATIVE_TAKE_GIL;
	return stats_result(status, &stats);
}

/* ---- Calls with a device only ------------------------------------------ */

PyDoc_STRVAR(pinned_stats_doc,
    "pinned_stats($module, device=None)\n--\n\n"
    "The statistics of page-locked host memory allocated on behalf of a "
    "device,\n"
    "as stats(); none of it is in stats().");

static enum weir_status
read_pinned_stats(int device, void *out)
{
	return weir_host_stats(device, out);
}

static PyObject *
module_pinned_stats(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct weir_stats stats = { .struct_size = sizeof stats };

	(void)module;
	if (!device_read(args, kwargs, read_pinned_stats, &stats))
		return NULL;
	return stats_result(WEIR_OK, &stats);
}

static PyObject *
reset_with(PyObject *args, PyObject *kwargs, enum weir_status (*memory)(int),
    enum weir_status (*pinned)(int))
{
	int device;
	enum weir_status status;

	if (!arg_only_device(args, kwargs, &device))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = memory(device);
	if (status == WEIR_OK)
		status = pinned(device);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(reset_peak_doc,
    "reset_peak_stats($module, device=None)\n--\n\n"
    "Make every peak of stats() and pinned_stats() equal to its current "
    "value.");

static PyObject *
module_reset_peak(PyObject *module, PyObject *args, PyObject *kwargs)
{
	(void)module;
	return reset_with(
	    args, kwargs, weir_stats_reset_peak, weir_host_stats_reset_peak);
}

PyDoc_STRVAR(reset_accumulated_doc,
    "reset_accumulated_stats($module, device=None)\n--\n\n"
    "Zero the allocated and freed sums and the counters of stats() and\n"
    "pinned_stats().");

static PyObject *
module_reset_accumulated(PyObject *module, PyObject *args, PyObject *kwargs)
{
	(void)module;
	return reset_with(args, kwargs, weir_stats_reset_accumulated,
	    weir_host_stats_reset_accumulated);
}

PyDoc_STRVAR(memory_info_doc,
    "memory_info($module, device=None)\n--\n\n"
    "(free, total) bytes of a device as a program should see them: free is "
    "what\n"
    "the driver has free plus what weir holds unused, within the limit.");

struct memory_info {
	size_t free_bytes;
	size_t total_bytes;
};

static enum weir_status
read_memory_info(int device, void *out)
{
	struct memory_info *info = out;

	return weir_memory_info(device, &info->free_bytes, &info->total_bytes);
}

static PyObject *
module_memory_info(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct memory_info info = { 0, 0 };

	(void)module;
	if (!device_read(args, kwargs, read_memory_info, &info))
		return NULL;
	return Py_BuildValue("(NN)", PyLong_FromSize_t(info.free_bytes),
	    PyLong_FromSize_t(info.total_bytes));
}

/* ---- Limits ------------------------------------------------------------ */

PyDoc_STRVAR(limit_doc,
    "limit($module, device=None)\n--\n\n"
    "The most bytes weir may hold on a device, or None where there is no "
    "limit.");

static enum weir_status
read_limit(int device, void *out)
{
	return weir_limit_get(device, out);
}

static PyObject *
module_limit(PyObject *module, PyObject *args, PyObject *kwargs)
{
	size_t bytes = 0;

	(void)module;
	if (!device_read(args, kwargs, read_limit, &bytes))
		return NULL;
	if (bytes == SIZE_MAX)
		return native_none();
	return PyLong_FromSize_t(bytes);
}

PyDoc_STRVAR(set_limit_doc,
    "set_limit($module, limit, device=None)\n--\n\n"
    "Bound what weir holds on a device: an int is bytes, a float from 0.0 to "
    "1.0\n"
    "a fraction of the device's memory, None no limit. Memory that is held\n"
    "already stays; new requests reclaim first then. Raises\n"
    "InvalidArgumentError for another fraction.");

static PyObject *
module_set_limit(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "limit", "device", NULL };
	PyObject *limit;
	int device = WEIR_DEVICE_CURRENT;
	size_t bytes = SIZE_MAX;
	enum weir_status status;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O&:set_limit", names,
		&limit, arg_device, &device))
		return NULL;
	bool is_fraction = PyFloat_Check(limit);
	double fraction = is_fraction ? PyFloat_AsDouble(limit) : 1;
	if (!is_fraction && limit != Py_None && !arg_bytes(limit, &bytes))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = is_fraction ? weir_fraction_set(device, fraction) :
			       weir_limit_set(device, bytes);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(trim_doc,
    "trim($module, device=None, keep_bytes=0, *, pinned=False)\n--\n\n"
    "Give unused memory back to the driver, the largest and longest unused\n"
    "first, until at most keep_bytes stay cached; with pinned=True "
    "page-locked\n"
    "host memory, to the system. Waits for the streams whose freed memory "
    "goes\n"
    "back. Returns the bytes given back. device 'all' is every device.");

/* arg_device() that also accepts "all". */
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

static PyObject *
module_trim(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", "keep_bytes", "pinned", NULL };
	int device = WEIR_DEVICE_CURRENT;
	size_t keep = 0;
	size_t freed = 0;
	int pinned = 0;
	enum weir_status status;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&O&$p:trim", names,
		arg_devices, &device, arg_bytes, &keep, &pinned))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = pinned ? weir_host_trim(device, keep, &freed) :
			  weir_trim(device, keep, &freed);
	NATIVE_TAKE_GIL;
	return error_size(status, freed);
}

PyDoc_STRVAR(largest_free_doc,
    "largest_free($module, device=None, stream=None)\n--\n\n"
    "Bytes of the largest request that the free blocks of one stream can "
    "serve\n"
    "without new memory.");

static PyObject *
module_largest_free(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", "stream", NULL };
	int device = WEIR_DEVICE_CURRENT;
	weir_stream stream = ARG_STREAM_CURRENT;
	size_t bytes = 0;
	enum weir_status status;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&O&:largest_free",
		names, arg_device, &device, arg_stream, &stream) ||
	    !arg_stream_resolve(device, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_largest_free(device, stream, &bytes);
	NATIVE_TAKE_GIL;
	return error_size(status, bytes);
}

PyDoc_STRVAR(check_doc,
    "check($module)\n--\n\n"
    "Walk all memory and compare it with weir's invariants. Returns a list of\n"
    "faults, a line each; an empty one is health. Changes nothing.");

static PyObject *
module_check(PyObject *module, PyObject *none)
{
	enum { TEXT = 64 << 10 };
	char *text = malloc(TEXT);
	size_t faults;

	(void)module;
	(void)none;
	if (text == NULL)
		return PyErr_NoMemory();
	text[0] = '\0';
	NATIVE_RELEASE_GIL;
	faults = weir_check(text, TEXT);
	NATIVE_TAKE_GIL;
	PyObject *whole =
	    PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	PyObject *all = NULL;
	if (whole != NULL)
		all = faults == 0 ? PyList_New(0) :
				    PyUnicode_Splitlines(whole, 0);
	Py_XDECREF(whole);
	free(text);
	return all;
}

PyMethodDef stats_methods[] = {
	{ "stats", NATIVE_KEYWORDS(module_stats), METH_VARARGS | METH_KEYWORDS,
	    stats_doc },
	{ "pinned_stats", NATIVE_KEYWORDS(module_pinned_stats),
	    METH_VARARGS | METH_KEYWORDS, pinned_stats_doc },
	{ "reset_peak_stats", NATIVE_KEYWORDS(module_reset_peak),
	    METH_VARARGS | METH_KEYWORDS, reset_peak_doc },
	{ "reset_accumulated_stats", NATIVE_KEYWORDS(module_reset_accumulated),
	    METH_VARARGS | METH_KEYWORDS, reset_accumulated_doc },
	{ "memory_info", NATIVE_KEYWORDS(module_memory_info),
	    METH_VARARGS | METH_KEYWORDS, memory_info_doc },
	{ "limit", NATIVE_KEYWORDS(module_limit), METH_VARARGS | METH_KEYWORDS,
	    limit_doc },
	{ "set_limit", NATIVE_KEYWORDS(module_set_limit),
	    METH_VARARGS | METH_KEYWORDS, set_limit_doc },
	{ "trim", NATIVE_KEYWORDS(module_trim), METH_VARARGS | METH_KEYWORDS,
	    trim_doc },
	{ "largest_free", NATIVE_KEYWORDS(module_largest_free),
	    METH_VARARGS | METH_KEYWORDS, largest_free_doc },
	{ "check", module_check, METH_NOARGS, check_doc },
	{ NULL, NULL, 0, NULL },
};
