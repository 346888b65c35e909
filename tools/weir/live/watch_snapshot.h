/*
 * A snapshot of a running process.
 */
#ifndef TOOLS_WEIR_LIVE_WATCH_SNAPSHOT_H
#define TOOLS_WEIR_LIVE_WATCH_SNAPSHOT_H

#include <stdbool.h>
#include <sys/types.h>

/* Let a process write a snapshot to a file, as JSON or as a pickle. False, and
 * a complaint, on failure; a file of this name stays as it was. */
bool watch_snapshot(pid_t pid, const char *path, bool json);

#endif
