/*
 * weir check: a good snapshot has no fault, and each fault is found by name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(good_snapshots_have_no_fault)
{
	static const char *const names[] = { "train0.pickle", "train4.pickle",
		"train.json", "segments.pickle" };

	for (int i = 0; i < 4; i++) {
		json_t *json =
		    ask_json(0, "check", snapshot_data(names[i]), NULL, NULL);

		EXPECT_EQ(json_array_size(value_at(json, "faults")), 0);
		json_decref(json);
	}
}

/* The number of faults with this rule and text. */
static unsigned
count_faults(const json_t *json, const char *rule, const char *what)
{
	const json_t *one;
	unsigned count = 0;
	size_t i;

	json_array_foreach(value_at(json, "faults"), i, one)
	{
		count += strcmp(text_at(one, "rule"), rule) == 0 &&
		    strstr(text_at(one, "what"), what) != NULL;
	}
	return count;
}

TEST(each_fault_is_named_by_the_invariant_it_breaks)
{
	json_t *json =
	    ask_json(1, "check", snapshot_data("broken.pickle"), NULL, NULL);

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 13);
	EXPECT_EQ(count_faults(json, "I-1", "no multiple of 512"), 1);
	EXPECT_EQ(count_faults(json, "I-1", "a gap of 100 bytes"), 1);
	EXPECT_EQ(count_faults(json, "I-1", "the blocks end at"), 1);
	EXPECT_EQ(count_faults(json, "I-3", "allocated_size is"), 2);
	EXPECT_EQ(count_faults(json, "I-3", "active_size is"), 1);
	EXPECT_EQ(count_faults(json, "I-3", "requested_size is"), 1);
	EXPECT_EQ(count_faults(json, "I-8", "overlaps the segment at"), 1);
	EXPECT_EQ(count_faults(json, "I-11", "were asked for"), 2);
	EXPECT_EQ(count_faults(json, "I-14", "the trace asked for"), 1);
	EXPECT_EQ(count_faults(json, "I-14", "no block in use"), 1);
	json_decref(json);
}

/* A snapshot with one segment of 2048 bytes, these blocks and these events. */
static json_t *
checked(const char *blocks, const char *events)
{
	char text[2048];
	int length = snprintf(text, sizeof(text),
	    "{\"segments\": [{\"address\": 4096, \"total_size\": 2048, "
	    "\"blocks\": [%s]}], \"device_traces\": [[%s]]}",
	    blocks, events);
	const char *path = written("one.json", text, (size_t)length);

	return ask_json(1, "check", path, NULL, NULL);
}

TEST(two_free_blocks_beside_each_other_are_a_fault)
{
	json_t *json = checked("{\"size\": 1024, \"state\": \"inactive\"}, "
			       "{\"size\": 1024, \"state\": \"inactive\"}",
	    "");

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 1);
	EXPECT_EQ(count_faults(json, "I-5", "so is the block before"), 1);
	EXPECT_EQ(number_at(json, "faults.0.address"), 5120);
	json_decref(json);
}

/* weir keeps such blocks apart, and its snapshots show it. */
TEST(free_neighbours_of_two_streams_or_in_a_cache_are_no_fault)
{
	static const char text[] =
	    "[{\"address\": 4096, \"total_size\": 2048, \"blocks\": ["
	    "{\"size\": 512, \"state\": \"inactive\", \"stream\": 7}, "
	    "{\"size\": 512, \"state\": \"inactive\"}, "
	    "{\"size\": 512, \"state\": \"inactive\", \"cached\": true}, "
	    "{\"size\": 512, \"state\": \"inactive\"}]}]";
	const char *path = written("apart.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "check", path, NULL, NULL);
	json_t *json = ask_json(0, "show", path, "--blocks", NULL);

	EXPECT_EQ(number_at(json, "segment_list.0.block_list.0.stream"), 7);
	EXPECT_EQ(number_at(json, "segment_list.0.block_list.1.stream"), 0);
	EXPECT(
	    json_is_true(value_at(json, "segment_list.0.block_list.2.cached")));
	json_decref(json);
	command_free(&result);
}

/* The number of faults in a segment of two free blocks of 512 bytes that have
 * these members too. */
static size_t
faults_of_pair(const char *first, const char *second)
{
	char text[512];
	int length = snprintf(text, sizeof(text),
	    "[{\"address\": 4096, \"total_size\": 1024, \"blocks\": ["
	    "{\"size\": 512, \"state\": \"inactive\", %s}, "
	    "{\"size\": 512, \"state\": \"inactive\", %s}]}]",
	    first, second);
	const char *path = written("pair.json", text, (size_t)length);
	char *copy = test_file("again.json", "", 0);
	struct command_result written_again =
	    command_weir("export", "-o", copy, path, NULL);
	size_t count[2];

	EXPECT_EQ(written_again.status, 0);
	for (int i = 0; i < 2; i++) {
		struct command_result result =
		    command_weir("check", "--json", i == 0 ? path : copy, NULL);
		json_t *json = json_loads(result.out, 0, NULL);

		count[i] = json_array_size(value_at(json, "faults"));
		EXPECT_EQ(result.status, count[i] > 0);
		json_decref(json);
		command_free(&result);
	}
	EXPECT_EQ(count[0], count[1]);
	command_free(&written_again);
	free(copy);
	return count[0];
}

/* The rule of weir_check(): free neighbours of one heap and one epoch. */
TEST(free_neighbours_of_weir_s_are_a_fault_if_heap_and_epoch_are_equal)
{
#define IN(heap, epoch)                                                        \
	"\"cached\": false, \"heap\": " #heap ", \"epoch\": " #epoch
	EXPECT_EQ(faults_of_pair(IN(3, 7), IN(3, 7)), 1);
	EXPECT_EQ(faults_of_pair(IN(3, 7), IN(3, 8)), 0);
	EXPECT_EQ(faults_of_pair(IN(3, 7), IN(4, 7)), 0);
	EXPECT_EQ(faults_of_pair(IN(0, 0), IN(0, 0)), 1);
	EXPECT_EQ(faults_of_pair(IN(0, 0), "\"cached\": false"), 0);
	EXPECT_EQ(faults_of_pair("\"cached\": false", "\"cached\": false"), 0);
	EXPECT_EQ(faults_of_pair(IN(0, 0), "\"cached\": true"), 0);
	EXPECT_EQ(faults_of_pair(IN(0, 0), "\"cached\": true, \"heap\": 0"), 0);
	EXPECT_EQ(faults_of_pair("\"cached\": false, \"epoch\": 3",
		      "\"cached\": false, \"epoch\": 3"),
	    0);
#undef IN
}

TEST(blocks_that_overlap_or_are_empty_are_faults)
{
	json_t *json = checked(
	    "{\"size\": 1024, \"state\": \"active_allocated\"}, {\"address\": "
	    "4608, \"size\": 1536, \"state\": \"inactive\"}, {\"size\": 0, "
	    "\"state\": \"active_allocated\"}",
	    "");

	EXPECT_EQ(
	    count_faults(json, "I-1", "overlaps the block before by 512"), 1);
	EXPECT_EQ(count_faults(json, "I-1", "a block of 0 bytes"), 1);
	json_decref(json);
}

TEST(a_block_that_the_trace_has_freed_is_a_fault)
{
	json_t *json = checked(
	    "{\"size\": 2048, \"state\": \"active_allocated\", "
	    "\"requested_size\": 2048}",
	    "{\"action\": \"free_requested\", \"addr\": 4096, \"size\": 2048}");

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 1);
	EXPECT_EQ(count_faults(json, "I-14", "still allocated"), 1);
	json_decref(json);
}

/* In a snapshot of a stream or a pool other segments are left out, but what is
 * shown must still agree with the events. */
TEST(a_snapshot_of_a_part_is_checked_as_far_as_it_goes)
{
	static const char text[] =
	    "{\"segments\": [{\"address\": 4096, \"total_size\": 512, "
	    "\"blocks\": [{\"size\": 512, \"state\": \"inactive\"}]}], "
	    "\"device_traces\": [["
	    "{\"action\": \"alloc\", \"addr\": 4096, \"size\": 512}, "
	    "{\"action\": \"alloc\", \"addr\": 8192, \"size\": 512}]], "
	    "\"allocator_settings\": {\"weir_partial\": true}}";
	const char *path = written("part.json", text, sizeof(text) - 1);
	json_t *json = ask_json(1, "check", path, NULL, NULL);

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 1);
	EXPECT_EQ(number_at(json, "faults.0.address"), 4096);
	json_decref(json);
}

TEST(faults_are_counted_in_the_first_sentence)
{
	struct command_result result =
	    ask(1, "check", snapshot_data("broken.pickle"), NULL, NULL);

	EXPECT_EQ(
	    strncmp(result.out,
		"13 faults in 7 segments, 22 blocks and 119 events\n", 50),
	    0);
	EXPECT_STR_HAS(result.out, "I-8        0  7f0007c00200  overlaps");
	command_free(&result);
}

TEST(one_of_a_kind_is_singular)
{
	static const char text[] =
	    "{\"segments\": [{\"address\": 4096, \"total_size\": 512, "
	    "\"blocks\": [{\"size\": 512, \"requested_size\": 1024, "
	    "\"state\": \"active_allocated\"}]}], \"device_traces\": "
	    "[[{\"action\": \"alloc\", \"addr\": 4096, \"size\": 1024}]]}";
	const char *path = written("one.json", text, sizeof(text) - 1);
	struct command_result result = ask(1, "check", path, NULL, NULL);

	expect_begin(result.out, "1 fault in 1 segment, 1 block and 1 event\n");
	command_free(&result);
}

/* ---- Bounds of a program's use ------------------------------------------ */

TEST(more_live_bytes_than_the_bound_are_a_fault)
{
	const char *path = snapshot_data("train4.pickle");
	json_t *json = ask_json(1, "check", path, "--max-peak=70M", NULL);

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 1);
	EXPECT_EQ(count_faults(json, "max-peak",
		      "74.67 MiB were live at most; the bound is 70.00 MiB"),
	    1);
	EXPECT_EQ(number_at(json, "faults.0.device"), 0);
	EXPECT_NULL(json_object_get(value_at(json, "faults.0"), "address"));
	json_decref(json);
	json = ask_json(0, "check", path, "--max-peak=75M", NULL);
	EXPECT_EQ(json_array_size(value_at(json, "faults")), 0);
	json_decref(json);
}

/* Each device has the bound for itself, and --device chooses one. */
TEST(the_bound_holds_for_each_device)
{
	const char *path = snapshot_data("train4.pickle");
	json_t *json = ask_json(1, "check", path, "--max-peak=1M", NULL);

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 2);
	json_decref(json);
	json = ask_json(1, "check", path, "--max-peak=1M", "--device=1");
	EXPECT_EQ(json_array_size(value_at(json, "faults")), 1);
	EXPECT_EQ(number_at(json, "faults.0.device"), 1);
	json_decref(json);
}

TEST(what_may_leak_is_a_fault_if_asked_for)
{
	struct command_result result =
	    ask(1, "check", snapshot_data("train4.pickle"), "--no-leaks", NULL);

	expect_begin(result.out, "1 fault in ");
	EXPECT_STR_HAS(result.out,
	    "12.50 MiB in 8 blocks allocated by remember (cache.py:7)");
	command_free(&result);
}

/* As `weir trace` counts it. */
TEST(a_block_from_before_the_trace_counts_for_the_peak)
{
	static const char text[] =
	    "{\"segments\": [], \"device_traces\": [["
	    "{\"action\": \"free_requested\", \"addr\": 4096, "
	    "\"size\": 2048}]]}";
	const char *path = written("freed.json", text, sizeof(text) - 1);
	json_t *json = ask_json(1, "check", path, "--max-peak=1K", NULL);

	EXPECT_EQ(count_faults(json, "max-peak", "2.00 KiB were live"), 1);
	json_decref(json);
}

/* A device's trace of blocks that are freed at once, of `n` KiB in each third.
 */
static const char *
thirds(const unsigned n[3])
{
	static char text[2048];
	int length = snprintf(
	    text, sizeof(text), "{\"segments\": [], \"device_traces\": [[");

	for (int i = 0; i < 12; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length,
		    "%s{\"action\": \"%s\", \"addr\": %d, \"size\": %u}",
		    i == 0 ? "" : ", ", i % 2 == 0 ? "alloc" : "free_requested",
		    4096 << 10, n[i / 4] << 10);
	length += snprintf(text + length, sizeof(text) - (size_t)length, "]]}");
	return written("thirds.json", text, (size_t)length);
}

TEST(a_peak_that_rises_after_the_warm_up_is_growth)
{
	const char *path = thirds((unsigned[]){ 10, 100, 106 });
	json_t *json = ask_json(1, "check", path, "--no-growth", NULL);

	EXPECT_EQ(count_faults(json, "no-growth",
		      "106.00 KiB were live at most in the last third of the "
		      "trace, and 100.00 KiB in the third before; 5 % more"),
	    1);
	json_decref(json);
	json = ask_json(0, "check", path, "--no-growth=6", NULL);
	json_decref(json);
}

TEST(a_peak_that_rises_in_the_warm_up_is_no_growth)
{
	const char *path = thirds((unsigned[]){ 10, 100, 105 });
	json_t *json = ask_json(0, "check", path, "--no-growth", NULL);

	EXPECT_EQ(json_array_size(value_at(json, "faults")), 0);
	json_decref(json);
	path = thirds((unsigned[]){ 100, 10, 10 });
	json = ask_json(0, "check", path, "--no-growth", NULL);
	json_decref(json);
}

/* The command must end with status 2 and say why. */
static void
expect_trouble(const char *path, const char *flag, const char *why)
{
	struct command_result result = command_weir("check", path, flag, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, why);
	command_free(&result);
}

TEST(a_snapshot_without_a_trace_has_a_peak_and_no_growth)
{
	static const char text[] =
	    "{\"segments\": [{\"address\": 4096, \"total_size\": 2048, "
	    "\"blocks\": [{\"size\": 2048, \"requested_size\": 2048, "
	    "\"state\": \"active_allocated\"}]}], \"device_traces\": []}";
	const char *path = written("blocks.json", text, sizeof(text) - 1);
	json_t *json = ask_json(1, "check", path, "--max-peak=1K", NULL);

	EXPECT_EQ(count_faults(json, "max-peak", "2.00 KiB were live"), 1);
	json_decref(json);
	expect_trouble(path, "--no-growth", "device 0 has no trace");
	expect_trouble(path, "--no-leaks", "the trace has no allocation");
}

TEST(a_wrong_bound_is_named)
{
	static const char *const wrong[] = { "--max-peak=much", "--max-peak=0",
		"--max-peak=-1", "--no-growth=-3", "--no-growth=x" };

	for (int i = 0; i < 5; i++)
		expect_trouble(snapshot_data("train4.pickle"), wrong[i],
		    strchr(wrong[i], '=') + 1);
}
