/*
 * What the options ask weir to do on its own, for programs that are not
 * changed: keep the history from the first allocation on, write snapshots, and
 * tell watchers how it stands.
 *
 *	auto_snapshot.c  history and snapshots: at the end, at a failure
 *	agent.c          the thread that answers signals and watchers
 *	live_stats.c     what watchers are told
 *	../api/ctl.c     values by name
 *
 * Nothing here fails a call of the program: what cannot be done is told once on
 * stderr. In a forked child there is nothing to tell of, and nothing happens.
 */
#ifndef ALLOCATOR_OBSERVE_AUTO_SNAPSHOT_H
#define ALLOCATOR_OBSERVE_AUTO_SNAPSHOT_H

#include "allocator/options.h"
#include "trace/watch.h"

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

/* Begin the thread, if the options ask for one. What it cannot do is told. */
void serve_begin(const struct options *options);

/* The time that watchers are told as the beginning. */
void live_begin(void);

/* Fill a reply to WATCH_STATS; its size. Calls no driver. */
size_t live_gather(struct watch_reply *reply);

/* The values of <weir/ctl.h> that a request of WATCH_LIST asks for, or the one
 * of WATCH_SET, set; false: `text` says why not. */
bool ctl_answer(const struct watch_ctl_request *request,
    struct watch_ctl_reply *reply, char text[WATCH_TEXT]);

/* A snapshot of everything into an open file, from its beginning; of snapshot.c
 * as weir_snapshot_write(). */
enum weir_status snapshot_onto(int fd, enum weir_snapshot_format format);

#endif
