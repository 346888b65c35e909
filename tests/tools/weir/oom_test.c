/*
 * weir oom: each cause is found where it holds, and not where it does not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* The bytes of a cause, or 0 if it is not told. */
static uint64_t
cause(const json_t *json, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(value_at(json, "causes"), i, one)
	{
		if (strcmp(text_at(one, "cause"), name) == 0)
			return number_at(one, "bytes");
	}
	return 0;
}

TEST(the_last_failure_of_the_trace_is_explained)
{
	json_t *json = ask_json(0, "oom", train(), NULL, NULL);

	EXPECT_EQ(number_at(json, "size_bytes"), 48 << 20);
	EXPECT_EQ(number_at(json, "device_free_bytes"), 24 << 20);
	EXPECT_EQ(number_at(json, "later_events"), 0);
	EXPECT_STR_EQ(
	    text_at(json, "frames.1.filename"), "/home/user/model.py");
	EXPECT_EQ(cause(json, "other streams"), 1396736);
	EXPECT_EQ(cause(json, "pending"), 700416);
	EXPECT_EQ(cause(json, "private pools"), 16777216);
	EXPECT_EQ(cause(json, "scattered"), 39666688 + 700416 + (24 << 20));
	EXPECT_EQ(cause(json, "fits"), 0);
	EXPECT_EQ(cause(json, "fragmentation"), 0);
	EXPECT_EQ(cause(json, "full"), 0);
	EXPECT_EQ(number_at(json, "own_pool.free_bytes"), 19398656);
	EXPECT_EQ(number_at(json, "private_pools.segments"), 1);
	EXPECT_EQ(number_at(json, "all.segments"), 6);
	json_decref(json);
}

TEST(a_request_that_pieces_would_hold_is_fragmentation)
{
	json_t *json = ask_json(0, "oom", train(), "--size", "12M");

	EXPECT_EQ(cause(json, "fragmentation"), 19398656);
	EXPECT_EQ(cause(json, "fits"), 0);
	EXPECT(json_is_null(value_at(json, "device_free_bytes")));
	json_decref(json);
}

TEST(a_request_that_a_free_block_holds_fits)
{
	json_t *json = ask_json(0, "oom", train(), "--size", "9M");

	EXPECT_EQ(cause(json, "fits"), 9961472);
	EXPECT_EQ(cause(json, "fragmentation"), 0);
	EXPECT_EQ(cause(json, "scattered"), 0);
	json_decref(json);
}

TEST(a_request_larger_than_all_there_is_is_told_what_is_missing)
{
	json_t *json = ask_json(0, "oom", train(), "--size", "1G");

	EXPECT_EQ(cause(json, "full"), (UINT64_C(1) << 30) - 39666688 - 700416);
	json_decref(json);
}

TEST(a_small_request_is_of_the_small_pool)
{
	json_t *json = ask_json(0, "oom", train(), "--size", "1K");

	EXPECT_EQ(number_at(json, "own_pool.reserved_bytes"), 2097152);
	EXPECT_EQ(cause(json, "kind"), 19398656);
	json_decref(json);
}

TEST(the_explanation_is_text_for_people)
{
	struct command_result result = ask(0, "oom", train(), NULL, NULL);

	expect_begin(result.out,
	    "a request of 48.00 MiB on stream 0 of device 0 failed; "
	    "the driver had 24.00 MiB free\n");
	EXPECT_STR_HAS(result.out, "asked for by forward (model.py:15)\n");
	EXPECT_STR_HAS(result.out, "- Private pools of graphs hold 20.00 MiB");
	EXPECT_STR_HAS(result.out, "this stream's pool");
	EXPECT_STR_HAS(result.out, "  49.00 MiB  __init__ (model.py:8)\n");
	command_free(&result);
}

TEST(without_a_failure_it_wants_a_size)
{
	expect_refused(
	    "oom", snapshot_data("segments.pickle"), "has no 'oom' event");
}
