/*
 * A device's memory as it was at an event of the trace, by undoing what came
 * after it; and how much was held at most.
 */
#ifndef TOOLS_WEIR_SNAPSHOT_MOMENT_H
#define TOOLS_WEIR_SNAPSHOT_MOMENT_H

#include "trace/snapshot_model.h"

/*
 * A snapshot that has the segments and blocks of one device right after
 * `event`, which is in that device's trace, or as the file has them for
 * UINT32_MAX. The rest of it is shared with `snapshot`, which must outlive it;
 * it has no page-locked memory.
 *
 * Exact are the mapped addresses, and which blocks are in use. The size of a
 * block that was freed later is not exact: it is what was asked for, rounded up
 * to 512 bytes. A block that was allocated before the trace and freed after the
 * event has no stack.
 *
 * NULL, and a complaint, without memory.
 */
struct snapshot *moment_new(
    const struct snapshot *snapshot, uint32_t device, uint32_t event);
/* NULL does nothing. */
void moment_free(struct snapshot *moment);

/* The most bytes that a device held during its trace, by the segments at the
 * end and the events of segments. */
uint64_t moment_held_peak(const struct snapshot *snapshot, uint32_t device);

#endif
