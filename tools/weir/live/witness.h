/*
 * A witness of signals: a process that tells which signals were sent to more
 * than one process.
 *
 * Note [Signals that come once]
 *
 * `weir run` and its program are two processes where the user sees one. A
 * signal may be sent to `weir run` alone (kill PID), and then it has to be
 * passed on; or to the program, too: by a terminal, by timeout(1) and
 * kill -PGID to the process group, by systemd and Slurm to each process of a
 * control group, by pkill(1) to each process of a name. Passed on, it would
 * come twice. Nothing in siginfo_t tells the two apart.
 *
 * The witness is a third process, and it looks like the program to everybody
 * who sends signals: it is in the same session, process group and control
 * group, and has the program's name and command line. It blocks all signals and
 * reports each one that it gets. A signal that comes to `weir run` and from the
 * same sender to the witness came to the program as well. A signal that the
 * witness does not report, although it was asked WITNESS_MS after the signal's
 * arrival, was sent to `weir run` alone.
 *
 * The witness also ends the stop of `weir run`, which stops while its program
 * is stopped (docs/preload.md): a stopped process cannot see that another one
 * goes on.
 */
#ifndef TOOLS_WEIR_LIVE_WITNESS_H
#define TOOLS_WEIR_LIVE_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/weir/tuning.h"

struct witness {
	pid_t pid;
	int fd; /* a socket to it; -1: there is none */
};

/* A message of the witness. */
struct witness_report {
	uint32_t asked; /* answers this question; 0: reports a signal */
	int signal;
	int code;     /* its si_code */
	pid_t sender; /* its si_pid */
};

/*
 * Start the witness. The caller has blocked all signals. Without a witness fd
 * is -1.
 *
 * @param program  the program's argv, which the witness shows as its own
 */
struct witness witness_start(char **program);

/* Ask the witness to confirm that it has reported all signals so far. `number`
 * is not 0, and comes back. */
void witness_ask(const struct witness *witness, uint32_t number);

/* The caller stops while this child is stopped: the witness continues the
 * caller as soon as the child runs again. */
void witness_watch_stopped(const struct witness *witness, pid_t child);

/* The caller has continued. From its answer on, which is as that to
 * witness_ask(), the witness does not continue the caller any more. */
void witness_forget_stopped(const struct witness *witness, uint32_t number);

/* Read a message. Does not wait: false if there is none. Closes the socket if
 * the witness has ended. */
bool witness_read(struct witness *witness, struct witness_report *report);

/* End the witness, and reap it. */
void witness_end(struct witness *witness);

#endif
