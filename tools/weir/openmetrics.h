/*
 * Metrics of watched processes, for monitoring systems.
 */
#ifndef TOOLS_WEIR_OPENMETRICS_H
#define TOOLS_WEIR_OPENMETRICS_H

#include <stddef.h>
#include <stdio.h>

#include "trace/watch.h"

/*
 * OPENMETRICS is version 1.0.0 of that text format. PROMETHEUS is version 0.0.4
 * of the older one, for readers that know no other, as node_exporter's textfile
 * collector: it has no units and no end, and types counters by the name of
 * their sample.
 */
enum metrics_form { METRICS_OPENMETRICS, METRICS_PROMETHEUS };

/* The samples of one process, and its name. */
struct metrics_process {
	char program[32];
	struct watch_reply reply;
};

/* Write the metrics of all processes. Failures are those of `out`. */
void openmetrics_write(const struct metrics_process *processes, size_t count,
    enum metrics_form form, FILE *out);

#endif
