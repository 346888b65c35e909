/*
 * A strict reader of OpenMetrics text, version 1.0.0. It knows the part of the
 * format that weir writes: gauges, counters and infos with whole numbers,
 * without timestamps.
 */
#ifndef TESTS_TOOLS_WEIR_STRICT_METRICS_H
#define TESTS_TOOLS_WEIR_STRICT_METRICS_H

/* The first fault of a text, with the number of its line; NULL if there is
 * none. The answer is valid until the next call. */
const char *strict_metrics_fault(const char *text);

/* The value of the sample whose line begins with `name` and has `labels` among
 * its labels, such as `memory="device"`; -1 if there is none. */
double strict_metrics_value(
    const char *text, const char *name, const char *labels);

#endif
