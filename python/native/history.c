/*
 * The history, annotations of it, and snapshots.
 */
#include "python/native/native.h"

static const char *const levels[] = { "none", "state", "alloc", "all", NULL };
static const char *const stack_kinds[] = { "all", "python", NULL };
static const char *const formats[] = { "pickle", "json", NULL };

PyDoc_STRVAR(start_doc,
    "history_start($module, level='all', *, stacks='all', max_entries=0,\n"
    "              skip=None, clear=False)\n--\n\n"
    "Record the history of every device from now on: allocations, frees, "
    "memory\n"
    "got from the driver or given back, failures, snapshots.\n\n"
    "level: where stacks are taken: 'none', 'state' (blocks of a snapshot "
    "carry\n"
    "them), 'alloc' (events too), 'all' (frees and trims have their own).\n"
    "stacks: 'all' is Python's and C's frames, 'python' Python's only.\n"
    "max_entries: events to keep of each device, the latest; 0 is 1,000,000. "
    "One\n"
    "takes 64 bytes.\n"
    "skip: actions not to record, as 'oom,segment_map'.\n"
    "clear: forget what has been recorded so far.\n\n"
    "Raises ValueError for another word. While the history is on, every\n"
    "allocation and free takes the device's lock.");

static PyObject *
module_history_start(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "level", "stacks", "max_entries", "skip",
		"clear", NULL };
	struct weir_history history = { .struct_size = sizeof history };
	const char *level = "all";
	const char *stacks = "all";
	int clear = 0;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|s$sO&zp:history_start",
		names, &level, &stacks, arg_bytes, &history.max_entries,
		&history.skip, &clear))
		return NULL;
	int chosen = arg_choice("level", level, levels);
	int kind = chosen < 0 ? -1 : arg_choice("stacks", stacks, stack_kinds);
	if (kind < 0)
		return NULL;
	history.level = (enum weir_history_level)chosen;
	history.stacks = (enum weir_stacks)kind;
	history.clear = clear != 0;
	return error_none(weir_history_start(&history));
}

static PyObject *
module_history_stop(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return error_none(weir_history_stop());
}

PyDoc_STRVAR(info_doc,
    "history_info($module, device=None)\n--\n\n"
    "What the history of a device has come to, as a dict: on, level, recorded\n"
    "(events since it was last cleared), kept (of these), dropped.");

static PyObject *
module_history_info(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", NULL };
	struct weir_history_info info = { .struct_size = sizeof info };
	int device = WEIR_DEVICE_CURRENT;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O&:history_info", names, arg_device, &device))
		return NULL;
	enum weir_status status = weir_history_info(device, &info);
	if (status != WEIR_OK)
		return error_raise(status);
	return Py_BuildValue("{sNsssKsKsK}", "on", PyBool_FromLong(info.on),
	    "level", levels[info.level], "recorded",
	    (unsigned long long)info.recorded, "kept",
	    (unsigned long long)info.kept, "dropped",
	    (unsigned long long)info.dropped);
}

PyDoc_STRVAR(write_doc,
    "snapshot_write($module, path, format='pickle', *, device=None,\n"
    "               stream=None, pool=None, trace=True)\n--\n\n"
    "Write a snapshot of all memory to a file that pytorch.org/memory_viz and\n"
    "`weir view` read.\n\n"
    "path: str. format: 'pickle' or 'json'. device: None is all devices.\n"
    "stream, pool: only segments in which they have blocks. trace: with the\n"
    "history.\n\n"
    "A failure leaves what was there before. Raises InvalidArgumentError if "
    "the\n"
    "file cannot be written.");

static PyObject *
snapshot_write_call(const char *path, int format, struct weir_snapshot *what)
{
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status =
	    weir_snapshot_write(path, (enum weir_snapshot_format)format, what);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

static PyObject *
module_snapshot_write(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "path", "format", "device", "stream", "pool",
		"trace", NULL };
	struct weir_snapshot what = { .struct_size = sizeof what };
	PyObject *path;
	const char *format = "pickle";
	PyObject *device = Py_None;
	PyObject *stream = Py_None;
	struct weir_pool *pool = NULL;
	int trace = 1;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs,
		"O&|s$OOO&p:snapshot_write", names, PyUnicode_FSConverter,
		&path, &format, &device, &stream, arg_pool, &pool, &trace))
		return NULL;
	int chosen = arg_choice("format", format, formats);
	what.device = WEIR_DEVICE_ALL;
	what.of_stream = stream != Py_None;
	what.of_pool = pool != NULL;
	weir_pool_segment_id(pool, what.pool_id);
	what.no_trace = trace == 0;
	PyObject *result = NULL;
	if (chosen >= 0 &&
	    (device == Py_None || arg_device(device, &what.device)) &&
	    (stream == Py_None || arg_stream(stream, &what.stream)))
		result =
		    snapshot_write_call(PyBytes_AsString(path), chosen, &what);
	Py_DecRef(path);
	return result;
}

/* ---- Texts ------------------------------------------------------------- */

PyDoc_STRVAR(metadata_doc,
    "set_metadata($module, text)\n--\n\n"
    "A text that events of the calling thread carry from now on as\n"
    "'user_metadata'; None ends it. Different texts are kept for the life of "
    "the\n"
    "process, up to 65,000 of them.");

static PyObject *
module_set_metadata(PyObject *module, PyObject *args)
{
	const char *text;

	(void)module;
	if (!PyArg_ParseTuple(args, "z:set_metadata", &text))
		return NULL;
	return error_none(weir_metadata_set(text));
}

static PyObject *
module_get_metadata(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	const char *text = weir_metadata_get();
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyDoc_STRVAR(annotate_doc,
    "annotate_begin($module, name, device=None)\n--\n\n"
    "Note in the history that a region of the program begins; weir.annotate()\n"
    "does both ends as a `with` block. Nothing while the history is off.");

static PyObject *
annotate(PyObject *args, PyObject *kwargs, enum weir_stage stage)
{
	static char *names[] = { "name", "device", NULL };
	const char *name;
	int device = WEIR_DEVICE_CURRENT;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "s|O&", names, &name, arg_device, &device))
		return NULL;
	return error_none(weir_annotate(name, stage, device));
}

static PyObject *
module_annotate_begin(PyObject *module, PyObject *args, PyObject *kwargs)
{
	(void)module;
	return annotate(args, kwargs, WEIR_STAGE_START);
}

static PyObject *
module_annotate_end(PyObject *module, PyObject *args, PyObject *kwargs)
{
	(void)module;
	return annotate(args, kwargs, WEIR_STAGE_END);
}

PyMethodDef history_methods[] = {
	{ "history_start", NATIVE_KEYWORDS(module_history_start),
	    METH_VARARGS | METH_KEYWORDS, start_doc },
	{ "history_stop", module_history_stop, METH_NOARGS,
	    "history_stop($module)\n--\n\n"
	    "Stop recording and forget all that was recorded." },
	{ "history_info", NATIVE_KEYWORDS(module_history_info),
	    METH_VARARGS | METH_KEYWORDS, info_doc },
	{ "snapshot_write", NATIVE_KEYWORDS(module_snapshot_write),
	    METH_VARARGS | METH_KEYWORDS, write_doc },
	{ "set_metadata", module_set_metadata, METH_VARARGS, metadata_doc },
	{ "get_metadata", module_get_metadata, METH_NOARGS,
	    "get_metadata($module)\n--\n\n"
	    "The text last set on this thread, or ''." },
	{ "annotate_begin", NATIVE_KEYWORDS(module_annotate_begin),
	    METH_VARARGS | METH_KEYWORDS, annotate_doc },
	{ "annotate_end", NATIVE_KEYWORDS(module_annotate_end),
	    METH_VARARGS | METH_KEYWORDS,
	    "annotate_end($module, name, device=None)\n--\n\n"
	    "Note that the region ends." },
	{ NULL, NULL, 0, NULL },
};
