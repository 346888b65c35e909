/*
 * Other processes.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"

/* These numbers are equal on all architectures that weir supports. */
enum { CALL_pidfd_open = 434, CALL_pidfd_getfd = 438 };

/* Fields of /proc/PID/stat, as proc(5) counts them. */
enum {
	FIELD_NAME = 2,
	FIELD_STATE = 3,
	FIELD_THREADS = 20,
	FIELD_STARTED = 22,
	FIELD_ARGUMENTS = 48,
	FIELD_ARGUMENTS_END = 49,
};

/* ---- /proc/PID/stat ----------------------------------------------------- */

/* The start of a field after the name, given the end of the name, which is in
 * parentheses and may contain anything. NULL: there is none. */
static const char *
stat_field(const char *name_end, int field)
{
	const char *at = name_end;

	for (int i = FIELD_NAME; i < field && at != NULL; i++)
		at = strchr(at + 1, ' ');
	return at != NULL ? at + 1 : NULL;
}

static uint64_t
stat_number(const char *name_end, int field)
{
	const char *at = stat_field(name_end, field);

	return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* Read a file of /proc/PID as text. Returns 0, or the number of errno. */
static int
read_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	ssize_t n = read(fd, line, size - 1);
	int code = n < 0 ? errno : n == 0 ? ESRCH : 0;
	close(fd);
	line[n > 0 ? n : 0] = '\0';
	return code;
}

int
process_read(uint64_t pid, struct process_stat *out)
{
	char path[48];
	char line[1024];
	int error = errno;

	snprintf(
	    path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	int code = read_line(path, line, sizeof(line));
	errno = error;
	if (code != 0)
		return code;
	const char *name_end = strrchr(line, ')');
	if (name_end == NULL || stat_number(name_end, FIELD_STARTED) == 0)
		return EIO;
	*out = (struct process_stat){ .state =
					  *stat_field(name_end, FIELD_STATE),
		.threads = stat_number(name_end, FIELD_THREADS),
		.started = stat_number(name_end, FIELD_STARTED),
		.arguments = stat_number(name_end, FIELD_ARGUMENTS),
		.arguments_end = stat_number(name_end, FIELD_ARGUMENTS_END) };
	return 0;
}

uint64_t
process_own_start(void)
{
	struct process_stat own;

	return process_read(os_process_id(), &own) == 0 ? own.started : 0;
}

/* Has it ended, by its number alone? `hidden_ended`: a process that is not to
 * be found has. */
static bool
stat_has_ended(uint64_t pid, uint64_t started, bool hidden_ended)
{
	struct process_stat stat;
	int code = process_read(pid, &stat);

	if (code == ENOENT || code == ESRCH)
		return hidden_ended;
	if (code != 0)
		return false;
	/* Other threads may outlive the first one. */
	return (started != 0 && stat.started != started) ||
	    (stat.state == 'Z' && stat.threads <= 1);
}

bool
process_has_ended(uint64_t pid, uint64_t started)
{
	static atomic_bool lacks_pidfd;
	int error = errno;
	int pidfd = -1;

	if (!atomic_load(&lacks_pidfd)) {
		pidfd = process_open((pid_t)pid);
		int code = errno;
		errno = error;
		if (pidfd < 0 && code != ENOSYS)
			return code == ESRCH;
		atomic_store(&lacks_pidfd, pidfd < 0);
	}
	bool ended =
	    stat_has_ended(pid, started, pidfd < 0) || process_fd_ended(pidfd);
	if (pidfd >= 0)
		close(pidfd);
	errno = error;
	return ended;
}

/* ---- Descriptors -------------------------------------------------------- */

int
process_open(pid_t pid)
{
	return (int)syscall(CALL_pidfd_open, pid, 0);
}

bool
process_fd_ended(int pidfd)
{
	struct pollfd polled = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&polled, 1, 0) == 1 &&
	    (polled.revents & POLLIN) != 0;
}

int
process_fetch(int pidfd, int fd)
{
	return (int)syscall(CALL_pidfd_getfd, pidfd, fd, 0);
}
