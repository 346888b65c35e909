/*
 * How long streams wait for events.
 *
 * A wait put on a stream blocks it from when it is its turn (all work before
 * it is done, and it was submitted) until the event has happened; what the
 * event did not delay, because the stream had work for longer, is no time
 * lost. The sum is over all streams, of waits by cuStreamWaitEvent() alone: the
 * order of default streams, graphs and pools is the driver's own.
 */
#include "driver/sim/sim.h"

static uint64_t waited_ns;

void
wait_reset(void)
{
	waited_ns = 0;
}

void
wait_count(uint64_t from_ns, uint64_t to_ns)
{
	if (to_ns > from_ns)
		waited_ns += to_ns - from_ns;
}

/* ---- controls ----------------------------------------------------------- */

uint64_t
simcuda_wait_ns(void)
{
	uint64_t ns;

	gate_lock();
	ns = waited_ns;
	gate_unlock();
	return ns;
}

void
simcuda_count_waits(int counted)
{
	thread_self()->waits_uncounted = counted == 0;
}
