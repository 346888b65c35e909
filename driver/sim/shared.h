/*
 * Events that processes share (ipcevent.c).
 */
#ifndef DRIVER_SIM_SHARED_H
#define DRIVER_SIM_SHARED_H

#include "driver/sim/sim.h"

/* It was recorded; other processes may come to wait for it. */
void shared_event_record(struct event *event);
bool shared_event_done(const struct event *event);
/* Wait, without the lock, until it is done. */
void shared_event_wait(struct event *event);
void shared_event_close(struct event *event);

#endif
