/*
 * Events that processes share (shared_event.c); ipcevent.c has their handles.
 */
#ifndef SIMCUDA_SHARED_H
#define SIMCUDA_SHARED_H

#include "simcuda/sim.h"

enum { SHARED_EVENT_BYTES = 4096 };

struct shared_event {
	int fd;
	struct counts *counts; /* the page */
};

/* Takes ownership of the descriptor of a page of SHARED_EVENT_BYTES; if it
 * cannot be used, closes it and returns NULL. */
struct shared_event *shared_event_open(int fd);

/* The event was recorded; other processes may wait for it from now on. */
void shared_event_record(struct event *event);
bool shared_event_done(const struct event *event);
/* Wait, without the lock, until the event is done. */
void shared_event_wait(struct event *event);
void shared_event_close(struct event *event);

#endif
