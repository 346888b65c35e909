/*
 * What a request does where free memory does not fit it: wait on the device,
 * move memory together, or take more from the driver.
 *
 * The functions here decide from facts alone: they take no lock, change
 * nothing, and know no arena and no driver. request/ladder.c gathers the facts
 * and does what is decided.
 *
 * Note [Wait or grow]
 *
 * A wait on the device costs what it delays. A stream comes to what it is given
 * now when it has done all it has by then, so a wait for another stream delays
 * it only if that one takes longer. How long each takes is not known, but how
 * far it has come is: to the latest mark, or use, that was seen to be met.
 * Ticks (streams/order.h) stand for time. What is *left* of the other stream's
 * work is the ticks from where it was seen to the awaited place; the request's
 * stream has been *busy* for the ticks since its oldest mark that is not met.
 *
 *   FREE   nothing is left, or no more than the request's stream is busy for
 *   CHEAP  the other stream has come at least half the way since the place was
 *          made; or the wait is for the use of a pending block, and no more is
 *          left than three times what the request's stream is busy for, since
 *          ticks are no exact measure
 *   DEAR   anything else. A stream that is not busy is never made to wait for
 *          what is far away: whoever wants something of an idle stream waits
 *          for it
 *
 * `prefer:speed` makes no wait, `prefer:memory` any. `prefer:balance` makes
 * those that are free, and under *memory pressure* those that are cheap: with
 * the request, a fifth more would be held than was ever alive at once, and at
 * least 64 MiB more. A small request makes none that is not free: it would take
 * 2 MiB of new memory at most. A wait in a capture is one at each replay, for
 * good, so there too only free ones are made.
 *
 * A move costs calls of the driver that new memory would cost once and for all.
 * So requests earn moves: a program that goes on as it did must not go on
 * calling the driver. With `prefer:memory` moves are not bounded where a
 * twelfth more would be held than was alive.
 *
 * docs/adr/0009 has the experiments behind the numbers.
 */
#ifndef ALLOCATOR_POLICY_POLICY_H
#define ALLOCATOR_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/options.h"

/* What a wait on the device costs, the least first. */
enum wait_cost { WAIT_FREE, WAIT_CHEAP, WAIT_DEAR };

/* The waits that a request makes, the fewest first: none at all; those that
 * cost no more than the name says; any, for which new marks are made too. */
enum waits { WAITS_NONE, WAITS_FREE, WAITS_CHEAP, WAITS_ANY };

/* What is known of a wait, in ticks. */
struct wait_facts {
	uint64_t left; /* of the other stream's work, to the awaited place */
	uint64_t age;  /* since that place was made */
	uint64_t busy; /* since the oldest open mark of the request's stream; 0:
			* it has none */
	bool is_use;   /* of a pending block; else of free memory */
};

enum wait_cost policy_wait_cost(const struct wait_facts *facts);

static inline bool
policy_allows(enum waits waits, enum wait_cost cost)
{
	return (int)cost < (int)waits;
}

/* What is known of a request that its own free memory cannot serve. */
struct request_facts {
	enum prefer prefer;
	bool is_small;     /* a size class of at most 1 MiB */
	bool is_captured;  /* its stream is, in a capture that it may use */
	size_t held_bytes; /* with the request */
	size_t most_live_bytes; /* that were alive at once, with the request */
	uint64_t moves;         /* handles moved so far */
	uint64_t served;        /* requests so far */
};

/* Is so much held that memory under waits is worth them? */
bool policy_has_pressure(const struct request_facts *facts);

/* The waits that the request may make. */
enum waits policy_waits(const struct request_facts *facts);

/* May memory be moved together for it? */
bool policy_may_move(const struct request_facts *facts);

/* With prefer:memory, the most that is held before all free memory is moved. */
enum { MEMORY_SHARE = 12 };
static inline size_t
policy_memory_most(size_t most_live_bytes)
{
	return most_live_bytes + most_live_bytes / MEMORY_SHARE;
}

#endif
