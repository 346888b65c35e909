/*
 * Bounds that a program's memory must keep, for `weir check` in a test run.
 */
#ifndef TOOLS_WEIR_VERBS_CHECK_GATES_H
#define TOOLS_WEIR_VERBS_CHECK_GATES_H

#include "tools/weir/reading/faults.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tuning.h"

struct gates {
	uint64_t max_peak; /* bytes; 0: no bound */
	bool no_leaks;
	bool no_growth;
	double growth_percent;
};

/*
 * Hold the selected devices against the bounds. Each bound that does not hold
 * is added to `list`, as {rule, device, what}. False, and a complaint, if one
 * could not be looked at: without memory, or where the snapshot lacks the trace
 * or the stacks that it needs.
 */
bool gates_check(const struct snapshot *snapshot, const struct view_args *args,
    const struct gates *gates, struct faults *faults);

#endif
