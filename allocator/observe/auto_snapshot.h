/*
 * History and snapshots that options ask for, in programs that are not changed:
 * the history from the first allocation on, a snapshot at the end, at a failure
 * or at a signal.
 *
 * Nothing here fails a call of the program: what cannot be done is told once on
 * stderr. In a forked child there is nothing to tell of, and nothing happens.
 */
#ifndef ALLOCATOR_OBSERVE_AUTO_SNAPSHOT_H
#define ALLOCATOR_OBSERVE_AUTO_SNAPSHOT_H

#include "allocator/options.h"

/* The first memory of the process is about to be asked for. Begins what the
 * options ask for, once; the caller holds no lock. */
void attend_begin(const struct options *options);

/* Has it begun? Options that it heeds change nothing then. */
bool attend_has_begun(void);

/* A request has failed for want of memory. The caller holds no lock; the status
 * of the thread changes. */
void attend_oom(void);

/* Why a snapshot is written: "%w" of its name. */
enum attend_why { ATTEND_EXIT, ATTEND_OOM, ATTEND_SIGNAL };

/* Write one as the option `snapshot` names it. False: it is off, or that could
 * not be, which is told. */
bool attend_snapshot(enum attend_why why);

/* Write the snapshot of the end, unless one of a failure is to stay there. */
void attend_end(void);

#endif
