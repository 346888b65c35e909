/*
 * What may be taken from other processes: those of this user, and descriptors
 * that can be memory.
 */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/ipc.h"

bool
ipc_process_is_own(pid_t pid)
{
	char path[32];
	struct stat process;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &process) == 0 && process.st_uid == geteuid();
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
