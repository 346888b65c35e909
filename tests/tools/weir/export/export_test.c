/*
 * weir export: other tools and weir itself can read its output.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

static struct command_result
exported(const char *form)
{
	return ask(0, "export", train(), "--format", form);
}

/* ---- JSON ------------------------------------------------------------ */

TEST(the_json_reads_back_as_the_same)
{
	struct command_result result = exported("json");
	const char *path =
	    written("again.json", result.out, strlen(result.out));
	static const char *const commands[] = { "stats", "top", "frag", "oom",
		"leaks", "check" };

	for (int i = 0; i < 6; i++) {
		struct command_result a =
		    command_weir(commands[i], train(), NULL);
		struct command_result b = command_weir(commands[i], path, NULL);

		EXPECT_EQ(a.status, b.status);
		EXPECT_STR_EQ(a.out, b.out);
		command_free(&a);
		command_free(&b);
	}
	command_free(&result);
}

TEST(the_json_has_the_shape_that_pytorch_writes)
{
	struct command_result result = exported("json");
	json_t *json = json_loads(result.out, 0, NULL);

	EXPECT_EQ(number_at(json, "segments.0.total_size"), 20 << 20);
	EXPECT_STR_EQ(text_at(json, "segments.0.segment_type"), "large");
	EXPECT_EQ(number_at(json, "segments.3.segment_pool_id.0"), 1);
	EXPECT_EQ(
	    number_at(json, "segments.0.blocks.1.requested_size"), 3 << 20);
	EXPECT_STR_EQ(
	    text_at(json, "device_traces.0.0.action"), "segment_alloc");
	EXPECT_EQ(number_at(json, "device_traces.0.115.device_free"), 24 << 20);
	EXPECT_EQ(json_integer_value(
		      value_at(json, "allocator_settings.max_split_size")),
	    -1);
	EXPECT(json_is_false(
	    value_at(json, "allocator_settings.expandable_segments")));
	EXPECT_STR_EQ(text_at(json, "external_annotations.1.stage"), "END");
	json_decref(json);
	command_free(&result);
}

/* ---- Other forms ----------------------------------------------------- */

TEST(the_trace_of_chrome_has_curves_and_a_slice_for_each_life)
{
	struct command_result result = exported("chrome");
	json_t *json = json_loads(result.out, 0, NULL);
	const json_t *one;
	unsigned begins = 0;
	unsigned ends = 0;
	uint64_t reserved = 0;
	uint64_t allocated = 0;
	size_t i;

	EXPECT_NOT_NULL(json);
	json_array_foreach(value_at(json, "traceEvents"), i, one)
	{
		const char *phase = text_at(one, "ph");

		begins += phase[0] == 'b';
		ends += phase[0] == 'e';
		if (phase[0] == 'C' && number_at(one, "pid") == 0) {
			reserved = number_at(one, "args.reserved");
			allocated = number_at(one, "args.allocated");
		}
	}
	EXPECT_EQ(begins, 47);
	EXPECT_EQ(ends, 47);
	EXPECT_EQ(reserved, 109051904);
	EXPECT_EQ(allocated, 68860488 - 700000);
	json_decref(json);
	command_free(&result);
}

/* ---- Beside a profiler's trace ----------------------------------------- */

/* The time of the first event of a device, in microseconds since 1970. */
static int64_t
first_time(void)
{
	struct command_result result = exported("json");
	json_t *json = json_loads(result.out, 0, NULL);
	int64_t time =
	    json_integer_value(value_at(json, "device_traces.0.0.time_us"));

	EXPECT_GT(time, 0);
	json_decref(json);
	command_free(&result);
	return time;
}

/* A trace in the form of PyTorch's profiler: two kernels of processes 0 and
 * 4711, from 100 us before the snapshot's first event on. */
static const char *
profile(const char *name, int64_t first_us)
{
	char *text = NULL;
	const char *path;

	EXPECT_GT(asprintf(&text,
		      "{\"schemaVersion\": 1, \"note\": \"\\\"[{\", "
		      "\"baseTimeNanoseconds\": %lld500,\n"
		      "\"traceEvents\": [\n"
		      "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": "
		      "4711, \"ts\": 0, \"args\": {\"name\": \"python\"}},\n"
		      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": "
		      "\"gemm<1,{}>\", \"pid\": 0, \"tid\": 7, \"ts\": "
		      "899.25, \"dur\": 50.5},\n"
		      "{\"ph\": \"X\", \"name\": \"step\", \"pid\": 4711, "
		      "\"tid\": 1, \"ts\": 1000, \"dur\": 10}\n"
		      "], \"traceName\": \"x\"}\n",
		      (long long)(first_us - 1000)),
	    0);
	path = written(name, text, strlen(text));
	free(text);
	return path;
}

/* The memory is in the trace, on the trace's clock. Time 0 of that clock is
 * 999.5 us before the first event. */
static void
expect_joined(const json_t *json)
{
	const json_t *one;
	unsigned kernels = 0;
	unsigned begins = 0;
	double first = 1e18;
	size_t i;

	EXPECT_NOT_NULL(json);
	EXPECT_STR_EQ(text_at(json, "traceName"), "x");
	json_array_foreach(value_at(json, "traceEvents"), i, one)
	{
		const char *phase = text_at(one, "ph");
		double ts = json_number_value(json_object_get(one, "ts"));

		kernels += phase[0] == 'X';
		begins += phase[0] == 'b';
		if (phase[0] == 'X' || number_at(one, "pid") == 4711)
			continue;
		/* Devices have process numbers that the trace does not use. */
		EXPECT_GT(number_at(one, "pid"), 4711);
		if (phase[0] == 'C' && ts < first)
			first = ts;
	}
	EXPECT_EQ(kernels, 2);
	EXPECT_EQ(begins, 47);
	EXPECT(first > 999.4999 && first < 999.5001);
}

TEST(memory_stands_in_a_profilers_trace_on_its_clock)
{
	int64_t first_us = first_time();
	struct command_result result = command_weir("export", train(), "-f",
	    "chrome", "--join", profile("profile.json", first_us), NULL);
	json_t *json = json_loads(result.out, 0, NULL);

	expect_joined(json);
	EXPECT_STR_HAS(result.out, "\"memory of device 1\"");
	json_decref(json);
	command_free(&result);
}

/* Read the compressed output back. */
TEST(a_compressed_trace_is_joined_into_a_compressed_file)
{
	const char *path = profile("profile.json", first_time());
	const char *out = written("joined.json.gz", "", 0);
	struct command_result result;
	char line[9000];
	json_t *json;
	FILE *pipe;

	snprintf(line, sizeof(line), "gzip -kf '%s'", path);
	EXPECT_EQ(system(line), 0);
	snprintf(line, sizeof(line), "%s.gz", path);
	result = command_weir(
	    "export", train(), "-f", "chrome", "-J", line, "-o", out, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
	snprintf(line, sizeof(line), "gzip -dc '%s'", out);
	pipe = popen(line, "r");
	json = json_loadf(pipe, 0, NULL);
	EXPECT_EQ(pclose(pipe), 0);
	expect_joined(json);
	json_decref(json);
}

/* The tests have made this database. Its session begins 1 ms before the first
 * event. */
TEST(memory_is_added_to_a_recording_of_nsight_systems)
{
	char *path = test_data("nsys/made_up.sqlite");
	struct command_result result = command_weir(
	    "export", train(), "-f", "chrome", "--join", path, NULL);
	json_t *json = json_loads(result.out, 0, NULL);
	double first = 1e18;
	unsigned kernels = 0;
	const json_t *one;
	size_t i;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_NOT_NULL(json);
	json_array_foreach(value_at(json, "traceEvents"), i, one)
	{
		double ts = json_number_value(json_object_get(one, "ts"));

		if (json_object_get(one, "cat") != NULL)
			kernels += strcmp(text_at(one, "cat"), "kernel") == 0;
		if (text_at(one, "ph")[0] == 'C' && ts < first)
			first = ts;
	}
	EXPECT_EQ(kernels, 100);
	EXPECT(first > 999.9999 && first < 1000.0001);
	EXPECT_STR_HAS(result.out, "\"GPU 0\"");
	EXPECT_STR_HAS(result.out, "\"memory of device 0\"");
	json_decref(json);
	command_free(&result);
	free(path);
}

TEST(a_recording_that_is_not_exported_is_refused_with_a_remedy)
{
	const char *path = written("program.nsys-rep", "report", 6);
	struct command_result result = command_weir(
	    "export", train(), "-f", "chrome", "--join", path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "nsys export --type sqlite");
	command_free(&result);
}

TEST(a_snapshot_is_written_and_read_compressed)
{
	const char *path = written("again.json.gz", "", 0);
	struct command_result result =
	    command_weir("export", train(), "-o", path, NULL);
	struct command_result a = command_weir("stats", train(), NULL);
	struct command_result b = command_weir("stats", path, NULL);

	EXPECT_STR_EQ(a.out, b.out);
	command_free(&result);
	command_free(&a);
	command_free(&b);
}

/* If a trace cannot be joined, the output file stays as it was. */
TEST(a_trace_of_another_time_is_refused)
{
	const char *out = written("old.json", "old\n", 4);
	char *text = NULL;
	struct command_result result =
	    command_weir("export", train(), "-f", "chrome", "-o", out, "--join",
		profile("late.json", first_time() + (int64_t)1e12), NULL);
	FILE *file = fopen(out, "r");

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "are of different times: ");
	text = calloc(1, 100);
	EXPECT_EQ(fread(text, 1, 99, file), 4);
	EXPECT_STR_EQ(text, "old\n");
	free(text);
	fclose(file);
	command_free(&result);
	result =
	    command_weir("export", train(), "--join", "x", "-f", "json", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--join goes with --format=chrome");
	command_free(&result);
}

TEST(folded_stacks_add_up_to_all_reserved_bytes)
{
	struct command_result result = exported("folded");
	uint64_t sum = 0;
	char *rest;
	char *copy = strdup(result.out);

	EXPECT_STR_HAS(result.out,
	    "device_0;stream_0;active_allocated;<module> (train.py:40);"
	    "__init__ (model.py:8) 6291456\n");
	EXPECT_STR_HAS(result.out, "device_0;stream_7f00;active_pending_free;");
	for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *number = strrchr(line, ' ');

		EXPECT_NOT_NULL(number);
		sum += strtoull(number + 1, NULL, 10);
	}
	EXPECT_EQ(sum, 130023424);
	free(copy);
	command_free(&result);
}

TEST(the_csv_is_replayed)
{
	struct command_result result = exported("csv");
	const char *path = written("rows.csv", result.out, strlen(result.out));
	json_t *json = ask_json(0, "replay", path, "--check", NULL);

	expect_begin(result.out,
	    "# {\"name\": \"train4.pickle\", \"peak_reserved\": 109051904}\n"
	    "action,addr,size,stream,time_us\nS,7f0000000000,20971520,0,0\n");
	EXPECT_EQ(number_at(json, "allocs"), 46);
	EXPECT_EQ(number_at(json, "events"), 115);
	EXPECT_EQ(number_at(json, "recorded_held_bytes"), 109051904);
	EXPECT_EQ(number_at(json, "ooms"), 0);
	json_decref(json);
	command_free(&result);
}

TEST(bytes_held_at_the_peak_are_printed_and_not_those_at_the_end)
{
	static const char text[] =
	    "{\"segments\": [{\"address\": 8192, \"total_size\": 512, "
	    "\"blocks\": []}], \"device_traces\": [[{\"action\": "
	    "\"segment_alloc\", \"addr\": 40960, \"size\": 4096}, "
	    "{\"action\": \"segment_free\", \"addr\": 40960, \"size\": "
	    "4096}, {\"action\": \"segment_unmap\", \"addr\": 81920, "
	    "\"size\": 1024}, {\"action\": \"alloc\", \"addr\": 8192, "
	    "\"size\": 512}]]}";
	const char *path = written("peak.json", text, sizeof(text) - 1);
	struct command_result result =
	    ask(0, "export", path, "--format", "csv");
	json_t *json;

	EXPECT_STR_HAS(result.out, "\"peak_reserved\": 5632}\n");
	json = ask_json(0, "replay", path, NULL, NULL);
	EXPECT_EQ(number_at(json, "recorded_held_bytes"), 5632);
	json_decref(json);
	command_free(&result);
}

TEST(the_csv_of_a_recording_of_weir_says_how_long_its_waits_took)
{
	static const char text[] =
	    "{\"segments\": [], \"device_traces\": [[{\"action\": "
	    "\"alloc\", \"addr\": 8192, \"size\": 512}]], "
	    "\"allocator_settings\": {\"weir_gpu_wait_ns\": "
	    "{\"0\": 5000999, \"1\": 7}}}";
	const char *path = written("waits.json", text, sizeof(text) - 1);
	struct command_result result =
	    ask(0, "export", path, "--format", "csv");

	EXPECT_STR_HAS(
	    result.out, ", \"allocator\": \"weir\", \"gpu_wait_us\": 5000}\n");
	command_free(&result);
}

/* So a replay has them, too. */
TEST(the_csv_says_of_which_pool_requests_are)
{
	static const char text[] =
	    "{\"segments\": [], \"device_traces\": [["
	    "{\"action\": \"alloc\", \"addr\": 512, \"size\": 512}, "
	    "{\"action\": \"alloc\", \"addr\": 1024, \"size\": 512, "
	    "\"pool_id\": [0, 7]}, "
	    "{\"action\": \"alloc\", \"addr\": 2048, \"size\": 512, "
	    "\"pool_id\": [0, 7]}, "
	    "{\"action\": \"alloc\", \"addr\": 4096, \"size\": 512, "
	    "\"pool_id\": [0, 0]}]]}";
	const char *path = written("pools.json", text, sizeof(text) - 1);
	struct command_result result =
	    ask(0, "export", path, "--format", "csv");

	EXPECT_STR_HAS(result.out,
	    "\na,200,512,0,0\np,0,1,0,0\na,400,512,0,0\n"
	    "a,800,512,0,0\np,0,0,0,0\na,1000,512,0,0\n");
	command_free(&result);
	result = ask(0, "replay", path, "--sim", NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* Some recorders write 2^64-1 for an unknown line, and some write no times. */
TEST(lines_and_times_are_written_as_they_were_read)
{
	static const char text[] =
	    "{\"segments\": [], \"device_traces\": [[{\"action\": "
	    "\"alloc\", \"addr\": 512, \"size\": 7, \"stream\": -1, "
	    "\"frames\": [{\"name\": \"f\", \"filename\": \"??\", "
	    "\"line\": 18446744073709551615}, {\"name\": \"g\", "
	    "\"filename\": \"g.py\", \"line\": 4294967294}]}]]}";
	const char *path = written("lines.json", text, sizeof(text) - 1);
	struct command_result result =
	    ask(0, "export", path, "--format", "json");

	EXPECT_STR_HAS(result.out, "\"line\": 18446744073709551615}");
	EXPECT_STR_HAS(result.out, "\"line\": 4294967294}");
	EXPECT_STR_HAS(result.out, "\"stream\": -1");
	EXPECT_NULL(strstr(result.out, "time_us"));
	command_free(&result);
	/* A frame without a line is shown without one. */
	result = ask(0, "trace", path, NULL, NULL);
	EXPECT_NULL(strstr(result.out, "4294967295"));
	command_free(&result);
}

TEST(each_device_of_a_snapshot_is_replayed)
{
	struct command_result result =
	    command_weir("replay", "--json", "--check", train(), NULL);
	const char *second = strchr(result.out, '\n');

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "\"name\":\"train4.pickle, device 0\"");
	EXPECT_NOT_NULL(second);
	EXPECT_STR_HAS(second, "\"name\":\"train4.pickle, device 1\"");
	command_free(&result);
	result =
	    command_weir("replay", "--json", "--device", "2", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "the snapshot has no trace of device 2");
	command_free(&result);
	result = command_weir("replay", "--device", "x", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--device is the number of a device");
	command_free(&result);
	char *csv = test_data("moe_start.csv");

	result = command_weir("replay", "--device", "0", csv, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "a CSV trace has one device");
	command_free(&result);
	free(csv);
}

TEST(a_snapshot_is_replayed_itself)
{
	json_t *json = ask_json(0, "replay", train(), "--device", "0");

	EXPECT_EQ(number_at(json, "allocs"), 46);
	EXPECT_EQ(number_at(json, "snapshot_device"), 0);
	json_decref(json);
	expect_refused(
	    "replay", snapshot_data("segments.pickle"), "has no trace");
}

/* An address that is allocated twice was freed in between. A block that is
 * freed and was not allocated is older than the trace. */
TEST(events_that_a_trace_lacks_are_added_to_the_csv)
{
	static const char text[] =
	    "{\"segments\": [{\"address\": 8192, \"total_size\": 512, "
	    "\"blocks\": [{\"size\": 512, \"requested_size\": 300, \"state\": "
	    "\"active_allocated\"}]}], \"device_traces\": [[{\"action\": "
	    "\"alloc\", \"addr\": 512, \"size\": 7, \"time_us\": 10}, "
	    "{\"action\": \"alloc\", \"addr\": 512, \"size\": 8, \"time_us\": "
	    "20}, {\"action\": \"free_completed\", \"addr\": 1024, \"size\": "
	    "9, \"time_us\": 30}, {\"action\": \"free_requested\", \"addr\": "
	    "1024, \"size\": 10, \"time_us\": 40}]]}";
	const char *path = written("gaps.json", text, sizeof(text) - 1);
	struct command_result result =
	    ask(0, "export", path, "--format", "csv");
	const char *rows = strstr(result.out, "time_us\n");

	EXPECT_NOT_NULL(rows);
	EXPECT_STR_EQ(rows,
	    "time_us\na,400,9,0,0\na,2000,300,0,0\na,200,7,0,0\n"
	    "f,200,7,0,10\na,200,8,0,10\nf,400,9,0,20\nc,400,9,0,20\n"
	    "a,400,10,0,30\nf,400,10,0,30\n");
	command_free(&result);
}

/* ---- Files ----------------------------------------------------------- */

TEST(a_written_file_is_its_owners_alone)
{
	const char *path =
	    written("out.json", "old text, longer than nothing", 29);
	struct command_result result;
	struct stat about;

	EXPECT_EQ(chmod(path, 0666), 0);
	result = ask(0, "export", train(), "-o", path);
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_mode & 0777, 0600);
	EXPECT_GT(about.st_size, 1000);
	result = ask(0, "check", path, NULL, NULL);
	command_free(&result);
}

TEST(a_symbolic_link_is_not_followed)
{
	const char *path = written("target", "precious", 8);
	char *link = NULL;
	struct command_result result;
	struct stat about;

	EXPECT_GT(asprintf(&link, "%s.link", path), 0);
	EXPECT_EQ(symlink(path, link), 0);
	result = command_weir("export", "-o", link, train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "it is a symbolic link");
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_size, 8);
	EXPECT_EQ(unlink(link), 0);
	command_free(&result);
	free(link);
}

TEST(a_device_that_is_there_keeps_its_mode)
{
	struct stat before;
	struct stat after;
	struct command_result result;

	EXPECT_EQ(stat("/dev/null", &before), 0);
	result = ask(0, "export", train(), "-o", "/dev/null");
	command_free(&result);
	EXPECT_EQ(stat("/dev/null", &after), 0);
	EXPECT_EQ(before.st_mode, after.st_mode);
	result = command_weir("export", "-o", "/dev/full", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "cannot write /dev/full");
	command_free(&result);
}

TEST(a_failed_write_is_reported)
{
	struct command_result result =
	    command_weir("export", "--format", "gif", train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "json, chrome, folded or csv, not 'gif'");
	command_free(&result);
	result = command_weir("export", "-f", "csv", "-d", "7", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "has devices 0 and 1 only, not 7");
	command_free(&result);
	result = command_weir("export", "-d", "0", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--device goes with --format=csv");
	command_free(&result);
	result = command_weir("export", "-o", "/nowhere/x", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(
	    result.err, "/nowhere/x: cannot be written: No such file");
	command_free(&result);
}

/* A process that has the old file open still reads the old content. */
TEST(a_file_is_replaced_when_the_new_one_is_complete)
{
	const char *path = written("kept.json", "before", 6);
	char text[8] = "";
	struct command_result result;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	result = ask(0, "export", train(), "-o", path);
	command_free(&result);
	EXPECT_EQ(read(fd, text, sizeof(text)), 6);
	EXPECT_STR_EQ(text, "before");
	close(fd);
	result = ask(0, "check", path, NULL, NULL);
	command_free(&result);
}

TEST(json_of_another_format_is_refused)
{
	struct command_result result =
	    command_weir("export", "--json", "--format=csv", train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(
	    result.err, "--json goes with --format=json, not with csv");
	command_free(&result);
}
