/*
 * A clock that can be read in a few nanoseconds, for times that are recorded
 * often and used seldom.
 *
 * The length of its ticks is unknown. Two points, at each of which the time of
 * day was read too, give the time of any tick between them.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/os.h"

/* One moment on both clocks. */
struct clock_point {
	uint64_t ticks;
	uint64_t epoch_ns; /* since 1970 */
};

#if defined(__x86_64__)
/* The processor's counter has a constant rate, whatever the processor's own
 * rate is. Set before main(). */
extern bool clock_has_counter;
#endif

static inline uint64_t
clock_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(clock_has_counter, 1))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#endif
	return os_monotonic_ns();
}

struct clock_point clock_now(void);

/* The time of day of a tick, from two points, `a` before `b`; meant for ticks
 * between them. */
uint64_t clock_epoch_ns(
    const struct clock_point *a, const struct clock_point *b, uint64_t ticks);

#endif
