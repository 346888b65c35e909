/*
 * Conversion of a recorded trace in CSV to a snapshot with a history, which
 * `weir view` can show.
 */
#ifndef TOOLS_WEIR_READING_TRACE_SNAPSHOT_H
#define TOOLS_WEIR_READING_TRACE_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>

#include "snapshot/budget.h"
#include "snapshot/model.h"

/* True if a file has the name of a trace: ".csv", or a compressed form. */
bool trace_is_named(const char *path);

/*
 * Make a snapshot from the text of a trace, which ends with a NUL and was read
 * within a budget. `shown` names the trace in complaints. A free without a 'c'
 * row is complete at once. If the trace has no rows of segments, each block is
 * a segment of its own, so that held bytes equal bytes in use. The snapshot has
 * no final state and no stacks.
 *
 * The caller frees the snapshot with snapshot_free(). On failure NULL, and a
 * complaint.
 */
struct snapshot *trace_snapshot_of(const char *shown, const char *text,
    size_t length, const struct budget *budget);

#endif
