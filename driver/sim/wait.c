/*
 * How long streams wait for events.
 *
 * A wait put on a stream blocks it from when it is its turn (all work before
 * it is done, and it was submitted) until the event has happened; what the
 * event did not delay, because the stream had work for longer, is no time
 * lost. The sum is over all streams, of waits by cuStreamWaitEvent() alone: the
 * order of default streams, graphs and pools is the driver's own.
 *
 * A stream that waits may have nothing to do meanwhile. Its next work is
 * delayed by the part of the wait that lies behind the moment when it could
 * have started otherwise: when what is before the wait is done, what the
 * program itself makes the stream wait for has happened, and the work was
 * submitted. A delay counts where it arises; that other streams wait for that
 * work is not counted again.
 */
#include "driver/sim/sim.h"

static uint64_t waited_ns;
static uint64_t delayed_ns;

void
wait_reset(void)
{
	waited_ns = 0;
	delayed_ns = 0;
}

static uint64_t
time_between(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

void
wait_count(uint64_t from_ns, uint64_t to_ns)
{
	waited_ns += time_between(from_ns, to_ns);
}

void
wait_hold(struct stream *stream, uint64_t until_ns)
{
	if (stream->held_to_ns == 0)
		stream->held_from_ns = stream->tail_ns;
	if (stream->held_to_ns < until_ns)
		stream->held_to_ns = until_ns;
}

void
wait_pass(struct stream *stream, uint64_t ns)
{
	if (stream->held_from_ns < ns)
		stream->held_from_ns = ns;
}

void
wait_note_work(struct stream *stream, uint64_t ns)
{
	wait_pass(stream, ns);
	delayed_ns += time_between(stream->held_from_ns, stream->held_to_ns);
	stream->held_from_ns = 0;
	stream->held_to_ns = 0;
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

uint64_t
simcuda_delayed_ns(void)
{
	uint64_t ns;

	gate_lock();
	ns = delayed_ns;
	gate_unlock();
	return ns;
}

void
simcuda_count_waits(int counted)
{
	thread_self()->waits_uncounted = counted == 0;
}
