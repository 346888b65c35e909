/*
 * Nodes that a program adds to a graph, and changes of nodes.
 *
 * A node is copied when its graph is instantiated, so a change of the graph's
 * node and a change of the executable graph's do not affect each other. The
 * memory of an executable graph's copy or fill may be replaced only by memory
 * of the same kind, context and device mapping (struct operand).
 */
#include <stdlib.h>
#include <string.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

/* ---- from parameters to actions ----------------------------------------- */

static CUresult
memcpy_action(
    const CUDA_MEMCPY3D *params, CUcontext context, struct action *out)
{
	struct request request;
	CUresult code = CUDA_SUCCESS;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context_find(context, &code) == NULL)
		return code;
	code = request_by_params(params, &request);
	if (code != CUDA_SUCCESS)
		return code;
	if (request.shape.width == 0 || request.shape.rows == 0 ||
	    request.shape.slices == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_action(&request, out);
}

static CUresult
memset_action(const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context,
    struct action *out)
{
	struct fill fill;
	CUresult code = CUDA_ERROR_INVALID_CONTEXT;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context_find(context, &code) == NULL)
		return code;
	if (params->width == 0 || params->height == 0 ||
	    (params->elementSize != 1 && params->elementSize != 2 &&
		params->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	fill = (struct fill){ .to = params->dst,
		.n = params->width,
		.value = params->value,
		.width = params->elementSize,
		.rows = params->height,
		.pitch = params->pitch };
	return fill_action(&fill, out);
}

static CUresult
kernel_node_action(const CUDA_KERNEL_NODE_PARAMS *params, struct action *out)
{
	return params == NULL ? CUDA_ERROR_INVALID_VALUE :
				kernel_action(params, out);
}

static CUresult
host_action(const CUDA_HOST_NODE_PARAMS *params, struct action *out)
{
	if (params == NULL || params->fn == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (struct action){ .kind = OP_HOST,
		.host = { .function = params->fn, .data = params->userData } };
	return CUDA_SUCCESS;
}

/* ---- adding ------------------------------------------------------------- */

/* Where a node is added, and after which nodes. */
struct place {
	CUgraphNode *out;
	CUgraph graph;
	const CUgraphNode *deps;
	size_t n_deps;
	struct context *context; /* where it runs, or NULL */
};

static bool
has_twice(const struct place *place, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		if (place->deps[j] == place->deps[i])
			return true;
	}
	return false;
}

static CUresult
add_node(const struct place *place, CUgraphNodeType type,
    const struct action *action)
{
	struct graph *graph =
	    handle_find(HANDLE_GRAPH, handle_bits(place->graph));
	struct node **deps, *node;

	if (place->out == NULL || graph == NULL ||
	    (place->deps == NULL && place->n_deps > 0))
		return CUDA_ERROR_INVALID_VALUE;
	deps = sim_alloc((place->n_deps + 1) * sizeof(struct node *));
	for (size_t i = 0; i < place->n_deps; i++) {
		deps[i] = handle_find(HANDLE_NODE, handle_bits(place->deps[i]));
		if (deps[i] == NULL || deps[i]->graph != graph ||
		    has_twice(place, i)) {
			free(deps);
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	node = graph_add(graph, type, deps, place->n_deps);
	free(deps);
	node->action = *action;
	node->context = place->context;
	*place->out = handle_pointer(node->handle);
	return CUDA_SUCCESS;
}

CUresult
cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t n_dependencies)
{
	CUresult code = gate_enter(E_cuGraphAddEmptyNode);
	struct place place = { node, graph, dependencies, n_dependencies,
		NULL };
	struct action action = { .kind = OP_NOTHING };

	if (code == CUDA_SUCCESS)
		code = add_node(&place, CU_GRAPH_NODE_TYPE_EMPTY, &action);
	return gate_leave(code);
}

CUresult
cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t n_dependencies,
    const CUDA_MEMCPY3D *params, CUcontext context)
{
	CUresult code = gate_enter(E_cuGraphAddMemcpyNode);
	struct place place = { node, graph, dependencies, n_dependencies,
		NULL };
	struct action action;

	if (code == CUDA_SUCCESS)
		code = memcpy_action(params, context, &action);
	if (code == CUDA_SUCCESS)
		place.context = context_find(context, &code);
	if (code == CUDA_SUCCESS)
		code = add_node(&place, CU_GRAPH_NODE_TYPE_MEMCPY, &action);
	return gate_leave(code);
}

CUresult
cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t n_dependencies,
    const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	CUresult code = gate_enter(E_cuGraphAddMemsetNode);
	struct place place = { node, graph, dependencies, n_dependencies,
		NULL };
	struct action action;

	if (code == CUDA_SUCCESS)
		code = memset_action(params, context, &action);
	if (code == CUDA_SUCCESS)
		place.context = context_find(context, &code);
	if (code == CUDA_SUCCESS)
		code = add_node(&place, CU_GRAPH_NODE_TYPE_MEMSET, &action);
	return gate_leave(code);
}

CUresult
cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t n_dependencies,
    const CUDA_KERNEL_NODE_PARAMS *params)
{
	CUresult code = gate_enter(E_cuGraphAddKernelNode_v2);
	struct place place = { node, graph, dependencies, n_dependencies,
		NULL };
	struct action action;

	if (code == CUDA_SUCCESS)
		code = kernel_node_action(params, &action);
	if (code == CUDA_SUCCESS)
		place.context = context_by_id(action.kernel.context_id);
	if (code == CUDA_SUCCESS)
		code = add_node(&place, CU_GRAPH_NODE_TYPE_KERNEL, &action);
	return gate_leave(code);
}

CUresult
cuGraphAddHostNode(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t n_dependencies,
    const CUDA_HOST_NODE_PARAMS *params)
{
	CUresult code = gate_enter(E_cuGraphAddHostNode);
	struct place place = { node, graph, dependencies, n_dependencies,
		NULL };
	struct action action;

	if (code == CUDA_SUCCESS)
		code = host_action(params, &action);
	if (code == CUDA_SUCCESS)
		code = add_node(&place, CU_GRAPH_NODE_TYPE_HOST, &action);
	return gate_leave(code);
}

/* ---- reading and changing a graph's node -------------------------------- */

static struct node *
node_find(CUgraphNode handle, CUgraphNodeType type, CUresult *why)
{
	struct node *node = handle_find(HANDLE_NODE, handle_bits(handle));

	if (node != NULL && node->type == type)
		return node;
	*why = CUDA_ERROR_INVALID_VALUE;
	return NULL;
}

static CUmemorytype
memory_type(uint64_t address)
{
	const struct range *range = memory_find(address);

	return range == NULL || range_is_host(range) ? CU_MEMORYTYPE_HOST :
						       CU_MEMORYTYPE_DEVICE;
}

static void
read_copy(const struct copy *copy, CUDA_MEMCPY3D *out)
{
	*out = (CUDA_MEMCPY3D){
		.srcMemoryType = memory_type(copy->from),
		.srcPitch = copy->from_layout.pitch,
		.dstMemoryType = memory_type(copy->to),
		.dstPitch = copy->to_layout.pitch,
		.WidthInBytes = copy->shape.width,
		.Height = copy->shape.rows,
		.Depth = copy->shape.slices,
	};
	if (out->srcMemoryType == CU_MEMORYTYPE_HOST)
		out->srcHost = handle_pointer(copy->from);
	else
		out->srcDevice = copy->from;
	if (out->dstMemoryType == CU_MEMORYTYPE_HOST)
		out->dstHost = handle_pointer(copy->to);
	else
		out->dstDevice = copy->to;
	if (out->srcPitch > 0)
		out->srcHeight = copy->from_layout.slice / out->srcPitch;
	if (out->dstPitch > 0)
		out->dstHeight = copy->to_layout.slice / out->dstPitch;
}

CUresult
cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D *params)
{
	CUresult code = gate_enter(E_cuGraphMemcpyNodeGetParams);
	struct node *node = NULL;

	if (code == CUDA_SUCCESS && params == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		node = node_find(handle, CU_GRAPH_NODE_TYPE_MEMCPY, &code);
	if (node != NULL)
		read_copy(&node->action.copy, params);
	return gate_leave(code);
}

/* The parameters name no context: that of the node stays, which is the one that
 * is current. */
CUresult
cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D *params)
{
	CUresult code = gate_enter(E_cuGraphMemcpyNodeSetParams);
	struct context *context = NULL;
	struct node *node = NULL;
	struct action action;

	if (code == CUDA_SUCCESS)
		node = node_find(handle, CU_GRAPH_NODE_TYPE_MEMCPY, &code);
	if (code == CUDA_SUCCESS)
		context = context_current(&code);
	if (code == CUDA_SUCCESS)
		code = memcpy_action(
		    params, handle_pointer(context->handle), &action);
	if (code == CUDA_SUCCESS)
		node->action = action;
	return gate_leave(code);
}

CUresult
cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *params)
{
	CUresult code = gate_enter(E_cuGraphMemsetNodeGetParams);
	const struct fill *fill;
	struct node *node = NULL;

	if (code == CUDA_SUCCESS && params == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		node = node_find(handle, CU_GRAPH_NODE_TYPE_MEMSET, &code);
	if (node != NULL) {
		fill = &node->action.fill;
		*params = (CUDA_MEMSET_NODE_PARAMS){ fill->to, fill->pitch,
			fill->value, fill->width, fill->n, fill->rows };
	}
	return gate_leave(code);
}

CUresult
cuGraphMemsetNodeSetParams(
    CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *params)
{
	CUresult code = gate_enter(E_cuGraphMemsetNodeSetParams);
	struct context *context = NULL;
	struct node *node = NULL;
	struct action action;

	if (code == CUDA_SUCCESS)
		node = node_find(handle, CU_GRAPH_NODE_TYPE_MEMSET, &code);
	if (code == CUDA_SUCCESS)
		context = context_current(&code);
	if (code == CUDA_SUCCESS)
		code = memset_action(
		    params, handle_pointer(context->handle), &action);
	if (code == CUDA_SUCCESS)
		node->action = action;
	return gate_leave(code);
}

/* ---- changing an executable graph's node -------------------------------- */

void
exec_note_operands(struct exec_node *node)
{
	if (node->action.kind == OP_COPY) {
		node->to = memory_operand(node->action.copy.to);
		node->from = memory_operand(node->action.copy.from);
	} else if (node->action.kind == OP_FILL) {
		node->to = memory_operand(node->action.fill.to);
	}
}

static bool
is_flat(const struct shape *shape)
{
	return shape->rows == 1 && shape->slices == 1;
}

static bool
is_operand(const struct operand *old, uint64_t address)
{
	struct operand new = memory_operand(address);

	return operand_equals(old, &new);
}

static bool
may_copy(const struct exec_node *old, const struct copy *new)
{
	return is_flat(&old->action.copy.shape) && is_flat(&new->shape) &&
	    is_operand(&old->to, new->to) && is_operand(&old->from, new->from);
}

/* A fill may go to memory of any kind on the node's device; or of another
 * device, if it went there before. */
static bool
may_reach(const struct exec_node *old, uint64_t address)
{
	struct operand to = memory_operand(address);

	return to.kind != RANGE_KINDS && to.device == old->to.device;
}

/* In one dimension the width may change too, in two nothing but the address and
 * the value. */
static bool
may_fill(const struct exec_node *old, const struct fill *new)
{
	const struct fill *fill = &old->action.fill;

	if (fill->rows != new->rows || !may_reach(old, new->to))
		return false;
	return fill->rows == 1 ||
	    (fill->n == new->n && fill->width == new->width &&
		fill->pitch == new->pitch);
}

/* May the node do this work from now on? */
static bool
may_become(const struct exec_node *old, const struct action *new)
{
	if (old->action.kind != new->kind)
		return false;
	switch (new->kind) {
	case OP_COPY:
		return may_copy(old, &new->copy);
	case OP_FILL:
		return may_fill(old, &new->fill);
	case OP_KERNEL:
		return old->action.kernel.context_id == new->kernel.context_id;
	default:
		return true;
	}
}

static CUresult
exec_set(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type,
    const struct action *action)
{
	struct exec *exec = handle_find(HANDLE_EXEC, handle_bits(exec_handle));
	CUresult code = CUDA_SUCCESS;
	struct node *node = node_find(handle, type, &code);

	if (exec == NULL || node == NULL || node->graph != exec->graph ||
	    node->index >= exec->n ||
	    !may_become(&exec->nodes[node->index], action))
		return CUDA_ERROR_INVALID_VALUE;
	exec->nodes[node->index].action = *action;
	return CUDA_SUCCESS;
}

CUresult
cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
    const CUDA_MEMCPY3D *params, CUcontext context)
{
	CUresult code = gate_enter(E_cuGraphExecMemcpyNodeSetParams);
	struct action action = { 0 };

	if (code == CUDA_SUCCESS)
		code = memcpy_action(params, context, &action);
	if (code == CUDA_SUCCESS)
		code = exec_set(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &action);
	return gate_leave(code);
}

CUresult
cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
    const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	CUresult code = gate_enter(E_cuGraphExecMemsetNodeSetParams);
	struct action action = { 0 };

	if (code == CUDA_SUCCESS)
		code = memset_action(params, context, &action);
	if (code == CUDA_SUCCESS)
		code = exec_set(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &action);
	return gate_leave(code);
}

CUresult
cuGraphExecKernelNodeSetParams_v2(
    CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	CUresult code = gate_enter(E_cuGraphExecKernelNodeSetParams_v2);
	struct action action = { 0 };

	if (code == CUDA_SUCCESS)
		code = kernel_node_action(params, &action);
	if (code == CUDA_SUCCESS)
		code = exec_set(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &action);
	return gate_leave(code);
}

CUresult
cuGraphExecHostNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
	CUresult code = gate_enter(E_cuGraphExecHostNodeSetParams);
	struct action action = { 0 };

	if (code == CUDA_SUCCESS)
		code = host_action(params, &action);
	if (code == CUDA_SUCCESS)
		code = exec_set(exec, node, CU_GRAPH_NODE_TYPE_HOST, &action);
	return gate_leave(code);
}

/* ---- updating a whole executable graph ---------------------------------- */

static void
blame(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult result,
    const struct node *node, const struct node *from)
{
	*info = (CUgraphExecUpdateResultInfo){ result,
		node == NULL ? NULL : handle_pointer(node->handle),
		from == NULL ? NULL : handle_pointer(from->handle) };
}

/* Nodes are paired by their order, so dependencies are compared by index. */
static bool
same_edges(const struct exec *exec, const struct graph *graph, size_t i,
    CUgraphExecUpdateResultInfo *info)
{
	const struct node *old = exec->graph->nodes[i];
	const struct node *new = graph->nodes[i];
	const CUgraphExecUpdateResult changed =
	    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;

	if (old->n_deps != new->n_deps) {
		blame(info, changed, new, NULL);
		return false;
	}
	for (size_t j = 0; j < new->n_deps; j++) {
		if (old->deps[j]->index != new->deps[j]->index) {
			blame(info, changed, new, new->deps[j]);
			return false;
		}
	}
	return true;
}

/* The memory of an allocation cannot be replaced. */
static bool
same_memory(const struct node *old, const struct node *new)
{
	return old->range == new->range && old->event == new->event;
}

static bool
may_update(const struct exec *exec, const struct graph *graph,
    CUgraphExecUpdateResultInfo *info)
{
	if (exec->n != graph->n) {
		blame(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL,
		    NULL);
		return false;
	}
	for (size_t i = 0; i < graph->n; i++) {
		const struct node *old = exec->graph->nodes[i];
		const struct node *new = graph->nodes[i];

		if (old->type != new->type) {
			blame(info,
			    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, new,
			    NULL);
			return false;
		}
		if (!same_edges(exec, graph, i, info))
			return false;
		if (!may_become(&exec->nodes[i], &new->action) ||
		    !same_memory(old, new)) {
			blame(info,
			    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, new,
			    NULL);
			return false;
		}
	}
	return true;
}

CUresult
cuGraphExecUpdate_v2(
    CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info)
{
	CUresult code = gate_enter(E_cuGraphExecUpdate_v2);
	struct exec *exec = handle_find(HANDLE_EXEC, handle_bits(handle));
	struct graph *graph =
	    handle_find(HANDLE_GRAPH, handle_bits(graph_handle));

	if (code == CUDA_SUCCESS && info == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	blame(info, CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL);
	if (exec == NULL || graph == NULL || graph->capturing)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (!may_update(exec, graph, info))
		return gate_leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	for (size_t i = 0; i < exec->n; i++)
		exec->nodes[i].action = graph->nodes[i]->action;
	blame(info, CU_GRAPH_EXEC_UPDATE_SUCCESS, NULL, NULL);
	return gate_leave(CUDA_SUCCESS);
}
