/*
 * The thread that looks after freed host memory.
 */
#ifndef ALLOCATOR_HOST_REAPER_H
#define ALLOCATOR_HOST_REAPER_H

#include <stdbool.h>

/* Start the thread if it does not run, and wake it if it sleeps for ever. A
 * failure has no effect on the program's calls. */
void host_reap_start(void);
/* Make the thread give back, once it has decayed, a large amount of memory that
 * was just freed and that no request may want again. */
void host_reap_freed(void);

#endif
