/*
 * How late weir's own waits have made the streams, as events tell.
 *
 * Note [Measured delay]
 *
 * A wait that weir puts into a stream has an event in front of it and one
 * behind it, both with timing. When the second is complete, the time between
 * the two is how long the wait has kept the stream from going on. The stream is
 * late by that much more once it has work to do behind the wait: waits that
 * follow each other at once are one.
 *
 * A stream that has nothing left to do is not late any more: whoever gives it
 * work gives it no later than without the waits. (A host that waited for the
 * stream does so later. That is not seen from here.) In the same way a stream
 * that has done all it was given up to some time ago is late by that time at
 * most: the fences of its own memory and the ends of uses tell.
 *
 * The program's own waits pass lateness on, and take it away. A stream that had
 * to wait for another one for some time would have come to that point earlier
 * by its own lateness, and the other stream by the other's. So it is late by
 * its lateness and that time together, but by no more than the other stream.
 * A stream that did not have to wait stays as late as it was. Which of the two
 * it was is measured in the same way, but only where the stream is late or may
 * be, and not too often: a program none of whose streams weir has made wait
 * pays for one load. A wait of the program that is not measured leaves the
 * stream as late as the later of the two.
 *
 * Some waits cannot be measured and are left out: a wait in a capture, one on a
 * stream on which a record would put others in order, one that the driver
 * refuses an event for, and any while DELAY_OPEN waits of the stream are open.
 *
 * Note [Own lateness]
 *
 * A stream answers for the lateness that weir's waits on it have caused. The
 * rest it has *inherited* from streams that it waited for. Where it had to wait
 * for one that is less late, it answers for no more than is left, less what the
 * other one answers for: what it passed on to that one does not come back as
 * the other's.
 *
 * There it also turns out how late it could have been and no later than now: by
 * its lateness that is gone, and the time that it still had to wait. That is
 * its *slack*. The most that was seen is kept, since programs repeat what they
 * do. A stream that is found late with nothing left to do may have made the
 * host wait, so its slack is forgotten.
 */
#ifndef STREAMS_DELAY_H
#define STREAMS_DELAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/abi.h"

struct stream;

enum { DELAY_OPEN = 512 };

/* A wait that is not known to be over. */
struct stall {
	CUevent before;
	CUevent behind;
	struct stream *earlier; /* the program's: a reference; weir's: NULL */
	uint64_t tag;           /* of the request it was made for; 0: none */
};

/* The delay of one stream. The plain fields are under delay.c's lock. */
struct delay {
	struct stall *open;    /* a ring; NULL: none was ever needed */
	unsigned room;         /* of the ring */
	unsigned first;        /* its oldest */
	uint64_t undecided_ns; /* of waits that are over, and were followed at
				* once by a wait that is not */
	_Atomic(unsigned) open_count;
	_Atomic(uint64_t) late_ns;
	_Atomic(uint64_t) inherited_ns; /* of these: Note [Own lateness] */
	_Atomic(uint64_t) slack_ns;
	/* When waits of the program's began to be measured (driver_time_ns()),
	 * and how many were. */
	_Atomic(uint64_t) looks_since_ns;
	_Atomic(uint64_t) looks;
	_Atomic(uint64_t) waited_ns; /* that nobody has counted yet */
	_Atomic(int64_t) felt_ns;    /* so is this: how much later it became */
};

/* The event in front of a wait of weir's; NULL: it is not measured. Between
 * driver_enter() and driver_leave() for the stream's context. */
CUevent delay_begin(struct stream *stream);

/* The wait behind that event was made, or failed. */
void delay_end(struct stream *stream, CUevent before, bool made);

/* A wait of the program's: the stream, or NULL, and the event in front. */
struct delay_wait {
	struct stream *stream;
	CUevent before;
};

/* The program is about to put the stream of a handle behind an event. The
 * stream's context is current, or the driver finds it by the handle. */
struct delay_wait delay_program_begin(CUstream handle);

/* It has, where the event stood for a record at `tick` (order_waiting()); 0:
 * that is not known, or the call has failed. */
void delay_program_end(struct delay_wait wait, CUevent event, uint64_t tick);

/* See which waits are over. Between capture_enter() and capture_leave() or the
 * like. Returns how late the stream is, in ns. */
uint64_t delay_see(struct stream *stream);

/* How late weir has made it, as far as it has not inherited that. */
static inline uint64_t
delay_own(const struct delay *delay)
{
	uint64_t late = atomic_load(&delay->late_ns);
	uint64_t inherited = atomic_load(&delay->inherited_ns);

	return late > inherited ? late - inherited : 0;
}

/* How long waits that are over have kept the stream from going on, in ns, since
 * the last call. */
static inline uint64_t
delay_take_waited(struct delay *delay)
{
	return atomic_load(&delay->waited_ns) != 0 ?
	    atomic_exchange(&delay->waited_ns, 0) :
	    0;
}

/* How much later the stream became since the last call, in ns; below 0 if it
 * has caught up. */
static inline int64_t
delay_take_felt(struct delay *delay)
{
	return atomic_load(&delay->felt_ns) != 0 ?
	    atomic_exchange(&delay->felt_ns, 0) :
	    0;
}

/* Is it late, or may it be found to be? */
static inline bool
delay_is_known(const struct delay *delay)
{
	return atomic_load(&delay->late_ns) > 0 ||
	    atomic_load(&delay->open_count) > 0;
}

/* The stream has nothing left to do. As delay_see(). */
void delay_idle(struct stream *stream);

/* Measure no more what is not over yet: the stream has no memory any more, or
 * is no more itself. */
void delay_drop(struct stream *stream);

#endif
