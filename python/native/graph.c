/*
 * weir.Graph: a captured graph, and its hold on a pool.
 */
#include "python/native/native.h"

struct graph {
	PyObject_HEAD struct weir_graph *graph;
	int device; /* device of the capture */
};

static PyObject *graph_type;

static struct weir_graph *
graph_of(PyObject *object)
{
	return ((struct graph *)object)->graph;
}

static PyObject *
graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "keep", NULL };
	int keep = 0;

	(void)type;
	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|$p:Graph", names, &keep))
		return NULL;
	struct graph *graph = native_new(graph_type);
	if (graph == NULL)
		return NULL;
	graph->graph = NULL;
	graph->device = 0;
	enum weir_status status = weir_graph_create(
	    keep ? WEIR_GRAPH_KEEP : WEIR_GRAPH_DEFAULT, &graph->graph);
	if (status == WEIR_OK)
		return (PyObject *)graph;
	Py_DecRef((PyObject *)graph);
	return error_raise(status);
}

static void
graph_dealloc(PyObject *object)
{
	PyObject *type;
	PyObject *value;
	PyObject *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	weir_graph_destroy(graph_of(object));
	native_delete(object);
	PyErr_Restore(type, value, traceback);
}

/* ---- Capturing --------------------------------------------------------- */

PyDoc_STRVAR(begin_doc,
    "capture_begin($self, stream=None, *, pool=None, mode='global')\n--\n\n"
    "Begin to capture a stream; memory for every stream of the capture comes\n"
    "from the pool from now on. weir.capture() does this as a `with` block.\n\n"
    "stream: None is the current one; a default stream cannot be captured.\n"
    "pool: a weir.Pool of the stream's device; None: one of its own.\n"
    "mode: to whom unsafe calls are forbidden: 'global' (all threads),\n"
    "'thread_local' (this one), 'relaxed' (nobody).\n\n"
    "Raises InvalidArgumentError if the graph has a capture already, for a\n"
    "default stream, for a pool of another device; Error (WEIR_ECAPTURE) if "
    "the\n"
    "stream is being captured.");

static PyObject *
graph_capture_begin(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", "pool", "mode", NULL };
	static const char *const modes[] = { "global", "thread_local",
		"relaxed", NULL };
	weir_stream stream = ARG_STREAM_CURRENT;
	struct weir_pool *pool = NULL;
	const char *mode = "global";
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&$O&s:capture_begin",
		names, arg_stream, &stream, arg_pool, &pool, &mode) ||
	    !arg_stream_resolve(WEIR_DEVICE_CURRENT, &stream))
		return NULL;
	int choice = arg_choice("mode", mode, modes);
	if (choice < 0)
		return NULL;
	NATIVE_RELEASE_GIL;
	weir_stream_device(stream, &((struct graph *)self)->device);
	status = weir_graph_capture_begin(
	    graph_of(self), stream, pool, (enum weir_capture_mode)choice);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(end_doc,
    "capture_end($self)\n--\n\n"
    "End the capture. On failure it is over all the same, and the graph is as\n"
    "if it had never begun. Raises InvalidArgumentError without a capture, "
    "Error\n"
    "(WEIR_ECAPTURE) if the capture was broken.");

static PyObject *
graph_capture_end(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_graph_capture_end(graph_of(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(register_doc,
    "register($self, stream, pool=None)\n--\n\n"
    "Say that a stream is being captured by CUDA's own calls: the graph holds\n"
    "the pool it draws on from now on. Call capture_end() when the capture "
    "has\n"
    "ended, and reset() when it is replayed no more.");

static PyObject *
graph_register(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", "pool", NULL };
	weir_stream stream;
	struct weir_pool *pool = NULL;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&:register", names,
		arg_stream, &stream, arg_pool, &pool) ||
	    !arg_stream_resolve(WEIR_DEVICE_CURRENT, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_graph_register(graph_of(self), stream, pool);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

/* ---- Replaying --------------------------------------------------------- */

PyDoc_STRVAR(instantiate_doc,
    "instantiate($self)\n--\n\n"
    "Make the graph ready to be launched; the first replay does so too. "
    "Raises\n"
    "InvalidArgumentError without a finished capture, or if it is ready.");

static PyObject *
graph_instantiate(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_graph_instantiate(graph_of(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(replay_doc,
    "replay($self, stream=None)\n--\n\n"
    "Queue the graph's work on a stream of its device; None is the current "
    "one.\n"
    "Raises InvalidArgumentError without a finished capture, or while its "
    "pool\n"
    "is suspended. Does not wait for the work.");

static PyObject *
graph_replay(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "stream", NULL };
	weir_stream stream = ARG_STREAM_CURRENT;
	enum weir_status status;

	if (!PyArg_ParseTupleAndKeywords(
		args, kwargs, "|O&:replay", names, arg_stream, &stream) ||
	    !arg_stream_resolve(((struct graph *)self)->device, &stream))
		return NULL;
	NATIVE_RELEASE_GIL;
	status = weir_graph_replay(graph_of(self), stream);
	NATIVE_TAKE_GIL;
	return error_none(status);
}

PyDoc_STRVAR(reset_doc,
    "reset($self)\n--\n\n"
    "Drop the capture, finished or not, and release the pool; its memory is\n"
    "kept until replays that are queued are done. The graph can capture "
    "again.");

static PyObject *
graph_reset(PyObject *self, PyObject *none)
{
	enum weir_status status;

	(void)none;
	NATIVE_RELEASE_GIL;
	status = weir_graph_reset(graph_of(self));
	NATIVE_TAKE_GIL;
	return error_none(status);
}

/* ---- Attributes -------------------------------------------------------- */

static PyObject *
get_pool(PyObject *self, void *closure)
{
	struct weir_pool *pool;
	enum weir_status status = weir_graph_pool(graph_of(self), &pool);

	(void)closure;
	if (status == WEIR_OK)
		status = weir_pool_acquire(pool);
	if (status != WEIR_OK)
		return error_raise(status);
	return pool_wrap(pool, ((struct graph *)self)->device);
}

static PyObject *
get_nodes(PyObject *self, void *closure)
{
	size_t nodes;
	enum weir_status status = weir_graph_nodes(graph_of(self), &nodes);

	(void)closure;
	if (status != WEIR_OK)
		return error_raise(status);
	return PyLong_FromSize_t(nodes);
}

static PyObject *
graph_get_handle(PyObject *self, void *closure)
{
	void *handle;
	enum weir_status status = weir_graph_handle(graph_of(self), &handle);

	(void)closure;
	if (status != WEIR_OK)
		return error_raise(status);
	return PyLong_FromVoidPtr(handle);
}

static PyObject *
get_exec(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr(weir_graph_exec(graph_of(self)));
}

static PyMethodDef methods[] = {
	{ "capture_begin", NATIVE_KEYWORDS(graph_capture_begin),
	    METH_VARARGS | METH_KEYWORDS, begin_doc },
	{ "capture_end", graph_capture_end, METH_NOARGS, end_doc },
	{ "register", NATIVE_KEYWORDS(graph_register),
	    METH_VARARGS | METH_KEYWORDS, register_doc },
	{ "instantiate", graph_instantiate, METH_NOARGS, instantiate_doc },
	{ "replay", NATIVE_KEYWORDS(graph_replay), METH_VARARGS | METH_KEYWORDS,
	    replay_doc },
	{ "reset", graph_reset, METH_NOARGS, reset_doc },
	{ NULL, NULL, 0, NULL },
};
static PyGetSetDef attributes[] = {
	{ "pool", get_pool, NULL,
	    "The pool of the capture. InvalidArgumentError before one.", NULL },
	{ "nodes", get_nodes, NULL, "Nodes of a finished capture.", NULL },
	{ "handle", graph_get_handle, NULL,
	    "The CUgraph, an int, owned by the graph; needs keep=True.", NULL },
	{ "exec", get_exec, NULL,
	    "The CUgraphExec, an int; 0 before it is instantiated.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot slots[] = {
	{ Py_tp_doc,
	    (char *)"Graph(*, keep=False)\n--\n\n"
		    "A CUDA graph that weir captures, and its hold on the pool "
		    "its memory is in.\n\n"
		    "    graph = weir.Graph()\n"
		    "    with weir.capture(graph, stream):\n"
		    "        ...  # queue work on the stream\n"
		    "    graph.replay(stream)\n\n"
		    "keep: `handle` may be changed after the capture, before "
		    "the graph is instantiated.\nOne thread uses a graph at a "
		    "time." },
	{ Py_tp_new, graph_new },
	{ Py_tp_dealloc, graph_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};
static PyType_Spec spec = { "weir.Graph", sizeof(struct graph), 0,
	Py_TPFLAGS_DEFAULT, slots };

bool
graph_setup(PyObject *module)
{
	graph_type = native_add_type(module, &spec);
	return graph_type != NULL;
}
