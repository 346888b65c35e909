/*
 * Keeps which streams are known to be ordered after which.
 *
 * The process has one clock, a counter. Each free of a block and each fence
 * takes the next tick, so a fence covers all frees on its stream at earlier
 * ticks. "A is ordered after B up to t" means: all work that A is given from
 * now on runs after all work that B had queued at tick t. This is
 * happens-before, as far as weir knows it. Such facts come from waits: weir's
 * own, those made through <weir/stream.h>, and those of a program that the
 * preload watches. The order is transitive: a stream that is ordered after A up
 * to a later tick is ordered after B too.
 *
 * A fact may be lost, but none is ever wrong: each stream keeps facts about a
 * bounded number of others, and each event keeps its latest record only.
 *
 * Note [Order in a capture]
 *
 * A wait in a capture orders the graph's work and nothing else. Therefore each
 * stream keeps two separate sets of facts: one about its own work, and one
 * about the latest capture it was in, with the number of that capture. A fact
 * of one set does not hold in the other.
 *
 * order_position() returns the capture that a stream is in, and the tick since
 * which nothing has been captured on it. It finds that tick by the driver's
 * answers: as long as the nodes that the stream's next work depends on do not
 * change, nothing has been captured. A stream that waited after that tick is
 * ordered after all captured work, so it may use memory that is freed after the
 * wait: programs join streams first and then free.
 */
#ifndef STREAMS_ORDER_H
#define STREAMS_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/abi.h"
#include "streams/order_clock.h"
#include "streams/tuning.h"

struct stream;

/* One stream's facts about others; under order.c's lock. */
struct order_facts {
	unsigned count;
	struct order_fact {
		uint64_t id;      /* of the other stream */
		uint64_t until;   /* ordered after it up to this tick */
		uint64_t learned; /* the tick at which it was learned */
	} facts[ORDER_KNOWN];
};

struct order {
	uint64_t id;         /* of order_new_id(); constant */
	atomic_bool is_seen; /* see order_is_seen() */
	struct order_facts facts;
	uint64_t capture; /* the latest that it was seen in; 0: none */
	struct order_facts captured;
	uint64_t front; /* found by capture_look(), since `since` */
	uint64_t since;
};

/* A stream's position: it had been given all its work so far at `tick`. */
struct position {
	uint64_t capture; /* 0: it is in none, or the driver does not say */
	uint64_t tick;
};

struct position order_position(struct stream *stream);

/* Learn that `later` waits for an event that was recorded on `earlier` at
 * `tick`, both in `capture`, or in none (0). */
void order_learn(struct stream *later, const struct stream *earlier,
    uint64_t tick, uint64_t capture);

/* The tick up to which `later` is known to be ordered after `earlier`, in a
 * capture or in none (0). 0: no order is known. */
uint64_t order_after(
    const struct stream *later, const struct stream *earlier, uint64_t capture);

/*
 * Report a program's own records and waits. Each is a pair of calls around the
 * driver's call, and the second gets the tick that the first returned. Another
 * thread may use the event at the same time; a fact that is not certain is
 * dropped. order_recorded() must follow in each case, with a NULL handle if the
 * driver's call has failed. Handles that weir does not know are ignored.
 */
uint64_t order_recording(CUevent event, CUstream handle);
void order_recorded(CUevent event, CUstream handle, uint64_t tick);
uint64_t order_waiting(CUevent event);
void order_waited(CUstream handle, CUevent event, uint64_t tick);
void order_gone(CUevent event);

/* Has weir ever seen a wait of the program's between this stream and another?
 * If not, the program may make such waits unseen. */
static inline bool
order_is_seen(const struct order *order)
{
	return atomic_load_explicit(&order->is_seen, memory_order_relaxed);
}

/* The stream that an event was recorded on at a tick, with a reference. NULL:
 * it is not known, or the event stands for a later record now. */
struct stream *order_recorded_on(CUevent event, uint64_t tick);

#endif
