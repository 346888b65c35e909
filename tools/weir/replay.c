/*
 * weir replay: play recorded traces through weir and tell what it took.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/weir/replay_table.h"
#include "tools/weir/tool.h"
#include "tools/weir/trial.h"

/* The figures of all traces so far. Static, so that a child that ends in the
 * middle of a function has not lost it. */
static json_t *all_figures;

struct choices {
	struct trial_choices trial;
	bool json;
	bool fit;
	bool simulated;
	char **traces; /* paths, up to NULL */
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object a trace, one a line", 0 },
	{ "limit", 'l', "BYTES", 0,
	    "let weir hold at most so much of the device; 512M, 8G", 0 },
	{ "conf", 'c', "CONF", 0, "options, \"key:value,key:value\"", 0 },
	{ "speed", 'x', "N", 0,
	    "play N times as fast as it was recorded; 1 is the default", 0 },
	{ "late", 'r', "US", 0,
	    "play each row late by up to so many microseconds, at random", 0 },
	{ "seed", 'e', "N", 0, "of what is random in that; 1 is the default",
	    0 },
	{ "check", 'k', NULL, 0,
	    "check all memory every 1000 rows and at the end, and write to it",
	    0 },
	{ "touch", 't', NULL, 0,
	    "write to all of each block, and see at its free that it is still "
	    "there",
	    0 },
	{ "fit", 'f', NULL, 0,
	    "find the smallest limit at which no request fails", 0 },
	{ "sim", 's', NULL, 0,
	    "play on the simulated device, as is done where there is no GPU",
	    0 },
	{ 0 },
};

static double
take_number(const struct argp_state *state, const char *flag, const char *value,
    double least, double most)
{
	double number = least;

	if (!number_parse(value, least, most, &number))
		argp_error(state, "%s is a number from %g to %g, not '%s'",
		    flag, least, most, value);
	return number;
}

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	struct play_choices *play = &choices->trial.play;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'l':
		if (!bytes_parse(value, &play->limit_bytes))
			argp_error(state,
			    "--limit is a size such as 512M or 8G, not '%s'",
			    value);
		return 0;
	case 'c':
		choices->trial.conf = value;
		return 0;
	case 'x':
		play->speed = take_number(state, "--speed", value, 0.001, 1e6);
		return 0;
	case 'r':
		play->late_us = take_number(state, "--late", value, 0, 1e9);
		return 0;
	case 'e':
		if (!count_parse(value, UINT64_MAX, &play->seed))
			argp_error(
			    state, "--seed is a whole number, not '%s'", value);
		return 0;
	case 'k':
		play->check = true;
		return 0;
	case 't':
		play->touch = true;
		return 0;
	case 'f':
		choices->fit = true;
		return 0;
	case 's':
		choices->simulated = true;
		return 0;
	case ARGP_KEY_ARGS:
		choices->traces = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no TRACE");
		return 0;
	case ARGP_KEY_SUCCESS:
		if (choices->fit && play->limit_bytes != UINT64_MAX)
			argp_error(
			    state, "--fit finds the limit that --limit sets");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_replay = { flags, take_flag, "TRACE...",
	"Play recorded allocations through weir, each trace from an empty "
	"arena, and print what they took.\v"
	"A TRACE is a memory snapshot, whose trace is played, or CSV with the "
	"columns action,addr,size,stream,time_us, plain or compressed by xz; "
	"- is stdin. "
	"Efficiency is peak live bytes over peak held "
	"bytes; late map calls come after the first tenth of the rows; host "
	"waits are times the host waited for the device, and gpu waits times "
	"a stream did so that memory could be reused. Exit status: 0, also "
	"when requests failed for want of memory; 1 if a trace could not be "
	"played or a check failed; 2 for a wrong command line.",
	NULL, NULL, NULL };

static bool
print_line(const json_t *object)
{
	bool printed = json_dumpf(object, stdout, JSON_COMPACT) == 0;

	putchar('\n');
	fflush(stdout);
	return printed;
}

/* Play one trace, and print or keep its figures. */
static int
replay_one(const char *path, const struct choices *choices)
{
	json_t *figures;
	int status = trial_run(path, &choices->trial, &figures);

	if (figures == NULL)
		return status;
	json_array_append_new(all_figures, figures);
	if (status == TOOL_DONE && choices->fit) {
		uint64_t bytes;

		status = trial_fit(path, &choices->trial, figures, &bytes);
		json_object_set_new(figures, "fit_bytes",
		    bytes == 0 ? json_null() : json_integer((json_int_t)bytes));
	}
	if (choices->json && !print_line(figures))
		return TOOL_NO;
	return status;
}

int
cmd_replay(int argc, char **argv)
{
	struct choices choices = { .trial.play = { .limit_bytes = UINT64_MAX,
				       .speed = 1,
				       .seed = 1 } };
	int result = TOOL_DONE;

	argp_parse(&argp_replay, argc, argv, 0, NULL, &choices);
	if (!use_simulated_if(choices.simulated))
		return TOOL_NO;
	all_figures = json_array();
	for (char **path = choices.traces; *path != NULL; path++) {
		int status = replay_one(*path, &choices);

		if (status != TOOL_DONE)
			result = status;
		if (status == TOOL_USAGE)
			break;
	}
	if (!choices.json && !replay_print(all_figures)) {
		complain("cannot print: out of memory");
		result = TOOL_NO;
	}
	json_decref(all_figures);
	return result;
}
