/*
 * weir watch --openmetrics: metrics of watched processes, at a port of this
 * machine or in a file.
 */
#ifndef TOOLS_WEIR_LIVE_WATCH_METRICS_H
#define TOOLS_WEIR_LIVE_WATCH_METRICS_H

#include <stdbool.h>
#include <sys/types.h>

struct metrics_request {
	pid_t pid;         /* 0: every process that can be watched */
	const char *where; /* "9464", a file, or "-" */
	double interval_s; /* of a file */
	bool once;
};

/* NULL if `where` is a port or a file; otherwise the fault, in words. */
const char *metrics_fault(const char *where);

/* Serve or write metrics until the process ends; without a process, for ever.
 * Returns an enum tool_exit. */
int metrics_run(const struct metrics_request *request);

#endif
