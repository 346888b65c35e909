/*
 * The Unix socket through which watchers connect to a process. It is named
 * after the process and lies in a folder that only the user may access.
 *
 * The folder is $XDG_RUNTIME_DIR/weir, or /tmp/weir-UID if that variable is not
 * set. It is used only if it is a folder and no link, belongs to this user and
 * is closed to all others. From then on it is used through its descriptor, so
 * nobody can put another folder in its place. Each end asks the system which
 * user the other end belongs to, and refuses other users.
 */
#ifndef TRACE_MEETING_H
#define TRACE_MEETING_H

#include <stdbool.h>
#include <sys/types.h>

#include <weir/weir.h>

/* The number of candidate folders, tried in order. */
enum { MEETING_FOLDERS = 2 };

/*
 * Open a folder.
 *
 * @param which  below MEETING_FOLDERS
 * @param make   create it if it does not exist
 * @param fd     its descriptor, which the caller closes
 * @return WEIR_OK; WEIR_ENOTSUP, without a message, if the environment names
 *         none, or it does not exist and `make` is false; WEIR_EINVAL if others
 *         than the user may access it, or if it cannot be created or opened
 */
enum weir_status meeting_folder(unsigned which, bool make, int *fd);

/* meeting_folder() for the watched process: the first folder that can be
 * created and used. */
enum weir_status meeting_place(int *fd);

/*
 * Listen for watchers of process `pid` in a folder, on a socket that does not
 * block. A socket left by an earlier process with this number is removed.
 *
 * @return WEIR_OK; WEIR_EINVAL if listening fails, or another process listens
 *         there already (one of another PID namespace)
 */
enum weir_status meeting_listen(int folder, pid_t pid, int *fd);

/* Remove the socket of process `pid`. */
void meeting_leave(int folder, pid_t pid);

/*
 * Connect to a process. Sending to it and receiving from it give up after
 * `timeout_ms`. With 0 nothing waits, and the socket does not block.
 *
 * @return WEIR_OK; WEIR_ENOTSUP, without a message, if there is no socket of
 *         this process; WEIR_ENOTREADY if there was a process once; WEIR_EINVAL
 *         if it is another user's or the socket cannot be used
 */
enum weir_status meeting_connect(
    int folder, pid_t pid, unsigned timeout_ms, int *fd);

/* Does the process at the other end of a socket belong to this user? */
bool meeting_peer_is_own(int fd);

/* The process that a socket's name stands for, or 0. */
pid_t meeting_process(const char *name);

/* For tests: check against user `uid` instead of the process's own; -1: stop
 * that. */
void meeting_pretend(long uid);

#endif
