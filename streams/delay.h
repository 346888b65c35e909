/*
 * Measures by events how late weir's own waits have made the streams.
 *
 * Note [Measured delay]
 *
 * A wait that weir puts into a stream has an event before it and one after it,
 * both with timing. When the second has completed, the time between the two is
 * how long the wait has held the stream up. The stream becomes late by that
 * time once other work follows the wait: waits that follow each other directly
 * count as one.
 *
 * A stream that has nothing left to do is not late any more, because the
 * program gives it new work no later than without the waits, unless the host
 * has waited for it (Note [Lost time]). For the same reason a stream that has
 * done all its work up to some time ago is late by that time at most. Its
 * fences and the ends of its uses show how far it has come.
 *
 * The program's own waits pass lateness on, and reduce it. Suppose that a
 * stream had to wait for another one for some time. Without weir's waits it
 * would have come to that point earlier by its own lateness, and the other
 * stream earlier by the other's. Therefore it is now late by the sum of its
 * lateness and that time, but by no more than the other stream. A stream that
 * did not have to wait stays as late as it was. Events show whether it had to
 * wait. Waits count in the order in which they ended, so that the other stream
 * is as late as it was at that time. Events of the program's waits are recorded
 * only if either stream is late or may be, and not too often: as long as weir
 * has made no stream wait, a wait of the program costs one load. If a wait of
 * the program is not measured, the stream counts as late as the later of the
 * two.
 *
 * Some waits cannot be measured and are left out: a wait in a capture, a wait
 * on a stream on which a record would order other streams, a wait for which the
 * driver refuses an event, and any wait while DELAY_OPEN waits of the stream
 * are open.
 *
 * Note [Own lateness]
 *
 * A stream's *own* lateness is the part that weir's waits on it have caused. It
 * has *inherited* the rest from streams that it waited for. When a stream had
 * to wait for one that is less late, its own part becomes no more than its new
 * lateness less the other stream's own part. Thus lateness that a stream passed
 * on is not counted again when it comes back.
 *
 * Such a wait also shows the stream's *slack*: how much later it could have
 * been without being later after the wait. It is the lateness that the wait
 * removed plus the time that the stream still had to wait. The largest slack
 * seen is kept, because programs repeat their work. A late stream that has
 * nothing left to do may have made the host wait, so its slack is set to 0.
 *
 * Note [Lost time]
 *
 * A host that waits for a late stream goes on later by that lateness, and so do
 * all streams that it gives work to. This time is *lost*: nothing makes up for
 * it, whereas lateness may be made up for. It is at most as long as the host
 * waited. The stream is on time again, measured by what the host does next.
 * Lost time is that of the program, so there is one sum.
 *
 * weir sees the host's waits by its own calls and by those of the preload. A
 * program that only links weir, or PyTorch with weir installed, waits unseen.
 */
#ifndef STREAMS_DELAY_H
#define STREAMS_DELAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/abi.h"
#include "streams/tuning.h"

struct stream;

/* A wait that is not yet seen to be over. */
struct stall {
	CUevent before;
	CUevent after;
	struct stream *earlier; /* the program's: a reference; weir's: NULL */
	uint64_t tag; /* of the request that it was made for; 0: none */
};

/* The delay of one stream. The plain fields are under delay.c's lock. */
struct delay {
	struct stall *open;    /* a ring; NULL: none was ever needed */
	unsigned capacity;     /* of the ring */
	unsigned first;        /* its oldest */
	bool is_closing;       /* its waits are being accounted for */
	uint64_t undecided_ns; /* of waits that are over and directly followed
				  by one that is not */
	_Atomic(unsigned) open_count;
	_Atomic(uint64_t) late_ns;
	_Atomic(uint64_t) inherited_ns; /* Note [Own lateness] */
	_Atomic(uint64_t) slack_ns;
	/* When the first wait of the program's was measured (driver_time_ns()),
	 * and how many have been. */
	_Atomic(uint64_t) looks_since_ns;
	_Atomic(uint64_t) looks;
	_Atomic(uint64_t) waited_ns; /* not yet taken by delay_take_waited() */
	_Atomic(int64_t) felt_ns;    /* not yet taken by delay_take_felt() */
};

/* Record the event before a wait of weir's; NULL: the wait is not measured.
 * Between driver_enter() and driver_leave() for the stream's context. */
CUevent delay_begin(struct stream *stream);

/* Report that the wait after that event was made, or failed. */
void delay_end(struct stream *stream, CUevent before, bool made);

/* A wait of the program's: the stream, or NULL, and the event before the
 * wait. */
struct delay_wait {
	struct stream *stream;
	CUevent before;
};

/* Report that the program is about to make the stream of a handle wait for an
 * event, for its record at `tick` (order_waiting()). The stream's context is
 * current, or the driver finds it by the handle. */
struct delay_wait delay_program_begin(
    CUstream handle, CUevent event, uint64_t tick);

/* Report that the program has made that wait, for the event's record at `tick`
 * (order_waiting()). 0: the record is not known, or the call has failed. */
void delay_program_end(struct delay_wait wait, CUevent event, uint64_t tick);

/* Account for the waits that are over. Between capture_enter() and
 * capture_leave() or the like. Returns how late the stream is, in ns. */
uint64_t delay_see(struct stream *stream);

/* The stream's own lateness: Note [Own lateness]. */
static inline uint64_t
delay_own(const struct delay *delay)
{
	uint64_t late = atomic_load(&delay->late_ns);
	uint64_t inherited = atomic_load(&delay->inherited_ns);

	return late > inherited ? late - inherited : 0;
}

/* Take how long waits that are over have held the stream up since the last
 * call, in ns. */
static inline uint64_t
delay_take_waited(struct delay *delay)
{
	return atomic_load(&delay->waited_ns) != 0 ?
	    atomic_exchange(&delay->waited_ns, 0) :
	    0;
}

/* Take how much later the stream became since the last call, in ns; below 0 if
 * it has caught up. */
static inline int64_t
delay_take_felt(struct delay *delay)
{
	return atomic_load(&delay->felt_ns) != 0 ?
	    atomic_exchange(&delay->felt_ns, 0) :
	    0;
}

/* Is the stream late, or may an open wait show that it is? */
static inline bool
delay_is_known(const struct delay *delay)
{
	return atomic_load(&delay->late_ns) > 0 ||
	    atomic_load(&delay->open_count) > 0;
}

/* Report that the host is about to wait for the device. Returns the time, for
 * one of the reports below; 0 if no stream can be late. */
uint64_t delay_host_begins(void);

/* Report that the host has waited for all work of the stream of a handle, for
 * an event, or for all work. */
void delay_host_waited(CUstream handle, uint64_t began_ns);
void delay_host_waited_event(CUevent event, uint64_t began_ns);
void delay_host_waited_all(uint64_t began_ns);

/* The time that the program has lost so far: Note [Lost time]. */
uint64_t delay_lost_ns(void);

/* Report that the stream has nothing left to do. Where delay_see() may be
 * called. */
void delay_idle(struct stream *stream);

/* Drop the open waits: the stream has no memory any more, or is gone. */
void delay_drop(struct stream *stream);

#endif
