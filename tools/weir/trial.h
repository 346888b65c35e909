/*
 * A trial: one trace, played in a process of its own, so that it starts from
 * an empty arena and its failure is its own.
 */
#ifndef TOOLS_WEIR_TRIAL_H
#define TOOLS_WEIR_TRIAL_H

#include <jansson.h>

#include "tools/weir/player.h"

struct trial_choices {
	struct play_choices play;
	const char *conf; /* options of weir, or NULL */
	int device;       /* of a snapshot; -1: its first that has a trace */
};

/*
 * Play a trace and wait for the end of that.
 *
 * @param figures  the object that `weir replay --json` prints, if the trace
 *                 was played to its end; else NULL. The caller drops it.
 * @return of enum tool_exit: TOOL_NO also if there were faults or mismatches,
 *         TOOL_USAGE if the options are wrong; complained of
 */
int trial_run(
    const char *path, const struct trial_choices *choices, json_t **figures);

/*
 * The smallest limit, in steps of 2 MiB, at which no request of the trace
 * fails for want of memory, by bisection between what is alive at the peak
 * and what is held without a limit. Trials below it fail, as far as they were
 * made; `*bytes` is 0 if there is none, that is if the device is too small.
 *
 * @param figures  of the trace without a limit
 * @return as trial_run()
 */
int trial_fit(const char *path, const struct trial_choices *choices,
    const json_t *figures, uint64_t *bytes);

/* Bytes as whole granules of physical memory: the lower end of that search. */
uint64_t trial_granules(uint64_t bytes);

#endif
