/*
 * Messages on stderr. The line is put together on the stack and written by
 * one write(2), so lines of several threads and processes do not mix (up to
 * PIPE_BUF bytes); longer ones are cut.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 4096 };

static const char prefix[] = "weir: ";

static void
write_line(const char *format, va_list args)
{
	char line[LINE_SIZE];
	size_t length = sizeof(prefix) - 1;
	int n;

	memcpy(line, prefix, length);
	/* One byte stays free for the end of the line. */
	n = vsnprintf(line + length, sizeof(line) - length - 1, format, args);
	if (n < 0)
		return;
	length += strlen(line + length);
	line[length++] = '\n';
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		continue;
}

__attribute__((format(printf, 1, 2))) static void
write_always(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(format, args);
	va_end(args);
}

static enum log_level
read_level(void)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	const char *text = getenv("WEIR_LOG");

	if (text == NULL || *text == '\0')
		return LOG_WARN;
	for (int i = 0; i < 4; i++) {
		if (strcmp(text, names[i]) == 0)
			return (enum log_level)i;
	}
	write_always("WEIR_LOG=%s: not error, warn, info or debug; "
		     "warn it is",
	    text);
	return LOG_WARN;
}

/* The level of the environment, read at the first message. */
static enum log_level
shown_level(void)
{
	static atomic_int shown = -1;
	static atomic_flag reading = ATOMIC_FLAG_INIT;

	if (atomic_load(&shown) >= 0)
		return (enum log_level)atomic_load(&shown);
	/* A thread that comes while another reads shows the default. */
	if (atomic_flag_test_and_set(&reading))
		return LOG_WARN;
	atomic_store(&shown, (int)read_level());
	return (enum log_level)atomic_load(&shown);
}

void
log_write(enum log_level level, const char *format, ...)
{
	int saved = errno;
	va_list args;

	if (level <= shown_level()) {
		va_start(args, format);
		write_line(format, args);
		va_end(args);
	}
	errno = saved;
}
