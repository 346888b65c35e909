/*
 * A profiler's trace: where events can be put into it, and on which clock its
 * times are. It is JSON of Chrome's form, as PyTorch's profiler (Kineto) writes
 * it, whose text is kept as it is; or a database of Nsight Systems, which is
 * made into that form first (tools/weir/nsys.h). Either may be compressed.
 */
#ifndef TOOLS_WEIR_TIMELINE_H
#define TOOLS_WEIR_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timeline {
	char *text; /* to be freed */
	size_t length;
	size_t events_at; /* just behind the '[' of the list of events */
	bool is_empty;    /* the list is */
	int64_t base_ns;  /* what "ts" 0 is, since 1970 */
	double first_us;  /* the earliest "ts", and the latest end */
	double last_us;
	int64_t last_pid; /* the largest number of a process */
};

/* False, with a complaint, if it cannot be read or is no such trace. */
bool timeline_read(const char *path, struct timeline *out);

/* Parse a text of `length` bytes with a NUL behind. Returns NULL, or what is
 * wrong with it. Takes time that grows with the length alone. */
const char *timeline_parse(struct timeline *timeline);

#endif
