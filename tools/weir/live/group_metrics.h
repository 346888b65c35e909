/*
 * The metrics of groups, from their ledgers.
 */
#ifndef TOOLS_WEIR_LIVE_GROUP_METRICS_H
#define TOOLS_WEIR_LIVE_GROUP_METRICS_H

#include "tools/weir/live/openmetrics.h"

/*
 * Take the metrics of all ledgers of a list, one group each. Members are rung
 * for their idle memory.
 *
 * @param count  of the groups
 * @return the groups, which the caller frees; NULL without memory
 */
struct metrics_group *group_metrics(
    const struct found_ledger *list, size_t *count);

#endif
