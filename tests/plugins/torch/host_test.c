/*
 * Page-locked memory for graphs stays with its pool.
 */
#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

static const struct weir_torch_id graph = { 5, 0 };

static bool
always(void *closure, weir_stream stream)
{
	(void)stream;
	return *(bool *)closure;
}

static bool answer = true;
static const struct weir_torch_filter filter = { .matches = always,
	.closure = &answer };

TEST(without_pools_it_is_weirs_own)
{
	void *ptr = weir_torch_host_malloc(5000, NULL);

	EXPECT_NOT_NULL(ptr);
	EXPECT_OK(weir_torch_host_record((char *)ptr + 100, NULL));
	EXPECT_OK(weir_torch_host_free(ptr));
	EXPECT_OK(weir_torch_host_free(NULL));
	EXPECT_EQ(weir_torch_host_free(ptr), WEIR_EINVAL);
	EXPECT_STATUS(weir_torch_host_end(graph), WEIR_EINVAL);
	EXPECT_STATUS(weir_torch_host_release(graph), WEIR_EINVAL);
	expect_healthy();
}

TEST(a_freed_block_serves_its_pool_only)
{
	EXPECT_OK(weir_torch_host_begin(graph, &filter));
	EXPECT_STATUS(weir_torch_host_begin(graph, &filter), WEIR_EINVAL);
	void *ptr = weir_torch_host_malloc(8000, NULL);
	EXPECT_OK(weir_torch_host_free(ptr));
	EXPECT_EQ(weir_torch_host_free(ptr), WEIR_EINVAL);
	EXPECT_NE(weir_torch_host_malloc(80000, NULL), ptr);
	answer = false;
	EXPECT_NE(weir_torch_host_malloc(8000, NULL), ptr);
	answer = true;
	EXPECT_EQ(weir_torch_host_malloc(7900, NULL), ptr);
	EXPECT_OK(weir_torch_host_end(graph));
	EXPECT_OK(weir_torch_host_free(ptr));
	for (int i = 0; i < 5; i++)
		EXPECT_NE(weir_torch_host_malloc(8000, NULL), ptr);
	EXPECT_OK(weir_torch_host_release(graph));
	expect_healthy();
}

TEST(memory_that_a_stream_uses_serves_no_request_until_the_release)
{
	weir_stream stream = new_stream();

	EXPECT_OK(weir_torch_host_begin(graph, &filter));
	char *ptr = weir_torch_host_malloc(8000, stream);
	EXPECT_OK(weir_torch_host_record(ptr + 4000, stream));
	EXPECT_OK(weir_torch_host_free(ptr));
	EXPECT_NE(weir_torch_host_malloc(8000, stream), ptr);
	busy(stream, LATE_MS); /* as a launch that is queued */
	EXPECT_OK(weir_torch_host_end(graph));
	EXPECT_OK(weir_torch_host_release(graph));
	EXPECT_NE(weir_torch_host_malloc(8000, stream), ptr);
	finish(stream);
	expect_healthy();
}

TEST(live_blocks_outlive_their_pool)
{
	EXPECT_OK(weir_torch_host_begin(graph, &filter));
	char *ptr = weir_torch_host_malloc(8000, NULL);
	EXPECT_OK(weir_torch_host_release(graph));
	EXPECT_OK(weir_torch_host_end(graph));
	ptr[7999] = 1;
	EXPECT_OK(weir_torch_host_free(ptr));
	EXPECT_OK(weir_host_trim(WEIR_DEVICE_ALL, 0, NULL));
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	EXPECT_OK(weir_host_stats(0, &stats));
	EXPECT_EQ(stats.reserved_bytes.all.current, 0);
	expect_healthy();
}
