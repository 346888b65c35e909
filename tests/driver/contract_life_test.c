/*
 * Contract tests, the same on simcuda and on a GPU's driver: queued work and
 * allocated memory outlive the graphs, streams, events, pools and modules that
 * they came from.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda.h"
#include "tests/support/kernels.ptx.h"

enum { WORDS = 1024, BYTES = WORDS * 4 };

static CUstream stream;

static void
begin(void)
{
	cuda_begin();
	stream = cuda_stream();
}

static void
capture(void)
{
	CU(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraph
end(void)
{
	CUgraph graph = NULL;

	CU(cu.cuStreamEndCapture(stream, &graph));
	return graph;
}

static CUgraphExec
instantiate(CUgraph graph)
{
	CUgraphExec exec = NULL;

	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* A graph that allocates memory, fills it and leaves it allocated. */
static CUgraph
allocating_graph(CUdeviceptr *address, unsigned value)
{
	capture();
	CU(cu.cuMemAllocAsync(address, BYTES, stream));
	cuda_fill(stream, *address, value, WORDS);
	return end();
}

/* ---- Memory of graphs --------------------------------------------------- */

TEST(memory_that_a_graph_left_allocated_outlives_it)
{
	CUdeviceptr address = 0;
	CUgraphExec exec;
	CUgraph graph;

	begin();
	graph = allocating_graph(&address, 7);
	exec = instantiate(graph);
	CU(cu.cuGraphLaunch(exec, stream));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuGraphExecDestroy(exec));
	CU(cu.cuGraphDestroy(graph));
	EXPECT_EQ(cuda_word(address), 7);
	cuda_fill(stream, address, 8, WORDS);
	EXPECT_EQ(cuda_word(address), 8);
	CU(cu.cuMemFree_v2(address));
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_queued_launch_does_its_work_after_its_graph_is_destroyed)
{
	CUdeviceptr address = 0;
	CUgraphExec exec;
	CUgraph graph;

	begin();
	graph = allocating_graph(&address, 9);
	exec = instantiate(graph);
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuGraphLaunch(exec, stream));
	CU(cu.cuGraphExecDestroy(exec));
	CU(cu.cuGraphDestroy(graph));
	EXPECT_EQ(cuda_word(address), 9);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_CU(cu.cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST(memory_of_a_graph_is_freed_by_another_graph)
{
	CUdeviceptr address = 0;
	CUgraphExec allocating, freeing;
	CUgraph graph;

	begin();
	graph = allocating_graph(&address, 1);
	allocating = instantiate(graph);
	CU(cu.cuGraphLaunch(allocating, stream));
	capture();
	CU(cu.cuMemFreeAsync(address, stream));
	freeing = instantiate(end());
	CU(cu.cuStreamSynchronize(stream));
	/* Not yet: the other graph has not run. */
	EXPECT_EQ(cuda_word(address), 1);
	CU(cu.cuGraphLaunch(freeing, stream));
	/* So the graph may allocate it again. */
	CU(cu.cuGraphLaunch(allocating, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(cuda_word(address), 1);
	CU(cu.cuMemFree_v2(address));
}

TEST(a_graph_whose_memory_is_still_allocated_is_not_launched_again)
{
	CUdeviceptr address = 0;
	CUgraphExec exec;

	begin();
	exec = instantiate(allocating_graph(&address, 1));
	CU(cu.cuGraphLaunch(exec, stream));
	EXPECT_CU(cu.cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuGraphLaunch(exec, stream));
	CU(cu.cuStreamSynchronize(stream));
}

/* ---- Streams, events, modules ------------------------------------------- */

TEST(work_of_a_destroyed_stream_is_done)
{
	CUdeviceptr memory;

	begin();
	memory = cuda_alloc(BYTES);
	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(stream, memory, 5, WORDS);
	CU(cu.cuStreamDestroy_v2(stream));
	EXPECT_EQ(cuda_word(memory), 5);
}

TEST(the_default_stream_comes_after_work_of_destroyed_streams)
{
	CUdeviceptr memory;
	uint32_t words[4] = { 0 };

	begin();
	memory = cuda_alloc(BYTES);
	for (uint32_t i = 0; i < 4; i++) {
		CUstream short_lived = cuda_blocking_stream();

		cuda_sleep(short_lived, CUDA_LONG_NS);
		cuda_fill(short_lived, memory + i * 4, i + 1, 1);
		CU(cu.cuStreamDestroy_v2(short_lived));
	}
	CU(cu.cuMemcpyDtoH_v2(words, memory, sizeof(words)));
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(words[i], i + 1);
}

TEST(a_stream_waits_for_an_event_that_is_destroyed)
{
	CUdeviceptr memory;
	CUstream other;
	CUevent event;

	begin();
	other = cuda_stream();
	event = cuda_event();
	memory = cuda_alloc(BYTES);
	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(stream, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, stream));
	CU(cu.cuStreamWaitEvent(other, event, 0));
	CU(cu.cuEventDestroy_v2(event));
	CU(cu.cuStreamDestroy_v2(stream));
	cuda_copy(other, memory + BYTES / 2, memory, WORDS / 2);
	CU(cu.cuStreamSynchronize(other));
	EXPECT_EQ(cuda_word(memory + BYTES / 2), 1);
}

TEST(a_kernel_that_was_launched_runs_after_its_module_is_unloaded)
{
	CUdeviceptr memory;
	CUfunction function = NULL;
	CUmodule module = NULL;
	uint32_t value = 4;
	uint64_t n = WORDS;

	begin();
	memory = cuda_alloc(BYTES);
	CU(cu.cuModuleLoadData(&module, kernels_ptx));
	CU(cu.cuModuleGetFunction(&function, module, "weir_fill_u32"));
	void *params[] = { &memory, &value, &n };

	CU(cu.cuLaunchKernel(
	    function, 8, 1, 1, 128, 1, 1, 0, stream, params, NULL));
	CU(cu.cuModuleUnload(module));
	EXPECT_EQ(cuda_word(memory), 4);
}

/* ---- Pools and host memory ---------------------------------------------- */

static CUmemoryPool
pool_new(size_t max_bytes)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		.maxSize = max_bytes };
	CUmemoryPool pool = NULL;

	CU(cu.cuMemPoolCreate(&pool, &props));
	return pool;
}

TEST(memory_of_a_destroyed_pool_is_used_and_freed)
{
	CUdeviceptr address = 0;
	CUmemoryPool pool;

	begin();
	pool = pool_new(0);
	CU(cu.cuMemAllocFromPoolAsync(&address, BYTES, pool, stream));
	CU(cu.cuMemPoolDestroy(pool));
	cuda_fill(stream, address, 6, WORDS);
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(cuda_word(address), 6);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuStreamSynchronize(stream));
}

TEST(a_graph_allocates_from_a_pool_that_was_destroyed)
{
	CUdeviceptr address = 0;
	CUmemoryPool pool;
	CUgraphExec exec;

	begin();
	pool = pool_new(0);
	capture();
	CU(cu.cuMemAllocFromPoolAsync(&address, BYTES, pool, stream));
	cuda_fill(stream, address, 3, WORDS);
	CU(cu.cuMemFreeAsync(address, stream));
	exec = instantiate(end());
	CU(cu.cuMemPoolDestroy(pool));
	for (int i = 0; i < 3; i++)
		CU(cu.cuGraphLaunch(exec, stream));
	CU(cu.cuStreamSynchronize(stream));
}

TEST(a_pool_does_not_grow_beyond_its_size)
{
	CUdeviceptr first = 0, second = 0;
	CUmemoryPool pool;

	begin();
	pool = pool_new((size_t)64 << 20);
	CU(cu.cuMemAllocFromPoolAsync(&first, (size_t)48 << 20, pool, stream));
	EXPECT_CU(
	    cu.cuMemAllocFromPoolAsync(&second, (size_t)48 << 20, pool, stream),
	    CUDA_ERROR_OUT_OF_MEMORY);
	CU(cu.cuMemFreeAsync(first, stream));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemAllocFromPoolAsync(&second, (size_t)40 << 20, pool, stream));
	CU(cu.cuStreamSynchronize(stream));
}

TEST(page_locked_memory_is_freed_after_the_copies_that_use_it)
{
	CUdeviceptr memory;
	uint32_t *pinned = NULL;

	begin();
	memory = cuda_alloc(BYTES);
	CU(cu.cuMemAllocHost_v2((void **)&pinned, BYTES));
	for (int i = 0; i < WORDS; i++)
		pinned[i] = 11;
	cuda_sleep(stream, CUDA_LONG_NS);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, pinned, BYTES, stream));
	CU(cu.cuMemFreeHost(pinned));
	EXPECT_EQ(cuda_word(memory + BYTES - 4), 11);
}

TEST(unregistering_says_what_is_wrong_with_an_address)
{
	void *pinned = NULL, *plain = NULL;

	begin();
	CU(cu.cuMemHostAlloc(&pinned, 1 << 16, 0));
	EXPECT_EQ(posix_memalign(&plain, 4096, 1 << 16), 0);
	CU(cu.cuMemHostRegister_v2(plain, 1 << 16, 0));
	EXPECT_CU(cu.cuMemHostUnregister(pinned), CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemHostUnregister((char *)plain + 4096),
	    CUDA_ERROR_INVALID_VALUE);
	EXPECT_CU(cu.cuMemHostUnregister((void *)(uintptr_t)0x10000),
	    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CU(cu.cuMemHostUnregister(plain));
	EXPECT_CU(cu.cuMemHostUnregister(plain),
	    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	free(plain);
	CU(cu.cuMemFreeHost(pinned));
}
