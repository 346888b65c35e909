/*
 * Note [Wait or grow] is in pressure.h.
 */
#include "allocator/policy/pressure.h"

#include <limits.h>

/* Bytes beyond what was alive that are worth no wait. */
static const size_t SPARE_LEAST = (size_t)64 << 20;

/* Handles that any program may move, beside those its requests have earned. */
enum { MOVES_AT_FIRST = 20 };

struct stage {
	size_t share; /* up to so manieth of what was alive more is held */
	struct wait_limits limits;
	unsigned requests_a_move; /* handles may be moved one in so many */
};

static const struct stage stages[] = {
	[PRESSURE_NONE] = { 64, { AGE_NEVER, false, UINT_MAX, NEAR }, 2000 },
	[PRESSURE_LOW] = { 5, { AGE_NEVER, false, UINT_MAX, NEAR }, 300 },
	[PRESSURE_MEDIUM] = { 3, { 1, true, 0, 2 * NEAR }, 1000 },
	[PRESSURE_HIGH] = { 2, { 1, false, 0, 4 * NEAR }, 1000 },
	[PRESSURE_CRITICAL] = { 0, { 5, false, 5, 4 * NEAR }, 1000 },
};

static size_t
spare(size_t most_live_bytes, size_t share)
{
	size_t bytes = most_live_bytes / share;

	return bytes > SPARE_LEAST ? bytes : SPARE_LEAST;
}

enum pressure
pressure_of(size_t held_bytes, size_t most_live_bytes)
{
	enum pressure pressure = PRESSURE_NONE;

	while (pressure < PRESSURE_CRITICAL &&
	    held_bytes > most_live_bytes +
		    spare(most_live_bytes, stages[pressure].share))
		pressure++;
	return pressure;
}

struct wait_limits
pressure_wait_limits(const struct pressure_facts *facts)
{
	if (facts->prefer == PREFER_MEMORY)
		return (struct wait_limits){ 0 };
	/* A wait in a capture is one at each replay, for good. */
	return stages[facts->is_captured ? PRESSURE_NONE : facts->pressure]
	    .limits;
}

bool
pressure_may_wait(const struct pressure_facts *facts)
{
	return facts->prefer != PREFER_SPEED || facts->is_captured;
}

bool
pressure_may_move(const struct pressure_facts *facts)
{
	unsigned requests = stages[facts->pressure].requests_a_move;

	if (facts->prefer == PREFER_MEMORY &&
	    facts->held_bytes > pressure_memory_most(facts->most_live_bytes))
		return true;
	return facts->moves < MOVES_AT_FIRST + facts->served / requests;
}
