/*
 * weir plan: writes a plan only if a replay holds no more with it.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* The trace of a generated program. */
static char *
program_of(const char *kind)
{
	struct command_result made = command_weir(
	    "generate", kind, "--repeat", "2", "--events", "6000", NULL);
	char *path = test_file("program.csv", made.out, strlen(made.out));

	EXPECT_EQ(made.status, 0);
	command_free(&made);
	return path;
}

static char *
no_file(const char *name)
{
	char *path = test_file(name, "", 0);

	unlink(path);
	return path;
}

/* Plan a program, and play it with the plan. */
static void
expect_planned(const char *kind)
{
	char *trace = program_of(kind);
	char *plan = no_file("run.plan");
	char conf[4096];

	struct command_result made =
	    command_weir("plan", trace, "-o", plan, NULL);
	EXPECT_EQ(made.status, 0);
	EXPECT_STR_EQ(made.err, "");
	EXPECT_STR_HAS(made.out, "with the plan");
	EXPECT_STR_HAS(made.out, "without");
	EXPECT_EQ(access(plan, R_OK), 0);
	snprintf(conf, sizeof(conf), "plan:%s", plan);
	struct command_result played = command_weir("replay", "--sim",
	    "--touch", "--check", "--conf", conf, trace, NULL);
	EXPECT_EQ(played.status, 0);
	EXPECT_STR_EQ(played.err, "");
	command_free(&played);
	command_free(&made);
	unlink(plan);
	free(plan);
	free(trace);
}

TEST(a_plan_of_a_program_that_repeats_itself_is_written_and_followed)
{
	expect_planned("train");
}

/* Without waits it needs more memory with a plan than without, and with waits
 * only it waits more. */
TEST(a_plan_of_a_program_with_streams_lets_some_of_them_wait)
{
	expect_planned("offload");
}

TEST(no_plan_is_written_if_its_waits_delay_work)
{
	char *trace = program_of("pipeline");
	char *plan = no_file("run.plan");

	struct command_result made =
	    command_weir("plan", trace, "-o", plan, NULL);
	EXPECT_EQ(made.status, 1);
	EXPECT_STR_HAS(made.out, "no plan helps");
	EXPECT_STR_HAS(made.out, "with the plan");
	EXPECT_NE(access(plan, F_OK), 0);
	command_free(&made);
	free(plan);
	free(trace);
}

/* The status of a plan for a program of which a recording says what it held. */
static int
status_for_recorded(const char *rows, const char *allocator, long long held)
{
	char *plan = no_file("run.plan");
	char *text;

	EXPECT_GT(asprintf(&text,
		      "# {\"name\": \"offload\", \"peak_reserved\": %lld, "
		      "\"allocator\": \"%s\"}\n%s",
		      held, allocator, rows),
	    0);
	char *path = test_file("offload.csv", text, strlen(text));
	struct command_result found =
	    command_weir("plan", path, "-o", plan, NULL);
	int status = found.status;

	command_free(&found);
	unlink(plan);
	free(plan);
	free(path);
	free(text);
	return status;
}

/* A replay knows no work that it was not told of. So a recording of weir's says
 * better how much the program holds without a plan. */
TEST(a_plan_may_hold_as_much_as_the_program_that_weir_recorded)
{
	const long long mib = 1 << 20;
	struct command_result made = command_weir(
	    "generate", "offload", "--repeat", "2", "--events", "6000", NULL);
	const char *rows = strchr(made.out, '\n') + 1;

	EXPECT_EQ(status_for_recorded(rows, "weir", 8192 * mib), 0);
	EXPECT_EQ(status_for_recorded(rows, "weir", 64 * mib), 1);
	EXPECT_EQ(status_for_recorded(rows, "native", 64 * mib), 0);
	command_free(&made);
}

/* A figure of a replay with options. */
static long long
replayed(const char *trace, const char *conf, const char *figure)
{
	struct command_result played = command_weir(
	    "replay", "--sim", "--json", "--conf", conf, trace, NULL);
	json_t *json = json_loads(played.out, 0, NULL);
	long long number = json_integer_value(json_object_get(json, figure));

	EXPECT_EQ(played.status, 0);
	EXPECT_NOT_NULL(json_object_get(json, figure));
	json_decref(json);
	command_free(&played);
	return number;
}

/* The rows of a snapshot, each a microsecond after the one before: a history
 * has the times of the host, which differ from run to run. */
static char *
evenly_timed(const char *snapshot)
{
	struct command_result rows =
	    command_weir("export", "--format", "csv", snapshot, NULL);
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	unsigned us = 0;
	char *rest = NULL;

	EXPECT_EQ(rows.status, 0);
	EXPECT_NOT_NULL(out);
	for (char *row = strtok_r(rows.out, "\n", &rest); row != NULL;
	     row = strtok_r(NULL, "\n", &rest))
		if (row[0] == '#' || strncmp(row, "action", 6) == 0)
			fprintf(out, "%s\n", row);
		else
			fprintf(out, "%.*s,%u\n",
			    (int)(strrchr(row, ',') - row), row, us++);
	EXPECT_EQ(fclose(out), 0);
	char *path = test_file("run.csv", text, size);
	command_free(&rows);
	free(text);
	return path;
}

/* The snapshot does not say which work the streams have. */
TEST(what_weir_recorded_leads_to_a_plan_by_which_nothing_moves)
{
	static const char *const kinds[] = { "offload", "prefetch" };

	for (int i = 0; i < 2; i++) {
		char *trace = program_of(kinds[i]);
		char *snapshot = no_file("run.pickle");
		char *plan = no_file("run.plan");
		char conf[4096];

		snprintf(
		    conf, sizeof(conf), "history:state,snapshot:%s", snapshot);
		EXPECT_GT(replayed(trace, conf, "moved_large_allocs"), 0);
		long long held = replayed(trace, "", "peak_held_bytes");
		long long us = replayed(trace, "", "duration_us");
		char *rows = evenly_timed(snapshot);
		struct command_result made =
		    command_weir("plan", rows, "-o", plan, NULL);
		EXPECT_EQ(made.status, 0);
		snprintf(conf, sizeof(conf), "plan:%s", plan);
		EXPECT_EQ(replayed(trace, conf, "moved_large_allocs"), 0);
		EXPECT_LE(replayed(trace, conf, "peak_held_bytes"), held);
		EXPECT_LE(replayed(trace, conf, "duration_us"), us + us / 100);
		command_free(&made);
		unlink(snapshot);
		unlink(plan);
		free(rows);
		free(snapshot);
		free(plan);
		free(trace);
	}
}

TEST(a_program_that_does_not_repeat_itself_has_no_plan)
{
	char *trace = program_of("vectors");
	char *plan = no_file("run.plan");

	struct command_result made =
	    command_weir("plan", trace, "-o", plan, NULL);
	EXPECT_EQ(made.status, 1);
	EXPECT_STR_HAS(made.out, "do not repeat");
	EXPECT_NE(access(plan, F_OK), 0);
	command_free(&made);
	free(plan);
	free(trace);
}

/* No plan is made of a recording, for this reason. */
static void
expect_no_plan(const char *name, const char *text, const char *reason)
{
	char *path = test_file(name, text, strlen(text));
	char *plan = no_file("run.plan");
	struct command_result made =
	    command_weir("plan", path, "-o", plan, NULL);

	EXPECT_EQ(made.status, 1);
	EXPECT_STR_HAS(made.out, reason);
	command_free(&made);
	free(plan);
	free(path);
}

TEST(a_program_without_a_large_request_has_no_plan)
{
	static const char rows[] = "action,addr,size,stream,time_us\n"
				   "a,1000,4096,0,1\nf,1000,4096,0,2\n";

	expect_no_plan("small.csv", rows, "it has no request above 1024 KiB");
}

/* Blocks that are older than the history repeat themselves by chance. */
TEST(a_history_without_a_request_has_no_plan)
{
	static const char snapshot[] =
	    "{\"segments\": [{\"address\": 4096, \"total_size\": 8388608, "
	    "\"blocks\": [{\"size\": 4194304, \"state\": "
	    "\"active_allocated\"}, {\"size\": 4194304, \"state\": "
	    "\"active_allocated\"}]}], \"device_traces\": [[{\"action\": "
	    "\"snapshot\", \"size\": 0, \"stream\": 0}]]}";

	expect_no_plan("idle.json", snapshot, "its history has no request");
}

/* Write a trace of rounds of three requests, of which round `strange` has
 * another size. */
static char *
rounds_with(int strange)
{
	char text[16384] = "action,addr,size,stream,time_us\n";
	size_t n = strlen(text);

	for (int i = 0; i < 60; i++) {
		int mib = 2 + i % 3 + (i / 3 == strange ? 20 : 0);

		n += (size_t)snprintf(text + n, sizeof(text) - n,
		    "a,7f0000000000,%d,0,%d\nf,7f0000000000,%d,0,%d\n",
		    mib << 20, 10 * i + 1, mib << 20, 10 * i + 2);
	}
	return test_file("rounds.csv", text, n);
}

TEST(a_check_says_what_of_a_plan_still_fits)
{
	char *plan = no_file("run.plan");
	char *trace = rounds_with(-1);

	struct command_result made =
	    command_weir("plan", trace, "-o", plan, NULL);
	EXPECT_EQ(made.status, 0);
	command_free(&made);
	made = command_weir("plan", "--check", plan, trace, NULL);
	EXPECT_EQ(made.status, 0);
	EXPECT_STR_HAS(made.out, "in 20 rounds as planned");
	command_free(&made);
	free(trace);
	trace = rounds_with(10);
	made = command_weir("plan", "--check", plan, trace, NULL);
	EXPECT_EQ(made.status, 1);
	EXPECT_STR_HAS(made.out,
	    "5 requests are served as without it; the "
	    "first is request 31, of 22.00 MiB");
	command_free(&made);
	free(trace);
	trace = program_of("vectors");
	made = command_weir("plan", "--check", plan, trace, NULL);
	EXPECT_EQ(made.status, 1);
	EXPECT_STR_HAS(made.out, "no round begins with");
	command_free(&made);
	made = command_weir("plan", "--check", trace, trace, NULL);
	EXPECT_EQ(made.status, 2);
	EXPECT_STR_HAS(made.err, "this is no plan");
	command_free(&made);
	unlink(plan);
	free(plan);
	free(trace);
}

TEST(what_is_no_recording_is_trouble)
{
	static const char text[] = "no trace\n";
	char *trace = test_file("text", text, sizeof(text) - 1);
	char *plan = no_file("run.plan");

	struct command_result made =
	    command_weir("plan", trace, "-o", plan, NULL);
	EXPECT_EQ(made.status, 2);
	command_free(&made);
	made = command_weir("plan", trace, NULL);
	EXPECT_EQ(made.status, 2);
	EXPECT_STR_HAS(made.err, "--output");
	command_free(&made);
	made = command_weir("plan", "-", "-o", plan, NULL);
	EXPECT_EQ(made.status, 2);
	command_free(&made);
	free(plan);
	free(trace);
}

TEST(a_program_is_not_run_with_what_is_no_plan)
{
	static const char text[] = "no plan";
	char *file = test_file("run.plan", text, sizeof(text) - 1);

	struct command_result run =
	    command_weir("run", "--sim", "--plan", file, "true", NULL);
	EXPECT_EQ(run.status, 2);
	EXPECT_STR_HAS(run.err, "this is no plan");
	command_free(&run);
	free(file);
}
