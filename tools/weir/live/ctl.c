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

#include <weir/ctl.h>

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

/* ---- Requests ---------------------------------------------------------- */

/* The rows of all paths of the command line. */
struct rows {
	struct watch_ctl_row *row;
	size_t count;
	size_t capacity;
};

static bool
add_rows(struct rows *rows, const struct watch_ctl_reply *reply)
{
	size_t n = rows->count + reply->row_count;

	if (n > rows->capacity) {
		size_t capacity = 2 * n;
		void *more = realloc(rows->row, capacity * sizeof(*rows->row));

		if (more == NULL) {
			complain("cannot print: out of memory");
			return false;
		}
		rows->row = more;
		rows->capacity = capacity;
	}
	if (reply->row_count > 0)
		memcpy(rows->row + rows->count, reply->rows,
		    reply->row_count * sizeof(*rows->row));
	rows->count = n;
	return true;
}

static bool
begin_request(struct watch_ctl_request *request, enum watch_kind kind,
    const char *path, size_t length)
{
	*request = (struct watch_ctl_request){ .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = (uint32_t)kind };
	if (length < sizeof(request->path)) {
		memcpy(request->path, path, length);
		return true;
	}
	complain("'%s': too long for a path", path);
	return false;
}

/* Append the rows at and below a path. The process may make devices between
 * two requests, so that its count of rows may grow: no row is requested twice,
 * and an answer without rows ends the list. */
static enum watch_answer
list_values(int fd, const char *path, struct rows *rows)
{
	static struct watch_ctl_reply reply;
	struct watch_ctl_request request;
	enum watch_answer answer;

	if (!begin_request(&request, WATCH_LIST, path, strlen(path)))
		return WATCH_FAILED;
	do {
		answer = watch_ask_values(fd, &request, &reply);
		if (answer != WATCH_ANSWERED)
			return answer;
		if (!add_rows(rows, &reply))
			return WATCH_FAILED;
		request.from += reply.row_count;
	} while (reply.row_count > 0 && request.from < reply.rows_all);
	return WATCH_ANSWERED;
}

static enum watch_answer
set_value(int fd, const char *word)
{
	struct watch_ctl_request request;
	const char *equals = strchr(word, '=');

	if (!begin_request(&request, WATCH_SET, word, (size_t)(equals - word)))
		return WATCH_FAILED;
	if (strlen(equals + 1) >= sizeof(request.value)) {
		complain("%s: the value is too long", request.path);
		return WATCH_FAILED;
	}
	strcpy(request.value, equals + 1);
	return watch_ask_values(fd, &request, NULL);
}

/* ---- Printing ---------------------------------------------------------- */

static json_t *
row_value_json(const struct watch_ctl_row *row)
{
	uint64_t number = strtoull(row->text, NULL, 10);
	bool is_number = row->text[0] >= '0' && row->text[0] <= '9';

	if (row->readable == 0)
		return json_null();
	switch ((enum weir_ctl_type)row->type) {
	case WEIR_CTL_TYPE_FLAG:
		return json_boolean(strcmp(row->text, "True") == 0);
	case WEIR_CTL_TYPE_COUNT:
		if (is_number && number <= INT64_MAX)
			return json_integer((json_int_t)number);
		break;
	case WEIR_CTL_TYPE_REAL:
		return json_real(strtod(row->text, NULL));
	case WEIR_CTL_TYPE_TEXT:
		break;
	}
	return json_string(row->text);
}

static bool
print_values_json(const struct choices *choices, const struct rows *rows)
{
	json_t *object = json_object();
	json_t *values = json_array();
	bool printed;

	json_object_set_new(
	    object, "format_version", json_integer(JSON_VERSION));
	json_object_set_new(object, "pid", json_integer(choices->pid));
	for (size_t i = 0; i < rows->count; i++) {
		const struct watch_ctl_row *row = &rows->row[i];

		json_array_append_new(values,
		    json_pack("{ss so ss sb ss ss}", "path", row->path, "value",
			row_value_json(row), "unit", row->unit, "writable",
			row->writable != 0, "accepted", row->accepted, "help",
			row->help));
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
print_values_text(const struct choices *choices, const struct rows *rows)
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
ask_all(int fd, const struct choices *choices, struct rows *rows)
{
	enum watch_answer answer = WATCH_ANSWERED;

	if (choices->word_count == 0)
		return list_values(fd, "", rows);
	for (size_t i = 0; i < choices->word_count && answer == WATCH_ANSWERED;
	     i++)
		answer = choices->set ?
		    set_value(fd, choices->words[i]) :
		    list_values(fd, choices->words[i], rows);
	return answer;
}

int
cmd_ctl(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct rows rows = { 0 };
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
