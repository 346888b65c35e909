/*
 * Note [Wait or grow]: the decisions, by tables, without a device.
 */
#include "allocator/policy/policy.h"

#include "tests/support/test.h"

static const size_t MB = 1 << 20;

TEST(a_wait_costs_what_is_left_beyond_the_stream_s_own_work)
{
	static const struct {
		uint64_t left;
		uint64_t age;
		uint64_t busy;
		bool is_use;
		enum wait_cost cost;
	} rows[] = {
		{ 0, 0, 0, false, WAIT_FREE },
		{ 100, 0, 100, false, WAIT_FREE },
		{ 100, 0, 100, true, WAIT_FREE },
		/* Half the way is behind it. */
		{ 100, 100, 99, false, WAIT_CHEAP },
		{ 100, 99, 99, false, WAIT_DEAR },
		{ 100, 100, 1, true, WAIT_CHEAP },
		/* A use is cheap to who has a third of that to do. */
		{ 299, 0, 100, true, WAIT_CHEAP },
		{ 300, 0, 100, true, WAIT_DEAR },
		{ 299, 0, 100, false, WAIT_DEAR },
		/* An idle stream waits for what is near. */
		{ 64, 64, 0, false, WAIT_CHEAP },
		{ 64, 63, 0, false, WAIT_DEAR },
		{ 65, 1000, 0, false, WAIT_DEAR },
		{ 65, 1000, 0, true, WAIT_DEAR },
		{ UINT64_MAX, UINT64_MAX - 1, 1, true, WAIT_DEAR },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct wait_facts facts = { .left = rows[i].left,
			.age = rows[i].age,
			.busy = rows[i].busy,
			.is_use = rows[i].is_use };

		EXPECT_EQ(policy_wait_cost(&facts), rows[i].cost);
	}
}

TEST(waits_are_allowed_up_to_a_cost)
{
	static const struct {
		enum waits waits;
		bool free;
		bool cheap;
		bool dear;
	} rows[] = {
		{ WAITS_NONE, false, false, false },
		{ WAITS_FREE, true, false, false },
		{ WAITS_CHEAP, true, true, false },
		{ WAITS_ANY, true, true, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum waits waits = rows[i].waits;

		EXPECT_EQ(policy_allows(waits, WAIT_FREE), rows[i].free);
		EXPECT_EQ(policy_allows(waits, WAIT_CHEAP), rows[i].cheap);
		EXPECT_EQ(policy_allows(waits, WAIT_DEAR), rows[i].dear);
	}
}

TEST(pressure_begins_a_fifth_beyond_what_was_alive)
{
	static const struct {
		size_t held_mb;
		size_t most_live_mb;
		bool pressure;
	} rows[] = {
		{ 0, 0, false },
		{ 6400, 6400, false },
		{ 7680, 6400, false },
		{ 7681, 6400, true },
		{ 100000, 6400, true },
		/* Little memory is worth no wait. */
		{ 74, 10, false },
		{ 75, 10, true },
		{ 164, 100, false },
		{ 165, 100, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = { .held_bytes =
						   rows[i].held_mb * MB,
			.most_live_bytes = rows[i].most_live_mb * MB };

		EXPECT_EQ(policy_has_pressure(&facts), rows[i].pressure);
	}
}

TEST(waits_are_made_by_preference_pressure_and_size)
{
	static const struct {
		enum prefer prefer;
		size_t held_mb; /* where 1,000 were alive */
		bool is_small;
		bool is_captured;
		enum waits waits;
	} rows[] = {
		{ PREFER_BALANCE, 1200, false, false, WAITS_FREE },
		{ PREFER_BALANCE, 1201, false, false, WAITS_CHEAP },
		{ PREFER_BALANCE, 9000, false, false, WAITS_CHEAP },
		{ PREFER_BALANCE, 9000, true, false, WAITS_FREE },
		{ PREFER_BALANCE, 9000, false, true, WAITS_FREE },
		{ PREFER_SPEED, 9000, false, false, WAITS_NONE },
		{ PREFER_SPEED, 9000, false, true, WAITS_FREE },
		{ PREFER_MEMORY, 1000, false, false, WAITS_ANY },
		{ PREFER_MEMORY, 1000, true, true, WAITS_ANY },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = { .prefer = rows[i].prefer,
			.is_small = rows[i].is_small,
			.is_captured = rows[i].is_captured,
			.held_bytes = rows[i].held_mb * MB,
			.most_live_bytes = 1000 * MB };

		EXPECT_EQ(policy_waits(&facts), rows[i].waits);
	}
}

TEST(moves_have_a_budget_that_requests_earn)
{
	static const struct {
		enum prefer prefer;
		size_t held_mb; /* where 1,200 were alive */
		uint64_t served;
		uint64_t moves;
		bool may;
	} rows[] = {
		{ PREFER_BALANCE, 1200, 0, 19, true },
		{ PREFER_BALANCE, 1200, 0, 20, false },
		{ PREFER_BALANCE, 9000, 0, 20, false },
		{ PREFER_BALANCE, 1200, 6000, 119, true },
		{ PREFER_BALANCE, 1200, 6000, 120, false },
		{ PREFER_SPEED, 1800, 6000, 119, true },
		{ PREFER_SPEED, 1800, 6000, 120, false },
		{ PREFER_MEMORY, 1300, 0, 20, false },
		{ PREFER_MEMORY, 1301, 0, 1000000, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = { .prefer = rows[i].prefer,
			.held_bytes = rows[i].held_mb * MB,
			.most_live_bytes = 1200 * MB,
			.moves = rows[i].moves,
			.served = rows[i].served };

		EXPECT_EQ(policy_may_move(&facts), rows[i].may);
	}
}
