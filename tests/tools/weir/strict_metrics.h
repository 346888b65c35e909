/*
 * A strict reader of OpenMetrics text, version 1.0.0, for what weir writes of
 * it: gauges, counters and infos with whole numbers and no timestamps.
 */
#ifndef TESTS_TOOLS_WEIR_STRICT_METRICS_H
#define TESTS_TOOLS_WEIR_STRICT_METRICS_H

/* The first fault of a text, with the number of its line; NULL: none. The
 * answer lives until the next call. */
const char *strict_metrics_fault(const char *text);

/* The value of the sample whose line begins with `name` and has `labels` among
 * its labels, as `memory="device"`; -1: there is none. */
double strict_metrics_value(
    const char *text, const char *name, const char *labels);

#endif
