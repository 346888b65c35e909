/*
 * weir run: start a program with its GPU memory under weir.
 *
 * The program is not changed: the dynamic linker loads libweir_preload.so
 * before its libraries, and the options reach it through the environment. The
 * options are checked here first, because the program cannot report a wrong
 * option at its first allocation.
 *
 * With a report, the program is a child, and this process waits for its end. A
 * program that a signal ends cannot write its report, so that this process
 * writes it from the ledger (tools/report/ledger.h). With --quiet this process
 * becomes the program.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "allocator/share/ledger_file.h"
#include "snapshot/plan_file.h"
#include "tools/weir/guess.h"
#include "tools/weir/live/program.h"
#include "tools/weir/tool.h"

struct choices {
	const char *report;
	bool quiet;
	bool leaks;
	const char *sites; /* number of stacks; NULL for none */
	const char *conf;
	const char *history;  /* the level; NULL for none */
	const char *snapshot; /* the file's name; NULL for none */
	const char *plan;     /* likewise */
	const char *group;
	uint64_t limit;     /* bytes; 0: none given */
	uint64_t guarantee; /* likewise */
	const char *priority;
	bool watch;
	bool may_sleep;
	bool check_streams;
	bool torch;
	bool simulated;
	char **program; /* its argv; NULL if none was named */
};

/* Flags without a letter. */
enum { RUN_LIMIT = 256, RUN_GUARANTEE, RUN_PRIORITY };

static const struct argp_option flags[] = {
	{ "report", 'r', "FILE", 0,
	    "the report to FILE, as JSON, in place of stderr", 0 },
	{ "quiet", 'q', NULL, 0, "print no report", 0 },
	{ "leaks", 'l', NULL, 0, "report blocks not freed, with their stacks",
	    0 },
	{ "sites", 'n', "N", OPTION_ARG_OPTIONAL,
	    "report the N stacks that held most (default: 10)", 0 },
	{ "conf", 'c', "CONF", 0,
	    "options, \"key:value,...\"; replaces WEIR_CONF", 0 },
	{ "history", 'H', "LEVEL", OPTION_ARG_OPTIONAL,
	    "history, with stacks: none, state, alloc, all", 0 },
	{ "snapshot", 'S', "FILE", 0,
	    "snapshot at the end, and when memory runs out", 0 },
	{ "plan", 'p', "FILE", 0,
	    "place large requests as 'weir plan' has planned", 0 },
	{ "group", 'g', "NAME", 0,
	    "share one limit with this group (docs/sharing.md)", 0 },
	{ "limit", RUN_LIMIT, "SIZE", 0,
	    "the group's limit, if PROGRAM is its first", 0 },
	{ "guarantee", RUN_GUARANTEE, "SIZE", 0,
	    "what PROGRAM can always have of the limit", 0 },
	{ "priority", RUN_PRIORITY, "N", 0,
	    "who has a lower N lends unused memory first (100)", 0 },
	{ "watch", 'w', NULL, 0,
	    "let 'weir watch' and 'weir ctl' reach the program", 0 },
	{ "may-sleep", 'm', NULL, 0,
	    "let 'weir sleep' and 'weir watch' reach it", 0 },
	{ "check-streams", 'C', NULL, 0,
	    "report faults of streams (docs/faults.md)", 0 },
	{ "torch", 't', NULL, 0,
	    "replace PyTorch's allocator (docs/pytorch.md)", 0 },
	{ "sim", 's', NULL, 0, "use the simulated device, as without a GPU",
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

static const char *
parse_history_level(const char *value, const struct argp_state *state)
{
	static const char *const levels[] = { "none", "state", "alloc", "all",
		NULL };
	char nearest[GUESS_TEXT];

	if (value == NULL)
		return "all";
	for (size_t i = 0; levels[i] != NULL; i++)
		if (strcmp(value, levels[i]) == 0)
			return value;
	argp_error(state, "--history is none, state, alloc or all, not '%s'%s",
	    value, guess_of(value, levels, nearest));
	return value;
}

/* A size of at least 1 MiB, which options count in. */
static uint64_t
parse_run_size(
    const char *flag, const char *value, const struct argp_state *state)
{
	uint64_t bytes = 0;

	if (!bytes_parse(value, &bytes) || bytes >> 20 == 0)
		argp_error(state, "--%s=%s: not a size from 1M", flag, value);
	return bytes;
}

/* The flags of a group. */
static error_t
parse_group_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	uint64_t number;

	switch (key) {
	case 'g':
		choices->group = value;
		if (!ledger_is_name(value))
			argp_error(
			    state, "--group=%s: " LEDGER_NAME_RULE, value);
		return 0;
	case RUN_LIMIT:
		choices->limit = parse_run_size("limit", value, state);
		return 0;
	case RUN_GUARANTEE:
		choices->guarantee = parse_run_size("guarantee", value, state);
		return 0;
	case RUN_PRIORITY:
		choices->priority = value;
		if (!count_parse(value, 1000, &number))
			argp_error(state,
			    "--priority=%s: not a number from 0 to 1000",
			    value);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Are flags given that do not go together? */
static void
check_run_flags(const struct choices *choices, struct argp_state *state)
{
	if (choices->quiet &&
	    (choices->report != NULL || choices->leaks ||
		choices->sites != NULL))
		argp_error(state, "--quiet prints no report");
	if (choices->group == NULL &&
	    (choices->limit != 0 || choices->guarantee != 0 ||
		choices->priority != NULL))
		argp_error(state,
		    "--limit, --guarantee and --priority are of a --group");
	if (choices->limit != 0 && choices->guarantee > choices->limit)
		argp_error(state, "--guarantee is above --limit");
}

/* The flags without a value but -q and -l. False: another key. */
static bool
parse_run_switch(struct choices *choices, int key)
{
	switch (key) {
	case 'w':
		choices->watch = true;
		return true;
	case 'm':
		choices->may_sleep = true;
		choices->watch = true;
		return true;
	case 'C':
		choices->check_streams = true;
		return true;
	case 't':
		choices->torch = true;
		return true;
	case 's':
		choices->simulated = true;
		return true;
	default:
		return false;
	}
}

static error_t
parse_run_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	if (parse_run_switch(choices, key))
		return 0;
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
		choices->history = parse_history_level(value, state);
		return 0;
	case 'S':
		choices->snapshot = value;
		return 0;
	case 'p':
		choices->plan = value;
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
		check_run_flags(choices, state);
		return 0;
	default:
		return parse_group_flag(key, value, state);
	}
}

const struct argp argp_run = { flags, parse_run_flag,
	"[--] PROGRAM [ARGUMENT...]",
	"Run PROGRAM with its GPU memory under weir. FILE may have %p, %w. "
	"Exit status: the program's; 126, 127 not run; 2 trouble.",
	NULL, NULL, NULL };

static bool
set_variable(const char *name, const char *value)
{
	if (setenv(name, value, 1) == 0)
		return true;
	complain("cannot set %s: %s", name, strerror(errno));
	return false;
}

/* The absolute path of a file. The program may change its folder before it
 * writes the file. The caller frees the path. NULL, and a complaint, if the
 * current folder is unknown. */
static char *
absolute(const char *file)
{
	char folder[TOOL_PATH] = "";
	char *path;

	if ((file[0] != '/' && getcwd(folder, sizeof(folder)) == NULL) ||
	    asprintf(&path, "%s%s%s", folder, file[0] != '/' ? "/" : "", file) <
		0) {
		complain(
		    "cannot find the folder of %s: %s", file, strerror(errno));
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

/* Write the options of the group, with a comma before each; "" without one. */
static void
write_group_conf(const struct choices *choices, char *text, size_t size)
{
	int n = 0;

	text[0] = '\0';
	if (choices->group != NULL)
		n = snprintf(text, size, ",group:%s", choices->group);
	if (choices->limit != 0)
		n +=
		    snprintf(text + n, size - (size_t)n, ",group_limit_mb:%llu",
			(unsigned long long)choices->limit >> 20);
	if (choices->guarantee != 0)
		n += snprintf(text + n, size - (size_t)n,
		    ",group_guarantee_mb:%llu",
		    (unsigned long long)choices->guarantee >> 20);
	if (choices->priority != NULL)
		snprintf(text + n, size - (size_t)n, ",group_priority:%s",
		    choices->priority);
}

/* The path of a file that an option names, as absolute(). */
static char *
path_for_option(const char *flag, const char *file)
{
	char *path = absolute(file);

	if (path == NULL || strchr(path, ',') == NULL)
		return path;
	complain("--%s=%s: a comma in the name cannot be passed to the program",
	    flag, path);
	free(path);
	return NULL;
}

/* Is there a plan in the file of --plan? A program without its plan would run
 * as without. */
static bool
check_plan(const struct choices *choices)
{
	struct plan *plan;

	if (choices->plan == NULL)
		return true;
	if (plan_read(choices->plan, &plan) != WEIR_OK) {
		complain("--plan: %s", weir_last_error());
		return false;
	}
	plan_free(plan);
	return true;
}

/* Set WEIR_CONF to the options that the user gives, then those of the flags,
 * with the paths of their files. */
static bool
join_conf(const struct choices *choices, const char *snapshot, const char *plan)
{
	const char *given = choices->conf;
	char group[256];
	char *all;
	bool done;

	if (given == NULL)
		given = getenv("WEIR_CONF");
	write_group_conf(choices, group, sizeof(group));
	if (asprintf(&all, "%s%s%s%s%s%s%s%s%s%s", given != NULL ? given : "",
		choices->history != NULL ? ",history:" : "",
		choices->history != NULL ? choices->history : "",
		snapshot != NULL ? ",snapshot:" : "",
		snapshot != NULL ? snapshot : "", plan != NULL ? ",plan:" : "",
		plan != NULL ? plan : "", choices->watch ? ",watch:True" : "",
		choices->may_sleep ? ",may_sleep:True" : "", group) < 0) {
		complain("out of memory");
		return false;
	}
	done = (choices->conf == NULL && *all == '\0') ||
	    set_variable("WEIR_CONF", all);
	free(all);
	return done;
}

static bool
set_conf(const struct choices *choices)
{
	char *snapshot = choices->snapshot != NULL ?
	    path_for_option("snapshot", choices->snapshot) :
	    NULL;
	char *plan = choices->plan != NULL ?
	    path_for_option("plan", choices->plan) :
	    NULL;
	bool done = (choices->snapshot == NULL || snapshot != NULL) &&
	    (choices->plan == NULL || plan != NULL) && check_plan(choices) &&
	    join_conf(choices, snapshot, plan);

	free(snapshot);
	free(plan);
	return done;
}

/* Set the variables of the report. Without a flag for the destination,
 * WEIR_REPORT of the environment decides. */
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
	if (choices->sites != NULL &&
	    !set_variable("WEIR_REPORT_SITES", choices->sites))
		return false;
	return (!choices->check_streams ||
		   set_variable("WEIR_CHECK_STREAMS", "1")) &&
	    (!choices->may_sleep || set_variable("WEIR_MAY_SLEEP", "1"));
}

/* Set a variable to two parts with a colon between them. A part may be NULL or
 * empty. */
static bool
set_joined(const char *name, const char *first, const char *last)
{
	bool both =
	    first != NULL && *first != '\0' && last != NULL && *last != '\0';
	char *all;
	bool done;

	if (asprintf(&all, "%s%s%s", first != NULL ? first : "",
		both ? ":" : "", last != NULL ? last : "") < 0) {
		complain("out of memory");
		return false;
	}
	done = set_variable(name, all);
	free(all);
	return done;
}

/* Have NVTX call the preload, for the history or for the option pool_ranges,
 * unless the environment names a profiler. WEIR_CONF is set. */
static bool
set_nvtx(const struct choices *choices, const char *library)
{
	static const char name[] = "NVTX_INJECTION64_PATH";
	const char *given = getenv(name);

	const char *conf = getenv("WEIR_CONF");
	bool names_ranges =
	    conf != NULL && strstr(conf, "pool_ranges:") != NULL;

	if ((choices->history == NULL && !choices->watch && !names_ranges) ||
	    (given != NULL && *given != '\0'))
		return true;
	return set_variable(name, library);
}

/* Add an option to a sanitizer's variable, unless the user has set it. */
static bool
set_sanitizer(const char *name, const char *option, const char *value)
{
	const char *given = getenv(name);
	char text[64];

	snprintf(text, sizeof(text), "%s=%s", option, value);
	return (given != NULL && strstr(given, option) != NULL) ||
	    set_joined(name, given, text);
}

/* AddressSanitizer ends a program in which another library comes before its
 * runtime, because that library might replace malloc(); weir's does not.
 * ThreadSanitizer's search for deadlocks ends a program that holds more than 64
 * locks; weir's malloc, which no program calls, holds more during a fork. The
 * variables reach also the programs that this one starts, and programs without
 * a sanitizer do not read them. */
static bool
set_sanitizers(void)
{
	return set_sanitizer("ASAN_OPTIONS", "verify_asan_link_order", "0") &&
	    set_sanitizer("TSAN_OPTIONS", "detect_deadlocks", "0");
}

/* Names of functions are found by this command, unless the user names another
 * one (stacks/command.h). */
static bool
set_command(void)
{
	char command[TOOL_PATH];

	return getenv("WEIR_COMMAND") != NULL || !locate_self(command) ||
	    set_variable("WEIR_COMMAND", command);
}

/* The loader splits LD_PRELOAD at spaces and colons. A library whose path has a
 * space is named without its folder, which the loader finds in LD_LIBRARY_PATH:
 * it splits that at colons and semicolons only. */
static bool
join_preload(const char *library)
{
	const char *given = getenv("LD_PRELOAD");
	char folder[TOOL_PATH];
	char *slash;

	if (strpbrk(library, " \t\n:;") == NULL)
		return set_joined("LD_PRELOAD", given, library);
	if (strpbrk(library, ":;") != NULL) {
		complain("%s: the loader can preload nothing from a folder "
			 "with ':' or ';' in its name; move weir elsewhere",
		    library);
		return false;
	}
	strcpy(folder, library);
	slash = strrchr(folder, '/');
	*slash = '\0';
	if (prepend_library_path(folder))
		return set_joined("LD_PRELOAD", given, slash + 1);
	complain("cannot set the environment: %s", strerror(errno));
	return false;
}

/* Libraries that the user preloads come first: they may have to, and what they
 * replace, they replace in front of weir as in front of the driver. */
static bool
set_preload(const struct choices *choices)
{
	char library[TOOL_PATH];

	return locate("libweir_preload.so", library) &&
	    set_nvtx(choices, library) && join_preload(library) &&
	    set_command() && set_sanitizers();
}

/* Put the package's site folder before Python's path. Python runs its
 * sitecustomize at start, which waits for the import of torch. The package is
 * where `make install` puts it, or where the build puts it; or the command is
 * in the package, as pip installs it. */
static bool
set_torch(const struct choices *choices)
{
	const char *given = getenv("WEIR_TORCH");
	char folder[TOOL_PATH];

	if (!choices->torch)
		return true;
	if (!locate_quietly("../python/weir/site", folder) &&
	    !locate_quietly("../../weir/site", folder) &&
	    !locate("python/weir/site", folder))
		return false;
	if (!set_joined("PYTHONPATH", folder, getenv("PYTHONPATH")))
		return false;
	return (given != NULL && *given != '\0' && strcmp(given, "0") != 0) ||
	    set_variable("WEIR_TORCH", "1");
}

/* Check the options as the program will find them. */
static bool
conf_accepted(const struct choices *choices)
{
	struct weir_option option;

	if (weir_option_at(0, &option) == WEIR_OK)
		return true;
	if (choices->conf != NULL)
		complain_conf("--conf", "WEIR_CONF");
	else
		complain("%s", weir_last_error());
	return false;
}

static bool
report_is_asked_for(void)
{
	const char *destination = getenv("WEIR_REPORT");

	return destination != NULL && *destination != '\0';
}

/* Set the time of the start. A process of this run does not replace a snapshot
 * that is newer: another process of the run has written it. */
static bool
set_start(void)
{
	struct timespec now;
	char text[32];

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	snprintf(text, sizeof(text), "%lld%09ld", (long long)now.tv_sec,
	    now.tv_nsec);
	return set_variable("WEIR_RUN_START", text);
}

int
cmd_run(int argc, char **argv)
{
	struct choices choices = { 0 };

	argp_parse(&argp_run, argc, argv, ARGP_IN_ORDER, NULL, &choices);
	if (!set_conf(&choices) || !set_start())
		return TOOL_FAILED;
	if (!conf_accepted(&choices))
		return TOOL_USAGE;
	if (!set_report(&choices))
		return TOOL_FAILED;
	if (!use_simulated_if(choices.simulated) || !set_preload(&choices) ||
	    !set_torch(&choices))
		return TOOL_FAILED;
	return report_is_asked_for() ? program_wait(choices.program) :
				       program_become(choices.program);
}
