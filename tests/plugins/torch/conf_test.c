#include "plugins/torch/conf.h"

#include <string.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

static const char *
value_of(const char *key)
{
	static struct weir_option option;

	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++)
		if (strcmp(option.key, key) == 0)
			return option.value;
	FAIL("there is no option %s", key);
	return NULL;
}

TEST(settings_of_pytorchs_become_options)
{
	EXPECT_OK(weir_torch_conf(
	    "max_split_size_mb:100, garbage_collection_threshold:0.5,"
	    "roundup_power2_divisions:[64:8, 128:2, >:1],"
	    "pinned_num_register_threads:4"));
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "100");
	EXPECT_STR_HAS(value_of("garbage_collection_threshold"), "0.5");
	EXPECT_STR_HAS(
	    value_of("roundup_power2_divisions"), "[64:8,128:2,>:1]");
	EXPECT_STR_EQ(value_of("pinned_num_register_threads"), "4");
}

TEST(a_new_text_resets_the_options_that_pytorch_resets)
{
	EXPECT_OK(weir_torch_conf(
	    "large_segment_size_mb:40,max_split_size_mb:100,"
	    "max_non_split_rounding_mb:60,garbage_collection_threshold:0.5,"
	    "roundup_power2_divisions:8,pinned_num_register_threads:2"));
	EXPECT_OK(weir_torch_conf(""));
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "unlimited");
	EXPECT_STR_HAS(value_of("garbage_collection_threshold"), "0");
	EXPECT_STR_EQ(value_of("roundup_power2_divisions"), "0");
	EXPECT_STR_EQ(value_of("max_non_split_rounding_mb"), "40");
	EXPECT_STR_EQ(value_of("large_segment_size_mb"), "40");
	EXPECT_STR_EQ(value_of("pinned_num_register_threads"), "2");
}

TEST(keys_without_a_meaning_for_weir_are_passed_over)
{
	EXPECT_OK(weir_torch_conf(
	    "backend:native,release_lock_on_cudamalloc:True,"
	    "expandable_segments_reserve_by_class:[a:0.5,b:2G],"
	    "graph_capture_record_stream_reuse:False,max_split_size_mb:50"));
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "50");
}

TEST(a_text_that_weir_refuses_changes_nothing)
{
	EXPECT_OK(weir_torch_conf("max_split_size_mb:50"));
	EXPECT_STATUS(
	    weir_torch_conf("max_split_size_mb:60,nonsense:1"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "nonsense");
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "50");
	EXPECT_STATUS(weir_torch_conf("max_split_size_mb"), WEIR_EINVAL);
	EXPECT_STATUS(weir_torch_conf("a:[b:c"), WEIR_EINVAL);
	EXPECT_OK(weir_torch_conf(NULL));
}

TEST(expandable_segments_are_asked_for_by_name)
{
	EXPECT(!conf_asks_expandable());
	EXPECT_OK(weir_torch_conf("expandable_segments: True"));
	EXPECT(conf_asks_expandable());
	EXPECT_OK(weir_torch_conf("max_split_size_mb:50"));
	EXPECT(conf_asks_expandable());
	EXPECT_OK(weir_torch_conf("expandable_segments:False"));
	EXPECT(!conf_asks_expandable());
}

TEST(a_text_is_followed_once)
{
	/* weir has read the environment itself, and WEIR_CONF after it. */
	EXPECT_OK(weir_torch_conf_follow("expandable_segments:True,"
					 "max_split_size_mb:70"));
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "unlimited");
	EXPECT(conf_asks_expandable());
	EXPECT_OK(weir_torch_conf_follow("max_split_size_mb:80"));
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "80");
	conf("max_split_size_mb:90");
	EXPECT_OK(weir_torch_conf_follow("max_split_size_mb:80"));
	EXPECT_STR_EQ(value_of("max_split_size_mb"), "90");
}
