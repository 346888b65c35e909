/*
 * The progress of long work, for a person who waits for it: one line on stderr
 * that is written anew now and then, and is gone when the work is done. Nothing
 * is written if stderr is no terminal.
 */
#ifndef TOOLS_WEIR_PROGRESS_H
#define TOOLS_WEIR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shows; /* stderr is a terminal */
	bool shown; /* a line is there */
	int64_t began_ms;
	int64_t next_ms; /* the next line comes no earlier */
};

/* Begin; the first line comes after `wait_ms`. */
void progress_begin(struct progress *progress, int64_t wait_ms);

/* Is it time for a line? At most five times a second. */
bool progress_due(struct progress *progress);

/* Write the line. */
void progress_show(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Milliseconds since the begin. */
int64_t progress_taken_ms(const struct progress *progress);

/* Remove the line. Nothing is shown afterwards. */
void progress_end(struct progress *progress);

#endif
