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
