/*
 * Decides what a request does if no free memory fits it: wait on the device,
 * move memory together, or allocate more from the driver.
 *
 * The functions here decide from facts alone: they take no lock, change
 * nothing, and know no arena and no driver. request/ladder.c gathers the facts
 * and carries the decisions out.
 *
 * Note [Wait or grow]
 *
 * weir delays the program by no more than the option delay_percent says, and
 * holds as little memory as that allows. Two rules decide which waits are made.
 *
 * *By price.* Waiting and holding memory have prices in one currency, time. The
 * more is held, the more it is worth not to hold another MiB: the price of a
 * MiB rises with the sixth power of the part that is held beyond the peak of
 * live bytes, the request included. The price of a wait is a forecast of how
 * long it delays the stream at most: the longest time that the device lately
 * took to come to an event of the other stream, less the age of the awaited
 * event. A request makes a wait that costs no more than its memory if
 *
 *   - the lateness of its stream and the forecast are together within the
 *     budget; or
 *   - its stream's lateness is within the budget, and the recent waits of all
 *     streams were harmless: they took more time than the largest budget, and
 *     made streams late by less than half of delay_percent of it. Then neither
 *     the forecast nor the price matters; or
 *   - the wait is *near*: the event is at least as old as the forecast is long.
 *     If its stream is too late, such a wait may take no longer than the
 *     largest budget
 *
 * *Lateness* is measured (streams/delay.h), so the real cost of a wait decides
 * about the next ones. Only the stream's own lateness counts, beyond the slack
 * that it was seen to have. The *budget* is half of delay_percent of the time
 * since the program began, because several waits may be under way, less the
 * time that the program has lost: if the host waits for a late stream, nothing
 * makes up for the lateness any more. The largest budget is that of ten
 * seconds.
 *
 * *By place.* A stream begins its next work when all its present work is done,
 * so a wait for another stream delays it only if that stream takes longer. weir
 * knows how far each stream has come: to the latest fence or use that was seen
 * to be met. Ticks (streams/order.h) stand for time here. The other stream's
 * work *left* is the ticks from there to the awaited place. The request's
 * stream has been *busy* for the ticks since its oldest fence or use that is
 * not met.
 *
 *   FREE   no work is left, or no more than the request's stream is busy for
 *   CHEAP  the other stream has come at least half the way since the place was
 *          made; or the wait is for the use of a pending block, and the work
 *          left is at most three times what the request's stream is busy for,
 *          since ticks are no exact measure
 *   DEAR   any other wait. A stream that is not busy never waits for a place
 *          that is far away, because whoever waits for that stream would wait
 *          too
 *
 * *For the same place.* If a program repeats itself, a large request that could
 * have the place of the round before, but for a wait, makes that wait whatever
 * memory is worth, as long as the forecast is within the budget, or the recent
 * waits were harmless. Such a wait usually makes up for a chance delay: the
 * round before needed none there, or a short one.
 *
 * *For a planned place.* A plan has the waits of whole rounds in it, and its
 * replay or its recording has shown that they cost nothing. So a large request
 * makes any wait for its planned place, also in the first rounds, which have
 * earned no budget yet: the stream may be later than its budget by as much as
 * delay_percent of ten seconds. A plan whose rounds go beyond that does not
 * keep its promise, and is dropped (plan.h).
 *
 * `prefer:speed` makes no wait, `prefer:memory` any. `prefer:balance` makes
 * free waits, and cheap waits under *memory pressure*: a fifth more would be
 * held than the peak of live bytes, and at least 64 MiB more. A request takes
 * the row of blocks that fits best behind the cheapest waits. If the budget is
 * overspent, pressure begins later: at three fifths if twice the budget is
 * spent, which is delay_percent of the time, at five fifths if three times, and
 * so on. So a program that is a little too late holds a little more, and is
 * delayed less. Otherwise it would double its memory, and then never wait.
 * If weir has seen no wait of the program's on the stream or for it, the
 * program may make such waits unseen, and they may absorb the lateness that
 * weir measures. Then lateness does not restrict the rule by place. A small
 * request makes free waits only, because it would allocate 2 MiB of new memory
 * at most. A wait in a capture is made again at each replay, so there too only
 * free waits are made. A device-scope request has no stream that could wait.
 *
 * *Briefly.* Before a small or a device-scope request takes new memory, the
 * host may wait: for no longer than the driver call takes that it may save, so
 * that an attempt in vain costs no more than the growth after it. Programs of a
 * few MiB would otherwise grow at each chance that many of their blocks are
 * still in use at once, and hold the more the longer they run.
 *
 * A move costs driver calls each time, and new memory costs them only once. So
 * moves, too, may take no longer than half of delay_percent of the time: the
 * moves so far must be *paid* by the time since. A program that moves nothing
 * earns that of ten seconds at most, so that a busy phase after a quiet one
 * does not spend it all. A program that does little but allocate, again and
 * again, thus moves hardly anything, and grows until it need not. If moves are
 * enough for a request, so that no memory is new, they may be made before
 * earlier moves are paid: the unpaid cost may be as much as the price of the
 * memory, and as the largest budget. The cost of a move is what it takes beyond
 * a new handle, which would be its alternative. A brief wait is paid as the
 * time that it may take, or took. With `prefer:memory` moves and brief waits
 * are not rationed if a twelfth more would be held than the peak of live bytes.
 *
 * *Page-locked memory* has a bound: the peak of live bytes and a spare. Within
 * the bound nothing is moved or given back, because new memory is no delay.
 * Beyond it, a request may move memory, or swap memory for as much elsewhere,
 * if all that was done before is paid. What it costs is forecast, and may be no
 * more than what the program's time has earned: one such call can take as long
 * as a thousand moves. The further beyond the bound the arena would be, the
 * more may be unpaid: all that the program has earned, or what ten seconds
 * earn, if it would hold the spare twice. So no program is delayed by more than
 * delay_percent, however short it is, and a budget that is nearly spent remains
 * for the requests that need it most.
 *
 * lab/one-layout.md has the experiments behind the numbers.
 */
#ifndef ALLOCATOR_POLICY_POLICY_H
#define ALLOCATOR_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/options.h"
#include "allocator/policy/state.h"

/* The cost of a wait on the device, the least first. */
enum wait_cost { WAIT_FREE, WAIT_CHEAP, WAIT_DEAR };

/* The waits that a request may make, the fewest first: none; waits of at most
 * the cost that the name says; any wait, also one that needs a new fence. */
enum waits { WAITS_NONE, WAITS_FREE, WAITS_CHEAP, WAITS_ANY };

/* The facts of a wait, in ticks. */
struct wait_facts {
	uint64_t left; /* work of the other stream up to the awaited place */
	uint64_t age;  /* since that place was made */
	uint64_t busy; /* since the oldest fence or use of the request's stream
			* that is not met; 0: it has none */
	bool is_use;   /* the wait is for a use of a pending block */
};

enum wait_cost policy_wait_cost(const struct wait_facts *facts);

static inline bool
policy_allows(enum waits waits, enum wait_cost cost)
{
	return (int)cost < (int)waits;
}

/* Add waits that are over: how long they took, and how much later their streams
 * became; below 0 if these have caught up. */
void policy_add_evidence(
    struct evidence *evidence, uint64_t waited_ns, int64_t felt_ns);

/* The facts of a request that no free memory serves at once. */
struct request_facts {
	enum prefer prefer;
	double delay_percent;
	bool is_small;          /* a size class of at most 1 MiB */
	bool is_captured;       /* in a capture whose order it may use */
	size_t held_bytes;      /* with the request */
	size_t most_live_bytes; /* the peak of live bytes, with the request */
	uint64_t now_ns;
	uint64_t moves_paid_ns; /* policy_pay() */
	size_t request_bytes;
	size_t spare_bytes;  /* if the arena has a bound: its spare */
	uint64_t elapsed_ns; /* since the program began */
	uint64_t lost_ns;    /* by the host */
	uint64_t late_ns;    /* the own lateness of its stream */
	uint64_t slack_ns;   /* the slack of its stream */
	bool sees_waits;     /* the program makes waits on its stream */
	struct evidence evidence;
};

/* Is there memory pressure? Then cheap waits are made too. A program that has
 * overspent its budget feels it later. */
bool policy_has_pressure(const struct request_facts *facts);

/* The waits that the request may make. */
enum waits policy_waits(const struct request_facts *facts);

/* The time that the request's stream is late and that the program has lost, as
 * a multiple of the budget. Above 1 it is too much. */
double policy_budgets_spent(const struct request_facts *facts);

/* The longest forecasts of waits that are worth their price. */
struct wait_prices {
	uint64_t near_ns; /* for waits whose event is as old as the forecast */
	uint64_t any_ns;  /* for any wait */
};

struct wait_prices policy_wait_prices(const struct request_facts *facts);

/* The longest forecast of a wait for the place that a large request had the
 * round before: places.h, Note [The same place again]. */
uint64_t policy_place_price(const struct request_facts *facts);

/* May a request wait for the place that a plan gives it, however long? */
bool policy_may_follow_plan(const struct request_facts *facts);

static inline bool
policy_is_worth(
    const struct wait_prices *prices, uint64_t forecast_ns, uint64_t age_ns)
{
	return forecast_ns <= prices->any_ns ||
	    (forecast_ns <= prices->near_ns && forecast_ns <= age_ns);
}

/* How long the device takes at most until an event is met, and the event's
 * age. */
struct forecast {
	uint64_t ns;
	uint64_t age_ns;
};

/*
 * Forecast how long the device takes at most until an event is met.
 *
 * @param latency_ns the longest that it lately took for an event of the stream
 * @param oldest_ns   the age of the stream's oldest event that is not met
 * @param age_ns      the age of the event
 */
uint64_t policy_forecast(
    uint64_t latency_ns, uint64_t oldest_ns, uint64_t age_ns);

/* What moves do for a request: they are a part of what it needs, beside new
 * memory; or they are enough. */
enum moves { MOVES_PART, MOVES_ENOUGH };

/* May memory be moved together for the request? */
bool policy_may_move(const struct request_facts *facts, enum moves moves);

/*
 * May page-locked memory be moved, or given back and pinned again?
 *
 * @param beyond   how far beyond the bound the arena would be otherwise
 * @param cost_ns  a forecast of the time that the calls take
 */
bool policy_may_pin(
    const struct request_facts *facts, size_t beyond, uint64_t cost_ns);

/* May the host wait for a small or a device-scope request before that takes new
 * memory? */
bool policy_may_wait_briefly(const struct request_facts *facts);

/* The longest that it waits. */
uint64_t policy_brief_ns(void);

/* The time that it takes to move so many handles, beyond that of as many new
 * ones. */
uint64_t policy_moves_ns(uint64_t handles);

/*
 * Account for moves that took a time, or for a brief wait, or for page-locked
 * memory that was given back or pinned again.
 *
 * @param paid_ns the time at which all earlier ones are paid; at first, the
 * time of the first request
 * @return the time at which all are paid
 */
uint64_t policy_pay(
    uint64_t paid_ns, uint64_t now_ns, uint64_t cost_ns, double delay_percent);

/* Account so for moves or a wait of an arena. */
static inline void
policy_charge(struct arena_policy *policy, uint64_t now_ns, uint64_t cost_ns,
    double delay_percent)
{
	policy->paid_ns =
	    policy_pay(policy->paid_ns, now_ns, cost_ns, delay_percent);
}

/* Note that so many bytes are live, with a request's; returns the peak. */
static inline size_t
policy_note_live(struct arena_policy *policy, size_t live)
{
	if (policy->most_live < live)
		policy->most_live = live;
	return policy->most_live;
}

/* Take the bytes that are live now for the peak. */
static inline void
policy_forget_peak(struct arena_policy *policy, size_t live)
{
	policy->most_live = live;
}

/* Begin again at a time, with nothing to pay and no peak. Keeps the evidence,
 * which is about the device's streams. */
static inline void
policy_begin(struct arena_policy *policy, uint64_t now_ns)
{
	policy->paid_ns = now_ns;
	policy->most_live = 0;
}

/* With prefer:memory, the bytes that may be held beyond the peak of live bytes
 * before all free memory is moved together. */
size_t policy_memory_spare(size_t most_live_bytes);

#endif
