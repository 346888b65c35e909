/*
 * The clock's counters: order_clock.h.
 */
#include "streams/order_clock.h"

_Atomic(uint64_t) order_last;
static _Atomic(uint64_t) ids;

uint64_t
order_new_id(void)
{
	return 1 + atomic_fetch_add(&ids, 1);
}
