/*
 * weir top: the holders of memory.
 */
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(top_adds_up_by_stack)
{
	json_t *json = ask_json(0, "top", train(), NULL, NULL);

	EXPECT_STR_EQ(text_at(json, "by"), "stack");
	EXPECT_EQ(number_at(json, "active_bytes"), 74628608);
	EXPECT_EQ(number_at(json, "row_count"), 4);
	EXPECT_STR_EQ(text_at(json, "rows.0.site"), "__init__ (model.py:8)");
	EXPECT_EQ(number_at(json, "rows.0.bytes"), 56626688);
	EXPECT_EQ(number_at(json, "rows.0.blocks"), 6);
	EXPECT_STR_EQ(text_at(json, "rows.1.site"), "remember (cache.py:7)");
	EXPECT_EQ(number_at(json, "rows.1.blocks"), 8);
	EXPECT_EQ(json_array_size(value_at(json, "rows.1.frames")), 3);
	EXPECT_STR_EQ(text_at(json, "rows.3.site"), "prefetch (data.py:30)");
	json_decref(json);
}

TEST(top_adds_up_by_size)
{
	json_t *json = ask_json(0, "top", train(), "--by", "size");

	EXPECT_EQ(number_at(json, "row_count"), 9);
	EXPECT_EQ(number_at(json, "rows.0.requested_bytes"), 41943040);
	EXPECT_EQ(number_at(json, "rows.1.requested_bytes"), 1572864);
	EXPECT_EQ(number_at(json, "rows.1.blocks"), 8);
	EXPECT_EQ(number_at(json, "rows.1.bytes"), 13107200);
	json_decref(json);
}

TEST(top_adds_up_by_lifetime)
{
	json_t *json = ask_json(0, "top", train(), "--by", "lifetime");

	EXPECT_EQ(number_at(json, "row_count"), 4);
	EXPECT_EQ(number_at(json, "rows.0.least_age_us"), 0);
	EXPECT_EQ(number_at(json, "rows.2.least_age_us"), 100);
	EXPECT_EQ(number_at(json, "rows.2.blocks"), 6);
	EXPECT_EQ(number_at(json, "rows.3.bytes"), 57674752);
	json_decref(json);
}

TEST(blocks_older_than_the_trace_have_a_row)
{
	json_t *json = ask_json(
	    0, "top", snapshot_data("segments.pickle"), "--by", "lifetime");

	EXPECT_EQ(number_at(json, "row_count"), 1);
	EXPECT(json_is_null(value_at(json, "rows.0.least_age_us")));
	EXPECT_EQ(number_at(json, "rows.0.blocks"), 16);
	json_decref(json);
}

TEST(top_prints_shares_and_the_number_of_omitted_rows)
{
	struct command_result result = ask(0, "top", train(), "--count", "2");

	EXPECT_STR_HAS(result.out,
	    "70.50 MiB are in use and 684.00 KiB pending, in 16 blocks\n");
	EXPECT_STR_HAS(
	    result.out, "54.00 MiB  75.9 %       6  __init__ (model.py:8)\n");
	EXPECT_STR_HAS(result.out, "and 2 more; --count shows them\n");
	EXPECT_NULL(strstr(result.out, "capture"));
	command_free(&result);
}

TEST(top_prints_frames_if_asked)
{
	struct command_result result = ask(0, "top", train(), "--frames", "2");

	EXPECT_STR_HAS(result.out, "    __init__ (model.py:8)\n");
	EXPECT_STR_HAS(result.out, "    <module> (train.py:40)\n");
	command_free(&result);
}

TEST(top_refuses_an_unknown_order)
{
	struct command_result result =
	    command_weir("top", "--by", "colour", train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "stack, size or lifetime, not 'colour'");
	command_free(&result);
	result = command_weir("top", "--count", "0", train(), NULL);
	EXPECT_EQ(result.status, 2);
	command_free(&result);
}

TEST(one_block_is_one_block)
{
	static const char text[] =
	    "{\"device_traces\": [], \"segments\": [{\"address\": 4096, "
	    "\"total_size\": 512, \"stream\": -1, \"blocks\": [{\"size\": "
	    "512, \"requested_size\": 512, \"state\": "
	    "\"active_allocated\"}]}]}";
	const char *path = written("one.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "top", path, NULL, NULL);

	EXPECT_STR_HAS(result.out, "512 bytes are in use, in 1 block\n");
	command_free(&result);
	/* Memory of no stream has no handle. */
	result = ask(0, "show", path, NULL, NULL);
	EXPECT_STR_HAS(result.out, "in 1 segment;");
	EXPECT_STR_HAS(result.out, "no stream");
	EXPECT_NULL(strstr(result.out, "ffff"));
	command_free(&result);
}

TEST(a_device_that_is_not_there_is_an_error)
{
	static const char *const commands[] = { "top", "show", "stats", "frag",
		"trace", "leaks", "oom", "check" };

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct command_result result =
		    command_weir(commands[i], "--device", "7", train(), NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_EQ(result.out, "");
		EXPECT_STR_HAS(result.err,
		    "train4.pickle has devices 0 and 1 only, not 7");
		command_free(&result);
	}
}

TEST(a_snapshot_of_one_device_has_device_0_only)
{
	static const char text[] =
	    "[{\"address\": 4096, \"total_size\": 512, \"blocks\": "
	    "[{\"size\": 512, \"state\": \"active_allocated\"}]}]";
	const char *path = written("one.json", text, sizeof(text) - 1);
	struct command_result result =
	    command_weir("top", "-d", "1", path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "one.json has device 0 only, not 1");
	command_free(&result);
	result = ask(0, "top", path, "-d", "0");
	EXPECT_STR_HAS(result.out, "512 bytes are in use, in 1 block\n");
	command_free(&result);
}

TEST(a_snapshot_without_memory_has_no_device)
{
	static const char text[] = "{\"segments\": [], \"device_traces\": []}";
	const char *path = written("none.json", text, sizeof(text) - 1);
	struct command_result result =
	    command_weir("top", "-d", "0", path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "none.json is empty: it has no device 0");
	command_free(&result);
}

/* A function that allocates for all others would be named in each row. */
TEST(stacks_of_one_function_are_distinguished_by_their_callers)
{
#define FRAME(name, line)                                                      \
	"{\"name\": \"" #name "\", \"filename\": \"a.c\", \"line\": " #line "}"
#define BLOCK(size, frames)                                                    \
	"{\"size\": " #size ", \"state\": \"active_allocated\", "              \
	"\"frames\": [" frames "]}"
	static const char text[] =
	    "[{\"address\": 4096, \"total_size\": 5120, \"blocks\": [" BLOCK(
		2048,
		FRAME(take, 7) ", " FRAME(load, 9) ", " FRAME(
		    main, 1)) ", " BLOCK(1536,
		FRAME(take, 7) ", " FRAME(load, 9) ", " FRAME(
		    main, 2)) ", " BLOCK(1024, FRAME(take, 7)) ", " BLOCK(512,
		FRAME(other, 3)) "]}]";
	const char *path = written("same.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "top", path, NULL, NULL);

	EXPECT_STR_HAS(result.out, "take (a.c:7), called by main (a.c:1)\n");
	EXPECT_STR_HAS(result.out, "take (a.c:7), called by main (a.c:2)\n");
	EXPECT_STR_HAS(result.out, "take (a.c:7)\n"); /* no frame calls it */
	EXPECT_STR_HAS(result.out, "other (a.c:3)\n");
	command_free(&result);
#undef BLOCK
#undef FRAME
}
