/*
 * weir ctl: read and set values of a running process by name.
 */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/live/ctl_values.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/tool.h"

enum { WORDS = 64 };

struct choices {
	pid_t pid;
	bool json;
	bool verbose;
	bool set; /* words are PATH=VALUE */
	const char *words[WORDS];
	size_t word_count;
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ "long", 'l', NULL, 0,
	    "also print each value's meaning and the values it accepts", 0 },
	{ 0 },
};

static void
parse_ctl_word(
    struct choices *choices, const char *value, const struct argp_state *state)
{
	if (choices->pid == 0) {
		choices->pid = watch_parse_pid(value, state);
	} else if (!choices->set && choices->word_count == 0 &&
	    strcmp(value, "set") == 0) {
		choices->set = true;
	} else {
		if (choices->word_count == WORDS)
			argp_error(state, "more than %d paths", WORDS);
		if (choices->set && strchr(value, '=') == NULL)
			argp_error(state, "PATH=VALUE, not '%s'", value);
		choices->words[choices->word_count++] = value;
	}
}

static error_t
parse_ctl_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'l':
		choices->verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		parse_ctl_word(choices, value, state);
		return 0;
	case ARGP_KEY_END:
		if (choices->pid == 0)
			argp_error(state, "no PID");
		if (choices->set && choices->word_count == 0)
			argp_error(state, "no PATH=VALUE to set");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_ctl = { flags, parse_ctl_flag,
	"PID [PATH...]\nPID set PATH=VALUE...",
	"Read or set options, statistics and limits of a running process by "
	"name. A whole PATH prints its value alone. The beginning of a PATH, "
	"such as 'stats.0' or 'option', prints each value below it. Without "
	"PATH, all values are printed.\v"
	"Examples: weir ctl 4711 stats.held\n"
	"          weir ctl 4711 set option.decay_ms=1000 limit.0=8G\n"
	"          weir ctl 4711 set history.level=all reset.peaks=all\n\n"
	"The process must be one that 'weir watch' can look at. It makes no "
	"call of the driver to answer. The values are set one after the other. "
	"The first one that is refused ends the command; the values before "
	"it stay set. " TOOL_STATUS,
	NULL, NULL, NULL };

/* ---- Printing ---------------------------------------------------------- */

static bool
print_values_json(const struct choices *choices, const struct ctl_rows *rows)
{
	json_t *object = json_object();
	json_t *values = json_array();
	bool printed;

	json_object_set_new(
	    object, "format_version", json_integer(JSON_VERSION));
	json_object_set_new(object, "pid", json_integer(choices->pid));
	for (size_t i = 0; i < rows->count; i++) {
		const struct watch_ctl_row *row = &rows->row[i];

		json_array_append_new(values, ctl_row_json(row));
	}
	json_object_set_new(object, "values", values);
	printed = json_print(object, JSON_INDENT(2), stdout);
	putchar('\n');
	json_decref(object);
	return printed;
}

static void
print_ctl_value(const struct watch_ctl_row *row)
{
	if (row->readable == 0)
		printf("%s (can only be set)", row->path);
	else
		printf("%s=%s", row->path, row->text);
	if (row->unit[0] != '\0')
		printf(" %s", row->unit);
	putchar('\n');
}

static void
print_values_text(const struct choices *choices, const struct ctl_rows *rows)
{
	if (!choices->verbose && choices->word_count == 1 && rows->count == 1 &&
	    strcmp(choices->words[0], rows->row[0].path) == 0 &&
	    rows->row[0].readable != 0) {
		puts(rows->row[0].text);
		return;
	}
	for (size_t i = 0; i < rows->count; i++) {
		const struct watch_ctl_row *row = &rows->row[i];

		print_ctl_value(row);
		if (!choices->verbose)
			continue;
		if (row->help[0] != '\0')
			printf("    %s\n", row->help);
		if (row->writable != 0)
			printf("    May be set to: %s.\n", row->accepted);
	}
}

/* ---- The command ------------------------------------------------------- */

static enum watch_answer
ask_all(int fd, const struct choices *choices, struct ctl_rows *rows)
{
	enum watch_answer answer = WATCH_ANSWERED;

	if (choices->word_count == 0)
		return ctl_list(fd, "", rows);
	for (size_t i = 0; i < choices->word_count && answer == WATCH_ANSWERED;
	     i++)
		answer = choices->set ? ctl_set(fd, choices->words[i]) :
					ctl_list(fd, choices->words[i], rows);
	return answer;
}

int
cmd_ctl(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct ctl_rows rows = { 0 };
	enum watch_answer answer;
	bool printed = true;
	int fd;

	argp_parse(&argp_ctl, argc, argv, 0, NULL, &choices);
	if (!watch_reach(choices.pid, WATCH_ANSWER_MS, &fd))
		return TOOL_FAILED;
	answer = ask_all(fd, &choices, &rows);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)choices.pid);
	if (answer == WATCH_ANSWERED && choices.json && !choices.set)
		printed = print_values_json(&choices, &rows);
	else if (answer == WATCH_ANSWERED && !choices.set)
		print_values_text(&choices, &rows);
	free(rows.row);
	if (!printed)
		complain("cannot print: out of memory");
	return answer == WATCH_ANSWERED && printed ? TOOL_DONE : TOOL_FAILED;
}
