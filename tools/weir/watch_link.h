/*
 * Asking a process that is watched: `weir watch` and `weir ctl`.
 */
#ifndef TOOLS_WEIR_WATCH_LINK_H
#define TOOLS_WEIR_WATCH_LINK_H

#include <argp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "trace/watch.h"

/* How long to wait for an answer that is no snapshot. */
enum { WATCH_ANSWER_MS = 10 * 1000 };

/* A process's number; ends the command where it is none. */
pid_t watch_parse_pid(const char *text, const struct argp_state *state);

/* A connection to a process, or to the program that a `weir run` of this number
 * runs. False, with a complaint. */
bool watch_reach(pid_t pid, unsigned timeout_ms, int *fd);

/* Call `visit` with a connection to each process that can be watched, which
 * ends after the call; what ended ones have left is removed. */
void watch_each(unsigned timeout_ms,
    void (*visit)(pid_t pid, int fd, void *user), void *user);

/* Sleep, through signals too. */
void watch_wait(double seconds);

/* FAILED has been complained of; ENDED has not. */
enum watch_answer { WATCH_ANSWERED, WATCH_ENDED, WATCH_FAILED };

/* Ask for statistics or a snapshot; `file` is -1 or where that is written. */
enum watch_answer watch_ask(int fd, const struct watch_request *request,
    int file, struct watch_reply *reply);

/* Ask for values by name, or set one; `rows` is written for a list only. */
enum watch_answer watch_ask_values(int fd,
    const struct watch_ctl_request *request, struct watch_ctl_reply *rows);

#endif
