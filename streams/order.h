/*
 * Which stream is known to come after which.
 *
 * There is one clock for the process, a counter. Freeing a block and marking a
 * stream (recording an event on it) each take the next tick, so a fence covers
 * what was freed on its stream at an earlier tick. "A is behind B up to t"
 * says: whatever A is given from now on runs after all that B had queued at
 * tick t. Such facts come from waits: weir's own, those made through
 * <weir/stream.h>, and those of a program that the preload watches. They pass
 * on: who is behind A at a later tick is behind B as well.
 *
 * Facts are only ever lost, never made up: each stream remembers a bounded
 * number of others, and each event only the latest record.
 *
 * Note [Order in a capture]
 *
 * A wait in a capture orders the graph's work and nothing else. So each stream
 * keeps two separate sets of facts: about its own work, and about the latest
 * capture it was in, under the number of that capture. Neither set says
 * anything about the other.
 *
 * order_position() says which capture a stream is in, and the tick since which
 * nothing has been captured on it. The driver reveals that tick: as long as the
 * nodes that the stream's next work depends on are the same, nothing has been
 * captured. A stream that waited after that tick is behind all captured work,
 * and so covers memory that is freed after the wait: programs join first and
 * free then.
 */
#ifndef STREAMS_ORDER_H
#define STREAMS_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/abi.h"

struct stream;

enum { ORDER_KNOWN = 24 };

/* One stream's order after the others; under order.c's lock. */
struct order_facts {
	unsigned count;
	struct order_fact {
		uint64_t id;      /* of the other stream */
		uint64_t until;   /* behind it up to this tick */
		uint64_t learned; /* at this tick */
	} facts[ORDER_KNOWN];
};

struct order {
	uint64_t id;         /* of the stream; never used again; constant */
	atomic_bool is_seen; /* order_is_seen() */
	struct order_facts facts;
	uint64_t capture; /* the latest it was seen in; 0: none */
	struct order_facts captured;
	uint64_t
	    front; /* as capture_look() said last, and at this tick first */
	uint64_t since;
};

void order_init(struct order *order);

/* The latest tick that was taken: what is freed now is later. */
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

/* Where a stream is: all that it has been given so far, it had at `tick`. */
struct position {
	uint64_t capture; /* 0: it is in none, or that cannot be told */
	uint64_t tick;
};

struct position order_position(struct stream *stream);

/* `later` waits for an event that was recorded on `earlier` at `tick`, both in
 * a capture, or in none (0). */
void order_learn(struct stream *later, const struct stream *earlier,
    uint64_t tick, uint64_t capture);

/* The tick up to which `later` is known to be behind `earlier`, in a capture or
 * in none; 0: it is not. */
uint64_t order_until(
    const struct stream *later, const struct stream *earlier, uint64_t capture);

/*
 * Report a program's own records and waits. Each is a pair of calls around the
 * driver's call, and the second takes the tick that the first returned. Another
 * thread may use the event at the same time; a fact that is not certain is
 * dropped. order_recorded() must follow in any case, with a NULL handle if the
 * driver's call has failed. Handles that weir does not know are ignored.
 */
uint64_t order_recording(CUevent event, CUstream handle);
void order_recorded(CUevent event, CUstream handle, uint64_t tick);
uint64_t order_waiting(CUevent event);
void order_waited(CUstream handle, CUevent event, uint64_t tick);
void order_gone(CUevent event);

/* Has weir ever seen the stream wait for another one of the program's, or be
 * waited for? Else it may do so unseen. */
static inline bool
order_is_seen(const struct order *order)
{
	return atomic_load_explicit(&order->is_seen, memory_order_relaxed);
}

/* The stream that an event was recorded on at a tick, a reference; NULL: it is
 * not known, or the event stands for another record by now. */
struct stream *order_recorded_on(CUevent event, uint64_t tick);

#endif
