/*
 * The faults of a snapshot that is not consistent.
 *
 * The check trusts no number of the file: it counts sums again, walks blocks,
 * and plays the trace from its beginning. The trace must end with the blocks of
 * the segments.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_FAULTS_H
#define TOOLS_WEIR_READING_SNAPSHOT_FAULTS_H

#include "tools/weir/reading/faults.h"
#include "tools/weir/reading/snapshot_view.h"

/* Add the faults of the selected devices to `faults`, whose list the caller
 * made. Without memory, `faults->failed` is set. */
void faults_find(const struct snapshot *snapshot, const struct view_args *args,
    struct faults *faults);

#endif
