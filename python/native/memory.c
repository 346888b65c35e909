/*
 * Blocks of memory as objects: weir.Memory on a device, weir.PinnedMemory on
 * the host. An object frees its block when it is destroyed, which never waits.
 */
#include "python/native/native.h"

#include <structmember.h>

static PyObject *device_type;
static PyObject *pinned_type;

/* All live objects, so that a restore finds the objects whose blocks it frees.
 */
static struct memory live = { .prev = &live, .next = &live };

/* ---- Lives ------------------------------------------------------------- */

/* Take the block from an object, which counts as freed from now on. */
static void *
detach(struct memory *memory)
{
	void *address = memory->address;

	if (address == NULL)
		return NULL;
	memory->address = NULL;
	memory->prev->next = memory->next;
	memory->next->prev = memory->prev;
	return address;
}

/* Make an object hold a block. */
static void
attach(struct memory *memory, void *address)
{
	memory->address = address;
	memory->next = &live;
	memory->prev = live.prev;
	live.prev->next = memory;
	live.prev = memory;
}

static PyObject *
wrap(PyObject *type, const struct memory *like)
{
	struct memory *memory = native_new(type);

	if (memory == NULL) {
		weir_free(like->address);
		return NULL;
	}
	memory->size = like->size;
	memory->device = like->device;
	memory->host = like->host;
	memory->stream = like->stream;
	memory->exports = 0;
	attach(memory, like->address);
	return (PyObject *)memory;
}

PyObject *
memory_wrap(void *address, size_t size, int device, weir_stream stream)
{
	const struct memory like = { .address = address,
		.size = size,
		.device = device,
		.stream = stream };

	return wrap(device_type, &like);
}

void
memory_disown(void *const *addresses, size_t n)
{
	struct memory *next;

	for (struct memory *m = live.next; m != &live; m = next) {
		next = m->next;
		for (size_t i = 0; i < n; i++)
			if (m->address == addresses[i]) {
				detach(m);
				break;
			}
	}
}

static struct memory *
memory_of(PyObject *object)
{
	return (struct memory *)object;
}

static bool
is_live(const struct memory *memory)
{
	if (memory->address == NULL)
		error_closed("the memory was freed");
	return memory->address != NULL;
}

bool
memory_hold(PyObject *object, void **out)
{
	PyTypeObject *type = Py_TYPE(object);

	if (type != (PyTypeObject *)device_type &&
	    type != (PyTypeObject *)pinned_type) {
		PyErr_Format(PyExc_TypeError,
		    "memory is a weir.Memory or a weir.PinnedMemory, not %R",
		    object);
		return false;
	}
	if (!is_live(memory_of(object)))
		return false;
	*out = memory_of(object)->address;
	memory_of(object)->exports++;
	return true;
}

void
memory_unhold(PyObject *object)
{
	memory_of(object)->exports--;
}

/* Never waits, so that any thread may do it. The current exception is
 * preserved, because observers of the free may run Python. */
static void
dealloc(PyObject *object)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	PyObject_ClearWeakRefs(object);
	void *address = detach(memory_of(object));
	if (address != NULL)
		weir_free(address);
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

static PyObject *
refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)args;
	(void)kwargs;
	PyErr_Format(PyExc_TypeError,
	    "%R is made by weir.malloc() or weir.pinned()", (PyObject *)type);
	return NULL;
}

/* ---- Methods ----------------------------------------------------------- */

PyDoc_STRVAR(free_doc,
    "free($self, stream=None)\n--\n\n"
    "Free the block now, and not when the object is let go of.\n\n"
    "stream: where all use of the block has been queued by now, if that is "
    "not\n"
    "the stream it belongs to; the block belongs to it then. Device memory "
    "only.\n\n"
    "A block that is freed already stays so. Raises BufferError while Python\n"
    "has a buffer of it or weir.copy() uses it; InvalidArgumentError for a "
    "stream that was destroyed\n"
    "or belongs to another device. Never waits.");

static PyObject *
memory_free(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	struct memory *memory = memory_of(self);
	PyObject *named = Py_None;
	weir_stream stream = NULL;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O:free", names, &named))
		return NULL;
	if (named != Py_None && !arg_stream(named, &stream))
		return NULL;
	if (memory->address == NULL)
		return native_none();
	if (memory->exports != 0) {
		PyErr_Format(PyExc_BufferError,
		    "%zd buffers or copies use the memory", memory->exports);
		return NULL;
	}
	if (named != Py_None && memory->host) {
		PyErr_SetString(PyExc_TypeError,
		    "page-locked memory belongs to no stream: use "
		    "record_stream()");
		return NULL;
	}
	/* The object drops the block first, because a free may run Python in an
	 * observer. */
	void *address = detach(memory);
	NATIVE_RELEASE_GIL;
	status = named != Py_None ? weir_free_async(address, stream) :
				    weir_free(address);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		attach(memory, address);
	return error_none(status);
}

PyDoc_STRVAR(record_doc,
    "record_stream($self, stream)\n--\n\n"
    "Say that work queued on a stream uses the block too: once freed it is "
    "not\n"
    "reused before the work queued there at the free is done.\n\n"
    "Raises InvalidArgumentError for a stream that was destroyed, ValueError\n"
    "for freed memory. Does not wait.");

PyDoc_STRVAR(record_use_doc,
    "record_use($self, stream)\n--\n\n"
    "Say that all use of the block on a stream is queued by now: once freed it "
    "is\n"
    "not reused before that is done, whatever the stream is given later. The\n"
    "latest call for a stream counts; record_stream() covers it.\n\n"
    "Raises as record_stream() does. Does not wait.");

/* Parse the stream of a call that records a use, and make the call. None is the
 * current stream of the block's device. */
static PyObject *
use_block(PyObject *self, PyObject *named,
    enum weir_status (*call)(const void *, weir_stream))
{
	const struct memory *memory = memory_of(self);
	struct stream stream = { .device = memory->device };
	struct visit visit;

	stream.handle = ARG_STREAM_CURRENT;
	bool right = named == Py_None ?
	    arg_stream_resolve(stream.device, &stream.handle) :
	    visit_stream(named, &stream);
	if (!right || !is_live(memory))
		return NULL;
	enum weir_status status =
	    visit_begin(&visit, stream.handle, stream.device);
	if (status != WEIR_OK)
		return error_raise(status);
	status = call(memory->address, stream.handle);
	visit_end(&visit);
	return error_none(status);
}

static PyObject *
memory_record(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	PyObject *stream;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "O:record_stream", names, &stream))
		return NULL;
	return use_block(self, stream,
	    memory_of(self)->host ? weir_host_record : weir_record_stream);
}

static PyObject *
memory_record_use(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	PyObject *stream;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "O:record_use", names, &stream))
		return NULL;
	return use_block(self, stream, weir_record_use);
}

PyDoc_STRVAR(pin_doc,
    "pin($self)\n--\n\n"
    "Keep the physical pages behind the block where they are until unpin(), "
    "also\n"
    "after its free, for who holds on to pages: a network card, a peer. "
    "Counts.");

static PyObject *
memory_pin(PyObject *self, PyObject *none)
{
	(void)none;
	if (!is_live(memory_of(self)))
		return NULL;
	return error_none(weir_pin(memory_of(self)->address));
}

PyDoc_STRVAR(unpin_doc,
    "unpin($self)\n--\n\n"
    "Undo one pin(). Raises InvalidArgumentError if there is none left.");

static PyObject *
memory_unpin(PyObject *self, PyObject *none)
{
	(void)none;
	if (!is_live(memory_of(self)))
		return NULL;
	return error_none(weir_unpin(memory_of(self)->address));
}

PyDoc_STRVAR(info_doc,
    "info($self)\n--\n\n"
    "What weir knows of the block, as a dict: address, size (bytes of the\n"
    "block), requested_bytes, device, stream (a handle; -1 is any stream),\n"
    "segment and segment_size (the mapped range it lies in), expandable.");

static PyObject *
memory_info(PyObject *self, PyObject *none)
{
	struct weir_block_info info = { .struct_size = sizeof info };

	(void)none;
	if (!is_live(memory_of(self)))
		return NULL;
	enum weir_status status =
	    weir_block_info(memory_of(self)->address, &info);
	if (status != WEIR_OK)
		return error_raise(status);
	return Py_BuildValue("{sNsNsNsisNsNsNsN}", "address",
	    PyLong_FromVoidPtr(info.address), "size",
	    PyLong_FromSize_t(info.size), "requested_bytes",
	    PyLong_FromSize_t(info.requested_bytes), "device", info.device,
	    "stream", arg_stream_number(info.stream), "segment",
	    PyLong_FromVoidPtr(info.segment), "segment_size",
	    PyLong_FromSize_t(info.segment_size), "expandable",
	    PyBool_FromLong(info.expandable));
}

static PyObject *
memory_enter(PyObject *self, PyObject *none)
{
	(void)none;
	if (!is_live(memory_of(self)))
		return NULL;
	Py_IncRef(self);
	return self;
}

static PyObject *
memory_exit(PyObject *self, PyObject *args)
{
	PyObject *no_args = PyTuple_New(0);

	(void)args;
	if (no_args == NULL)
		return NULL;
	PyObject *result = memory_free(self, no_args, NULL);
	Py_DecRef(no_args);
	return result;
}

/* ---- Attributes -------------------------------------------------------- */

static PyObject *
get_address(PyObject *self, void *closure)
{
	(void)closure;
	return is_live(memory_of(self)) ?
	    PyLong_FromVoidPtr(memory_of(self)->address) :
	    NULL;
}

static PyObject *
get_size(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(memory_of(self)->size);
}

static PyObject *
memory_get_device(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromLong(memory_of(self)->device);
}

static PyObject *
get_stream(PyObject *self, void *closure)
{
	(void)closure;
	return arg_stream_number(memory_of(self)->stream);
}

static PyObject *
get_freed(PyObject *self, void *closure)
{
	(void)closure;
	return PyBool_FromLong(memory_of(self)->address == NULL);
}

/* The stream in the form of the CUDA Array Interface, which does not allow 0.
 */
static PyObject *
interface_stream(weir_stream stream)
{
	if (stream == WEIR_STREAM_ANY) {
		Py_IncRef(Py_None);
		return Py_None;
	}
	return PyLong_FromVoidPtr(stream == NULL ? WEIR_STREAM_LEGACY : stream);
}

static PyObject *
get_interface(PyObject *self, void *closure)
{
	struct memory *memory = memory_of(self);

	(void)closure;
	if (memory->address == NULL) {
		/* Not AttributeError, which hasattr() would hide. */
		PyErr_SetString(PyExc_RuntimeError, "the memory was freed");
		return NULL;
	}
	return Py_BuildValue("{s(N)sss(NO)sOsisN}", "shape",
	    PyLong_FromSize_t(memory->size), "typestr", "|u1", "data",
	    PyLong_FromVoidPtr(memory->address), Py_False, "strides", Py_None,
	    "version", 3, "stream", interface_stream(memory->stream));
}

static PyObject *
memory_repr(PyObject *self)
{
	struct memory *memory = memory_of(self);
	const char *name = memory->host ? "PinnedMemory" : "Memory";

	if (memory->address == NULL)
		return PyUnicode_FromFormat("<weir.%s freed>", name);
	return PyUnicode_FromFormat("<weir.%s address=%p size=%zu device=%d>",
	    name, memory->address, memory->size, memory->device);
}

/* ---- The buffer of page-locked memory ---------------------------------- */

static int
pinned_get_buffer(PyObject *self, struct native_buffer *view, int flags)
{
	struct memory *memory = memory_of(self);

	if (memory->address == NULL) {
		view->obj = NULL;
		PyErr_SetString(PyExc_BufferError, "the memory was freed");
		return -1;
	}
	if (native_fill_buffer(view, self, memory->address,
		(Py_ssize_t)memory->size, flags) != 0)
		return -1;
	memory->exports++;
	return 0;
}

static void
pinned_release_buffer(PyObject *self, struct native_buffer *view)
{
	(void)view;
	memory_of(self)->exports--;
}

static Py_ssize_t
pinned_length(PyObject *self)
{
	return (Py_ssize_t)memory_of(self)->size;
}

/* ---- Types ------------------------------------------------------------- */

#define MEMORY_METHODS                                                         \
	{ "free", NATIVE_KEYWORDS(memory_free), METH_VARARGS | METH_KEYWORDS,  \
		free_doc },                                                    \
	    { "record_stream", NATIVE_KEYWORDS(memory_record),                 \
		    METH_VARARGS | METH_KEYWORDS, record_doc },                \
	    { "record_use", NATIVE_KEYWORDS(memory_record_use),                \
		    METH_VARARGS | METH_KEYWORDS, record_use_doc },            \
	    { "__enter__", memory_enter, METH_NOARGS, NULL },                  \
	{                                                                      \
		"__exit__", memory_exit, METH_VARARGS, NULL                    \
	}
#define MEMORY_ATTRIBUTES                                                      \
	{ "address", get_address, NULL,                                        \
		"The first byte, an int. ValueError once it is freed.",        \
		NULL },                                                        \
	    { "size", get_size, NULL, "Bytes asked for.", NULL },              \
	    { "device", memory_get_device, NULL, "The device's number.",       \
		    NULL },                                                    \
	{                                                                      \
		"freed", get_freed, NULL, "Was it freed?", NULL                \
	}

static PyMethodDef device_memory_methods[] = {
	MEMORY_METHODS,
	{ "pin", memory_pin, METH_NOARGS, pin_doc },
	{ "unpin", memory_unpin, METH_NOARGS, unpin_doc },
	{ "info", memory_info, METH_NOARGS, info_doc },
	{ NULL, NULL, 0, NULL },
};
static PyMethodDef pinned_memory_methods[] = {
	MEMORY_METHODS,
	{ NULL, NULL, 0, NULL },
};
static PyGetSetDef device_memory_attributes[] = {
	MEMORY_ATTRIBUTES,
	{ "stream", get_stream, NULL,
	    "The handle of the stream it was allocated for; -1 is any.", NULL },
	{ "__cuda_array_interface__", get_interface, NULL,
	    "The bytes as an array of uint8: version 3, with the stream they\n"
	    "were allocated for. RuntimeError once the memory is freed.",
	    NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
static PyGetSetDef pinned_memory_attributes[] = {
	MEMORY_ATTRIBUTES,
	{ NULL, NULL, NULL, NULL, NULL },
};
/* The offset of the type's weak references, after the struct. */
static PyMemberDef weak_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, sizeof(struct memory), READONLY,
	    NULL },
	{ NULL, 0, 0, 0, NULL },
};
enum { MEMORY_BYTES = sizeof(struct memory) + sizeof(PyObject *) };

static PyType_Slot device_memory_slots[] = {
	{ Py_tp_doc,
	    (char *)"A block of device memory, which weir.malloc() gives.\n\n"
		    "It is freed when nothing refers to it any more, by "
		    "free(), "
		    "or at the end of a\n`with` block. Freeing never waits, on "
		    "any thread: work queued on its stream may\nstill use it. "
		    "It is an array of uint8 to what reads "
		    "__cuda_array_interface__." },
	{ Py_tp_new, refuse_new },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, memory_repr },
	{ Py_tp_methods, device_memory_methods },
	{ Py_tp_getset, device_memory_attributes },
	{ Py_tp_members, weak_members },
	{ 0, NULL },
};
static PyType_Slot pinned_memory_slots[] = {
	{ Py_tp_doc,
	    (char *)"A block of page-locked host memory, which weir.pinned() "
		    "gives.\n\n"
		    "It has the buffer protocol: memoryview(), numpy."
		    "frombuffer() and the like use it\nin place, and it cannot "
		    "be freed while they do. What a queued copy uses is\n"
		    "said with record_stream()." },
	{ Py_tp_new, refuse_new },
	{ Py_tp_dealloc, dealloc },
	{ Py_tp_repr, memory_repr },
	{ Py_tp_methods, pinned_memory_methods },
	{ Py_tp_getset, pinned_memory_attributes },
	{ Py_tp_members, weak_members },
	{ Py_sq_length, pinned_length },
	{ NATIVE_BF_GETBUFFER, pinned_get_buffer },
	{ NATIVE_BF_RELEASEBUFFER, pinned_release_buffer },
	{ 0, NULL },
};
static PyType_Spec device_memory_spec = { "weir.Memory", MEMORY_BYTES, 0,
	Py_TPFLAGS_DEFAULT, device_memory_slots };
static PyType_Spec pinned_memory_spec = { "weir.PinnedMemory", MEMORY_BYTES, 0,
	Py_TPFLAGS_DEFAULT, pinned_memory_slots };

bool
memory_setup(PyObject *module)
{
	device_type = native_add_type(module, &device_memory_spec);
	pinned_type = native_add_type(module, &pinned_memory_spec);
	return device_type != NULL && pinned_type != NULL;
}

/* ---- Functions --------------------------------------------------------- */

PyDoc_STRVAR(malloc_doc,
    "malloc($module, size, stream=None, *, device=None, pool=None)\n--\n\n"
    "Allocate device memory for work queued on a stream after this call.\n\n"
    "size: bytes, above 0; rounded up to a size class.\n"
    "stream: where it is first used: a weir.Stream, a handle, an object with\n"
    "__cuda_stream__, or weir.ANY_STREAM; None is the calling thread's "
    "current\n"
    "stream. Once freed, the block serves this stream again at once.\n"
    "device: a number, 'cuda:N', or None for the stream's device.\n"
    "pool: a weir.Pool to draw on; it decides the device then.\n\n"
    "Returns a weir.Memory. Raises OutOfMemoryError after every step to get\n"
    "memory was tried, InvalidArgumentError for a size of 0 or above 2**60,\n"
    "NoDeviceError. The GIL is released meanwhile.");

static void *
allocate_memory(
    struct weir_pool *pool, int device, size_t size, weir_stream stream)
{
	void *address;

	NATIVE_RELEASE_GIL;
	address = pool != NULL ? weir_pool_malloc(pool, size, stream) :
	    device == WEIR_DEVICE_CURRENT ?
				 weir_malloc(size, stream) :
				 weir_malloc_on(device, size, stream);
	NATIVE_TAKE_GIL;
	return address;
}

static PyObject *
module_malloc(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "size", "stream", "device", "pool", NULL };
	size_t size;
	PyObject *named = Py_None;
	weir_stream stream;
	int device = WEIR_DEVICE_CURRENT;
	PyObject *kept = Py_None;
	struct weir_pool *pool;
	struct weir_block_info info = { .struct_size = sizeof info };

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O$O&O:malloc", names,
		arg_bytes, &size, &named, arg_device, &device, &kept) ||
	    !arg_pool(kept, &pool))
		return NULL;
	if (pool != NULL)
		device = ((struct pool *)kept)->device;
	else if (device == WEIR_DEVICE_CURRENT)
		device = visit_default_device(named);
	if (!arg_stream(named, &stream) || !arg_stream_resolve(device, &stream))
		return NULL;
	void *address = allocate_memory(pool, device, size, stream);
	if (address == NULL)
		return error_raise(weir_last_status());
	if ((device == WEIR_DEVICE_CURRENT || pool != NULL) &&
	    weir_block_info(address, &info) == WEIR_OK)
		device = info.device;
	return memory_wrap(address, size, device, stream);
}

PyDoc_STRVAR(pinned_doc,
    "pinned($module, size, *, device=None, portable=False, mapped=False,\n"
    "       write_combined=False)\n--\n\n"
    "Allocate page-locked host memory on behalf of a device.\n\n"
    "size: bytes, above 0. portable, mapped, write_combined: as the driver "
    "has\n"
    "them. What is in it at first is undefined.\n\n"
    "Returns a weir.PinnedMemory. Raises HostOutOfMemoryError when the system\n"
    "locks no more pages or pinned_limit_mb is reached.");

static PyObject *
module_pinned(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "size", "device", "portable", "mapped",
		"write_combined", NULL };
	struct memory like = { .device = WEIR_DEVICE_CURRENT, .host = true };
	int portable = 0;
	int mapped = 0;
	int combined = 0;

	(void)module;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$O&ppp:pinned",
		names, arg_bytes, &like.size, arg_device, &like.device,
		&portable, &mapped, &combined))
		return NULL;
	unsigned flags = (portable ? WEIR_HOST_PORTABLE : 0) |
	    (mapped ? WEIR_HOST_MAPPED : 0) |
	    (combined ? WEIR_HOST_WRITE_COMBINED : 0);
	NATIVE_RELEASE_GIL;
	like.address = weir_host_malloc_on(like.device, like.size, flags);
	if (like.address != NULL && like.device == WEIR_DEVICE_CURRENT)
		weir_get_device(&like.device);
	NATIVE_TAKE_GIL;
	if (like.address == NULL)
		return error_raise(weir_last_status());
	return wrap(pinned_type, &like);
}

PyDoc_STRVAR(is_pinned_doc,
    "is_pinned($module, address)\n--\n\n"
    "Is the host memory at an address (an int) page-locked: weir's, the\n"
    "driver's, or registered with it? Never fails.");

static PyObject *
module_is_pinned(PyObject *module, PyObject *arg)
{
	void *address = PyLong_AsVoidPtr(arg);
	bool pinned;

	(void)module;
	if (address == NULL && PyErr_Occurred() != NULL)
		return NULL;
	NATIVE_RELEASE_GIL;
	pinned = weir_host_is_pinned(address);
	NATIVE_TAKE_GIL;
	return PyBool_FromLong(pinned);
}

PyDoc_STRVAR(range_doc,
    "_block_range($module, address)\n--\n\n"
    "(first address, bytes asked for) of the live block that an address lies\n"
    "in, or None: the adapters answer by it what a library asks of an "
    "address.");

static PyObject *
module_block_range(PyObject *module, PyObject *arg)
{
	struct weir_block_info info = { .struct_size = sizeof info };
	void *address = PyLong_AsVoidPtr(arg);

	(void)module;
	if (address == NULL && PyErr_Occurred() != NULL)
		return NULL;
	if (weir_block_info(address, &info) != WEIR_OK)
		return native_none();
	return Py_BuildValue("(NN)", PyLong_FromVoidPtr(info.address),
	    PyLong_FromSize_t(info.requested_bytes));
}

PyMethodDef memory_methods[] = {
	{ "malloc", NATIVE_KEYWORDS(module_malloc),
	    METH_VARARGS | METH_KEYWORDS, malloc_doc },
	{ "pinned", NATIVE_KEYWORDS(module_pinned),
	    METH_VARARGS | METH_KEYWORDS, pinned_doc },
	{ "is_pinned", module_is_pinned, METH_O, is_pinned_doc },
	{ "_block_range", module_block_range, METH_O, range_doc },
	{ NULL, NULL, 0, NULL },
};
