/*
 * Finding the events in a profiler's trace.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tools/weir/reading/timeline.h"

static const char good[] =
    "{\"a\": [1, {\"traceEvents\": []}], \"traceEvents\": [{\"ts\": 5, "
    "\"dur\": 2.5, \"pid\": 3, \"args\": {\"ts\": 1}}, {\"ph\": \"i\", "
    "\"ts\": 9, \"pid\": \"Spans\"}], \"baseTimeNanoseconds\": "
    "1700000000123456789}";

/* A copy on the heap of exactly this length, so that a sanitizer finds a read
 * after its end. */
static const char *
parse(const char *text, size_t length, struct timeline *out)
{
	const char *fault;

	*out =
	    (struct timeline){ .text = malloc(length + 1), .length = length };
	memcpy(out->text, text, length);
	out->text[length] = '\0';
	fault = timeline_parse(out);
	free(out->text);
	return fault;
}

static const char *
fault_of(const char *text)
{
	struct timeline timeline;

	return parse(text, strlen(text), &timeline);
}

TEST(times_and_processes_are_found)
{
	struct timeline timeline;

	EXPECT_NULL(parse(good, strlen(good), &timeline));
	EXPECT_EQ(timeline.base_ns, INT64_C(1700000000123456789));
	EXPECT(timeline.first_us == 5);
	EXPECT(timeline.last_us == 9);
	EXPECT_EQ(timeline.last_pid, 3);
	EXPECT(!timeline.is_empty);
	EXPECT_MEM_EQ(good + timeline.events_at, "{\"ts\": 5", 8);
}

TEST(a_bare_list_is_a_trace_too)
{
	EXPECT_NULL(fault_of("[{\"ts\": 1}]"));
}

TEST(a_file_that_is_no_trace_is_reported)
{
	EXPECT_STR_EQ(fault_of(""), "it is no trace in JSON");
	EXPECT_STR_EQ(fault_of("hello"), "it is no trace in JSON");
	EXPECT_STR_EQ(fault_of("{}"), "it has no traceEvents");
	EXPECT_STR_EQ(
	    fault_of("{\"traceEvents\": 3}"), "its traceEvents is no list");
	EXPECT_STR_EQ(
	    fault_of("{\"traceEvents\": []}"), "none of its events has a time");
	EXPECT_STR_EQ(
	    fault_of("[{\"ts\": \"1\"}]"), "none of its events has a time");
	EXPECT_STR_EQ(fault_of("[3]"), "an event is not an object");
	EXPECT_STR_EQ(
	    fault_of("[{\"ts\" 3}]"), "a colon is missing in an event");
	EXPECT_STR_EQ(
	    fault_of("[{\"ts\": 1e300}]"), "none of its events has a time");
}

TEST(each_cut_of_a_trace_is_a_fault)
{
	struct timeline timeline;

	for (size_t n = 0; n < strlen(good); n++)
		EXPECT_NOT_NULL(parse(good, n, &timeline));
}

/* Replace each byte by each of the bytes that have a meaning. */
TEST(a_damaged_trace_is_survived)
{
	static const char bytes[] = "{}[]\",:\\0 e";
	char text[sizeof(good)];
	struct timeline timeline;

	for (size_t i = 0; i < sizeof(good) - 1; i++)
		for (size_t b = 0; b < sizeof(bytes); b++) {
			memcpy(text, good, sizeof(good));
			text[i] = bytes[b];
			parse(text, sizeof(good) - 1, &timeline);
			EXPECT_LE(timeline.events_at, sizeof(good));
		}
}

/* Deep nesting takes no stack, and time in proportion to the length. */
TEST(depth_is_no_danger)
{
	static const char start[] = "{\"a\":";
	size_t n = 1 << 20;
	char *text = malloc(n);
	struct timeline timeline;

	memset(text, '[', n);
	memcpy(text, start, sizeof(start) - 1);
	EXPECT_NOT_NULL(parse(text, n, &timeline));
	free(text);
}
