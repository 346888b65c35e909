/*
 * weir ctl: values of running programs that do not know weir.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"

/* `weir ctl PID A B` prints this and succeeds. */
static void
expect_out(const char *a, const char *b, const char *out)
{
	struct command_result result =
	    command_weir("ctl", program_pid, a, b, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, out);
	command_free(&result);
}

static void
expect_err(const char *a, const char *b, const char *err)
{
	struct command_result result =
	    command_weir("ctl", program_pid, a, b, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, err);
	command_free(&result);
}

TEST(values_of_a_running_program_are_read_and_set)
{
	struct program program = program_start_watched();

	expect_out("stats.live", NULL, "1048576\n");
	expect_out("stats.live", "stats.0.blocks",
	    "stats.live=1048576 bytes\nstats.0.blocks=1\n");
	expect_out("set", "option.decay_ms=77", "");
	expect_out("option.decay_ms", NULL, "77\n");
	expect_out("limit", NULL, "limit.0=unlimited bytes\n");
	expect_out("set", "limit.0=8G", "");
	expect_out("limit.0", NULL, "8589934592\n");
	program_step(&program, 'a', 0);
	expect_out("stats.live", NULL, "2097152\n");
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(the_history_begins_when_it_is_asked_for)
{
	struct program program = program_start_watched();
	struct command_result result;

	expect_out("set", "history.level=all", "");
	program_step(&program, 'a', 0);
	result = command_weir("watch", program_pid, "--once", NULL);
	EXPECT_STR_HAS(result.out, "history all");
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(all_values_are_listed_with_their_meaning)
{
	struct program program = program_start_watched();
	struct command_result result =
	    command_weir("ctl", program_pid, "--long", NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_HAS(
	    result.out, "\noption.prefer=balance\n    Whether a stream");
	EXPECT_STR_HAS(
	    result.out, "    May be set to: speed, balance or memory.\n");
	EXPECT_STR_HAS(result.out, "\nstats.0.held=");
	EXPECT_STR_HAS(result.out, "\nreset.sums (can only be set)\n");
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(json_has_numbers_and_flags)
{
	struct program program = program_start_watched();
	struct command_result result =
	    command_weir("ctl", "--json", program_pid, "stats.live",
		"option.watch", "limit.0", "reset", NULL);
	json_t *json = json_loads(result.out, 0, NULL);
	const json_t *values = json_object_get(json, "values");

#define VALUE(i) json_object_get(json_array_get(values, i), "value")
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(json_array_size(values), 5);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "format_version")), 1);
	EXPECT_EQ(json_integer_value(VALUE(0)), 1 << 20);
	EXPECT(json_is_true(VALUE(1)));
	EXPECT_STR_EQ(json_string_value(VALUE(2)), "unlimited");
	EXPECT(json_is_null(VALUE(3)));
#undef VALUE
	json_decref(json);
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(the_error_of_a_refused_value_names_it)
{
	struct program program = program_start_watched();
	char pages[300];

	expect_err("stats.hold", NULL,
	    "weir: there is no path 'stats.hold'; did you mean 'stats.held'?");
	expect_err("set", "option.prefer=haste",
	    "weir: option prefer is invalid: 'haste' is not speed, balance or "
	    "memory");
	expect_err("set", "option.watch=False",
	    "option.watch is heeded before the first allocation only");
	expect_err("set", "stats.held=1", "stats.held can only be read");
	expect_err("set", "stats.held", "PATH=VALUE, not 'stats.held'");
	expect_err("set", NULL, "no PATH=VALUE to set");
	memset(pages, 'p', sizeof(pages) - 1);
	pages[sizeof(pages) - 1] = '\0';
	expect_err(pages, NULL, "too long for a path");
	EXPECT_EQ(program_finish(&program), 0);
	expect_err("stats.held", NULL, "there is no process");
	snprintf(program_pid, sizeof(program_pid), "x");
	expect_err(
	    "stats.held", NULL, "PID is the number of a process, not 'x'");
}
