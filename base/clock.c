/*
 * The processor's counter, and the length of its ticks.
 */
#include "base/clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { LEAF_POWER = 0x80000007, INVARIANT_COUNTER = 1 << 8 };

bool clock_has_counter;

__attribute__((constructor)) static void
find_counter(void)
{
	unsigned a = 0;
	unsigned b = 0;
	unsigned c = 0;
	unsigned d = 0;

	clock_has_counter =
	    __get_cpuid((unsigned)LEAF_POWER, &a, &b, &c, &d) != 0 &&
	    (d & INVARIANT_COUNTER) != 0;
}
#endif

struct clock_point
clock_now(void)
{
	struct timespec now;
	struct clock_point point;

	clock_gettime(CLOCK_REALTIME, &now);
	point.ticks = clock_ticks();
	point.epoch_ns =
	    (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return point;
}

uint64_t
clock_epoch_ns(
    const struct clock_point *a, const struct clock_point *b, uint64_t ticks)
{
	__int128 span = (__int128)b->ticks - a->ticks;

	if (span <= 0)
		return a->epoch_ns;
	__int128 past = (__int128)ticks - a->ticks;
	__int128 ns = (__int128)b->epoch_ns - a->epoch_ns;
	return (uint64_t)(a->epoch_ns + past * ns / span);
}
