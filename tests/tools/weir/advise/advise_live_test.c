/*
 * weir advise PID: the answer for a program that runs.
 */
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"

/* Start a program that can be watched, with these options. */
static struct program
start_with(const char *conf)
{
	struct program program;

	runtime_folder();
	setenv("WEIR_CONF", conf, 1);
	program = program_start("--watch");
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)program.pid);
	return program;
}

/* Make blocks, free every block but the first, and make one again. */
static void
work(const struct program *program)
{
	for (int i = 0; i < 40; i++)
		program_step(program, 'a', 0);
	for (int i = 0; i < 39; i++)
		program_step(program, 'f', 0);
	program_step(program, 'a', 0);
}

/* The advice of `weir advise` for device 0 of a process or a file. */
static json_t *
advised(const char *subject)
{
	struct command_result result =
	    command_weir("advise", "--json", subject, NULL);
	json_t *json = json_loads(result.out, 0, NULL);
	json_t *device;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_LE(result.status, 1);
	if (json == NULL)
		FAIL("no JSON: %s", result.out);
	device =
	    json_incref(json_array_get(json_object_get(json, "devices"), 0));
	EXPECT_NOT_NULL(device);
	json_decref(json);
	command_free(&result);
	return device;
}

/* The number of files of weir advise that are left. */
static size_t
files_left(void)
{
	glob_t found;
	size_t n;

	if (glob("/tmp/weir-advise-*", 0, NULL, &found) != 0)
		return 0;
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

TEST(a_running_program_gets_the_answer_of_its_snapshot)
{
	struct program program = start_with("history:all,handle_mb:4");
	char *path = test_file("live.pickle", "", 0);
	struct command_result result;
	json_t *live;
	json_t *file;

	work(&program);
	live = advised(program_pid);
	result = command_weir("watch", program_pid, "--snapshot", path, NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	file = advised(path);
	EXPECT_STR_EQ(
	    json_string_value(json_object_get(live, "allocator")), "weir");
	EXPECT_STR_EQ(
	    json_string_value(json_object_get(live, "conf")), "handle_mb:4");
	EXPECT_GE(json_integer_value(json_object_get(live, "peak_held_bytes")),
	    40 << 20);
	EXPECT_GT(json_integer_value(json_object_get(live, "tried")), 0);
	EXPECT(json_equal(live, file));
	/* The program goes on. */
	program_step(&program, 'a', 0);
	EXPECT_EQ(program_finish(&program), 0);
	json_decref(file);
	json_decref(live);
	free(path);
}

TEST(a_running_program_s_files_are_removed)
{
	size_t before = files_left();
	struct program program = start_with("history:all");

	program_step(&program, 'a', 0);
	json_decref(advised(program_pid));
	EXPECT_LE(files_left(), before);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(a_running_program_without_a_history_is_told_so)
{
	struct program program = start_with("");
	struct command_result result;

	program_step(&program, 'a', 0);
	result = command_weir("advise", program_pid, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "has no history");
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}

/* The report of `weir run` on a program that makes these steps. */
static char *
reported(const char *steps)
{
	char *weir = test_build("bin/weir");
	char *program = test_build("tests/programs/driver_steps");
	const char *shell[] = { "sh", "-c",
		"printf \"$2\" | \"$0\" run --report=- --sim -- \"$1\"", weir,
		program, steps, NULL };
	struct command_result result;
	char *report;

	runtime_folder();
	result = command_run(shell);
	EXPECT_EQ(result.status, 0);
	report = strdup(result.err);
	EXPECT_NOT_NULL(report);
	command_free(&result);
	free(program);
	free(weir);
	return report;
}

TEST(the_report_names_weir_advise_if_a_request_failed)
{
	char *served = reported("af");
	char *failed = reported("ao");

	EXPECT_STR_HAS(served, "allocations served");
	EXPECT_NULL(strstr(served, "advise"));
	EXPECT_STR_HAS(failed, "'weir advise FILE' says which settings help");
	EXPECT_STR_HAS(failed, "--history --snapshot FILE");
	free(served);
	free(failed);
}
