/*
 * Conversion of databases of Nsight Systems to traces. The tests have made the
 * database (tests/data/nsys/make.py).
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tools/weir/export/nsys.h"
#include "tools/weir/reading/sqlite_read.h"

static char *
database(size_t *length)
{
	char *path = test_data("nsys/made_up.sqlite");
	FILE *file = fopen(path, "rb");
	char *bytes = malloc(1 << 20);

	EXPECT_NOT_NULL(file);
	*length = fread(bytes, 1, 1 << 20, file);
	EXPECT_GT(*length, 1000);
	fclose(file);
	free(path);
	return bytes;
}

/* Read a copy of exactly this length, so that a sanitizer finds a read after
 * its end. */
static const char *
fault_of(const char *bytes, size_t length)
{
	char *copy = malloc(length);
	char *text = NULL;
	size_t text_length;
	const char *why;

	memcpy(copy, bytes, length);
	why = nsys_to_chrome(copy, length, &text, &text_length);
	EXPECT_EQ(why == NULL, text != NULL);
	free(text);
	free(copy);
	return why;
}

static json_t *
events_of(const char *bytes, size_t length)
{
	char *text = NULL;
	size_t text_length = 0;
	json_t *json;
	json_t *events;

	EXPECT_NULL(nsys_to_chrome(bytes, length, &text, &text_length));
	EXPECT_EQ(strlen(text), text_length);
	json = json_loads(text, 0, NULL);
	EXPECT_NOT_NULL(json);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "baseTimeNanoseconds")),
	    INT64_C(1700000000000010000) - 1000000);
	events = json_incref(json_object_get(json, "traceEvents"));
	json_decref(json);
	free(text);
	return events;
}

static const char *
text_of(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text != NULL ? text : "";
}

/* The n-th event of a category. */
static const json_t *
event_at(const json_t *events, const char *category, unsigned n)
{
	const json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		if (strcmp(text_of(event, "cat"), category) == 0 && n-- == 0)
			return event;
	}
	return NULL;
}

static json_int_t
number_of(const json_t *event, const char *key)
{
	return json_integer_value(json_object_get(event, key));
}

static bool
is_number(const json_t *event, const char *key, double expected)
{
	return json_number_value(json_object_get(event, key)) == expected;
}

TEST(work_stands_on_its_device_and_stream)
{
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);
	const json_t *kernel = event_at(events, "kernel", 1);
	const json_t *copy = event_at(events, "gpu_memcpy", 0);
	const json_t *fill = event_at(events, "gpu_memset", 0);

	EXPECT_STR_EQ(text_of(kernel, "name"), "gemm");
	EXPECT_EQ(number_of(kernel, "pid"), NSYS_DEVICE_PROCESS);
	EXPECT_EQ(number_of(kernel, "tid"), 8);
	EXPECT(is_number(kernel, "ts", 1001));
	EXPECT(is_number(kernel, "dur", 0.5));
	EXPECT_NOT_NULL(event_at(events, "kernel", 99));
	EXPECT_NULL(event_at(events, "kernel", 100));
	EXPECT_STR_EQ(text_of(copy, "name"), "Memcpy HtoD");
	EXPECT_EQ(number_of(copy, "pid"), NSYS_DEVICE_PROCESS + 1);
	EXPECT_EQ(number_of(json_object_get(copy, "args"), "bytes"), 4096);
	EXPECT_EQ(number_of(json_object_get(fill, "args"), "bytes"),
	    INT64_C(5000000000));
	json_decref(events);
	free(bytes);
}

/* The table has several pages. */
TEST(a_long_name_is_whole)
{
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);
	const char *name = text_of(event_at(events, "kernel", 0), "name");

	EXPECT_EQ(strncmp(name, "void gemm<tile<0, 0>, tile<1, 1>, ", 34), 0);
	EXPECT_EQ(strlen(name), 2991);
	EXPECT_STR_EQ(name + 2991 - 19, ", tile<199, 199>>()");
	json_decref(events);
	free(bytes);
}

TEST(calls_and_ranges_stand_on_their_thread)
{
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);
	const json_t *call = event_at(events, "cuda_runtime", 100);
	const json_t *range = event_at(events, "nvtx", 0);

	EXPECT_STR_EQ(text_of(call, "name"), "cudaMalloc");
	EXPECT_EQ(number_of(call, "pid"), 4711);
	EXPECT_EQ(number_of(call, "tid"), 4712);
	EXPECT_STR_EQ(text_of(range, "name"), "a \"step\"");
	EXPECT(is_number(range, "dur", 2000));
	EXPECT_STR_EQ(text_of(event_at(events, "nvtx", 1), "ph"), "b");
	EXPECT_STR_EQ(text_of(event_at(events, "nvtx", 2), "ph"), "e");
	EXPECT_STR_EQ(text_of(event_at(events, "nvtx", 3), "ph"), "i");
	EXPECT_NULL(event_at(events, "nvtx", 4));
	json_decref(events);
	free(bytes);
}

/* Nsight Systems records a graph as one piece of work, or, with an option, as
 * its nodes. */
TEST(a_graph_stands_on_its_stream)
{
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);
	const json_t *graph = event_at(events, "cuda_graph", 0);

	EXPECT_STR_EQ(text_of(graph, "name"), "graph 3");
	EXPECT_EQ(number_of(graph, "pid"), NSYS_DEVICE_PROCESS);
	EXPECT_EQ(number_of(graph, "tid"), 7);
	EXPECT(is_number(graph, "ts", 1110));
	EXPECT(is_number(graph, "dur", 0.5));
	EXPECT_EQ(
	    number_of(json_object_get(graph, "args"), "correlation"), 210);
	/* The other rows have no times. */
	EXPECT_NULL(event_at(events, "cuda_graph", 1));
	json_decref(events);
	free(bytes);
}

TEST(copies_are_named_by_their_kind)
{
	static const char *const names[] = { "Memcpy HtoD", "Memcpy HtoA",
		"Memcpy HtoD (unified)", "Memcpy" };
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);

	for (unsigned i = 0; i < 4; i++)
		EXPECT_STR_EQ(
		    text_of(event_at(events, "gpu_memcpy", i), "name"),
		    names[i]);
	json_decref(events);
	free(bytes);
}

/* The name in the metadata event `key` of a process and thread, or "". */
static const char *
name_of(const json_t *events, const char *key, json_int_t process,
    json_int_t thread)
{
	const json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		if (strcmp(text_of(event, "name"), key) == 0 &&
		    number_of(event, "pid") == process &&
		    number_of(event, "tid") == thread)
			return text_of(json_object_get(event, "args"), "name");
	}
	return "";
}

TEST(processes_threads_and_the_driver_s_calls_are_named)
{
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);

	EXPECT_STR_EQ(
	    name_of(events, "process_name", 4711, 0), "/usr/bin/train");
	EXPECT_STR_EQ(name_of(events, "thread_name", 4711, 4712), "loader");
	EXPECT_STR_EQ(text_of(event_at(events, "cuda_driver", 0), "name"),
	    "cuMemAlloc_v2");
	EXPECT_NULL(event_at(events, "cuda_driver", 1));
	json_decref(events);
	free(bytes);
}

/* An export names all processes of the machine. A viewer shows a row for each
 * name. */
TEST(only_processes_and_threads_with_events_are_named)
{
	size_t length;
	char *bytes = database(&length);
	json_t *events = events_of(bytes, length);

	EXPECT_STR_EQ(name_of(events, "process_name", 99, 0), "");
	EXPECT_STR_EQ(name_of(events, "thread_name", 99, 99), "");
	EXPECT_STR_EQ(name_of(events, "thread_name", 4711, 4713), "");
	json_decref(events);
	free(bytes);
}

TEST(a_database_of_others_is_refused)
{
	size_t length;
	char *bytes = database(&length);
	char *name = memmem(bytes, length, "TARGET_INFO_SESSION", 19);

	EXPECT_STR_EQ(fault_of("SQLite format 3", 16), "it is cut off");
	while (name != NULL) {
		*name = 'X';
		name = memmem(bytes, length, "TARGET_INFO_SESSION", 19);
	}
	EXPECT_STR_HAS(fault_of(bytes, length), "no export of Nsight Systems");
	bytes[56 + 3] = 2;
	EXPECT_STR_HAS(fault_of(bytes, length), "UTF-8");
	free(bytes);
}

/* Damage may cause an error, but never a read after the end. */
TEST(a_cut_database_is_survived)
{
	size_t length;
	char *bytes = database(&length);
	unsigned faults = 0;

	for (size_t n = 1; n < length; n += 97 * test_stride())
		faults += fault_of(bytes, n) != NULL;
	EXPECT_GT(faults, 0);
	free(bytes);
}

TEST(a_damaged_database_is_survived)
{
	static const char values[] = { 0, 1, 5, 13, 127, (char)128, (char)255 };
	size_t length;
	char *bytes = database(&length);

	for (size_t i = 16 + test_offset(); i < length;
	     i += 13 * test_stride()) {
		char was = bytes[i];

		bytes[i] = values[i % sizeof(values)];
		fault_of(bytes, length);
		bytes[i] = was;
	}
	free(bytes);
}

/* A page that is its own child, and a chain of pages without an end. */
TEST(a_database_that_refers_to_itself_is_refused)
{
	static const unsigned char interior[] = { 5, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 1 };
	size_t length;
	char *bytes = database(&length);

	memcpy(bytes + 100, interior, sizeof(interior));
	EXPECT_STR_EQ(fault_of(bytes, length), "a table has pages twice");
	free(bytes);
}
