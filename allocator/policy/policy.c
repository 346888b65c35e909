/*
 * Note [Wait or grow] is in policy.h.
 */
#include "allocator/policy/policy.h"

/* Pressure begins where one part in so many is held beyond what was alive, */
enum { PRESSURE_SHARE = 5 };

/* and at least so many bytes: fewer are worth no wait. */
static const size_t PRESSURE_LEAST = (size_t)64 << 20;

/* Ticks of another stream's work that an idle stream may wait for. */
enum { NEAR = 64 };

/* How many times as long as its own work a stream may wait for a use. */
enum { USE_TIMES = 3 };

/* What a wait may cost, in us; docs/adr/0009 has the experiments. */
static const struct {
	double call;        /* a driver call that new memory would take */
	double mib;         /* a MiB of new memory, where little is held */
	double near;        /* rising to this, where twice as much is held as
			     * was ever alive, for waits that are near */
	double any;         /* to this within the budget, */
	double harmless;    /* and to this where waits were harmless */
	double budget;      /* that each stream has from the beginning */
	double budget_most; /* that no stream has more than */
	double latency;     /* of a stream of which little was seen */
	double evidence;    /* waits that tell whether they are harmless */
} price = {
	.call = 70,
	.mib = 10,
	.near = 1e4,
	.any = 1e6,
	.harmless = 1e8,
	.budget = 300,
	.budget_most = 250e3,
	.latency = 1e3,
	.evidence = 60e3,
};

/* Waits were harmless if streams are late by less than one part in so many of
 * what the waits took. Then one part in so many of a forecast counts. */
enum { HARMLESS_SHARE = 500, HARMLESS_COUNTS = 10 };

/* And one in so many where the wait is near. */
enum { NEAR_COUNTS = 20 };

/* Handles that any program may move; then one in so many requests. */
enum { MOVES_AT_FIRST = 20, REQUESTS_A_MOVE = 60 };

enum wait_cost
policy_wait_cost(const struct wait_facts *facts)
{
	if (facts->left <= facts->busy)
		return WAIT_FREE;
	if (facts->busy == 0 && facts->left > NEAR)
		return WAIT_DEAR;
	if (facts->left <= facts->age)
		return WAIT_CHEAP;
	return facts->is_use && facts->left / USE_TIMES < facts->busy ?
	    WAIT_CHEAP :
	    WAIT_DEAR;
}

bool
policy_has_pressure(const struct request_facts *facts)
{
	size_t spare = facts->most_live_bytes / PRESSURE_SHARE;

	if (spare < PRESSURE_LEAST)
		spare = PRESSURE_LEAST;
	return facts->held_bytes > facts->most_live_bytes + spare;
}

enum waits
policy_waits(const struct request_facts *facts)
{
	if (facts->prefer == PREFER_MEMORY)
		return WAITS_ANY;
	if (facts->is_captured)
		return WAITS_FREE;
	if (facts->prefer == PREFER_SPEED)
		return WAITS_NONE;
	if (facts->delay_percent == 0 || policy_is_late(facts))
		return WAITS_NONE;
	return !facts->is_small && policy_has_pressure(facts) ? WAITS_CHEAP :
								WAITS_FREE;
}

bool
policy_may_move(const struct request_facts *facts)
{
	if (facts->prefer == PREFER_MEMORY &&
	    facts->held_bytes > policy_memory_most(facts->most_live_bytes))
		return true;
	return facts->moves < MOVES_AT_FIRST + facts->served / REQUESTS_A_MOVE;
}

/* ---- By price ---------------------------------------------------------- */

/* What a stream may be late by, in us. */
static double
budget_of(const struct request_facts *facts)
{
	double share = facts->delay_percent / 100 / 2;
	double us = (double)facts->elapsed_ns / 1e3 * share;

	if (facts->delay_percent == 0)
		return 0;
	us += price.budget;
	return us < price.budget_most ? us : price.budget_most;
}

bool
policy_is_late(const struct request_facts *facts)
{
	return (double)facts->late_ns / 1e3 > budget_of(facts);
}

/* How dear memory is: the sixth power of the part that is held beyond what was
 * ever alive. Few bytes are not dear. */
static double
dearness(const struct request_facts *facts)
{
	double more = 0;

	if (facts->held_bytes > facts->most_live_bytes + PRESSURE_LEAST)
		more =
		    (double)facts->held_bytes / (double)facts->most_live_bytes -
		    1;
	return more * more * more * more * more * more;
}

static bool
is_harmless(const struct request_facts *facts)
{
	return (double)facts->waited_ns / 1e3 > price.evidence &&
	    facts->felt_ns < facts->waited_ns / HARMLESS_SHARE;
}

static uint64_t
as_ns(double us)
{
	return us > 0 ? (uint64_t)(us * 1e3) : 0;
}

static double
least(double a, double b)
{
	return a < b ? a : b;
}

/* What a wait may cost that spares the memory of the request, in us. */
static double
worth_of(const struct request_facts *facts, double dear)
{
	double mib = (double)facts->request_bytes / (1 << 20);

	return price.call + mib * (price.mib + dear);
}

struct wait_prices
policy_wait_prices(const struct request_facts *facts)
{
	double dear = dearness(facts);
	double left = budget_of(facts) - (double)facts->late_ns / 1e3;
	double low = worth_of(facts, price.near * dear);
	double high = worth_of(facts, price.any * dear);
	double near = least(high, left * NEAR_COUNTS);
	double any = least(high, left);

	if (facts->prefer != PREFER_BALANCE || facts->is_captured ||
	    facts->delay_percent == 0)
		return (struct wait_prices){ 0 };
	if (is_harmless(facts))
		any = least(worth_of(facts, price.harmless * dear),
		    left * HARMLESS_COUNTS);
	return (struct wait_prices){ .near_ns = as_ns(near > low ? near : low),
		.any_ns = as_ns(any) };
}

uint64_t
policy_forecast(uint64_t latency_ns, uint64_t oldest_ns, uint64_t age_ns)
{
	uint64_t longest = as_ns(price.latency);

	if (longest < latency_ns)
		longest = latency_ns;
	if (longest < oldest_ns)
		longest = oldest_ns;
	return longest > age_ns ? longest - age_ns : 0;
}
