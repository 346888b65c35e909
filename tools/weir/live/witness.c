/*
 * A witness of signals (witness.h). It is a fork of `weir run` and not a
 * program of its own, because an exec would show in its command line.
 */
#include "tools/weir/live/witness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "base/process.h"
#include "tools/weir/tuning.h"

struct question {
	uint32_t number; /* 0: needs no answer */
	/* See witness_watch_stopped(); 0: none any more; -1: as before. */
	pid_t stopped;
};

/* ---- The witness -------------------------------------------------------- */

/* The bytes of this process's command line. False if they are unknown. */
static bool
find_arguments(char **start, char **end)
{
	struct process_stat own;

	if (process_read((uint64_t)getpid(), &own) != 0)
		return false;
	*start = (char *)(uintptr_t)own.arguments;
	*end = (char *)(uintptr_t)own.arguments_end;
	return own.arguments != 0 && own.arguments < own.arguments_end;
}

/* Take the name and the command line that the program will have: the end of
 * this process's command line. */
static void
look_like(char **program)
{
	const char *slash = strrchr(program[0], '/');
	char *start;
	char *end;

	prctl(PR_SET_NAME, slash != NULL ? slash + 1 : program[0]);
	if (!find_arguments(&start, &end) || program[0] < start ||
	    program[0] >= end)
		return;
	size_t length = (size_t)(end - program[0]);

	memmove(start, program[0], length);
	memset(start + length, 0, (size_t)(end - start) - length);
}

/* Close the files of the program: others wait for their ends. */
static void
close_others(int socket)
{
	if (socket != STDIN_FILENO)
		dup2(socket, STDIN_FILENO);
	os_close_from(STDIN_FILENO + 1);
}

static bool
is_stopped(pid_t pid)
{
	struct process_stat stat;

	return process_read((uint64_t)pid, &stat) == 0 &&
	    (stat.state == 'T' || stat.state == 't');
}

static void
tell(const struct witness_report *report)
{
	while (send(STDIN_FILENO, report, sizeof(*report), MSG_NOSIGNAL) < 0 &&
	    errno == EINTR)
		continue;
}

static void
report_signals(int signals)
{
	struct signalfd_siginfo info;

	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		tell(&(struct witness_report){ .signal = (int)info.ssi_signo,
		    .code = info.ssi_code,
		    .sender = (pid_t)info.ssi_pid });
}

/* Report signals and answer questions until the other process ends. */
static _Noreturn void
be_witness(pid_t other, int signals)
{
	struct pollfd polled[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = signals, .events = POLLIN } };
	pid_t stopped = 0;

	for (;;) {
		struct question question;
		ssize_t n;

		poll(polled, 2, stopped != 0 ? WITNESS_LOOK_MS : -1);
		report_signals(signals);
		n = recv(
		    STDIN_FILENO, &question, sizeof(question), MSG_DONTWAIT);
		if (n == 0)
			_exit(0);
		if (n == (ssize_t)sizeof(question)) {
			if (question.stopped >= 0)
				stopped = question.stopped;
			/* Signals that came before the question are first. */
			report_signals(signals);
			tell(&(struct witness_report){
			    .asked = question.number });
		}
		if (stopped != 0 && !is_stopped(stopped))
			kill(other, SIGCONT);
	}
}

static _Noreturn void
begin_witness(pid_t other, int socket, char **program)
{
	sigset_t all;
	int signals;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != other)
		_exit(0);
	look_like(program);
	close_others(socket);
	sigfillset(&all);
	signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals < 0)
		_exit(0);
	be_witness(other, signals);
}

/* ---- The other process -------------------------------------------------- */

struct witness
witness_start(char **program)
{
	struct witness none = { .fd = -1 };
	pid_t own = getpid();
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return none;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		begin_witness(own, ends[1], program);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return none;
	}
	return (struct witness){ .pid = pid, .fd = ends[0] };
}

static void
send_question(const struct witness *witness, const struct question *question)
{
	if (witness->fd >= 0)
		send(witness->fd, question, sizeof(*question),
		    MSG_NOSIGNAL | MSG_DONTWAIT);
}

void
witness_ask(const struct witness *witness, uint32_t number)
{
	send_question(witness, &(struct question){ number, -1 });
}

void
witness_watch_stopped(const struct witness *witness, pid_t child)
{
	send_question(witness, &(struct question){ 0, child });
}

void
witness_forget_stopped(const struct witness *witness, uint32_t number)
{
	send_question(witness, &(struct question){ number, 0 });
}

bool
witness_read(struct witness *witness, struct witness_report *report)
{
	ssize_t n;

	if (witness->fd < 0)
		return false;
	n = recv(witness->fd, report, sizeof(*report), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		close(witness->fd);
		witness->fd = -1;
	}
	return n == (ssize_t)sizeof(*report);
}

void
witness_end(struct witness *witness)
{
	if (witness->pid <= 0)
		return;
	kill(witness->pid, SIGKILL);
	waitpid(witness->pid, NULL, 0);
	if (witness->fd >= 0)
		close(witness->fd);
	*witness = (struct witness){ .fd = -1 };
}
