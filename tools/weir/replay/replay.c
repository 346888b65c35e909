/*
 * weir replay: play recorded traces through weir and print their figures.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/replay/replay_table.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"
#include "tools/weir/torch/torch_replay.h"
#include "tools/weir/tuning.h"

/* The figures of all traces so far. Static, so that it is still reachable in a
 * child process that ends in the middle of a function (leak checkers). */
static json_t *all_figures;

struct choices {
	struct trial_choices trial;
	bool json;
	bool fit;
	bool simulated;
	const char *as; /* "torch,KEY:VALUE", or NULL: weir */
	int device;     /* of snapshots; -1: all devices that have a trace */
	char **traces;  /* paths; NULL ends the list */
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print an object for each trace, one a line",
	    0 },
	{ "limit", 'l', "BYTES", 0,
	    "let weir hold at most BYTES, such as 512M or 8G", 0 },
	{ "device", 'd', "N", 0, "play device N of a snapshot (default: all)",
	    0 },
	{ "conf", 'c', "CONF", 0, "options, \"key:value,key:value\"", 0 },
	{ "speed", 'x', "N", 0, "play N times as fast as recorded (default: 1)",
	    0 },
	{ "late", 'r', "US", 0, "play each row up to US microseconds late", 0 },
	{ "seed", 'e', "N", 0, "seed for --late (default: 1)", 0 },
	{ "check", 'k', NULL, 0,
	    "write to all memory, and check it every 1000 rows", 0 },
	{ "touch", 't', NULL, 0,
	    "write to each block, and check it at its free", 0 },
	{ "unreported", 'u', NULL, 0,
	    "do not report the work of streams to weir", 0 },
	{ "explain", 'w', "N", OPTION_ARG_OPTIONAL,
	    "print how requests were served, N costliest too", 0 },
	{ "fit", 'f', NULL, 0,
	    "find the smallest limit at which no request fails", 0 },
	{ "as", 'a', "ALLOCATOR", 0,
	    "a model in place of weir: torch[,KEY:VALUE...]", 0 },
	{ "sim", 's', NULL, 0, "use the simulated device, as without a GPU",
	    0 },
	{ 0 },
};

static double
parse_real(const struct argp_state *state, const char *flag, const char *value,
    double least, double most)
{
	double number = least;

	if (!number_parse(value, least, most, &number))
		argp_error(state, "%s is a number from %g to %g, not '%s'",
		    flag, least, most, value);
	return number;
}

static uint64_t
parse_whole(const struct argp_state *state, const char *flag, const char *value)
{
	uint64_t count = 0;

	if (!count_parse(value, UINT64_MAX, &count))
		argp_error(
		    state, "%s is a whole number, not '%s'", flag, value);
	return count;
}

static int
parse_replay_device(const struct argp_state *state, const char *value)
{
	uint64_t device = 0;

	if (!count_parse(value, INT32_MAX, &device))
		argp_error(state,
		    "--device is the number of a device, not '%s'", value);
	return (int)device;
}

static uint64_t
parse_replay_limit(const struct argp_state *state, const char *value)
{
	uint64_t bytes = 0;

	if (!bytes_parse(value, &bytes))
		argp_error(state,
		    "--limit is a size such as 512M or 8G, not '%s'", value);
	return bytes;
}

/* The flags that say how a trace is played. */
static error_t
parse_play_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	struct play_choices *play = &choices->trial.play;

	switch (key) {
	case 'l':
		play->limit_bytes = parse_replay_limit(state, value);
		return 0;
	case 'x':
		play->speed = parse_real(state, "--speed", value, 0.001, 1e6);
		return 0;
	case 'r':
		play->late_us = parse_real(state, "--late", value, 0, 1e9);
		return 0;
	case 'e':
		play->seed = parse_whole(state, "--seed", value);
		return 0;
	case 'k':
		play->check = true;
		return 0;
	case 't':
		play->touch = true;
		return 0;
	case 'u':
		play->unreported = true;
		return 0;
	case 'w':
		play->explain = true;
		if (value != NULL)
			play->costliest =
			    parse_whole(state, "--explain", value);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Refuse an allocator that is not modelled. */
static void
parse_as(const struct argp_state *state, const char *value)
{
	char why[TORCH_CONF_WHY];
	struct torch_conf conf;

	if (!torch_as_parse(value, &conf, why))
		argp_error(state, "%s", why);
}

static error_t
parse_replay_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'd':
		choices->device = parse_replay_device(state, value);
		return 0;
	case 'c':
		choices->trial.conf = value;
		return 0;
	case 'f':
		choices->fit = true;
		return 0;
	case 'a':
		parse_as(state, value);
		choices->as = value;
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
		if (choices->fit &&
		    choices->trial.play.limit_bytes != UINT64_MAX)
			argp_error(
			    state, "--fit finds a limit; do not set --limit");
		if (choices->fit && choices->as != NULL)
			argp_error(state, "--fit goes without --as");
		return 0;
	default:
		return parse_play_flag(key, value, state);
	}
}

const struct argp argp_replay = { flags, parse_replay_flag, "TRACE...",
	"Play recorded allocations through weir, each trace from an empty "
	"arena.\v"
	"A TRACE is a memory snapshot or CSV, plain or compressed by xz or "
	"gzip; - is stdin. Efficiency is peak live over peak held. Exit "
	"status: 0 done, 1 a check failed, 2 trouble.",
	NULL, NULL, NULL };

static bool
print_line(const json_t *object)
{
	bool printed = json_print(object, JSON_COMPACT, stdout);

	putchar('\n');
	fflush(stdout);
	return printed;
}

/* Add the device to the name of a trace, for snapshots with several devices. */
static void
name_device(json_t *figures, int device)
{
	char name[300];

	snprintf(name, sizeof(name), "%.256s, device %d",
	    json_string_value(json_object_get(figures, "name")), device);
	json_object_set_new(figures, "name", json_string(name));
}

/* Play one trace, and print or keep its figures. *next is the next device of
 * the snapshot that has a trace, or -1. */
static int
replay_one(const char *path, const struct choices *choices, int *next)
{
	json_t *figures;
	int status = trial_run(path, &choices->trial, &figures);
	const json_t *device = json_object_get(figures, "snapshot_device");
	const json_t *other = json_object_get(figures, "next_device");

	*next = other != NULL ? (int)json_integer_value(other) : -1;
	if (figures == NULL)
		return status;
	if (*next >= 0 || (device != NULL && choices->trial.device >= 0))
		name_device(figures, (int)json_integer_value(device));
	json_object_del(figures, "next_device");
	json_array_append_new(all_figures, figures);
	if (status == TOOL_DONE && choices->fit) {
		uint64_t bytes;

		status = trial_fit(path, &choices->trial, figures, &bytes);
		json_object_set_new(figures, "fit_bytes",
		    bytes == 0 ? json_null() : json_integer((json_int_t)bytes));
	}
	json_object_set_new(
	    figures, "format_version", json_integer(JSON_VERSION));
	if (choices->json && !print_line(figures))
		return TOOL_FAILED;
	return status;
}

/* Play a CSV trace, all devices of a snapshot, or the device that --device
 * names. */
static int
replay_file(const char *path, struct choices *choices)
{
	int status;
	int next;

	if (choices->as != NULL) {
		const struct torch_request request = {
			.path = path,
			.as = choices->as,
			.limit_bytes = choices->trial.play.limit_bytes,
			.device = choices->device,
			.json = choices->json,
		};

		return torch_replay_file(&request);
	}
	choices->trial.device = choices->device;
	status = replay_one(path, choices, &next);
	while (next >= 0 && choices->device < 0 && status == TOOL_DONE) {
		if (strcmp(path, "-") == 0) {
			complain("stdin: only the first device was played; "
				 "use --device=N, or a file instead of stdin");
			return TOOL_FAILED;
		}
		choices->trial.device = next;
		status = replay_one(path, choices, &next);
	}
	return status;
}

int
cmd_replay(int argc, char **argv)
{
	struct choices choices = { .trial.play = { .limit_bytes = UINT64_MAX,
				       .speed = 1,
				       .seed = 1,
				       .costliest = REPLAY_COSTLIEST },
		.device = -1 };
	int result = TOOL_DONE;

	argp_parse(&argp_replay, argc, argv, 0, NULL, &choices);
	/* A model needs no device. */
	if (choices.as == NULL &&
	    (!use_simulated_if(choices.simulated) ||
		!trial_conf_accepted("--conf", choices.trial.conf)))
		return TOOL_FAILED;
	all_figures = json_array();
	for (char **path = choices.traces; *path != NULL; path++) {
		int status = replay_file(*path, &choices);

		if (status > result)
			result = status;
	}
	if (!choices.json && choices.as == NULL && !replay_print(all_figures)) {
		complain("cannot print: out of memory");
		result = TOOL_FAILED;
	}
	json_decref(all_figures);
	return result;
}
