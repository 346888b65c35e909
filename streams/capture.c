/*
 * A count is enough: whoever asks wants to know whether a call that breaks
 * captures may be made now.
 */
#include "streams/capture.h"

#include <stdatomic.h>

static atomic_int captures;

enum known { SOME_TOLD, ALL_TOLD, SOME_MISSED };
static _Atomic(enum known) known;

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

void
capture_tell_all(void)
{
	enum known before = SOME_TOLD;

	atomic_compare_exchange_strong(&known, &before, ALL_TOLD);
}

void
capture_missed(void)
{
	atomic_store(&known, SOME_MISSED);
}

bool
capture_none(void)
{
	return atomic_load(&known) == ALL_TOLD && !capture_any();
}
