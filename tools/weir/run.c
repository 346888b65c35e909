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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "tools/report/ledger.h"
#include "tools/weir/guess.h"
#include "tools/weir/last_report.h"
#include "tools/weir/tool.h"

/* Exit statuses that shells use if a program cannot be run, or does not
 * exist. */
enum { EXIT_NOT_RUNNABLE = 126, EXIT_NOT_FOUND = 127 };

struct choices {
	const char *report;
	bool quiet;
	bool leaks;
	const char *sites; /* number of stacks; NULL for none */
	const char *conf;
	const char *history;  /* the level; NULL for none */
	const char *snapshot; /* the file's name; NULL for none */
	bool watch;
	bool check_streams;
	bool torch;
	bool simulated;
	char **program; /* its argv; NULL if none was named */
};

static const struct argp_option flags[] = {
	{ "report", 'r', "FILE", 0, "write the report to FILE, as JSON", 0 },
	{ "quiet", 'q', NULL, 0, "print no report", 0 },
	{ "leaks", 'l', NULL, 0, "report blocks not freed, with their stacks",
	    0 },
	{ "sites", 'n', "N", OPTION_ARG_OPTIONAL,
	    "report the N stacks that held most (default: 10)", 0 },
	{ "conf", 'c', "CONF", 0,
	    "options, \"key:value,...\"; replaces WEIR_CONF", 0 },
	{ "history", 'H', "LEVEL", OPTION_ARG_OPTIONAL,
	    "keep the history, with stacks: none, state, alloc or "
	    "all (default)",
	    0 },
	{ "snapshot", 'S', "FILE", 0,
	    "snapshot at the end, and when memory runs out", 0 },
	{ "watch", 'w', NULL, 0,
	    "let 'weir watch' and 'weir ctl' reach the program", 0 },
	{ "check-streams", 'C', NULL, 0,
	    "report blocks that streams race on, or use after their free "
	    "(docs/faults.md)",
	    0 },
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

static error_t
parse_run_flag(int key, char *value, struct argp_state *state)
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
		choices->history = parse_history_level(value, state);
		return 0;
	case 'S':
		choices->snapshot = value;
		return 0;
	case 'w':
		choices->watch = true;
		return 0;
	case 'C':
		choices->check_streams = true;
		return 0;
	case 't':
		choices->torch = true;
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
			argp_error(state, "--quiet prints no report");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_run = { flags, parse_run_flag,
	"[--] PROGRAM [ARGUMENT...]",
	"Run PROGRAM with its GPU memory under weir.\v"
	"Without --report the report goes to stderr, as text. In FILE, %p "
	"stands for the process id; in FILE of --snapshot, %w stands for exit, "
	"oom or signal. Exit status: the program's; 127 if there is no such "
	"program, 126 if it cannot be run, 2 if an option is wrong.",
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

/* Set WEIR_CONF: the options that the user gives, then those of the flags. */
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
				 "be passed to the program",
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
	return !choices->check_streams ||
	    set_variable("WEIR_CHECK_STREAMS", "1");
}

/* Put a path before the paths of a variable. */
static bool
set_first(const char *name, const char *path)
{
	const char *old = getenv(name);
	char *all;
	bool done;

	if (old == NULL || *old == '\0')
		return set_variable(name, path);
	if (asprintf(&all, "%s:%s", path, old) < 0) {
		complain("out of memory");
		return false;
	}
	done = set_variable(name, all);
	free(all);
	return done;
}

/* Send NVTX ranges into the history, unless the environment names a
 * profiler. */
static bool
set_nvtx(const struct choices *choices, const char *library)
{
	static const char name[] = "NVTX_INJECTION64_PATH";
	const char *given = getenv(name);

	if ((choices->history == NULL && !choices->watch) ||
	    (given != NULL && *given != '\0'))
		return true;
	return set_variable(name, library);
}

static bool
set_preload(const struct choices *choices)
{
	char library[TOOL_PATH];

	return locate("libweir_preload.so", library) &&
	    set_nvtx(choices, library) && set_first("LD_PRELOAD", library);
}

/* Put the package's site folder before Python's path. Python runs its
 * sitecustomize at start, which waits for the import of torch. The package is
 * where `make install` puts it, or where the build puts it. */
static bool
set_torch(const struct choices *choices)
{
	const char *given = getenv("WEIR_TORCH");
	char folder[TOOL_PATH];

	if (!choices->torch)
		return true;
	if (!locate_quietly("../python/weir/site", folder) &&
	    !locate("python/weir/site", folder))
		return false;
	if (!set_first("PYTHONPATH", folder))
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
		complain_conf("WEIR_CONF");
	else
		complain("%s", weir_last_error());
	return false;
}

/* ---- The program as a child ------------------------------------------- */

static bool
report_is_asked_for(void)
{
	const char *destination = getenv("WEIR_REPORT");

	return destination != NULL && *destination != '\0';
}

/* Become the program. Returns an exit status if that fails. */
static int
exec_program(const struct choices *choices)
{
	int error;

	execvp(choices->program[0], choices->program);
	error = errno;
	complain("%s: %s", choices->program[0], strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
}

/* Become the program in the child process. */
static _Noreturn void
become(const struct choices *choices, const sigset_t *signals,
    const struct sigaction *child, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_NOT_RUNNABLE);
	sigaction(SIGCHLD, child, NULL);
	sigprocmask(SIG_SETMASK, signals, NULL);
	_exit(exec_program(choices));
}

/* Wait for the program's end. Signals that other processes send to this process
 * are passed on to the program. A terminal sends its signals to both. */
static int
wait_for_program(pid_t program, const sigset_t *all)
{
	for (;;) {
		siginfo_t info;
		int status;
		int signal = sigwaitinfo(all, &info);

		if (signal < 0)
			continue;
		if (signal == SIGCHLD) {
			if (waitpid(program, &status, WNOHANG) == program)
				return status;
		} else if (info.si_code != SI_KERNEL) {
			kill(program, signal);
		}
	}
}

/* Choose the signals that this process passes on to the program: all that can
 * be caught, except those of its own faults and those by which a terminal stops
 * it. */
static void
choose_signals(sigset_t *set)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
		SIGABRT, SIGSYS, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE };

	sigfillset(set);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(set, own[i]);
}

/* End as the program did, so that a waiting process sees no difference. Only
 * the program may write a core file. */
static int
end_as(int status)
{
	const struct rlimit none = { 0, 0 };
	sigset_t set;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + WTERMSIG(status);
}

/* Write the reports that the program could not write. A process of its own does
 * it, so that a failure cannot change the status, which is the program's. */
static void
report_apart(int ledger, pid_t program, int status)
{
	pid_t writer = fork();

	if (writer <= 0)
		last_reports(ledger, program, status);
	if (writer == 0) {
		fflush(stderr);
		_exit(TOOL_DONE);
	}
	while (writer > 0 && waitpid(writer, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Run the program in a child process, and write the reports that it cannot
 * write. Returns the exit status. */
static int
run_as_child(const struct choices *choices)
{
	char path[64];
	pid_t parent = getpid();
	int ledger = ledger_make();
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	struct sigaction child;
	sigset_t before;
	sigset_t all;
	pid_t program;
	int status;

	if (ledger < 0)
		return exec_program(choices);
	snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)parent, ledger);
	if (!set_variable(LEDGER_VARIABLE, path))
		return TOOL_NO;
	choose_signals(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	sigaction(SIGCHLD, &by_default, &child);
	fflush(NULL);
	program = fork();
	if (program == 0)
		become(choices, &before, &child, parent);
	if (program < 0) {
		complain("cannot fork: %s", strerror(errno));
		return TOOL_NO;
	}
	status = wait_for_program(program, &all);
	report_apart(ledger, program, status);
	return end_as(status);
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
		return TOOL_NO;
	if (!conf_accepted(&choices))
		return TOOL_USAGE;
	if (!set_report(&choices))
		return TOOL_NO;
	if (!use_simulated_if(choices.simulated) || !set_preload(&choices) ||
	    !set_torch(&choices))
		return TOOL_NO;
	return report_is_asked_for() ? run_as_child(&choices) :
				       exec_program(&choices);
}
