/*
 * Tensors in files; weir.save_tensors() and weir.load_tensors() are Python code
 * over these two.
 */
#include "python/native/tensor.h"

#include <stdlib.h>
#include <string.h>
#include <weir/save.h>

/* ---- Progress ---------------------------------------------------------- */

/* A Python callback, and its first exception. */
struct progress {
	PyObject *callable; /* NULL: there is none */
	PyObject *type;
	PyObject *value;
	PyObject *traceback;
};

static void
on_progress(void *closure, uint64_t done, uint64_t total)
{
	struct progress *progress = closure;
	PyGILState_STATE gil = PyGILState_Ensure();

	if (progress->type == NULL) {
		PyObject *result = PyObject_CallFunction(progress->callable,
		    "KK", (unsigned long long)done, (unsigned long long)total);
		if (result == NULL)
			PyErr_Fetch(&progress->type, &progress->value,
			    &progress->traceback);
		Py_XDECREF(result);
	}
	PyGILState_Release(gil);
}

/* Raise the exception of the callback. True if there is one. */
static bool
progress_raise(struct progress *progress)
{
	if (progress->type == NULL)
		return false;
	PyErr_Restore(progress->type, progress->value, progress->traceback);
	return true;
}

/* ---- Paths ------------------------------------------------------------- */

/* A path as it was given, str or bytes, and for the system. */
struct path {
	PyObject *given;
	PyObject *bytes;
};

/* Converter for "O&". */
static int
path_open(PyObject *object, void *out)
{
	struct path *path = out;

	if (object == NULL) {
		Py_DecRef(path->given);
		Py_DecRef(path->bytes);
		return 0;
	}
	path->bytes = NULL;
	path->given = PyOS_FSPath(object);
	if (path->given == NULL)
		return 0;
	if (PyUnicode_FSConverter(path->given, &path->bytes) != 0)
		return Py_CLEANUP_SUPPORTED;
	Py_DecRef(path->given);
	return 0;
}

static void
path_close(struct path *path)
{
	path_open(NULL, path);
}

/* ---- Lists of texts ---------------------------------------------------- */

/* The texts of a tuple, which keeps their references: an array that ends with
 * NULL, to be freed; NULL with an exception set. */
static const char **
texts_of(PyObject *tuple)
{
	Py_ssize_t n = PyTuple_Size(tuple);
	const char **texts =
	    n < 0 ? NULL : calloc((size_t)n + 1, sizeof *texts);

	if (texts == NULL && n >= 0)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; texts != NULL && i < n; i++)
		if (!PyArg_Parse(PyTuple_GetItem(tuple, i), "s", &texts[i])) {
			free(texts);
			return NULL;
		}
	return texts;
}

/* ---- Saving ------------------------------------------------------------ */

/* Names and tensors in tuples, as pairs; to be freed. */
static struct weir_named *
named_of(PyObject *names, PyObject *tensors)
{
	Py_ssize_t n = PyTuple_Size(names);

	if (PyTuple_Size(tensors) != n) {
		PyErr_Format(PyExc_ValueError, "%zd names of %zd tensors", n,
		    PyTuple_Size(tensors));
		return NULL;
	}
	struct weir_named *named = calloc((size_t)n + 1, sizeof *named);

	if (named == NULL)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; named != NULL && i < n; i++) {
		PyObject *tensor = PyTuple_GetItem(tensors, i);
		bool right = tensor_is(tensor) &&
		    PyArg_Parse(PyTuple_GetItem(names, i), "s", &named[i].name);
		if (!right) {
			if (PyErr_Occurred() == NULL)
				PyErr_Format(PyExc_TypeError,
				    "%R is no weir.Tensor", tensor);
			free(named);
			return NULL;
		}
		named[i].tensor = tensor_of(tensor);
	}
	return named;
}

static PyObject *
save_tensors(const struct path *path, const struct weir_named *named, size_t n,
    struct weir_save_options *options)
{
	const char *name = PyBytes_AsString(path->bytes);
	struct progress *progress = options->closure;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = weir_save(name, named, n, options);
	NATIVE_TAKE_GIL;
	if (progress_raise(progress))
		return NULL;
	return status == WEIR_OK ? native_none() :
				   error_raise_path(status, path->given);
}

static PyObject *
module_save(PyObject *module, PyObject *args)
{
	struct path path;
	PyObject *names;
	PyObject *tensors;
	PyObject *metadata;
	struct progress progress = { NULL, NULL, NULL, NULL };
	PyObject *result = NULL;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&O!O!O!O:_save", path_open, &path,
		&PyTuple_Type, &names, &PyTuple_Type, &tensors, &PyTuple_Type,
		&metadata, &progress.callable))
		return NULL;
	const char **texts = texts_of(metadata);
	struct weir_named *named =
	    texts == NULL ? NULL : named_of(names, tensors);
	struct weir_save_options options = { .struct_size = sizeof options,
		.metadata = texts,
		.progress = progress.callable != Py_None ? on_progress : NULL,
		.closure = &progress };
	if (named != NULL)
		result = save_tensors(
		    &path, named, (size_t)PyTuple_Size(names), &options);
	free(named);
	free(texts);
	path_close(&path);
	return result;
}

/* ---- Loading ----------------------------------------------------------- */

/* A text of a file as a str. A zero character is C0 80 in it, and neither byte
 * occurs in UTF-8 in any other way. */
static PyObject *
loaded_text(const char *text)
{
	static const char zero[] = "\xc0\x80";
	size_t length = strlen(text), used = 0;
	const char *next = strstr(text, zero);
	char *plain;

	if (next == NULL)
		return PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
	plain = malloc(length);
	if (plain == NULL)
		return PyErr_NoMemory();
	for (; next != NULL; next = strstr(text, zero)) {
		memcpy(plain + used, text, (size_t)(next - text));
		used += (size_t)(next - text);
		plain[used++] = '\0';
		text = next + 2;
	}
	length = strlen(text);
	memcpy(plain + used, text, length);
	PyObject *result =
	    PyUnicode_FromStringAndSize(plain, (Py_ssize_t)(used + length));
	free(plain);
	return result;
}

/* The program's metadata: a dict. */
static PyObject *
loaded_metadata(const struct weir_loaded *loaded)
{
	PyObject *dict = PyDict_New();
	const char *key;

	for (size_t i = 0; dict != NULL; i++) {
		key = weir_loaded_key(loaded, i);
		if (key == NULL)
			break;
		PyObject *name = loaded_text(key);
		PyObject *value =
		    loaded_text(weir_loaded_metadata(loaded, key));
		if (name == NULL || value == NULL ||
		    PyDict_SetItem(dict, name, value) != 0) {
			Py_DecRef(dict);
			dict = NULL;
		}
		Py_XDECREF(name);
		Py_XDECREF(value);
	}
	return dict;
}

/* The lengths that a file states, as a tuple. */
static PyObject *
loaded_shape(size_t n, const uint64_t *lengths)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);

	for (size_t i = 0; tuple != NULL && i < n; i++) {
		PyObject *length = PyLong_FromUnsignedLongLong(lengths[i]);
		if (length == NULL ||
		    PyTuple_SetItem(tuple, (Py_ssize_t)i, length) != 0) {
			Py_DecRef(tuple);
			tuple = NULL;
		}
	}
	return tuple;
}

/* Type and shape of the tensors that are here as bytes: a dict. */
static PyObject *
loaded_opaque(const struct weir_loaded *loaded)
{
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict != NULL && i < weir_loaded_count(loaded); i++) {
		const uint64_t *lengths = NULL;
		size_t n = 0;
		const char *dtype = weir_loaded_opaque(loaded, i, &n, &lengths);

		if (dtype == NULL)
			continue;
		PyObject *name = loaded_text(weir_loaded_name(loaded, i));
		PyObject *form =
		    Py_BuildValue("(sN)", dtype, loaded_shape(n, lengths));
		if (name == NULL || form == NULL ||
		    PyDict_SetItem(dict, name, form) != 0) {
			Py_DecRef(dict);
			dict = NULL;
		}
		Py_XDECREF(name);
		Py_XDECREF(form);
	}
	return dict;
}

static PyObject *
loaded_one(const struct weir_loaded *loaded, size_t i)
{
	const struct weir_tensor *tensor = weir_loaded_tensor(loaded, i);
	struct weir_tensor_info info = { .struct_size = sizeof info };
	struct weir_tensor *own = NULL;

	weir_tensor_info(tensor, &info);
	enum weir_status status = weir_tensor_alias(tensor, info.stream, &own);
	PyObject *object = tensor_result(status, own);
	if (object == NULL)
		return NULL;
	return Py_BuildValue(
	    "(NN)", loaded_text(weir_loaded_name(loaded, i)), object);
}

static PyObject *
loaded_pairs(const struct weir_loaded *loaded)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list != NULL && i < weir_loaded_count(loaded); i++) {
		PyObject *pair = loaded_one(loaded, i);
		if (pair == NULL || PyList_Append(list, pair) != 0) {
			Py_DecRef(list);
			list = NULL;
		}
		Py_XDECREF(pair);
	}
	return list;
}

/* Pairs of names and tensors, the metadata, and the forms of opaque tensors. */
static PyObject *
loaded_all(const struct weir_loaded *loaded)
{
	return Py_BuildValue("(NNN)", loaded_pairs(loaded),
	    loaded_metadata(loaded), loaded_opaque(loaded));
}

static PyObject *
load_tensors(const struct path *path, struct weir_load_options *options)
{
	const char *name = PyBytes_AsString(path->bytes);
	struct progress *progress = options->closure;
	struct weir_loaded *loaded = NULL;
	enum weir_status status;

	NATIVE_RELEASE_GIL;
	status = weir_load(name, options, &loaded);
	NATIVE_TAKE_GIL;
	PyObject *result = NULL;
	if (!progress_raise(progress))
		result = status == WEIR_OK ?
		    loaded_all(loaded) :
		    error_raise_path(status, path->given);
	weir_loaded_drop(loaded);
	return result;
}

static PyObject *
module_load(PyObject *module, PyObject *args)
{
	struct path path;
	struct tensor_place place = { .given = false };
	PyObject *map;
	struct progress progress = { NULL, NULL, NULL, NULL };
	PyObject *result = NULL;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&O&O!O:_load", path_open, &path,
		tensor_arg_place, &place, &PyTuple_Type, &map,
		&progress.callable))
		return NULL;
	const char **texts = texts_of(map);
	bool right = texts != NULL &&
	    (!place.given || tensor_place_resolve(&place, ARG_STREAM_CURRENT));
	struct weir_load_options options = { .struct_size = sizeof options,
		.place = place.given ? &place.place : NULL,
		.map = texts,
		.progress = progress.callable != Py_None ? on_progress : NULL,
		.closure = &progress };
	if (right)
		result = load_tensors(&path, &options);
	free(texts);
	path_close(&path);
	return result;
}

PyMethodDef save_functions[] = {
	{ "_save", module_save, METH_VARARGS, NULL },
	{ "_load", module_load, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
