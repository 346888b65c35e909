/*
 * Captures: which calls are allowed during a capture, and which break it.
 *
 * Unsafe calls (calls that wait, or that the driver may implement by waiting)
 * fail and invalidate a capture if the capture forbids them to the thread. A
 * capture of the thread's own forbids them unless it is relaxed. A capture of
 * another thread forbids them if it is global and the mode of the calling
 * thread is global too. A thread whose mode is relaxed may always make them.
 */
#include <stdlib.h>
#include <string.h>

#include "simcuda/capture.h"

static struct capture *captures;

/* ---- what is forbidden -------------------------------------------------- */

static bool
forbids(const struct capture *capture, const struct thread *thread)
{
	if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    thread->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	return capture->thread == thread->id ||
	    (thread->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
		capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult
capture_unsafe(void)
{
	CUresult code = CUDA_SUCCESS;

	if (captures == NULL)
		return CUDA_SUCCESS;
	for (struct capture *c = captures; c != NULL; c = c->next) {
		if (forbids(c, thread_self())) {
			c->invalidated = true;
			code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return code;
}

/* A blocking stream of the context that is being captured, or NULL. */
static struct stream *
captured_blocking(const struct context *context)
{
	if (captures == NULL)
		return NULL;
	for (struct stream *s = context->streams; s != NULL; s = s->next) {
		if (s->capture != NULL && s->blocking)
			return s;
	}
	return NULL;
}

CUresult
capture_check_legacy(struct stream *stream)
{
	struct stream *captured =
	    stream->legacy ? captured_blocking(stream->context) : NULL;

	if (captured == NULL)
		return CUDA_SUCCESS;
	captured->capture->invalidated = true;
	return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult
capture_refuse_waiting(struct stream *stream)
{
	if (stream->capture != NULL) {
		stream->capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return capture_check_legacy(stream);
}

CUresult
capture_refuse(struct stream *stream)
{
	CUresult code = capture_refuse_waiting(stream);

	return code != CUDA_SUCCESS ? code : capture_unsafe();
}

static struct capture *
capture_find(uint64_t id)
{
	for (struct capture *c = captures; c != NULL; c = c->next) {
		if (c->id == id)
			return c;
	}
	return NULL;
}

CUresult
capture_refuse_event(const struct event *event)
{
	struct capture *capture;

	if (event->deps_capture == 0)
		return CUDA_SUCCESS;
	capture = capture_find(event->deps_capture);
	if (capture == NULL || capture->invalidated)
		return CUDA_ERROR_INVALID_VALUE;
	capture->invalidated = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult
capture_refuse_context(struct context *context)
{
	CUresult code = CUDA_SUCCESS;

	if (captures == NULL)
		return CUDA_SUCCESS;
	for (struct stream *s = context->streams; s != NULL; s = s->next) {
		if (s->capture != NULL) {
			s->capture->invalidated = true;
			code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return code;
}

struct stream *
stream_for_work(CUstream handle, CUresult *why)
{
	struct stream *stream = stream_find(handle, why);

	if (stream == NULL)
		return NULL;
	if (stream->capture != NULL && stream->capture->invalidated)
		*why = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else
		*why = capture_check_legacy(stream);
	return *why == CUDA_SUCCESS ? stream : NULL;
}

/* ---- what is captured --------------------------------------------------- */

static void
deps_add(struct stream *stream, struct node *node)
{
	for (size_t i = 0; i < stream->n_deps; i++) {
		if (stream->deps[i] == node)
			return;
	}
	stream->deps = sim_grow(stream->deps, stream->n_deps,
	    &stream->deps_capacity, sizeof(struct node *));
	stream->deps[stream->n_deps++] = node;
}

struct node *
capture_node(struct stream *stream, CUgraphNodeType type, CUresult *why)
{
	struct node *node;

	if (stream->capture->invalidated) {
		*why = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		return NULL;
	}
	node = graph_add(
	    stream->capture->graph, type, stream->deps, stream->n_deps);
	node->context = stream->context;
	stream->n_deps = 0;
	deps_add(stream, node);
	return node;
}

static CUgraphNodeType
node_type_of(const struct action *action)
{
	switch (action->kind) {
	case OP_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case OP_FILL:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case OP_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case OP_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	default:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	}
}

CUresult
capture_add(struct stream *stream, const struct action *action)
{
	CUresult code = CUDA_SUCCESS;
	struct node *node = capture_node(stream, node_type_of(action), &code);

	if (node != NULL)
		node->action = *action;
	return code;
}

CUresult
capture_record(struct stream *stream, struct event *event, bool external)
{
	CUresult code = CUDA_SUCCESS;
	struct node *node;

	if (external) {
		node = capture_node(
		    stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &code);
		if (node != NULL)
			node->event = event->handle;
		return code;
	}
	capture_forget_event(event);
	event->recorded = false;
	event->deps_capture = stream->capture->id;
	event->n_deps = stream->n_deps;
	event->deps = sim_alloc((stream->n_deps + 1) * sizeof(struct node *));
	if (stream->n_deps > 0)
		memcpy(event->deps, stream->deps,
		    stream->n_deps * sizeof(struct node *));
	return CUDA_SUCCESS;
}

/* The stream waits for an event of a capture that is still going on. */
static CUresult
wait_inside(struct stream *stream, struct event *event, struct capture *capture)
{
	if (stream->capture == NULL && stream->legacy) {
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (stream->capture != NULL && stream->capture != capture) {
		stream->capture->invalidated = true;
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	stream->capture = capture;
	for (size_t i = 0; i < event->n_deps; i++)
		deps_add(stream, event->deps[i]);
	return CUDA_SUCCESS;
}

CUresult
capture_wait(struct stream *stream, struct event *event, bool external)
{
	struct capture *capture = capture_find(event->deps_capture);
	CUresult code = CUDA_SUCCESS;
	struct node *node;

	if (stream->capture != NULL && stream->capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->capture != NULL && external) {
		node =
		    capture_node(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &code);
		if (node != NULL)
			node->event = event->handle;
		return code;
	}
	if (capture != NULL)
		return wait_inside(stream, event, capture);
	if (event->deps_capture != 0) {
		if (stream->capture != NULL)
			stream->capture->invalidated = true;
		return CUDA_ERROR_CAPTURED_EVENT;
	}
	if (!event->recorded || stream->capture == NULL)
		return CUDA_SUCCESS;
	stream->capture->invalidated = true;
	return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

void
capture_forget_event(struct event *event)
{
	free(event->deps);
	event->deps = NULL;
	event->n_deps = 0;
	event->deps_capture = 0;
}

/* ---- beginning and ending ----------------------------------------------- */

static CUresult
sim_capture_begin(struct stream *stream, CUstreamCaptureMode mode)
{
	struct capture *capture;

	if (stream->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture != NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = sim_alloc(sizeof(*capture));
	capture->id = ++sim.next_id;
	capture->mode = mode;
	capture->thread = thread_self()->id;
	capture->origin = stream;
	capture->graph = graph_new();
	capture->graph->capturing = true;
	capture->next = captures;
	captures = capture;
	stream->capture = capture;
	stream->n_deps = 0;
	return CUDA_SUCCESS;
}

CUresult
cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
	CUresult code = gate_enter(E_cuStreamBeginCapture_v2);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = sim_capture_begin(stream, mode);
	return gate_leave(code);
}

static void
mark_reached(struct node *node)
{
	if (node->reached)
		return;
	node->reached = true;
	for (size_t i = 0; i < node->n_deps; i++)
		mark_reached(node->deps[i]);
}

/* Does everything captured come before the end of the first stream? */
static bool
is_joined(const struct capture *capture)
{
	const struct stream *origin = capture->origin;

	for (size_t i = 0; i < origin->n_deps; i++)
		mark_reached(origin->deps[i]);
	for (struct context *c = sim.contexts; c != NULL; c = c->next) {
		for (struct stream *s = c->streams; s != NULL; s = s->next) {
			if (s->capture != capture)
				continue;
			for (size_t i = 0; i < s->n_deps; i++) {
				if (!s->deps[i]->reached)
					return false;
			}
		}
	}
	return true;
}

/* End the capture; its graph stays. */
static void
capture_end(struct capture *capture)
{
	struct capture **link = &captures;

	capture->graph->capturing = false;
	for (struct context *c = sim.contexts; c != NULL; c = c->next) {
		for (struct stream *s = c->streams; s != NULL; s = s->next) {
			if (s->capture == capture) {
				s->capture = NULL;
				s->n_deps = 0;
			}
		}
	}
	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	free(capture);
}

void
capture_forget_stream(struct stream *stream)
{
	struct capture *capture = stream->capture;
	struct graph *graph;

	if (capture == NULL)
		return;
	stream->capture = NULL;
	capture->invalidated = true;
	if (capture->origin == stream) {
		graph = capture->graph;
		capture_end(capture);
		graph_drop(graph);
	}
}

static CUresult
sim_capture_finish(struct stream *stream, CUgraph *out)
{
	struct capture *capture = stream->capture;
	CUresult code = CUDA_SUCCESS;
	struct graph *graph;

	if (capture == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    capture->thread != thread_self()->id) {
		/* The capture ends in any case. */
		graph = capture->graph;
		capture_end(capture);
		graph_drop(graph);
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	}
	if (capture->origin != stream) {
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->invalidated)
		code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(capture))
		code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (code == CUDA_SUCCESS) {
		if (capture->graph->handle == 0)
			capture->graph->handle =
			    handle_new(HANDLE_GRAPH, capture->graph);
		*out = handle_pointer(capture->graph->handle);
	} else {
		*out = NULL;
	}
	graph = capture->graph;
	capture_end(capture);
	if (code != CUDA_SUCCESS)
		graph_drop(graph);
	return code;
}

CUresult
cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	CUresult code = gate_enter(E_cuStreamEndCapture);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS && graph == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = sim_capture_finish(stream, graph);
	return gate_leave(code);
}

/* ---- asking ------------------------------------------------------------- */

/* Get the capture status of a stream. Fails for the default stream if the query
 * itself would break a capture. */
static CUresult
status_of(struct stream *stream, CUstreamCaptureStatus *status)
{
	if (stream->legacy && captured_blocking(stream->context) != NULL)
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (stream->capture == NULL)
		*status = CU_STREAM_CAPTURE_STATUS_NONE;
	else if (stream->capture->invalidated)
		*status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	else
		*status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

CUresult
cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	CUresult code = gate_enter(E_cuStreamIsCapturing);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS && status == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = status_of(stream, status);
	return gate_leave(code);
}

/* Where cuStreamGetCaptureInfo() stores its results; most may be NULL. */
struct info {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const CUgraphEdgeData **edges;
	size_t *n_deps;
};

/* The handles of a stream's deps, valid until the next call for this stream. */
static const CUgraphNode *
deps_handles(struct stream *stream)
{
	for (size_t i = 0; i < stream->n_deps; i++) {
		stream->returned = sim_grow(stream->returned, i,
		    &stream->returned_capacity, sizeof(*stream->returned));
		stream->returned[i] = handle_pointer(stream->deps[i]->handle);
	}
	return stream->returned;
}

static CUresult
get_info(enum sim_entry entry, CUstream handle, const struct info *info)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS && info->status == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = status_of(stream, info->status);
	if (code != CUDA_SUCCESS ||
	    *info->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return gate_leave(code);
	if (info->id != NULL)
		*info->id = stream->capture->id;
	if (info->graph != NULL) {
		struct graph *graph = stream->capture->graph;

		if (graph->handle == 0)
			graph->handle = handle_new(HANDLE_GRAPH, graph);
		*info->graph = handle_pointer(graph->handle);
	}
	if (info->deps != NULL)
		*info->deps = deps_handles(stream);
	if (info->edges != NULL)
		*info->edges = NULL;
	if (info->n_deps != NULL)
		*info->n_deps = stream->n_deps;
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuStreamGetCaptureInfo(
    CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	struct info info = { .status = status, .id = id };

	return get_info(E_cuStreamGetCaptureInfo, stream, &info);
}

CUresult
cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
    cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
    size_t *n_dependencies)
{
	struct info info = { status, id, graph, dependencies, NULL,
		n_dependencies };

	return get_info(E_cuStreamGetCaptureInfo_v2, stream, &info);
}

CUresult
cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
    cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
    const CUgraphEdgeData **edges, size_t *n_dependencies)
{
	struct info info = { status, id, graph, dependencies, edges,
		n_dependencies };

	return get_info(E_cuStreamGetCaptureInfo_v3, stream, &info);
}

/* ---- changing ----------------------------------------------------------- */

static CUresult
update_deps(
    struct stream *stream, const CUgraphNode *nodes, size_t n, unsigned flags)
{
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES ||
	    (n > 0 && nodes == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture == NULL)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (size_t i = 0; i < n; i++) {
		struct node *node =
		    handle_find(HANDLE_NODE, handle_bits(nodes[i]));

		if (node == NULL || node->graph != stream->capture->graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		stream->n_deps = 0;
	for (size_t i = 0; i < n; i++)
		deps_add(
		    stream, handle_find(HANDLE_NODE, handle_bits(nodes[i])));
	return CUDA_SUCCESS;
}

CUresult
cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *dependencies,
    size_t n_dependencies, unsigned int flags)
{
	CUresult code = gate_enter(E_cuStreamUpdateCaptureDependencies);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = update_deps(stream, dependencies, n_dependencies, flags);
	return gate_leave(code);
}

CUresult
cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *dependencies,
    const CUgraphEdgeData *edges, size_t n_dependencies, unsigned int flags)
{
	CUresult code = gate_enter(E_cuStreamUpdateCaptureDependencies_v2);
	struct stream *stream = NULL;

	(void)edges;
	if (code == CUDA_SUCCESS)
		stream = stream_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = update_deps(stream, dependencies, n_dependencies, flags);
	return gate_leave(code);
}

CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUresult code = gate_enter(E_cuThreadExchangeStreamCaptureMode);
	struct thread *thread = thread_self();
	CUstreamCaptureMode old = thread->mode;

	if (code == CUDA_SUCCESS &&
	    (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS) {
		thread->mode = *mode;
		*mode = old;
	}
	return gate_leave(code);
}
