/*
 * Events that processes share (ipcevent.c).
 */
#ifndef DRIVER_SIM_SHARED_H
#define DRIVER_SIM_SHARED_H

#include "driver/sim/sim.h"

/* The event was recorded; other processes may wait for it from now on. */
void shared_event_record(struct event *event);
bool shared_event_done(const struct event *event);
/* Wait, without the lock, until the event is done. */
void shared_event_wait(struct event *event);
void shared_event_close(struct event *event);

#endif
