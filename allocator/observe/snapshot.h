/*
 * Snapshots of the running process.
 */
#ifndef ALLOCATOR_OBSERVE_SNAPSHOT_H
#define ALLOCATOR_OBSERVE_SNAPSHOT_H

#include <weir/trace.h>

/* Write a snapshot of everything into an open file, from its beginning. Returns
 * the errors of weir_snapshot_write(). */
enum weir_status snapshot_onto(int fd, enum weir_snapshot_format format);

#endif
