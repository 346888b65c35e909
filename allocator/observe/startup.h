/*
 * Options for programs that are not changed: the history from the first
 * allocation on, snapshots, and answers to a watcher. weir begins them by
 * itself.
 */
#ifndef ALLOCATOR_OBSERVE_STARTUP_H
#define ALLOCATOR_OBSERVE_STARTUP_H

#include "allocator/options.h"

/* Begin the history, snapshots and answers that the options ask for, once,
 * before the first allocation of the process. The caller holds no lock. */
void startup_begin(const struct options *options);

#endif
