/*
 * A recorded trace in CSV as a snapshot with a history, so that `weir view` can
 * show it.
 */
#ifndef TOOLS_WEIR_TRACE_SNAPSHOT_H
#define TOOLS_WEIR_TRACE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/budget.h"
#include "trace/snapshot_model.h"

/* Is a file of this name such a trace: ".csv", perhaps compressed? */
bool trace_is_named(const char *path);

/*
 * Make a snapshot of the text of one, which ends with a NUL and was read within
 * a budget; `shown` names it in complaints. A free is complete at once where
 * the trace has no 'c' row for it. If a trace does not say what was held, each
 * block is memory of its own, and held equals in use. There is no final state
 * and no stack.
 *
 * NULL, and a complaint. The caller frees it with snapshot_free().
 */
struct snapshot *trace_snapshot_of(const char *shown, const char *text,
    size_t length, const struct budget *budget);

#endif
