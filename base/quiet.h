/*
 * Writing that neither ends, stops nor blocks the program.
 *
 * Note [Quiet writing]
 *
 * weir writes messages, reports and files from the program's threads, at times
 * that the program does not choose. A write may send its thread SIGPIPE (nobody
 * reads the pipe any more) or SIGXFSZ (the file is as large as RLIMIT_FSIZE
 * allows), which end a program that does not expect them. Both signals go to
 * the thread that writes, so that they are blocked there for the write, and
 * taken back if it failed. A pipe that is full because nobody reads it would
 * block the program for ever: the write is given up after QUIET_WAIT_MS, and
 * the next writes to a full pipe do not wait at all.
 *
 * Descriptor 2 is not always stderr. A program may close it, and the next file
 * that it opens has this number. A message must not go into that file. So
 * quiet_stderr() writes to the file that was open there when weir was loaded,
 * and otherwise only where a program may have put its stderr meanwhile: a
 * terminal or device, a pipe, a file that is open for appending, or one without
 * a name. If there is none, it writes to the stderr of `weir run`, if that is
 * the stderr that the program was started with.
 */
#ifndef BASE_QUIET_H
#define BASE_QUIET_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/tuning.h"

/* The variable with the path of the stderr of `weir run`. */
#define QUIET_VARIABLE "WEIR_STDERR"

struct quiet {
	sigset_t before;
	sigset_t taken; /* the signals that are taken back */
};

/* From begin to end, writes of this thread send it no signal. errno is
 * preserved. */
void quiet_begin(struct quiet *quiet);
void quiet_end(const struct quiet *quiet);

/* Write all bytes. Returns 0 or an errno: EAGAIN, if nobody reads the pipe. */
int quiet_write(int fd, const void *bytes, size_t n);

/* Write to stderr. Returns 0 or an errno: EBADF, if there is no stderr. */
int quiet_stderr(const void *bytes, size_t n);

#endif
