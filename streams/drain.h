/*
 * Waiting for the work of a driver's stream, whatever the driver refuses.
 */
#ifndef STREAMS_DRAIN_H
#define STREAMS_DRAIN_H

#include "driver/driver.h"

/*
 * Wait until the work of a stream of the context ends, even if the driver
 * refuses to wait: for callers that then free the memory which the work uses.
 * Returns the driver's first answer. Between driver_enter() and driver_leave().
 */
CUresult drain_stream(CUcontext context, CUstream stream);

#endif
