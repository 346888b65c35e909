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

#endif
