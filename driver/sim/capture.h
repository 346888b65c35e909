/*
 * Captures and graphs inside simcuda.
 *
 * A stream that is captured does nothing: an operation on it becomes a node of
 * a graph, behind the nodes that the stream depends on (its deps). Waiting for
 * an event that was recorded in a capture draws the waiting stream into it. At
 * the end all streams must have been joined to the first.
 */
#ifndef DRIVER_SIM_CAPTURE_H
#define DRIVER_SIM_CAPTURE_H

#include "driver/sim/sim.h"

struct node {
	uint64_t handle;
	struct graph *graph;
	CUgraphNodeType type;
	struct action action;
	uint64_t event;      /* of nodes that record or wait for one */
	struct range *range; /* of nodes that allocate or free */
	struct node **deps;  /* earlier nodes of the graph */
	size_t n_deps;
	size_t index;
	bool reached; /* while a capture is ended */
};

struct graph {
	unsigned refs; /* its handle, its capture, what is made of it */
	uint64_t handle;
	struct node **nodes; /* each after its deps */
	size_t n, capacity;
};

struct capture {
	struct capture *next; /* of all that go on */
	uint64_t id;
	CUstreamCaptureMode mode;
	uint64_t thread; /* that began it */
	struct stream *origin;
	struct graph *graph;
	bool invalidated;
};

struct exec {
	struct exec *next; /* of those in being */
	unsigned refs;     /* its handle and its launches */
	uint64_t handle;
	struct graph *graph;
	unsigned long long flags;
	size_t *line_of;    /* of each node; 0 is the stream's */
	struct line *lines; /* the others, from 1 on */
	size_t n_lines;
	bool launched;
	struct point last; /* where the last launch ends */
	struct mark *last_mark;
};

/* ---- capture.c ---------------------------------------------------------- */

/* Fails, and breaks captures, if the thread must not make unsafe calls now. */
CUresult capture_unsafe(void);
/* For calls that ask or wait for the stream: not while it is captured. */
CUresult capture_refuse(struct stream *stream);
/* For copies on a default stream: not while it or one it waits for is. */
CUresult capture_refuse_waiting(struct stream *stream);
CUresult capture_refuse_event(const struct event *event);
CUresult capture_refuse_context(struct context *context);
/* The default stream may not be used while a blocking stream is captured. */
CUresult capture_check_legacy(struct stream *stream);
/* Capture what would be put on the stream; takes over the action. */
CUresult capture_add(struct stream *stream, const struct action *action);
/* As above, for a node with more to it; NULL if it is not allowed, see *why. */
struct node *capture_node(
    struct stream *stream, CUgraphNodeType type, CUresult *why);
CUresult capture_record(
    struct stream *stream, struct event *event, bool external);
CUresult capture_wait(
    struct stream *stream, struct event *event, bool external);
void capture_forget_stream(struct stream *stream);
void capture_forget_event(struct event *event);

/* ---- graph.c, launch.c -------------------------------------------------- */

struct graph *graph_new(void);
void graph_drop(struct graph *graph);
struct node *graph_add(struct graph *graph, CUgraphNodeType type,
    struct node *const *deps, size_t n_deps);
struct exec *exec_new(struct graph *graph, unsigned long long flags);
void exec_drop(struct exec *exec);
/* The nodes get their times; returns when the last is done. */
uint64_t launch_start(struct launch *launch, uint64_t start_ns);
void launch_free(struct launch *launch);

/* ---- pool.c ------------------------------------------------------------- */

/* The memory of an allocation node goes with its graph. */
void pool_free_node(struct range *range);

#endif
