/*
 * Messages on stderr, or to the program's own function. A line is built on the
 * stack and written by one write(2), so lines of several threads and processes
 * do not mix (up to PIPE_BUF bytes); longer lines are cut. The program does not
 * notice it (quiet.h, Note [Quiet writing]).
 *
 * A message may be written while any lock is held, so the function is read
 * without a lock: `turn` is odd while the function is being changed, and a
 * reader that sees `turn` change reads again (a seqlock).
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/quiet.h"
#include "base/status.h"
#include "base/tuning.h"
#include "base/utf8.h"

static const char prefix[] = "weir: ";

/* Replace control characters: messages contain names of files and programs, and
 * are shown on terminals. */
static void
harmless(char *text)
{
	for (size_t left = strlen(text); left > 0;) {
		uint32_t code;
		size_t n = utf8_next(text, left, &code);
		size_t bytes = n > 0 ? n : 1;

		if ((n == 0 || utf8_is_control(code)) && *text != '\n')
			memset(text, '?', bytes);
		text += bytes;
		left -= bytes;
	}
}

/* ---- The program's own function ------------------------------------------ */

struct sink {
	weir_log_callback callback; /* NULL: stderr */
	void *user;
	enum log_level level;
};

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct lock sink_lock = LOCK_INITIALIZER(LOCK_RANK_LOG);
static atomic_uint turn; /* odd: the three fields below are being changed */
static _Atomic(weir_log_callback) sink_callback;
static _Atomic(void *) sink_user;
static atomic_int sink_level;

static struct sink
sink_now(void)
{
	struct sink sink;
	unsigned before;

	do {
		before = atomic_load(&turn);
		sink.callback = atomic_load(&sink_callback);
		sink.user = atomic_load(&sink_user);
		sink.level = (enum log_level)atomic_load(&sink_level);
	} while (before % 2 != 0 || atomic_load(&turn) != before);
	return sink;
}

/* A child forked while another thread changes the function would wait for the
 * end of that change for ever. So no change is under way at a fork. */
static void
before_fork(void)
{
	lock_enter(&sink_lock);
	lock_hand_over(&sink_lock);
}

static void
after_fork(void)
{
	lock_take_over(&sink_lock);
	lock_leave(&sink_lock);
}

static void
keep_over_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

enum weir_status
weir_log_set(enum weir_log_level level, weir_log_callback callback, void *user)
{
	if (level < WEIR_LOG_ERROR || level > WEIR_LOG_DEBUG)
		return status_set(WEIR_EINVAL,
		    "weir_log_set: level %d is not WEIR_LOG_ERROR to "
		    "WEIR_LOG_DEBUG",
		    (int)level);
	pthread_once(&fork_once, keep_over_forks);
	lock_enter(&sink_lock);
	atomic_fetch_add(&turn, 1);
	atomic_store(&sink_callback, callback);
	atomic_store(&sink_user, user);
	atomic_store(&sink_level, (int)level);
	atomic_fetch_add(&turn, 1);
	lock_leave(&sink_lock);
	return WEIR_OK;
}

/* ---- Lines --------------------------------------------------------------- */

/* Write a line in a buffer of `size` bytes. */
static void
write_line_in(char *line, size_t size, const struct sink *sink,
    enum log_level level, const char *format, va_list args)
{
	size_t length = sizeof(prefix) - 1;

	memcpy(line, prefix, length);
	/* One byte is reserved for the end of the line. */
	if (vsnprintf(line + length, size - length - 1, format, args) < 0)
		return;
	harmless(line + length);
	if (sink->callback != NULL) {
		sink->callback(
		    (enum weir_log_level)level, line + length, sink->user);
		return;
	}
	length += strlen(line + length);
	line[length++] = '\n';
	quiet_stderr(line, length);
}

/* A thread's stack may have only 16 KiB; without memory the line is cut. */
static void
write_line(const struct sink *sink, enum log_level level, const char *format,
    va_list args)
{
	char few[LOG_LINE_SHORT];
	char *line = mmap(NULL, LOG_LINE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (line == MAP_FAILED) {
		write_line_in(few, sizeof(few), sink, level, format, args);
		return;
	}
	write_line_in(line, LOG_LINE, sink, level, format, args);
	munmap(line, LOG_LINE);
}

__attribute__((format(printf, 1, 2))) static void
write_always(const char *format, ...)
{
	const struct sink sink = { .callback = NULL };
	va_list args;

	va_start(args, format);
	write_line(&sink, LOG_ERROR, format, args);
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
		     "warn is used",
	    text);
	return LOG_WARN;
}

/* The level from the environment, read at the first message. */
static enum log_level
shown_level(void)
{
	static atomic_int shown = -1;
	static atomic_flag reading = ATOMIC_FLAG_INIT;

	if (atomic_load(&shown) >= 0)
		return (enum log_level)atomic_load(&shown);
	/* A thread that calls this while another one reads the level uses the
	 * default. */
	if (atomic_flag_test_and_set(&reading))
		return LOG_WARN;
	atomic_store(&shown, (int)read_level());
	return (enum log_level)atomic_load(&shown);
}

void
log_write(enum log_level level, const char *format, ...)
{
	const struct sink sink = sink_now();
	int saved = errno;
	va_list args;

	if (level <= (sink.callback != NULL ? sink.level : shown_level())) {
		va_start(args, format);
		write_line(&sink, level, format, args);
		va_end(args);
	}
	errno = saved;
}
