/*
 * <weir/graph.h>: graphs. From the beginning of a capture a graph holds a pool,
 * keeps the pool's arena and, during the capture, has a route. drop_graph()
 * releases all of these, in every state.
 */
#include <weir/graph.h>

#include "allocator/memory/arena.h"
#include "allocator/memory/keep.h"
#include "allocator/private/route.h"
#include "allocator/private/suspension.h"
#include "allocator/request/reclaim.h"
#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/pool.h"
#include "streams/capture.h"

enum state { IDLE, CAPTURING, CAPTURED };

struct weir_graph {
	unsigned flags;
	enum state state;
	bool registered;        /* captured by CUDA's own calls */
	struct weir_pool *pool; /* one hold; one keep on its arena */
	struct stream *stream;  /* the captured one; a reference */
	struct route *route;    /* CAPTURING */
	CUgraph graph;
	CUgraphExec exec;
	size_t nodes;
};

/* ---- Making and dropping ----------------------------------------------- */

enum weir_status
weir_graph_create(unsigned flags, struct weir_graph **out)
{
	if (os_forked())
		return status_forked("weir_graph_create");
	if (out == NULL || (flags & ~(unsigned)WEIR_GRAPH_KEEP) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_graph_create: out is NULL or flags %#x are unknown",
		    flags);
	struct weir_graph *graph = meta_zalloc(sizeof(*graph));
	if (graph == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a graph");
	graph->flags = flags;
	*out = graph;
	return WEIR_OK;
}

/* Destroy the driver's graph and executable. A refusal has no remedy. */
static void
drop_handles(struct weir_graph *graph)
{
	struct driver_guard guard;

	if (graph->graph == NULL && graph->exec == NULL)
		return;
	/* Try even if the context cannot be entered: only a capture elsewhere
	 * could make the calls fail. */
	bool entered = driver_enter(graph->stream->context, &guard) == WEIR_OK;
	if (graph->exec != NULL)
		driver_peek()->cuGraphExecDestroy(graph->exec);
	if (graph->graph != NULL)
		driver_peek()->cuGraphDestroy(graph->graph);
	if (entered)
		driver_leave(&guard);
	graph->exec = NULL;
	graph->graph = NULL;
}

/* End a capture that weir began. *out is NULL on failure. */
static enum weir_status
end_capture(struct weir_graph *graph, CUgraph *out)
{
	struct stream *stream = graph->stream;
	CUgraph unwanted = NULL;

	*out = NULL;
	CUresult code = driver_peek()->cuStreamEndCapture(stream->handle, out);
	/* If the capture could not be ended, it goes on, even if it is broken:
	 * try once more. */
	if (code != CUDA_SUCCESS && capture_possible(stream))
		driver_peek()->cuStreamEndCapture(stream->handle, &unwanted);
	if (unwanted != NULL)
		driver_peek()->cuGraphDestroy(unwanted);
	capture_ended(stream->context);
	enum weir_status status = driver_status(
	    code, "cuStreamEndCapture(stream %p)", (void *)stream->handle);
	if (status == WEIR_OK && *out == NULL)
		status = status_set(
		    WEIR_ECAPTURE, "weir_graph_capture_end: invalid capture");
	return status;
}

/* Make the graph IDLE again, from any state. */
static void
drop_graph(struct weir_graph *graph)
{
	bool replayed = graph->state == CAPTURED;

	if (graph->route != NULL)
		route_end(graph->route);
	graph->route = NULL;
	drop_handles(graph);
	if (graph->pool != NULL) {
		if (replayed)
			arena_unkeep_later(graph->pool->arena);
		else
			arena_unkeep(graph->pool->arena);
		weir_pool_release(graph->pool);
	}
	graph->pool = NULL;
	if (graph->stream != NULL)
		stream_put(graph->stream);
	graph->stream = NULL;
	graph->registered = false;
	graph->nodes = 0;
	graph->state = IDLE;
}

static enum weir_status
check_graph(const struct weir_graph *graph, const char *call)
{
	if (graph == NULL)
		return status_set(WEIR_EINVAL, "%s: the graph is NULL", call);
	if (os_forked())
		return status_forked(call);
	return WEIR_OK;
}

enum weir_status
weir_graph_reset(struct weir_graph *graph)
{
	CUgraph made;
	enum weir_status status = check_graph(graph, "weir_graph_reset");
	if (status != WEIR_OK)
		return status;
	status_mute();
	if (graph->state == CAPTURING && !graph->registered &&
	    end_capture(graph, &made) == WEIR_OK)
		graph->graph = made;
	drop_graph(graph);
	status_unmute();
	return WEIR_OK;
}

void
weir_graph_destroy(struct weir_graph *graph)
{
	if (graph == NULL)
		return;
	if (!os_forked())
		weir_graph_reset(graph);
	meta_free(graph, sizeof(*graph));
}

/* ---- Beginning --------------------------------------------------------- */

/* Hold the pool for the capture, or make one, and keep its arena. */
static enum weir_status
hold_pool(struct weir_graph *graph, struct weir_pool *pool, const char *call)
{
	if (pool != NULL && pool->arena->device != graph->stream->device)
		return status_set(WEIR_EINVAL,
		    "%s: the pool belongs to device %d, stream %p to device %d",
		    call, pool->arena->device, (void *)graph->stream->handle,
		    graph->stream->device);
	if (pool != NULL && arena_is_suspended(pool->arena))
		return status_set(
		    WEIR_EINVAL, "%s: the pool is suspended", call);
	if (pool != NULL) {
		pool_hold(pool);
	} else {
		enum weir_status status = weir_pool_create(
		    graph->stream->device, NULL, WEIR_POOL_DEFAULT, &pool);
		if (status != WEIR_OK)
			return status;
	}
	arena_keep(pool->arena);
	reclaim_look(pool->arena);
	graph->pool = pool;
	return WEIR_OK;
}

static enum weir_status
check_begin(struct weir_graph *graph, weir_stream stream, const char *call)
{
	enum weir_status status = check_graph(graph, call);
	if (status != WEIR_OK)
		return status;
	if (graph->state != IDLE)
		return status_set(WEIR_EINVAL,
		    "%s: this graph owns a capture already; reset it, or make "
		    "another one",
		    call);
	if (stream_is_default(stream) || stream == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "%s: CUDA graphs must be captured on a non-default stream "
		    "(after capture they may be replayed on any)",
		    call);
	return stream_find(WEIR_DEVICE_CURRENT, stream, &graph->stream);
}

/* Begin a capture. The locks prevent that another thread, which has just seen
 * that the stream is not captured, records an event on it. */
static enum weir_status
begin_capture(struct stream *stream, CUstreamCaptureMode mode)
{
	struct driver_guard guard;
	enum weir_status status = driver_enter(stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	capture_began(stream->context);
	lock_enter(&stream->lock);
	CUresult code =
	    driver_peek()->cuStreamBeginCapture(stream->handle, mode);
	lock_leave(&stream->lock);
	driver_leave(&guard);
	if (code != CUDA_SUCCESS)
		capture_ended(stream->context);
	return driver_status(
	    code, "cuStreamBeginCapture(stream %p)", (void *)stream->handle);
}

/* Begin the capture and set its route. All other steps that can fail come
 * before. */
static enum weir_status
begin_routed_capture(struct weir_graph *graph, CUstreamCaptureMode mode)
{
	struct stream *stream = graph->stream;
	CUgraph made;
	enum weir_status status = begin_capture(stream, mode);
	if (status != WEIR_OK)
		return status;
	uint64_t id;
	status = capture_ask(stream, &id);
	if (status != WEIR_OK) {
		status_mute();
		if (end_capture(graph, &made) == WEIR_OK)
			graph->graph = made; /* to be dropped */
		status_unmute();
		return status;
	}
	route_set_capture(graph->route, id);
	graph->state = CAPTURING;
	return WEIR_OK;
}

enum weir_status
weir_graph_capture_begin(struct weir_graph *graph, weir_stream stream,
    struct weir_pool *pool, enum weir_capture_mode mode)
{
	static const char call[] = "weir_graph_capture_begin";
	struct route_match match = { .kind = ROUTE_CAPTURE };
	uint64_t id = 0;
	enum weir_status status = check_begin(graph, stream, call);
	if (status != WEIR_OK)
		return status;
	if ((unsigned)mode > WEIR_CAPTURE_RELAXED)
		status = status_set(
		    WEIR_EINVAL, "%s: unknown mode %d", call, (int)mode);
	else
		status = capture_ask(graph->stream, &id);
	if (status == WEIR_OK && id != 0)
		status = status_set(WEIR_ECAPTURE,
		    "%s: stream %p is being captured already", call,
		    (void *)stream);
	if (status == WEIR_OK)
		status = hold_pool(graph, pool, call);
	if (status == WEIR_OK)
		status = route_begin(graph->pool->arena, &match, &graph->route);
	if (status == WEIR_OK)
		status = begin_routed_capture(graph, (CUstreamCaptureMode)mode);
	if (status != WEIR_OK) {
		status_mute();
		drop_graph(graph);
		status_unmute();
	}
	return status;
}

/* ---- Captures by CUDA's own calls -------------------------------------- */

/* If weir has found the capture unregistered, take over its route and make a
 * pool of its arena. */
static enum weir_status
take_over(struct weir_graph *graph, uint64_t id, struct weir_pool *pool)
{
	struct route *route;
	struct arena *arena;

	struct arena *main = arena_peek(graph->stream->device);

	if (main == NULL || !route_claim_unregistered(main, id, &route, &arena))
		return WEIR_OK;
	enum weir_status status = WEIR_OK;
	if (pool != NULL)
		status = status_set(WEIR_EINVAL,
		    "weir_graph_register: the capture has allocated before the "
		    "pool was given");
	else
		status = pool_adopt(arena, &graph->pool);
	if (status == WEIR_OK)
		graph->route = route;
	else
		route_return_unregistered(route, graph->stream);
	return status;
}

enum weir_status
weir_graph_register(
    struct weir_graph *graph, weir_stream stream, struct weir_pool *pool)
{
	static const char call[] = "weir_graph_register";
	struct route_match match = { .kind = ROUTE_CAPTURE };
	enum weir_status status = check_begin(graph, stream, call);
	if (status != WEIR_OK)
		return status;
	status = capture_ask(graph->stream, &match.capture);
	if (status == WEIR_OK && match.capture == 0)
		status = status_set(WEIR_EINVAL,
		    "%s: stream %p is not being captured", call,
		    (void *)stream);
	if (status == WEIR_OK)
		status = take_over(graph, match.capture, pool);
	if (status == WEIR_OK && graph->pool == NULL)
		status = hold_pool(graph, pool, call);
	if (status == WEIR_OK && graph->route == NULL)
		status = route_begin(graph->pool->arena, &match, &graph->route);
	if (status != WEIR_OK) {
		status_mute();
		drop_graph(graph);
		status_unmute();
		return status;
	}
	graph->registered = true;
	graph->state = CAPTURING;
	return WEIR_OK;
}

/* ---- Ending ------------------------------------------------------------ */

/* The driver reserves memory for launches here. driver_enter() sets the mode in
 * which a capture elsewhere does not forbid that. */
static enum weir_status
instantiate(struct weir_graph *graph)
{
	struct driver_guard guard;
	enum weir_status status = driver_enter(graph->stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuGraphInstantiateWithFlags(&graph->exec,
	    graph->graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	driver_leave(&guard);
	if (code != CUDA_SUCCESS)
		graph->exec = NULL;
	return driver_status(
	    code, "cuGraphInstantiateWithFlags(%zu nodes)", graph->nodes);
}

static void
drop_template(struct weir_graph *graph)
{
	driver_peek()->cuGraphDestroy(graph->graph);
	graph->graph = NULL;
}

static enum weir_status
count_nodes(struct weir_graph *graph)
{
	CUresult code =
	    driver_peek()->cuGraphGetNodes(graph->graph, NULL, &graph->nodes);

	if (code == CUDA_SUCCESS && graph->nodes == 0)
		log_write(LOG_WARN,
		    "the captured graph is empty: was its work put on another "
		    "stream or device than the one that was captured?");
	return driver_status(code, "cuGraphGetNodes(graph)");
}

static enum weir_status
end_own_capture(struct weir_graph *graph)
{
	enum weir_status status = end_capture(graph, &graph->graph);
	if (status == WEIR_OK)
		status = count_nodes(graph);
	if (status == WEIR_OK && (graph->flags & WEIR_GRAPH_KEEP) == 0)
		status = instantiate(graph);
	if (status == WEIR_OK && (graph->flags & WEIR_GRAPH_KEEP) == 0)
		drop_template(graph);
	return status;
}

/* Check that the program has ended a capture that it began. */
static enum weir_status
check_over(const struct weir_graph *graph, const char *call)
{
	uint64_t id;
	enum weir_status status = capture_ask(graph->stream, &id);

	if (status == WEIR_OK && id != 0)
		status = status_set(WEIR_ECAPTURE,
		    "%s: stream %p is still being captured", call,
		    (void *)graph->stream->handle);
	return status;
}

enum weir_status
weir_graph_capture_end(struct weir_graph *graph)
{
	static const char call[] = "weir_graph_capture_end";
	enum weir_status status = check_graph(graph, call);
	if (status != WEIR_OK)
		return status;
	if (graph->state != CAPTURING)
		return status_set(WEIR_EINVAL,
		    "%s: called before weir_graph_capture_begin()", call);
	if (graph->registered)
		status = check_over(graph, call);
	if (status != WEIR_OK)
		return status;
	if (!graph->registered)
		status = end_own_capture(graph);
	route_end(graph->route);
	graph->route = NULL;
	if (status == WEIR_OK) {
		graph->state = CAPTURED;
		reclaim_look(graph->pool->arena);
		return WEIR_OK;
	}
	status_mute();
	drop_graph(graph);
	status_unmute();
	return status;
}

/* ---- Using ------------------------------------------------------------- */

static enum weir_status
check_captured(const struct weir_graph *graph, const char *call)
{
	enum weir_status status = check_graph(graph, call);
	if (status != WEIR_OK)
		return status;
	if (graph->state != CAPTURED || graph->registered)
		return status_set(WEIR_EINVAL,
		    "%s: called without a preceding successful capture", call);
	return WEIR_OK;
}

enum weir_status
weir_graph_instantiate(struct weir_graph *graph)
{
	static const char call[] = "weir_graph_instantiate";
	enum weir_status status = check_captured(graph, call);
	if (status != WEIR_OK)
		return status;
	if (graph->exec != NULL)
		return status_set(
		    WEIR_EINVAL, "%s: it is ready to be launched", call);
	return instantiate(graph);
}

/* A replay may be on any stream of the graph's device. A driver may crash on a
 * handle that is none. */
static enum weir_status
check_replay_stream(
    const struct weir_graph *graph, weir_stream handle, const char *call)
{
	struct stream *stream;

	if (handle == WEIR_STREAM_ANY)
		return status_set(
		    WEIR_EINVAL, "%s: WEIR_STREAM_ANY is no stream", call);
	if (stream_is_default(handle))
		return WEIR_OK;
	enum weir_status status =
	    stream_find(graph->stream->device, handle, &stream);
	if (status == WEIR_OK)
		stream_put(stream);
	return status;
}

enum weir_status
weir_graph_replay(struct weir_graph *graph, weir_stream stream)
{
	static const char call[] = "weir_graph_replay";
	struct driver_guard guard;
	enum weir_status status = check_captured(graph, call);
	if (status != WEIR_OK)
		return status;
	if (arena_is_suspended(graph->pool->arena))
		return status_set(
		    WEIR_EINVAL, "%s: the pool is suspended", call);
	status = check_replay_stream(graph, stream, call);
	if (status == WEIR_OK && graph->exec == NULL)
		status = instantiate(graph);
	if (status == WEIR_OK)
		status = driver_enter(graph->stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuGraphLaunch(graph->exec, stream);
	driver_leave(&guard);
	return driver_status(code, "cuGraphLaunch(stream %p)", (void *)stream);
}

enum weir_status
weir_graph_pool(struct weir_graph *graph, struct weir_pool **out)
{
	enum weir_status status = check_graph(graph, "weir_graph_pool");
	if (status != WEIR_OK)
		return status;
	if (graph->pool == NULL || out == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_graph_pool: called without a preceding capture");
	*out = graph->pool;
	return WEIR_OK;
}

enum weir_status
weir_graph_handle(struct weir_graph *graph, void **out)
{
	static const char call[] = "weir_graph_handle";
	enum weir_status status = check_captured(graph, call);
	if (status != WEIR_OK)
		return status;
	if ((graph->flags & WEIR_GRAPH_KEEP) == 0 || out == NULL)
		return status_set(WEIR_EINVAL,
		    "%s: the graph was made without WEIR_GRAPH_KEEP", call);
	*out = graph->graph;
	return WEIR_OK;
}

void *
weir_graph_exec(struct weir_graph *graph)
{
	return graph != NULL ? graph->exec : NULL;
}

enum weir_status
weir_graph_nodes(struct weir_graph *graph, size_t *out)
{
	enum weir_status status = check_captured(graph, "weir_graph_nodes");
	if (status != WEIR_OK)
		return status;
	if (out == NULL)
		return status_set(WEIR_EINVAL, "weir_graph_nodes: out is NULL");
	*out = graph->nodes;
	return WEIR_OK;
}
