/*
 * Page-locked host memory in snapshots: it is shown beside that of devices, and
 * is in none of their sums.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* A device with 2 MiB, and 4 MiB of page-locked memory for it, half of which is
 * in use, in PyTorch's form. */
static const char *
snapshot(void)
{
	static const char text[] =
	    "{\"segments\": [{\"device\": 0, \"address\": 4096,"
	    " \"total_size\": 2097152, \"stream\": 0, \"blocks\": ["
	    "{\"address\": 4096, \"size\": 2097152, \"requested_size\": "
	    "2097152,"
	    " \"state\": \"active_allocated\", \"frames\": []}]}],"
	    " \"device_traces\": [[]],"
	    " \"host_segments\": [{\"address\": 1048576,"
	    " \"total_size\": 4194304, \"blocks\": ["
	    "{\"address\": 1048576, \"size\": 2097152,"
	    " \"requested_size\": 2000000, \"state\": \"active_allocated\","
	    " \"frames\": [{\"name\": \"to_host\", \"filename\": \"off.py\","
	    " \"line\": 7}]},"
	    "{\"address\": 3145728, \"size\": 2097152, \"requested_size\": 0,"
	    " \"state\": \"inactive\", \"frames\": []}]}],"
	    " \"host_traces\": []}";

	return written("pinned.json", text, sizeof(text) - 1);
}

TEST(show_has_it_behind_the_devices)
{
	struct command_result result =
	    ask(0, "show", snapshot(), "--blocks", NULL);
	const char *host = strstr(result.out, "page-locked host memory:");
	json_t *json;

	expect_begin(result.out, "2.00 MiB reserved in 1 segment;");
	EXPECT_NOT_NULL(host);
	EXPECT_STR_HAS(host, "4.00 MiB reserved in 1 segment");
	EXPECT_STR_HAS(host, "to_host (off.py:7)");
	command_free(&result);
	json = ask_json(0, "show", snapshot(), NULL, NULL);
	EXPECT_EQ(number_at(json, "reserved_bytes"), 2 << 20);
	EXPECT_EQ(number_at(json, "host.reserved_bytes"), 4 << 20);
	EXPECT_EQ(number_at(json, "host.segment_list.0.address"), 1 << 20);
	json_decref(json);
}

TEST(stats_has_sums_of_it)
{
	struct command_result result = ask(0, "stats", snapshot(), NULL, NULL);
	json_t *json;

	EXPECT_STR_HAS(result.out, "device 0 holds 2.00 MiB, of which");
	EXPECT_STR_HAS(result.out,
	    "device 0 holds 4.00 MiB of page-locked host memory, of which "
	    "2.00 MiB are allocated (50.0 %)");
	command_free(&result);
	json = ask_json(0, "stats", snapshot(), NULL, NULL);
	EXPECT_EQ(number_at(json, "devices.0.reserved_bytes"), 2 << 20);
	EXPECT_EQ(number_at(json, "host.0.allocated_bytes"), 2 << 20);
	EXPECT_EQ(number_at(json, "host.0.free_bytes"), 2 << 20);
	json_decref(json);
}

TEST(top_prints_who_holds_it)
{
	struct command_result result = ask(0, "top", snapshot(), NULL, NULL);
	json_t *json;

	EXPECT_STR_HAS(strstr(result.out, "page-locked"), "to_host (off.py:7)");
	command_free(&result);
	json = ask_json(0, "top", snapshot(), NULL, NULL);
	EXPECT_EQ(number_at(json, "active_bytes"), 2 << 20);
	EXPECT_STR_EQ(text_at(json, "host.rows.0.site"), "to_host (off.py:7)");
	json_decref(json);
	json = ask_json(0, "top", snapshot(), "--by", "size");
	EXPECT_EQ(number_at(json, "host.rows.0.requested_bytes"), 2000000);
	json_decref(json);
	json = ask_json(0, "top", snapshot(), "--by", "lifetime");
	EXPECT_EQ(number_at(json, "host.rows.0.blocks"), 1);
	json_decref(json);
}

TEST(frag_prints_its_unused_part)
{
	struct command_result result = ask(0, "frag", snapshot(), NULL, NULL);
	json_t *json;

	EXPECT_STR_HAS(strstr(result.out, "page-locked"),
	    "of 4.00 MiB reserved are not used");
	command_free(&result);
	json = ask_json(0, "frag", snapshot(), NULL, NULL);
	EXPECT_EQ(number_at(json, "free_bytes"), 0);
	EXPECT_EQ(number_at(json, "host.free_bytes"), 2 << 20);
	EXPECT_EQ(number_at(json, "host.rounding_bytes"), (2 << 20) - 2000000);
	json_decref(json);
}

TEST(check_looks_at_it)
{
	static const char broken[] =
	    "{\"segments\": [], \"device_traces\": [], \"host_segments\": "
	    "[{\"address\": 4096, \"total_size\": 100, \"blocks\": ["
	    "{\"address\": 4096, \"size\": 64, \"requested_size\": 65,"
	    " \"state\": \"active_allocated\", \"frames\": []}]}]}";
	struct command_result result = ask(0, "check", snapshot(), NULL, NULL);
	json_t *json;

	expect_begin(result.out, "0 faults in 2 segments, 3 blocks");
	command_free(&result);
	json = ask_json(1, "check",
	    written("broken.json", broken, sizeof(broken) - 1), NULL, NULL);
	EXPECT_EQ(json_array_size(value_at(json, "faults")), 2);
	EXPECT_STR_EQ(text_at(json, "faults.0.rule"), "I-11");
	EXPECT_STR_EQ(text_at(json, "faults.1.rule"), "I-1");
	json_decref(json);
}

TEST(export_keeps_it)
{
	struct command_result result =
	    ask(0, "export", snapshot(), "--format", "json");
	json_t *before = ask_json(0, "show", snapshot(), "--blocks", NULL);
	json_t *after = ask_json(0, "show",
	    written("again.json", result.out, strlen(result.out)), "--blocks",
	    NULL);

	EXPECT(json_equal(value_at(before, "host.segment_list"),
	    value_at(after, "host.segment_list")));
	json_decref(before);
	json_decref(after);
	command_free(&result);
}

TEST(a_snapshot_without_pinned_memory_does_not_mention_it)
{
	struct command_result result = ask(0, "show", train(), NULL, NULL);
	json_t *json = ask_json(0, "stats", train(), NULL, NULL);

	EXPECT_NULL(strstr(result.out, "page-locked"));
	EXPECT_NULL(json_object_get(json, "host"));
	json_decref(json);
	command_free(&result);
}
