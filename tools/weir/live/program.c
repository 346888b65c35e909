/*
 * The program of `weir run` as a child process.
 *
 * This process is nothing to the user but the place where the program runs. It
 * blocks all signals and passes on those that the program did not get itself
 * (witness.h, Note [Signals that come once]). It stops while the program is
 * stopped, so that a shell sees that its job has stopped, and it ends as the
 * program does.
 */
#include "tools/weir/live/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/report/ledger.h"
#include "tools/report/report.h"
#include "tools/weir/live/witness.h"
#include "tools/weir/reading/last_report.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* Times in milliseconds. */
enum {
	ARRIVALS = 64,
	SEEN = 64,
};

/* A signal that came to this process. */
struct arrival {
	struct signalfd_siginfo info;
	int64_t at_ms;
};

/* A signal that came to the witness. */
struct seen {
	struct witness_report report;
	int64_t at_ms;
	bool used; /* the signal that came to this process was found */
};

struct waiting {
	pid_t program;
	int signals; /* a signalfd */
	struct witness witness;
	/* Signals that may have to be passed on, the oldest first. */
	struct arrival arrivals[ARRIVALS];
	size_t n_arrivals;
	struct seen seen[SEEN]; /* a ring */
	size_t n_seen;          /* number of all */
	uint32_t asked;         /* number of the latest question */
	int64_t asked_ms;       /* 0: it is answered */
};

static int64_t
time_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- The program -------------------------------------------------------- */

int
program_become(char **program)
{
	int error;

	execvp(program[0], program);
	error = errno;
	complain("%s: %s", program[0], strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
}

/* The state of this process that the program inherits, and its ledger. */
struct heritage {
	sigset_t signals; /* that are blocked */
	struct sigaction child;
	int fd; /* the ledger */
	pid_t parent;
	int begin[2]; /* a pipe: the program begins when it gets a byte */
};

/* Become the program in the child process. */
static _Noreturn void
become_in_child(char **program, const struct heritage *heritage)
{
	struct ledger *ledger = ledger_map(heritage->fd);
	const char *destination = getenv("WEIR_REPORT");
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != heritage->parent)
		_exit(EXIT_NOT_RUNNABLE);
	if (read(heritage->begin[0], &byte, 1) != 1)
		_exit(EXIT_NOT_RUNNABLE);
	if (ledger != NULL && destination != NULL)
		ledger_promise(ledger, getpid(), destination);
	sigaction(SIGCHLD, &heritage->child, NULL);
	sigprocmask(SIG_SETMASK, &heritage->signals, NULL);
	_exit(program_become(program));
}

/* ---- Signals ------------------------------------------------------------ */

/* Send the program a signal that came to this process. */
static void
pass_on(const struct waiting *w, const struct signalfd_siginfo *info)
{
	union sigval value = { .sival_ptr = (void *)(uintptr_t)info->ssi_ptr };

	if (w->program <= 0)
		return;
	if (info->ssi_code == SI_QUEUE)
		sigqueue(w->program, (int)info->ssi_signo, value);
	else
		kill(w->program, (int)info->ssi_signo);
}

/* Did the witness get the signal, too? A second signal within WITNESS_MS counts
 * as the first: timeout(1) sends two at once, to a process and to its group. */
static bool
is_seen(struct waiting *w, const struct arrival *arrival)
{
	size_t n = w->n_seen < SEEN ? w->n_seen : SEEN;

	for (size_t i = 0; i < n; i++) {
		struct seen *seen = &w->seen[i];
		int64_t apart_ms = llabs(seen->at_ms - arrival->at_ms);

		if (seen->report.signal != (int)arrival->info.ssi_signo ||
		    seen->report.code != arrival->info.ssi_code ||
		    seen->report.sender != (pid_t)arrival->info.ssi_pid ||
		    apart_ms > (seen->used ? WITNESS_MS : PROGRAM_LATE_MS))
			continue;
		seen->used = true;
		return true;
	}
	return false;
}

/* Decide about the oldest arrivals: those before `before_ms`. */
static void
decide_arrivals(struct waiting *w, int64_t before_ms)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n_arrivals; i++) {
		struct arrival *arrival = &w->arrivals[i];

		if (is_seen(w, arrival))
			continue;
		if (arrival->at_ms < before_ms)
			pass_on(w, &arrival->info);
		else
			w->arrivals[kept++] = *arrival;
	}
	w->n_arrivals = kept;
}

static bool
is_stop(uint32_t number)
{
	return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* A stop discards each SIGCONT that is pending, and SIGCONT each stop: the
 * witness may not have had the time to see the earlier one. */
static void
discard_opposite(struct waiting *w, uint32_t number)
{
	size_t kept = 0;

	if (number != SIGCONT && !is_stop(number))
		return;
	for (size_t i = 0; i < w->n_arrivals; i++) {
		uint32_t earlier = w->arrivals[i].info.ssi_signo;

		if (earlier != SIGCONT && !is_stop(earlier))
			w->arrivals[kept++] = w->arrivals[i];
	}
	w->n_arrivals = kept;
}

static void
note_arrival(struct waiting *w, const struct signalfd_siginfo *info)
{
	/* Children of this process, and the witness, which ends its stop. */
	if ((info->ssi_signo == SIGCHLD && info->ssi_code > 0) ||
	    (w->witness.pid > 0 && (pid_t)info->ssi_pid == w->witness.pid))
		return;
	if (w->witness.fd < 0 && w->program > 0) {
		if (info->ssi_code != SI_KERNEL)
			pass_on(w, info);
		return;
	}
	discard_opposite(w, info->ssi_signo);
	if (w->n_arrivals == ARRIVALS)
		decide_arrivals(w, INT64_MAX);
	w->arrivals[w->n_arrivals++] =
	    (struct arrival){ .info = *info, .at_ms = time_ms() };
}

static void
read_arrivals(struct waiting *w)
{
	struct signalfd_siginfo info;

	while (read(w->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		note_arrival(w, &info);
}

static void
read_witness(struct waiting *w)
{
	struct witness_report report;

	while (witness_read(&w->witness, &report)) {
		if (report.signal != 0)
			w->seen[w->n_seen++ % SEEN] =
			    (struct seen){ report, time_ms(), false };
		else if (report.asked == w->asked && w->asked_ms != 0) {
			int64_t asked_ms = w->asked_ms;

			w->asked_ms = 0;
			decide_arrivals(w, asked_ms - WITNESS_MS + 1);
		}
	}
	decide_arrivals(w, w->witness.fd < 0 ? INT64_MAX : 0);
}

/* Ask the witness if an arrival is old enough, and decide without it if it does
 * not answer. Returns the time until this is to be called again, for poll(). */
static int
ask_witness(struct waiting *w)
{
	int64_t now_ms = time_ms();
	int64_t left_ms;

	if (w->asked_ms != 0 && now_ms >= w->asked_ms + PROGRAM_ANSWER_MS) {
		decide_arrivals(w, w->asked_ms - WITNESS_MS + 1);
		w->asked_ms = 0;
	}
	if (w->asked_ms != 0)
		return (int)(w->asked_ms + PROGRAM_ANSWER_MS - now_ms);
	if (w->n_arrivals == 0)
		return -1;
	left_ms = w->arrivals[0].at_ms + WITNESS_MS - now_ms;
	if (left_ms > 0)
		return (int)left_ms;
	w->asked_ms = now_ms;
	witness_ask(&w->witness, ++w->asked);
	return PROGRAM_ANSWER_MS;
}

/* ---- Waiting ------------------------------------------------------------ */

/* End the watch of the witness. A continuation that it sends late would end the
 * next stop, so that does not begin before the witness has answered. */
static void
end_watch(struct waiting *w)
{
	int64_t left_ms = PROGRAM_ANSWER_MS;

	w->asked_ms = time_ms();
	witness_forget_stopped(&w->witness, ++w->asked);
	while (w->asked_ms != 0 && w->witness.fd >= 0 && left_ms > 0) {
		struct pollfd polled = { .fd = w->witness.fd,
			.events = POLLIN };

		poll(&polled, 1, (int)left_ms);
		read_witness(w);
		left_ms = w->asked_ms + PROGRAM_ANSWER_MS - time_ms();
	}
}

/* Stop as the program has. Without a witness nobody would end this stop. */
static void
stop_as(struct waiting *w, int number)
{
	sigset_t set;

	if (w->witness.fd < 0)
		return;
	witness_watch_stopped(&w->witness, w->program);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	end_watch(w);
}

/* Wait for the program's end. Returns its status. */
static int
wait_for_program(struct waiting *w)
{
	for (;;) {
		struct pollfd polled[2] = { { .fd = w->signals,
						.events = POLLIN },
			{ .fd = w->witness.fd, .events = POLLIN } };
		int status;

		poll(polled, 2, ask_witness(w));
		read_arrivals(w);
		read_witness(w);
		if (waitpid(w->program, &status, WNOHANG | WUNTRACED) !=
		    w->program)
			continue;
		if (!WIFSTOPPED(status))
			return status;
		stop_as(w, WSTOPSIG(status));
	}
}

/* End as the program did, so that a waiting process sees no difference. Only
 * the program may write a core file. The exit handlers are skipped: a leak
 * checker among them would replace the program's status by its own. */
static _Noreturn void
end_as(int status)
{
	const struct rlimit none = { 0, 0 };
	sigset_t set;

	fflush(NULL);
	if (!WIFSIGNALED(status))
		_exit(WEXITSTATUS(status));
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + WTERMSIG(status));
}

/* Make the ledger with as large a file as this user may have: the limit is the
 * program's. */
static int
make_ledger(void)
{
	struct rlimit before;
	struct rlimit more;
	int ledger;

	if (getrlimit(RLIMIT_FSIZE, &before) != 0)
		return ledger_make();
	more = before;
	more.rlim_cur = more.rlim_max;
	setrlimit(RLIMIT_FSIZE, &more);
	ledger = ledger_make();
	setrlimit(RLIMIT_FSIZE, &before);
	return ledger;
}

/* Become the program in this process, because no other one can be made. */
static int
become_after_all(char **program, const sigset_t *signals)
{
	const struct timespec none = { 0 };
	sigset_t own;

	/* The signal that came with the failure is not the program's. */
	sigemptyset(&own);
	sigaddset(&own, SIGXFSZ);
	sigtimedwait(&own, NULL, &none);
	sigprocmask(SIG_SETMASK, signals, NULL);
	return program_become(program);
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

/* Tell the program where the ledger and this process's stderr are. */
static bool
set_places(const struct heritage *heritage)
{
	char ledger[64];

	snprintf(ledger, sizeof(ledger), "/proc/%ld/fd/%d",
	    (long)heritage->parent, heritage->fd);
	return setenv(LEDGER_VARIABLE, ledger, 1) == 0 && report_lend_stderr();
}

/* Start the program and its witness. The program is the first child, because
 * others look for it there. It begins with its signals blocked, so that those
 * that came before the witness was there can be passed on: they come once, even
 * if the program got them, too. False: it cannot be started. */
static bool
start_program(struct waiting *w, char **program, struct heritage *heritage)
{
	if (pipe2(heritage->begin, O_CLOEXEC) == 0)
		w->program = fork();
	if (w->program == 0)
		become_in_child(program, heritage);
	if (w->program < 0) {
		complain("cannot fork: %s", strerror(errno));
		return false;
	}
	w->witness = witness_start(program);
	read_arrivals(w);
	for (size_t i = 0; i < w->n_arrivals; i++)
		pass_on(w, &w->arrivals[i].info);
	w->n_arrivals = 0;
	if (write(heritage->begin[1], "", 1) != 1)
		kill(w->program, SIGKILL);
	close(heritage->begin[0]);
	close(heritage->begin[1]);
	return true;
}

int
program_wait(char **program)
{
	struct waiting w = { .program = -1, .witness.fd = -1 };
	const struct sigaction by_default = { .sa_handler = SIG_DFL };
	struct heritage heritage = { .parent = getpid() };
	sigset_t all;
	int status;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &heritage.signals);
	heritage.fd = make_ledger();
	w.signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	if (heritage.fd < 0 || w.signals < 0 || !set_places(&heritage))
		return become_after_all(program, &heritage.signals);
	sigaction(SIGCHLD, &by_default, &heritage.child);
	fflush(NULL);
	if (!start_program(&w, program, &heritage))
		return TOOL_FAILED;
	status = wait_for_program(&w);
	witness_end(&w.witness);
	report_apart(heritage.fd, w.program, status);
	end_as(status);
}
