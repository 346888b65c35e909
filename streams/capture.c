/*
 * A count is enough: whoever asks wants to know whether a call that breaks
 * captures may be made now.
 */
#include "streams/capture.h"

#include <stdatomic.h>

static atomic_int captures;

void
capture_began(CUcontext context)
{
	(void)context;
	atomic_fetch_add(&captures, 1);
}

void
capture_ended(CUcontext context)
{
	(void)context;
	int n = atomic_load(&captures);
	while (n > 0 && !atomic_compare_exchange_weak(&captures, &n, n - 1))
		;
}

bool
capture_any(void)
{
	return atomic_load(&captures) > 0;
}
