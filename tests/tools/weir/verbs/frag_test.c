/*
 * weir frag: memory that is reserved and not used.
 */
#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(fragmentation_is_the_share_of_free_memory_beyond_the_largest_block)
{
	json_t *json = ask_json(0, "frag", train(), NULL, NULL);
	const json_t *value = value_at(json, "pools.1.fragmentation");

	EXPECT_EQ(json_array_size(value_at(json, "pools")), 5);
	EXPECT_EQ(number_at(json, "pools.1.free_bytes"), 19398656);
	EXPECT_EQ(number_at(json, "pools.1.largest_free_bytes"), 9961472);
	EXPECT_GT(json_real_value(value), 0.4864);
	EXPECT_LT(json_real_value(value), 0.4866);
	EXPECT_EQ(
	    json_real_value(value_at(json, "pools.0.fragmentation")), 0.0);
	json_decref(json);
}

TEST(rounding_is_memory_that_nobody_requested)
{
	json_t *json = ask_json(0, "frag", train(), NULL, NULL);

	EXPECT_EQ(number_at(json, "rounding_bytes"),
	    number_at(json, "active_bytes") -
		number_at(json, "requested_bytes"));
	EXPECT_EQ(number_at(json, "rounding_bytes"), 525140);
	json_decref(json);
}

TEST(free_blocks_are_counted_by_powers_of_two)
{
	json_t *json = ask_json(0, "frag", train(), NULL, NULL);

	EXPECT_EQ(json_array_size(value_at(json, "free_block_sizes")), 3);
	EXPECT_EQ(number_at(json, "free_block_sizes.0.from_bytes"), 1 << 20);
	EXPECT_EQ(number_at(json, "free_block_sizes.0.blocks"), 2);
	EXPECT_EQ(number_at(json, "free_block_sizes.1.bytes"), 35126784);
	EXPECT_EQ(number_at(json, "free_block_sizes.2.from_bytes"), 16 << 20);
	json_decref(json);
}

TEST(idle_segments_are_counted_separately)
{
	static const char text[] =
	    "[{\"address\": 0, \"total_size\": 2097152, \"blocks\": [{\"size\":"
	    " 2097152, \"state\": \"inactive\"}]}, {\"address\": 4194304, "
	    "\"total_size\": 1024, \"blocks\": [{\"size\": 512, \"state\": "
	    "\"active_allocated\", \"requested_size\": 500}, {\"size\": 512, "
	    "\"state\": \"inactive\"}]}]";
	const char *path = written("idle.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "frag", path, NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "2.00 MiB of 2.00 MiB reserved are not used (100.0 %): 512 bytes "
	    "in free pieces, 2.00 MiB in 1 idle segment, 12 bytes by "
	    "rounding\n");
	command_free(&result);
}
