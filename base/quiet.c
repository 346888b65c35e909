/*
 * Writing that neither ends, stops nor blocks the program (quiet.h).
 */
#include "base/quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Signals ------------------------------------------------------------ */

void
quiet_begin(struct quiet *quiet)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ };
	int error = errno;
	sigset_t pending;

	sigemptyset(&pending);
	sigpending(&pending);
	sigemptyset(&quiet->taken);
	/* A signal that was there before is the program's. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigismember(&pending, signals[i]))
			sigaddset(&quiet->taken, signals[i]);
	pthread_sigmask(SIG_BLOCK, &quiet->taken, &quiet->before);
	errno = error;
}

void
quiet_end(const struct quiet *quiet)
{
	const struct timespec none = { 0 };
	int error = errno;

	/* A pipe and a file limit: both signals may have come. */
	for (int n = 0; n < 2; n++)
		if (sigtimedwait(&quiet->taken, NULL, &none) < 0)
			break;
	pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
	errno = error;
}

/* ---- Writing ------------------------------------------------------------ */

/* A write was given up. */
static atomic_bool nobody_reads;

/* Wait until a pipe, terminal or socket takes bytes. */
static int
wait_for_reader(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLOUT };
	int ready;

	do
		ready = poll(
		    &polled, 1, atomic_load(&nobody_reads) ? 0 : QUIET_WAIT_MS);
	while (ready < 0 && errno == EINTR);
	atomic_store(&nobody_reads, ready == 0);
	return ready == 0 ? EAGAIN : ready < 0 ? errno : 0;
}

/* Write some bytes. A pipe that poll() calls ready takes PIPE_BUF bytes without
 * a wait. */
static ssize_t
write_part(int fd, mode_t type, const void *bytes, size_t n)
{
	if (S_ISSOCK(type))
		return send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return write(fd, bytes, S_ISREG(type) || n < PIPE_BUF ? n : PIPE_BUF);
}

static int
write_all(int fd, mode_t type, const char *bytes, size_t n)
{
	while (n > 0) {
		int error = S_ISREG(type) ? 0 : wait_for_reader(fd);
		ssize_t done;

		if (error != 0)
			return error;
		done = write_part(fd, type, bytes, n);
		if (done < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (done <= 0)
			return done < 0 ? errno : EIO;
		bytes += done;
		n -= (size_t)done;
	}
	return 0;
}

int
quiet_write(int fd, const void *bytes, size_t n)
{
	struct stat about;
	struct quiet quiet;
	int error;

	if (fstat(fd, &about) != 0)
		return errno;
	quiet_begin(&quiet);
	error = write_all(fd, about.st_mode, bytes, n);
	quiet_end(&quiet);
	return error;
}

/* ---- stderr ------------------------------------------------------------- */

/* The file that was stderr when weir was loaded. st_mode is 0 if there was
 * none. */
static struct stat first;
/* The stderr of `weir run`; "" if there is none. */
static char first_path[64];

__attribute__((constructor)) static void
note_stderr(void)
{
	const char *path = getenv(QUIET_VARIABLE);
	int error = errno;

	if (fstat(STDERR_FILENO, &first) != 0)
		memset(&first, 0, sizeof(first));
	if (path != NULL && strlen(path) < sizeof(first_path))
		strcpy(first_path, path);
	errno = error;
}

static bool
is_first(const struct stat *now)
{
	return first.st_mode != 0 && now->st_dev == first.st_dev &&
	    now->st_ino == first.st_ino && now->st_rdev == first.st_rdev &&
	    (now->st_mode & S_IFMT) == (first.st_mode & S_IFMT);
}

/* May the program have made this file its stderr? dup2() makes descriptors that
 * an exec leaves open. */
static bool
may_be_stderr(const struct stat *now)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);
	int own = fcntl(STDERR_FILENO, F_GETFD);

	if (first.st_mode == 0 || flags < 0 || (own & FD_CLOEXEC) != 0 ||
	    (flags & O_ACCMODE) == O_RDONLY)
		return false;
	if (S_ISREG(now->st_mode))
		return (flags & O_APPEND) != 0 || now->st_nlink == 0;
	return S_ISCHR(now->st_mode) || S_ISFIFO(now->st_mode);
}

/* Write to the stderr of `weir run`. */
static int
write_first(const void *bytes, size_t n)
{
	struct stat about;
	int error = EBADF;
	int fd;

	if (first_path[0] == '\0')
		return EBADF;
	fd = open(first_path,
	    O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return errno;
	if (fstat(fd, &about) == 0 && is_first(&about))
		error = quiet_write(fd, bytes, n);
	close(fd);
	return error;
}

int
quiet_stderr(const void *bytes, size_t n)
{
	struct stat now;

	if (fstat(STDERR_FILENO, &now) == 0 &&
	    (is_first(&now) || may_be_stderr(&now)))
		return quiet_write(STDERR_FILENO, bytes, n);
	return write_first(bytes, n);
}
