/*
 * Writing a report to its destination.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "tools/report/report.h"
#include "trace/out.h"

/* True if stderr is a terminal, and NO_COLOR is not set. */
static bool
colour_wanted(void)
{
	const char *plain = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && (plain == NULL || *plain == '\0');
}

/* The name of the file of a process: "%p" becomes the process id. The caller
 * frees it. NULL without memory. */
static char *
file_name(const char *destination, long pid)
{
	const char *mark = strstr(destination, "%p");
	char *path;

	if (mark == NULL)
		return strdup(destination);
	if (asprintf(&path, "%.*s%ld%s", (int)(mark - destination), destination,
		pid, mark + 2) < 0)
		return NULL;
	return path;
}

static enum weir_status
fail_path(const char *path, int error)
{
	char text[128];

	return status_set(WEIR_EINVAL, "%s: cannot be written: %s", path,
	    strerror_r(error, text, sizeof(text)));
}

/* Write the report to a descriptor, and close it. */
static enum weir_status
write_to(int fd, const char *path, const struct report *report)
{
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	int error = errno;
	bool failed;

	if (file == NULL) {
		if (fd >= 0)
			close(fd);
		return fail_path(path, error);
	}
	report_write_json(file, report);
	failed = fflush(file) != 0 || ferror(file) != 0;
	error = errno;
	if (fclose(file) != 0 && !failed) {
		failed = true;
		error = errno;
	}
	return failed ? fail_path(path, error) : WEIR_OK;
}

/* True for a pipe or a device, which no file may replace. */
static bool
is_not_regular(const char *path)
{
	struct stat about;

	return strncmp(path, "/dev/", 5) == 0 ||
	    strncmp(path, "/proc/", 6) == 0 ||
	    (lstat(path, &about) == 0 && !S_ISREG(about.st_mode) &&
		!S_ISLNK(about.st_mode));
}

static enum weir_status
write_report_file(const char *path, const struct report *report)
{
	struct out *out;
	enum weir_status status;

	if (is_not_regular(path))
		return write_to(
		    open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY), path, report);
	status = out_open(path, &out);
	if (status != WEIR_OK)
		return status;
	status = write_to(fcntl(out->fd, F_DUPFD_CLOEXEC, 0), path, report);
	if (status == WEIR_OK)
		return out_close(out);
	out_abandon(out);
	return status;
}

enum weir_status
report_write(const char *destination, const struct report *report)
{
	enum weir_status status;
	char *path;

	if (strcmp(destination, "-") == 0) {
		report_write_text(stderr, report, colour_wanted());
		return WEIR_OK;
	}
	path = file_name(destination, report->pid);
	if (path == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "%s: no host memory to name it", destination);
	status = write_report_file(path, report);
	free(path);
	return status;
}
