/*
 * Metrics of watched processes and of groups, for monitoring systems.
 */
#ifndef TOOLS_WEIR_LIVE_OPENMETRICS_H
#define TOOLS_WEIR_LIVE_OPENMETRICS_H

#include <stddef.h>
#include <stdio.h>

#include "tools/weir/live/ledgers.h"
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

/* A value that has no sample: it is not known, or there is no limit. */
#define METRICS_NONE UINT64_MAX

/* A member of a group on a device. */
struct metrics_member {
	unsigned slot; /* containers may have members of equal numbers */
	uint64_t pid;
	char program[LEDGER_PROGRAM];
	uint64_t held_bytes;
	uint64_t guarantee_bytes;
	uint64_t idle_bytes;
	uint64_t priority;
	uint64_t waits_for_bytes; /* 0: it does not wait */
	uint64_t wait_ns;
	/* 0, 1 or METRICS_NONE. */
	uint64_t asleep;
	uint64_t dozes; /* for others; it wakes by itself */
};

/* A group on a device. Names may be any bytes. */
struct metrics_group {
	char group[LEDGER_GROUP];
	char device_uuid[LEDGERS_UUID];
	uint64_t limit_bytes;
	uint64_t held_bytes;
	uint64_t charged_bytes; /* held or guaranteed */
	uint64_t member_count;
	uint64_t waiting_count;
	struct metrics_member members[LEDGER_MEMBERS];
};

/* The metrics to write. NULL in place of an array: none of this kind. */
struct metrics_sample {
	const struct metrics_process *processes;
	size_t process_count;
	const struct metrics_group *groups;
	size_t group_count;
};

/* Write all metrics of a sample. ferror(out) reports a failure. */
void openmetrics_write(
    const struct metrics_sample *sample, enum metrics_form form, FILE *out);

#endif
