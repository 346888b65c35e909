/*
 * A device's memory as it was at an event of the trace: the later events are
 * undone. And the peak of the held bytes.
 */
#ifndef TOOLS_WEIR_READING_SNAPSHOT_MOMENT_H
#define TOOLS_WEIR_READING_SNAPSHOT_MOMENT_H

#include "snapshot/model.h"

/*
 * Make a snapshot with the segments and blocks of one device right after
 * `event`, which is in the device's trace. For UINT32_MAX, it has the segments
 * and blocks of the file. It shares all else with `snapshot`, which must
 * outlive it. It has no page-locked memory.
 *
 * The mapped addresses and the set of blocks in use are exact. The size of a
 * block that was freed after the event is not exact: it is the requested size,
 * rounded up to 512 bytes. A block that was allocated before the trace and
 * freed after the event has no stack.
 *
 * NULL, and a complaint, without memory.
 */
struct snapshot *moment_new(
    const struct snapshot *snapshot, uint32_t device, uint32_t event);
/* NULL does nothing. */
void moment_free(struct snapshot *moment);

/* The most bytes that a device held during its trace. It follows from the
 * segments of the snapshot and the events of segments. */
uint64_t moment_held_peak(const struct snapshot *snapshot, uint32_t device);

#endif
