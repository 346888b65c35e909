/*
 * Makes, writes and reads the file of a device that sleeps.
 */
#include "graphs/suspend_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/options.h"
#include "base/os.h"
#include "base/quiet.h"
#include "base/status.h"

/* Make a file with a name, and remove the name: for file systems without
 * O_TMPFILE. Returns a descriptor or -1. */
static int
make_named(const char *folder)
{
	char path[OPTION_FOLDER + 32];

	snprintf(path, sizeof(path), "%s/weir-sleep-XXXXXX", folder);
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* Give the file its space. Returns 0 or an errno. */
static int
reserve_space(int fd, uint64_t bytes)
{
	struct quiet quiet;
	int error;

	quiet_begin(&quiet);
	do
		error = posix_fallocate(fd, 0, (off_t)bytes);
	while (error == EINTR);
	quiet_end(&quiet);
	return error;
}

enum weir_status
suspend_file_make(const char *folder, uint64_t bytes, struct suspend_file *out)
{
	struct stat about;
	int fd = open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = make_named(folder);
	fd = os_fd_up(fd);
	int error = fd < 0 || fstat(fd, &about) != 0 ? errno : 0;
	if (error == 0)
		error = reserve_space(fd, bytes);
	if (error == 0) {
		*out = (struct suspend_file){
			.fd = fd, .device = about.st_dev, .inode = about.st_ino
		};
		return WEIR_OK;
	}
	if (fd >= 0)
		close(fd);
	status_set(WEIR_EFILE,
	    "sleeping: no file of %llu bytes in %s (option sleep_folder): %s",
	    (unsigned long long)bytes, folder, strerror(error));
	return status_errno(WEIR_EFILE, error);
}

/* Is the descriptor still that of the file? */
static bool
is_own(const struct suspend_file *file)
{
	struct stat about;

	return fstat(file->fd, &about) == 0 && about.st_dev == file->device &&
	    about.st_ino == file->inode;
}

int
suspend_file_write(
    const struct suspend_file *file, const void *from, size_t n, uint64_t at)
{
	const char *bytes = from;
	struct quiet quiet;
	int error = is_own(file) ? 0 : EBADF;

	quiet_begin(&quiet);
	while (n > 0 && error == 0) {
		ssize_t written = pwrite(file->fd, bytes, n, (off_t)at);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			error = written < 0 ? errno : ENOSPC;
			break;
		}
		bytes += written;
		at += (uint64_t)written;
		n -= (size_t)written;
	}
	quiet_end(&quiet);
	return error;
}

int
suspend_file_read(
    const struct suspend_file *file, void *to, size_t n, uint64_t at)
{
	char *bytes = to;

	if (!is_own(file))
		return EBADF;
	while (n > 0) {
		ssize_t got = pread(file->fd, bytes, n, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : -1;
		bytes += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

int
suspend_file_flush(const struct suspend_file *file)
{
	while (fdatasync(file->fd) != 0)
		if (errno != EINTR)
			return errno;
	return 0;
}

void
suspend_file_drop(struct suspend_file *file)
{
	if (file->fd >= 0 && is_own(file)) {
		/* A forked child may have the descriptor too, so that closing
		 * it would not free the space. */
		(void)!ftruncate(file->fd, 0);
		close(file->fd);
	}
	file->fd = -1;
}
