/*
 * Graphs: nodes and their dependencies. A graph is made by a capture or by the
 * program (node.c), and only grows. Executable graphs that are instantiated
 * from it refer to it and have copies of its nodes' work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/capture.h"

struct graph *
graph_new(void)
{
	struct graph *graph = sim_alloc(sizeof(*graph));

	graph->refs = 1;
	return graph;
}

static void
node_free(struct node *node)
{
	if (node->handle != 0)
		handle_drop(HANDLE_NODE, node->handle);
	graph_memory_drop(node->range);
	if (node->action.kind == OP_COPY)
		free(node->action.copy.staged);
	free(node->deps);
	free(node);
}

void
graph_drop(struct graph *graph)
{
	if (--graph->refs > 0)
		return;
	if (graph->handle != 0)
		handle_drop(HANDLE_GRAPH, graph->handle);
	for (size_t i = 0; i < graph->n; i++)
		node_free(graph->nodes[i]);
	free(graph->nodes);
	free(graph);
}

struct node *
graph_add(struct graph *graph, CUgraphNodeType type, struct node *const *deps,
    size_t n_deps)
{
	struct node *node = sim_alloc(sizeof(*node));

	node->graph = graph;
	node->type = type;
	node->action.kind = OP_NOTHING;
	node->handle = handle_new(HANDLE_NODE, node);
	node->n_deps = n_deps;
	node->deps = sim_alloc((n_deps + 1) * sizeof(struct node *));
	if (n_deps > 0)
		memcpy(node->deps, deps, n_deps * sizeof(struct node *));
	node->index = graph->n;
	graph->nodes = sim_grow(
	    graph->nodes, graph->n, &graph->capacity, sizeof(struct node *));
	graph->nodes[graph->n++] = node;
	return node;
}

static struct graph *
graph_find(CUgraph handle, CUresult *why)
{
	struct graph *graph = handle_find(HANDLE_GRAPH, handle_bits(handle));

	if (graph == NULL)
		*why = CUDA_ERROR_INVALID_VALUE;
	return graph;
}

/* The nodes are destroyed, although an executable graph may still use them. */
static void
forget_nodes(struct graph *graph)
{
	for (size_t i = 0; i < graph->n; i++) {
		if (graph->nodes[i]->handle != 0)
			handle_drop(HANDLE_NODE, graph->nodes[i]->handle);
		graph->nodes[i]->handle = 0;
	}
}

/* ---- calls -------------------------------------------------------------- */

CUresult
cuGraphCreate(CUgraph *out, unsigned int flags)
{
	CUresult code = gate_enter(E_cuGraphCreate);
	struct graph *graph;

	if (code == CUDA_SUCCESS && (out == NULL || flags != 0))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS) {
		graph = graph_new();
		graph->handle = handle_new(HANDLE_GRAPH, graph);
		*out = handle_pointer(graph->handle);
	}
	return gate_leave(code);
}

CUresult
cuGraphDestroy(CUgraph handle)
{
	CUresult code = gate_enter(E_cuGraphDestroy);
	struct graph *graph = NULL;

	if (code == CUDA_SUCCESS)
		graph = graph_find(handle, &code);
	if (code == CUDA_SUCCESS && graph->capturing)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS) {
		forget_nodes(graph);
		handle_drop(HANDLE_GRAPH, graph->handle);
		graph->handle = 0;
		graph_drop(graph);
	}
	return gate_leave(code);
}

/* If there is room for fewer nodes, only that many are stored. *n becomes their
 * number, or the number of all nodes if the caller only asks for it. */
CUresult
cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *n_nodes)
{
	CUresult code = gate_enter(E_cuGraphGetNodes);
	struct graph *graph = NULL;

	if (code == CUDA_SUCCESS && n_nodes == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		graph = graph_find(handle, &code);
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (nodes == NULL) {
		*n_nodes = graph->n;
		return gate_leave(CUDA_SUCCESS);
	}
	for (size_t i = 0; i < *n_nodes; i++)
		nodes[i] = i < graph->n ?
		    handle_pointer(graph->nodes[i]->handle) :
		    NULL;
	if (*n_nodes > graph->n)
		*n_nodes = graph->n;
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
	CUresult code = gate_enter(E_cuGraphNodeGetType);
	struct node *node = handle_find(HANDLE_NODE, handle_bits(handle));

	if (code == CUDA_SUCCESS && (type == NULL || node == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*type = node->type;
	return gate_leave(code);
}

static CUresult
get_edges(struct graph *graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
	size_t room = *n, found = 0;

	for (size_t i = 0; i < graph->n; i++) {
		struct node *node = graph->nodes[i];

		for (size_t j = 0; j < node->n_deps; j++, found++) {
			if (from == NULL || found >= room)
				continue;
			from[found] = handle_pointer(node->deps[j]->handle);
			to[found] = handle_pointer(node->handle);
		}
	}
	if (from == NULL || found < room)
		*n = found;
	return CUDA_SUCCESS;
}

static CUresult
edges_of(enum sim_entry entry, CUgraph handle, CUgraphNode *from,
    CUgraphNode *to, size_t *n_edges)
{
	CUresult code = gate_enter(entry);
	struct graph *graph = NULL;

	if (code == CUDA_SUCCESS &&
	    (n_edges == NULL || (from == NULL) != (to == NULL)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		graph = graph_find(handle, &code);
	if (code == CUDA_SUCCESS)
		code = get_edges(graph, from, to, n_edges);
	return gate_leave(code);
}

CUresult
cuGraphGetEdges(
    CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *n_edges)
{
	return edges_of(E_cuGraphGetEdges, handle, from, to, n_edges);
}

/* No edge has data of its own. */
CUresult
cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
    CUgraphEdgeData *edges, size_t *n_edges)
{
	CUresult code =
	    edges_of(E_cuGraphGetEdges_v2, handle, from, to, n_edges);

	if (code == CUDA_SUCCESS && from != NULL && edges != NULL)
		memset(edges, 0, *n_edges * sizeof(*edges));
	return code;
}

CUresult
cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
	CUresult code = gate_enter(E_cuGraphDebugDotPrint);
	struct graph *graph = NULL;
	FILE *file = NULL;

	(void)flags;
	if (code == CUDA_SUCCESS && path == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		graph = graph_find(handle, &code);
	if (code == CUDA_SUCCESS)
		file = fopen(path, "w");
	if (code == CUDA_SUCCESS && file == NULL)
		code = CUDA_ERROR_OPERATING_SYSTEM;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	fputs("digraph graph_1 {\n", file);
	for (size_t i = 0; i < graph->n; i++) {
		struct node *node = graph->nodes[i];

		fprintf(file, "\t%zu [label=\"%s\"];\n", i,
		    action_name(&node->action));
		for (size_t j = 0; j < node->n_deps; j++)
			fprintf(
			    file, "\t%zu -> %zu;\n", node->deps[j]->index, i);
	}
	fputs("}\n", file);
	if (fclose(file) != 0)
		code = CUDA_ERROR_OPERATING_SYSTEM;
	return gate_leave(code);
}
