/*
 * weir generate: write the trace of a program with several streams.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/guess.h"
#include "tools/weir/replay/workload.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

struct choices {
	uint64_t seed;
	uint64_t events;
	uint64_t repeat;
	const struct workload_kind *kind;
};

static const struct argp_option flags[] = {
	{ "seed", 's', "N", 0, "seed of the random numbers (default: 1)", 0 },
	{ "events", 'n', "N", 0,
	    "write about N rows, 1 to 100000000 (default: 50000)", 0 },
	{ "repeat", 'r', "N", 0,
	    "repeat the first N steps of each thread (default: 0, none)", 0 },
	{ 0 },
};

/* A whole number, or a usage error that names the flag. */
static uint64_t
parse_generate_number(const struct argp_state *state, const char *flag,
    const char *value, uint64_t least, uint64_t most)
{
	uint64_t number = 0;

	if (!count_parse(value, most, &number) || number < least)
		argp_error(state, "%s is a number from %ju to %ju, not '%s'",
		    flag, (uintmax_t)least, (uintmax_t)most, value);
	return number;
}

static void
refuse_kind(const struct argp_state *state, const char *name)
{
	const struct workload_kind *kind;
	struct guess guess;
	char nearest[GUESS_TEXT];

	guess_begin(&guess, name);
	for (size_t i = 0; (kind = workload_kind_at(i)) != NULL; i++)
		guess_try(&guess, kind->name);
	guess_text(&guess, nearest);
	argp_error(state, "no KIND '%s'%s", name,
	    nearest[0] != '\0' ? nearest : "; --help lists them");
}

static error_t
parse_generate_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 's':
		choices->seed = parse_generate_number(
		    state, "--seed", value, 0, UINT64_MAX);
		return 0;
	case 'n':
		choices->events = parse_generate_number(
		    state, "--events", value, 1, GENERATE_EVENTS_MAX);
		return 0;
	case 'r':
		choices->repeat = parse_generate_number(
		    state, "--repeat", value, 0, GENERATE_EVENTS_MAX);
		return 0;
	case ARGP_KEY_ARG:
		if (choices->kind != NULL)
			argp_error(state, "one KIND at a time");
		choices->kind = workload_kind(value);
		if (choices->kind == NULL)
			refuse_kind(state, value);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no KIND");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Put the list of kinds before the last part of the help. argp frees the
 * text. */
static char *
list_kinds(int key, const char *text, void *input)
{
	const struct workload_kind *kind;
	size_t length;
	char *list;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	out = open_memstream(&list, &length);
	if (out == NULL)
		return NULL;
	/* Two in a line, so that the help fits one screen. */
	for (size_t i = 0; (kind = workload_kind_at(i)) != NULL; i++)
		if (i % 2 == 0 && workload_kind_at(i + 1) != NULL)
			fprintf(out, "  %-9s%-29s", kind->name, kind->help);
		else
			fprintf(out, "  %-9s%s\n", kind->name, kind->help);
	fputs(text, out);
	return fclose(out) == 0 ? list : NULL;
}

const struct argp argp_generate = { flags, parse_generate_flag, "KIND",
	"Write a trace of a program, most of them with several streams, to "
	"stdout, in the form that 'weir replay' plays. The same KIND, seed and "
	"number of events give the same trace on every machine.\vThe trace "
	"continues until all work has ended, so it has a few rows more than "
	"N. " TOOL_STATUS,
	NULL, list_kinds, NULL };

int
cmd_generate(int argc, char **argv)
{
	struct choices choices = { .seed = 1, .events = 50000 };
	struct workload *workload;
	bool made;

	argp_parse(&argp_generate, argc, argv, 0, NULL, &choices);
	workload = workload_new(choices.seed);
	made = workload != NULL &&
	    workload_run(workload, choices.kind, choices.events,
		(unsigned)choices.repeat) &&
	    workload_write(workload, choices.kind->name, stdout);
	workload_free(workload);
	if (made)
		return TOOL_DONE;
	complain("out of memory");
	return TOOL_FAILED;
}
