/*
 * weir show: segments, blocks, and the sums of each stream and pool.
 */
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(show_lists_segments_with_their_sums)
{
	json_t *json = ask_json(0, "show", train(), NULL, NULL);

	EXPECT_EQ(number_at(json, "reserved_bytes"), 130023424);
	EXPECT_EQ(json_array_size(value_at(json, "segment_list")), 7);
	EXPECT_EQ(number_at(json, "segment_list.0.address"),
	    UINT64_C(0x7f0000000000));
	EXPECT_EQ(number_at(json, "segment_list.0.reserved_bytes"), 20971520);
	EXPECT_EQ(number_at(json, "segment_list.4.stream"), 0x7f00);
	EXPECT_EQ(number_at(json, "segment_list.4.pending_bytes"), 700416);
	EXPECT_STR_EQ(text_at(json, "segment_list.3.pool"), "(1, 0)");
	EXPECT_STR_EQ(text_at(json, "segment_list.2.kind"), "small");
	EXPECT_NULL(
	    json_object_get(value_at(json, "segment_list.0"), "block_list"));
	json_decref(json);
}

TEST(show_lists_blocks_if_asked)
{
	json_t *json = ask_json(0, "show", train(), "--blocks", NULL);

	EXPECT_EQ(
	    json_array_size(value_at(json, "segment_list.0.block_list")), 4);
	EXPECT_EQ(
	    number_at(json, "segment_list.0.block_list.0.size_bytes"), 6 << 20);
	EXPECT_STR_EQ(text_at(json, "segment_list.0.block_list.0.state"),
	    "active_allocated");
	EXPECT_STR_EQ(
	    text_at(json, "segment_list.0.block_list.0.frames.0.filename"),
	    "/home/user/model.py");
	EXPECT_STR_EQ(text_at(json, "segment_list.4.block_list.0.state"),
	    "active_pending_free");
	json_decref(json);
}

TEST(show_draws_a_map_of_each_segment)
{
	struct command_result result = ask(0, "show", train(), NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "124.00 MiB reserved in 7 segments; 70.50 MiB of it allocated "
	    "(56.9 %), the largest free block is 16.00 MiB\n");
	EXPECT_STR_HAS(result.out, "  ##########+..........+##\n");
	EXPECT_STR_HAS(result.out, "  ~~~~~~~~~...............\n");
	EXPECT_STR_HAS(result.out, "0    7f00  default  small         1");
	command_free(&result);
}

TEST(show_names_who_allocated_a_block)
{
	struct command_result result =
	    ask(0, "show", train(), "--blocks", NULL);

	EXPECT_STR_HAS(result.out, "  7f0000000000");
	EXPECT_STR_HAS(result.out, "remember (cache.py:7)");
	EXPECT_STR_HAS(result.out, "pending");
	command_free(&result);
}

TEST(show_of_a_device_leaves_out_the_others)
{
	struct command_result result = ask(0, "show", train(), "--device", "1");

	EXPECT_STR_HAS(result.out, "20.00 MiB reserved in 1 segment");
	EXPECT_NULL(strstr(result.out, "7f0000000000"));
	command_free(&result);
}

/* Text of a file must not control the terminal. */
TEST(control_characters_of_a_file_are_not_printed)
{
	static const char text[] =
	    "{\"segments\": [{\"address\": 0, \"total_size\": 512, \"blocks\": "
	    "[{\"size\": 512, \"state\": \"active_allocated\", \"frames\": "
	    "[{\"name\": \"a\\u001b[31m\\u009bb\", \"filename\": "
	    "\"x\\ny.py\", \"line\": 1}]}]}]}";
	const char *path = written("escape.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "show", path, "--blocks", NULL);

	EXPECT_NULL(strchr(result.out, '\033'));
	EXPECT_STR_HAS(result.out, "a?[31m");
	EXPECT_STR_HAS(result.out, "(x?y.py:1)");
	command_free(&result);
}

TEST(a_snapshot_of_nothing_is_shown_as_such)
{
	static const char text[] = "{\"segments\": [], \"device_traces\": []}";
	const char *path = written("empty.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "show", path, NULL, NULL);

	EXPECT_STR_HAS(result.out, "0 bytes reserved in 0 segments");
	command_free(&result);
}
