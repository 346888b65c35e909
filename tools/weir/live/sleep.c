/*
 * weir sleep and weir wake: take the memory of a running program, or of all
 * programs of a group, off the devices, and give it back.
 */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/ctl.h>

#include "allocator/share/ledger_file.h"
#include "tools/weir/live/sleep_answer.h"
#include "tools/weir/live/sleep_group.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/tool.h"

struct choices {
	pid_t pid;         /* 0: a group's name is given */
	const char *group; /* NULL: a PID is given */
	const char *folder;
	bool json;
	bool discards_some;        /* of one process */
	char value[WEIR_CTL_TEXT]; /* of sleep.state */
};

enum { FLAG_LIVE_ONLY = 256, FLAG_FAIL, FLAG_DISCARD_ALL };

static const struct argp_option sleep_flags[] = {
	{ "discard", 'd', "POOL|NAME|ADDRESS+BYTES", 0,
	    "do not keep a pool, by number or name, or a range, of PID; "
	    "may be repeated",
	    0 },
	{ "discard-all", FLAG_DISCARD_ALL, NULL, 0, "keep no contents", 0 },
	{ "live-only", FLAG_LIVE_ONLY, NULL, 0,
	    "keep live blocks only, also of memory that graphs keep", 0 },
	{ "fail", FLAG_FAIL, NULL, 0,
	    "let requests and launches fail meanwhile, and not wait", 0 },
	{ "folder", 'f', "FOLDER", 0,
	    "the folder of GROUP's ledgers, as option group_folder", 0 },
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ 0 },
};

static const struct argp_option wake_flags[] = {
	{ "wait", 'w', "MS", 0,
	    "wait so many milliseconds for memory that others hold "
	    "(default: 0)",
	    0 },
	{ "folder", 'f', "FOLDER", 0,
	    "the folder of GROUP's ledgers, as option group_folder", 0 },
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

/* A name that is all digits is a PID. */
static void
parse_target(
    struct choices *choices, const char *value, const struct argp_state *state)
{
	if (choices->pid != 0 || choices->group != NULL)
		argp_error(state, "more than one PID or GROUP");
	if (is_number(value))
		choices->pid = watch_parse_pid(value, state);
	else if (ledger_is_name(value))
		choices->group = value;
	else
		argp_error(state,
		    "PID is the number of a process, and GROUP the name of a "
		    "group, not '%s'",
		    value);
}

static void
check_target(const struct choices *choices, const struct argp_state *state)
{
	if (choices->pid == 0 && choices->group == NULL)
		argp_error(state, "no PID or GROUP");
	if (choices->group != NULL && choices->discards_some)
		argp_error(state,
		    "--discard is of one process: give its PID, or "
		    "--discard-all");
	if (choices->group == NULL && choices->folder != NULL)
		argp_error(state, "--folder is of a GROUP");
}

static error_t
parse_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'f':
		choices->folder = value;
		return 0;
	case 'd':
		choices->discards_some = true;
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
		parse_target(choices, value, state);
		return 0;
	case ARGP_KEY_END:
		check_target(choices, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_sleep = { sleep_flags, parse_flag, "PID|GROUP",
	"Take the memory of a program, or of all programs of a group, off the "
	"devices. What is live is copied to host memory. A program waits at "
	"its next launch or request until 'weir wake'.\v"
	"A program is one that 'weir run --may-sleep' started. What stays on "
	"the device is printed, with the reason. A name that is all digits is "
	"a PID. Exit status: 0 done, 1 a member of GROUP refused, 2 trouble.",
	NULL, NULL, NULL };

const struct argp argp_wake = { wake_flags, parse_flag, "PID|GROUP",
	"Give a program that sleeps, or all of a group, the memory back, with "
	"its contents, at the same addresses.\v"
	"If others hold the memory the program goes on sleeping, and the "
	"command can be repeated. Members of a group that share a device wake "
	"in the order of their priorities. A name that is all digits is a PID. "
	"Exit status: 0 done, 1 a member of GROUP refused, 2 trouble.",
	NULL, NULL, NULL };

/* ---- Printing ------------------------------------------------------------ */

static void
print_bytes(const char *what, uint64_t bytes)
{
	printf("%-24s %12.1f MiB\n", what, (double)bytes / (1 << 20));
}

static void
print_stays(const struct watch_ctl_reply *reply)
{
	for (const struct sleep_reason *reason = sleep_reasons;
	     reason->name != NULL; reason++) {
		uint64_t bytes = sleep_number(reply, reason->name);
		char what[32];

		snprintf(what, sizeof(what), "stays: %s", reason->text);
		if (bytes > 0)
			print_bytes(what, bytes);
	}
}

static void
print_text(const struct watch_ctl_reply *reply, bool asleep)
{
	uint64_t ns = sleep_number(reply, asleep ? "asleep_ns" : "awake_ns");

	print_bytes(asleep ? "given back" : "mapped",
	    sleep_number(reply, asleep ? "freed" : "mapped"));
	print_bytes(asleep ? "copied" : "copied back",
	    sleep_number(reply, asleep ? "copied" : "restored"));
	if (asleep) {
		print_bytes("discarded", sleep_number(reply, "discarded"));
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

	sleep_add_json(object, reply);
	printed = json_print(object, JSON_INDENT(2), stdout);
	putchar('\n');
	json_decref(object);
	return printed;
}

/* ---- The commands -------------------------------------------------------- */

static int
change_process(const struct choices *choices, bool asleep)
{
	static struct watch_ctl_reply reply;
	const struct watch_ctl_request change =
	    sleep_change_request(choices->value);
	const struct watch_ctl_request list = sleep_list_request();
	enum watch_answer answer;
	bool printed = true;
	int fd;

	if (!watch_reach(choices->pid, SLEEP_ANSWER_MS, &fd))
		return TOOL_FAILED;
	answer = watch_ask_values(fd, &change, NULL);
	if (answer == WATCH_ANSWERED)
		answer = watch_ask_values(fd, &list, &reply);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)choices->pid);
	if (answer == WATCH_ANSWERED && choices->json)
		printed = print_json(choices->pid, &reply);
	else if (answer == WATCH_ANSWERED)
		print_text(&reply, asleep);
	if (!printed)
		complain("cannot print: out of memory");
	return answer == WATCH_ANSWERED && printed ? TOOL_DONE : TOOL_FAILED;
}

static int
change_and_print(const struct argp *argp, bool asleep, int argc, char **argv)
{
	struct choices choices = { 0 };

	strcpy(choices.value, asleep ? "asleep" : "awake");
	argp_parse(argp, argc, argv, 0, NULL, &choices);
	if (choices.group != NULL) {
		const struct group_change change = { choices.group,
			choices.folder, choices.value, asleep, choices.json };

		return sleep_group(&change);
	}
	return change_process(&choices, asleep);
}

int
cmd_sleep(int argc, char **argv)
{
	return change_and_print(&argp_sleep, true, argc, argv);
}

int
cmd_wake(int argc, char **argv)
{
	return change_and_print(&argp_wake, false, argc, argv);
}
