/*
 * simcuda finds use of memory that is not mapped or not allocated, and
 * unmapping and freeing of memory that pending work uses. It keeps its limits
 * and its counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cuda.h"

enum { WORDS = 1024, MIB = 1 << 20, GRANULE = 2 * MIB, MS = 1000000 };

static CUstream a, b;

static void
begin(void)
{
	if (sim() == NULL)
		SKIP("a GPU does not tell, or ends the context");
	cuda_begin_conf("memory_mb:1024,devices:2");
	a = cuda_stream();
	b = cuda_stream();
}

static void
expect_violations(unsigned n)
{
	if (sim()->violations() != n)
		FAIL("%u violations, not %u; the first: %s",
		    sim()->violations(), n,
		    sim()->violations() > 0 ? sim()->violation_text(0) : "");
}

/* All work is done, with one violation that has this text. */
static void
expect_told(const char *text)
{
	sim()->finish();
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), text);
}

/* ---- Use of what is not there ------------------------------------------- */

TEST(a_kernel_that_uses_freed_memory_is_reported)
{
	begin();
	CUdeviceptr memory = cuda_alloc(4096);

	CU(cu.cuMemFree_v2(memory));
	cuda_fill(a, memory, 1, WORDS);
	expect_told("no memory (any more)");
	/* The context is dead, which is what a GPU does too. */
	EXPECT_CU(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT_CU(cu.cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT_CU(cu.cuMemAlloc_v2(&memory, 512), CUDA_ERROR_ILLEGAL_ADDRESS);
	CU(cu.cuDevicePrimaryCtxReset_v2(0));
	cuda_begin();
	cuda_alloc(512);
}

TEST(a_kernel_that_runs_over_the_end_is_reported)
{
	begin();
	cuda_fill(a, cuda_alloc(4096), 1, WORDS + 1);
	expect_told("weir_fill_u32");
}

TEST(mapped_memory_without_access_is_reported)
{
	begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr address = 0;

	CU(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
	CU(cu.cuMemMap(address, GRANULE, 0, handle, 0));
	cuda_fill(a, address, 1, WORDS);
	expect_told("no access to");
}

TEST(a_write_to_memory_that_may_only_be_read_is_reported)
{
	begin();
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		CU_MEM_ACCESS_FLAGS_PROT_READ };

	CU(cu.cuMemSetAccess(address, GRANULE, &access, 1));
	cuda_copy(a, cuda_alloc(4096), address, WORDS);
	sim()->finish();
	expect_violations(0);
	cuda_fill(a, address, 1, WORDS);
	expect_told("only read");
}

TEST(a_hole_between_mappings_is_reported)
{
	begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr address = 0;

	CU(cu.cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
	CU(cu.cuMemMap(address, GRANULE, 0, handle, 0));
	CU(cu.cuMemMap(address + 4 * MIB, GRANULE, 0, cuda_create(GRANULE), 0));
	cuda_allow(address, GRANULE);
	cuda_allow(address + 4 * MIB, GRANULE);
	cuda_fill(a, address + GRANULE - 8, 1, 2);
	sim()->finish();
	expect_violations(0);
	cuda_fill(a, address + GRANULE - 8, 1, 3);
	expect_told("no memory");
}

TEST(neighbouring_mappings_are_one_piece_of_memory)
{
	begin();
	CUdeviceptr address = 0;

	CU(cu.cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
	for (unsigned i = 0; i < 4; i++)
		CU(cu.cuMemMap(address + i * (CUdeviceptr)GRANULE, GRANULE, 0,
		    cuda_create(GRANULE), 0));
	cuda_allow(address, 8 * MIB);
	cuda_fill(a, address, 5, 2 * MIB);
	EXPECT_EQ(cuda_word(address + 3 * GRANULE), 5);
	expect_violations(0);
}

TEST(pageable_memory_is_out_of_a_kernels_reach)
{
	static uint32_t words[WORDS];

	begin();
	cuda_fill(a, (CUdeviceptr)(uintptr_t)words, 1, WORDS);
	expect_told("no memory");
	EXPECT_EQ(words[0], 0);
}

TEST(memory_of_another_device_needs_peer_access)
{
	begin();
	CUcontext here = NULL, there = NULL;
	CUdeviceptr memory;

	CU(cu.cuCtxGetCurrent(&here));
	CU(cu.cuDevicePrimaryCtxRetain(&there, 1));
	CU(cu.cuCtxPushCurrent_v2(there));
	memory = cuda_alloc(4096);
	CU(cu.cuCtxPopCurrent_v2(NULL));
	CU(cu.cuCtxEnablePeerAccess(there, 0));
	EXPECT_CU(cu.cuCtxEnablePeerAccess(there, 0),
	    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuStreamSynchronize(a));
	expect_violations(0);
	CU(cu.cuCtxDisablePeerAccess(there));
	EXPECT_CU(cu.cuCtxDisablePeerAccess(there),
	    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	cuda_fill(a, memory, 1, WORDS);
	expect_told("peer access");
}

/* The driver then copies through the host. */
TEST(a_copy_between_devices_needs_no_peer_access)
{
	begin();
	CUcontext here = NULL, there = NULL;
	CUdeviceptr memory, source = cuda_alloc(4096);
	uint32_t words[WORDS];

	CU(cu.cuCtxGetCurrent(&here));
	CU(cu.cuDevicePrimaryCtxRetain(&there, 1));
	CU(cu.cuCtxPushCurrent_v2(there));
	memory = cuda_alloc(4096);
	CU(cu.cuCtxPopCurrent_v2(NULL));
	cuda_fill(a, source, 77, WORDS);
	CU(cu.cuMemcpyPeerAsync(memory, there, source, here, sizeof(words), a));
	CU(cu.cuStreamSynchronize(a));
	expect_violations(0);
	CU(cu.cuMemcpyPeer(source, here, memory, there, sizeof(words)));
	CU(cu.cuMemcpyDtoH_v2(words, source, sizeof(words)));
	EXPECT_EQ(words[WORDS - 1], 77);
	expect_violations(0);
	EXPECT_CU(cu.cuMemcpyPeer(source, (CUcontext)words, memory, there, 4),
	    CUDA_ERROR_INVALID_CONTEXT);
	/* Nor does a plain copy. A fill is refused, and a kernel fails. */
	EXPECT_CU(cu.cuMemsetD32Async(memory, 78, WORDS, a),
	    CUDA_ERROR_INVALID_VALUE);
	cuda_fill(a, source, 78, WORDS);
	CU(cu.cuMemcpyDtoDAsync_v2(source, memory, sizeof(words), a));
	EXPECT_EQ(cuda_word(source), 77);
	expect_violations(0);
	cuda_copy(a, source, memory, WORDS);
	expect_told("peer access");
}

TEST(mappings_are_opened_to_each_device)
{
	begin();
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
		CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemLocation other = { CU_MEM_LOCATION_TYPE_DEVICE, 1 };
	CUcontext there = NULL;
	unsigned long long flags = 9;

	CU(cu.cuMemGetAccess(&flags, &other, address));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CU(cu.cuMemSetAccess(address, GRANULE, &access, 1));
	CU(cu.cuMemGetAccess(&flags, &other, address));
	EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CU(cu.cuDevicePrimaryCtxRetain(&there, 1));
	CU(cu.cuCtxSetCurrent(there));
	CU(cu.cuMemsetD8Async(address, 1, 4096, cuda_stream()));
	CU(cu.cuCtxSynchronize());
	expect_violations(0);
}

/* ---- Sizes beyond all memory --------------------------------------------- */

TEST(copies_and_fills_that_exceed_the_address_space_are_refused)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 4096,
		SIZE_MAX / 2 + 1, SIZE_MAX / 4 + 1 };
	char host[64] = "";

	begin();
	CUdeviceptr memory = cuda_alloc(4096);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		EXPECT_CU(cu.cuMemcpyHtoD_v2(memory, host, sizes[i]),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuMemcpyDtoHAsync_v2(host, memory, sizes[i], NULL),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuMemcpyDtoD_v2(memory, memory + 1024, sizes[i]),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuMemsetD8Async(memory, 1, sizes[i], NULL),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuMemsetD16Async(memory, 1, sizes[i], NULL),
		    CUDA_ERROR_INVALID_VALUE);
		EXPECT_CU(cu.cuMemsetD32Async(memory, 1, sizes[i], NULL),
		    CUDA_ERROR_INVALID_VALUE);
	}
	EXPECT_CU(cu.cuMemHostRegister_v2(host, SIZE_MAX, 0),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_copy_between_pageable_memory_beyond_all_addresses_is_refused)
{
	char host[64] = "";
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)host;

	begin();
	EXPECT_CU(cu.cuMemcpy(address, address + 32, SIZE_MAX),
	    CUDA_ERROR_INVALID_VALUE);
}

/* ---- Unmapping and freeing what is in use ------------------------------- */

TEST(unmapping_under_pending_work_is_reported)
{
	begin();
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);

	cuda_sleep(a, MS);
	cuda_fill(a, address, 1, WORDS);
	CU(cu.cuMemUnmap(address, GRANULE));
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), "unmapping");
	sim()->finish();
	expect_violations(2);
}

TEST(unmapping_before_the_host_knows_is_reported)
{
	begin();
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);

	cuda_fill(a, address, 1, WORDS);
	sim()->finish();
	CU(cu.cuMemUnmap(address, GRANULE));
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), "not known to be done");
}

TEST(unmapping_after_waiting_is_right)
{
	begin();
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);
	CUevent event = cuda_event();

	cuda_fill(a, address, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	cuda_sleep(a, MS);
	CU(cu.cuEventSynchronize(event));
	EXPECT_CU(cu.cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	CU(cu.cuMemUnmap(address, GRANULE));
	CU(cu.cuCtxSynchronize());
	expect_violations(0);
}

TEST(freeing_memory_of_a_graph_is_reported_if_requested)
{
	CUgraph graph;
	CUgraphExec exec;

	begin();
	CUdeviceptr memory = cuda_alloc(WORDS * 4);
	CUdeviceptr other = cuda_alloc(WORDS * 4);
	for (int guarded = 0; guarded < 2; guarded++) {
		CU(cu.cuStreamBeginCapture_v2(
		    a, CU_STREAM_CAPTURE_MODE_RELAXED));
		cuda_fill(a, memory, 1, WORDS);
		CU(cu.cuStreamEndCapture(a, &graph));
		CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
		CU(cu.cuGraphDestroy(graph));
		sim()->guard_graphs(guarded);
		CU(cu.cuMemFree_v2(guarded ? memory : other));
		if (!guarded)
			CU(cu.cuGraphExecDestroy(exec));
	}
	expect_told("that a graph works with");
	sim()->reset();
	CU(cu.cuGraphExecDestroy(exec));
	CU(cu.cuMemFree_v2(cuda_alloc(WORDS * 4)));
	expect_violations(0);
}

TEST(another_mapping_of_the_memory_in_use_may_go)
{
	begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr first = cuda_map(handle, GRANULE);
	CUdeviceptr second = cuda_map(handle, GRANULE);

	cuda_sleep(a, MS);
	cuda_fill(a, first, 1, WORDS);
	CU(cu.cuMemUnmap(second, GRANULE));
	CU(cu.cuMemRelease(handle));
	CU(cu.cuCtxSynchronize());
	expect_violations(0);
}

TEST(freeing_on_a_stream_that_is_not_after_the_use_is_reported)
{
	begin();
	CUdeviceptr address = 0;
	CUevent event = cuda_event();

	CU(cu.cuMemAllocAsync(&address, 4096, a));
	cuda_fill(a, address, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	cuda_fill(b, address, 2, WORDS);
	CU(cu.cuMemFreeAsync(address, a));
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), "freeing");
}

TEST(using_stream_ordered_memory_after_its_free_is_reported)
{
	begin();
	CUdeviceptr address = 0;

	CU(cu.cuMemAllocAsync(&address, 4096, a));
	CU(cu.cuMemFreeAsync(address, a));
	cuda_fill(a, address, 1, WORDS);
	expect_told("freed before");
}

TEST(using_stream_ordered_memory_before_its_free_is_right)
{
	begin();
	CUdeviceptr address = 0;

	CU(cu.cuMemAllocAsync(&address, 4096, a));
	cuda_sleep(a, MS);
	cuda_fill(a, address, 1, WORDS);
	CU(cu.cuMemFreeAsync(address, a));
	CU(cu.cuStreamSynchronize(a));
	expect_violations(0);
}

/* Reuse by another stream has to wait, or is known to be in order. */
TEST(a_pool_reuses_memory_across_streams_in_order)
{
	begin();
	CUdeviceptr first = 0, second = 0;
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool = NULL;

	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cu.cuMemPoolSetAttribute(
	    pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	for (int i = 0; i < 20; i++) {
		CUstream stream = i % 2 == 0 ? a : b;

		CU(cu.cuMemAllocAsync(&second, 1 * MIB, stream));
		if (i > 0)
			EXPECT_EQ(second, first);
		cuda_sleep(stream, MS);
		cuda_fill(stream, second, 1, WORDS);
		CU(cu.cuMemFreeAsync(second, stream));
		first = second;
	}
	CU(cu.cuCtxSynchronize());
	expect_violations(0);
}

/* ---- The host ----------------------------------------------------------- */

TEST(unmapped_memory_is_out_of_the_hosts_reach)
{
	begin();
	CUdeviceptr address = cuda_map(cuda_create(GRANULE), GRANULE);
	volatile uint32_t *words = (volatile uint32_t *)(uintptr_t)address;
	int status = 0;

	EXPECT_EQ(words[5], 0);
	CU(cu.cuMemUnmap(address, GRANULE));
	pid_t pid = fork();
	if (pid == 0) {
		words[5] = 1;
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

TEST(memory_given_back_comes_again_cleared)
{
	begin();
	for (int i = 0; i < 3; i++) {
		CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
		CUdeviceptr address = cuda_map(handle, GRANULE);

		EXPECT_EQ(cuda_word(address), 0);
		CU(cu.cuMemsetD32_v2(address, 7, MIB / 2));
		CU(cu.cuCtxSynchronize());
		CU(cu.cuMemUnmap(address, GRANULE));
		CU(cu.cuMemRelease(handle));
	}
}

/* ---- Books -------------------------------------------------------------- */

TEST(the_limit_is_kept_exactly)
{
	begin();
	CUmemAllocationProp prop = cuda_prop(false);
	CUmemGenericAllocationHandle handles[512], one_more;
	size_t available = 0, total = 0;

	EXPECT_EQ(sim()->memory_used(0), 0);
	for (int i = 0; i < 512; i++)
		handles[i] = cuda_create(GRANULE);
	CU(cu.cuMemGetInfo_v2(&available, &total));
	EXPECT_EQ(available, 0);
	EXPECT_EQ(total, 1024u * MIB);
	EXPECT_CU(cu.cuMemCreate(&one_more, GRANULE, &prop, 0),
	    CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuMemRelease(handles[3]));
	CU(cu.cuMemCreate(&handles[3], GRANULE, &prop, 0));
	for (int i = 0; i < 512; i++)
		CU(cu.cuMemRelease(handles[i]));
	EXPECT_EQ(sim()->memory_used(0), 0);
	EXPECT_EQ(sim()->live("handle"), 0);
}

TEST(the_limit_can_be_changed)
{
	begin();
	CUdeviceptr address = 0;

	EXPECT_CU(sim()->set_memory(0, 4 * MIB), CUDA_SUCCESS);
	EXPECT_CU(
	    cu.cuMemAlloc_v2(&address, 5 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuMemAlloc_v2(&address, 4 * MIB));
	EXPECT_CU(sim()->set_memory(0, GRANULE), CUDA_SUCCESS);
	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT_CU(sim()->set_memory(9, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST(devices_have_memory_each)
{
	begin();
	CUmemAllocationProp prop = cuda_prop(false);
	CUmemGenericAllocationHandle handle = 0;

	prop.location.id = 1;
	CU(cu.cuMemCreate(&handle, 4 * MIB, &prop, 0));
	EXPECT_EQ(sim()->memory_used(0), 0);
	EXPECT_EQ(sim()->memory_used(1), 4 * MIB);
}

TEST(small_allocations_share_pages)
{
	begin();
	CUdeviceptr addresses[1000];

	for (int i = 0; i < 1000; i++)
		addresses[i] = cuda_alloc(1024);
	EXPECT_EQ(sim()->memory_used(0), GRANULE);
	for (int i = 0; i < 1000; i += 2)
		CU(cu.cuMemFree_v2(addresses[i]));
	for (int i = 0; i < 1000; i += 2)
		addresses[i] = cuda_alloc(512);
	EXPECT_EQ(sim()->memory_used(0), GRANULE);
	for (int i = 0; i < 1000; i++)
		CU(cu.cuMemFree_v2(addresses[i]));
	EXPECT_EQ(sim()->memory_used(0), 0);
	EXPECT_EQ(sim()->live("allocation"), 0);
}

TEST(a_short_device_takes_back_idle_pooled_memory)
{
	begin();
	CUdeviceptr address = 0;
	CUmemoryPool pool = NULL;
	cuuint64_t all = UINT64_MAX;

	CU(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CU(cu.cuMemPoolSetAttribute(
	    pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	CU(cu.cuMemAllocAsync(&address, 900 * MIB, a));
	CU(cu.cuMemFreeAsync(address, a));
	CU(cu.cuStreamSynchronize(a));
	EXPECT_EQ(sim()->memory_used(0), 900u * MIB);
	CU(cu.cuMemAlloc_v2(&address, 500 * MIB));
	EXPECT_EQ(sim()->memory_used(0), 500u * MIB);
}

TEST(a_context_that_ends_takes_its_memory_along)
{
	begin();
	CUdeviceptr pooled = 0;
	void *host = NULL;
	CUdeviceptr mapped = cuda_map(cuda_create(GRANULE), GRANULE);

	cuda_alloc(512);
	cuda_alloc(8 * MIB);
	CU(cu.cuMemHostAlloc(&host, 4096, 0));
	CU(cu.cuMemAllocAsync(&pooled, 4096, a));
	cuda_event();
	EXPECT_EQ(sim()->live("host"), 1);
	CU(cu.cuDevicePrimaryCtxReset_v2(0));
	EXPECT_EQ(sim()->live("host"), 0);
	EXPECT_EQ(sim()->live("stream"), 0);
	EXPECT_EQ(sim()->live("allocation"), 1);
	/* Mapped and pooled memory do not belong to the context. */
	EXPECT_EQ(sim()->live("mapping"), 1);
	EXPECT_CU(cu.cuStreamQuery(a), CUDA_ERROR_INVALID_HANDLE);
	CU(cu.cuMemUnmap(mapped, GRANULE));
}

/* The kernel lets a process have 65530 mappings; memory that is contiguous in
 * the device is one of them. */
TEST(many_mappings_in_order_are_few_for_the_kernel)
{
	begin();
	CUdeviceptr address = 0;
	FILE *maps;
	int before = 0, after = 0;

	EXPECT_CU(sim()->set_memory(0, (size_t)64 << 30), CUDA_SUCCESS);
	CU(cu.cuMemAddressReserve(&address, (size_t)1 << 35, 0, 0, 0));
	maps = fopen("/proc/self/maps", "r");
	for (int c; (c = getc(maps)) != EOF;)
		before += c == '\n';
	fclose(maps);
	for (uint64_t i = 0; i < 8192; i++) {
		CU(cu.cuMemMap(address + i * GRANULE, GRANULE, 0,
		    cuda_create(GRANULE), 0));
		cuda_allow(address + i * GRANULE, GRANULE);
	}
	maps = fopen("/proc/self/maps", "r");
	for (int c; (c = getc(maps)) != EOF;)
		after += c == '\n';
	fclose(maps);
	EXPECT_LT(after, before + 200);
}

/* ---- Lifetimes ---------------------------------------------------------- */

TEST(memory_of_a_graph_is_given_back_with_the_last_that_refers_to_it)
{
	CUdeviceptr address = 0;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	size_t before, after, total;

	begin();
	CU(cu.cuMemGetInfo_v2(&before, &total));
	CU(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cu.cuMemAllocAsync(&address, 64 << 20, a));
	CU(cu.cuStreamEndCapture(a, &graph));
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuGraphDestroy(graph));
	CU(cu.cuGraphExecDestroy(exec));
	CU(cu.cuMemFreeAsync(address, a));
	CU(cu.cuStreamSynchronize(a));
	CU(cu.cuMemGetInfo_v2(&after, &total));
	EXPECT_EQ(after, before);
	expect_violations(0);
}

TEST(a_capture_s_graph_is_not_destroyed_before_the_capture_ends)
{
	CUstreamCaptureStatus status;
	CUgraphExec exec = NULL;
	CUgraph graph = NULL, ended = NULL;

	begin();
	CU(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cu.cuStreamGetCaptureInfo_v2(a, &status, NULL, &graph, NULL, NULL));
	EXPECT_CU(cu.cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuStreamEndCapture(a, &ended));
	EXPECT_EQ(1, graph == ended);
	CU(cu.cuGraphDestroy(ended));
}

TEST(registered_memory_is_unregistered_after_copies_of_every_context)
{
	CUcontext there = NULL;
	CUdeviceptr memory;
	CUstream far = NULL;
	void *host = NULL;

	begin();
	EXPECT_EQ(posix_memalign(&host, 4096, 4096), 0);
	CU(cu.cuMemHostRegister_v2(host, 4096, CU_MEMHOSTREGISTER_PORTABLE));
	CU(cu.cuDevicePrimaryCtxRetain(&there, 1));
	CU(cu.cuCtxPushCurrent_v2(there));
	memory = cuda_alloc(4096);
	CU(cu.cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, 4096, far));
	CU(cu.cuCtxPopCurrent_v2(NULL));
	CU(cu.cuMemHostUnregister(host));
	CU(cu.cuStreamSynchronize(far));
	free(host);
	expect_violations(0);
}

/* Two ranges side by side, each registered. */
static char *
register_twice(size_t each)
{
	void *host = NULL;

	EXPECT_EQ(posix_memalign(&host, 4096, 2 * each), 0);
	CU(cu.cuMemHostRegister_v2(host, each, 0));
	CU(cu.cuMemHostRegister_v2((char *)host + each, each, 0));
	return host;
}

TEST(one_copy_may_not_cross_two_registrations)
{
	enum { EACH = 8192 };

	begin();
	CUdeviceptr memory = cuda_alloc(2 * EACH);
	char *host = register_twice(EACH);

	EXPECT_CU(cu.cuMemcpyHtoDAsync_v2(memory, host, 2 * EACH, a),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemcpyDtoHAsync_v2(host + EACH - 1, memory, 2, a),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemcpyHtoD_v2(memory, host + 1, EACH),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, EACH, a));
	CU(cu.cuMemcpyDtoHAsync_v2(host + EACH, memory, EACH, a));
	CU(cu.cuStreamSynchronize(a));
	expect_violations(0);
}

/* Registered as one range, the pages may be copied at once. */
TEST(one_copy_may_cross_pages_of_one_registration)
{
	enum { EACH = 8192 };

	begin();
	CUdeviceptr memory = cuda_alloc(2 * EACH);
	char *host = register_twice(EACH);

	CU(cu.cuMemHostUnregister(host));
	CU(cu.cuMemHostUnregister(host + EACH));
	CU(cu.cuMemHostRegister_v2(host, 2 * EACH, 0));
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, 2 * EACH, a));
	CU(cu.cuStreamSynchronize(a));
	expect_violations(0);
}

TEST(one_copy_may_cross_two_handles_of_page_locked_memory)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA } };
	CUmemAccessDesc access[2] = {
		{ .location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE },
		{ .location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
		    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE }
	};
	CUdeviceptr host;

	begin();
	CUdeviceptr memory = cuda_alloc(2 * GRANULE);

	CU(cu.cuMemAddressReserve(&host, 2 * GRANULE, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		CUmemGenericAllocationHandle handle;
		CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0));
		CU(cu.cuMemMap(
		    host + (size_t)i * GRANULE, GRANULE, 0, handle, 0));
	}
	CU(cu.cuMemSetAccess(host, 2 * GRANULE, access, 2));
	CU(cu.cuMemcpyHtoDAsync_v2(
	    memory, (void *)(uintptr_t)host, 2 * GRANULE, a));
	CU(cu.cuMemcpyDtoHAsync_v2(
	    (void *)(uintptr_t)(host + GRANULE / 2), memory, GRANULE, a));
	CU(cu.cuStreamSynchronize(a));
	expect_violations(0);
}

/* ---- Many rounds -------------------------------------------------------- */

static uint64_t
cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Rounds with a stream of their own, in order with stream `a`, without a wait
 * of the host. */
static uint64_t
rounds_ns(CUdeviceptr memory, int n, bool destroy)
{
	uint64_t start = cpu_ns();

	for (int i = 0; i < n; i++) {
		CUstream own =
		    i % 2 == 0 ? cuda_stream() : cuda_blocking_stream();

		cuda_order(a, own);
		cuda_fill(own, memory, 1, 1);
		cuda_order(own, a);
		if (destroy)
			CU(cu.cuStreamDestroy_v2(own));
		CU(cu.cuMemsetD32Async(memory, 2, 1, a));
	}
	return cpu_ns() - start;
}

static void
expect_linear(bool destroy)
{
	enum { FEW = 2000, MANY = 4 * FEW, TRIES = 3 };
	uint64_t few = UINT64_MAX, many = UINT64_MAX;
	CUdeviceptr memory;

	begin();
	memory = cuda_alloc(4096);
	for (int i = 0; i < TRIES; i++) {
		uint64_t ns = rounds_ns(memory, FEW, destroy);

		few = ns < few ? ns : few;
	}
	for (int i = 0; i < TRIES; i++) {
		uint64_t ns = rounds_ns(memory, MANY, destroy);

		many = ns < many ? ns : many;
	}
	EXPECT_LT(many, few * 10);
	expect_violations(0);
}

TEST(a_stream_for_each_round_costs_the_same_in_each_round)
{
	expect_linear(true);
}

TEST(streams_that_stay_make_no_round_dearer)
{
	expect_linear(false);
}
