/*
 * Contract tests, the same on simcuda and on a GPU's driver: capturing streams,
 * and graphs.
 */
#include <pthread.h>

#include "tests/support/cuda.h"

enum { WORDS = 1024, GRANULE = 2 << 20 };

static CUstream a, b;
static CUdeviceptr memory;

static void
begin(void)
{
	cuda_begin();
	a = cuda_stream();
	b = cuda_stream();
	memory = cuda_alloc(WORDS * 4 * 4);
}

static void
capture(CUstream stream, CUstreamCaptureMode mode)
{
	CU(cu.cuStreamBeginCapture_v2(stream, mode));
}

static CUgraph
end(CUstream stream)
{
	CUgraph graph = NULL;

	CU(cu.cuStreamEndCapture(stream, &graph));
	EXPECT_NOT_NULL(graph);
	return graph;
}

static void
expect_end(CUstream stream, CUresult code)
{
	CUgraph graph = (CUgraph)&stream;

	EXPECT_CU(cu.cuStreamEndCapture(stream, &graph), code);
	EXPECT_NULL(graph);
	CU(cu.cuStreamQuery(stream));
}

static CUstreamCaptureStatus
status_of(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;

	CU(cu.cuStreamIsCapturing(stream, &status));
	return status;
}

static size_t
count(CUgraph graph)
{
	size_t n = 0;

	CU(cu.cuGraphGetNodes(graph, NULL, &n));
	return n;
}

static CUgraphExec
instantiate(CUgraph graph)
{
	CUgraphExec exec = NULL;

	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* ---- Capturing ---------------------------------------------------------- */

TEST(captured_work_is_not_done)
{
	begin();
	CU(cu.cuMemsetD32_v2(memory, 1, WORDS));
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_NONE);
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	cuda_fill(a, memory, 2, WORDS);
	EXPECT_EQ(count(end(a)), 1);
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_NONE);
	EXPECT_EQ(cuda_word(memory), 1);
}

TEST(a_graph_does_it_at_each_launch)
{
	begin();
	uint64_t n = WORDS;
	CUdeviceptr one = memory + WORDS * 4;
	void *params[] = { &memory, &memory, &one, &n };

	CU(cu.cuMemsetD32_v2(one, 1, WORDS));
	CU(cu.cuMemsetD32_v2(memory, 0, WORDS));
	CU(cu.cuCtxSynchronize());
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuLaunchKernel(cuda_kernel("weir_add_u32"), 4, 1, 1, 128, 1, 1, 0,
	    a, params, NULL));
	CUgraph graph = end(a);
	CUgraphExec exec = instantiate(graph);

	CU(cu.cuGraphDestroy(graph));
	for (int i = 0; i < 5; i++)
		CU(cu.cuGraphLaunch(exec, i % 2 == 0 ? a : b));
	EXPECT_EQ(cuda_word(memory), 5);
	CU(cu.cuGraphExecDestroy(exec));
}

TEST(nodes_are_of_captured_work)
{
	begin();
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	size_t n = 8;

	capture(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	cuda_fill(a, memory, 2, WORDS);
	CU(cu.cuMemsetD8Async(memory, 1, 4, a));
	CU(cu.cuMemcpyDtoDAsync_v2(memory + 64, memory, 4, a));
	CUgraph graph = end(a);

	CU(cu.cuGraphGetNodes(graph, nodes, &n));
	EXPECT_EQ(n, 3);
	int kinds[16] = { 0 };
	for (size_t i = 0; i < n; i++) {
		CU(cu.cuGraphNodeGetType(nodes[i], &type));
		kinds[type]++;
	}
	EXPECT_EQ(kinds[CU_GRAPH_NODE_TYPE_KERNEL], 1);
	EXPECT_EQ(kinds[CU_GRAPH_NODE_TYPE_MEMSET], 1);
	EXPECT_EQ(kinds[CU_GRAPH_NODE_TYPE_MEMCPY], 1);
	CU(cu.cuGraphGetEdges(graph, NULL, NULL, &n));
	EXPECT_EQ(n, 2);
}

static void
count_run(void *runs)
{
	++*(int *)runs;
}

TEST(host_functions_are_nodes)
{
	begin();
	int runs = 0;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuLaunchHostFunc(a, count_run, &runs));
	CUgraphExec exec = instantiate(end(a));
	EXPECT_EQ(runs, 0);
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuStreamSynchronize(a));
	EXPECT_EQ(runs, 2);
}

TEST(an_empty_capture_is_an_empty_graph)
{
	begin();
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUgraph graph = end(a);
	EXPECT_EQ(count(graph), 0);
	CU(cu.cuGraphLaunch(instantiate(graph), a));
	CU(cu.cuStreamSynchronize(a));
}

TEST(the_default_stream_is_not_captured)
{
	begin();
	EXPECT_CU(
	    cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT_CU(cu.cuStreamBeginCapture_v2(
		      CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	capture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUgraph graph = NULL;
	CU(cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
}

TEST(begin_and_end_belong_together)
{
	begin();
	CUgraph graph = NULL;

	EXPECT_CU(cu.cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_CU(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL),
	    CUDA_ERROR_ILLEGAL_STATE);
	end(a);
}

TEST(a_capture_has_an_identity_and_dependencies)
{
	begin();
	CUstreamCaptureStatus status;
	cuuint64_t id = 0, other = 0;
	CUgraph graph = NULL;
	const CUgraphNode *deps = NULL;
	size_t n = 99;

	CU(cu.cuStreamGetCaptureInfo_v2(a, &status, &id, NULL, NULL, NULL));
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuStreamGetCaptureInfo_v2(a, &status, &id, &graph, &deps, &n));
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT_EQ(n, 0);
	EXPECT_NOT_NULL(graph);
	cuda_fill(a, memory, 2, WORDS);
	CU(cu.cuStreamGetCaptureInfo_v2(a, &status, &other, NULL, &deps, &n));
	EXPECT_EQ(id, other);
	EXPECT_EQ(n, 1);
	EXPECT_NOT_NULL(deps[0]);
	end(a);
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuStreamGetCaptureInfo_v2(a, &status, &other, NULL, NULL, NULL));
	EXPECT_NE(id, other);
	end(a);
}

/* ---- Forks and joins ---------------------------------------------------- */

TEST(a_stream_joins_by_waiting_and_is_joined)
{
	begin();
	size_t edges = 0;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, b);
	EXPECT_EQ(status_of(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	cuda_fill(b, memory + WORDS * 4, 2, WORDS);
	cuda_fill(a, memory, 3, WORDS);
	cuda_order(b, a);
	cuda_copy(a, memory + 2 * WORDS * 4, memory + WORDS * 4, WORDS);
	CUgraph graph = end(a);
	EXPECT_EQ(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
	EXPECT_EQ(count(graph), 4);
	CU(cu.cuGraphGetEdges(graph, NULL, NULL, &edges));
	EXPECT_EQ(edges, 4);
	CU(cu.cuGraphLaunch(instantiate(graph), a));
	EXPECT_EQ(cuda_word(memory), 3);
	EXPECT_EQ(cuda_word(memory + 2 * WORDS * 4), 2);
}

TEST(a_fork_that_is_not_joined_fails_at_the_end)
{
	begin();
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, b);
	cuda_fill(b, memory + WORDS * 4, 2, WORDS);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	EXPECT_EQ(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST(only_the_first_stream_ends_a_capture)
{
	begin();
	CUgraph graph = NULL;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, b);
	EXPECT_CU(cu.cuStreamEndCapture(b, &graph),
	    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(asking_a_captured_stream_for_its_flags_breaks_the_capture)
{
	unsigned flags = 0;

	begin();
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_EQ(cu.cuStreamGetFlags(a, &flags),
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(two_captures_do_not_merge)
{
	begin();
	CUevent event = cuda_event();

	capture(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	capture(b, CU_STREAM_CAPTURE_MODE_RELAXED);
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	EXPECT_CU(
	    cu.cuStreamWaitEvent(b, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	expect_end(b, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(a_capture_does_not_wait_for_work_outside)
{
	begin();
	CUevent event = cuda_event();

	cuda_fill(b, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, b));
	CU(cu.cuCtxSynchronize());
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_CU(cu.cuStreamWaitEvent(a, event, 0),
	    CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(dependencies_may_be_set)
{
	begin();
	CUstreamCaptureStatus status;
	const CUgraphNode *deps = NULL;
	CUgraphNode first;
	size_t n = 0;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_fill(a, memory, 1, 1);
	CU(cu.cuStreamGetCaptureInfo_v2(a, &status, NULL, NULL, &deps, &n));
	EXPECT_EQ(n, 1);
	first = deps[0];
	CU(cu.cuStreamUpdateCaptureDependencies(
	    a, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	cuda_fill(a, memory + 4096, 1, 1);
	CU(cu.cuStreamUpdateCaptureDependencies(
	    a, &first, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	CUgraph graph = end(a);
	EXPECT_EQ(count(graph), 2);
	CU(cu.cuGraphGetEdges(graph, NULL, NULL, &n));
	EXPECT_EQ(n, 0);
	EXPECT_CU(cu.cuStreamUpdateCaptureDependencies(
		      a, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES),
	    CUDA_ERROR_ILLEGAL_STATE);
}

/* ---- What breaks a capture ---------------------------------------------- */

/* Each call is made while this thread captures stream a in global mode. */
static CUresult
call_alloc(void)
{
	CUdeviceptr address;

	return cu.cuMemAlloc_v2(&address, 512);
}

static CUresult
call_free(void)
{
	return cu.cuMemFree_v2(memory);
}

static CUresult
call_host_alloc(void)
{
	void *host;

	return cu.cuMemHostAlloc(&host, 512, 0);
}

static CUresult
call_sync_context(void)
{
	return cu.cuCtxSynchronize();
}

static CUresult
call_sync_captured(void)
{
	return cu.cuStreamSynchronize(a);
}

static CUresult
call_query_captured(void)
{
	return cu.cuStreamQuery(a);
}

static CUresult
call_sync_other(void)
{
	return cu.cuStreamSynchronize(b);
}

TEST(unsafe_calls_fail_and_break_a_global_capture)
{
	static CUresult (*const calls[])(void) = { call_alloc, call_free,
		call_host_alloc, call_sync_context, call_sync_captured,
		call_query_captured, call_sync_other };

	begin();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
		cuda_fill(a, memory, 1, WORDS);
		CUresult code = calls[i]();
		if (code != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
			FAIL("call %zu gave %d", i, (int)code);
		if (status_of(a) != CU_STREAM_CAPTURE_STATUS_INVALIDATED)
			FAIL("call %zu broke nothing", i);
		expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	CU(cu.cuMemFree_v2(memory));
}

/* The default stream has no part in the capture of a non-blocking one. */
TEST(copies_on_the_default_stream_leave_a_global_capture_alone)
{
	begin();
	uint32_t word = 5;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuMemcpyHtoD_v2(memory, &word, sizeof(word)));
	CU(cu.cuMemcpyDtoH_v2(&word, memory, sizeof(word)));
	CU(cu.cuMemsetD32_v2(memory, 1, WORDS));
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CU(cu.cuGraphDestroy(end(a)));
}

TEST(an_event_query_breaks_a_global_capture)
{
	begin();
	CUevent event = cuda_event();

	CU(cu.cuEventRecord(event, b));
	CU(cu.cuEventSynchronize(event));
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_CU(
	    cu.cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(a_broken_capture_takes_nothing_more)
{
	begin();
	CUdeviceptr address;
	uint64_t ns = 1;
	void *params[] = { &ns };

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512),
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT_CU(cu.cuLaunchKernel(cuda_kernel("weir_sleep_ns"), 1, 1, 1, 1, 1,
		      1, 0, a, params, NULL),
	    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(a_relaxed_capture_forbids_nothing_else)
{
	begin();
	CUdeviceptr address = 0;

	capture(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	CU(cu.cuMemAlloc_v2(&address, 4 << 20));
	CU(cu.cuStreamSynchronize(b));
	CU(cu.cuMemFree_v2(cuda_alloc(512)));
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end(a);
}

TEST(a_thread_in_relaxed_mode_may_do_unsafe_things)
{
	begin();
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUevent event = cuda_event();

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_alloc(512);
	CU(cu.cuEventQuery(event));
	CU(cu.cuStreamSynchronize(b));
	CU(cu.cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end(a);
}

struct elsewhere {
	CUcontext context;
	CUstreamCaptureMode mode; /* of the thread */
	CUresult code;
};

static void *
alloc_elsewhere(void *data)
{
	struct elsewhere *thread = data;
	CUdeviceptr address;

	CU(cu.cuCtxSetCurrent(thread->context));
	CU(cu.cuThreadExchangeStreamCaptureMode(&thread->mode));
	thread->code = cu.cuMemAlloc_v2(&address, 512);
	return NULL;
}

/* The result of another thread's allocation while this thread captures. */
static CUresult
code_elsewhere(CUstreamCaptureMode mode, CUstreamCaptureMode thread_mode)
{
	struct elsewhere thread = { NULL, thread_mode, CUDA_SUCCESS };
	CUgraph graph = NULL;
	pthread_t id;

	CU(cu.cuCtxGetCurrent(&thread.context));
	capture(a, mode);
	EXPECT_EQ(pthread_create(&id, NULL, alloc_elsewhere, &thread), 0);
	pthread_join(id, NULL);
	EXPECT_EQ(status_of(a),
	    thread.code == CUDA_SUCCESS ? CU_STREAM_CAPTURE_STATUS_ACTIVE :
					  CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	EXPECT_CU(cu.cuStreamEndCapture(a, &graph),
	    thread.code == CUDA_SUCCESS ?
		CUDA_SUCCESS :
		CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	return thread.code;
}

TEST(other_threads_are_bound_by_global_captures_only)
{
	const CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
	const CUstreamCaptureMode local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	const CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

	begin();
	EXPECT_EQ(code_elsewhere(global, global),
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT_EQ(code_elsewhere(global, local), CUDA_SUCCESS);
	EXPECT_EQ(code_elsewhere(global, relaxed), CUDA_SUCCESS);
	EXPECT_EQ(code_elsewhere(local, global), CUDA_SUCCESS);
	EXPECT_EQ(code_elsewhere(relaxed, global), CUDA_SUCCESS);
}

static void *
end_elsewhere(void *data)
{
	struct elsewhere *thread = data;
	CUgraph graph = NULL;

	CU(cu.cuCtxSetCurrent(thread->context));
	thread->code = cu.cuStreamEndCapture(a, &graph);
	return NULL;
}

TEST(a_capture_is_ended_by_its_thread)
{
	begin();
	struct elsewhere thread = { .code = CUDA_SUCCESS };
	pthread_t id;

	CU(cu.cuCtxGetCurrent(&thread.context));
	capture(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	EXPECT_EQ(pthread_create(&id, NULL, end_elsewhere, &thread), 0);
	pthread_join(id, NULL);
	/* The capture has ended all the same. */
	EXPECT_EQ(thread.code, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_NONE);
	capture(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT_EQ(pthread_create(&id, NULL, end_elsewhere, &thread), 0);
	pthread_join(id, NULL);
	EXPECT_EQ(thread.code, CUDA_SUCCESS);
}

TEST(virtual_memory_is_managed_during_a_global_capture)
{
	begin();
	CUdeviceptr address;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	address = cuda_map(handle, GRANULE);
	cuda_fill(a, address, 1, WORDS);
	CU(cu.cuMemRelease(handle));
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CU(cu.cuGraphLaunch(instantiate(end(a)), a));
	EXPECT_EQ(cuda_word(address), 1);
}

TEST(harmless_calls_leave_a_capture_alone)
{
	begin();
	CUevent event = NULL;
	CUstream stream = NULL;
	size_t available, total;
	CUmemorytype type;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cu.cuEventRecord(event, stream));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	CU(cu.cuEventDestroy_v2(event));
	CU(cu.cuStreamDestroy_v2(stream));
	CU(cu.cuMemGetInfo_v2(&available, &total));
	CU(cu.cuPointerGetAttribute(
	    &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	cuda_fill(b, memory, 1, WORDS);
	EXPECT_EQ(status_of(a), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	end(a);
}

/* ---- The default stream ------------------------------------------------- */

TEST(the_default_stream_breaks_captures_of_blocking_streams)
{
	begin();
	CUstream blocking = cuda_blocking_stream();
	CUstreamCaptureStatus status;
	uint64_t ns = 1;
	void *params[] = { &ns };

	capture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT_CU(cu.cuStreamIsCapturing(NULL, &status),
	    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	EXPECT_EQ(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT_CU(cu.cuLaunchKernel(cuda_kernel("weir_sleep_ns"), 1, 1, 1, 1, 1,
		      1, 0, NULL, params, NULL),
	    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	expect_end(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST(the_default_stream_leaves_captures_of_non_blocking_streams)
{
	begin();
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_EQ(status_of(NULL), CU_STREAM_CAPTURE_STATUS_NONE);
	cuda_fill(NULL, memory, 1, WORDS);
	end(a);
	EXPECT_EQ(cuda_word(memory), 1);
}

/* ---- Events ------------------------------------------------------------- */

TEST(an_event_recorded_in_a_capture_is_not_asked)
{
	begin();
	CUevent event = cuda_event();

	capture(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	CU(cu.cuEventRecord(event, a));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	(void)cu.cuStreamEndCapture(a, &(CUgraph){ NULL });
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuEventSynchronize(event), CUDA_ERROR_INVALID_VALUE);
	/* Until it is recorded outside. */
	CU(cu.cuEventRecord(event, b));
	CU(cu.cuEventSynchronize(event));
}

TEST(an_external_event_is_recorded_by_the_graph)
{
	begin();
	CUevent event = cuda_event();

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_sleep(a, CUDA_LONG_NS);
	CU(cu.cuEventRecordWithFlags(event, a, CU_EVENT_RECORD_EXTERNAL));
	CUgraph graph = end(a);
	EXPECT_EQ(count(graph), 2);
	CUgraphExec exec = instantiate(graph);

	CU(cu.cuEventQuery(event));
	CU(cu.cuGraphLaunch(exec, a));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CU(cu.cuEventSynchronize(event));
	CU(cu.cuStreamSynchronize(a));
}

TEST(a_context_is_not_recorded_while_it_captures)
{
	begin();
	cuda_need(cuCtxRecordEvent);
	CUevent event = cuda_event();
	CUcontext context = NULL;

	CU(cu.cuCtxGetCurrent(&context));
	capture(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT_CU(cu.cuCtxRecordEvent(context, event),
	    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_end(a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* ---- Graphs ------------------------------------------------------------- */

TEST(a_graph_outlives_its_handles)
{
	begin();
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_sleep(a, CUDA_LONG_NS);
	cuda_fill(a, memory, 9, WORDS);
	CUgraph graph = end(a);
	CUgraphExec exec = instantiate(graph);

	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuGraphDestroy(graph));
	CU(cu.cuGraphExecDestroy(exec));
	EXPECT_EQ(cuda_word(memory), 9);
}

TEST(a_graph_does_not_overtake_itself)
{
	begin();
	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cuda_sleep(a, CUDA_LONG_NS);
	CUgraphExec exec = instantiate(end(a));

	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuGraphLaunch(exec, b));
	CU(cu.cuStreamSynchronize(b));
	CU(cu.cuStreamQuery(a));
}

TEST(memory_allocated_in_a_capture_is_the_graphs)
{
	begin();
	CUdeviceptr address = 0;
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	size_t n = 8;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuMemAllocAsync(&address, 4096, a));
	EXPECT_NE(address, 0);
	cuda_fill(a, address, 8, WORDS);
	cuda_copy(a, memory, address, WORDS);
	CU(cu.cuMemFreeAsync(address, a));
	CUgraph graph = end(a);
	CU(cu.cuGraphGetNodes(graph, nodes, &n));
	EXPECT_EQ(n, 4);
	CU(cu.cuGraphNodeGetType(nodes[0], &type));
	EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	CU(cu.cuGraphNodeGetType(nodes[3], &type));
	EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
	CUgraphExec exec = instantiate(graph);
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuGraphLaunch(exec, a));
	EXPECT_EQ(cuda_word(memory), 8);
}

TEST(memory_a_graph_leaves_is_freed_before_the_next_launch)
{
	begin();
	CUdeviceptr address = 0;

	capture(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cu.cuMemAllocAsync(&address, 4096, a));
	cuda_fill(a, address, 8, WORDS);
	CUgraphExec exec = instantiate(end(a));

	CU(cu.cuGraphLaunch(exec, a));
	EXPECT_EQ(cuda_word(address), 8);
	EXPECT_CU(cu.cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemFreeAsync(address, a));
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuMemFreeAsync(address, a));
	CU(cu.cuStreamSynchronize(a));
}
