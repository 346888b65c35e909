/*
 * The latest samples of each device, as a chart for a terminal: a column is a
 * sample, '#' live, '~' pending and '.' cached memory.
 */
#ifndef TOOLS_WEIR_LIVE_WATCH_CHART_H
#define TOOLS_WEIR_LIVE_WATCH_CHART_H

#include <stdio.h>

#include "tools/weir/tuning.h"
#include "trace/watch.h"

struct chart_sample {
	uint64_t time_ns;
	uint64_t live;
	uint64_t pending;
	uint64_t held;
};

/* The samples of a device, the oldest first. */
struct watch_chart {
	unsigned count;
	struct chart_sample samples[CHART_COLUMNS];
};

/* Add a sample. The oldest one goes if there is no room. */
void watch_chart_add(
    struct watch_chart *chart, uint64_t time_ns, const struct counters *memory);

/* Print the chart; nothing for less than two samples. */
void watch_chart_print(const struct watch_chart *chart, FILE *out);

#endif
