/*
 * Threads that end: their caches, and their default streams.
 */
#ifndef ALLOCATOR_REQUEST_THREAD_END_H
#define ALLOCATOR_REQUEST_THREAD_END_H

/* Have the caches of ending threads emptied, and their per-thread default
 * streams ended. */
void thread_end_watch(void);

#endif
