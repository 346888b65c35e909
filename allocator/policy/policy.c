/*
 * Decides between waits, moves and new memory: policy.h, Note [Wait or grow].
 */
#include "allocator/policy/policy.h"

#include <float.h>

#include "allocator/policy/tuning.h"
#include "base/assert.h"

enum wait_cost
policy_wait_cost(const struct wait_facts *facts)
{
	if (facts->left <= facts->busy)
		return WAIT_FREE;
	if (facts->busy == 0 && facts->left > policy.near_ticks)
		return WAIT_DEAR;
	if (facts->left <= facts->age)
		return WAIT_CHEAP;
	return facts->is_use && facts->left / policy.use_times < facts->busy ?
	    WAIT_CHEAP :
	    WAIT_DEAR;
}

/* The part of the time that the program may be delayed by. */
static double
share_of(double delay_percent)
{
	ASSERT(delay_percent >= 0);
	return delay_percent / 100 / 2;
}

/* ---- The budget ---------------------------------------------------------- */

static double
lesser(double a, double b)
{
	return a < b ? a : b;
}

static double
greater(double a, double b)
{
	return a > b ? a : b;
}

/* How late a stream may be at most, in us. */
static double
most_late_us(const struct request_facts *facts)
{
	return policy.recent_us * share_of(facts->delay_percent);
}

/* The delay that the program's time allows, in us. */
static double
earned_of(const struct request_facts *facts)
{
	return (double)facts->elapsed_ns / 1e3 * share_of(facts->delay_percent);
}

/* How late a stream may be now, in us. */
static double
budget_of(const struct request_facts *facts)
{
	return lesser(earned_of(facts) - (double)facts->lost_ns / 1e3,
	    most_late_us(facts));
}

/* How late the stream is beyond its slack, in us. */
static double
late_of(const struct request_facts *facts)
{
	double slack =
	    lesser((double)facts->slack_ns / 1e3, most_late_us(facts));
	double late = (double)facts->late_ns / 1e3 - slack;

	return late > 0 ? late : 0;
}

double
policy_budgets_spent(const struct request_facts *facts)
{
	double late = late_of(facts);
	double lost = (double)facts->lost_ns / 1e3;
	double earned = earned_of(facts);
	double most = most_late_us(facts);

	ASSERT(facts->delay_percent >= 0);
	if (late + lost == 0)
		return 0;
	if (earned == 0)
		return DBL_MAX;
	return greater((late + lost) / earned, late / most);
}

/* ---- By place ------------------------------------------------------------ */

bool
policy_has_pressure(const struct request_facts *facts)
{
	double live = (double)facts->most_live_bytes;
	double spare = greater(
	    live / policy.pressure_share, (double)policy.pressure_least);
	double overspent = policy_budgets_spent(facts) - 1;

	ASSERT(facts->delay_percent >= 0);
	if (facts->sees_waits && overspent > 0)
		spare *= 1 + policy.overspent_shares * overspent;
	return (double)facts->held_bytes > live + spare;
}

enum waits
policy_waits(const struct request_facts *facts)
{
	ASSERT(facts->delay_percent >= 0);
	if (facts->prefer == PREFER_MEMORY)
		return WAITS_ANY;
	if (facts->is_captured)
		return WAITS_FREE;
	if (facts->prefer == PREFER_SPEED)
		return WAITS_NONE;
	if (facts->delay_percent == 0)
		return WAITS_NONE;
	return !facts->is_small && policy_has_pressure(facts) ? WAITS_CHEAP :
								WAITS_FREE;
}

/* ---- By price ------------------------------------------------------------ */

/* How dear memory is: the sixth power of the part that is held beyond the peak
 * of live bytes; 0 if that part is less than pressure_least. */
static double
dearness(const struct request_facts *facts)
{
	double more = 0;

	if (facts->held_bytes > facts->most_live_bytes + policy.pressure_least)
		more =
		    (double)facts->held_bytes / (double)facts->most_live_bytes -
		    1;
	return more * more * more * more * more * more;
}

/* Did the waits take longer than a stream may be late, and make streams late by
 * less than the share of that time? */
static bool
is_harmless(const struct request_facts *facts)
{
	double waited = (double)facts->evidence.waited_ns;

	return waited / 1e3 > most_late_us(facts) &&
	    (double)facts->evidence.felt_ns <
	    waited * share_of(facts->delay_percent);
}

static uint64_t
as_ns(double us)
{
	const uint64_t most = UINT64_MAX / 4; /* leaves room to be doubled */

	if (us * 1e3 >= (double)most)
		return most;
	return us > 0 ? (uint64_t)(us * 1e3) : 0;
}

/* The longest wait that costs no more than new memory for the request, in
 * us. */
static double
worth_of(const struct request_facts *facts)
{
	double mib = (double)facts->request_bytes / (1 << 20);

	return mib * policy.dear_us * dearness(facts);
}

static bool
may_wait_at_a_price(const struct request_facts *facts)
{
	return facts->prefer == PREFER_BALANCE && !facts->is_captured &&
	    !facts->is_small && facts->delay_percent != 0;
}

/* How much later the stream may become, in us. */
static double
left_of(const struct request_facts *facts)
{
	return budget_of(facts) - late_of(facts);
}

uint64_t
policy_place_price(const struct request_facts *facts)
{
	double left = left_of(facts);

	if (!may_wait_at_a_price(facts))
		return 0;
	return as_ns(left > 0 && is_harmless(facts) ? DBL_MAX : left);
}

bool
policy_may_follow_plan(const struct request_facts *facts)
{
	double borrowed = 2 * most_late_us(facts);

	return may_wait_at_a_price(facts) && left_of(facts) + borrowed > 0;
}

struct wait_prices
policy_wait_prices(const struct request_facts *facts)
{
	double left = left_of(facts);
	double near = worth_of(facts);
	double any = lesser(near, left);

	if (!may_wait_at_a_price(facts))
		return (struct wait_prices){ 0 };
	if (left <= 0)
		near = lesser(near, most_late_us(facts));
	else if (is_harmless(facts))
		any = DBL_MAX;
	return (
	    struct wait_prices){ .near_ns = as_ns(near), .any_ns = as_ns(any) };
}

void
policy_add_evidence(
    struct evidence *evidence, uint64_t waited_ns, int64_t felt_ns)
{
	int64_t felt = (int64_t)evidence->felt_ns + felt_ns;

	evidence->waited_ns += waited_ns;
	evidence->felt_ns = felt > 0 ? (uint64_t)felt : 0;
	if (evidence->waited_ns > (uint64_t)(policy.recent_us * 1e3)) {
		evidence->waited_ns /= 2;
		evidence->felt_ns /= 2;
	}
}

uint64_t
policy_forecast(uint64_t latency_ns, uint64_t oldest_ns, uint64_t age_ns)
{
	uint64_t longest = as_ns(policy.latency_us);

	ASSERT(latency_ns <= INT64_MAX);
	if (longest < latency_ns)
		longest = latency_ns;
	if (longest < oldest_ns)
		longest = oldest_ns;
	return longest > age_ns ? longest - age_ns : 0;
}

/* ---- Moves --------------------------------------------------------------- */

/* The cost of earlier moves beyond their share of the time, in us. */
static double
unpaid_of(const struct request_facts *facts)
{
	if (facts->moves_paid_ns <= facts->now_ns)
		return 0;
	return (double)(facts->moves_paid_ns - facts->now_ns) / 1e3 *
	    share_of(facts->delay_percent);
}

bool
policy_may_move(const struct request_facts *facts, enum moves moves)
{
	double unpaid = unpaid_of(facts);

	if (facts->prefer == PREFER_MEMORY &&
	    facts->held_bytes > facts->most_live_bytes +
		    policy_memory_spare(facts->most_live_bytes))
		return true;
	if (facts->delay_percent == 0)
		return false;
	return unpaid == 0 ||
	    (moves == MOVES_ENOUGH && facts->prefer == PREFER_BALANCE &&
		!facts->is_small &&
		unpaid <= lesser(worth_of(facts), most_late_us(facts)));
}

bool
policy_may_pin(
    const struct request_facts *facts, size_t beyond, uint64_t cost_ns)
{
	double cost = (double)cost_ns / 1e3;
	double unpaid = unpaid_of(facts);
	double earned = earned_of(facts);

	ASSERT(beyond == 0 || facts->spare_bytes > 0);
	if (facts->prefer == PREFER_MEMORY)
		return policy_may_move(facts, MOVES_ENOUGH);
	if (beyond == 0)
		return false;
	if (unpaid == 0)
		return cost <= earned && facts->delay_percent != 0;
	double share = lesser(1, (double)beyond / (double)facts->spare_bytes);
	return facts->prefer == PREFER_BALANCE &&
	    unpaid + cost <= share * lesser(earned, most_late_us(facts));
}

bool
policy_may_wait_briefly(const struct request_facts *facts)
{
	return facts->prefer != PREFER_SPEED &&
	    policy_may_move(facts, MOVES_PART);
}

uint64_t
policy_brief_ns(void)
{
	return as_ns(policy.brief_us);
}

uint64_t
policy_moves_ns(uint64_t handles)
{
	return (uint64_t)(policy.move_us * 1e3 * (double)handles);
}

uint64_t
policy_pay(
    uint64_t paid_ns, uint64_t now_ns, uint64_t cost_ns, double delay_percent)
{
	double share = share_of(delay_percent);
	uint64_t earlier = (uint64_t)(policy.recent_us * 1e3);

	ASSERT(delay_percent >= 0);
	if (share == 0)
		return paid_ns;
	if (now_ns > earlier && paid_ns < now_ns - earlier)
		paid_ns = now_ns - earlier;
	return paid_ns + (uint64_t)((double)cost_ns / share);
}

size_t
policy_memory_spare(size_t most_live_bytes)
{
	return most_live_bytes / MEMORY_SHARE;
}
