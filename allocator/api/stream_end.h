/*
 * Streams that end.
 */
#ifndef ALLOCATOR_API_STREAM_END_H
#define ALLOCATOR_API_STREAM_END_H

#include "base/status.h"

/* Have the per-thread default streams of ending threads ended. */
void stream_end_watch_threads(void);

#endif
