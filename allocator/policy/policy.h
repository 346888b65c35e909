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
 * weir delays the program by no more than the option delay_percent says, and
 * holds as little memory as that allows. Two rules say which waits are made.
 *
 * *By price.* Waiting and holding memory have prices in one currency, time. A
 * MiB that is not held is worth more the more is held already: its price rises
 * with the sixth power of what is held over the most that was ever alive at
 * once, the request included. The price of a wait is a forecast of how long it
 * takes, which is a bound: the longest that the device lately took to come to
 * an event of the other stream, less the age of the awaited event. The stream
 * comes to the wait only when it has done what it has by now: half the age of
 * its oldest fence that is not met is taken off, too. A wait is worth its price
 *
 *   - at the low price of memory, if it is *near*: no more is left of the way
 *     than lies behind it, so the event is as old as the forecast is long
 *   - at the high price, if the lateness of the stream and the forecast are
 *     within the budget together; if the wait is near, the lateness alone
 *   - at the highest, if the waits of all streams were harmless so far, which
 *     took long and made no stream late, and the lateness is within the budget
 *
 * *Lateness* is measured (streams/delay.h), so what a wait really cost decides
 * about the next ones. A stream answers for what its own waits cost, beyond the
 * slack that it was seen to have. The *budget* is half of delay_percent of the
 * time since the first request, since more than one wait may be on its way.
 *
 * *By place.* A stream comes to what it is given now when it has done all it
 * has by then, so a wait for another stream delays it only if that one takes
 * longer. How far each stream has come is known: to the latest fence, or use,
 * that was seen to be met. Ticks (streams/order.h) stand for time there. What
 * is *left* of the other stream's work is the ticks from where it was seen to
 * the awaited place; the request's stream has been *busy* for the ticks since
 * its oldest fence that is not met.
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
 * those that are free, and those that are cheap under *memory pressure*, which
 * is where a fifth more would be held than was ever alive at once, and at least
 * 64 MiB more. A stream that is later than the budget makes none, by either
 * rule. But where weir has seen no wait of the program's on the stream or for
 * it, whatever weir takes for lateness may be absorbed by waits that it does
 * not see: then the rule by place alone holds. A small request makes none that
 * is not free: it would take 2 MiB of new memory at most. A wait in a capture
 * is one at each replay, for good, so there too only free ones are made.
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
 * cost no more than the name says; any, for which new fences are made too. */
enum waits { WAITS_NONE, WAITS_FREE, WAITS_CHEAP, WAITS_ANY };

/* What is known of a wait, in ticks. */
struct wait_facts {
	uint64_t left; /* of the other stream's work, to the awaited place */
	uint64_t age;  /* since that place was made */
	uint64_t busy; /* since the oldest open fence of the request's stream;
			* 0: it has none */
	bool is_use;   /* of a pending block; else of free memory */
};

enum wait_cost policy_wait_cost(const struct wait_facts *facts);

static inline bool
policy_allows(enum waits waits, enum wait_cost cost)
{
	return (int)cost < (int)waits;
}

/* Sums over all streams, lately: how long weir's waits took, and how late they
 * have made the streams that have not caught up. */
struct evidence {
	uint64_t waited_ns;
	uint64_t felt_ns;
};

/* More waits are over, which took so long; their streams are later by
 * `felt_ns`, or have caught up if that is below 0. */
void policy_add_evidence(
    struct evidence *evidence, uint64_t waited_ns, int64_t felt_ns);

/* A request that no free memory serves at once. */
struct request_facts {
	enum prefer prefer;
	double delay_percent;
	bool is_small;     /* a size class of at most 1 MiB */
	bool is_captured;  /* its stream is, in a capture that it may use */
	size_t held_bytes; /* with the request */
	size_t most_live_bytes; /* that were alive at once, with the request */
	uint64_t moves;         /* handles moved so far */
	uint64_t served;        /* requests so far */
	size_t request_bytes;
	uint64_t elapsed_ns; /* since the first request */
	uint64_t late_ns;    /* how late weir has made its stream */
	uint64_t slack_ns;   /* how late that may be with no harm */
	bool sees_waits;     /* of the program, that are about the stream */
	struct evidence evidence;
};

/* Is so much held that memory under waits is worth them? */
bool policy_has_pressure(const struct request_facts *facts);

/* The waits that the request may make. */
enum waits policy_waits(const struct request_facts *facts);

/* Is the request's stream later than the budget allows? */
bool policy_is_late(const struct request_facts *facts);

/* The longest forecasts of waits that are worth their price. */
struct wait_prices {
	uint64_t near_ns; /* of which no more is left than lies behind it */
	uint64_t any_ns;  /* of any */
};

struct wait_prices policy_wait_prices(const struct request_facts *facts);

static inline bool
policy_is_worth(
    const struct wait_prices *prices, uint64_t forecast_ns, uint64_t age_ns)
{
	return forecast_ns <= prices->any_ns ||
	    (forecast_ns <= prices->near_ns && forecast_ns <= age_ns);
}

/* How long the device takes at most to come to an event, and the event's age.
 */
struct forecast {
	uint64_t ns;
	uint64_t age_ns;
};

/*
 * How long the device takes to come to an event, at most.
 *
 * @param latency_ns  the longest that it lately took for events of the stream
 * @param oldest_ns   the age of the stream's oldest event that is not met
 * @param age_ns      the age of the event
 */
uint64_t policy_forecast(
    uint64_t latency_ns, uint64_t oldest_ns, uint64_t age_ns);

/* How long a stream is kept by a wait that takes the device so long; the age of
 * the stream's own oldest fence that is not met, or 0, is `busy_ns`. */
uint64_t policy_delay(uint64_t forecast_ns, uint64_t busy_ns);

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
