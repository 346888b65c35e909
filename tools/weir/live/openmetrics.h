/*
 * Metrics of watched processes, for monitoring systems.
 */
#ifndef TOOLS_WEIR_LIVE_OPENMETRICS_H
#define TOOLS_WEIR_LIVE_OPENMETRICS_H

#include <stddef.h>
#include <stdio.h>

#include "trace/watch.h"

/*
 * METRICS_OPENMETRICS is version 1.0.0 of the OpenMetrics text format.
 * METRICS_PROMETHEUS is version 0.0.4 of the older format, for readers that
 * know no other, such as node_exporter's textfile collector. The older format
 * has no units and no end, and its type lines have the name of the sample.
 */
enum metrics_form { METRICS_OPENMETRICS, METRICS_PROMETHEUS };

/* A watched process: its name, and its statistics. */
struct metrics_process {
	char program[32];
	struct watch_reply reply;
};

/* Write the metrics of all processes. ferror(out) reports a failure. */
void openmetrics_write(const struct metrics_process *processes, size_t count,
    enum metrics_form form, FILE *out);

#endif
