/*
 * Figures of the running process, for watchers.
 */
#ifndef ALLOCATOR_OBSERVE_LIVE_STATS_H
#define ALLOCATOR_OBSERVE_LIVE_STATS_H

#include <stddef.h>

#include "trace/watch.h"

/* The time that watchers are told as the beginning. */
void live_begin(void);

/* Fill a reply to WATCH_STATS; its size. Calls no driver. */
size_t live_gather(struct watch_reply *reply);

#endif
