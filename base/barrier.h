/*
 * A barrier between what a thread has stored and what it loads afterwards: for
 * two threads that each write a word of their own and then look at the other's
 * (Dekker). At least one of them sees what the other has written.
 */
#ifndef BASE_BARRIER_H
#define BASE_BARRIER_H

#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define BARRIER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BARRIER_TSAN 1
#endif
#endif

static inline void
barrier_full(void)
{
#ifdef BARRIER_TSAN
	/* ThreadSanitizer knows no fences, but what atomic operations order. */
	static atomic_int all;
	atomic_fetch_add(&all, 0);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
