/*
 * The clock of the process, which orders frees, fences and facts (order.h), and
 * the numbers that name streams there.
 */
#ifndef STREAMS_ORDER_CLOCK_H
#define STREAMS_ORDER_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* The latest tick that was taken. A free from now on has a later one. */
#pragma GCC visibility push(hidden)
extern _Atomic(uint64_t) order_last;
#pragma GCC visibility pop
static inline uint64_t
order_now(void)
{
	return atomic_load(&order_last);
}

/* The next tick. Take it before the event it stands for is recorded. */
static inline uint64_t
order_tick(void)
{
	return 1 + atomic_fetch_add(&order_last, 1);
}

/* A number that names a stream. It is never 0 and never used again, unlike the
 * driver's handle. */
uint64_t order_new_id(void);

#endif
