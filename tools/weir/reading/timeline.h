/*
 * A profiler's trace, to which events can be added: the place for them, and the
 * clock of its times. The trace is JSON of Chrome's form, as PyTorch's profiler
 * (Kineto) writes it, and its text is kept unchanged. Or it is a database of
 * Nsight Systems, which is converted to that form (tools/weir/export/nsys.h).
 * Either may be compressed.
 */
#ifndef TOOLS_WEIR_READING_TIMELINE_H
#define TOOLS_WEIR_READING_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timeline {
	char *text; /* the caller frees it */
	size_t length;
	size_t events_at; /* offset after the '[' of the list of events */
	bool is_empty;    /* the list has no events */
	int64_t base_ns;  /* time of "ts" 0, since 1970 */
	double first_us;  /* the earliest "ts" */
	double last_us;   /* the latest end of an event */
	int64_t last_pid; /* the largest number of a process */
};

/* Read a trace. False, with a complaint, if the file cannot be read or is no
 * such trace. */
bool timeline_read(const char *path, struct timeline *out);

/* Parse the text, which has `length` bytes and a NUL after them. Returns NULL,
 * or the fault of the text. The time is in proportion to the length. */
const char *timeline_parse(struct timeline *timeline);

#endif
