/*
 * The model of PyTorch's allocator, by the sizes of segments and rests that its
 * rules give.
 */
#include "tools/weir/torch/torch_model.h"

#include "tests/support/test.h"

#define MIB UINT64_C(1048576)

static struct torch_model *
model_of(const char *text, uint64_t device_bytes)
{
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];
	struct torch_model *model;

	torch_conf_init(&conf);
	if (!torch_conf_parse(text, &conf, why))
		FAIL("%s", why);
	model = torch_model_new(&conf, device_bytes);
	EXPECT_NOT_NULL(model);
	return model;
}

static void
free_block(struct torch_model *model, struct torch_block *block)
{
	torch_model_release(model, block);
	torch_model_complete(model, block);
}

static uint64_t
reserved_for(const char *conf, uint64_t bytes)
{
	struct torch_model *model = model_of(conf, UINT64_MAX);
	uint64_t reserved;

	EXPECT_NOT_NULL(torch_model_alloc(model, bytes, 0, 0));
	reserved = torch_model_figures(model)->reserved.peak;
	torch_model_free(model);
	return reserved;
}

TEST(a_request_gets_a_segment_of_its_class)
{
	EXPECT_EQ(reserved_for("", 1), 2 * MIB);
	EXPECT_EQ(reserved_for("", MIB), 2 * MIB);
	EXPECT_EQ(reserved_for("", MIB + 1), 20 * MIB);
	EXPECT_EQ(reserved_for("", 10 * MIB - 512), 20 * MIB);
	EXPECT_EQ(reserved_for("", 10 * MIB), 10 * MIB);
	EXPECT_EQ(reserved_for("", 10 * MIB + 1), 12 * MIB);
	EXPECT_EQ(reserved_for("large_segment_size_mb:32", 2 * MIB), 32 * MIB);
}

/* As cudaMalloc's do on an H200. */
TEST(addresses_rise_in_the_first_range_and_fall_behind_it)
{
	struct torch_model *model = model_of("", UINT64_MAX);
	uint64_t before = 0;

	for (unsigned i = 0; i < 8; i++) {
		struct torch_block *block =
		    torch_model_alloc(model, 128 * MIB, 0, 0);
		uint64_t address = torch_block_address(block);

		EXPECT_EQ(address > before, i < 4);
		before = address;
	}
	torch_model_free(model);
}

/* An expandable segment would map 20 MiB more. */
TEST(a_limit_of_requests_counts_the_whole_of_a_request)
{
	struct torch_model *model;
	struct torch_conf conf;

	for (unsigned limits = 0; limits < 2; limits++) {
		torch_conf_init(&conf);
		conf.expandable = true;
		conf.limits_requests = limits == 1;
		model = torch_model_new(&conf, 125 * MIB);
		EXPECT_NOT_NULL(model);
		free_block(model, torch_model_alloc(model, 40 * MIB, 0, 0));
		torch_model_alloc(model, 20 * MIB, 0, 0);
		torch_model_alloc(model, 20 * MIB, 0, 0);
		EXPECT_NOT_NULL(torch_model_alloc(model, 40 * MIB, 0, 0));
		EXPECT_EQ(torch_model_figures(model)->retries, 0);
		free_block(model, torch_model_alloc(model, 20 * MIB, 0, 0));
		EXPECT_NOT_NULL(torch_model_alloc(model, 25 * MIB, 0, 0));
		EXPECT_EQ(torch_model_figures(model)->retries, limits);
		torch_model_free(model);
	}
}

TEST(a_rest_of_a_mebibyte_stays_with_a_large_block)
{
	struct torch_model *model = model_of("", UINT64_MAX);

	torch_model_alloc(model, 21 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->allocated.peak, 22 * MIB);
	EXPECT_EQ(torch_model_figures(model)->requested.peak, 21 * MIB);
	torch_model_free(model);
}

TEST(free_neighbours_merge_and_serve_a_larger_request)
{
	struct torch_model *model = model_of("", UINT64_MAX);
	struct torch_block *a = torch_model_alloc(model, 4 * MIB, 0, 0);
	struct torch_block *b = torch_model_alloc(model, 4 * MIB, 0, 0);
	struct torch_block *c = torch_model_alloc(model, 12 * MIB, 0, 0);

	EXPECT_EQ(torch_model_figures(model)->segments.now, 1);
	free_block(model, a);
	free_block(model, b);
	torch_model_alloc(model, 8 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->segments.now, 1);
	free_block(model, c);
	torch_model_alloc(model, 13 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->segments.now, 2);
	torch_model_free(model);
}

TEST(streams_and_pools_share_no_blocks)
{
	struct torch_model *model = model_of("", UINT64_MAX);

	free_block(model, torch_model_alloc(model, 512, 1, 0));
	free_block(model, torch_model_alloc(model, 512, 2, 0));
	free_block(model, torch_model_alloc(model, 512, 1, 5));
	free_block(model, torch_model_alloc(model, 512, 1, 0));
	EXPECT_EQ(torch_model_figures(model)->segments.now, 3);
	torch_model_free(model);
}

TEST(a_block_that_other_streams_use_serves_nobody)
{
	struct torch_model *model = model_of("", UINT64_MAX);
	struct torch_block *block = torch_model_alloc(model, 20 * MIB, 0, 0);

	torch_model_release(model, block);
	torch_model_alloc(model, 20 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 40 * MIB);
	EXPECT_EQ(torch_model_figures(model)->allocated.now, 20 * MIB);
	EXPECT_EQ(torch_model_figures(model)->active.now, 40 * MIB);
	torch_model_complete(model, block);
	torch_model_alloc(model, 20 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 40 * MIB);
	torch_model_free(model);
}

TEST(a_request_of_a_private_pool_frees_no_cached_memory)
{
	struct torch_model *model = model_of("", 64 * MIB);

	free_block(model, torch_model_alloc(model, 40 * MIB, 0, 0));
	EXPECT_NULL(torch_model_alloc(model, 60 * MIB, 0, 7));
	EXPECT_EQ(torch_model_figures(model)->ooms, 1);
	EXPECT_EQ(torch_model_figures(model)->retries, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 40 * MIB);
	EXPECT_NOT_NULL(torch_model_alloc(model, 24 * MIB, 0, 7));
	torch_model_free(model);
}

TEST(cached_memory_is_freed_before_a_request_fails)
{
	struct torch_model *model = model_of("", 64 * MIB);
	struct torch_block *block = torch_model_alloc(model, 40 * MIB, 0, 0);
	struct torch_block *slot = block;

	/* The retry waits for the work on the block, too. */
	torch_model_release(model, block);
	torch_block_watch(block, &slot);
	EXPECT_NOT_NULL(torch_model_alloc(model, 60 * MIB, 0, 0));
	EXPECT_NULL(slot);
	EXPECT_EQ(torch_model_figures(model)->retries, 1);
	EXPECT_EQ(torch_model_figures(model)->ooms, 0);
	EXPECT_NULL(torch_model_alloc(model, 60 * MIB, 0, 0));
	EXPECT_EQ(torch_model_figures(model)->ooms, 1);
	EXPECT_EQ(torch_model_figures(model)->reserved.peak, 60 * MIB);
	torch_model_free(model);
}

TEST(blocks_above_max_split_size_are_neither_split_nor_wasted)
{
	struct torch_model *model =
	    model_of("max_split_size_mb:64", UINT64_MAX);

	free_block(model, torch_model_alloc(model, 100 * MIB, 0, 0));
	/* Too small a request for the block, and one that is near enough. */
	torch_model_alloc(model, 30 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 130 * MIB);
	torch_model_alloc(model, 90 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 130 * MIB);
	EXPECT_EQ(torch_model_figures(model)->allocated.now, 130 * MIB);
	torch_model_free(model);
}

TEST(old_blocks_are_collected_above_the_threshold)
{
	struct torch_model *model = model_of(
	    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.99",
	    200 * MIB);

	free_block(model, torch_model_alloc(model, 60 * MIB, 0, 0));
	for (int i = 0; i < 8; i++)
		free_block(model, torch_model_alloc(model, 50 * MIB, 1, 0));
	torch_model_alloc(model, 70 * MIB, 2, 0);
	EXPECT_LE(torch_model_figures(model)->reserved.now, 120 * MIB);
	EXPECT_EQ(torch_model_figures(model)->retries, 0);
	torch_model_free(model);
}

TEST(an_expandable_segment_grows_by_pages)
{
	const char *conf = "expandable_segments:True";
	struct torch_model *model = model_of(conf, UINT64_MAX);
	struct torch_block *block;

	EXPECT_EQ(reserved_for(conf, 1), 2 * MIB);
	EXPECT_EQ(reserved_for(conf, 30 * MIB), 40 * MIB);
	block = torch_model_alloc(model, 30 * MIB, 0, 0);
	torch_model_alloc(model, 5 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 40 * MIB);
	/* The 5 free mebibytes at the end count for the next request. */
	torch_model_alloc(model, 25 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 60 * MIB);
	EXPECT_EQ(torch_model_figures(model)->allocated.now, 60 * MIB);
	EXPECT_EQ(torch_model_figures(model)->segments.peak, 0);
	free_block(model, block);
	torch_model_empty_cache(model);
	/* 30 free mebibytes have one whole page of 20. */
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 40 * MIB);
	torch_model_alloc(model, 30 * MIB, 0, 0);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 60 * MIB);
	torch_model_free(model);
}

TEST(an_expandable_segment_fails_at_the_end_of_the_device)
{
	struct torch_model *model =
	    model_of("expandable_segments:True", 64 * MIB);

	EXPECT_NOT_NULL(torch_model_alloc(model, 50 * MIB, 0, 0));
	EXPECT_NULL(torch_model_alloc(model, 30 * MIB, 0, 0));
	EXPECT_EQ(torch_model_figures(model)->ooms, 1);
	EXPECT_LE(torch_model_figures(model)->reserved.peak, 64 * MIB);
	torch_model_free(model);
}

TEST(a_request_beyond_any_device_fails)
{
	static const char *const confs[] = { "", "expandable_segments:True",
		"roundup_power2_divisions:4" };
	static const uint64_t sizes[] = { (UINT64_C(1) << 44) + 1,
		UINT64_C(1) << 52, UINT64_MAX - 600, UINT64_MAX };

	for (int i = 0; i < 3; i++) {
		struct torch_model *model = model_of(confs[i], UINT64_MAX);

		for (int k = 0; k < 4; k++)
			EXPECT_NULL(torch_model_alloc(model, sizes[k], 0, 0));
		EXPECT_EQ(torch_model_figures(model)->ooms, 4);
		EXPECT_EQ(torch_model_figures(model)->reserved.peak, 0);
		EXPECT_NOT_NULL(torch_model_alloc(model, MIB, 0, 0));
		torch_model_free(model);
	}
}

TEST(the_cache_is_emptied_of_whole_segments_only)
{
	struct torch_model *model = model_of("", UINT64_MAX);
	struct torch_block *a = torch_model_alloc(model, 12 * MIB, 0, 0);
	struct torch_block *b = torch_model_alloc(model, 2 * MIB, 0, 0);

	torch_model_alloc(model, 2 * MIB, 0, 0);
	free_block(model, a);
	free_block(model, b);
	torch_model_empty_cache(model);
	EXPECT_EQ(torch_model_figures(model)->reserved.now, 20 * MIB);
	EXPECT_EQ(torch_model_figures(model)->device_frees, 1);
	torch_model_free(model);
}

TEST(a_recorded_segment_gets_its_address_and_its_blocks)
{
	struct torch_model *model = model_of("", UINT64_MAX);
	struct torch_block *block;

	EXPECT(torch_model_add_segment(
	    model, 0x7f0000000000, 20 * MIB, 3, 0, false));
	EXPECT(!torch_model_add_segment(
	    model, 0x7f0000000000 + MIB, 20 * MIB, 3, 0, false));
	block = torch_model_add_block(
	    model, 0x7f0000000000 + 4 * MIB, 8 * MIB, 8 * MIB);
	EXPECT_NOT_NULL(block);
	EXPECT_NULL(
	    torch_model_add_block(model, 0x7f0000000000 + 5 * MIB, MIB, MIB));
	/* The best fit is the rest of 4 MiB before the block. */
	EXPECT_EQ(torch_block_address(torch_model_alloc(model, 3 * MIB, 3, 0)),
	    0x7f0000000000);
	torch_model_expect(model, 0x7e0000000000, 30 * MIB);
	EXPECT_EQ(torch_block_address(torch_model_alloc(model, 30 * MIB, 3, 0)),
	    0x7e0000000000);
	EXPECT(!torch_model_free_segment(model, 0x7e0000000000));
	torch_model_free(model);
}
