/*
 * Ends the caches and the default streams of threads that end.
 */
#ifndef ALLOCATOR_REQUEST_THREAD_END_H
#define ALLOCATOR_REQUEST_THREAD_END_H

/* From now on, when a thread ends, empty its caches and end its per-thread
 * default streams. */
void thread_end_watch(void);

#endif
