/*
 * weir replay --as torch. The recorded peaks are those that PyTorch counted;
 * tests/data/README.md says where they are from.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

#define HEADER "action,addr,size,stream,time_us\n"
#define MIB UINT64_C(1048576)

static json_t *
played_as(const char *as, const char *path)
{
	struct command_result result =
	    command_weir("replay", "--json", "--as", as, path, NULL);
	json_t *json;

	if (result.status != 0)
		FAIL("exit status %d: %s", result.status, result.err);
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json);
	command_free(&result);
	return json;
}

static uint64_t
played_number(const char *as, const char *path, const char *key)
{
	json_t *json = played_as(as, path);
	uint64_t number =
	    (uint64_t)json_integer_value(json_object_get(json, key));

	json_decref(json);
	return number;
}

static char *
file_of(const char *rows)
{
	char *text;
	char *path;
	int length = asprintf(&text, HEADER "%s", rows);

	EXPECT_GT(length, 0);
	path = test_file("rows.csv", text, (size_t)length);
	free(text);
	return path;
}

static void
expect_usage(const char *as, const char *named)
{
	struct command_result result =
	    command_weir("replay", "--as", as, "absent.csv", NULL);

	EXPECT_EQ(result.status, 2);
	if (strstr(result.err, named) == NULL)
		FAIL("no '%s' in: %s", named, result.err);
	command_free(&result);
}

TEST(a_recorded_trace_holds_what_pytorch_held)
{
	char *path = test_data("fsdp_prefetch.csv.xz");

	/* All of the trace's own segments; PyTorch had one more before it. */
	EXPECT_EQ(played_number("torch", path, "peak_reserved_bytes"),
	    played_number("torch", path, "recorded_held_bytes"));
	EXPECT_EQ(played_number("torch", path, "peak_reserved_bytes"),
	    UINT64_C(10533994496) - 2 * MIB);
	EXPECT_EQ(played_number("torch", path, "peak_allocated_bytes"),
	    UINT64_C(1905000448));
	EXPECT_EQ(played_number("torch", path, "peak_active_bytes"),
	    UINT64_C(9550397440));
	free(path);
}

TEST(expandable_segments_hold_less_in_a_recorded_trace)
{
	char *path = test_data("fsdp_prefetch.csv.xz");
	uint64_t held = played_number(
	    "torch,expandable_segments:True", path, "peak_reserved_bytes");

	EXPECT_GE(held, UINT64_C(9550323712));
	EXPECT_LT(held, UINT64_C(10100000000));
	free(path);
}

TEST(rows_are_played_in_their_order)
{
	char *path = file_of("a,1000,4194304,0,1\n"
			     "a,2000,4194304,0,2\n"
			     "f,1000,4194304,0,3\n"
			     "a,3000,4194304,0,4\n"
			     "a,4000,15728640,0,5\n");
	json_t *json = played_as("torch", path);

	EXPECT_EQ(json_integer_value(json_object_get(json, "allocs")), 4);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "peak_reserved_bytes")),
	    36 * MIB);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "peak_segments")), 2);
	json_decref(json);
	free(path);
}

TEST(a_block_with_a_use_waits_for_its_completion)
{
	char *path = file_of("a,1000,20971520,0,1\n"
			     "r,1000,0,1,2\n"
			     "f,1000,20971520,0,3\n"
			     "a,2000,20971520,0,4\n"
			     "c,1000,20971520,0,5\n"
			     "a,3000,20971520,0,6\n");

	EXPECT_EQ(
	    played_number("torch", path, "peak_reserved_bytes"), 40 * MIB);
	EXPECT_EQ(played_number("torch", path, "peak_active_bytes"), 40 * MIB);
	free(path);
}

TEST(a_limit_makes_retries_and_failures)
{
	char *path = file_of("a,1000,20971520,0,1\n"
			     "f,1000,20971520,0,2\n"
			     "a,2000,41943040,0,3\n"
			     "a,3000,41943040,0,4\n"
			     "f,3000,41943040,0,5\n");
	struct command_result result = command_weir(
	    "replay", "--json", "--as", "torch", "--limit", "48M", path, NULL);
	json_t *json = json_loads(result.out, 0, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_EQ(json_integer_value(json_object_get(json, "retries")), 2);
	EXPECT_EQ(json_integer_value(json_object_get(json, "ooms")), 1);
	json_decref(json);
	command_free(&result);
	free(path);
}

TEST(an_emptied_cache_is_emptied_in_the_model)
{
	char *path = file_of("S,10000000,20971520,0,0\n"
			     "a,10000000,20971520,0,1\n"
			     "f,10000000,20971520,0,2\n"
			     "s,10000000,20971520,0,3\n"
			     "S,20000000,41943040,0,4\n"
			     "a,20000000,41943040,0,5\n");

	EXPECT_EQ(
	    played_number("torch", path, "peak_reserved_bytes"), 40 * MIB);
	EXPECT_EQ(
	    played_number("torch", path, "recorded_held_bytes"), 40 * MIB);
	EXPECT_EQ(played_number("torch,expandable_segments:True", path,
		      "peak_reserved_bytes"),
	    40 * MIB);
	free(path);
}

/* An older block of 3.75 MiB has a rest of 0.75 MiB, which only the place of
 * the next block shows. */
TEST(an_older_block_reaches_to_the_block_that_follows_it)
{
	static const char snapshot[] =
	    "{\"segments\": [{\"address\": 1073741824, \"total_size\": "
	    "31457280, \"segment_type\": \"large\", \"blocks\": ["
	    "{\"size\": 4718592, \"state\": \"inactive\"}, {\"size\": "
	    "20971520, \"requested_size\": 20971520, \"state\": "
	    "\"active_allocated\"}, {\"size\": 5767168, \"state\": "
	    "\"inactive\"}]}, {\"address\": 2147483648, \"total_size\": "
	    "27262976, \"segment_type\": \"large\", \"blocks\": ["
	    "{\"size\": 27262976, \"requested_size\": 27262976, "
	    "\"state\": \"active_allocated\"}]}], \"device_traces\": [["
	    "{\"action\": \"alloc\", \"addr\": 1078460416, \"size\": "
	    "20971520, \"stream\": 0}, {\"action\": \"alloc\", \"addr\": "
	    "2147483648, \"size\": 27262976, \"stream\": 0}, "
	    "{\"action\": \"free_requested\", \"addr\": 1073741824, "
	    "\"size\": 3932160, \"stream\": 0}, {\"action\": "
	    "\"free_completed\", \"addr\": 1073741824, \"size\": 3932160, "
	    "\"stream\": 0}]]}";
	char *path = test_file("rest.json", snapshot, sizeof(snapshot) - 1);

	EXPECT_EQ(
	    played_number("torch", path, "peak_reserved_bytes"), 56 * MIB);
	EXPECT_EQ(played_number("torch", path, "peak_allocated_bytes"),
	    (20 + 26) * MIB + 4718592);
	free(path);
}

TEST(a_wrong_allocator_or_setting_is_a_usage_error_that_names_it)
{
	expect_usage("tourch", "tourch");
	expect_usage("torch,max_split:3", "max_split");
	expect_usage("torch,expandable_segments:yes", "yes");
}

TEST(a_table_names_the_trace)
{
	char *path = file_of("a,1000,512,0,1\n");
	struct command_result result =
	    command_weir("replay", "--as", "torch", path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_NOT_NULL(strstr(result.out, "peak reserved"));
	EXPECT_NOT_NULL(strstr(result.out, "rows.csv"));
	command_free(&result);
	free(path);
}
