/*
 * weir oom: each cause is listed if it applies, and only then.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* The bytes of a cause; 0 if it is not listed. */
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

TEST(the_missing_bytes_of_a_request_larger_than_all_memory_are_printed)
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
	EXPECT_STR_HAS(result.out, "requested by forward (model.py:15)\n");
	EXPECT_STR_HAS(result.out, "- Private pools of graphs hold 20.00 MiB");
	EXPECT_STR_HAS(result.out, "this stream's pool");
	EXPECT_STR_HAS(result.out,
	    "\nlargest holders:\n"
	    "  49.00 MiB  __init__ (model.py:8)\n"
	    "  12.50 MiB  remember (cache.py:7)\n"
	    "   4.00 MiB  capture (graph.py:3)\n");
	command_free(&result);
}

/* A failure, and the program's later events. `blocks` are the blocks at the
 * end, and `settings` other parts of the snapshot. */
static const char *
failed_before(const char *later, const char *blocks, const char *settings)
{
	static const char form[] =
	    "{%s \"device_traces\": [["
	    "{\"action\": \"segment_alloc\", \"addr\": 20971520,"
	    " \"size\": 20971520, \"stream\": 0},"
	    "{\"action\": \"alloc\", \"addr\": 20971520,"
	    " \"size\": 8388608, \"stream\": 0, \"frames\": ["
	    "{\"name\": \"net\", \"filename\": \"n.py\", \"line\": 1}]},"
	    "{\"action\": \"alloc\", \"addr\": 33554432,"
	    " \"size\": 4194304, \"stream\": 0},"
	    "{\"action\": \"oom\", \"device_free\": 1048576,"
	    " \"size\": 6291456, \"stream\": 0}"
	    "%s]], \"segments\": [%s]}";
	char text[4096];
	int n = snprintf(text, sizeof(text), form, settings, later, blocks);

	EXPECT_LT(n, (int)sizeof(text));
	return written("failed.json", text, (size_t)n);
}

static const char all_is_free[] =
    ", {\"action\": \"free_requested\", \"addr\": 20971520,"
    " \"size\": 8388608, \"stream\": 0},"
    "{\"action\": \"free_completed\", \"addr\": 20971520,"
    " \"size\": 8388608, \"stream\": 0},"
    "{\"action\": \"free_requested\", \"addr\": 33554432,"
    " \"size\": 4194304, \"stream\": 0},"
    "{\"action\": \"free_completed\", \"addr\": 33554432,"
    " \"size\": 4194304, \"stream\": 0},"
    "{\"action\": \"segment_free\", \"addr\": 20971520,"
    " \"size\": 20971520, \"stream\": 0}";

TEST(a_failure_is_judged_at_its_moment)
{
	const char *path = failed_before(all_is_free, "", "");
	json_t *json = ask_json(0, "oom", path, NULL, NULL);

	/* 4 MiB are free between the two blocks, and 4 MiB after them. */
	EXPECT_EQ(number_at(json, "later_events"), 5);
	EXPECT_EQ(cause(json, "fits"), 0);
	EXPECT_EQ(cause(json, "fragmentation"), 8 << 20);
	EXPECT_EQ(number_at(json, "own_pool.reserved_bytes"), 20 << 20);
	EXPECT_EQ(number_at(json, "own_pool.allocated_bytes"), 12 << 20);
	EXPECT_EQ(number_at(json, "own_pool.largest_free_bytes"), 4 << 20);
	json_decref(json);
	struct command_result result = ask(0, "oom", path, NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "the snapshot was taken 5 events later; the figures are of the "
	    "moment of the failure\n");
	EXPECT_STR_HAS(result.out, "  8.00 MiB  net (n.py:1)\n");
	command_free(&result);
}

TEST(a_remedy_has_its_gain_and_a_setting_to_copy)
{
	json_t *json = ask_json(0, "oom",
	    failed_before(all_is_free, "",
		"\"allocator_settings\": {\"PYTORCH_CUDA_ALLOC_CONF\": "
		"\"max_split_size_mb:200\"},"),
	    NULL, NULL);

	EXPECT_STR_EQ(text_at(json, "causes.0.cause"), "fragmentation");
	EXPECT_EQ(number_at(json, "causes.0.remedies.0.gives_bytes"), 8 << 20);
	EXPECT_STR_EQ(text_at(json, "causes.0.setting"),
	    "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:200,"
	    "expandable_segments:True");
	json_decref(json);
	json = ask_json(0, "oom",
	    failed_before(all_is_free, "", "\"weir\": {\"version\": \"1\"},"),
	    NULL, NULL);
	EXPECT_STR_EQ(text_at(json, "causes.0.setting"),
	    "export WEIR_CONF=expandable_segments:True");
	json_decref(json);
}

/* The index of a cause in the list; the test fails if it is not listed. */
static size_t
cause_index(const json_t *json, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(value_at(json, "causes"), i, one)
	{
		if (strcmp(text_at(one, "cause"), name) == 0)
			return i;
	}
	FAIL("there is no cause '%s'", name);
}

/* A remedy of a cause. */
static const json_t *
remedy(const json_t *json, const char *name, size_t k)
{
	const json_t *causes = value_at(json, "causes");
	const json_t *remedies = value_at(
	    json_array_get(causes, cause_index(json, name)), "remedies");

	EXPECT_LT(k, json_array_size(remedies));
	return json_array_get(remedies, k);
}

/* Each remedy says how much it gives, and its price. */
static void
expect_prices(const json_t *json)
{
	const json_t *one;
	const json_t *each;
	size_t i;
	size_t k;

	json_array_foreach(value_at(json, "causes"), i, one)
	{
		json_array_foreach(value_at(one, "remedies"), k, each)
		{
			expect_begin(text_at(each, "text"), "gives up to ");
			EXPECT_STR_HAS(text_at(each, "text"), "; costs ");
			EXPECT_GT(number_at(each, "gives_bytes"), 0);
		}
		EXPECT(k == 0 ||
		    json_equal(value_at(one, "setting"),
			value_at(one, "remedies.0.setting")));
	}
}

/* PyTorch's cache would hide its requests from weir without --torch. */
TEST(a_program_with_pytorch_s_allocator_gets_weir_in_its_place)
{
	json_t *json = ask_json(0, "oom", train(), NULL, NULL);
	const json_t *weir = remedy(json, "other streams", 0);

	expect_prices(json);
	EXPECT_STR_EQ(text_at(weir, "setting"), "weir run --torch -- PROGRAM");
	EXPECT_EQ(number_at(weir, "gives_bytes"), 19398656 + 1396736);
	EXPECT_STR_HAS(text_at(weir, "text"), "costs about 1 % of the time");
	json_decref(json);
	struct command_result result = ask(0, "oom", train(), NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "      weir run --torch -- PROGRAM\n"
	    "          gives up to 19.83 MiB; costs about 1 % of the time; a "
	    "replay shows that it serves the request\n");
	EXPECT_NULL(strstr(result.out, "prefer:memory"));
	command_free(&result);
}

TEST(remedies_that_cost_nothing_come_first)
{
	json_t *json = ask_json(0, "oom", train(), "--size", "12M");

	expect_prices(json);
	EXPECT_STR_EQ(text_at(json, "causes.0.cause"), "fragmentation");
	EXPECT_STR_HAS(text_at(remedy(json, "fragmentation", 0), "text"),
	    "costs nothing but");
	EXPECT_STR_HAS(
	    text_at(remedy(json, "fragmentation", 1), "setting"), "--torch");
	EXPECT_LT(cause_index(json, "other streams"),
	    cause_index(json, "private pools"));
	EXPECT_LT(
	    cause_index(json, "private pools"), cause_index(json, "scattered"));
	json_decref(json);
}

/* A failure of 96 MiB beside 64 MiB that another stream has free; `settings`
 * are other parts of the snapshot. */
static const char *
failed_beside(const char *settings)
{
	static const char form[] =
	    "{%s \"device_traces\": [["
	    "{\"action\": \"oom\", \"device_free\": 1048576,"
	    " \"size\": 100663296, \"stream\": 0}]], \"segments\": ["
	    "{\"device\": 0, \"address\": 1073741824,"
	    " \"total_size\": 134217728, \"stream\": 7,"
	    " \"segment_type\": \"large\", \"is_expandable\": %s,"
	    " \"blocks\": ["
	    "{\"address\": 1073741824, \"size\": 67108864,"
	    " \"requested_size\": 67108864, \"state\": \"active_allocated\"},"
	    "{\"address\": 1140850688, \"size\": 67108864,"
	    " \"state\": \"inactive\"}]}]}";
	bool weir = strstr(settings, "weir") != NULL;
	char text[4096];
	int n = snprintf(
	    text, sizeof(text), form, settings, weir ? "true" : "false");

	EXPECT_LT(n, (int)sizeof(text));
	return written("beside.json", text, (size_t)n);
}

TEST(whole_pages_of_other_streams_are_free_for_expandable_segments)
{
	json_t *json = ask_json(0, "oom", failed_beside(""), NULL, NULL);

	expect_prices(json);
	EXPECT_STR_EQ(text_at(remedy(json, "other streams", 0), "setting"),
	    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
	EXPECT_EQ(number_at(remedy(json, "other streams", 0), "gives_bytes"),
	    64 << 20);
	EXPECT_STR_HAS(
	    text_at(remedy(json, "other streams", 1), "setting"), "--torch");
	json_decref(json);
}

TEST(a_policy_that_takes_time_is_the_last_remedy_and_says_so)
{
	json_t *json = ask_json(0, "oom",
	    failed_beside("\"weir\": {\"version\": \"1\"},"
			  "\"allocator_settings\": {\"weir_options\": "
			  "{\"tcache\": \"0\", \"prefer\": \"speed\"}},"),
	    NULL, NULL);

	expect_prices(json);
	EXPECT_STR_EQ(text_at(remedy(json, "other streams", 0), "setting"),
	    "export WEIR_CONF=tcache:0,prefer:speed,handle_mb:2");
	EXPECT_STR_EQ(text_at(remedy(json, "other streams", 1), "setting"),
	    "export WEIR_CONF=tcache:0,prefer:memory");
	EXPECT_STR_HAS(
	    text_at(remedy(json, "other streams", 1), "text"), "costs time: ");
	json_decref(json);
}

TEST(a_limit_that_is_the_cause_is_named)
{
	static const char settings[] =
	    "\"weir\": {\"version\": \"1\"}, \"allocator_settings\": {"
	    "\"weir_limit_bytes\": {\"0\": 20971520},"
	    "\"weir_limit_sources\": {\"0\": \"memory_limit_mb\"}},";
	const char *path = failed_before(all_is_free, "", settings);
	json_t *json = ask_json(0, "oom", path, NULL, NULL);

	EXPECT_STR_EQ(text_at(json, "causes.0.cause"), "limit");
	EXPECT_EQ(cause(json, "limit"), 1 << 20);
	EXPECT_STR_EQ(text_at(json, "causes.0.setting"),
	    "export WEIR_CONF=memory_limit_mb:46");
	EXPECT_EQ(number_at(json, "limit_bytes"), 20 << 20);
	EXPECT_STR_EQ(text_at(json, "limit_source"), "memory_limit_mb");
	json_decref(json);
	struct command_result result = ask(0, "oom", path, NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "the driver had 1.00 MiB free and the limit was 20.00 MiB "
	    "(memory_limit_mb)\n");
	/* The driver's memory beyond the limit is not counted. */
	EXPECT_STR_HAS(result.out, "In all 8.00 MiB are free");
	command_free(&result);
}

TEST(without_a_failure_it_wants_a_size)
{
	expect_refused(
	    "oom", snapshot_data("segments.pickle"), "has no 'oom' event");
}
