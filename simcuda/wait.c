/*
 * How long streams wait for events.
 *
 * A wait on a stream blocks it from its turn (it has been submitted, and all
 * work before it is done) until the event has happened. If the stream's work
 * before the wait takes longer than the event, no time is lost. The sum is over
 * all streams, and only over waits by cuStreamWaitEvent(): the order of default
 * streams, graphs and pools is the driver's own.
 *
 * A stream that waits may have no work in that time. Its next work could have
 * started without the wait once the work before the wait is done, everything
 * that the program makes the stream wait for has happened, and the next work
 * was submitted. The part of the wait after that moment is the delay. A delay
 * counts on the stream where it arises; waits of other streams for that work do
 * not count again.
 */
#include "simcuda/sim.h"

static uint64_t waited_ns;
static uint64_t delayed_ns;

void
wait_reset(void)
{
	waited_ns = 0;
	delayed_ns = 0;
}

static uint64_t
ns_between(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

void
wait_count(uint64_t from_ns, uint64_t to_ns)
{
	waited_ns += ns_between(from_ns, to_ns);
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
	delayed_ns += ns_between(stream->held_from_ns, stream->held_to_ns);
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
