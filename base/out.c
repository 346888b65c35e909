/*
 * The temporary name is the file's name with the process ID and a number
 * appended.
 */
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/quiet.h"
#include "base/status.h"
#include "base/tuning.h"

/* The files of out_open() that are not complete. More of them at a time than
 * there are places are not listed. */
static _Atomic(struct out *) incomplete[8];

enum { LISTED = sizeof(incomplete) / sizeof(incomplete[0]) };

static void
list_incomplete(struct out *out)
{
	for (int i = 0; i < LISTED; i++) {
		struct out *none = NULL;

		if (atomic_compare_exchange_strong(&incomplete[i], &none, out))
			return;
	}
}

static void
unlist_incomplete(struct out *out)
{
	for (int i = 0; i < LISTED; i++) {
		struct out *found = out;

		if (atomic_compare_exchange_strong(
			&incomplete[i], &found, NULL))
			return;
	}
}

void
out_unlink_open(void)
{
	for (int i = 0; i < LISTED; i++) {
		struct out *out = atomic_load(&incomplete[i]);

		if (out != NULL)
			unlink(out->beside);
	}
}

static enum weir_status
fail_out(const char *path, const char *what, int error)
{
	char text[128];

	return status_set(WEIR_EINVAL, "%s: %s: %s", path, what,
	    strerror_r(error, text, sizeof(text)));
}

static enum weir_status
open_temporary(struct out *out, const char *path)
{
	static atomic_uint number;
	for (int i = 0; i < OUT_TRIES; i++) {
		int n =
		    snprintf(out->beside, sizeof(out->beside), "%s.%u-%u.tmp",
			path, os_process_id(), atomic_fetch_add(&number, 1));
		if (n < 0 || (size_t)n >= sizeof(out->beside))
			return fail_out(
			    path, "cannot be written", ENAMETOOLONG);
		out->fd = open(out->beside,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (out->fd >= 0) {
			memcpy(out->path, path, strlen(path) + 1);
			return WEIR_OK;
		}
		if (errno != EEXIST)
			break;
	}
	return fail_out(path, "cannot be written", errno);
}

bool
out_is_special(const char *path)
{
	static const char proc[] = "/proc/";
	char target[sizeof(proc) - 1];
	struct stat about;

	if (stat(path, &about) == 0 && !S_ISREG(about.st_mode) &&
	    !S_ISDIR(about.st_mode))
		return true;
	return readlink(path, target, sizeof(target)) ==
	    (ssize_t)sizeof(target) &&
	    memcmp(target, proc, sizeof(target)) == 0;
}

/* NULL: no host memory; the message is set. */
static struct out *
make_out(const char *path)
{
	struct out *made = meta_alloc(sizeof(*made));

	if (made == NULL) {
		status_set(
		    WEIR_EHOSTMEM, "%s: no host memory to write it", path);
		return NULL;
	}
	made->error = 0;
	made->used = 0;
	return made;
}

enum weir_status
out_open(const char *path, struct out **out)
{
	if (out_is_special(path))
		return status_set(WEIR_EINVAL,
		    "%s: cannot be written: it is no plain file", path);
	struct out *made = make_out(path);
	if (made == NULL)
		return WEIR_EHOSTMEM;
	enum weir_status status = open_temporary(made, path);
	if (status != WEIR_OK) {
		meta_free(made, sizeof(*made));
		return status;
	}
	list_incomplete(made);
	*out = made;
	return WEIR_OK;
}

enum weir_status
out_onto(int fd, struct out **out)
{
	static const char name[] = "the file";
	struct out *made = make_out(name);
	if (made == NULL)
		return WEIR_EHOSTMEM;
	made->fd = fd;
	memcpy(made->path, name, sizeof(name));
	made->beside[0] = '\0';
	*out = made;
	return WEIR_OK;
}

static void
write_bytes(struct out *out, const unsigned char *bytes, size_t n)
{
	if (n > 0 && out->error == 0)
		out->error = quiet_write(out->fd, bytes, n);
}

void
out_flush(struct out *out)
{
	write_bytes(out, out->buffer, out->used);
	out->used = 0;
}

void
out_bytes(struct out *out, const void *bytes, size_t n)
{
	if (OUT_BUFFER - out->used < n)
		out_flush(out);
	if (n > OUT_BUFFER) {
		write_bytes(out, bytes, n);
		return;
	}
	memcpy(out->buffer + out->used, bytes, n);
	out->used += n;
}

static bool
is_own(const struct out *out)
{
	return out->beside[0] != '\0';
}

static void
drop_out(struct out *out)
{
	if (is_own(out))
		unlink(out->beside);
	unlist_incomplete(out);
	meta_free(out, sizeof(*out));
}

void
out_abandon(struct out *out)
{
	if (is_own(out))
		close(out->fd);
	drop_out(out);
}

enum weir_status
out_close(struct out *out)
{
	out_flush(out);
	if (is_own(out) && close(out->fd) != 0 && out->error == 0)
		out->error = errno;
	if (out->error == 0 && is_own(out) &&
	    rename(out->beside, out->path) != 0)
		out->error = errno;
	if (out->error != 0) {
		enum weir_status status =
		    fail_out(out->path, "cannot be written", out->error);
		drop_out(out);
		return status;
	}
	unlist_incomplete(out);
	meta_free(out, sizeof(*out));
	return WEIR_OK;
}
