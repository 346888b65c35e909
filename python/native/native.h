/*
 * weir._weir: the C half of the Python package, over the stable ABI of CPython
 * 3.9, so that one build serves every later version.
 *
 * It calls only the public headers. The rules for every file here:
 *
 * - The GIL is released around each call of weir that may wait or call the
 * driver, and nowhere else.
 * - Data that objects share (the list of live memory, the callbacks) are
 * guarded by the GIL.
 * - A deallocator frees without waiting, so it may run on any thread. It
 * preserves the current exception.
 * - A function that fails has set an exception. After a failed call of weir
 * that is the exception of error_raise(), with weir_last_error() as its text.
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

/* Enclose calls of weir that may wait or call the driver, as a block. The
 * Python frames are stored for events that are recorded in the block. */
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

/* Raise the exception for a status. Returns NULL. */
PyObject *error_raise(enum weir_status status);

/* As error_raise(), for a call that was given a path, which a FileError has as
 * its filename. */
PyObject *error_raise_path(enum weir_status status, PyObject *path);

/* None, or NULL with the exception of a status that is not WEIR_OK. */
PyObject *error_none(enum weir_status status);

/* A number of bytes, or NULL with the exception of a status that is not
 * WEIR_OK. */
PyObject *error_size(enum weir_status status, size_t bytes);

/* Raise ValueError: an object is over or freed. Returns NULL. */
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

/* weir_stream *: None is ARG_STREAM_CURRENT; a handle, a weir.Stream, or an
 * object with `__cuda_stream__`. */
int arg_stream(PyObject *object, void *out);

/* Stands for the current stream of the calling thread until it is resolved. */
#define ARG_STREAM_CURRENT ((weir_stream)&arg_stream_current)
extern char arg_stream_current; /* its address is no stream's handle */

/* Turn ARG_STREAM_CURRENT into the current stream on a device. False with an
 * exception set. */
bool arg_stream_resolve(int device, weir_stream *stream);

/* Is it a weir.Stream? */
bool arg_is_stream(PyObject *object);

/* struct weir_pool **: a weir.Pool; None is NULL. */
int arg_pool(PyObject *object, void *out);

/* The types weir.Stream and weir.Pool; set by stream_setup() and pool_setup(),
 * whose files use these converters. */
extern PyObject *arg_stream_type;
extern PyObject *arg_pool_type;

/* A handle in Python's form: WEIR_STREAM_ANY is -1. */
PyObject *arg_stream_number(weir_stream stream);

/* The index of a word in a list that ends with NULL, or -1 with a ValueError
 * that names the argument, the word and the accepted words. */
int arg_choice(
    const char *argument, const char *word, const char *const *words);

/* ---- Memory (memory.c) ------------------------------------------------- */

struct memory {
	PyObject_HEAD void *address; /* NULL: freed */
	size_t size;                 /* as requested */
	int device;
	bool host;           /* page-locked host memory */
	weir_stream stream;  /* of device memory */
	Py_ssize_t exports;  /* number of its buffers and holds */
	struct memory *prev; /* ring of all live objects */
	struct memory *next;
};

bool memory_setup(PyObject *module);
extern PyMethodDef memory_methods[];

/* A weir.Memory that owns a block of the device. On failure the block is freed
 * and NULL returned. */
PyObject *memory_wrap(
    void *address, size_t size, int device, weir_stream stream);

/* Drop blocks that a restore has freed: their objects count as freed. */
void memory_disown(void *const *addresses, size_t n);

/* Hold the live memory of an object, weir.Memory or weir.PinnedMemory, so that
 * its block cannot be freed before memory_unhold(), and get its address; false
 * with an exception set. The caller has a reference to the object. */
bool memory_hold(PyObject *object, void **out);
void memory_unhold(PyObject *object);

/* ---- Copies (copy.c) --------------------------------------------------- */

extern PyMethodDef copy_methods[];

/* ---- Buffers (native.c) ------------------------------------------------ */

/*
 * The buffer protocol belongs to the stable ABI only from 3.11 on. But its
 * struct and slots are equal in 3.9 and 3.10, and PyType_FromSpec() accepts
 * them there. So they are declared here.
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
	NATIVE_BUF_C = 0x20 | NATIVE_BUF_STRIDES,
	NATIVE_BUF_F = 0x40 | NATIVE_BUF_STRIDES,
	NATIVE_BUF_ANY = 0x80 | NATIVE_BUF_STRIDES,
};

int native_get_buffer(PyObject *object, struct native_buffer *view, int flags);
void native_release_buffer(struct native_buffer *view);
int native_fill_buffer(struct native_buffer *view, PyObject *object, void *buf,
    Py_ssize_t size, int flags);

/* ---- Streams (stream.c) ------------------------------------------------ */

struct stream {
	PyObject_HEAD weir_stream handle;
	int device;
	bool owned; /* destroyed with the object */
};

bool stream_setup(PyObject *module);
extern PyMethodDef stream_methods[];
/* ---- Streams of other devices (visit.c) -------------------------------- */

/*
 * weir takes the handle of a default stream for that of the current device. So
 * the device of the stream is made current while a call uses such a handle; for
 * other streams nothing is done. The GIL need not be held.
 */
struct visit {
	int home; /* the device to go back to; -1: this is no visit */
};
enum weir_status visit_begin(
    struct visit *visit, weir_stream stream, int device);
void visit_end(const struct visit *visit);

/* The device of a weir.Stream that is a default stream; else
 * WEIR_DEVICE_CURRENT. */
int visit_default_device(PyObject *object);

/* Replace WEIR_DEVICE_CURRENT by the number of the device. False with an
 * exception set. */
bool visit_resolve_device(int *device);

/* Read a stream argument, and the device that its handle belongs to if it is a
 * default stream: that of a weir.Stream, or else the current one. False with an
 * exception set. */
bool visit_stream(PyObject *object, struct stream *out);

/* As weir_event_record() and weir_stream_wait_event(), for a stream of a device
 * that need not be the current one. The GIL need not be held. */
enum weir_status visit_record(
    struct weir_event *event, weir_stream stream, int device);
enum weir_status visit_wait(
    weir_stream stream, int device, struct weir_event *event);

/* ---- Events (event.c) -------------------------------------------------- */

struct event {
	PyObject_HEAD struct weir_event *event;
	struct weir_ipc_export *shared; /* owns the event if not NULL */
	struct weir_ipc_import *import; /* owns the event if not NULL */
};

bool event_setup(PyObject *module);
/* The event of a weir.Event, or NULL with a TypeError. */
struct weir_event *event_of(PyObject *object);
bool event_is(PyObject *object);
/* Make a weir.Event and record it. */
PyObject *event_recorded(weir_stream stream, int device);
/* Make a weir.Event of another process's event, which is closed with the
 * object, or at once on failure. */
PyObject *event_wrap(struct weir_ipc_import *import, struct weir_event *event);
/* Let other processes open a weir.Event for as long as it lives. */
enum weir_status event_share(PyObject *object, struct weir_ipc_export **out);

/* ---- Pools and graphs (pool.c, graph.c) -------------------------------- */

struct pool {
	PyObject_HEAD struct weir_pool *pool;
	int device;
};

bool pool_setup(PyObject *module);
/* Wrap a pool that is held for the object; it is released on failure. */
PyObject *pool_wrap(struct weir_pool *pool, int device);
bool graph_setup(PyObject *module);

/* ---- Devices, statistics, options (device.c, stats.c, option.c) -------- */

extern PyMethodDef device_methods[];
extern PyMethodDef stats_methods[];

/* ---- Sleep (sleep.c, sleep_hooks.c) ------------------------------------- */

extern PyMethodDef sleep_methods[];
extern PyMethodDef sleep_hook_methods[];

/* Between these calls an exception by which a hook refuses a sleep on this
 * thread is kept for the caller, and is not printed. hooks_raised() raises the
 * exception and returns true, if there is one. The GIL is held. */
void hooks_catch(void);
bool hooks_raised(void);
extern PyMethodDef option_methods[];
extern PyMethodDef plug_methods[]; /* plug.c */

/* Read a property of the one device that the arguments name: `read` fills *out
 * without the GIL. False with an exception set. */
bool device_read(PyObject *args, PyObject *kwargs,
    enum weir_status (*read)(int device, void *out), void *out);

/* The statistics of a call that returned `status`, as a dict with flat names.
 */
PyObject *stats_result(enum weir_status status, const struct weir_stats *stats);

/* ---- History, snapshots, callbacks (history.c, observe.c) -------------- */

extern PyMethodDef history_methods[];
bool observe_setup(PyObject *module);

/* A call of Python by weir. It preserves the exception of the thread that
 * called weir. */
struct called {
	PyGILState_STATE gil;
	PyObject *type;
	PyObject *value;
	PyObject *traceback;
};

/* Get the GIL. False: the interpreter ends, and nothing is to be called. */
bool call_begin(struct called *c);
void call_end(struct called *c);

/* ---- Helpers (native.c) ------------------------------------------------ */

/* `__reduce_ex__` of objects that other processes may get (ipc.c): weir.ipc
 * decides. */
PyObject *native_reduce(PyObject *self, PyObject *protocol);

/* Make a type from a spec and add it to the module under its name. */
PyObject *native_add_type(PyObject *module, PyType_Spec *spec);

/* Allocate an instance of a heap type; free it. */
void *native_new(PyObject *type);
void native_delete(void *object);

/* A new reference to None. */
PyObject *native_none(void);

/* A function with keywords, in the form for method tables. */
#define NATIVE_KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))

#endif
