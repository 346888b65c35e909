/*
 * Calls for which the driver itself needs memory. The driver serves them. If it
 * runs out of memory, weir frees its unused memory and the call is repeated, so
 * that it fails only if it would fail without weir.
 */
#include "preload/serving/outside.h"

bool
retry_is_due(CUresult code)
{
	int device;

	return code == CUDA_ERROR_OUT_OF_MEMORY && gate_context(&device) &&
	    outside_make_room(device);
}

/* A call that is repeated if it ran out of memory and weir could free some. The
 * context has grown. */
#define ASK_TWICE(name, params, args)                                          \
	CUresult name params                                                   \
	{                                                                      \
		report_call(HOOK_##name);                                      \
		CUresult code = REAL(name) args;                               \
		if (retry_is_due(code))                                        \
			code = REAL(name) args;                                \
		outside_contexts_changed();                                    \
		return code;                                                   \
	}

ASK_TWICE(cuModuleLoad, (CUmodule * out, const char *file), (out, file))

ASK_TWICE(cuModuleLoadData, (CUmodule * out, const void *image), (out, image))

ASK_TWICE(cuModuleLoadDataEx,
    (CUmodule * out, const void *image, unsigned count, CUjit_option *options,
	void **values),
    (out, image, count, options, values))

ASK_TWICE(
    cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image))

/* The driver may take memory for the nodes of a graph. */
#define ASK_OF_GRAPH(name, params, args)                                       \
	CUresult name params                                                   \
	{                                                                      \
		report_call(HOOK_##name);                                      \
		CUresult code = REAL(name) args;                               \
		if (retry_is_due(code))                                        \
			code = REAL(name) args;                                \
		outside_graphs_changed();                                      \
		return code;                                                   \
	}

/* Work on a stream is held while a device is asleep. */
#define LAUNCH_OF_GRAPH(name, params, args)                                    \
	CUresult name params                                                   \
	{                                                                      \
		report_call(HOOK_##name);                                      \
		CUresult code = HELD(REAL(name) args);                         \
		if (retry_is_due(code))                                        \
			code = HELD(REAL(name) args);                          \
		outside_graphs_changed();                                      \
		return code;                                                   \
	}

ASK_OF_GRAPH(cuGraphInstantiateWithFlags,
    (CUgraphExec * out, CUgraph graph, unsigned long long flags),
    (out, graph, flags))

ASK_OF_GRAPH(cuGraphInstantiateWithParams,
    (CUgraphExec * out, CUgraph graph, void *params), (out, graph, params))

ASK_OF_GRAPH(cuGraphInstantiateWithParams_ptsz,
    (CUgraphExec * out, CUgraph graph, void *params), (out, graph, params))

LAUNCH_OF_GRAPH(
    cuGraphUpload, (CUgraphExec graph, CUstream stream), (graph, stream))

LAUNCH_OF_GRAPH(
    cuGraphUpload_ptsz, (CUgraphExec graph, CUstream stream), (graph, stream))

LAUNCH_OF_GRAPH(
    cuGraphLaunch, (CUgraphExec graph, CUstream stream), (graph, stream))

LAUNCH_OF_GRAPH(
    cuGraphLaunch_ptsz, (CUgraphExec graph, CUstream stream), (graph, stream))

/* ---- Managed memory ----------------------------------------------------- */

CUresult
cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	struct outside_claim claim;
	CUresult code;

	report_call(HOOK_cuMemAllocManaged);
	if (out == NULL)
		return REAL(cuMemAllocManaged)(out, bytes, flags);
	if (!outside_begin(&claim, OUTSIDE_managed, bytes, "cuMemAllocManaged"))
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = REAL(cuMemAllocManaged)(out, bytes, flags);
	if (retry_is_due(code))
		code = REAL(cuMemAllocManaged)(out, bytes, flags);
	outside_end(
	    &claim, OUTSIDE_ADDRESS, code == CUDA_SUCCESS ? *out : 0, code);
	return code;
}

/* ---- Nodes of graphs that allocate -------------------------------------- */

/* The type of such a node, and the beginning of the parameters of any. */
enum { GRAPH_NODE_MEM_ALLOC = 10 };

CUresult
cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t count, void *params)
{
	CUresult code;

	report_call(HOOK_cuGraphAddMemAllocNode);
	outside_graphs_begin();
	code = REAL(cuGraphAddMemAllocNode)(
	    node, graph, dependencies, count, params);
	outside_graphs_changed();
	return code;
}

static void
note_node(const void *params)
{
	if (params != NULL && *(const int *)params == GRAPH_NODE_MEM_ALLOC)
		outside_graphs_begin();
}

CUresult
cuGraphAddNode(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, size_t count, void *params)
{
	CUresult code;

	report_call(HOOK_cuGraphAddNode);
	note_node(params);
	code = REAL(cuGraphAddNode)(node, graph, dependencies, count, params);
	outside_graphs_changed();
	return code;
}

CUresult
cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
    const CUgraphNode *dependencies, const void *edges, size_t count,
    void *params)
{
	CUresult code;

	report_call(HOOK_cuGraphAddNode_v2);
	note_node(params);
	code = REAL(cuGraphAddNode_v2)(
	    node, graph, dependencies, edges, count, params);
	outside_graphs_changed();
	return code;
}

CUresult
cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult code;

	report_call(HOOK_cuDeviceGraphMemTrim);
	code = REAL(cuDeviceGraphMemTrim)(device);
	outside_graphs_changed();
	return code;
}
