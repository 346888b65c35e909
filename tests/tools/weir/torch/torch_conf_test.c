/*
 * PyTorch's settings: what its parser accepts and refuses, and the sizes that
 * its documentation gives.
 */
#include "tools/weir/torch/torch_conf.h"

#include <string.h>

#include "tests/support/test.h"

#define MIB UINT64_C(1048576)

static struct torch_conf
conf_of(const char *text)
{
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];

	torch_conf_init(&conf);
	if (!torch_conf_parse(text, &conf, why))
		FAIL("'%s' is refused: %s", text, why);
	return conf;
}

static void
expect_refused(const char *text, const char *named)
{
	struct torch_conf conf;
	char why[TORCH_CONF_WHY];

	torch_conf_init(&conf);
	if (torch_conf_parse(text, &conf, why))
		FAIL("'%s' is accepted", text);
	if (strstr(why, named) == NULL)
		FAIL("'%s' does not name '%s'", why, named);
}

TEST(settings_have_pytorchs_defaults)
{
	struct torch_conf conf = conf_of("");

	EXPECT_EQ(conf.expandable, false);
	EXPECT_EQ(conf.large_segment, 20 * MIB);
	EXPECT_EQ(conf.max_split, UINT64_MAX);
	EXPECT_EQ(conf.divisions[0], 0);
}

TEST(settings_are_read_with_white_space_between_them)
{
	struct torch_conf conf = conf_of(" expandable_segments : True, "
					 "max_split_size_mb:64 ,backend:native,"
					 "pinned_use_background_threads:True,"
					 "garbage_collection_threshold:0.8");

	EXPECT_EQ(conf.expandable, true);
	EXPECT_EQ(conf.max_split, 64 * MIB);
	EXPECT(conf.gc_threshold == 0.8);
}

TEST(an_unknown_setting_is_refused_by_name)
{
	expect_refused("expandable_segment:True", "expandable_segment");
	expect_refused("expandable_segment:True", "did you mean");
	expect_refused("nonsense:1", "nonsense");
	expect_refused("max_split_size_mb:64,nonsense:1", "nonsense");
	expect_refused("backend:cudaMallocAsync", "cudaMallocAsync");
}

TEST(a_wrong_value_is_refused_with_its_setting)
{
	expect_refused("expandable_segments:true", "True or False");
	expect_refused("max_split_size_mb:19", "max_split_size_mb");
	expect_refused("max_split_size_mb:many", "many");
	expect_refused("garbage_collection_threshold:1", "between 0 and 1");
	expect_refused("roundup_power2_divisions:3", "3");
	expect_refused("roundup_power2_divisions:[100:2]", "100");
	expect_refused("roundup_power2_divisions:[128:2", "]");
	expect_refused("expandable_segments", "key:value");
}

TEST(sizes_round_to_512_bytes_without_divisions)
{
	struct torch_conf conf = conf_of("");

	EXPECT_EQ(torch_round_size(&conf, 1), 512);
	EXPECT_EQ(torch_round_size(&conf, 512), 512);
	EXPECT_EQ(torch_round_size(&conf, 513), 1024);
	EXPECT_EQ(torch_round_size(&conf, 1048577), 1049088);
}

TEST(divisions_round_to_parts_of_a_power_of_two)
{
	struct torch_conf conf = conf_of("roundup_power2_divisions:8");

	EXPECT_EQ(torch_round_size(&conf, 84 * MIB), 88 * MIB);
	EXPECT_EQ(torch_round_size(&conf, 64 * MIB), 64 * MIB);
	EXPECT_EQ(torch_round_size(&conf, 4096), 4096);
}

/* The tables are those of PyTorch for the two examples of its documentation. */
TEST(a_list_of_divisions_has_the_gaps_of_pytorch)
{
	static const uint64_t first[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8,
		8, 8, 8 };
	static const uint64_t second[] = { 8, 8, 8, 8, 8, 8, 8, 2, 2, 2, 1, 1,
		1, 1, 1, 1 };
	struct torch_conf conf =
	    conf_of("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");

	EXPECT_EQ(memcmp(conf.divisions, first, sizeof(first)), 0);
	conf = conf_of(
	    "roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]");
	EXPECT_EQ(memcmp(conf.divisions, second, sizeof(second)), 0);
	conf = conf_of("roundup_power2_divisions:[64:8,256:4]");
	EXPECT_EQ(conf.divisions[7], 0);
}
