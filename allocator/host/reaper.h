/*
 * The thread that looks after freed host memory.
 */
#ifndef ALLOCATOR_HOST_REAPER_H
#define ALLOCATOR_HOST_REAPER_H

#include <stdbool.h>

/* Start the thread that looks after freed memory, if it does not run. A failure
 * has no effect on the program's calls. */
void host_reap_start(void);
/* Much memory has been freed that may not be asked for again: have the thread
 * give it back when it has decayed. */
void host_reap_freed(void);

#endif
