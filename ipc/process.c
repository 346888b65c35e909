/*
 * Other processes, named by descriptors (pidfds, Linux 5.3): the number of an
 * ended process may be used again, a descriptor stays valid.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/ipc.h"

/* These numbers are equal on all architectures that weir supports. */
enum { CALL_pidfd_open = 434, CALL_pidfd_getfd = 438 };

int
ipc_process_open(pid_t pid)
{
	return (int)syscall(CALL_pidfd_open, pid, 0);
}

/* A process has ended when only its number is left: its descriptors are closed,
 * and so its work on devices is over. */
bool
ipc_process_ended(int pidfd)
{
	struct pollfd polled = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&polled, 1, 0) == 1 &&
	    (polled.revents & POLLIN) != 0;
}

bool
ipc_process_is_own(pid_t pid)
{
	char path[32];
	struct stat process;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &process) == 0 && process.st_uid == geteuid();
}

int
ipc_process_fetch(int pidfd, int fd)
{
	return (int)syscall(CALL_pidfd_getfd, pidfd, fd, 0);
}

bool
ipc_fd_may_be_memory(int fd)
{
	struct stat file;

	return fd >= 0 && fstat(fd, &file) == 0 && !S_ISFIFO(file.st_mode) &&
	    !S_ISDIR(file.st_mode) && !S_ISSOCK(file.st_mode) &&
	    !S_ISBLK(file.st_mode) && !S_ISLNK(file.st_mode);
}

bool
ipc_peer(int socket, pid_t *pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
	    peer.uid != geteuid() || peer.pid <= 0)
		return false;
	*pid = peer.pid;
	return true;
}
