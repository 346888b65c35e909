/*
 * A part is told here that a context begins or ends. ends.c calls these.
 */
#ifndef PRELOAD_ENDS_H
#define PRELOAD_ENDS_H

#include "preload/preload.h"

/* The primary context of a device has begun; has ended. */
void access_primary_begins(int device);
void access_device_ends(int device);

/* The context has ended, and so have its captures. */
void lifetime_context_ended(CUcontext context);
void outside_context_ends(CUcontext context);

/* The memory of a device is gone. */
void memory_device_ends(int device);
void sites_device_ends(int device);
void mempool_device_ends(int device);
void address_device_ends(int device);
void outside_device_ends(int device);
void leaving_device_ends(int device);

/* Called before the allocator forgets a device, to store its counts and the
 * program's memory there. */
void report_device_ends(int device);

#endif
