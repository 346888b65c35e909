/*
 * weir run: start a program with its GPU memory under weir.
 *
 * The program is not changed: the dynamic linker loads libweir_preload.so
 * before its libraries, and the options reach it through the environment.
 * They are checked here first, because a program cannot be told at its first
 * allocation.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "tools/weir/tool.h"

/* What shells return for a program that is not there, or cannot be run. */
enum { EXIT_NOT_RUNNABLE = 126, EXIT_NOT_FOUND = 127 };

struct choices {
	const char *report;
	bool quiet;
	bool leaks;
	const char *sites; /* how many; NULL for none */
	const char *conf;
	const char *history;  /* the level; NULL for none */
	const char *snapshot; /* the file's name; NULL for none */
	bool watch;
	bool simulated;
	char **program; /* its argv; NULL if none was named */
};

static const struct argp_option flags[] = {
	{ "report", 'r', "FILE", 0,
	    "write the report to FILE, as JSON, and not as text to stderr; %p "
	    "in FILE is the process",
	    0 },
	{ "quiet", 'q', NULL, 0, "no report", 0 },
	{ "leaks", 'l', NULL, 0,
	    "tell what was not freed, by the calls that allocated it", 0 },
	{ "sites", 'n', "N", OPTION_ARG_OPTIONAL,
	    "tell the N (10) stacks of calls that had most at the peak", 0 },
	{ "conf", 'c', "CONF", 0,
	    "options, \"key:value,key:value\"; replaces WEIR_CONF", 0 },
	{ "history", 'H', "LEVEL", OPTION_ARG_OPTIONAL,
	    "keep the history from the first allocation on, with stacks: none, "
	    "state, alloc or all (all)",
	    0 },
	{ "snapshot", 'S', "FILE", 0,
	    "write a snapshot to FILE at the end, or when memory has run out; "
	    "%p in FILE is the process, %w why: exit, oom or signal",
	    0 },
	{ "watch", 'w', NULL, 0,
	    "let 'weir watch' look at the program while it runs", 0 },
	{ "sim", 's', NULL, 0,
	    "use the simulated device and CUDA libraries, as is done where "
	    "there is no GPU",
	    0 },
	{ 0 },
};

/* A whole number above 0. */
static bool
is_count(const char *text)
{
	return *text != '0' && *text != '\0' && strlen(text) < 10 &&
	    strspn(text, "0123456789") == strlen(text);
}

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'r':
		choices->report = value;
		return 0;
	case 'q':
		choices->quiet = true;
		return 0;
	case 'l':
		choices->leaks = true;
		return 0;
	case 'n':
		choices->sites = value != NULL ? value : "10";
		if (!is_count(choices->sites))
			argp_error(state, "--sites=%s: not a number from 1",
			    choices->sites);
		return 0;
	case 'c':
		choices->conf = value;
		return 0;
	case 'H':
		choices->history = value != NULL ? value : "all";
		return 0;
	case 'S':
		choices->snapshot = value;
		return 0;
	case 'w':
		choices->watch = true;
		return 0;
	case 's':
		choices->simulated = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The rest belongs to the program. */
		choices->program = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no PROGRAM");
		return 0;
	case ARGP_KEY_END:
		if (choices->quiet &&
		    (choices->report != NULL || choices->leaks ||
			choices->sites != NULL))
			argp_error(
			    state, "--quiet and what belongs to a report");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_run = { flags, take_flag, "[--] PROGRAM [ARGUMENT...]",
	"Run PROGRAM with its GPU memory under weir.\v"
	"The exit status is the program's; 127 if there is no such program, "
	"126 "
	"if it cannot be run, 2 for a wrong option.",
	NULL, NULL, NULL };

static bool
set_variable(const char *name, const char *value)
{
	if (setenv(name, value, 1) == 0)
		return true;
	complain("cannot set %s: %s", name, strerror(errno));
	return false;
}

/* Where a file is, seen from any folder: the program may change its own before
 * it is written. On the heap; NULL, and a complaint, if that cannot be told. */
static char *
absolute(const char *file)
{
	char folder[TOOL_PATH] = "";
	char *path;

	if ((file[0] != '/' && getcwd(folder, sizeof(folder)) == NULL) ||
	    asprintf(&path, "%s%s%s", folder, file[0] != '/' ? "/" : "", file) <
		0) {
		complain("cannot tell where %s is: %s", file, strerror(errno));
		return NULL;
	}
	return path;
}

static bool
set_destination(const char *file)
{
	char *path;
	bool done;

	if (file[0] == '\0' || strcmp(file, "-") == 0)
		return set_variable("WEIR_REPORT", file);
	path = absolute(file);
	done = path != NULL && set_variable("WEIR_REPORT", path);
	free(path);
	return done;
}

/* The options that flags stand for, behind those that are given. */
static bool
set_conf(const struct choices *choices)
{
	const char *given = choices->conf;
	char *file = NULL;
	char *all = NULL;
	bool done = false;

	if (given == NULL)
		given = getenv("WEIR_CONF");
	if (choices->snapshot != NULL) {
		file = absolute(choices->snapshot);
		if (file == NULL)
			return false;
		if (strchr(file, ',') != NULL) {
			complain("--snapshot=%s: a comma in the name cannot "
				 "be told to the program",
			    file);
			goto drop;
		}
	}
	if (asprintf(&all, "%s%s%s%s%s%s", given != NULL ? given : "",
		choices->history != NULL ? ",history:" : "",
		choices->history != NULL ? choices->history : "",
		file != NULL ? ",snapshot:" : "", file != NULL ? file : "",
		choices->watch ? ",watch:True" : "") < 0) {
		complain("out of memory");
		all = NULL;
		goto drop;
	}
	done = (choices->conf == NULL && *all == '\0') ||
	    set_variable("WEIR_CONF", all);

drop:
	free(all);
	free(file);
	return done;
}

/* WEIR_REPORT of the environment counts where the command line says nothing. */
static bool
set_report(const struct choices *choices)
{
	const char *given = getenv("WEIR_REPORT");
	const char *file = choices->report;

	if (choices->quiet)
		file = "";
	if (file == NULL && (given == NULL || *given == '\0'))
		file = "-";
	if (file != NULL && !set_destination(file))
		return false;
	if (choices->leaks && !set_variable("WEIR_REPORT_LEAKS", "1"))
		return false;
	return choices->sites == NULL ||
	    set_variable("WEIR_REPORT_SITES", choices->sites);
}

/* Put the library before what is preloaded already. */
static bool
set_preload(void)
{
	const char *old = getenv("LD_PRELOAD");
	char library[TOOL_PATH];
	char *all;
	bool done;

	if (!locate("libweir_preload.so", library))
		return false;
	if (old == NULL || *old == '\0')
		return set_variable("LD_PRELOAD", library);
	if (asprintf(&all, "%s:%s", library, old) < 0) {
		complain("out of memory");
		return false;
	}
	done = set_variable("LD_PRELOAD", all);
	free(all);
	return done;
}

/* Check the options as the program will find them. */
static bool
conf_accepted(void)
{
	struct weir_option option;

	if (weir_option_at(0, &option) == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

int
cmd_run(int argc, char **argv)
{
	struct choices choices = { 0 };
	int error;

	argp_parse(&argp_run, argc, argv, ARGP_IN_ORDER, NULL, &choices);
	if (!set_conf(&choices))
		return TOOL_NO;
	if (!conf_accepted())
		return TOOL_USAGE;
	if (!set_report(&choices))
		return TOOL_NO;
	if (!use_simulated_if(choices.simulated) || !set_preload())
		return TOOL_NO;
	execvp(choices.program[0], choices.program);
	error = errno;
	complain("%s: %s", choices.program[0], strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
}
