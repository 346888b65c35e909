/*
 * weir merge: the comparison of ranks, and one snapshot of all of them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* A rank with `bytes` of one stack, and 512 of another. */
static const char *
rank(const char *name, unsigned bytes)
{
	char text[1024];
	int length = snprintf(text, sizeof(text),
	    "{\"segments\": [{\"address\": 4096, \"total_size\": %u, "
	    "\"blocks\": [{\"size\": %u, \"state\": \"active_allocated\", "
	    "\"frames\": [{\"name\": \"f\", \"filename\": \"f.py\", \"line\": "
	    "1}]}, {\"size\": 512, \"state\": \"active_allocated\"}]}], "
	    "\"device_traces\": [[{\"action\": \"alloc\", \"addr\": 4096, "
	    "\"size\": %u}]]}",
	    bytes + 512, bytes, bytes);

	return written(name, text, (size_t)length);
}

TEST(imbalance_is_the_excess_of_the_largest_over_the_mean)
{
	const char *a = rank("a.json", 1024);
	const char *b = rank("b.json", 3072);
	struct command_result result =
	    command_weir("merge", "--json", a, b, NULL);
	json_t *json = json_loads(result.out, 0, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(json_array_size(value_at(json, "ranks")), 2);
	EXPECT_EQ(number_at(json, "ranks.0.allocated_bytes"), 1536);
	EXPECT_EQ(number_at(json, "ranks.1.allocated_bytes"), 3584);
	/* 3584 over a mean of 2560. */
	EXPECT_GT(
	    json_real_value(value_at(json, "allocated_imbalance")), 0.3999);
	EXPECT_LT(
	    json_real_value(value_at(json, "allocated_imbalance")), 0.4001);
	EXPECT_STR_EQ(text_at(json, "stacks.0.site"), "f (f.py:1)");
	EXPECT_EQ(number_at(json, "stacks.0.least_bytes"), 1024);
	EXPECT_EQ(number_at(json, "stacks.0.most_bytes"), 3072);
	EXPECT_EQ(number_at(json, "stacks.0.most_rank"), 1);
	EXPECT_EQ(number_at(json, "stacks.1.least_bytes"), 512);
	json_decref(json);
	command_free(&result);
}

TEST(a_stack_that_a_rank_lacks_is_nothing_there)
{
	const char *a = rank("a.json", 1024);
	struct command_result result =
	    command_weir("merge", "--json", a, train(), NULL);
	json_t *json = json_loads(result.out, 0, NULL);

	EXPECT_STR_EQ(text_at(json, "stacks.0.site"), "__init__ (model.py:8)");
	EXPECT_EQ(number_at(json, "stacks.0.least_bytes"), 0);
	EXPECT_EQ(number_at(json, "stacks.0.most_rank"), 1);
	json_decref(json);
	command_free(&result);
}

TEST(the_ranks_are_printed_as_a_table)
{
	const char *a = rank("a.json", 1024);
	const char *b = rank("b.json", 3072);
	struct command_result result = command_weir("merge", a, b, NULL);

	expect_begin(result.out,
	    "2 ranks: allocated memory is uneven by 40.0 %, reserved "
	    "by 40.0 %\n");
	EXPECT_STR_HAS(result.out, "1.00 KiB  3.00 KiB        1  f (f.py:1)");
	command_free(&result);
}

TEST(merged_ranks_are_a_snapshot_of_many_devices)
{
	const char *a = rank("a.json", 1024);
	const char *out = written("out.json", "", 0);
	struct command_result result =
	    command_weir("merge", "-o", out, train(), a, train(), NULL);
	struct stat about;
	json_t *json;

	EXPECT_EQ(result.status, 0);
	command_free(&result);
	EXPECT_EQ(stat(out, &about), 0);
	EXPECT_EQ(about.st_mode & 0777, 0600);
	json = ask_json(0, "stats", out, NULL, NULL);
	EXPECT_EQ(json_array_size(value_at(json, "devices")), 5);
	EXPECT_EQ(number_at(json, "devices.0.allocated_bytes"), 68684800);
	EXPECT_EQ(number_at(json, "devices.1.allocated_bytes"), 5243392);
	EXPECT_EQ(number_at(json, "devices.2.allocated_bytes"), 1536);
	EXPECT_EQ(number_at(json, "devices.3.allocated_bytes"), 68684800);
	EXPECT_EQ(number_at(json, "devices.4.events.alloc"), 1);
	/* The first device of each rank has the rank's name. */
	EXPECT_STR_EQ(json_string_value(json_object_get(
			  value_at(json, "settings"), "weir_ranks.0")),
	    train());
	EXPECT_STR_EQ(json_string_value(json_object_get(
			  value_at(json, "settings"), "weir_ranks.2")),
	    a);
	EXPECT_STR_EQ(json_string_value(json_object_get(
			  value_at(json, "settings"), "weir_ranks.3")),
	    train());
	json_decref(json);
}

TEST(a_rank_that_cannot_be_read_is_named)
{
	struct command_result result =
	    command_weir("merge", train(), "/nowhere/x.pickle", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "/nowhere/x.pickle: No such file");
	command_free(&result);
}

/* A rank that lacks a device of another rank holds nothing of it. */
TEST(a_device_that_no_rank_has_is_refused)
{
	const char *one = rank("one.json", 1024);
	struct command_result result =
	    command_weir("merge", "-d", "7", one, train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "one.json has device 0 only, not 7");
	EXPECT_STR_HAS(
	    result.err, "train4.pickle has devices 0 and 1 only, not 7");
	command_free(&result);
	result = command_weir("merge", "-d", "1", one, train(), NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}
