/*
 * Sleeping on a word, by Linux's futex.
 */
#include "base/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Without a time in the waits that have no end. */
static void
futex(void *word, int operation, uint32_t value, const struct timespec *time)
{
	int error = errno;

	syscall(SYS_futex, word, operation, value, time, NULL, 0);
	errno = error;
}

void
futex_sleep_while(atomic_uint *word, unsigned value)
{
	futex(word, FUTEX_WAIT_PRIVATE, value, NULL);
}

void
futex_wake_one(atomic_uint *word)
{
	futex(word, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void
futex_wake_all(atomic_uint *word)
{
	futex(word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

void
futex_shared_wait(_Atomic(uint32_t) *word, uint32_t value, uint64_t most_ns)
{
	const struct timespec most = { .tv_sec = (time_t)(most_ns / 1000000000),
		.tv_nsec = (long)(most_ns % 1000000000) };

	futex(word, FUTEX_WAIT, value, &most);
}

void
futex_shared_wake(_Atomic(uint32_t) *word)
{
	futex(word, FUTEX_WAKE, INT_MAX, NULL);
}
