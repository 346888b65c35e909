/*
 * weir trace: the events of a snapshot, and the bytes that were live after
 * each.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* Parse the n-th line of a text. */
static json_t *
line_json(const char *text, size_t n)
{
	for (; n > 0; n--) {
		text = strchr(text, '\n');
		EXPECT_NOT_NULL(text);
		text++;
	}
	return json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
}

static size_t
count_lines(const char *text)
{
	size_t count = 0;

	for (; *text != '\0'; text++)
		count += *text == '\n';
	return count;
}

TEST(each_event_is_an_object_on_a_line)
{
	struct command_result result = ask(0, "trace", train(), "--json", NULL);
	json_t *first = line_json(result.out, 0);
	json_t *second = line_json(result.out, 1);

	EXPECT_EQ(count_lines(result.out), 118);
	EXPECT_STR_EQ(text_at(first, "action"), "segment_alloc");
	EXPECT_EQ(number_at(first, "live_bytes"), 0);
	EXPECT_STR_EQ(text_at(second, "action"), "alloc");
	EXPECT_EQ(number_at(second, "live_bytes"), 6 << 20);
	EXPECT_EQ(number_at(second, "time_us"), UINT64_C(1700000000000020));
	EXPECT_STR_EQ(text_at(second, "frames.0.name"), "__init__");
	json_decref(first);
	json_decref(second);
	command_free(&result);
}

TEST(live_bytes_at_the_end_are_those_that_were_requested)
{
	struct command_result result = command_weir(
	    "trace", "--json", "--device", "0", "--last", "1", train(), NULL);
	json_t *last = line_json(result.out, 0);

	EXPECT_EQ(count_lines(result.out), 1);
	EXPECT_STR_EQ(text_at(last, "action"), "oom");
	EXPECT_EQ(number_at(last, "device_free_bytes"), 24 << 20);
	/* 700,000 of the requested bytes are freed and pending. */
	EXPECT_EQ(number_at(last, "live_bytes"), 68860488 - 700000);
	json_decref(last);
	command_free(&result);
}

TEST(one_kind_of_event_can_be_asked_for)
{
	struct command_result result =
	    command_weir("trace", "--json", "--action", "oom", train(), NULL);

	EXPECT_EQ(count_lines(result.out), 1);
	command_free(&result);
	result = command_weir("trace", "--action", "party", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "no event is a 'party'\n");
	command_free(&result);
	result = command_weir("trace", "--action", "aloc", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(
	    result.err, "no event is a 'aloc'; did you mean 'alloc'?");
	command_free(&result);
}

TEST(the_text_begins_with_the_peak)
{
	struct command_result result = ask(0, "trace", train(), "-n", "2");

	expect_begin(result.out,
	    "device 0: 116 events in 1.150 ms; the peak of live bytes was "
	    "74.67 MiB, after 1.070 ms; 0 bytes were live before the trace\n");
	EXPECT_STR_HAS(result.out, "1.150  oom                        -");
	EXPECT_STR_HAS(
	    result.out, "forward (model.py:15); the driver had 24.00 MiB free");
	EXPECT_STR_HAS(result.out, "device 1: 2 events");
	command_free(&result);
}

TEST(a_snapshot_without_a_trace_is_reported_as_such)
{
	struct command_result result =
	    ask(0, "trace", snapshot_data("segments.pickle"), NULL, NULL);

	EXPECT_STR_EQ(result.out, "the snapshot has no trace\n");
	command_free(&result);
}

/* A block whose free is in the trace, but not its allocation, is older than the
 * trace. */
TEST(blocks_older_than_the_trace_are_counted)
{
	static const char text[] =
	    "{\"segments\": [], \"device_traces\": [[{\"action\": "
	    "\"free_requested\", \"addr\": 512, \"size\": 1000, \"time_us\": "
	    "5}, {\"action\": \"free_completed\", \"addr\": 512, \"size\": "
	    "1000, \"time_us\": 6}]]}";
	const char *path = written("old.json", text, sizeof(text) - 1);
	struct command_result result = ask(0, "trace", path, NULL, NULL);

	EXPECT_STR_HAS(result.out, "1000 bytes were live before the trace");
	command_free(&result);
}
