/*
 * Graphs that the program makes, and changes of executable graphs.
 */
#include "simcuda/cudart/cudart.h"

cudaError_t
cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphCreate(graph, flags));
}

cudaError_t
cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
    const cudaGraphNode_t *dependencies, size_t count)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	return runtime_check(
	    driver.cuGraphAddEmptyNode(node, graph, dependencies, count));
}

/* ---- The driver's parameters -------------------------------------------- */

/* A node runs in the context that is current where it is added. */
static cudaError_t
enter_for_node(const void *what, CUcontext *context)
{
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (what == NULL)
		return runtime_error(cudaErrorInvalidValue);
	return runtime_check(driver.cuCtxGetCurrent(context));
}

static cudaError_t
enter_for_copy(const struct cudaMemcpy3DParms *what, CUcontext *context,
    CUDA_MEMCPY3D *params)
{
	cudaError_t error = enter_for_node(what, context);

	if (error != cudaSuccess)
		return error;
	if (what->srcArray != NULL || what->dstArray != NULL)
		return runtime_error(cudaErrorInvalidValue);
	if ((unsigned)what->kind > cudaMemcpyDefault)
		return runtime_error(cudaErrorInvalidMemcpyDirection);
	*params = box_params(what);
	return cudaSuccess;
}

static struct cudaMemcpy3DParms
one_row(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	return (struct cudaMemcpy3DParms){
		.srcPtr = { (void *)(uintptr_t)src, size, size, 1 },
		.dstPtr = { dst, size, size, 1 },
		.extent = { size, 1, 1 },
		.kind = kind,
	};
}

static CUDA_MEMSET_NODE_PARAMS
fill_params(const struct cudaMemsetParams *what)
{
	return (CUDA_MEMSET_NODE_PARAMS){ address(what->dst), what->pitch,
		what->value, what->elementSize, what->width, what->height };
}

/* ---- Adding -------------------------------------------------------------- */

cudaError_t
cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
    const cudaGraphNode_t *dependencies, size_t count,
    const struct cudaMemcpy3DParms *what)
{
	CUcontext context;
	CUDA_MEMCPY3D params;
	cudaError_t error = enter_for_copy(what, &context, &params);

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphAddMemcpyNode(
	    node, graph, dependencies, count, &params, context));
}

cudaError_t
cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
    const cudaGraphNode_t *dependencies, size_t count, void *dst,
    const void *src, size_t size, enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms what = one_row(dst, src, size, kind);

	return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &what);
}

cudaError_t
cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
    const cudaGraphNode_t *dependencies, size_t count,
    const struct cudaMemsetParams *what)
{
	CUcontext context;
	CUDA_MEMSET_NODE_PARAMS params;
	cudaError_t error = enter_for_node(what, &context);

	if (error != cudaSuccess)
		return error;
	params = fill_params(what);
	return runtime_check(driver.cuGraphAddMemsetNode(
	    node, graph, dependencies, count, &params, context));
}

/* ---- Changing an executable graph ---------------------------------------- */

cudaError_t
cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
    const struct cudaMemcpy3DParms *what)
{
	CUcontext context;
	CUDA_MEMCPY3D params;
	cudaError_t error = enter_for_copy(what, &context, &params);

	if (error != cudaSuccess)
		return error;
	return runtime_check(driver.cuGraphExecMemcpyNodeSetParams(
	    exec, node, &params, context));
}

cudaError_t
cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
    void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms what = one_row(dst, src, size, kind);

	return cudaGraphExecMemcpyNodeSetParams(exec, node, &what);
}

cudaError_t
cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
    const struct cudaMemsetParams *what)
{
	CUcontext context;
	CUDA_MEMSET_NODE_PARAMS params;
	cudaError_t error = enter_for_node(what, &context);

	if (error != cudaSuccess)
		return error;
	params = fill_params(what);
	return runtime_check(driver.cuGraphExecMemsetNodeSetParams(
	    exec, node, &params, context));
}

cudaError_t
cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
    cudaGraphExecUpdateResultInfo *info)
{
	CUgraphExecUpdateResultInfo found;
	cudaError_t error = runtime_enter();

	if (error != cudaSuccess)
		return error;
	if (info == NULL)
		return runtime_error(cudaErrorInvalidValue);
	error = runtime_check(driver.cuGraphExecUpdate(exec, graph, &found));
	info->result = (enum cudaGraphExecUpdateResult)found.result;
	info->errorNode = found.errorNode;
	info->errorFromNode = found.errorFromNode;
	return error;
}
