/*
 * weir advise: each gain that it claims is compared with replays of the whole
 * recording by `weir replay`.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static json_t *
parsed(struct command_result result)
{
	json_t *json;

	if (result.status != 0 && result.status != 1)
		FAIL("exit status %d: %s", result.status, result.err);
	json = json_loads(result.out, 0, NULL);
	if (json == NULL)
		FAIL("no JSON: %s", result.out);
	command_free(&result);
	return json;
}

static int64_t
number_in(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	if (!json_is_integer(value))
		FAIL("no number '%s'", key);
	return json_integer_value(value);
}

static const char *
text_in(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));

	return text == NULL ? "" : text;
}

/* The peak of held bytes of one device in a replay of the whole file. */
static int64_t
replayed(const char *path, const char *device, const char *as, const char *conf)
{
	bool weir = strcmp(as, "weir") == 0;
	bool csv = strstr(path, ".csv") != NULL;
	const char *argv[12] = { NULL };
	char *command = test_build("bin/weir");
	size_t n = 0;
	json_t *json;
	int64_t held;

	argv[n++] = command;
	argv[n++] = "replay";
	argv[n++] = "--json";
	if (!weir) {
		argv[n++] = "--as";
		argv[n++] = as;
	} else {
		argv[n++] = "--sim";
	}
	if (weir && conf[0] != '\0') {
		argv[n++] = "--conf";
		argv[n++] = conf;
	}
	if (!csv) {
		argv[n++] = "--device";
		argv[n++] = device;
	}
	argv[n] = path;
	json = parsed(command_run(argv));
	held =
	    number_in(json, weir ? "peak_held_bytes" : "peak_reserved_bytes");
	json_decref(json);
	free(command);
	return held;
}

static void
expect_near(const char *what, int64_t claimed, int64_t truth)
{
	if (fabs((double)(claimed - truth)) > 0.03 * (double)truth)
		FAIL("%s: %" PRId64 " is claimed, %" PRId64 " is true", what,
		    claimed, truth);
}

/* Check one remedy; `most` is the peak without it. */
static void
expect_remedy(
    const char *path, const char *device, const json_t *remedy, int64_t most)
{
	int64_t before = number_in(remedy, "compared_held_bytes");
	const json_t *costs = json_object_get(remedy, "costs");
	const char *text = text_in(remedy, "text");
	int64_t held = replayed(path, device, text_in(remedy, "allocator"),
	    text_in(remedy, "conf"));

	expect_near(text, number_in(remedy, "peak_held_bytes"), held);
	expect_near(text, before - number_in(remedy, "gain_bytes"), held);
	EXPECT_LE(before, most);
	EXPECT_STR_HAS(text, "It costs ");
	EXPECT_GT(strlen(text_in(remedy, "setting")), 0);
	if (number_in(costs, "retries") > 0)
		EXPECT_STR_HAS(text, "retr");
	if (number_in(costs, "host_waits") + number_in(costs, "gpu_waits") > 0)
		EXPECT_STR_HAS(text, "wait");
}

/* Check all that is said of a file. Returns the number of remedies. */
static unsigned
expect_true(const char *path)
{
	json_t *json = parsed(command_weir("advise", "--json", path, NULL));
	const json_t *devices = json_object_get(json, "devices");
	const json_t *device;
	const json_t *remedy;
	unsigned count = 0;
	size_t i;
	size_t k;

	json_array_foreach(devices, i, device)
	{
		const char *conf = text_in(device, "conf");
		int64_t before = number_in(device, "peak_held_bytes");
		char number[24];
		char as[600];

		snprintf(number, sizeof(number), "%" PRId64,
		    number_in(device, "device"));
		if (strcmp(text_in(device, "allocator"), "weir") == 0)
			snprintf(as, sizeof(as), "weir");
		else
			snprintf(as, sizeof(as), "torch%s%s",
			    conf[0] == '\0' ? "" : ",", conf);
		expect_near("before", before, replayed(path, number, as, conf));
		EXPECT_LE(
		    json_array_size(json_object_get(device, "advice")), 3);
		json_array_foreach(json_object_get(device, "advice"), k, remedy)
		{
			expect_remedy(path, number, remedy, before);
			count++;
		}
	}
	json_decref(json);
	return count;
}

static void
expect_true_of_data(const char *name)
{
	char *path = test_data(name);

	EXPECT_GT(expect_true(path), 0);
	free(path);
}

TEST(gains_on_recorded_traces_come_true)
{
	expect_true_of_data("fsdp_prefetch.csv.xz");
	expect_true_of_data("moe_start.csv");
}

TEST(gains_on_snapshots_come_true_for_each_device)
{
	expect_true_of_data("snapshots/train4.pickle");
	expect_true_of_data("snapshots/train.json");
}

static char *
generated(const char *kind)
{
	struct command_result result =
	    command_weir("generate", kind, "--events", "4000", NULL);
	char *path;
	char name[64];

	EXPECT_EQ(result.status, 0);
	snprintf(name, sizeof(name), "%s.csv", kind);
	path = test_file(name, result.out, strlen(result.out));
	command_free(&result);
	return path;
}

TEST(gains_on_generated_programs_come_true)
{
	static const char *const kinds[] = { "pipeline", "prefetch", "serve",
		"train", "mixed", "recsys", "video" };
	unsigned count = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char *path = generated(kinds[i]);

		count += expect_true(path);
		free(path);
	}
	EXPECT_GT(count, 3);
}

/* ---- Files that are made here ----------------------------------------- */

static char *
rows_file(const char *rows)
{
	char *text;
	int length =
	    asprintf(&text, "action,addr,size,stream,time_us\n%s", rows);
	char *path;

	EXPECT_GT(length, 0);
	path = test_file("rows.csv", text, (size_t)length);
	free(text);
	return path;
}

TEST(a_program_that_wastes_nothing_gets_no_advice)
{
	char *path = rows_file("a,100000000,1073741824,0,1\n"
			       "a,200000000,1073741824,0,2\n"
			       "f,100000000,1073741824,0,3\n"
			       "f,200000000,1073741824,0,4\n");
	struct command_result result = command_weir("advise", path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "nothing");
	command_free(&result);
	free(path);
}

/* Cached blocks that are each a little too small for the next. */
static char *
growing_file(void)
{
	char rows[8192] = "";
	size_t n = 0;

	for (unsigned i = 0; i < 20; i++) {
		unsigned mib = 100 + 10 * i;

		n += (size_t)snprintf(rows + n, sizeof(rows) - n,
		    "a,%u00000000,%u,0,%u\nf,%u00000000,%u,0,%u\n", i + 1,
		    mib << 20, 2 * i + 1, i + 1, mib << 20, 2 * i + 2);
	}
	return rows_file(rows);
}

TEST(expandable_segments_are_the_first_remedy_for_sizes_that_grow)
{
	char *path = growing_file();
	struct command_result result = command_weir("advise", path, NULL);

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.out, "- With expandable_segments:True the whole");
	EXPECT_STR_HAS(result.out,
	    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
	EXPECT_GT(expect_true(path), 0);
	command_free(&result);
	free(path);
}

/* A snapshot with 100 MiB in use and 412 MiB cached in a segment of 512 MiB,
 * and a history. */
static char *
cached_file(const char *events)
{
	char *text;
	int length = asprintf(&text,
	    "{\"segments\":[{\"address\":4294967296,"
	    "\"total_size\":536870912,\"stream\":0,\"segment_type\":\"large\","
	    "\"device\":0,\"allocated_size\":104857600,"
	    "\"active_size\":104857600,\"blocks\":["
	    "{\"address\":4294967296,\"size\":104857600,"
	    "\"requested_size\":104857600,\"state\":\"active_allocated\","
	    "\"frames\":[]},{\"address\":4399824896,\"size\":432013312,"
	    "\"state\":\"inactive\",\"frames\":[]}]}],"
	    "\"device_traces\":[[%s]]}",
	    events);
	char *path;

	EXPECT_GT(length, 0);
	path = test_file("cached.json", text, (size_t)length);
	free(text);
	return path;
}

static void
expect_nothing(const char *path, const char *why)
{
	struct command_result result = command_weir("advise", path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "nothing: ");
	EXPECT_STR_HAS(result.out, why);
	command_free(&result);
}

TEST(memory_cached_before_the_recording_is_no_gain)
{
	char *path = cached_file(
	    "{\"action\":\"alloc\",\"addr\":4399824896,\"size\":20971520,"
	    "\"stream\":0,\"time_us\":1,\"frames\":[]}");

	expect_nothing(path,
	    "begins in the middle: 512.00 MiB of the 512.00 MiB were held "
	    "before");
	free(path);
}

TEST(expandable_segments_hold_no_memory_that_was_cached_before)
{
	char *path = cached_file(
	    "{\"action\":\"alloc\",\"addr\":4399824896,\"size\":20971520,"
	    "\"stream\":0,\"time_us\":1,\"frames\":[]}");

	EXPECT_EQ(replayed(path, "0", "torch", ""), 512 << 20);
	EXPECT_EQ(replayed(path, "0", "torch,expandable_segments:True", ""),
	    120 << 20);
	free(path);
}

TEST(a_history_without_a_request_is_not_replayed)
{
	char *path = cached_file(
	    "{\"action\":\"snapshot\",\"addr\":0,\"size\":0,\"stream\":0,"
	    "\"time_us\":1,\"frames\":[]}");

	expect_nothing(path, "the history has no request");
	free(path);
}

TEST(a_limit_under_which_requests_fail_is_met_by_what_serves_them)
{
	char *path = rows_file("a,100000000,104857600,0,1\n"
			       "a,200000000,104857600,0,2\n"
			       "a,300000000,104857600,0,3\n"
			       "a,400000000,1048576,0,4\n"
			       "f,100000000,104857600,0,5\n"
			       "f,300000000,104857600,0,6\n"
			       "a,500000000,52428800,0,7\n"
			       "a,600000000,52428800,0,8\n"
			       "a,700000000,94371840,0,9\n"
			       "f,500000000,52428800,0,10\n"
			       "a,800000000,62914560,0,11\n");
	json_t *json = parsed(
	    command_weir("advise", "--json", "--limit", "320M", path, NULL));
	const json_t *device =
	    json_array_get(json_object_get(json, "devices"), 0);
	const json_t *remedy =
	    json_array_get(json_object_get(device, "advice"), 0);

	EXPECT(json_is_true(json_object_get(device, "fails")));
	EXPECT(json_is_true(json_object_get(remedy, "serves")));
	EXPECT_STR_HAS(
	    text_in(remedy, "text"), "no request fails within 320.00 MiB");
	json_decref(json);
	free(path);
}

TEST(a_failed_request_is_named_with_what_serves_it)
{
	char *path = test_data("snapshots/train4.pickle");
	struct command_result result =
	    command_weir("advise", "--device", "0", path, NULL);

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.out, "the failed request of 48.00 MiB is served");
	EXPECT_STR_HAS(result.out, "weir run --torch -- PROGRAM");
	command_free(&result);
	free(path);
}

TEST(no_setting_is_tried_without_time)
{
	char *path = growing_file();
	json_t *json = parsed(
	    command_weir("advise", "--json", "--seconds", "0", path, NULL));
	const json_t *device =
	    json_array_get(json_object_get(json, "devices"), 0);

	EXPECT_EQ(number_in(device, "tried"), 0);
	EXPECT_GT(number_in(device, "skipped"), 0);
	json_decref(json);
	free(path);
}

static void
expect_trouble(const char *argument, const char *named)
{
	struct command_result result = command_weir("advise", argument, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, named);
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
}

TEST(what_cannot_be_replayed_is_named)
{
	char *segments = test_data("snapshots/segments.pickle");

	expect_trouble("absent.pickle", "absent.pickle");
	expect_trouble("-", "name a file");
	expect_trouble("4000000000", "'4000000000' is no process");
	expect_trouble("--limit=0", "--limit is a size");
	expect_trouble("--seconds=many", "'many'");
	expect_trouble(segments, "has no history");
	free(segments);
}
