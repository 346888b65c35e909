/*
 * Note [Wait or grow]: the decisions, by tables, without a device.
 */
#include "allocator/policy/pressure.h"

#include "tests/support/test.h"

static const size_t MB = 1 << 20;

TEST(pressure_rises_with_what_is_held_over_what_was_alive)
{
	static const struct {
		size_t held_mb;
		size_t most_live_mb;
		enum pressure pressure;
	} rows[] = {
		{ 0, 0, PRESSURE_NONE },
		{ 6400, 6400, PRESSURE_NONE },
		{ 6500, 6400, PRESSURE_NONE },
		{ 6501, 6400, PRESSURE_LOW },
		{ 7680, 6400, PRESSURE_LOW },
		{ 7681, 6400, PRESSURE_MEDIUM },
		{ 8533, 6400, PRESSURE_MEDIUM },
		{ 8534, 6400, PRESSURE_HIGH },
		{ 9600, 6400, PRESSURE_HIGH },
		{ 9601, 6400, PRESSURE_CRITICAL },
		{ 100000, 6400, PRESSURE_CRITICAL },
		/* Little memory is worth no wait. */
		{ 74, 10, PRESSURE_NONE },
		{ 75, 10, PRESSURE_CRITICAL },
		{ 164, 100, PRESSURE_NONE },
		{ 165, 100, PRESSURE_CRITICAL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		EXPECT_EQ(pressure_of(
			      rows[i].held_mb * MB, rows[i].most_live_mb * MB),
		    rows[i].pressure);
}

TEST(more_pressure_waits_for_more_until_waits_have_not_helped)
{
	static const struct {
		enum prefer prefer;
		enum pressure pressure;
		bool is_captured;
		bool waits;
		bool any;
		bool some;
		unsigned age;
		unsigned near;
	} rows[] = {
		{ PREFER_BALANCE, PRESSURE_NONE, false, true, false, false,
		    AGE_NEVER, NEAR },
		{ PREFER_BALANCE, PRESSURE_LOW, false, true, false, false,
		    AGE_NEVER, NEAR },
		{ PREFER_BALANCE, PRESSURE_MEDIUM, false, true, false, true, 1,
		    2 * NEAR },
		{ PREFER_BALANCE, PRESSURE_HIGH, false, true, false, true, 1,
		    4 * NEAR },
		{ PREFER_BALANCE, PRESSURE_CRITICAL, false, true, false, true,
		    5, 4 * NEAR },
		{ PREFER_BALANCE, PRESSURE_HIGH, true, true, false, false,
		    AGE_NEVER, NEAR },
		{ PREFER_SPEED, PRESSURE_HIGH, false, false, false, true, 1,
		    4 * NEAR },
		{ PREFER_SPEED, PRESSURE_HIGH, true, true, false, false,
		    AGE_NEVER, NEAR },
		{ PREFER_MEMORY, PRESSURE_NONE, false, true, true, true, 0, 0 },
		{ PREFER_MEMORY, PRESSURE_LOW, true, true, true, true, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pressure_facts facts = { .prefer = rows[i].prefer,
			.pressure = rows[i].pressure,
			.is_captured = rows[i].is_captured };
		struct wait_limits limits = pressure_wait_limits(&facts);

		EXPECT_EQ(pressure_may_wait(&facts), rows[i].waits);
		EXPECT_EQ(wait_limits_allow_any(limits), rows[i].any);
		EXPECT_EQ(wait_limits_allow_some(limits), rows[i].some);
		EXPECT_EQ(limits.age, rows[i].age);
		EXPECT_EQ(limits.near, rows[i].near);
	}
}

TEST(moves_have_a_budget_that_requests_earn)
{
	static const struct {
		enum prefer prefer;
		enum pressure pressure;
		size_t held_mb; /* where 1,200 were alive */
		uint64_t served;
		uint64_t moves;
		bool may;
	} rows[] = {
		{ PREFER_BALANCE, PRESSURE_NONE, 1200, 0, 19, true },
		{ PREFER_BALANCE, PRESSURE_NONE, 1200, 0, 20, false },
		{ PREFER_BALANCE, PRESSURE_NONE, 1200, 6000, 22, true },
		{ PREFER_BALANCE, PRESSURE_NONE, 1200, 6000, 23, false },
		{ PREFER_BALANCE, PRESSURE_LOW, 1300, 6000, 39, true },
		{ PREFER_BALANCE, PRESSURE_LOW, 1300, 6000, 40, false },
		{ PREFER_SPEED, PRESSURE_HIGH, 1800, 6000, 25, true },
		{ PREFER_SPEED, PRESSURE_HIGH, 1800, 6000, 26, false },
		{ PREFER_BALANCE, PRESSURE_CRITICAL, 9000, 6000, 26, false },
		{ PREFER_MEMORY, PRESSURE_NONE, 1300, 0, 20, false },
		{ PREFER_MEMORY, PRESSURE_LOW, 1301, 0, 1000000, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pressure_facts facts = { .prefer = rows[i].prefer,
			.pressure = rows[i].pressure,
			.held_bytes = rows[i].held_mb * MB,
			.most_live_bytes = 1200 * MB,
			.moves = rows[i].moves,
			.served = rows[i].served };

		EXPECT_EQ(pressure_may_move(&facts), rows[i].may);
	}
}
