/*
 * Making executable graphs, and queueing their launches.
 *
 * A launch is one operation of its stream, made of the nodes' operations. The
 * nodes have their own order: each comes only after its deps, so two branches
 * can race with each other. So a graph has its own lines beside the stream's,
 * one for each branch. An executable graph does not run twice at the same time:
 * a launch comes after the previous one, even on another stream.
 */
#include <stdlib.h>

#include "simcuda/capture.h"

/* ---- executable graphs -------------------------------------------------- */

/* Give each node the line of one of its deps, if no other node has taken it. */
static void
assign_lines(struct exec *exec)
{
	struct graph *graph = exec->graph;
	bool *followed = sim_alloc(exec->n + 1);
	bool begun = false;

	exec->line_of = sim_alloc((exec->n + 1) * sizeof(size_t));
	for (size_t i = 0; i < exec->n; i++) {
		struct node *node = graph->nodes[i];
		size_t line = SIZE_MAX;

		for (size_t j = 0; j < node->n_deps; j++) {
			size_t dep = node->deps[j]->index;

			if (!followed[dep] && line == SIZE_MAX) {
				followed[dep] = true;
				line = exec->line_of[dep];
			}
		}
		if (line == SIZE_MAX && !begun) {
			begun = true;
			line = 0;
		}
		exec->line_of[i] = line != SIZE_MAX ? line : ++exec->n_lines;
	}
	free(followed);
	exec->lines = sim_alloc((exec->n_lines + 1) * sizeof(struct line));
	for (size_t i = 1; i <= exec->n_lines; i++)
		line_init(&exec->lines[i], ++sim.next_id);
}

static struct exec *
exec_new(struct graph *graph, unsigned long long flags)
{
	struct exec *exec = sim_alloc(sizeof(*exec));

	exec->refs = 1;
	exec->graph = graph;
	graph->refs++;
	exec->n = graph->n;
	exec->nodes = sim_alloc((exec->n + 1) * sizeof(struct exec_node));
	for (size_t i = 0; i < exec->n; i++) {
		exec->nodes[i].action = graph->nodes[i]->action;
		exec_note_operands(&exec->nodes[i]);
	}
	exec->flags = flags;
	exec->handle = handle_new(HANDLE_EXEC, exec);
	exec_list(exec);
	assign_lines(exec);
	return exec;
}

/* ---- launching ---------------------------------------------------------- */

/* The node's work in this launch. */
static struct action
node_action(const struct exec *exec, size_t i)
{
	const struct node *node = exec->graph->nodes[i];
	struct action action = exec->nodes[i].action;

	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		action =
		    (struct action){ .kind = OP_ALLOC, .range = node->range };
	else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		action =
		    (struct action){ .kind = OP_FREE, .range = node->range };
	return action;
}

/* Place nodes that record an event, or come after one. */
static void
place_event(struct op *op, const struct node *node, struct line *line)
{
	struct event *event = handle_find(HANDLE_EVENT, node->event);

	if (event == NULL)
		return;
	if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
		if (event->recorded) {
			line_join(line, &event->at);
			stream_wait_mark(op->stream, event->mark);
		}
		return;
	}
	event_record_at(event, &op->at);
	op->action.kind = OP_MARK;
	op->action.mark = event->mark;
	event->mark->refs++;
}

static void
place_nodes(struct launch *launch, struct stream *stream)
{
	struct exec *exec = launch->exec;
	struct point begin = line_point(&stream->line);

	for (size_t i = 1; i <= exec->n_lines; i++)
		line_join(&exec->lines[i], &begin);
	point_drop(&begin);
	for (size_t i = 0; i < exec->n; i++) {
		struct node *node = exec->graph->nodes[i];
		struct line *line = exec->line_of[i] == 0 ?
		    &stream->line :
		    &exec->lines[exec->line_of[i]];
		struct action action = node_action(exec, i);
		struct op *op = op_new(stream, &action);

		if (node->context != NULL)
			op->context = node->context;
		op->exec = exec;
		exec->refs++;
		for (size_t j = 0; j < node->n_deps; j++)
			line_join(line, &launch->ops[node->deps[j]->index]->at);
		if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
			place_event(op, node, line);
		op_place(op, line);
		if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
			place_event(op, node, line);
		launch->ops[i] = op;
	}
	for (size_t i = 1; i <= exec->n_lines; i++) {
		struct point end = line_point(&exec->lines[i]);

		line_join(&stream->line, &end);
		point_drop(&end);
	}
}

/* Memory that the graph allocates must not be live from an earlier launch. */
static CUresult
begin_memory(struct exec *exec)
{
	struct graph *graph = exec->graph;
	bool again = (exec->flags &
			 CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;

	for (size_t i = 0; i < exec->n; i++) {
		struct node *node = graph->nodes[i];

		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
		    node->range->graph_live && !again)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < exec->n; i++) {
		struct node *node = graph->nodes[i];

		if (node->range == NULL)
			continue;
		graph_memory_set_live(
		    node->range, node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	}
	return CUDA_SUCCESS;
}

static CUresult
launch_on(struct exec *exec, struct stream *stream)
{
	struct action action = { .kind = OP_GRAPH };
	CUresult code = begin_memory(exec);
	struct launch *launch;

	if (code != CUDA_SUCCESS)
		return code;
	launch = sim_alloc(sizeof(*launch));
	launch->exec = exec;
	launch->ops = sim_alloc((exec->n + 1) * sizeof(struct op *));
	exec->refs++;
	stream_order(stream);
	line_join_host(&stream->line);
	if (exec->launched) {
		line_join(&stream->line, &exec->last);
		stream_wait_mark(stream, exec->last_mark);
	}
	place_nodes(launch, stream);
	action.launch = launch;
	op_append(stream, op_new(stream, &action));
	exec->launched = true;
	point_drop(&exec->last);
	mark_drop(exec->last_mark);
	exec->last = line_point(&stream->line);
	exec->last_mark = stream_mark(stream);
	return CUDA_SUCCESS;
}

/* ---- calls -------------------------------------------------------------- */

static CUresult
instantiate_graph(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
	const unsigned long long all =
	    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
	    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	struct graph *graph = handle_find(HANDLE_GRAPH, handle_bits(handle));

	if (out == NULL || graph == NULL || graph->capturing ||
	    (flags & ~all) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*out = handle_pointer(exec_new(graph, flags)->handle);
	return CUDA_SUCCESS;
}

CUresult
cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
    char *log, size_t log_size)
{
	CUresult code = gate_enter(E_cuGraphInstantiate_v2);

	if (code == CUDA_SUCCESS)
		code = instantiate_graph(exec, graph, 0);
	if (code == CUDA_SUCCESS && error_node != NULL)
		*error_node = NULL;
	if (code == CUDA_SUCCESS && log != NULL && log_size > 0)
		*log = '\0';
	return gate_leave(code);
}

CUresult
cuGraphInstantiateWithFlags(
    CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult code = gate_enter(E_cuGraphInstantiateWithFlags);

	if (code == CUDA_SUCCESS)
		code = instantiate_graph(exec, graph, flags);
	return gate_leave(code);
}

CUresult
cuGraphExecDestroy(CUgraphExec handle)
{
	CUresult code = gate_enter(E_cuGraphExecDestroy);
	struct exec *exec = handle_find(HANDLE_EXEC, handle_bits(handle));

	if (code == CUDA_SUCCESS && exec == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS) {
		handle_drop(HANDLE_EXEC, exec->handle);
		exec_drop(exec);
	}
	return gate_leave(code);
}

/* Uploading has no effect that a program could see. */
CUresult
cuGraphUpload(CUgraphExec handle, CUstream stream)
{
	CUresult code = gate_enter(E_cuGraphUpload);

	if (code == CUDA_SUCCESS &&
	    handle_find(HANDLE_EXEC, handle_bits(handle)) == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		(void)stream_for_work(stream, &code);
	return gate_leave(code);
}

CUresult
cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
	CUresult code = gate_enter(E_cuGraphLaunch);
	struct exec *exec = handle_find(HANDLE_EXEC, handle_bits(handle));
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS && exec == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		stream = stream_for_work(stream_handle, &code);
	/* A graph as a node of another graph is not simulated. */
	if (code == CUDA_SUCCESS && stream->capture != NULL)
		code = capture_refuse(stream);
	if (code == CUDA_SUCCESS)
		code = launch_on(exec, stream);
	return gate_leave(code);
}
