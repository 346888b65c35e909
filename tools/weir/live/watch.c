/*
 * weir watch: show the memory of a running process.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/out.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/live/watch_metrics.h"
#include "tools/weir/live/watch_show.h"
#include "tools/weir/live/watch_snapshot.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

struct choices {
	pid_t pid; /* 0: list the processes that can be watched */
	bool json;
	bool once;
	double interval_s;
	const char *snapshot;
	const char *openmetrics; /* a port, a file or "-" */
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object a line", 0 },
	{ "once", '1', NULL, 0, "print once and end", 0 },
	{ "interval", 'i', "SECONDS", 0,
	    "seconds between two samples, 0.01 to 86400 (default: 1)", 0 },
	{ "snapshot", 's', "FILE", 0,
	    "let the process write a snapshot to FILE, and end; JSON if FILE "
	    "ends in .json",
	    0 },
	{ "openmetrics", 'o', "PORT|FILE", 0,
	    "serve metrics at this port of localhost (0: any), or write them "
	    "to FILE each time; without PID, of all processes and groups",
	    0 },
	{ 0 },
};

static void
parse_watch_pid(
    struct choices *choices, const char *value, const struct argp_state *state)
{
	if (choices->pid != 0)
		argp_error(state, "'%s' is one PID too many", value);
	choices->pid = watch_parse_pid(value, state);
}

static error_t
parse_watch_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case '1':
		choices->once = true;
		return 0;
	case 'i':
		if (!number_parse(value, 0.01, 86400, &choices->interval_s))
			argp_error(state,
			    "--interval is a number of seconds from 0.01 to "
			    "86400, not '%s'",
			    value);
		return 0;
	case 's':
		choices->snapshot = value;
		return 0;
	case 'o':
		if (metrics_fault(value) != NULL)
			argp_error(state, "--openmetrics=%s: %s", value,
			    metrics_fault(value));
		choices->openmetrics = value;
		return 0;
	case ARGP_KEY_ARG:
		parse_watch_pid(choices, value, state);
		return 0;
	case ARGP_KEY_END:
		if (choices->pid == 0 && choices->snapshot != NULL)
			argp_error(state, "no PID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_watch = { flags, parse_watch_flag, "[PID]",
	"Show the GPU memory of a running process: live, pending, cached and "
	"held bytes, the largest streams and pools, and the rate of requests. "
	"Without PID, list the processes that can be watched.\v"
	"A process can be watched if it belongs to the user, was started by "
	"'weir run --watch' or with WEIR_CONF=watch:True, and has asked for "
	"memory. Watching makes no calls of the driver. Exit status: 0 if a "
	"sample was shown, even if the process has ended since; 1 if the list "
	"is empty; 2 trouble.",
	NULL, NULL, NULL };

/* ---- A snapshot -------------------------------------------------------- */

static bool
ends_in_json(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL && strcmp(dot, ".json") == 0;
}

/* ---- Samples ----------------------------------------------------------- */

/* Print a sample. False if stdout cannot be written, or without memory. */
static bool
show_sample(const struct choices *choices, const struct watch_reply *now,
    const struct watch_reply *before)
{
	bool shown = true;

	if (choices->json)
		shown = watch_show_json(now, before);
	else
		watch_show_text(
		    now, before, !choices->once && isatty(STDOUT_FILENO));
	if (!shown)
		complain("cannot print: out of memory");
	return shown && fflush(stdout) == 0;
}

static int
watch_process(const struct choices *choices)
{
	const struct watch_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_STATS, 0 };
	static struct watch_reply replies[2];
	unsigned samples = 0;
	enum watch_answer answer;
	bool go_on;
	int fd;

	if (!watch_reach(choices->pid, WATCH_ANSWER_MS, &fd))
		return TOOL_FAILED;
	do {
		struct watch_reply *now = &replies[samples % 2];

		if (samples > 0)
			watch_wait(choices->interval_s);
		answer = watch_ask(fd, &request, -1, now);
		go_on = answer == WATCH_ANSWERED &&
		    show_sample(choices, now,
			samples > 0 ? &replies[(samples + 1) % 2] : NULL);
		samples += answer == WATCH_ANSWERED;
	} while (go_on && !choices->once);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)choices->pid);
	return samples > 0 && answer != WATCH_FAILED ? TOOL_DONE : TOOL_FAILED;
}

/* ---- The list of processes --------------------------------------------- */

struct listing {
	bool json;
	unsigned found;
};

static void
list_one(pid_t pid, int fd, void *user)
{
	struct listing *listing = user;
	char name[32];

	(void)fd;
	watch_program((uint32_t)pid, name);
	if (listing->json) {
		printf("{\"format_version\":%d,\"pid\":%ld,\"program\":\"",
		    JSON_VERSION, (long)pid);
		json_escaped(name, strlen(name), stdout);
		puts("\"}");
	} else {
		printf("%7ld  %s\n", (long)pid, name);
	}
	listing->found++;
}

static int
list_all(const struct choices *choices)
{
	struct listing listing = { .json = choices->json };

	watch_each(WATCH_ANSWER_MS, list_one, &listing);
	if (listing.found > 0)
		return TOOL_DONE;
	complain("no process can be watched: start it by 'weir run --watch'");
	return TOOL_FOUND;
}

int
cmd_watch(int argc, char **argv)
{
	struct choices choices = { .interval_s = 1 };

	argp_parse(&argp_watch, argc, argv, 0, NULL, &choices);
	if (choices.openmetrics != NULL) {
		const struct metrics_request request = { choices.pid,
			choices.openmetrics, choices.interval_s, choices.once };

		return metrics_run(&request);
	}
	if (choices.pid == 0)
		return list_all(&choices);
	if (choices.snapshot != NULL)
		return watch_snapshot(choices.pid, choices.snapshot,
			   ends_in_json(choices.snapshot)) ?
		    TOOL_DONE :
		    TOOL_FAILED;
	return watch_process(&choices);
}
