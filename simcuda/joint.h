/*
 * Devices whose memory several processes share: shared_device of SIMCUDA_CONF
 * (joint.c).
 */
#ifndef SIMCUDA_JOINT_H
#define SIMCUDA_JOINT_H

#include <stdbool.h>
#include <stddef.h>

/* Join the processes that share the devices of the file at `path`, which is
 * made if there is none. False, after a message on stderr, if it cannot be
 * used. */
bool joint_begin(const char *path);
/* In a forked child: the devices are the parent's. */
void joint_leave_in_child(void);

/* Take bytes of a device of `limit` bytes for this process. False if all
 * processes together would then have more. Without joint_begin() true. */
bool joint_take(int ordinal, size_t size, size_t limit);
/* Give bytes back. */
void joint_give(int ordinal, size_t size);
/* Bytes of the device that all processes have; `own` without joint_begin(). */
size_t joint_used(int ordinal, size_t own);

#endif
