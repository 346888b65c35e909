/*
 * Contract tests: the same calls return the same codes and the same memory on
 * simcuda and on a GPU's driver. This file has initialisation, entry points,
 * contexts, streams and events. contract_memory_test.c, contract_vmm_test.c,
 * contract_capture_test.c, contract_pool_test.c and contract_process_test.c
 * have the rest.
 *
 * These tests use none of simcuda's controls: they hold on any device.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda.h"

enum { WORDS = 1024 };

/* A handle that was never returned, but could be. */
static void *
bogus(void)
{
	return NULL;
}

/* ---- Initialisation ----------------------------------------------------- */

TEST(nothing_works_before_it_is_initialised)
{
	int n = 0;
	CUcontext context = NULL;
	CUdeviceptr address = 0;

	cuda_load();
	EXPECT_CU(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_CU(cu.cuDevicePrimaryCtxRetain(&context, 0),
	    CUDA_ERROR_NOT_INITIALIZED);
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_ERROR_NOT_INITIALIZED);
	CU(cu.cuInit(0));
	CU(cu.cuDeviceGetCount(&n));
	EXPECT_GT(n, 0);
	CU(cu.cuInit(0));
}

TEST(init_takes_no_flags)
{
	cuda_load();
	EXPECT_CU(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

TEST(the_version_is_known_without_initialisation)
{
	int version = 0;

	cuda_load();
	CU(cu.cuDriverGetVersion(&version));
	EXPECT_GE(version, 11040);
	EXPECT_EQ(version % 10, 0);
}

TEST(results_have_names_and_texts)
{
	const char *text = NULL;

	cuda_load();
#define EXPECT_RESULT(name, value, words)                                      \
	if (cu.cuGetErrorName(name, &text) == CUDA_SUCCESS)                    \
		EXPECT_STR_EQ(text, #name);
	DRIVER_RESULTS(EXPECT_RESULT)
#undef EXPECT_RESULT
	CU(cu.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	EXPECT_STR_EQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
	CU(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	EXPECT_STR_EQ(text, "out of memory");
	CU(cu.cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	EXPECT_STR_EQ(text, "invalid argument");
	EXPECT_CU(cu.cuGetErrorString((CUresult)54321, &text),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_NULL(text);
}

/* ---- Entry points ------------------------------------------------------- */

/* POSIX has functions and objects alike; ISO C has no cast between them. */
static void
find_call(const char *name, int version, cuuint64_t flags, void *out)
{
	CUdriverProcAddressQueryResult status;
	void *function = NULL;

	CU(cu.cuGetProcAddress_v2(name, &function, version, flags, &status));
	EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
	EXPECT_NOT_NULL(function);
	memcpy(out, &function, sizeof(function));
}

TEST(entry_points_are_found_by_name_and_version)
{
	CUresult (*alloc)(CUdeviceptr * address, size_t size);
	CUresult (*release)(CUdeviceptr address);
	CUresult (*info)(CUstream stream, CUstreamCaptureStatus * status,
	    cuuint64_t * id, CUgraph * graph, const CUgraphNode **dependencies,
	    size_t *n);
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	CUdeviceptr address = 0;

	cuda_begin();
	find_call("cuMemAlloc", 3020, 0, &alloc);
	find_call("cuMemFree", 12000, 0, &release);
	find_call("cuStreamGetCaptureInfo", 11030, 0, &info);
	CU(alloc(&address, 512));
	CU(release(address));
	CU(info(cuda_stream(), &status, NULL, NULL, NULL, NULL));
	EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST(entry_points_come_for_either_default_stream)
{
	CUresult (*legacy)(CUstream stream), (*own)(CUstream stream);

	cuda_begin();
	find_call(
	    "cuStreamQuery", 7000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &legacy);
	find_call("cuStreamQuery", 7000,
	    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &own);
	cuda_sleep(CU_STREAM_PER_THREAD, CUDA_LONG_NS);
	EXPECT_CU(own(NULL), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSynchronize());
	CU(own(NULL));
	CU(legacy(NULL));
}

TEST(the_resolver_finds_itself_by_version)
{
	driver_resolver_12000 resolve;
	driver_resolver_11030 resolve_old;
	CUdriverProcAddressQueryResult status =
	    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *function = NULL;

	cuda_load();
	find_call("cuGetProcAddress", 12000, 0, &resolve);
	find_call("cuGetProcAddress", 11030, 0, &resolve_old);
	CU(resolve("cuInit", &function, 2000, 0, &status));
	EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
	EXPECT_NOT_NULL(function);
	function = NULL;
	CU(resolve_old("cuInit", &function, 2000, 0));
	EXPECT_NOT_NULL(function);
}

TEST(unknown_entry_points_are_distinguished_from_new_ones)
{
	CUdriverProcAddressQueryResult status;
	void *function;

	cuda_load();
	function = &status;
	/* The newer form finds nothing without an error. */
	CU(cu.cuGetProcAddress_v2("cuNoSuch", &function, 12000, 0, &status));
	EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	EXPECT_NULL(function);
	function = &status;
	CU(cu.cuGetProcAddress_v2("cuMemCreate", &function, 9000, 0, &status));
	EXPECT_NULL(function);
	EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CU(cu.cuGetProcAddress_v2("", &function, 12000, 0, &status));
	EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	EXPECT_CU(
	    cu.cuGetProcAddress_v2("cuInit", &function, 99990, 0, &status),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuGetProcAddress_v2("cuInit", &function, 2000, 0, NULL));
	EXPECT_CU(cu.cuGetProcAddress("cuNoSuch", &function, 11030, 0),
	    CUDA_ERROR_NOT_FOUND);
}

/* ---- Devices ------------------------------------------------------------ */

TEST(valid_queries_of_devices_are_answered_and_others_refused)
{
	CUdevice device = -1;
	int n = 0, value = 0;
	char name[64] = "", bus_id[32] = "";
	size_t bytes = 0;

	cuda_load();
	CU(cu.cuInit(0));
	CU(cu.cuDeviceGetCount(&n));
	CU(cu.cuDeviceGet(&device, 0));
	EXPECT_EQ(device, 0);
	EXPECT_CU(cu.cuDeviceGet(&device, n), CUDA_ERROR_INVALID_DEVICE);
	EXPECT_CU(cu.cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	CU(cu.cuDeviceGetName(name, sizeof(name), 0));
	EXPECT_GT(strlen(name), 0);
	CU(cu.cuDeviceTotalMem_v2(&bytes, 0));
	EXPECT_GT(bytes, 1 << 20);
	CU(cu.cuDeviceGetAttribute(
	    &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	EXPECT_GE(value, 7);
	CU(cu.cuDeviceGetAttribute(
	    &value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
	EXPECT_EQ(value, 1);
	CU(cu.cuDeviceGetAttribute(&value,
	    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
	EXPECT_EQ(value, 1);
	EXPECT_CU(cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)-1, 0),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuDeviceGetAttribute(
		      &value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, n),
	    CUDA_ERROR_INVALID_DEVICE);
	CU(cu.cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
	device = -1;
	CU(cu.cuDeviceGetByPCIBusId(&device, bus_id));
	EXPECT_EQ(device, 0);
}

TEST(a_device_is_no_peer_of_itself)
{
	int can = 1;

	cuda_load();
	CU(cu.cuInit(0));
	CU(cu.cuDeviceCanAccessPeer(&can, 0, 0));
	EXPECT_EQ(can, 0);
}

/* ---- Contexts ----------------------------------------------------------- */

TEST(without_a_context_there_is_no_memory_and_no_stream)
{
	CUdeviceptr address = 0;
	CUstream stream = NULL;
	CUevent event = NULL;
	CUdevice device = 0;
	CUcontext context = (CUcontext)&device;
	size_t free_bytes = 0, total = 0;

	cuda_load();
	CU(cu.cuInit(0));
	CU(cu.cuCtxGetCurrent(&context));
	EXPECT_NULL(context);
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuMemGetInfo_v2(&free_bytes, &total),
	    CUDA_ERROR_INVALID_CONTEXT);
	EXPECT_CU(cu.cuCtxPopCurrent_v2(&context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(a_primary_context_is_counted)
{
	CUcontext first = NULL, second = NULL;
	unsigned flags = 0;
	int active = -1;

	cuda_load();
	CU(cu.cuInit(0));
	CU(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EXPECT_EQ(active, 0);
	CU(cu.cuDevicePrimaryCtxRetain(&first, 0));
	CU(cu.cuDevicePrimaryCtxRetain(&second, 0));
	EXPECT_EQ(first, second);
	CU(cu.cuDevicePrimaryCtxRelease_v2(0));
	CU(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EXPECT_EQ(active, 1);
	CU(cu.cuDevicePrimaryCtxRelease_v2(0));
	CU(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	EXPECT_EQ(active, 0);
	EXPECT_CU(
	    cu.cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(retaining_does_not_make_current)
{
	CUcontext context = NULL, current = NULL;

	cuda_load();
	CU(cu.cuInit(0));
	CU(cu.cuDevicePrimaryCtxRetain(&context, 0));
	CU(cu.cuCtxGetCurrent(&current));
	EXPECT_NULL(current);
}

TEST(current_contexts_are_a_stack)
{
	CUcontext primary = cuda_begin();
	CUcontext context = NULL, popped = NULL;

	CU(cu.cuCtxPushCurrent_v2(primary));
	CU(cu.cuCtxGetCurrent(&context));
	EXPECT_EQ(context, primary);
	CU(cu.cuCtxPopCurrent_v2(&popped));
	EXPECT_EQ(popped, primary);
	CU(cu.cuCtxGetCurrent(&context));
	EXPECT_EQ(context, primary);
	CU(cu.cuCtxSetCurrent(NULL));
	CU(cu.cuCtxGetCurrent(&context));
	EXPECT_NULL(context);
	CU(cu.cuCtxPushCurrent_v2(primary));
	CU(cu.cuCtxSetCurrent(primary));
	CU(cu.cuCtxPopCurrent_v2(NULL));
	CU(cu.cuCtxGetCurrent(&context));
	EXPECT_NULL(context);
}

TEST(a_created_context_becomes_current_and_ends)
{
	CUcontext primary = cuda_begin();
	CUcontext context = NULL, current = NULL;

	CU(cu.cuCtxCreate_v2(&context, 0, 0));
	EXPECT_NE(context, primary);
	CU(cu.cuCtxGetCurrent(&current));
	EXPECT_EQ(current, context);
	CU(cu.cuCtxDestroy_v2(context));
	CU(cu.cuCtxGetCurrent(&current));
	EXPECT_EQ(current, primary);
}

static void *
current_of_thread(void *out)
{
	cu.cuCtxGetCurrent(out);
	return NULL;
}

TEST(a_new_thread_has_no_context)
{
	CUcontext context = cuda_begin();
	pthread_t thread;

	EXPECT_EQ(
	    pthread_create(&thread, NULL, current_of_thread, &context), 0);
	pthread_join(thread, NULL);
	EXPECT_NULL(context);
}

TEST(a_context_has_its_device_and_an_identity)
{
	CUcontext context = cuda_begin(), other = NULL;
	unsigned long long id = 0, other_id = 0;
	CUdevice device = -1;

	CU(cu.cuCtxGetDevice(&device));
	EXPECT_EQ(device, 0);
	cuda_need(cuCtxGetId);
	CU(cu.cuCtxGetId(context, &id));
	CU(cu.cuCtxGetId(NULL, &other_id));
	EXPECT_EQ(id, other_id);
	CU(cu.cuCtxCreate_v2(&other, 0, 0));
	CU(cu.cuCtxGetId(NULL, &other_id));
	EXPECT_NE(id, other_id);
	CU(cu.cuCtxDestroy_v2(other));
}

TEST(memory_of_a_reset_context_is_gone)
{
	cuda_begin();
	CUdeviceptr address = cuda_alloc(4 << 20);
	size_t before = 0, after = 0, total = 0;
	CUcontext context = NULL;

	CU(cu.cuMemGetInfo_v2(&before, &total));
	CU(cu.cuDevicePrimaryCtxReset_v2(0));
	CU(cu.cuDevicePrimaryCtxRetain(&context, 0));
	CU(cu.cuCtxSetCurrent(context));
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_GE(after, before + (4 << 20));
}

/* ---- Streams ------------------------------------------------------------ */

TEST(streams_have_flags_priorities_and_contexts)
{
	CUcontext context = cuda_begin(), its = NULL;
	CUstream stream = NULL;
	unsigned flags = 9;
	int least = 9, greatest = 9, priority = 9;

	CU(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
	EXPECT_EQ(least, 0);
	EXPECT_LT(greatest, 0);
	CU(cu.cuStreamCreateWithPriority(
	    &stream, CU_STREAM_NON_BLOCKING, greatest));
	CU(cu.cuStreamGetFlags(stream, &flags));
	EXPECT_EQ(flags, CU_STREAM_NON_BLOCKING);
	CU(cu.cuStreamGetPriority(stream, &priority));
	EXPECT_EQ(priority, greatest);
	CU(cu.cuStreamGetCtx(stream, &its));
	EXPECT_EQ(its, context);
	CU(cu.cuStreamDestroy_v2(stream));
	/* A priority out of range becomes the nearest one. */
	CU(cu.cuStreamCreateWithPriority(&stream, 0, greatest - 100));
	CU(cu.cuStreamGetPriority(stream, &priority));
	EXPECT_EQ(priority, greatest);
	CU(cu.cuStreamCreateWithPriority(&stream, 0, 100));
	CU(cu.cuStreamGetPriority(stream, &priority));
	EXPECT_EQ(priority, 0);
	CU(cu.cuStreamGetFlags(stream, &flags));
	EXPECT_EQ(flags, CU_STREAM_DEFAULT);
	EXPECT_CU(cu.cuStreamCreate(&stream, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuStreamCreate(bogus(), 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(default_streams_have_a_context_and_an_identity)
{
	CUcontext context = cuda_begin(), its = NULL;
	unsigned long long legacy = 0, named = 0, own = 0, other = 0;

	CU(cu.cuStreamGetCtx(NULL, &its));
	EXPECT_EQ(its, context);
	CU(cu.cuStreamGetCtx(CU_STREAM_PER_THREAD, &its));
	EXPECT_EQ(its, context);
	cuda_need(cuStreamGetId);
	CU(cu.cuStreamGetId(NULL, &legacy));
	CU(cu.cuStreamGetId(CU_STREAM_LEGACY, &named));
	CU(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	CU(cu.cuStreamGetId(cuda_stream(), &other));
	EXPECT_EQ(legacy, named);
	EXPECT_NE(legacy, own);
	EXPECT_NE(legacy, other);
	EXPECT_NE(own, other);
	CU(cu.cuStreamGetId_ptsz(NULL, &other));
	EXPECT_EQ(own, other);
}

TEST(an_idle_stream_is_done)
{
	cuda_begin();
	CUstream stream = cuda_stream();

	CU(cu.cuStreamQuery(stream));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuStreamQuery(NULL));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
}

TEST(a_busy_stream_is_not_ready_until_it_is_waited_for)
{
	cuda_begin();
	CUstream stream = cuda_stream();

	cuda_sleep(stream, CUDA_LONG_NS);
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuStreamQuery(stream));
}

TEST(streams_do_not_wait_for_each_other)
{
	cuda_begin();
	CUstream busy = cuda_stream(), idle = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_sleep(busy, CUDA_LONG_NS);
	cuda_fill(idle, memory, 1, WORDS);
	CU(cu.cuStreamSynchronize(idle));
	EXPECT_CU(cu.cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSynchronize());
	CU(cu.cuStreamQuery(busy));
}

TEST(a_destroyed_stream_finishes_its_work)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_fill(stream, memory, 1, WORDS);
	CU(cu.cuCtxSynchronize());
	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(stream, memory, 2, WORDS);
	CU(cu.cuStreamDestroy_v2(stream));
	EXPECT_EQ(cuda_word(memory + 4), 2);
}

TEST(default_streams_cannot_be_destroyed)
{
	cuda_begin();
	EXPECT_CU(cu.cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_CU(
	    cu.cuStreamDestroy_v2(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
	EXPECT_CU(cu.cuStreamDestroy_v2(CU_STREAM_PER_THREAD),
	    CUDA_ERROR_INVALID_HANDLE);
}

/* ---- The default stream ------------------------------------------------- */

TEST(the_default_stream_waits_for_blocking_streams)
{
	cuda_begin();
	CUstream stream = cuda_blocking_stream();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(stream, memory, 1, WORDS);
	cuda_fill(CU_STREAM_LEGACY, memory, 2, WORDS);
	CU(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
	CU(cu.cuStreamQuery(stream));
	EXPECT_EQ(cuda_word(memory), 2);
}

TEST(blocking_streams_wait_for_the_default_stream)
{
	cuda_begin();
	CUstream stream = cuda_blocking_stream();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_sleep(CU_STREAM_LEGACY, CUDA_LONG_NS);
	cuda_fill(CU_STREAM_LEGACY, memory, 1, WORDS);
	cuda_fill(stream, memory, 2, WORDS);
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuStreamQuery(NULL));
	EXPECT_EQ(cuda_word(memory), 2);
}

TEST(non_blocking_streams_and_the_default_stream_do_not_wait)
{
	cuda_begin();
	CUstream stream = cuda_stream();

	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(CU_STREAM_LEGACY, cuda_alloc(4096), 2, WORDS);
	CU(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize(stream));
	cuda_sleep(CU_STREAM_LEGACY, CUDA_LONG_NS);
	CU(cu.cuStreamQuery(stream));
	cuda_fill(stream, cuda_alloc(4096), 2, WORDS);
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_CU(cu.cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSynchronize());
}

TEST(the_per_thread_default_stream_is_a_blocking_one)
{
	cuda_begin();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_sleep(CU_STREAM_PER_THREAD, CUDA_LONG_NS);
	cuda_fill(CU_STREAM_PER_THREAD, memory, 1, WORDS);
	cuda_fill(CU_STREAM_LEGACY, memory, 2, WORDS);
	CU(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	EXPECT_EQ(cuda_word(memory), 2);
}

static void *
sleep_on_own_stream(void *context)
{
	CU(cu.cuCtxSetCurrent(context));
	cuda_sleep(CU_STREAM_PER_THREAD, CUDA_LONG_NS);
	EXPECT_CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize_ptsz(NULL));
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	cuda_sleep(CU_STREAM_PER_THREAD, CUDA_LONG_NS);
	return NULL;
}

TEST(each_thread_has_a_separate_default_stream)
{
	CUcontext context = cuda_begin();
	pthread_t thread;

	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	EXPECT_EQ(
	    pthread_create(&thread, NULL, sleep_on_own_stream, context), 0);
	pthread_join(thread, NULL);
	CU(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
	CU(cu.cuCtxSynchronize());
}

/* ---- Events ------------------------------------------------------------- */

TEST(an_event_never_recorded_is_done)
{
	cuda_begin();
	CUevent event = cuda_event();

	CU(cu.cuEventQuery(event));
	CU(cu.cuEventSynchronize(event));
	CU(cu.cuStreamWaitEvent(cuda_stream(), event, 0));
}

TEST(an_event_is_done_when_the_work_before_it_is)
{
	cuda_begin();
	CUevent early = cuda_event(), late = cuda_event();
	CUstream stream = cuda_stream();

	CU(cu.cuEventRecord(early, stream));
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuEventRecord(late, stream));
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuEventSynchronize(early));
	EXPECT_CU(cu.cuEventQuery(late), CUDA_ERROR_NOT_READY);
	CU(cu.cuEventSynchronize(late));
	CU(cu.cuEventQuery(early));
	CU(cu.cuEventQuery(late));
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize(stream));
}

TEST(an_event_is_asked_for_with_no_context_current)
{
	CUcontext context = cuda_begin();
	CUevent event = cuda_event();
	CUstream stream = cuda_stream();

	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuEventRecord(event, stream));
	CU(cu.cuCtxSetCurrent(NULL));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSetCurrent(context));
	CU(cu.cuEventSynchronize(event));
	CU(cu.cuCtxSetCurrent(NULL));
	CU(cu.cuEventQuery(event));
	CU(cu.cuCtxSetCurrent(context));
}

TEST(recording_again_replaces_the_record)
{
	cuda_begin();
	CUevent event = cuda_event();
	CUstream busy = cuda_stream(), idle = cuda_stream();

	cuda_sleep(busy, CUDA_LONG_NS);
	CU(cu.cuEventRecord(event, busy));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CU(cu.cuEventRecord(event, idle));
	CU(cu.cuEventSynchronize(event));
	EXPECT_CU(cu.cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSynchronize());
}

TEST(a_wait_is_for_the_record_at_the_time_of_the_call)
{
	cuda_begin();
	CUevent event = cuda_event();
	CUstream busy = cuda_stream(), waiting = cuda_stream();

	CU(cu.cuEventRecord(event, busy));
	CU(cu.cuStreamWaitEvent(waiting, event, 0));
	cuda_sleep(busy, CUDA_LONG_NS);
	CU(cu.cuEventRecord(event, busy));
	CU(cu.cuStreamSynchronize(waiting));
	EXPECT_CU(cu.cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSynchronize());
}

TEST(a_stream_waits_for_an_event_on_the_device)
{
	cuda_begin();
	CUevent event = cuda_event();
	CUstream first = cuda_stream(), second = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_sleep(first, CUDA_LONG_NS);
	cuda_fill(first, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, first));
	CU(cu.cuStreamWaitEvent(second, event, 0));
	cuda_fill(second, memory, 2, WORDS);
	EXPECT_CU(cu.cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(cuda_word(memory), 2);
}

TEST(destroying_an_event_keeps_the_waits_for_it)
{
	cuda_begin();
	CUevent event = cuda_event();
	CUstream first = cuda_stream(), second = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_sleep(first, CUDA_LONG_NS);
	cuda_fill(first, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, first));
	CU(cu.cuStreamWaitEvent(second, event, 0));
	CU(cu.cuEventDestroy_v2(event));
	cuda_fill(second, memory, 2, WORDS);
	EXPECT_EQ(cuda_word(memory), 2);
}

TEST(events_measure_time)
{
	cuda_begin();
	CUevent start = NULL, end = NULL;
	CUstream stream = cuda_stream();
	float milliseconds = -1;

	CU(cu.cuEventCreate(&start, 0));
	CU(cu.cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
	EXPECT_CU(cu.cuEventElapsedTime(&milliseconds, start, end),
	    CUDA_ERROR_INVALID_HANDLE);
	CU(cu.cuEventRecord(start, stream));
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuEventRecord(end, stream));
	EXPECT_CU(cu.cuEventElapsedTime(&milliseconds, start, end),
	    CUDA_ERROR_NOT_READY);
	CU(cu.cuEventSynchronize(end));
	CU(cu.cuEventElapsedTime(&milliseconds, start, end));
	EXPECT(milliseconds >= CUDA_LONG_NS / 1e6F * 0.99F);
	EXPECT(milliseconds < CUDA_LONG_NS / 1e6F * 10);
	EXPECT_CU(cu.cuEventElapsedTime(&milliseconds, start, cuda_event()),
	    CUDA_ERROR_INVALID_HANDLE);
}

TEST(event_flags_are_checked)
{
	cuda_begin();
	CUevent event = NULL;

	EXPECT_CU(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuEventCreate(&event, 64), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuEventCreate(bogus(), 0), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuEventCreate(
	    &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
}

TEST(an_event_of_the_context_covers_all_its_streams)
{
	cuda_begin();
	cuda_need(cuCtxRecordEvent);
	CUcontext context = NULL;
	CUevent event = cuda_event();
	CUstream first = cuda_stream(), second = cuda_stream();

	CU(cu.cuCtxGetCurrent(&context));
	cuda_sleep(first, CUDA_LONG_NS);
	cuda_sleep(second, 2 * CUDA_LONG_NS);
	CU(cu.cuCtxRecordEvent(context, event));
	CU(cu.cuStreamSynchronize(first));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CU(cu.cuEventSynchronize(event));
	CU(cu.cuStreamQuery(first));
	CU(cu.cuStreamQuery(second));
	/* Later work is not part of it. */
	CU(cu.cuCtxRecordEvent(context, event));
	cuda_sleep(first, CUDA_LONG_NS);
	CU(cu.cuEventSynchronize(event));
	EXPECT_CU(cu.cuStreamQuery(first), CUDA_ERROR_NOT_READY);
	CU(cu.cuCtxSynchronize());
}

/* ---- Host functions ----------------------------------------------------- */

struct host_work {
	int runs;
	CUresult code;
};

static void
host_work(void *data)
{
	struct host_work *work = data;
	CUdeviceptr address = 0;

	work->runs++;
	work->code = cu.cuMemAlloc_v2(&address, 512);
}

TEST(a_host_function_runs_in_its_streams_order)
{
	cuda_begin();
	struct host_work work = { 0, CUDA_SUCCESS };
	CUstream stream = cuda_stream();

	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuLaunchHostFunc(stream, host_work, &work));
	EXPECT_EQ(work.runs, 0);
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(work.runs, 1);
	/* It must not use the device. */
	EXPECT_EQ(work.code, CUDA_ERROR_NOT_PERMITTED);
}

/* ---- Values in memory --------------------------------------------------- */

TEST(a_stream_waits_for_a_value_that_another_writes)
{
	cuda_begin();
	CUstream first = cuda_stream(), second = cuda_stream();
	CUdeviceptr memory = cuda_alloc(8192), flag = memory + 4096;

	CU(cu.cuMemsetD32_v2(flag, 0, 1));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuStreamWaitValue32_v2(
	    second, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
	cuda_fill(second, memory, 2, WORDS);
	EXPECT_CU(cu.cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	cuda_fill(first, memory, 1, WORDS);
	CU(cu.cuStreamWriteValue32_v2(first, flag, 5, 0));
	CU(cu.cuStreamSynchronize(second));
	EXPECT_EQ(cuda_word(memory), 2);
	EXPECT_EQ(cuda_word(flag), 5);
}

/* ---- Kernels ------------------------------------------------------------ */

TEST(each_kernel_does_the_operation_of_its_name)
{
	cuda_begin();
	enum { N = 1000 };
	CUstream stream = cuda_stream();
	CUdeviceptr x = cuda_alloc(N * 4), y = cuda_alloc(N * 4);
	CUdeviceptr z = cuda_alloc(N * 4), count = cuda_alloc(4);
	uint64_t n = N;
	uint32_t value = 12;
	float factor = 0.5F;
	static float floats[N];
	void *add[] = { &z, &x, &y, &n };
	void *check[] = { &z, &value, &n, &count };
	void *scale[] = { &y, &x, &factor, &n };

	cuda_fill(stream, x, 5, N);
	cuda_fill(stream, y, 7, N);
	CU(cu.cuMemsetD32Async(count, 0, 1, stream));
	CU(cu.cuLaunchKernel(cuda_kernel("weir_add_u32"), 3, 1, 1, 64, 1, 1, 0,
	    stream, add, NULL));
	CU(cu.cuLaunchKernel(cuda_kernel("weir_check_u32"), 3, 1, 1, 64, 1, 1,
	    0, stream, check, NULL));
	EXPECT_EQ(cuda_word(count), 0);
	value = 13;
	CU(cu.cuLaunchKernel(cuda_kernel("weir_check_u32"), 3, 1, 1, 64, 1, 1,
	    0, stream, check, NULL));
	EXPECT_EQ(cuda_word(count), N);
	cuda_copy(stream, x, z, N);
	EXPECT_EQ(cuda_word(x + (N - 1) * 4), 12);
	for (int i = 0; i < N; i++)
		floats[i] = (float)i;
	CU(cu.cuMemcpyHtoD_v2(x, floats, sizeof(floats)));
	CU(cu.cuLaunchKernel(cuda_kernel("weir_scale_f32"), 3, 1, 1, 64, 1, 1,
	    0, stream, scale, NULL));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemcpyDtoH_v2(floats, y, sizeof(floats)));
	EXPECT(floats[N - 1] == (N - 1) * 0.5F);
}

TEST(launches_and_modules_are_checked)
{
	cuda_begin();
	CUmodule module = NULL;
	CUfunction function = cuda_kernel("weir_sleep_ns");
	uint64_t ns = 1;
	void *params[] = { &ns };

	EXPECT_CU(cu.cuLaunchKernel(
		      function, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuLaunchKernel(
		      function, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuModuleLoadData(&module, "this is no kernel"),
	    CUDA_ERROR_INVALID_IMAGE);
	CU(cu.cuModuleLoadData(&module,
	    ".version 6.3\n.target sm_70\n.address_size 64\n"
	    ".visible .entry weir_fill_u32(.param .u64 a, .param .u32 b, "
	    ".param .u64 c)\n{\n\tret;\n}\n"));
	EXPECT_CU(cu.cuModuleGetFunction(&function, module, "weir_add_u32"),
	    CUDA_ERROR_NOT_FOUND);
	CU(cu.cuModuleGetFunction(&function, module, "weir_fill_u32"));
	CU(cu.cuModuleUnload(module));
}

TEST(parameters_may_come_packed)
{
	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr memory = cuda_alloc(4096);
	struct {
		CUdeviceptr to;
		uint32_t value;
		uint64_t n;
	} packed = { memory, 77, WORDS };
	size_t size = sizeof(packed);
	void *extra[] = { (void *)1, &packed, (void *)2, &size, NULL };

	CU(cu.cuLaunchKernel(cuda_kernel("weir_fill_u32"), 1, 1, 1, 32, 1, 1, 0,
	    stream, NULL, extra));
	EXPECT_EQ(cuda_word(memory + 4), 77);
}
