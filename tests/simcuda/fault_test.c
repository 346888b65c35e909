/*
 * simcuda fails the calls that a test selects, counts calls, and checks each
 * handle.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda.h"

enum { GRANULE = 2 << 20 };

static void
begin(void)
{
	if (sim() == NULL)
		SKIP("a GPU fails when it likes");
	cuda_begin();
	sim()->reset();
}

/* ---- Faults ------------------------------------------------------------- */

TEST(the_nth_call_fails_and_those_after_it)
{
	begin();
	CUdeviceptr address = 0;

	EXPECT_EQ(sim()->fail("cuMemAlloc", 2, 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
	CU(cu.cuMemAlloc_v2(&address, 512));
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuMemAlloc_v2(&address, 512));
	EXPECT_EQ(sim()->faults(), 2);
	EXPECT_EQ(sim()->live("allocation"), 2);
}

TEST(a_failed_call_does_nothing)
{
	begin();
	CUmemAllocationProp prop = cuda_prop(false);
	CUmemGenericAllocationHandle handle = 77;
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);
	CUstream stream = (CUstream)&handle;
	size_t used = sim()->memory_used(0);

	sim()->fail("cuMemCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0),
	    CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_EQ(handle, 77);
	EXPECT_EQ(sim()->memory_used(0), used);
	sim()->fail("cuStreamCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_EQ(stream, (CUstream)&handle);
	sim()->fail("cuMemUnmap", 1, 1, CUDA_ERROR_UNKNOWN);
	EXPECT_CU(cu.cuMemUnmap(address, GRANULE), CUDA_ERROR_UNKNOWN);
	CU(cu.cuMemsetD32_v2(address, 1, 1));
	EXPECT_EQ(cuda_word(address), 1);
}

TEST(several_faults_wait_for_their_calls)
{
	begin();
	CUevent event = NULL;
	CUstream stream = cuda_stream();

	sim()->fail("cuEventCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	sim()->fail("cuEventCreate", 3, 1, CUDA_ERROR_UNKNOWN);
	sim()->fail("cuEventRecord", 1, 1, CUDA_ERROR_LAUNCH_FAILED);
	EXPECT_CU(cu.cuEventCreate(&event, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuEventCreate(&event, 0));
	EXPECT_CU(cu.cuEventRecord(event, stream), CUDA_ERROR_LAUNCH_FAILED);
	EXPECT_CU(cu.cuEventCreate(&event, 0), CUDA_ERROR_UNKNOWN);
	CU(cu.cuEventCreate(&event, 0));
	CU(cu.cuEventRecord(event, stream));
}

TEST(all_forms_of_a_call_fail_by_its_name)
{
	begin();
	CUdeviceptr address = 0;

	sim()->fail("cuMemAllocAsync", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(cu.cuMemAllocAsync_ptsz(&address, 512, NULL),
	    CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_EQ(sim()->calls("cuMemAllocAsync"), 1);
	EXPECT_EQ(sim()->fail("cuNoSuch", 1, 1, CUDA_ERROR_UNKNOWN), -1);
	EXPECT_EQ(sim()->fail("cuMemAlloc", 0, 1, CUDA_ERROR_UNKNOWN), -1);
}

TEST(any_call_that_takes_something_may_be_the_nth)
{
	begin();
	CUevent event = NULL;
	CUdeviceptr address = 0;
	size_t available, total;

	sim()->fail_any(2, CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuEventCreate(&event, 0));
	CU(cu.cuMemGetInfo_v2(&available, &total));
	CU(cu.cuEventQuery(event));
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuMemAlloc_v2(&address, 512));
	EXPECT_EQ(sim()->faults(), 1);
	sim()->fail_any(1, CUDA_ERROR_OUT_OF_MEMORY);
	sim()->fail_any(0, CUDA_SUCCESS);
	CU(cu.cuMemAlloc_v2(&address, 512));
}

TEST(initialisation_can_fail_and_be_tried_again)
{
	if (sim() == NULL)
		SKIP("a GPU fails when it likes");
	cuda_load();
	sim()->fail("cuInit", 1, 1, CUDA_ERROR_SYSTEM_NOT_READY);
	EXPECT_CU(cu.cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
	EXPECT_EQ(sim()->calls("cuInit"), 1);
	CU(cu.cuInit(0));
}

/* ---- Counts ------------------------------------------------------------- */

TEST(calls_are_counted_by_name_and_in_all)
{
	begin();
	EXPECT_EQ(sim()->calls(NULL), 0);
	cuda_alloc(512);
	cuda_alloc(512);
	EXPECT_CU(cu.cuMemFree_v2(4096), CUDA_ERROR_INVALID_VALUE);
	EXPECT_EQ(sim()->calls("cuMemAlloc"), 2);
	EXPECT_EQ(sim()->calls("cuMemFree"), 1);
	EXPECT_EQ(sim()->calls(NULL), 3);
	EXPECT_EQ(sim()->calls("cuNoSuch"), 0);
	sim()->reset();
	EXPECT_EQ(sim()->calls(NULL), 0);
}

TEST(objects_are_counted)
{
	begin();
	CUstream stream = cuda_stream();
	long streams = sim()->live("stream"), events = sim()->live("event");
	CUevent event = cuda_event();

	CU(cu.cuStreamDestroy_v2(stream));
	EXPECT_EQ(sim()->live("stream"), streams - 1);
	EXPECT_EQ(sim()->live("event"), events + 1);
	CU(cu.cuEventDestroy_v2(event));
	EXPECT_EQ(sim()->live("event"), events);
	EXPECT_EQ(sim()->live("nonsense"), -1);
}

TEST(reset_forgets_reports_and_planned_failures)
{
	begin();
	CUdeviceptr memory = cuda_alloc(4096), address = 0;

	cuda_fill(cuda_stream(), memory, 1, 1024);
	cuda_fill(cuda_stream(), memory, 1, 1024);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->violations(), 1);
	sim()->fail("cuMemAlloc", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
	sim()->reset();
	EXPECT_EQ(sim()->violations(), 0);
	EXPECT_NULL(sim()->violation_text(0));
	CU(cu.cuMemAlloc_v2(&address, 512));
}

/* ---- Handles ------------------------------------------------------------ */

/* Handles that were never returned. */
static void *
invented(int i)
{
	static int on_the_stack;
	static const uintptr_t numbers[] = { 3, 16, 4096, 0xdeadbeef,
		(uintptr_t)1 << 46, ((uintptr_t)1 << 46) | 0x123450,
		(uintptr_t)-1, (uintptr_t)-16 };

	if (i == 0)
		return &on_the_stack;
	if ((size_t)i > sizeof(numbers) / sizeof(numbers[0]))
		return NULL;
	return (void *)numbers[i - 1];
}

TEST(invented_handles_are_refused)
{
	begin();
	CUevent event = cuda_event();
	CUfunction function = NULL;
	CUcontext context = NULL;
	CUgraphExec exec = NULL;
	size_t n = 0;

	for (int i = 0; invented(i) != NULL; i++) {
		void *handle = invented(i);

		EXPECT_CU(cu.cuStreamQuery(handle), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(
		    cu.cuStreamDestroy_v2(handle), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(cu.cuEventQuery(handle), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(
		    cu.cuEventDestroy_v2(handle), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(
		    cu.cuEventRecord(event, handle), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(
		    cu.cuEventRecord(handle, NULL), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(cu.cuModuleUnload(handle), CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(cu.cuModuleGetFunction(&function, handle, "f"),
		    CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(cu.cuLaunchKernel(
			      handle, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		    CUDA_ERROR_INVALID_HANDLE);
		EXPECT_CU(
		    cu.cuCtxSetCurrent(handle), CUDA_ERROR_INVALID_CONTEXT);
		EXPECT_CU(
		    cu.cuCtxDestroy_v2(handle), CUDA_ERROR_INVALID_CONTEXT);
		EXPECT_CU(cu.cuGraphDestroy(handle), CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuGraphGetNodes(handle, NULL, &n),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuGraphInstantiateWithFlags(&exec, handle, 0),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(
		    cu.cuGraphLaunch(handle, NULL), CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(
		    cu.cuMemPoolTrimTo(handle, 0), CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuMemRelease((uintptr_t)handle),
		    CUDA_ERROR_INVALID_VALUE);
	}
	CU(cu.cuCtxGetCurrent(&context));
	EXPECT_NOT_NULL(context);
}

TEST(stale_handles_are_refused_though_others_came_after)
{
	begin();
	CUstream old = cuda_stream();
	CUevent event = cuda_event();

	CU(cu.cuStreamDestroy_v2(old));
	CU(cu.cuEventDestroy_v2(event));
	for (int i = 0; i < 5000; i++) {
		CUstream stream = cuda_stream();
		CUevent other = cuda_event();

		EXPECT_NE(stream, old);
		EXPECT_NE(other, event);
		CU(cu.cuEventDestroy_v2(other));
		CU(cu.cuStreamDestroy_v2(stream));
	}
	EXPECT_CU(cu.cuStreamQuery(old), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_CU(cu.cuStreamDestroy_v2(old), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_CU(cu.cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_destroyed_context_is_reported)
{
	begin();
	CUcontext context = NULL;
	CUdevice device;

	CU(cu.cuCtxCreate_v2(&context, 0, 0));
	CU(cu.cuCtxPushCurrent_v2(context));
	CU(cu.cuCtxDestroy_v2(context));
	EXPECT_CU(cu.cuCtxGetDevice(&device), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT_CU(cu.cuCtxSetCurrent(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CU(cu.cuDevicePrimaryCtxReset_v2(0));
	EXPECT_CU(
	    cu.cuStreamSynchronize(NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(an_event_of_a_reset_context_is_reported)
{
	begin();
	CUevent event = cuda_event();
	CUcontext context = NULL;

	CU(cu.cuDevicePrimaryCtxReset_v2(0));
	CU(cu.cuDevicePrimaryCtxRetain(&context, 0));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* ---- Threads ------------------------------------------------------------ */

enum { THREADS = 8, STEPS = 3000 };

/* All calls at once, each thread on separate objects. */
static void *
work(void *context)
{
	CUmemAllocationProp prop = cuda_prop(false);
	CUdeviceptr memory = 0, pooled = 0, mapped = 0;
	CUmemGenericAllocationHandle handle = 0;
	CUstream stream;
	CUevent event;

	CU(cu.cuCtxSetCurrent(context));
	stream = cuda_stream();
	event = cuda_event();
	memory = cuda_alloc(4096);
	for (int i = 0; i < STEPS; i++) {
		cuda_fill(stream, memory, 1, 16);
		CU(cu.cuEventRecord(event, stream));
		CU(cu.cuMemAllocAsync(&pooled, 4096, stream));
		CU(cu.cuMemFreeAsync(pooled, stream));
		(void)cu.cuEventQuery(event);
		if (i % 64 == 0)
			CU(cu.cuStreamSynchronize(stream));
		if (i % 16 != 0)
			continue;
		CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0));
		mapped = cuda_map(handle, GRANULE);
		CU(cu.cuMemRelease(handle));
		CU(cu.cuMemUnmap(mapped, GRANULE));
		CU(cu.cuMemAddressFree(mapped, GRANULE));
		cuda_fill(CU_STREAM_PER_THREAD, memory + 2048, 2, 16);
	}
	CU(cu.cuMemFree_v2(memory));
	CU(cu.cuEventDestroy_v2(event));
	CU(cu.cuStreamDestroy_v2(stream));
	return NULL;
}

TEST(threads_work_at_once)
{
	begin();
	pthread_t threads[THREADS];
	CUcontext context = NULL;

	CU(cu.cuCtxGetCurrent(&context));
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, work, context), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->violations(), 0);
	EXPECT_EQ(sim()->live("mapping"), 0);
	EXPECT_EQ(sim()->live("handle"), 0);
	EXPECT_EQ(sim()->live("stream"), 0);
}
