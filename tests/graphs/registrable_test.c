/*
 * Pools whose memory can be registered: one physical allocation for each
 * segment, exported and reached as WEIR_POOL_REGISTRABLE says.
 */
#include <weir/graph.h>

#include <stdlib.h>
#include <unistd.h>

#include "tests/support/cuda.h"
#include "tests/support/device.h"

/* The physical allocation of an address, released again. */
static CUmemAllocationProp
properties_of(const void *ptr, CUmemGenericAllocationHandle *id)
{
	CUmemAllocationProp prop;

	cuda_load();
	EXPECT_EQ(device_driver()->cuMemRetainAllocationHandle(id, (void *)ptr),
	    CUDA_SUCCESS);
	EXPECT_EQ(cu.cuMemGetAllocationPropertiesFromHandle(&prop, *id),
	    CUDA_SUCCESS);
	return prop;
}

/* Are two addresses on the same physical allocation? */
static bool
share_a_handle(const void *a, const void *b)
{
	CUmemGenericAllocationHandle one;
	CUmemGenericAllocationHandle other;

	properties_of(a, &one);
	properties_of(b, &other);
	EXPECT_EQ(device_driver()->cuMemRelease(one), CUDA_SUCCESS);
	EXPECT_EQ(device_driver()->cuMemRelease(other), CUDA_SUCCESS);
	return one == other;
}

TEST(a_registrable_block_lies_on_one_handle_that_can_be_exported)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	weir_stream stream = new_stream();
	unsigned char *ptr = take_from(pool, 70 * MIB, stream);
	struct weir_block_info info = info_of(ptr);
	CUmemGenericAllocationHandle id;
	CUmemAllocationProp prop = properties_of(ptr, &id);
	int fd = -1;

	EXPECT(!info.expandable);
	EXPECT_EQ(info.segment_size % (2 * MIB), 0);
	EXPECT_NE(prop.requestedHandleTypes &
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	    0);
	EXPECT_EQ(prop.location.id, 0);
	EXPECT(share_a_handle(ptr, ptr + 70 * MIB - 1));
	EXPECT_EQ(device_driver()->cuMemExportToShareableHandle(
		      &fd, id, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    CUDA_SUCCESS);
	EXPECT_EQ(close(fd), 0);
	EXPECT_EQ(device_driver()->cuMemRelease(id), CUDA_SUCCESS);
	fill(ptr, 70 * MIB, 7, stream);
	expect_filled(ptr, 70 * MIB, 7, stream);
	give(ptr);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(registrable_memory_is_marked_for_rdma_where_the_device_can)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	void *ptr = take_from(pool, 4 * MIB, NULL);
	CUmemGenericAllocationHandle id;
	CUmemAllocationProp prop = properties_of(ptr, &id);
	int can = 0;

	EXPECT_EQ(
	    device_driver()->cuDeviceGetAttribute(&can,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
	    CUDA_SUCCESS);
	EXPECT_EQ(prop.allocFlags.gpuDirectRDMACapable, can != 0);
	EXPECT_EQ(device_driver()->cuMemRelease(id), CUDA_SUCCESS);
	give(ptr);
	weir_pool_release(pool);
}

TEST(every_device_that_can_reaches_registrable_memory)
{
	device_need(2);
	struct weir_pool *pool = new_pool(1, WEIR_POOL_REGISTRABLE);
	void *ptr = take_from(pool, 4 * MIB, WEIR_STREAM_ANY);

	cuda_load();
	for (int d = 0; d < 2; d++) {
		CUmemLocation where = { CU_MEM_LOCATION_TYPE_DEVICE, d };
		unsigned long long flags = 0;
		int reaches = 1;

		if (d != 1)
			EXPECT_EQ(device_driver()->cuDeviceCanAccessPeer(
				      &reaches, d, 1),
			    CUDA_SUCCESS);
		EXPECT_EQ(cu.cuMemGetAccess(
			      &flags, &where, (CUdeviceptr)(uintptr_t)ptr),
		    CUDA_SUCCESS);
		EXPECT_EQ(
		    flags, reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0);
	}
	give(ptr);
	weir_pool_release(pool);
}

/* Without the answers, memory could lack what the pool promises. */
TEST(a_driver_that_does_not_answer_makes_no_registrable_memory)
{
	static const char *const calls[] = { "cuDeviceGetAttribute",
		"cuDeviceGetAttribute", "cuDeviceCanAccessPeer" };

	device_need(2);
	device_need_sim("calls are to fail");
	struct weir_pool *pool = new_pool(1, WEIR_POOL_REGISTRABLE);
	for (unsigned i = 0; i < 3; i++) {
		struct weir_route *route;

		EXPECT_OK(weir_route_thread(pool, &route));
		sim()->fail(calls[i], i == 1 ? 2 : 1, 1, CUDA_ERROR_UNKNOWN);
		EXPECT_NULL(weir_malloc_on(1, 4 * MIB, WEIR_STREAM_ANY));
		EXPECT_EQ(weir_last_status(), WEIR_EDRIVER);
		EXPECT_STR_HAS(weir_last_error(), calls[i]);
		sim()->reset();
		weir_route_end(route);
		expect_healthy();
		EXPECT_EQ(
		    sim()->live("handle") + sim()->live("reservation"), 0);
	}
	give(take_from(pool, 4 * MIB, WEIR_STREAM_ANY));
	weir_pool_release(pool);
}

/* Blocks are allocated and freed in pieces; no two segments share a handle, and
 * no block lies on two handles. */
TEST(registrable_blocks_never_lie_across_handles)
{
	enum { BLOCKS = 24, ROUNDS = 400 };
	static const size_t sizes[] = { 512, 300 * KIB, 3 * MIB, 9 * MIB,
		21 * MIB };
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	weir_stream streams[2] = { new_stream(), new_stream() };
	unsigned char *blocks[BLOCKS] = { NULL };
	uint32_t seed = 12345;

	for (int i = 0; i < ROUNDS; i++) {
		seed = seed * 1664525 + 1013904223;
		unsigned n = (seed >> 8) % BLOCKS;
		size_t size = sizes[(seed >> 20) % 5];

		if (blocks[n] != NULL) {
			give(blocks[n]);
			blocks[n] = NULL;
			continue;
		}
		blocks[n] = take_from(pool, size, streams[n % 2]);
		EXPECT(share_a_handle(blocks[n], blocks[n] + size - 1));
	}
	for (int n = 0; n < BLOCKS; n++)
		if (blocks[n] != NULL)
			give(blocks[n]);
	finish(streams[0]);
	finish(streams[1]);
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	struct weir_stats s = { .struct_size = sizeof(s) };
	EXPECT_OK(weir_pool_stats(pool, &s));
	EXPECT_EQ(s.reserved_bytes.all.current, 0);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(registrable_memory_goes_back_when_its_work_is_done)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	weir_stream stream = new_stream();
	unsigned char *ptr = take_from(pool, 30 * MIB, stream);
	size_t freed = 0;

	busy(stream, LATE_MS);
	fill(ptr, 30 * MIB, 1, stream);
	give(ptr);
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 30 * MIB);
	EXPECT(is_done(stream));
	weir_pool_release(pool);
	expect_healthy();
}

/* Memory that is registered elsewhere keeps its addresses. */
TEST(pinned_registrable_memory_stays)
{
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	weir_stream stream = new_stream();
	void *ptr = take_from(pool, 30 * MIB, stream);
	size_t freed = 1;

	fill(ptr, 30 * MIB, 9, stream);
	EXPECT_OK(weir_pin(ptr));
	give(ptr);
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 0);
	expect_filled(ptr, 30 * MIB, 9, stream);
	EXPECT_STATUS(weir_pool_suspend(pool, false, NULL), WEIR_EINVAL);
	EXPECT_OK(weir_unpin(ptr));
	EXPECT_OK(weir_pool_trim(pool, 0, &freed));
	EXPECT_EQ(freed, 30 * MIB);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(a_registrable_pool_that_does_not_split_works_too)
{
	struct weir_pool *pool = NULL;

	EXPECT_OK(weir_pool_create(
	    0, NULL, WEIR_POOL_REGISTRABLE | WEIR_POOL_NO_SPLIT, &pool));
	unsigned char *a = take_from(pool, 512, NULL);
	unsigned char *b = take_from(pool, 3 * MIB + 512, NULL);
	EXPECT(!share_a_handle(a, b));
	EXPECT(share_a_handle(b, b + 3 * MIB));
	give(a);
	give(b);
	weir_pool_release(pool);
	expect_healthy();
}

static void *
source_take(void *closure, int device, size_t size)
{
	(void)closure;
	(void)device;
	(void)size;
	return NULL;
}

static bool
source_give(void *closure, int device, void *ptr, size_t size)
{
	(void)closure;
	(void)device;
	(void)ptr;
	(void)size;
	return true;
}

TEST(a_registrable_pool_with_a_source_is_refused)
{
	struct weir_pool_source source = { .struct_size = sizeof(source),
		.name = "mine",
		.take = source_take,
		.give = source_give };
	struct weir_pool *pool = NULL;

	EXPECT_STATUS(
	    weir_pool_create(0, &source, WEIR_POOL_REGISTRABLE, &pool),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "(mine)");
	EXPECT_STATUS(weir_pool_create(0, NULL,
			  WEIR_POOL_REGISTRABLE | WEIR_POOL_SEGMENTS, &pool),
	    WEIR_EINVAL);
	EXPECT_NULL(pool);
}

/* Each call on the way fails once: no memory stays, and the next try works. */
TEST(a_failure_leaves_nothing_of_a_registrable_segment)
{
	static const char *const calls[] = { "cuMemCreate",
		"cuMemAddressReserve", "cuMemMap", "cuMemSetAccess" };
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	void *ptr;

	device_need_sim("calls are to fail");
	size_t before = device_free_bytes(0);
	for (int i = 0; i < 4; i++) {
		sim()->fail(calls[i], 1, 1, CUDA_ERROR_UNKNOWN);
		EXPECT_NULL(weir_pool_malloc(pool, 30 * MIB, NULL));
		EXPECT_STATUS(weir_last_status(), WEIR_EDRIVER);
		EXPECT_EQ(device_free_bytes(0), before);
		ptr = take_from(pool, 30 * MIB, NULL);
		give(ptr);
		EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	}
	weir_pool_release(pool);
	expect_healthy();
}

/* ---- Fabric handles ----------------------------------------------------- */

static void
expect_types(const char *machine, int types, bool rdma)
{
	EXPECT_EQ(setenv("SIMCUDA_CONF", machine, 1), 0);
	device_need_sim("the simulated device's attributes are set");
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);
	void *ptr = take_from(pool, 4 * MIB, NULL);
	CUmemGenericAllocationHandle id;
	CUmemAllocationProp prop = properties_of(ptr, &id);

	EXPECT_EQ(prop.requestedHandleTypes, types);
	EXPECT_EQ(prop.allocFlags.gpuDirectRDMACapable, rdma);
	EXPECT_EQ(device_driver()->cuMemRelease(id), CUDA_SUCCESS);
	fill(ptr, 4 * MIB, 3, NULL);
	expect_filled(ptr, 4 * MIB, 3, NULL);
	give(ptr);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(registrable_memory_has_both_types_of_handle_where_the_device_has)
{
	expect_types("fabric:1,rdma:1",
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
		CU_MEM_HANDLE_TYPE_FABRIC,
	    true);
}

/* The device has fabric handles, but creates none, because the daemon for them
 * does not run. */
TEST(registrable_memory_does_without_a_fabric_that_is_not_set_up)
{
	expect_types(
	    "fabric:2", CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, false);
}

/* A lack of memory is reported as such, and not tried twice. */
TEST(registrable_memory_that_is_missing_is_missing_with_a_fabric_too)
{
	EXPECT_EQ(setenv("SIMCUDA_CONF", "fabric:1,memory_mb:64", 1), 0);
	device_need_sim("the device is to be small");
	struct weir_pool *pool = new_pool(0, WEIR_POOL_REGISTRABLE);

	EXPECT_NO_MEMORY(weir_pool_malloc(pool, 100 * MIB, NULL), WEIR_ENOMEM);
	weir_pool_release(pool);
	expect_healthy();
}
