/*
 * Where a process and those who watch it meet: a Unix socket, named by the
 * process, in a folder that is the user's alone.
 *
 * The folder is $XDG_RUNTIME_DIR/weir, or /tmp/weir-UID where that is not set.
 * It is used only if it is a folder and no link, belongs to this user, and is
 * closed to all others; from then on it is known by its descriptor, so nobody
 * can put another in its place. Both ends ask the system whose the other is,
 * and speak with nobody of another user.
 */
#ifndef TRACE_MEETING_H
#define TRACE_MEETING_H

#include <stdbool.h>
#include <sys/types.h>

#include <weir/weir.h>

/* The folders there may be, in the order in which they are tried. */
enum { MEETING_FOLDERS = 2 };

/*
 * Open a folder.
 *
 * @param which  below MEETING_FOLDERS
 * @param make   make it if it is not there
 * @param fd     its descriptor, which the caller closes
 * @return WEIR_OK; WEIR_ENOTSUP, without a message, if the environment names
 *         none, or it is not there and `make` is false; WEIR_EINVAL if others
 *         than the user may use it, or if it cannot be made or opened
 */
enum weir_status meeting_folder(unsigned which, bool make, int *fd);

/* meeting_folder() for the process that is to be watched: the first folder that
 * can be made and used. */
enum weir_status meeting_place(int *fd);

/*
 * Wait for watchers of process `pid` in a folder, with a socket that does not
 * block. A socket that an earlier process of that number left is removed.
 *
 * @return WEIR_OK; WEIR_EINVAL if that cannot be, or a process is waiting there
 *         already (one of another PID namespace)
 */
enum weir_status meeting_listen(int folder, pid_t pid, int *fd);

/* Nobody is waiting there any more. */
void meeting_leave(int folder, pid_t pid);

/*
 * Come to a process; sending to it and receiving from it give up after
 * `timeout_ms`.
 *
 * @return WEIR_OK; WEIR_ENOTSUP, not told, if nobody of this number is there;
 *         WEIR_ENOTREADY, told, if there was one once; WEIR_EINVAL, told, if it
 *         is another user's or the socket cannot be used
 */
enum weir_status meeting_connect(
    int folder, pid_t pid, unsigned timeout_ms, int *fd);

/* Is the process at the other end of a socket this user's? */
bool meeting_peer_is_own(int fd);

/* Names of sockets are of processes: the number of one, or 0. */
pid_t meeting_process(const char *name);

/* For tests: be this user to all checks of others; -1: be oneself. */
void meeting_pretend(long uid);

#endif
