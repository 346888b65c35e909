/*
 * The progress of long work, for a person who waits for it: one line on stderr
 * that is written anew now and then, and is gone when the work is done. Nothing
 * is written if stderr is no terminal.
 */
#ifndef TOOLS_WEIR_PROGRESS_H
#define TOOLS_WEIR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	/* Most work needs less, and shows nothing. */
	PROGRESS_AFTER_MS = 1000,
	/* How many small steps are done between two calls here. */
	PROGRESS_STEPS = 4096,
};

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

/* If it is time for a line, write how much of the work is done, and how long
 * the rest will take at that speed: "WHAT: 40 %, some 3 s left". */
void progress_part(
    struct progress *progress, const char *what, uint64_t done, uint64_t all);

/* Milliseconds since the begin. */
int64_t progress_taken_ms(const struct progress *progress);

/* Remove the line. Nothing is shown afterwards. */
void progress_end(struct progress *progress);

#endif
