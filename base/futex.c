/*
 * Sleeping on a word, by Linux's futex.
 */
#include "base/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static void
futex(atomic_uint *word, int operation, unsigned value)
{
	int error = errno;

	syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
	errno = error;
}

void
futex_sleep_while(atomic_uint *word, unsigned value)
{
	futex(word, FUTEX_WAIT_PRIVATE, value);
}

void
futex_wake_one(atomic_uint *word)
{
	futex(word, FUTEX_WAKE_PRIVATE, 1);
}

void
futex_wake_all(atomic_uint *word)
{
	futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
