/*
 * weir sleep and weir wake: take the memory of a running program off its
 * devices, and give it back.
 */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/ctl.h>

#include "tools/weir/live/watch_link.h"
#include "tools/weir/tool.h"

struct choices {
	pid_t pid;
	bool json;
	char value[WEIR_CTL_TEXT]; /* of sleep.state */
};

enum { FLAG_LIVE_ONLY = 256, FLAG_FAIL, FLAG_DISCARD_ALL };

static const struct argp_option sleep_flags[] = {
	{ "discard", 'd', "POOL|ADDRESS+BYTES", 0,
	    "do not keep the contents of a pool, by its number, or of a range; "
	    "they are undefined afterwards. May be repeated",
	    0 },
	{ "discard-all", FLAG_DISCARD_ALL, NULL, 0, "keep no contents", 0 },
	{ "live-only", FLAG_LIVE_ONLY, NULL, 0,
	    "keep live blocks only, also of memory that graphs keep", 0 },
	{ "fail", FLAG_FAIL, NULL, 0,
	    "let requests and launches fail meanwhile, and not wait", 0 },
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ 0 },
};

static const struct argp_option wake_flags[] = {
	{ "wait", 'w', "MS", 0,
	    "wait so many milliseconds for memory that others hold "
	    "(default: 0)",
	    0 },
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ 0 },
};

static void
add_word(struct choices *choices, const char *before, const char *word,
    const struct argp_state *state)
{
	size_t length = strlen(choices->value);
	size_t left = sizeof(choices->value) - length;

	if (strchr(word, ',') != NULL)
		argp_error(state, "'%s': a comma", word);
	if ((size_t)snprintf(
		choices->value + length, left, ",%s%s", before, word) >= left)
		argp_error(state, "too many flags for one request");
}

static bool
is_number(const char *text)
{
	return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

static error_t
parse_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'd':
		add_word(choices,
		    is_number(value) ? "discard=pool:" : "discard=", value,
		    state);
		return 0;
	case 'w':
		if (!is_number(value))
			argp_error(state, "--wait=%s: not a number", value);
		add_word(choices, "wait=", value, state);
		return 0;
	case FLAG_LIVE_ONLY:
		add_word(choices, "", "live-only", state);
		return 0;
	case FLAG_FAIL:
		add_word(choices, "", "fail", state);
		return 0;
	case FLAG_DISCARD_ALL:
		add_word(choices, "", "discard-all", state);
		return 0;
	case ARGP_KEY_ARG:
		if (choices->pid != 0)
			argp_error(state, "more than one PID");
		choices->pid = watch_parse_pid(value, state);
		return 0;
	case ARGP_KEY_END:
		if (choices->pid == 0)
			argp_error(state, "no PID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_sleep = { sleep_flags, parse_flag, "PID",
	"Take the memory of a running program off its devices, for others to "
	"use. What is live is copied to host memory. The program waits at its "
	"next launch or request until 'weir wake'.\v"
	"The program must have been started by 'weir run --may-sleep'. What "
	"stays on the device is printed, with the reason. " TOOL_STATUS,
	NULL, NULL, NULL };

const struct argp argp_wake = { wake_flags, parse_flag, "PID",
	"Give a program that sleeps its memory back, with its contents, at the "
	"same addresses.\v"
	"If others hold the memory the program goes on sleeping, and the "
	"command can be repeated. " TOOL_STATUS,
	NULL, NULL, NULL };

/* ---- Asking -------------------------------------------------------------- */

static enum watch_answer
change_state(int fd, const struct choices *choices)
{
	struct watch_ctl_request request = { .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = WATCH_SET };

	strcpy(request.path, "sleep.state");
	strcpy(request.value, choices->value);
	return watch_ask_values(fd, &request, NULL);
}

static enum watch_answer
list_numbers(int fd, struct watch_ctl_reply *reply)
{
	struct watch_ctl_request request = { .magic = WATCH_MAGIC,
		.version = WATCH_VERSION,
		.kind = WATCH_LIST };

	strcpy(request.path, "sleep");
	return watch_ask_values(fd, &request, reply);
}

/* ---- Printing ------------------------------------------------------------ */

static uint64_t
number_of(const struct watch_ctl_reply *reply, const char *name)
{
	for (uint32_t i = 0; i < reply->row_count; i++)
		if (strcmp(reply->rows[i].path + strlen("sleep."), name) == 0)
			return strtoull(reply->rows[i].text, NULL, 10);
	return 0;
}

static void
print_bytes(const char *what, uint64_t bytes)
{
	printf("%-24s %12.1f MiB\n", what, (double)bytes / (1 << 20));
}

static void
print_stays(const struct watch_ctl_reply *reply)
{
	static const char *const stays[][2] = {
		{ "stays_segment", "stays: driver segments" },
		{ "stays_pinned", "stays: pinned, exported" },
		{ "stays_refused", "stays: driver refused" },
		{ "stays_shared", "stays: program's, shared" },
		{ "stays_odd", "stays: program's, odd" },
	};

	for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++)
		if (number_of(reply, stays[i][0]) > 0)
			print_bytes(stays[i][1], number_of(reply, stays[i][0]));
}

static void
print_text(const struct watch_ctl_reply *reply, bool asleep)
{
	uint64_t ns = number_of(reply, asleep ? "asleep_ns" : "awake_ns");

	print_bytes(asleep ? "given back" : "mapped",
	    number_of(reply, asleep ? "freed" : "mapped"));
	print_bytes(asleep ? "copied" : "copied back",
	    number_of(reply, asleep ? "copied" : "restored"));
	if (asleep) {
		print_bytes("discarded", number_of(reply, "discarded"));
		print_stays(reply);
	}
	printf("%-24s %12.1f ms\n", "time", (double)ns / 1e6);
}

static bool
print_json(pid_t pid, const struct watch_ctl_reply *reply)
{
	json_t *object = json_pack(
	    "{si si}", "format_version", JSON_VERSION, "pid", (int)pid);
	bool printed;

	for (uint32_t i = 0; i < reply->row_count; i++) {
		const struct watch_ctl_row *row = &reply->rows[i];
		const char *name = row->path + strlen("sleep.");

		json_object_set_new(object, name,
		    strcmp(name, "state") == 0 ?
			json_string(row->text) :
			json_integer(
			    (json_int_t)strtoull(row->text, NULL, 10)));
	}
	printed = json_print(object, JSON_INDENT(2), stdout);
	putchar('\n');
	json_decref(object);
	return printed;
}

/* ---- The commands -------------------------------------------------------- */

static int
change_and_print(
    const struct argp *argp, const char *state, int argc, char **argv)
{
	static struct watch_ctl_reply reply;
	struct choices choices = { 0 };
	enum watch_answer answer;
	bool printed = true;
	int fd;

	strcpy(choices.value, state);
	argp_parse(argp, argc, argv, 0, NULL, &choices);
	if (!watch_reach(choices.pid, SLEEP_ANSWER_MS, &fd))
		return TOOL_FAILED;
	answer = change_state(fd, &choices);
	if (answer == WATCH_ANSWERED)
		answer = list_numbers(fd, &reply);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)choices.pid);
	if (answer == WATCH_ANSWERED && choices.json)
		printed = print_json(choices.pid, &reply);
	else if (answer == WATCH_ANSWERED)
		print_text(&reply, strcmp(state, "asleep") == 0);
	if (!printed)
		complain("cannot print: out of memory");
	return answer == WATCH_ANSWERED && printed ? TOOL_DONE : TOOL_FAILED;
}

int
cmd_sleep(int argc, char **argv)
{
	return change_and_print(&argp_sleep, "asleep", argc, argv);
}

int
cmd_wake(int argc, char **argv)
{
	return change_and_print(&argp_wake, "awake", argc, argv);
}
