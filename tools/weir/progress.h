/*
 * The progress of long work, for a person who waits for it: one line on stderr
 * that is rewritten as the work proceeds and removed when it ends. Nothing is
 * written if stderr is no terminal.
 *
 * A command does its work in parts (it reads, computes, writes), each with a
 * struct progress. The time before the first line counts from the start of the
 * command, so that many short parts show a line too.
 */
#ifndef TOOLS_WEIR_PROGRESS_H
#define TOOLS_WEIR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/weir/tuning.h"

struct progress {
	bool shows; /* stderr is a terminal */
	bool shown; /* a line is there */
	int64_t began_ms;
	int64_t next_ms; /* the next line comes no earlier */
};

/* Note that the command starts now. Without this call, the command starts with
 * its first part. */
void progress_start(void);

/* Begin a part; its first line comes `wait_ms` after the command's start. */
void progress_begin(struct progress *progress, int64_t wait_ms);

/* Begin a part that writes to `out`. It shows nothing if `out` is a terminal,
 * because a line would cut through the output. */
void progress_begin_output(struct progress *progress, FILE *out);

/* True if it is time for a line, at most five times a second. */
bool progress_due(struct progress *progress);

/* Write the line. */
void progress_show(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* If it is time for a line, write the share of the work that is done, and the
 * time that the rest takes at this speed: "WHAT: 40 %, about 3 s left". */
void progress_part(
    struct progress *progress, const char *what, uint64_t done, uint64_t all);

/* Milliseconds since the part began. */
int64_t progress_taken_ms(const struct progress *progress);

/* Remove the line. Nothing is shown afterwards. */
void progress_end(struct progress *progress);

/* Monotonic time. */
int64_t progress_clock_ms(void);

#endif
