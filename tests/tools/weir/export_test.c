/*
 * weir export: other tools read what it writes, and so does weir.
 */
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

TEST(the_json_is_read_again_and_says_the_same)
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

TEST(a_snapshot_is_replayed_itself)
{
	json_t *json = ask_json(0, "replay", train(), "--check", NULL);

	EXPECT_EQ(number_at(json, "allocs"), 46);
	EXPECT_STR_EQ(text_at(json, "name"), "train4.pickle");
	json_decref(json);
	expect_refused(
	    "replay", snapshot_data("segments.pickle"), "has no trace");
}

/* An address that is allocated twice was freed in between; what is freed and
 * was not allocated was there before. */
TEST(what_a_trace_lacks_is_put_into_the_csv)
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
	EXPECT_EQ(result.status, 1);
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
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "cannot write /dev/full");
	command_free(&result);
}

TEST(what_cannot_be_written_is_said)
{
	struct command_result result =
	    command_weir("export", "--format", "gif", train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "json, chrome, folded or csv, not 'gif'");
	command_free(&result);
	result = command_weir("export", "-f", "csv", "-d", "7", train(), NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "there is no trace of that device");
	command_free(&result);
	result = command_weir("export", "-d", "0", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--device goes with --format=csv");
	command_free(&result);
	result = command_weir("export", "-o", "/nowhere/x", train(), NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "cannot write /nowhere/x: No such file");
	command_free(&result);
}
