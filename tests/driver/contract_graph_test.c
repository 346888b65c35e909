/*
 * Contract tests, the same on simcuda and on a GPU's driver: graphs that the
 * program makes, and what it may change in executable ones. Memory of a copy or
 * fill may be replaced by memory of the same kind, context and device mapping.
 */
#include <string.h>

#include "tests/support/cuda.h"

enum { WORDS = 1024, BYTES = WORDS * 4, GRANULE = 2 << 20 };

static CUcontext context;
static CUstream stream;
static CUgraph graph;

static void
begin(void)
{
	context = cuda_begin_conf("devices:2");
	cuda_need(cuGraphAddKernelNode_v2);
	stream = cuda_stream();
	CU(cu.cuGraphCreate(&graph, 0));
}

static CUgraphExec
instantiate(void)
{
	CUgraphExec exec = NULL;

	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void
launch(CUgraphExec exec)
{
	CU(cu.cuGraphLaunch(exec, stream));
	CU(cu.cuStreamSynchronize(stream));
}

static CUDA_MEMCPY3D
row(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1 };
}

static CUgraphNode
add_copy(CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D params = row(to, from, BYTES);
	CUgraphNode node = NULL;

	CU(cu.cuGraphAddMemcpyNode(&node, graph, NULL, 0, &params, context));
	return node;
}

static CUresult
set_copy(CUgraphExec exec, CUgraphNode node, CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D params = row(to, from, BYTES);

	return cu.cuGraphExecMemcpyNodeSetParams(exec, node, &params, context);
}

static CUDA_MEMSET_NODE_PARAMS
words(CUdeviceptr to, unsigned value, size_t n)
{
	return (CUDA_MEMSET_NODE_PARAMS){ .dst = to,
		.value = value,
		.elementSize = 4,
		.width = n,
		.height = 1 };
}

static CUgraphNode
add_fill(CUdeviceptr to, unsigned value)
{
	CUDA_MEMSET_NODE_PARAMS params = words(to, value, WORDS);
	CUgraphNode node = NULL;

	CU(cu.cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, context));
	return node;
}

static CUdeviceptr
filled(CUdeviceptr address, unsigned value)
{
	CU(cu.cuMemsetD32_v2(address, value, WORDS));
	CU(cu.cuCtxSynchronize());
	return address;
}

/* ---- Nodes of the program's own ----------------------------------------- */

TEST(a_graph_of_added_nodes_runs_in_the_order_of_their_dependencies)
{
	CUdeviceptr a, b, sum;
	CUgraphNode nodes[3] = { NULL };
	CUgraphExec exec;
	uint64_t n = WORDS;

	begin();
	a = filled(cuda_alloc(BYTES), 0);
	b = filled(cuda_alloc(BYTES), 0);
	sum = filled(cuda_alloc(BYTES), 0);
	nodes[0] = add_fill(a, 7);
	CUDA_MEMCPY3D copy = row(b, a, BYTES);

	CU(cu.cuGraphAddMemcpyNode(
	    &nodes[1], graph, &nodes[0], 1, &copy, context));
	void *params[] = { &sum, &a, &b, &n };
	CUDA_KERNEL_NODE_PARAMS kernel = { .func = cuda_kernel("weir_add_u32"),
		.gridDimX = 4,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 128,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params };

	CU(cu.cuGraphAddKernelNode_v2(&nodes[2], graph, nodes, 2, &kernel));
	exec = instantiate();
	launch(exec);
	EXPECT_EQ(cuda_word(b), 7);
	EXPECT_EQ(cuda_word(sum), 14);
}

static int n_called;

static void
note_call(void *data)
{
	n_called += *(int *)data;
}

TEST(a_host_node_calls_the_function_that_it_was_changed_to)
{
	CUgraphNode node = NULL;
	CUgraphExec exec;
	int one = 1, ten = 10;

	begin();
	CUDA_HOST_NODE_PARAMS params = { note_call, &one };

	CU(cu.cuGraphAddHostNode(&node, graph, NULL, 0, &params));
	exec = instantiate();
	launch(exec);
	EXPECT_EQ(n_called, 1);
	params.userData = &ten;
	CU(cu.cuGraphExecHostNodeSetParams(exec, node, &params));
	launch(exec);
	EXPECT_EQ(n_called, 11);
}

TEST(a_node_after_a_node_of_another_graph_is_refused)
{
	CUgraph other = NULL;
	CUgraphNode theirs = NULL, node = NULL;

	begin();
	CU(cu.cuGraphCreate(&other, 0));
	CU(cu.cuGraphAddEmptyNode(&theirs, other, NULL, 0));
	EXPECT_CU(cu.cuGraphAddEmptyNode(&node, graph, &theirs, 1),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(an_executable_graph_is_not_changed_by_its_graph)
{
	CUdeviceptr a, b, c;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 5);
	b = filled(cuda_alloc(BYTES), 0);
	c = filled(cuda_alloc(BYTES), 0);
	node = add_copy(b, a);
	exec = instantiate();
	CUDA_MEMCPY3D params = row(c, a, BYTES), got = { .WidthInBytes = 0 };

	CU(cu.cuGraphMemcpyNodeSetParams(node, &params));
	add_fill(c, 9);
	launch(exec);
	EXPECT_EQ(cuda_word(b), 5);
	EXPECT_EQ(cuda_word(c), 0);
	CU(cu.cuGraphMemcpyNodeGetParams(node, &got));
	EXPECT_EQ(got.dstDevice, c);
	EXPECT_EQ(got.WidthInBytes, BYTES);
}

/* ---- Copies ------------------------------------------------------------- */

TEST(a_copy_node_takes_other_memory_of_the_same_allocation_kind)
{
	CUdeviceptr a, b, c;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 1);
	b = filled(cuda_alloc(BYTES), 0);
	c = filled(cuda_alloc(BYTES), 2);
	node = add_copy(b, a);
	exec = instantiate();
	launch(exec);
	EXPECT_EQ(cuda_word(b), 1);
	CU(set_copy(exec, node, b, c));
	launch(exec);
	EXPECT_EQ(cuda_word(b), 2);
	CUDA_MEMCPY3D got = { .WidthInBytes = 0 };

	/* The graph's node stays as it was. */
	CU(cu.cuGraphMemcpyNodeGetParams(node, &got));
	EXPECT_EQ(got.srcDevice, a);
}

TEST(a_queued_launch_keeps_the_work_it_was_launched_with)
{
	CUdeviceptr a, b, c;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 1);
	b = filled(cuda_alloc(BYTES), 0);
	c = filled(cuda_alloc(BYTES), 0);
	node = add_copy(b, a);
	exec = instantiate();
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuGraphLaunch(exec, stream));
	CU(set_copy(exec, node, c, a));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(cuda_word(b), 1);
	EXPECT_EQ(cuda_word(c), 0);
}

static CUdeviceptr
mapped(void)
{
	return filled(cuda_map(cuda_create(GRANULE), GRANULE), 0);
}

TEST(a_copy_node_refuses_mapped_memory_for_allocated_memory)
{
	CUdeviceptr a, b, virtual;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 1);
	b = filled(cuda_alloc(BYTES), 0);
	virtual = mapped();
	node = add_copy(b, a);
	exec = instantiate();
	EXPECT_CU(set_copy(exec, node, virtual, a), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(set_copy(exec, node, b, virtual), CUDA_ERROR_INVALID_VALUE);
	launch(exec);
	EXPECT_EQ(cuda_word(b), 1);
}

TEST(a_copy_node_takes_mapped_memory_for_mapped_memory)
{
	CUdeviceptr a, b, c;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = mapped();
	b = mapped();
	c = filled(mapped(), 4);
	node = add_copy(b, a);
	exec = instantiate();
	CU(set_copy(exec, node, b, c));
	launch(exec);
	EXPECT_EQ(cuda_word(b), 4);
}

/* The second device's context, or the test is skipped. */
static CUcontext
need_second_device(void)
{
	CUcontext second = NULL;
	int n = 0, reaches = 0;

	CU(cu.cuDeviceGetCount(&n));
	if (n < 2)
		SKIP("there is one device");
	CU(cu.cuDeviceCanAccessPeer(&reaches, 0, 1));
	if (!reaches)
		SKIP("the devices have no access to each other");
	CU(cu.cuDevicePrimaryCtxRetain(&second, 1));
	return second;
}

TEST(a_copy_node_refuses_mapped_memory_that_is_open_to_more_devices)
{
	CUmemAccessDesc both[] = { { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				       CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
		    CU_MEM_ACCESS_FLAGS_PROT_READWRITE } };
	CUdeviceptr a, b, open;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	need_second_device();
	a = mapped();
	b = mapped();
	open = mapped();
	CU(cu.cuMemSetAccess(open, GRANULE, both, 2));
	node = add_copy(b, a);
	exec = instantiate();
	EXPECT_CU(set_copy(exec, node, b, open), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(set_copy(exec, node, open, a), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_copy_node_refuses_memory_of_another_device)
{
	CUdeviceptr a, b, far;
	CUcontext second;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	second = need_second_device();
	a = filled(cuda_alloc(BYTES), 0);
	b = filled(cuda_alloc(BYTES), 0);
	CU(cu.cuCtxPushCurrent_v2(second));
	far = cuda_alloc(BYTES);
	CU(cu.cuCtxPopCurrent_v2(NULL));
	node = add_copy(b, a);
	exec = instantiate();
	EXPECT_CU(set_copy(exec, node, b, far), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(set_copy(exec, node, far, a), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_copy_node_refuses_host_memory_for_device_memory)
{
	CUdeviceptr a, b;
	CUgraphNode node;
	CUgraphExec exec;
	void *pinned = NULL;

	begin();
	a = filled(cuda_alloc(BYTES), 0);
	b = filled(cuda_alloc(BYTES), 0);
	CU(cu.cuMemAllocHost_v2(&pinned, BYTES));
	node = add_copy(b, a);
	exec = instantiate();
	CUDA_MEMCPY3D params = row(b, a, BYTES);

	params.srcMemoryType = CU_MEMORYTYPE_HOST;
	params.srcHost = pinned;
	EXPECT_CU(
	    cu.cuGraphExecMemcpyNodeSetParams(exec, node, &params, context),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_copy_node_refuses_several_rows_and_no_bytes)
{
	CUdeviceptr a, b;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 0);
	b = filled(cuda_alloc(BYTES), 0);
	node = add_copy(b, a);
	exec = instantiate();
	CUDA_MEMCPY3D params = row(b, a, 0);

	EXPECT_CU(
	    cu.cuGraphExecMemcpyNodeSetParams(exec, node, &params, context),
	    CUDA_ERROR_INVALID_VALUE);
	params.WidthInBytes = 64;
	params.Height = 2;
	params.srcPitch = params.dstPitch = 128;
	EXPECT_CU(
	    cu.cuGraphExecMemcpyNodeSetParams(exec, node, &params, context),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_node_is_changed_only_by_the_call_for_its_type)
{
	CUdeviceptr a;
	CUgraphNode fill;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 0);
	fill = add_fill(a, 3);
	exec = instantiate();
	EXPECT_CU(set_copy(exec, fill, a, a), CUDA_ERROR_INVALID_VALUE);
}

/* ---- Fills and kernels -------------------------------------------------- */

TEST(a_fill_node_takes_another_address_and_value)
{
	CUdeviceptr a, b, virtual;
	CUgraphNode node;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 0);
	b = filled(cuda_alloc(BYTES), 0);
	virtual = mapped();
	node = add_fill(a, 3);
	exec = instantiate();
	CUDA_MEMSET_NODE_PARAMS params = words(b, 4, WORDS);

	CU(cu.cuGraphExecMemsetNodeSetParams(exec, node, &params, context));
	launch(exec);
	EXPECT_EQ(cuda_word(a), 0);
	EXPECT_EQ(cuda_word(b), 4);
	params.dst = virtual; /* of another kind */
	CU(cu.cuGraphExecMemsetNodeSetParams(exec, node, &params, context));
	params.dst = a;
	params.width = 16;
	params.height = 2;
	params.pitch = 128;
	EXPECT_CU(
	    cu.cuGraphExecMemsetNodeSetParams(exec, node, &params, context),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_kernel_node_takes_memory_of_any_kind)
{
	CUdeviceptr a, virtual;
	CUgraphNode node = NULL;
	CUgraphExec exec;
	uint32_t value = 6;
	uint64_t n = WORDS;

	begin();
	a = filled(cuda_alloc(BYTES), 0);
	virtual = mapped();
	CUdeviceptr to = a;
	void *params[] = { &to, &value, &n };
	CUDA_KERNEL_NODE_PARAMS kernel = { .func = cuda_kernel("weir_fill_u32"),
		.gridDimX = 4,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 128,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params };

	CU(cu.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel));
	exec = instantiate();
	to = virtual;
	CU(cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel));
	launch(exec);
	EXPECT_EQ(cuda_word(a), 0);
	EXPECT_EQ(cuda_word(virtual), 6);
}

/* ---- Whole graphs ------------------------------------------------------- */

static CUgraphExecUpdateResult
update(CUgraphExec exec, CUgraph from, CUresult code)
{
	CUgraphExecUpdateResultInfo info;

	memset(&info, 0xff, sizeof(info));
	EXPECT_CU(cu.cuGraphExecUpdate_v2(exec, from, &info), code);
	return info.result;
}

/* Begin another graph; later calls of add_*() add to it. */
static CUgraph
another_graph(void)
{
	CU(cu.cuGraphCreate(&graph, 0));
	return graph;
}

TEST(an_update_takes_the_memory_and_values_of_a_graph_of_the_same_form)
{
	CUdeviceptr a, b, c;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 1);
	b = filled(cuda_alloc(BYTES), 0);
	c = filled(cuda_alloc(BYTES), 0);
	add_copy(b, a);
	exec = instantiate();
	another_graph();
	add_copy(c, a);
	EXPECT_EQ(
	    update(exec, graph, CUDA_SUCCESS), CU_GRAPH_EXEC_UPDATE_SUCCESS);
	CU(cu.cuGraphDestroy(graph));
	launch(exec);
	EXPECT_EQ(cuda_word(b), 0);
	EXPECT_EQ(cuda_word(c), 1);
}

TEST(an_update_is_refused_where_the_form_or_the_memory_changed)
{
	CUdeviceptr a, b, virtual;
	CUgraphExec exec;

	begin();
	a = filled(cuda_alloc(BYTES), 1);
	b = filled(cuda_alloc(BYTES), 0);
	virtual = mapped();
	add_copy(b, a);
	exec = instantiate();
	EXPECT_EQ(
	    update(exec, another_graph(), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
	    CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	another_graph();
	add_fill(b, 3);
	EXPECT_EQ(update(exec, graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
	    CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
	another_graph();
	add_copy(virtual, a);
	EXPECT_EQ(update(exec, graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
	    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
	launch(exec);
	EXPECT_EQ(cuda_word(b), 1);
}

TEST(captured_copies_are_updated_by_captured_copies)
{
	CUdeviceptr a, b, virtual;
	CUgraphExec exec = NULL;

	begin();
	a = filled(cuda_alloc(BYTES), 1);
	b = filled(cuda_alloc(BYTES), 0);
	virtual = mapped();
	for (int i = 0; i < 3; i++) {
		CUdeviceptr to = i == 1 ? b + BYTES / 2 : i == 2 ? virtual : b;

		CU(cu.cuStreamBeginCapture_v2(
		    stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		CU(cu.cuMemcpyDtoDAsync_v2(to, a, BYTES / 2, stream));
		CU(cu.cuStreamEndCapture(stream, &graph));
		if (i == 0)
			exec = instantiate();
	}
	EXPECT_EQ(update(exec, graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
	    CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
	launch(exec);
	EXPECT_EQ(cuda_word(b), 1);
	EXPECT_EQ(cuda_word(b + BYTES / 2), 0);
}
