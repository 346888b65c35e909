/*
 * Every form of a call: for the per-thread default stream, waiting and not, of
 * older versions; and calls that few programs make.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/cuda.h"

enum { MS = 1000000 };

static CUdeviceptr memory;

static void
begin(void)
{
	if (sim() == NULL)
		SKIP("only simcuda is asked for each form");
	cuda_begin_conf("call_ns:0,devices:2");
	memory = cuda_alloc(1 << 20);
	CU(cu.cuCtxSynchronize());
}

/* The call was made, and queued work on this thread's own stream, which is
 * waited for. */
#define EXPECT_OWN(call)                                                       \
	do {                                                                   \
		CU(call);                                                      \
		EXPECT_CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD),              \
		    CUDA_ERROR_NOT_READY);                                     \
		CU(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));              \
	} while (0)

static void
nothing(void *data)
{
	(void)data;
}

static void
called_back(CUstream stream, CUresult status, void *data)
{
	*(CUresult *)data = stream == NULL ? CUDA_ERROR_UNKNOWN : status;
}

/* ---- The per-thread default stream -------------------------------------- */

TEST(copies_for_the_per_thread_stream_are_on_it)
{
	begin();
	void *host = NULL;
	CUdeviceptr pinned;
	const size_t size = 4096;

	CU(cu.cuMemHostAlloc(&host, size, 0));
	pinned = (CUdeviceptr)(uintptr_t)host;
	EXPECT_OWN(cu.cuMemcpyAsync_ptsz(memory, pinned, size, NULL));
	EXPECT_OWN(cu.cuMemcpyHtoDAsync_v2_ptsz(memory, host, size, NULL));
	EXPECT_OWN(cu.cuMemcpyDtoHAsync_v2_ptsz(host, memory, size, NULL));
	EXPECT_OWN(
	    cu.cuMemcpyDtoDAsync_v2_ptsz(memory, memory + size, size, NULL));
	EXPECT_OWN(cu.cuMemcpyPeerAsync_ptsz(
	    memory, NULL, memory + size, NULL, size, NULL));
	EXPECT_OWN(cu.cuMemsetD8Async_ptsz(memory, 1, size, NULL));
	EXPECT_OWN(cu.cuMemsetD16Async_ptsz(memory, 1, size / 2, NULL));
	EXPECT_OWN(cu.cuMemsetD32Async_ptsz(memory, 1, size / 4, NULL));
	EXPECT_OWN(cu.cuMemsetD8_v2_ptds(memory, 1, size));
	EXPECT_OWN(cu.cuMemsetD16_v2_ptds(memory, 1, size / 2));
	EXPECT_OWN(cu.cuMemsetD32_v2_ptds(memory, 1, size / 4));
	EXPECT_EQ(sim()->violations(), 0);
}

/* These wait; a sleep on the stream shows for which stream they wait. */
TEST(copies_that_wait_wait_for_the_per_thread_stream)
{
	begin();
	uint32_t word = 7;
	CUdeviceptr host = (CUdeviceptr)(uintptr_t)&word;

	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuMemcpyHtoD_v2_ptds(memory, &word, 4));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	word = 0;
	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuMemcpyDtoH_v2_ptds(&word, memory, 4));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	EXPECT_EQ(word, 7);
	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuMemcpyDtoD_v2_ptds(memory + 4, memory, 4));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuMemcpyPeer_ptds(memory + 8, NULL, memory + 4, NULL, 4));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	word = 0;
	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuMemcpy_ptds(host, memory + 8, 4));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	EXPECT_EQ(word, 7);
}

TEST(work_for_the_per_thread_stream_is_on_it)
{
	begin();
	uint64_t ns = MS;
	void *params[] = { &ns };
	CUresult status = CUDA_ERROR_UNKNOWN;
	CUdeviceptr pooled = 0;
	CUmemoryPool pool = NULL;

	EXPECT_OWN(cu.cuLaunchKernel_ptsz(cuda_kernel("weir_sleep_ns"), 1, 1, 1,
	    1, 1, 1, 0, NULL, params, NULL));
	EXPECT_OWN(cu.cuLaunchHostFunc_ptsz(NULL, nothing, NULL));
	CU(cu.cuStreamAddCallback_ptsz(NULL, called_back, &status, 0));
	CU(cu.cuStreamSynchronize_ptsz(NULL));
	EXPECT_EQ(status, CUDA_SUCCESS);
	EXPECT_OWN(cu.cuStreamWriteValue32_ptsz(NULL, memory, 5, 0));
	EXPECT_OWN(cu.cuStreamWriteValue32_v2_ptsz(NULL, memory, 6, 0));
	EXPECT_OWN(cu.cuStreamWriteValue64_v2_ptsz(NULL, memory, 7, 0));
	EXPECT_OWN(cu.cuStreamWaitValue32_ptsz(NULL, memory, 7, 0));
	EXPECT_OWN(cu.cuStreamWaitValue32_v2_ptsz(NULL, memory, 7, 0));
	EXPECT_OWN(cu.cuStreamWaitValue64_v2_ptsz(NULL, memory, 7, 0));
	EXPECT_OWN(cu.cuMemAllocAsync_ptsz(&pooled, 512, NULL));
	EXPECT_OWN(cu.cuMemFreeAsync_ptsz(pooled, NULL));
	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	EXPECT_OWN(cu.cuMemAllocFromPoolAsync_ptsz(&pooled, 512, pool, NULL));
}

TEST(questions_about_the_per_thread_stream_are_about_it)
{
	begin();
	unsigned long long plain = 0, own = 0;
	CUcontext context = NULL, current = NULL;
	CUdevice device = -1;
	CUevent event = cuda_event();
	unsigned flags = 9;
	int priority = 9;

	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	EXPECT_CU(cu.cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
	CU(cu.cuEventRecord_ptsz(event, NULL));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize_ptsz(NULL));
	CU(cu.cuEventRecordWithFlags_ptsz(event, NULL, 0));
	CU(cu.cuStreamWaitEvent_ptsz(NULL, event, 0));
	CU(cu.cuStreamGetId_ptsz(NULL, &own));
	CU(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &plain));
	EXPECT_EQ(own, plain);
	CU(cu.cuCtxGetCurrent(&current));
	CU(cu.cuStreamGetCtx_ptsz(NULL, &context));
	EXPECT_EQ(context, current);
	CU(cu.cuStreamGetDevice_ptsz(NULL, &device));
	EXPECT_EQ(device, 0);
	CU(cu.cuStreamGetPriority_ptsz(NULL, &priority));
	EXPECT_EQ(priority, 0);
	CU(cu.cuStreamGetFlags_ptsz(NULL, &flags));
	EXPECT_EQ(flags, 0);
}

TEST(the_per_thread_stream_is_captured_under_either_name)
{
	begin();
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id[3] = { 0 };
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	const CUgraphEdgeData *edges = NULL;
	size_t n = 9;

	CU(cu.cuStreamBeginCapture_v2_ptsz(
	    NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cu.cuStreamIsCapturing_ptsz(NULL, &status));
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CU(cu.cuStreamGetCaptureInfo_ptsz(NULL, &status, &id[0]));
	CU(cu.cuStreamGetCaptureInfo_v2_ptsz(
	    NULL, &status, &id[1], NULL, NULL, &n));
	CU(cu.cuStreamGetCaptureInfo_v3_ptsz(
	    NULL, &status, &id[2], NULL, NULL, &edges, &n));
	EXPECT_EQ(n, 0);
	EXPECT_NE(id[0], 0);
	EXPECT_EQ(id[0], id[1]);
	EXPECT_EQ(id[0], id[2]);
	CU(cu.cuStreamUpdateCaptureDependencies_ptsz(
	    NULL, NULL, 0, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	CU(cu.cuStreamUpdateCaptureDependencies_v2_ptsz(
	    NULL, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuStreamEndCapture_ptsz(NULL, &graph));
	CU(cu.cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	CU(cu.cuGraphUpload_ptsz(exec, NULL));
	EXPECT_OWN(cu.cuGraphLaunch_ptsz(exec, NULL));
}

/* ---- Values ------------------------------------------------------------- */

TEST(waits_for_values_compare_as_asked)
{
	static const struct {
		unsigned flags;
		uint32_t value;  /* in memory */
		uint32_t wanted; /* by the wait */
		CUresult after;
	} cases[] = {
		{ CU_STREAM_WAIT_VALUE_GEQ, 5, 5, CUDA_SUCCESS },
		{ CU_STREAM_WAIT_VALUE_GEQ, 4, 5, CUDA_ERROR_NOT_READY },
		/* By the difference, so that counters may wrap. */
		{ CU_STREAM_WAIT_VALUE_GEQ, 3, 0xfffffff0, CUDA_SUCCESS },
		{ CU_STREAM_WAIT_VALUE_EQ, 6, 6, CUDA_SUCCESS },
		{ CU_STREAM_WAIT_VALUE_EQ, 7, 6, CUDA_ERROR_NOT_READY },
		{ CU_STREAM_WAIT_VALUE_AND, 6, 2, CUDA_SUCCESS },
		{ CU_STREAM_WAIT_VALUE_AND, 6, 1, CUDA_ERROR_NOT_READY },
		{ CU_STREAM_WAIT_VALUE_NOR, 1, 2, CUDA_SUCCESS },
		{ CU_STREAM_WAIT_VALUE_NOR, 0xffff0000, 0xffff,
		    CUDA_ERROR_NOT_READY },
	};

	begin();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CUstream stream = cuda_stream();
		CUdeviceptr flag = memory + 64 * i;

		CU(cu.cuMemsetD32_v2(flag, cases[i].value, 1));
		CU(cu.cuCtxSynchronize());
		CU(cu.cuStreamWaitValue32(
		    stream, flag, cases[i].wanted, cases[i].flags));
		sim()->advance_ns(MS);
		CUresult code = cu.cuStreamQuery(stream);
		if (code != cases[i].after)
			FAIL("case %zu gave %d", i, (int)code);
		CU(cu.cuStreamWriteValue32(
		    cuda_stream(), flag, cases[i].wanted, 0));
		if (cases[i].flags == CU_STREAM_WAIT_VALUE_NOR)
			CU(cu.cuStreamWriteValue32(cuda_stream(), flag, 0, 0));
		sim()->advance_ns(MS);
		CU(cu.cuStreamSynchronize(stream));
	}
}

TEST(values_are_checked)
{
	begin();
	EXPECT_CU(cu.cuStreamWaitValue32_v2(NULL, memory + 2, 1, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuStreamWriteValue64_v2(NULL, memory + 4, 1, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuStreamWriteValue32_v2(NULL, 64, 1, 0),
	    CUDA_ERROR_INVALID_VALUE);
}

/* ---- Graphs ------------------------------------------------------------- */

TEST(a_graph_is_written_as_dot)
{
	begin();
	char path[] = "/tmp/simcuda-dot-XXXXXX", text[512] = "";
	CUgraph graph = NULL, empty = NULL;
	CUgraphNode from[4], to[4];
	CUgraphEdgeData edges[4];
	size_t n = 4;
	int fd = mkstemp(path);

	CU(cu.cuStreamBeginCapture_v2(
	    CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
	cuda_fill(CU_STREAM_PER_THREAD, memory, 1, 16);
	cuda_sleep(CU_STREAM_PER_THREAD, MS);
	CU(cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
	CU(cu.cuGraphDebugDotPrint(graph, path, 0));
	EXPECT_GT(read(fd, text, sizeof(text) - 1), 0);
	close(fd);
	unlink(path);
	EXPECT_STR_HAS(text, "digraph");
	EXPECT_STR_HAS(text, "weir_fill_u32");
	EXPECT_STR_HAS(text, "0 -> 1;");
	CU(cu.cuGraphGetEdges_v2(graph, from, to, edges, &n));
	EXPECT_EQ(n, 1);
	EXPECT_NE(from[0], to[0]);
	EXPECT_CU(cu.cuGraphDebugDotPrint(graph, "/no/such/folder/x", 0),
	    CUDA_ERROR_OPERATING_SYSTEM);
	CU(cu.cuGraphCreate(&empty, 0));
	n = 9;
	CU(cu.cuGraphGetNodes(empty, NULL, &n));
	EXPECT_EQ(n, 0);
	CU(cu.cuGraphDestroy(empty));
}

TEST(a_graph_waits_for_an_external_event)
{
	begin();
	CUstream stream = cuda_stream(), busy = cuda_stream();
	CUevent event = cuda_event();
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	CU(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cu.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
	cuda_fill(stream, memory, 2, 16);
	CU(cu.cuStreamEndCapture(stream, &graph));
	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	cuda_sleep(busy, 5 * MS);
	cuda_fill(busy, memory, 1, 16);
	CU(cu.cuEventRecord(event, busy));
	CU(cu.cuGraphLaunch(exec, stream));
	sim()->advance_ns(2 * MS);
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(cuda_word(memory), 2);
	EXPECT_EQ(sim()->violations(), 0);
}

/* ---- Pools -------------------------------------------------------------- */

TEST(a_pool_is_opened_to_other_devices)
{
	begin();
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
		CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0;
	CUcontext other = NULL;

	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cu.cuMemAllocAsync(&address, 4096, NULL));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemPoolGetAccess(&flags, pool, &access.location));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CU(cu.cuMemPoolSetAccess(pool, &access, 1));
	CU(cu.cuMemPoolGetAccess(&flags, pool, &access.location));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CU(cu.cuDevicePrimaryCtxRetain(&other, 1));
	CU(cu.cuCtxSetCurrent(other));
	CU(cu.cuMemsetD8Async(address, 1, 4096, NULL));
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->violations(), 0);
	access.location.id = 0;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	EXPECT_CU(
	    cu.cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST(pools_are_shared_by_descriptors_only)
{
	begin();
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data = { { 0 } };
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0;
	int fd = open("/dev/null", O_RDONLY);

	EXPECT_CU(cu.cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CU(cu.cuMemPoolCreate(&pool, &props));
	EXPECT_CU(cu.cuMemPoolExportToShareableHandle(
		      &fd, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(
	    cu.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(
	    cu.cuMemPoolExportPointer(&data, memory), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemPoolImportPointer(&address, pool, &data),
	    CUDA_ERROR_INVALID_VALUE);
	close(fd);
}

/* ---- Contexts and modules ----------------------------------------------- */

TEST(contexts_are_made_without_special_wishes_only)
{
	begin();
	CUcontext context = NULL;
	unsigned flags = 9, version = 0;
	int major = 0, minor = -1, active = -1;

	EXPECT_CU(
	    cu.cuCtxCreate_v4(&context, (CUctxCreateParams *)&flags, 0, 0),
	    CUDA_ERROR_NOT_SUPPORTED);
	CU(cu.cuCtxCreate_v4(&context, NULL, CU_CTX_SCHED_SPIN, 0));
	CU(cu.cuCtxGetFlags(&flags));
	EXPECT_EQ(flags, CU_CTX_SCHED_SPIN);
	CU(cu.cuCtxGetApiVersion(context, &version));
	EXPECT_GT(version, 0);
	CU(cu.cuCtxDestroy_v2(context));
	EXPECT_CU(cu.cuCtxCreate_v2(&context, 0, 9), CUDA_ERROR_INVALID_DEVICE);
	EXPECT_CU(
	    cu.cuCtxCreate_v2(&context, 0x1000, 0), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuDeviceComputeCapability(&major, &minor, 0));
	EXPECT_EQ(major * 10 + minor, 90);
	CU(cu.cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_YIELD));
	CU(cu.cuDevicePrimaryCtxGetState(1, &flags, &active));
	EXPECT_EQ(flags, CU_CTX_SCHED_YIELD);
	EXPECT_EQ(active, 0);
	CU(cu.cuDevicePrimaryCtxReset(1));
	EXPECT_CU(cu.cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(modules_are_loaded_with_options_too)
{
	begin();
	CUmodule module = NULL;

	CU(cu.cuModuleLoadDataEx(&module,
	    ".version 6.3\n.target sm_70\n.visible .entry weir_copy_u32()\n", 0,
	    NULL, NULL));
	CU(cu.cuModuleUnload(module));
	EXPECT_CU(cu.cuModuleLoadData(&module, ".version 6.3\n"),
	    CUDA_ERROR_INVALID_PTX);
	EXPECT_CU(cu.cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

/* ---- Addresses ---------------------------------------------------------- */

TEST(every_attribute_of_an_address_has_an_answer)
{
	begin();
	union {
		uint64_t u64;
		char bytes[64];
	} value;

	for (int i = CU_POINTER_ATTRIBUTE_CONTEXT;
	     i <= CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID; i++) {
		/* HOST_POINTER is not of device memory; 5 is not offered. */
		CUresult expected =
		    i == CU_POINTER_ATTRIBUTE_HOST_POINTER || i == 5 ?
		    CUDA_ERROR_INVALID_VALUE :
		    CUDA_SUCCESS;

		EXPECT_CU(cu.cuPointerGetAttribute(
			      &value, (CUpointer_attribute)i, memory),
		    expected);
	}
	EXPECT_CU(
	    cu.cuPointerGetAttribute(&value, (CUpointer_attribute)999, memory),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_small_allocation_lies_in_a_mapping_of_a_page)
{
	begin();
	CUdeviceptr small = cuda_alloc(100), other = cuda_alloc(100), base;
	size_t size = 0;

	CU(cu.cuPointerGetAttribute(
	    &base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, other));
	CU(cu.cuPointerGetAttribute(
	    &size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, other));
	EXPECT_EQ(size, 2 << 20);
	EXPECT_EQ(base % (2 << 20), 0);
	EXPECT_LE(base, small);
	EXPECT_LT(small, base + size);
}
