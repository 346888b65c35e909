/*
 * Writing a report to its destination.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "base/out.h"
#include "base/quiet.h"
#include "base/status.h"
#include "tools/report/report.h"
#include "tools/report/tuning.h"

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

/* The text of a report. `bytes` is NULL without memory. */
struct text {
	char *bytes;
	size_t n;
};

/* Write the report in memory. The program's locale, its rounding and its traps
 * of floating point change nothing in it. */
static struct text
text_of_report(const struct report *report, bool json)
{
	struct text text = { NULL, 0 };
	struct os_plain plain;
	FILE *file = open_memstream(&text.bytes, &text.n);
	bool failed;

	if (file == NULL)
		return (struct text){ NULL, 0 };
	os_plain_begin(&plain);
	if (json)
		report_write_json(file, report);
	else
		report_write_text(file, report, colour_wanted());
	os_plain_end(&plain);
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed) {
		free(text.bytes);
		text.bytes = NULL;
	}
	return text;
}

/* Open a pipe or a device. A pipe without a reader gets some time, but does not
 * stop the program. */
static int
open_special(const char *path)
{
	const struct timespec step = { .tv_nsec =
					   REPORT_OPEN_STEP_MS * 1000000L };
	int fd = -1;

	for (int ms = 0; ms < QUIET_WAIT_MS; ms += REPORT_OPEN_STEP_MS) {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd >= 0 || errno != ENXIO)
			break;
		nanosleep(&step, NULL);
	}
	return fd;
}

static enum weir_status
write_special(const char *path, const struct text *text)
{
	int fd = open_special(path);
	int error;

	if (fd < 0)
		return fail_path(path, errno);
	error = quiet_write(fd, text->bytes, text->n);
	close(fd);
	return error == 0 ? WEIR_OK : fail_path(path, error);
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
write_report_file(const char *path, const struct text *text)
{
	struct out *out;
	enum weir_status status;

	if (is_not_regular(path))
		return write_special(path, text);
	status = out_open(path, &out);
	if (status != WEIR_OK)
		return status;
	out_bytes(out, text->bytes, text->n);
	return out_close(out);
}

enum weir_status
report_write(const char *destination, const struct report *report)
{
	bool to_stderr = strcmp(destination, "-") == 0;
	struct text text = text_of_report(report, !to_stderr);
	enum weir_status status = WEIR_OK;
	char *path = NULL;

	if (text.bytes == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "%s: no host memory to write it", destination);
	if (to_stderr) {
		/* Where no stderr is, there is no place for an error. */
		quiet_stderr(text.bytes, text.n);
	} else {
		path = file_name(destination, report->pid);
		status = path != NULL ?
		    write_report_file(path, &text) :
		    status_set(WEIR_EHOSTMEM, "%s: no host memory to name it",
			destination);
	}
	free(path);
	free(text.bytes);
	return status;
}

bool
report_lend_stderr(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)getpid(),
	    STDERR_FILENO);
	return setenv(QUIET_VARIABLE, path, 1) == 0;
}
