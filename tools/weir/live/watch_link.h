/*
 * Requests to a watched process, for `weir watch` and `weir ctl`.
 */
#ifndef TOOLS_WEIR_LIVE_WATCH_LINK_H
#define TOOLS_WEIR_LIVE_WATCH_LINK_H

#include <argp.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tools/weir/tuning.h"
#include "trace/watch.h"

/* Parse the number of a process. Another text is a usage error and ends the
 * command. */
pid_t watch_parse_pid(const char *text, const struct argp_state *state);

/* Connect to a process. If the process is `weir run`, connect to its program.
 * False, with a complaint, on failure. */
bool watch_reach(pid_t pid, unsigned timeout_ms, int *fd);

/* Connect to this very process. False on failure, with the reason in `why`. */
bool watch_connect(
    pid_t pid, unsigned timeout_ms, int *fd, char why[WATCH_TEXT]);

/* The program that a `weir run` waits for; for another process the process
 * itself. */
pid_t watch_program_of(pid_t pid);

/* Call `visit` with a connection to each process that can be watched. The
 * connection is closed after the call. Sockets of ended processes are
 * removed. */
void watch_each(unsigned timeout_ms,
    void (*visit)(pid_t pid, int fd, void *user), void *user);

/* Sleep. Signals do not shorten the sleep. */
void watch_wait(double seconds);

/* The result of a request. A complaint was made for WATCH_FAILED, but not for
 * WATCH_ENDED. */
enum watch_answer { WATCH_ANSWERED, WATCH_ENDED, WATCH_FAILED };

/* Request statistics, or a snapshot. `file` is the descriptor for the snapshot,
 * or -1. */
enum watch_answer watch_ask(int fd, const struct watch_request *request,
    int file, struct watch_reply *reply);

/* The two halves of watch_ask(). `sent` is what watch_send() returned; a
 * process that refuses watchers has answered before. */
bool watch_send(int fd, const struct watch_request *request, int file);
enum watch_answer watch_receive(int fd, const struct watch_request *request,
    bool sent, struct watch_reply *reply);

/* Called with the statistics of one process. */
typedef void watch_visit(const struct watch_reply *reply, void *user);

/*
 * Request statistics of all processes that can be watched, of `most` at most,
 * at the same time. A process that has not answered after timeout_ms is left
 * out, with a complaint.
 */
void watch_gather(
    size_t most, unsigned timeout_ms, watch_visit *visit, void *user);

/* Request statistics of one process. A complaint is made for WATCH_FAILED;
 * WATCH_ENDED means that there is no such process to be watched. */
enum watch_answer watch_gather_one(
    pid_t pid, unsigned timeout_ms, watch_visit *visit, void *user);

/* Request values by name, or set a value. `rows` is written for a list only. */
enum watch_answer watch_ask_values(int fd,
    const struct watch_ctl_request *request, struct watch_ctl_reply *rows);

/* The two halves of watch_ask_values(). `sent` is what watch_send_values()
 * returned. No complaint is made. */
bool watch_send_values(int fd, const struct watch_ctl_request *request);
enum watch_answer watch_receive_values(int fd,
    const struct watch_ctl_request *request, bool sent,
    struct watch_ctl_reply *rows);

/* Why the latest request for values failed, in the words of the process if it
 * refused; "" if the process has answered or ended. */
const char *watch_values_fault(void);

#endif
