/*
 * Driver events for weir's own use, recycled by context.
 */
#ifndef STREAMS_EVENT_H
#define STREAMS_EVENT_H

#include <weir/stream.h>

#include "driver/driver.h"

/* Get an event of the context, without timing. Between driver_enter() and
 * driver_leave(). */
enum weir_status event_acquire(CUcontext context, CUevent *out);

/* Give it back. Work that waits for it is not disturbed. */
void event_release(CUcontext context, CUevent event);

/* Get and give back an event with timing: the driver measures the time between
 * two of them. */
enum weir_status event_acquire_timed(CUcontext context, CUevent *out);
void event_release_timed(CUcontext context, CUevent event);

/* Has an event of the context been met? Between capture_enter() and
 * capture_leave() or the like, whatever context is current. */
bool event_met(CUcontext context, CUevent event);

/* Drop the events of a context that is gone, without destroying them. */
void event_forget(CUcontext context);

/* ---- public_event.c ---------------------------------------------------- */

/* The event belongs to an export or an import from now on: weir_event_destroy()
 * refuses it, and event_end() destroys it. */
void event_own(struct weir_event *event);
enum weir_status event_end(struct weir_event *event);

/* Make a struct weir_event of an event that another process has made, and take
 * the event over on success. It is an import's. WEIR_EHOSTMEM. */
enum weir_status event_adopt(
    int device, CUcontext context, CUevent handle, struct weir_event **out);

/* The context and device of its first record, and its flags (enum
 * weir_event_flags). */
CUcontext event_context(const struct weir_event *event);
int event_device(const struct weir_event *event);
unsigned event_flags(const struct weir_event *event);

#endif
