/*
 * A socket is named by way of its folder's descriptor in /proc. This path is
 * short enough for any folder, and leads to the folder that was checked.
 */
#include "trace/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "trace/tuning.h"

enum { NAME_SIZE = 32 };

static atomic_long pretended = -1;

void
meeting_pretend(long uid)
{
	atomic_store(&pretended, uid);
}

static uid_t
own_user(void)
{
	long uid = atomic_load(&pretended);

	return uid >= 0 ? (uid_t)uid : geteuid();
}

static enum weir_status
fail_meeting(const char *what, const char *path)
{
	char text[128];

	return status_set(WEIR_EINVAL, "%s: %s: %s", path, what,
	    strerror_r(errno, text, sizeof(text)));
}

/* ---- The folder -------------------------------------------------------- */

static bool
folder_path(unsigned which, char path[PATH_MAX])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int n;

	if (which == 0) {
		if (runtime == NULL || *runtime != '/')
			return false;
		n = snprintf(path, PATH_MAX, "%s/weir", runtime);
	} else {
		n = snprintf(
		    path, PATH_MAX, "/tmp/weir-%lu", (unsigned long)own_user());
	}
	return n > 0 && n < PATH_MAX;
}

static enum weir_status
check_folder(int fd, const char *path)
{
	struct stat found;

	if (fstat(fd, &found) != 0)
		return fail_meeting("cannot be looked at", path);
	if (found.st_uid != own_user())
		return status_set(WEIR_EINVAL,
		    "%s: belongs to user %lu, not to %lu: not used", path,
		    (unsigned long)found.st_uid, (unsigned long)own_user());
	if ((found.st_mode & 077) != 0)
		return status_set(WEIR_EINVAL,
		    "%s: others may use it (mode %03o): not used", path,
		    (unsigned)found.st_mode & 0777);
	return WEIR_OK;
}

enum weir_status
meeting_folder(unsigned which, bool make, int *fd)
{
	char path[PATH_MAX];

	if (which >= MEETING_FOLDERS || !folder_path(which, path))
		return WEIR_ENOTSUP;
	if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
		return fail_meeting("cannot be made", path);
	int folder = os_fd_up(
	    open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (folder < 0 && errno == ENOENT)
		return WEIR_ENOTSUP;
	if (folder < 0)
		return fail_meeting("is no folder to be used", path);
	enum weir_status status = check_folder(folder, path);
	if (status != WEIR_OK) {
		close(folder);
		return status;
	}
	*fd = folder;
	return WEIR_OK;
}

enum weir_status
meeting_place(int *fd)
{
	enum weir_status status = WEIR_ENOTSUP;

	for (unsigned i = 0; i < MEETING_FOLDERS && status != WEIR_OK; i++)
		status = meeting_folder(i, true, fd);
	return status;
}

/* ---- The socket -------------------------------------------------------- */

static void
socket_name(pid_t pid, char name[NAME_SIZE])
{
	snprintf(name, NAME_SIZE, "%ld.sock", (long)pid);
}

pid_t
meeting_process(const char *name)
{
	char again[NAME_SIZE];
	char *end;
	long pid = strtol(name, &end, 10);

	if (pid <= 0 || pid > INT_MAX)
		return 0;
	socket_name((pid_t)pid, again);
	return strcmp(name, again) == 0 ? (pid_t)pid : 0;
}

static struct sockaddr_un
socket_address(int folder, pid_t pid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char name[NAME_SIZE];

	socket_name(pid, name);
	snprintf(address.sun_path, sizeof(address.sun_path),
	    "/proc/self/fd/%d/%s", folder, name);
	return address;
}

static int
new_socket(int flags)
{
	return os_fd_up(
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

/* Refuse a name at which a process listens. If none does, a socket that was
 * left there is removed. */
static enum weir_status
clear_name(int folder, pid_t pid)
{
	struct sockaddr_un address = socket_address(folder, pid);
	int fd = new_socket(SOCK_NONBLOCK);

	if (fd < 0)
		return fail_meeting("cannot be made", "a socket");
	bool taken =
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
	    errno == EAGAIN;
	close(fd);
	if (taken)
		return status_set(WEIR_EINVAL,
		    "another process %ld is being watched", (long)pid);
	meeting_leave(folder, pid);
	return WEIR_OK;
}

enum weir_status
meeting_listen(int folder, pid_t pid, int *fd)
{
	struct sockaddr_un address = socket_address(folder, pid);
	enum weir_status status = clear_name(folder, pid);

	if (status != WEIR_OK)
		return status;
	int made = new_socket(SOCK_NONBLOCK);
	if (made < 0)
		return fail_meeting("cannot be made", "a socket");
	if (bind(made, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(made, MEETING_WAITING) != 0) {
		status = fail_meeting("cannot be bound", address.sun_path);
		close(made);
		return status;
	}
	*fd = made;
	return WEIR_OK;
}

void
meeting_leave(int folder, pid_t pid)
{
	char name[NAME_SIZE];

	socket_name(pid, name);
	unlinkat(folder, name, 0);
}

bool
meeting_peer_is_own(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	    peer.uid == own_user();
}

static void
set_timeout(int fd, unsigned timeout_ms)
{
	struct timeval time = { .tv_sec = timeout_ms / 1000,
		.tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

/* connect(), repeated while signals interrupt it; each attempt has the full
 * timeout. */
static int
connect_within(int fd, const struct sockaddr_un *address, unsigned timeout_ms)
{
	uint64_t end = os_monotonic_ns() + timeout_ms * UINT64_C(1000000);
	int code;

	do
		code = connect(
		    fd, (const struct sockaddr *)address, sizeof(*address));
	while (code != 0 && errno == EINTR && os_monotonic_ns() < end);
	if (code != 0 && errno == EINTR)
		errno = EAGAIN;
	return code;
}

enum weir_status
meeting_connect(int folder, pid_t pid, unsigned timeout_ms, int *fd)
{
	struct sockaddr_un address = socket_address(folder, pid);
	int made = new_socket(timeout_ms == 0 ? SOCK_NONBLOCK : 0);

	if (made < 0)
		return fail_meeting("cannot be made", "a socket");
	set_timeout(made, timeout_ms);
	enum weir_status status = WEIR_OK;
	if (connect_within(made, &address, timeout_ms) != 0) {
		if (errno == ENOENT)
			status = WEIR_ENOTSUP;
		else if (errno == ECONNREFUSED)
			status = status_set(WEIR_ENOTREADY,
			    "process %ld was watched, and is gone", (long)pid);
		else if (errno == EAGAIN)
			status = status_set(WEIR_EINVAL,
			    "process %ld does not answer", (long)pid);
		else
			status =
			    fail_meeting("cannot be reached", address.sun_path);
	} else if (!meeting_peer_is_own(made)) {
		status = status_set(
		    WEIR_EINVAL, "process %ld is not this user's", (long)pid);
	}
	if (status == WEIR_OK)
		*fd = made;
	else
		close(made);
	return status;
}
