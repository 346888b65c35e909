/*
 * Snapshots that options ask for, in programs that are not changed: at the end,
 * at a failure or at a signal.
 *
 * No function here makes a call of the program fail: an error is logged. In a
 * forked child these functions do nothing.
 */
#ifndef ALLOCATOR_OBSERVE_AUTO_SNAPSHOT_H
#define ALLOCATOR_OBSERVE_AUTO_SNAPSHOT_H

#include "allocator/observe/tuning.h"
#include "allocator/options.h"

/* Begin the snapshots that the options ask for. startup_begin() calls it, once,
 * with AUTO_SNAPSHOT_STACK bytes of stack left. */
void auto_snapshot_begin(const struct options *asked);

/* Has auto_snapshot_begin() been called? */
bool auto_snapshot_has_begun(void);

/* A request failed because memory is short: write a snapshot if the options ask
 * for one. The caller holds no lock; the status of the thread changes. */
void auto_snapshot_oom(void);

/* Why a snapshot is written; "%w" in the path stands for it. */
enum auto_snapshot_why {
	AUTO_SNAPSHOT_EXIT,
	AUTO_SNAPSHOT_OOM,
	AUTO_SNAPSHOT_SIGNAL
};

/* Write a snapshot to the path of the option `snapshot`. False if the option is
 * off or writing failed, which is logged. */
bool auto_snapshot_write(enum auto_snapshot_why why);

/* Write the snapshot at exit, unless it would replace that of a failure. */
void auto_snapshot_exit(void);

#endif
