/*
 * weir.Pool and weir.Checkpoint: memory that is kept apart.
 */
#include "python/native/native.h"

struct checkpoint {
	PyObject_HEAD struct weir_checkpoint *checkpoint;
};

static PyObject *checkpoint_type;

/* The routes that `with pool:` has begun on this thread; blocks nest. */
enum { WITH_DEPTH = 64 };
static _Thread_local struct {
	struct weir_route *routes[WITH_DEPTH];
	int n;
} with;

static struct weir_pool *
pool_of(PyObject *object)
{
	return ((struct pool *)object)->pool;
}

PyObject *
pool_wrap(struct weir_pool *pool, int device)
{
	struct pool *object = native_new(arg_pool_type);

	if (object == NULL) {
		weir_pool_release(pool);
		return NULL;
	}
	object->pool = pool;
	object->device = device;
	return (PyObject *)object;
}

static PyObject *
pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "device", "use_on_oom", "no_split",
		"registrable", "serves_driver", "name", NULL };
	int device = WEIR_DEVICE_CURRENT;
	int use_on_oom = 0;
	int no_split = 0;
	int registrable = 0;
	int serves_driver = 0;
	const char *name = NULL;
	struct weir_pool *pool;
	enum weir_status status;

	(void)type;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&$ppppz:Pool", names,
		arg_device, &device, &use_on_oom, &no_split, &registrable,
		&serves_driver, &name))
		return NULL;
	unsigned flags = (use_on_oom ? WEIR_POOL_USE_ON_OOM : 0) |
	    (no_split ? WEIR_POOL_NO_SPLIT : 0) |
	    (registrable ? WEIR_POOL_REGISTRABLE : 0) |
	    (serves_driver ? WEIR_POOL_SERVES_DRIVER : 0);
	NATIVE_RELEASE_GIL;
	status = weir_pool_create(device, NULL, flags, &pool);
	if (status == WEIR_OK && device == WEIR_DEVICE_CURRENT)
		weir_get_device(&device);
	NATIVE_TAKE_GIL;
	if (status != WEIR_OK)
		return error_raise(status);
	status = weir_pool_name_set(pool, name);
	if (status != WEIR_OK) {
		weir_pool_release(pool);
		return error_raise(status);
	}
	return pool_wrap(pool, device);
}

/* Free memory is given back to the driver, without the GIL. */
static void
pool_dealloc(PyObject *object)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	weir_pool_release(pool_of(object));
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

/* ---- Methods ----------------------------------------------------------- */

PyDoc_STRVAR(find_doc,
    "find(id)\n--\n\n"
    "The pool of a number (Pool.id). A pool that nobody holds any more but "
    "that\n"
    "has memory left comes back to life. Raises InvalidArgumentError if there\n"
    "is none. Its device is that of the calling thread's.");

static PyObject *
pool_find(PyObject *class, PyObject *arg)
{
	unsigned long long id = PyLong_AsUnsignedLongLong(arg);
	struct weir_pool *pool;
	int device = 0;

	(void)class;
	if (id == (unsigned long long)-1 && PyErr_Occurred() != NULL)
		return NULL;
	enum weir_status status = weir_pool_find(id, &pool);
	if (status != WEIR_OK)
		return error_raise(status);
	weir_get_device(&device);
	return pool_wrap(pool, device);
}

PyDoc_STRVAR(trim_doc,
    "trim($self, keep_bytes=0)\n--\n\n"
    "Give unused memory of the pool back to the driver until at most "
    "keep_bytes\n"
    "stay cached. Nothing goes while a graph keeps it. Returns the bytes "
    "given\n"
    "back. Waits for the streams whose freed memory goes back.");

static PyObject *
pool_trim(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "keep_bytes", NULL };
	size_t keep = 0;
	size_t freed = 0;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O&:trim", names, arg_bytes, &keep))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_pool_trim(pool_of(self), keep, &freed);
	NATIVE_TAKE_GIL;
	return error_size(status, freed);
}

PyDoc_STRVAR(stats_doc,
    "stats($self)\n--\n\n"
    "The statistics of the pool, which are part of the device's: a dict as\n"
    "weir.stats() gives it.");

static PyObject *
pool_stats(PyObject *self, PyObject *none)
{
	struct weir_stats stats = { .struct_size = sizeof stats };
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_pool_stats(pool_of(self), &stats);
	NATIVE_TAKE_GIL;
	return stats_result(status, &stats);
}

PyDoc_STRVAR(suspend_doc,
    "suspend($self, copy=True)\n--\n\n"
    "Give the physical memory of the pool back to the driver and keep its\n"
    "addresses: graphs captured with it replay again once it is resumed.\n\n"
    "copy: keep the contents in page-locked host memory; without, they are\n"
    "undefined afterwards. Returns the bytes given back. Waits for all work "
    "of\n"
    "the device. Until resume() nothing may be allocated, captured or "
    "replayed\n"
    "with it. Raises InvalidArgumentError if it is suspended or pages of it "
    "are\n"
    "pinned, NotSupportedError for memory of ANY_STREAM, "
    "HostOutOfMemoryError.");

static PyObject *
pool_suspend(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "copy", NULL };
	int copy = 1;
	size_t freed = 0;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|p:suspend", names, &copy))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_pool_suspend(pool_of(self), copy != 0, &freed);
	NATIVE_TAKE_GIL;
	return error_size(status, freed);
}

PyDoc_STRVAR(resume_doc,
    "resume($self)\n--\n\n"
    "Have the memory of a suspended pool again, at the same addresses. Raises\n"
    "OutOfMemoryError if the device has none; it is still suspended then, and\n"
    "can be tried again.");

static PyObject *
pool_resume(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_pool_resume(pool_of(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(check_live_doc,
    "check_live($self, addresses)\n--\n\n"
    "Are the live blocks of the pool exactly those that begin at the "
    "addresses\n"
    "of a sequence (ints)? False if one is missing or there is another.");

static PyObject *
pool_check_live(PyObject *self, PyObject *arg)
{
	PyObject *list = PySequence_Tuple(arg);
	bool equal = false;

	if (list == NULL)
		return NULL;
	size_t n = (size_t)PyTuple_Size(list);
	const void **addresses = PyMem_Malloc((n + 1) * sizeof *addresses);
	for (size_t i = 0; addresses != NULL && i < n; i++)
		addresses[i] =
		    PyLong_AsVoidPtr(PyTuple_GetItem(list, (Py_ssize_t)i));
	Py_DecRef(list);
	if (addresses == NULL)
		return PyErr_NoMemory();
	enum weir_status status = WEIR_OK;
	if (PyErr_Occurred() == NULL)
		status =
		    weir_pool_check_live(pool_of(self), addresses, n, &equal);
	PyMem_Free(addresses);
	if (PyErr_Occurred() != NULL)
		return NULL;
	if (status != WEIR_OK)
		return error_raise(status);
	return PyBool_FromLong(equal);
}

/* ---- Routes ------------------------------------------------------------ */

static PyObject *
pool_enter(PyObject *self, PyObject *none)
{
	(void)none;
	if (with.n == WITH_DEPTH) {
		PyErr_SetString(
		    PyExc_RuntimeError, "`with pool` is nested too deeply");
		return NULL;
	}
	enum weir_status status =
	    weir_route_thread(pool_of(self), &with.routes[with.n]);
	if (status != WEIR_OK)
		return error_raise(status);
	with.n++;
	Py_IncRef(self);
	return self;
}

static PyObject *
pool_exit(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (with.n == 0) {
		PyErr_SetString(PyExc_RuntimeError,
		    "the pool was entered by another thread");
		return NULL;
	}
	weir_route_end(with.routes[--with.n]);
	return native_none();
}

/* ---- Checkpoints ------------------------------------------------------- */

PyDoc_STRVAR(checkpoint_doc,
    "checkpoint($self)\n--\n\n"
    "Remember the blocks of the pool: addresses, sizes, streams; not their\n"
    "contents. Returns a weir.Checkpoint for restore(). Raises NotReadyError "
    "if\n"
    "a freed block waits for work on another stream, NotSupportedError for a\n"
    "live block of ANY_STREAM.");

static PyObject *
pool_checkpoint(PyObject *self, PyObject *none)
{
	struct checkpoint *object = native_new(checkpoint_type);
	enum weir_status status;

	(void)none;
	if (object == NULL)
		return NULL;
	object->checkpoint = NULL;
	NATIVE_RELEASE_GIL;
	status = weir_checkpoint_take(pool_of(self), &object->checkpoint);
	NATIVE_TAKE_GIL;
	if (status == WEIR_OK)
		return (PyObject *)object;
	Py_DecRef((PyObject *)object);
	return error_raise(status);
}

static void
checkpoint_dealloc(PyObject *object)
{
	weir_checkpoint_drop(((struct checkpoint *)object)->checkpoint);
	native_delete(object);
}

/* The object for a block that a restore has made live. */
static PyObject *
wrap_live(void *address)
{
	struct weir_block_info info = { .struct_size = sizeof info };
	enum weir_status status = weir_block_info(address, &info);

	if (status == WEIR_OK)
		return memory_wrap(
		    address, info.requested_bytes, info.device, info.stream);
	weir_free(address);
	return error_raise(status);
}

static PyObject *
wrap_all(const struct weir_restored *restored)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; i < restored->n_live; i++) {
		PyObject *memory = wrap_live(restored->live[i]);
		if (memory == NULL || list == NULL ||
		    PyList_Append(list, memory) != 0) {
			Py_XDECREF(list);
			list = NULL;
		}
		Py_XDECREF(memory);
	}
	return list;
}

PyDoc_STRVAR(restore_doc,
    "restore($self, checkpoint)\n--\n\n"
    "Free what is live in the pool, and have the blocks of the checkpoint "
    "again\n"
    "at the same addresses. weir.Memory objects of freed blocks are freed "
    "ones\n"
    "from now on; whoever else had their addresses must not free them.\n\n"
    "Returns a list of weir.Memory, the blocks that were live at the "
    "checkpoint.\n"
    "May be done any number of times. Raises InvalidArgumentError for a\n"
    "checkpoint of another pool or if memory of it has gone back to the "
    "driver;\n"
    "NotReadyError. Nothing has changed then.");

static PyObject *
pool_restore(PyObject *self, PyObject *arg)
{
	struct weir_restored restored = { .struct_size = sizeof restored };
	enum weir_status status;

	if (Py_TYPE(arg) != (PyTypeObject *)checkpoint_type) {
		PyErr_Format(PyExc_TypeError,
		    "checkpoint is a weir.Checkpoint, not %R", arg);
		return NULL;
	}
	/* The GIL is held, so that no object frees its block in between. */
	status = weir_checkpoint_restore(
	    pool_of(self), ((struct checkpoint *)arg)->checkpoint, &restored);
	if (status != WEIR_OK)
		return error_raise(status);
	memory_disown(restored.freed, restored.n_freed);
	PyObject *list = wrap_all(&restored);
	weir_restored_drop(&restored);
	return list;
}

/* ---- Attributes and types ---------------------------------------------- */

static PyObject *
get_id(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLongLong(weir_pool_id(pool_of(self)));
}

static PyObject *
pool_get_device(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromLong(((struct pool *)self)->device);
}

static PyObject *
get_name(PyObject *self, void *closure)
{
	char name[WEIR_POOL_NAME_SIZE];

	(void)closure;
	weir_pool_name(pool_of(self), name);
	return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
}

static PyObject *
get_use_count(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromSize_t(weir_pool_use_count(pool_of(self)));
}

static PyObject *
pool_repr(PyObject *self)
{
	return PyUnicode_FromFormat("<weir.Pool id=%llu device=%d>",
	    (unsigned long long)weir_pool_id(pool_of(self)),
	    ((struct pool *)self)->device);
}

static PyMethodDef methods[] = {
	{ "find", pool_find, METH_O | METH_STATIC, find_doc },
	{ "trim", NATIVE_KEYWORDS(pool_trim), METH_VARARGS | METH_KEYWORDS,
	    trim_doc },
	{ "stats", pool_stats, METH_NOARGS, stats_doc },
	{ "suspend", NATIVE_KEYWORDS(pool_suspend),
	    METH_VARARGS | METH_KEYWORDS, suspend_doc },
	{ "resume", pool_resume, METH_NOARGS, resume_doc },
	{ "check_live", pool_check_live, METH_O, check_live_doc },
	{ "checkpoint", pool_checkpoint, METH_NOARGS, checkpoint_doc },
	{ "restore", pool_restore, METH_O, restore_doc },
	{ "__enter__", pool_enter, METH_NOARGS, NULL },
	{ "__exit__", pool_exit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
	{ "id", get_id, NULL, "A number that no other pool ever has.", NULL },
	{ "name", get_name, NULL, "Its name, for weir.sleep(); or \"\".",
	    NULL },
	{ "device", pool_get_device, NULL, "The device's number.", NULL },
	{ "use_count", get_use_count, NULL,
	    "How often it is held: by objects, graphs and routes.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot slots[] = {
	{ Py_tp_doc,
	    (char *)"Pool(device=None, *, use_on_oom=False, no_split=False,\n"
		    "     registrable=False, serves_driver=False, "
		    "name=None)\n--\n\n"
		    "Memory of one device that stays apart from all other.\n\n"
		    "`with pool:` sends what the thread asks for to the pool; "
		    "weir.malloc(pool=...) does\nso for one block. use_on_oom: "
		    "what it has free serves requests that find no\nmemory "
		    "elsewhere. no_split: blocks are not cut.\n"
		    "registrable: for communication libraries, which register "
		    "memory with devices and\npeers: each segment is one piece "
		    "of physical memory that never moves. serves_driver: under "
		    "`weir run` "
		    "routes send\ncudaMalloc() and its like here too. name: "
		    "weir.sleep() "
		    "and "
		    "`weir sleep --discard`\nfind it by that; several pools "
		    "may "
		    "have one.\n\n"
		    "It gives back what is free when neither an object nor a "
		    "graph holds it, and each\nlive block when it is freed and "
		    "its work is done." },
	{ Py_tp_new, pool_new },
	{ Py_tp_dealloc, pool_dealloc },
	{ Py_tp_repr, pool_repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};
static PyType_Spec spec = { "weir.Pool", sizeof(struct pool), 0,
	Py_TPFLAGS_DEFAULT, slots };

static PyObject *
refuse_checkpoint(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(
	    PyExc_TypeError, "a weir.Checkpoint is made by Pool.checkpoint()");
	return NULL;
}

static PyType_Slot checkpoint_slots[] = {
	{ Py_tp_doc,
	    (char *)"Which blocks a pool had, and which of them were live: "
		    "Pool.checkpoint() makes one,\nPool.restore() goes back to "
		    "it." },
	{ Py_tp_new, refuse_checkpoint },
	{ Py_tp_dealloc, checkpoint_dealloc },
	{ 0, NULL },
};
static PyType_Spec checkpoint_spec = { "weir.Checkpoint",
	sizeof(struct checkpoint), 0, Py_TPFLAGS_DEFAULT, checkpoint_slots };

bool
pool_setup(PyObject *module)
{
	arg_pool_type = native_add_type(module, &spec);
	checkpoint_type = native_add_type(module, &checkpoint_spec);
	return arg_pool_type != NULL && checkpoint_type != NULL;
}
