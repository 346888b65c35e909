/*
 * Captures and graphs inside simcuda.
 *
 * Work on a captured stream is not executed: an operation becomes a node of a
 * graph, after the nodes that the stream depends on (its deps). A stream that
 * waits for an event recorded in a capture joins the capture. At the end, all
 * streams must have been joined to the first one.
 */
#ifndef SIMCUDA_CAPTURE_H
#define SIMCUDA_CAPTURE_H

#include "simcuda/sim.h"

struct node {
	uint64_t handle;
	struct graph *graph;
	CUgraphNodeType type;
	struct context *context; /* where it runs; NULL: where it is launched */
	struct action action;
	/* For nodes that record an event or wait for one. */
	uint64_t event;
	struct range *range; /* for nodes that allocate or free */
	struct node **deps;  /* earlier nodes of the graph */
	size_t n_deps;
	size_t index;
	bool reached; /* used while a capture is ended */
};

struct graph {
	unsigned refs; /* its handle, its capture, its executable graphs */
	uint64_t handle;
	bool capturing;      /* the capture owns it */
	struct node **nodes; /* in an order in which each follows its deps */
	size_t n, capacity;
};

struct capture {
	struct capture *next; /* list of all captures that are going on */
	uint64_t id;
	CUstreamCaptureMode mode;
	uint64_t thread; /* thread that began it */
	struct stream *origin;
	struct graph *graph;
	bool invalidated;
};

/* A node as it was when its graph was instantiated, or as it was changed
 * since. */
struct exec_node {
	struct action action;
	struct operand to, from; /* the memory of a copy or fill */
};

struct exec {
	struct exec *next; /* list of all executable graphs */
	unsigned refs;     /* its handle and its launches */
	uint64_t handle;
	struct graph *graph;
	struct exec_node *nodes; /* by index; the graph may have more now */
	size_t n;
	unsigned long long flags;
	size_t *line_of;    /* for each node; 0 is the stream's own line */
	struct line *lines; /* the other lines, from 1 on */
	size_t n_lines;
	bool launched;
	struct point last; /* the end of the latest launch */
	struct mark *last_mark;
};

/* The nodes' operations, between the call and their start. */
struct launch {
	struct exec *exec; /* referenced */
	struct op **ops;
};

/* ---- capture.c ---------------------------------------------------------- */

/* Fail, and break captures, if the thread may not make unsafe calls now. */
CUresult capture_unsafe(void);
/* For calls that query or wait for the stream: fail while it is captured. */
CUresult capture_refuse(struct stream *stream);
/* For copies on a default stream: fail while it or a stream that it waits for
 * is captured. */
CUresult capture_refuse_waiting(struct stream *stream);
CUresult capture_refuse_event(const struct event *event);
CUresult capture_refuse_context(struct context *context);
/* Fail if the stream is the default stream and a blocking stream is captured.
 */
CUresult capture_check_legacy(struct stream *stream);
/* Capture an action instead of queueing it; takes ownership of the action. */
CUresult capture_add(struct stream *stream, const struct action *action);
/* Capture a node that the caller completes; NULL if it is not allowed, see
 * *why. */
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
/* Add the executable graph to the list of all, for exec_check_unused(). */
void exec_list(struct exec *exec);
void exec_drop(struct exec *exec);
/* Remember the memory that the node's work is on. */
void exec_note_operands(struct exec_node *node);
/* Schedule the nodes; returns when the last one is done. */
uint64_t launch_start(struct launch *launch, uint64_t start_ns);
void launch_free(struct launch *launch);

#endif
