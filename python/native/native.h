/*
 * weir._weir: the C half of the Python package, over the stable ABI of CPython
 * 3.9, so that one build serves every later version.
 *
 * It calls the public headers only. The rules of every file here:
 *
 * - The GIL is released around each call of weir that may wait or call the
 *   driver, and nowhere else.
 * - What is shared between objects (the list of live memory, the callbacks) is
 *   guarded by the GIL.
 * - A deallocator frees without waiting, so it may run on any thread. It leaves
 *   the exception that is being raised as it is.
 * - A function that fails has set an exception; the exception of a failed call
 *   of weir is error_raise()'s, with weir_last_error() as its text.
 */
#ifndef PYTHON_NATIVE_H
#define PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdbool.h>

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/ipc.h>
#include <weir/stream.h>
#include <weir/trace.h>
#include <weir/weir.h>

/* ---- The GIL ----------------------------------------------------------- */

/* Around calls of weir that may wait or call the driver, as a block. The frames
 * of Python are kept for what is recorded meanwhile. */
#define NATIVE_RELEASE_GIL                                                     \
	{                                                                      \
		weir_python_hold();                                            \
		PyThreadState *native_thread = PyEval_SaveThread()
#define NATIVE_TAKE_GIL                                                        \
	PyEval_RestoreThread(native_thread);                                   \
	weir_python_drop();                                                    \
	}                                                                      \
	(void)0

/* ---- Errors (error.c) -------------------------------------------------- */

/* Add the exceptions to the module. False with an exception set. */
bool error_setup(PyObject *module);

/* Raise what a status stands for. Returns NULL. */
PyObject *error_raise(enum weir_status status);

/* None, or NULL with the exception of a status that is not WEIR_OK. */
PyObject *error_none(enum weir_status status);

/* A number of bytes, or NULL with the exception of a status that is not
 * WEIR_OK. */
PyObject *error_size(enum weir_status status, size_t bytes);

/* Raise ValueError that an object is over or freed. Returns NULL. */
PyObject *error_closed(const char *what);

/* ---- Arguments (args.c) ------------------------------------------------ */

/* Converters for "O&" of PyArg_ParseTupleAndKeywords(): 1, or 0 with an
 * exception set. */

/* int *: None is WEIR_DEVICE_CURRENT; an int, "cuda" or "cuda:N". */
int arg_device(PyObject *object, void *out);

/* Not a converter: parse the one argument `device` of a call, which may be left
 * out. False with an exception set. */
bool arg_only_device(PyObject *args, PyObject *kwargs, int *device);

/* size_t *: a number of bytes, 0 or more. */
int arg_bytes(PyObject *object, void *out);

/* weir_stream *: None is ARG_STREAM_CURRENT; a handle, a weir.Stream or what
 * has `__cuda_stream__`. */
int arg_stream(PyObject *object, void *out);

/* Stands for the current stream of the calling thread until it is resolved. */
#define ARG_STREAM_CURRENT ((weir_stream) ~(uintptr_t)2)

/* Turn ARG_STREAM_CURRENT into the current stream on a device. False with an
 * exception set. */
bool arg_stream_resolve(int device, weir_stream *stream);

/* A handle as Python has it: WEIR_STREAM_ANY is -1. */
PyObject *arg_stream_number(weir_stream stream);

/* The position of a word in a list that ends with NULL, or -1 with a ValueError
 * that names the argument, the word and the words there are. */
int arg_choice(
    const char *argument, const char *word, const char *const *words);

/* ---- Memory (memory.c) ------------------------------------------------- */

struct memory {
	PyObject_HEAD void *address; /* NULL: freed */
	size_t size;                 /* bytes asked for */
	int device;
	bool host;           /* page-locked host memory */
	weir_stream stream;  /* of device memory */
	Py_ssize_t exports;  /* buffers that Python has of it */
	struct memory *prev; /* all live ones are in a ring */
	struct memory *next;
};

bool memory_setup(PyObject *module);
extern PyMethodDef memory_methods[];

/* A weir.Memory that owns a block of the device. On failure the block is freed
 * and NULL returned. */
PyObject *memory_wrap(
    void *address, size_t size, int device, weir_stream stream);

/* Let go of blocks that a restore has freed: their objects are freed ones. */
void memory_disown(void *const *addresses, size_t n);

/* Set `out` to the address of an object's live memory, weir.Memory or
 * weir.PinnedMemory; false with an exception set. */
bool memory_address(PyObject *object, void **out);

/* ---- Copies (copy.c) --------------------------------------------------- */

extern PyMethodDef copy_methods[];

/* ---- Buffers ----------------------------------------------------------- */

/*
 * The buffer protocol is part of the stable ABI from 3.11 on only, but its
 * struct and slots are the same in 3.9 and 3.10, whose PyType_FromSpec() takes
 * them. So they are declared here.
 */
struct native_buffer {
	void *buf;
	PyObject *obj;
	Py_ssize_t len;
	Py_ssize_t itemsize;
	int readonly;
	int ndim;
	char *format;
	Py_ssize_t *shape;
	Py_ssize_t *strides;
	Py_ssize_t *suboffsets;
	void *internal;
};

enum {
	NATIVE_BF_GETBUFFER = 1,
	NATIVE_BF_RELEASEBUFFER = 2,
	NATIVE_BUF_SIMPLE = 0,
	NATIVE_BUF_WRITABLE = 1,
	NATIVE_BUF_FORMAT = 4,
	NATIVE_BUF_ND = 8,
	NATIVE_BUF_STRIDES = 0x10 | NATIVE_BUF_ND,
};

int native_get_buffer(PyObject *object, struct native_buffer *view, int flags);
void native_release_buffer(struct native_buffer *view);
int native_fill_buffer(struct native_buffer *view, PyObject *object, void *buf,
    Py_ssize_t size, int flags);

/* ---- Streams and events (stream.c, event.c) ---------------------------- */

struct stream {
	PyObject_HEAD weir_stream handle;
	int device;
	bool owned; /* destroyed with the object */
};

bool stream_setup(PyObject *module);
extern PyMethodDef stream_methods[];
/* Is it a weir.Stream? */
bool stream_is(PyObject *object);

struct event {
	PyObject_HEAD struct weir_event *event;
	struct weir_ipc_export *shared; /* it owns the event then, or NULL */
	struct weir_ipc_import *import; /* likewise */
};

bool event_setup(PyObject *module);
/* The event of a weir.Event, or NULL with a TypeError. */
struct weir_event *event_of(PyObject *object);
bool event_is(PyObject *object);
/* `__reduce_ex__` of what goes to other processes (ipc.c): weir.ipc decides. */
PyObject *ipc_reduce(PyObject *self, PyObject *protocol);
/* Make a weir.Event and record it. */
PyObject *event_recorded(weir_stream stream);
/* Make a weir.Event of an event of another process, which is closed with the
 * object, and at once on failure. */
PyObject *event_wrap(struct weir_ipc_import *import, struct weir_event *event);
/* Let other processes open a weir.Event for as long as it lives. */
enum weir_status event_share(PyObject *object, struct weir_ipc_export **out);

/* ---- Pools and graphs (pool.c, graph.c) -------------------------------- */

struct pool {
	PyObject_HEAD struct weir_pool *pool;
	int device;
};

bool pool_setup(PyObject *module);
/* Wrap a pool that is held for the object; released on failure. */
PyObject *pool_wrap(struct weir_pool *pool, int device);
/* Converter: struct weir_pool **; None is NULL. */
int pool_arg(PyObject *object, void *out);

bool graph_setup(PyObject *module);

/* ---- Devices, statistics, options (device.c, stats.c, option.c) -------- */

extern PyMethodDef device_methods[];
extern PyMethodDef stats_methods[];
extern PyMethodDef option_methods[];
extern PyMethodDef plug_methods[]; /* plug.c */

/* Read something of the one device that the arguments name: `read` fills *out,
 * with the interpreter's lock released. False with an exception set. */
bool device_read(PyObject *args, PyObject *kwargs,
    enum weir_status (*read)(int device, void *out), void *out);

/* The statistics of a call that came to `status`, as a dict of flat names. */
PyObject *stats_result(enum weir_status status, const struct weir_stats *stats);

/* ---- History, snapshots, callbacks (history.c, observe.c) -------------- */

extern PyMethodDef history_methods[];
extern PyMethodDef observe_methods[];
bool observe_setup(PyObject *module);

/* ---- Helpers (module.c) ------------------------------------------------ */

/* Make a type of a spec and add it to the module under its name. */
PyObject *native_add_type(PyObject *module, PyType_Spec *spec);

/* Memory for an instance of a heap type, and giving it back. */
void *native_new(PyObject *type);
void native_delete(void *object);

/* None, held once more. */
PyObject *native_none(void);

/* A function with keywords, as method tables have it. */
#define NATIVE_KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))

#endif
