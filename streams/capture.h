/*
 * How many streams are being captured, as far as weir is told. A preload sees
 * every capture begin and end; a linked program's own captures are found by
 * asking the streams weir knows.
 */
#ifndef STREAMS_CAPTURE_H
#define STREAMS_CAPTURE_H

#include <stdbool.h>

#include "driver/abi.h"

void capture_began(CUcontext context);
void capture_ended(CUcontext context);

/* True while any capture that was told of is under way. */
bool capture_any(void);

/*
 * Whoever tells of captures sees all there are; and, for good, may have missed
 * one. At first nobody says so.
 */
void capture_tell_all(void);
void capture_missed(void);

/* True if no capture can be under way: no stream needs to be asked. */
bool capture_none(void);

#endif
