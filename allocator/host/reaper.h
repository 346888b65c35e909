/*
 * The thread that looks after freed host memory.
 */
#ifndef ALLOCATOR_HOST_REAPER_H
#define ALLOCATOR_HOST_REAPER_H

#include <stdbool.h>

/* See to it that the thread that looks after freed memory runs. Whatever fails,
 * nothing depends on it. */
void host_reap_start(void);
/* Much has been freed that nobody may ask for again: the same thread gives it
 * back when it has decayed. */
void host_reap_freed(void);

#endif
