/*
 * Figures of the running process, for watchers.
 */
#ifndef ALLOCATOR_OBSERVE_LIVE_STATS_H
#define ALLOCATOR_OBSERVE_LIVE_STATS_H

#include <stddef.h>

#include "trace/watch.h"

/* Note the time, which watchers see as the beginning of the process. */
void live_begin(void);

/* Fill a reply to WATCH_STATS; returns its size. Calls no driver. */
size_t live_gather(struct watch_reply *reply);

#endif
