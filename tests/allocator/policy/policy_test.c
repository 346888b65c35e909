/*
 * Note [Wait or grow]: the decisions, by tables, without a device.
 */
#include "allocator/policy/policy.h"

#include "tests/support/test.h"

static const size_t MB = 1 << 20;

TEST(a_wait_costs_the_time_beyond_the_stream_s_own_work)
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
		/* The stream has done half of the work. */
		{ 100, 100, 99, false, WAIT_CHEAP },
		{ 100, 99, 99, false, WAIT_DEAR },
		{ 100, 100, 1, true, WAIT_CHEAP },
		/* A use is cheap for a stream that has a third of that work to
		 * do. */
		{ 299, 0, 100, true, WAIT_CHEAP },
		{ 300, 0, 100, true, WAIT_DEAR },
		{ 299, 0, 100, false, WAIT_DEAR },
		/* An idle stream waits for near work. */
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

TEST(pressure_begins_a_fifth_above_the_peak_of_live_bytes)
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
		size_t held_mb; /* with a peak of 1,000 live */
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
			.delay_percent = 1,
			.is_small = rows[i].is_small,
			.is_captured = rows[i].is_captured,
			.held_bytes = rows[i].held_mb * MB,
			.most_live_bytes = 1000 * MB };

		EXPECT_EQ(policy_waits(&facts), rows[i].waits);
	}
}

TEST(moves_must_be_paid_before_others_are_made)
{
	static const struct {
		enum prefer prefer;
		size_t held_mb; /* with a peak of 1,200 live */
		double delay_percent;
		uint64_t paid_ns;
		bool may;
	} rows[] = {
		{ PREFER_BALANCE, 1200, 1, 1000, true },
		{ PREFER_BALANCE, 1200, 1, 1001, false },
		{ PREFER_BALANCE, 9000, 1, 1001, false },
		{ PREFER_BALANCE, 1200, 0, 1000, false },
		{ PREFER_SPEED, 1800, 1, 1000, true },
		{ PREFER_SPEED, 1800, 1, 1001, false },
		{ PREFER_MEMORY, 1300, 1, 1001, false },
		{ PREFER_MEMORY, 1301, 1, UINT64_MAX, true },
		{ PREFER_MEMORY, 1301, 0, UINT64_MAX, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = { .prefer = rows[i].prefer,
			.delay_percent = rows[i].delay_percent,
			.held_bytes = rows[i].held_mb * MB,
			.most_live_bytes = 1200 * MB,
			.now_ns = 1000,
			.moves_paid_ns = rows[i].paid_ns };

		EXPECT_EQ(policy_may_move(&facts, MOVES_PART), rows[i].may);
		if (rows[i].prefer != PREFER_BALANCE)
			EXPECT_EQ(
			    policy_may_move(&facts, MOVES_ENOUGH), rows[i].may);
	}
}

TEST(a_brief_wait_is_made_if_all_is_paid_and_the_program_may_be_delayed)
{
	static const struct {
		enum prefer prefer;
		double delay_percent;
		uint64_t paid_ns; /* the time is 1,000 */
		bool may;
	} rows[] = {
		{ PREFER_BALANCE, 1, 1000, true },
		{ PREFER_BALANCE, 1, 1001, false },
		{ PREFER_BALANCE, 0, 1000, false },
		{ PREFER_SPEED, 1, 1000, false },
		{ PREFER_MEMORY, 1, 1000, true },
		{ PREFER_MEMORY, 1, 1001, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = { .prefer = rows[i].prefer,
			.delay_percent = rows[i].delay_percent,
			.is_small = true,
			.held_bytes = 1250 * MB,
			.most_live_bytes = 1200 * MB,
			.now_ns = 1000,
			.moves_paid_ns = rows[i].paid_ns };

		EXPECT_EQ(policy_may_wait_briefly(&facts), rows[i].may);
	}
}

/* The unpaid cost is one part in 200 of the unpaid time. 100 MiB cost 6.4 ms
 * if a fifth more than the peak is held. */
TEST(unpaid_moves_that_are_enough_may_cost_as_much_as_the_memory)
{
	static const struct {
		size_t held_mb; /* with a peak of 1,200 live */
		uint64_t unpaid_us;
		bool is_small;
		bool may;
	} rows[] = {
		{ 1200, 0, false, true },
		{ 1200, 200, false, false },
		{ 1440, 200 * 6300, false, true },
		{ 1440, 200 * 6500, false, false },
		{ 1440, 200 * 6300, true, false },
		{ 9000, 200 * 50000, false, true }, /* the largest budget */
		{ 9000, 200 * 50001, false, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = { .prefer = PREFER_BALANCE,
			.delay_percent = 1,
			.is_small = rows[i].is_small,
			.held_bytes = rows[i].held_mb * MB,
			.most_live_bytes = 1200 * MB,
			.request_bytes = 100 * MB,
			.now_ns = 1000,
			.moves_paid_ns = 1000 + rows[i].unpaid_us * 1000 };

		EXPECT_EQ(policy_may_move(&facts, MOVES_ENOUGH), rows[i].may);
		EXPECT_EQ(policy_may_move(&facts, MOVES_PART),
		    rows[i].unpaid_us == 0);
	}
}

/* The peak is 800 MB, and the spare 100. After 4 s the program has earned 20
 * ms. */
TEST(page_locked_memory_beyond_its_bound_moves_as_far_as_time_allows)
{
	static const struct {
		enum prefer prefer;
		size_t beyond_mb;
		double delay_percent;
		uint64_t elapsed_s;
		uint64_t unpaid_us;
		uint64_t cost_us;
		bool may;
	} rows[] = {
		{ PREFER_BALANCE, 0, 1, 4, 0, 0, false },
		{ PREFER_BALANCE, 1, 1, 4, 0, 0, true },
		{ PREFER_BALANCE, 1, 0, 4, 0, 0, false },
		/* A call that takes longer than all that was earned. */
		{ PREFER_BALANCE, 1, 1, 4, 0, 20000, true },
		{ PREFER_BALANCE, 1, 1, 4, 0, 20001, false },
		{ PREFER_BALANCE, 1, 1, 400, 0, 2000000, true },
		/* More may be unpaid the more is held. */
		{ PREFER_BALANCE, 50, 1, 4, 9000, 900, true },
		{ PREFER_BALANCE, 50, 1, 4, 9000, 1100, false },
		{ PREFER_BALANCE, 100, 1, 4, 19000, 900, true },
		{ PREFER_BALANCE, 100, 1, 4, 19000, 1100, false },
		{ PREFER_BALANCE, 900, 1, 4, 19000, 1100, false },
		{ PREFER_BALANCE, 900, 1, 400, 49000, 900, true },
		{ PREFER_BALANCE, 900, 1, 400, 49000, 1100, false },
		{ PREFER_SPEED, 900, 1, 400, 0, 0, true },
		{ PREFER_SPEED, 900, 1, 400, 1, 0, false },
		/* All is held beyond the share of prefer:memory. */
		{ PREFER_MEMORY, 0, 1, 4, 40000, 40000, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t now = rows[i].elapsed_s * 1000000000;
		struct request_facts facts = { .prefer = rows[i].prefer,
			.delay_percent = rows[i].delay_percent,
			.held_bytes = (900 + rows[i].beyond_mb) * MB,
			.most_live_bytes = 800 * MB,
			.spare_bytes = 100 * MB,
			.elapsed_ns = now,
			.now_ns = now,
			.moves_paid_ns = now + rows[i].unpaid_us * 200000 };

		EXPECT_EQ(policy_may_pin(&facts, rows[i].beyond_mb * MB,
			      rows[i].cost_us * 1000),
		    rows[i].may);
	}
}

/* In us. With delay_percent:1 one part in 200 of the time pays for moves. */
TEST(moves_are_paid_by_the_time_that_they_may_take)
{
	static const struct {
		uint64_t paid;
		uint64_t now;
		uint64_t handles;
		double delay_percent;
		uint64_t expected;
	} rows[] = {
		{ 5000000, 5000000, 1, 1, 5000000 + 15 * 200 },
		{ 5000000, 5000000, 10, 1, 5000000 + 150 * 200 },
		{ 5000000, 5000000, 1, 2, 5000000 + 15 * 100 },
		/* Debts add up, and credit is bounded. */
		{ 6000000, 5000000, 1, 1, 6000000 + 15 * 200 },
		{ 4500000, 5000000, 1, 1, 4500000 + 15 * 200 },
		{ 1, 50000000, 1, 1, 40000000 + 15 * 200 },
		{ 0, 500000, 1, 1, 15 * 200 },
		{ 5000000, 5000000, 1, 0, 5000000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		EXPECT_EQ(policy_pay(rows[i].paid * 1000, rows[i].now * 1000,
			      policy_moves_ns(rows[i].handles),
			      rows[i].delay_percent),
		    rows[i].expected * 1000);
}

/* A move costs less than the new handle that it takes the place of; a brief
 * wait may last as long as that takes. */
TEST(a_move_costs_what_it_takes_beyond_a_new_handle)
{
	EXPECT_EQ(policy_moves_ns(1), 15000);
	EXPECT_EQ(policy_moves_ns(8), 120000);
	EXPECT_EQ(policy_brief_ns(), 60000);
}

/* ---- By price ---------------------------------------------------------- */

enum { US = 1000, MS = 1000 * US };

/* A request for 100 MiB, with a peak of 1,000 MiB live. */
static struct request_facts
request_where(size_t held_mb, uint64_t elapsed_ms, uint64_t late_us)
{
	return (struct request_facts){ .prefer = PREFER_BALANCE,
		.delay_percent = 1,
		.held_bytes = held_mb * MB,
		.most_live_bytes = 1000 * MB,
		.request_bytes = 100 * MB,
		.elapsed_ns = elapsed_ms * MS,
		.late_ns = late_us * US,
		.sees_waits = true };
}

TEST(the_worth_of_a_wait_rises_with_the_held_bytes)
{
	static const struct {
		size_t held_mb;
		uint64_t near_us;
		uint64_t any_us;
	} rows[] = {
		{ 900, 0, 0 },
		{ 1000, 0, 0 },
		{ 1064, 0, 0 },
		/* 10^6 us for each MiB by the sixth power of 0.1, of 0.2. */
		{ 1100, 100, 100 },
		{ 1200, 6400, 6400 },
		/* All of it is within the budget, unless the wait is near. */
		{ 1400, 409600, 25000 },
		{ 2000, 100000000, 25000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts =
		    request_where(rows[i].held_mb, 5000, 0);
		struct wait_prices prices = policy_wait_prices(&facts);

		EXPECT_EQ((prices.near_ns + US / 2) / US, rows[i].near_us);
		EXPECT_EQ((prices.any_ns + US / 2) / US, rows[i].any_us);
	}
}

/* No bytes were live, as in a new arena, or few compared to the held bytes: the
 * price is the largest time that there is. */
TEST(the_dearest_memory_has_a_price_too)
{
	static const size_t most_live[] = { 0, 1, 4096 };

	for (size_t i = 0; i < sizeof(most_live) / sizeof(most_live[0]); i++) {
		struct request_facts facts = request_where(70000, 5000, 0);

		facts.most_live_bytes = most_live[i];
		struct wait_prices prices = policy_wait_prices(&facts);
		EXPECT_EQ(prices.near_ns, UINT64_MAX / 4);
		EXPECT_EQ((prices.any_ns + US / 2) / US, 25000);
	}
}

/* Delay_percent of ten seconds more than the budget, which is half of it. */
TEST(a_plan_is_followed_while_its_waits_cost_what_the_program_will_earn)
{
	static const struct {
		uint64_t elapsed_ms;
		uint64_t late_us;
		double delay_percent;
		enum prefer prefer;
		bool may;
	} rows[] = {
		{ 0, 0, 1, PREFER_BALANCE, true },
		{ 0, 99999, 1, PREFER_BALANCE, true },
		{ 0, 100001, 1, PREFER_BALANCE, false },
		{ 0, 100001, 2, PREFER_BALANCE, true },
		{ 5000, 124999, 1, PREFER_BALANCE, true },
		{ 5000, 125001, 1, PREFER_BALANCE, false },
		{ 5000, 0, 0, PREFER_BALANCE, false },
		{ 5000, 0, 1, PREFER_SPEED, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts =
		    request_where(1000, rows[i].elapsed_ms, rows[i].late_us);

		facts.delay_percent = rows[i].delay_percent;
		facts.prefer = rows[i].prefer;
		EXPECT_EQ(policy_may_follow_plan(&facts), rows[i].may);
	}
}

TEST(a_near_wait_of_a_late_stream_takes_at_most_the_largest_budget)
{
	static const struct {
		size_t held_mb;
		uint64_t late_us;
		uint64_t near_us;
	} rows[] = {
		{ 1300, 24999, 72900 },
		{ 1300, 25000, 50000 },
		{ 1300, 90000, 50000 },
		{ 1100, 90000, 100 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts =
		    request_where(rows[i].held_mb, 5000, rows[i].late_us);

		EXPECT_EQ((policy_wait_prices(&facts).near_ns + US / 2) / US,
		    rows[i].near_us);
	}
}

TEST(the_budget_grows_with_time_and_is_spent_by_lateness)
{
	static const struct {
		double percent;
		uint64_t elapsed_ms;
		uint64_t late_us;
		bool is_late;
		uint64_t any_us;
	} rows[] = {
		{ 1, 0, 0, false, 0 },
		{ 1, 0, 1, true, 0 },
		{ 1, 500, 0, false, 2500 },
		{ 1, 500, 2200, false, 300 },
		{ 1, 500, 2501, true, 0 },
		{ 4, 500, 2501, false, 7499 },
		/* It is that of ten seconds at most. */
		{ 1, 1000000, 0, false, 50000 },
		{ 4, 1000000, 0, false, 200000 },
		{ 0, 1000, 0, false, 0 },
		{ 0, 1000, 1, true, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts =
		    request_where(2000, rows[i].elapsed_ms, rows[i].late_us);

		facts.delay_percent = rows[i].percent;
		EXPECT_EQ(policy_budgets_spent(&facts) > 1, rows[i].is_late);
		EXPECT_EQ((policy_wait_prices(&facts).any_ns + US / 2) / US,
		    rows[i].any_us);
		if (rows[i].percent == 0)
			EXPECT_EQ(policy_waits(&facts), WAITS_NONE);
	}
}

TEST(pressure_begins_later_if_the_budget_is_overspent)
{
	static const struct {
		uint64_t elapsed_ms;
		uint64_t late_us;
		uint64_t lost_us;
		bool sees_waits;
		size_t most_mb; /* without pressure, with a peak of 1,000 */
	} rows[] = {
		{ 1000, 0, 0, true, 1200 },
		{ 1000, 5000, 0, true, 1200 },
		{ 1000, 7500, 0, true, 1400 },
		{ 1000, 10000, 0, true, 1600 },
		{ 1000, 15000, 0, true, 2000 },
		/* Lost time counts like lateness. */
		{ 1000, 0, 10000, true, 1600 },
		{ 1000, 5000, 5000, true, 1600 },
		/* Lateness is measured by the largest budget at most. */
		{ 1000000, 100000, 0, true, 1600 },
		{ 1000000, 0, 100000, true, 1200 },
		/* Waits that weir does not see may absorb the lateness. */
		{ 1000, 15000, 0, false, 1200 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = request_where(
		    rows[i].most_mb, rows[i].elapsed_ms, rows[i].late_us);

		facts.lost_ns = rows[i].lost_us * US;
		facts.sees_waits = rows[i].sees_waits;
		EXPECT_EQ(policy_waits(&facts), WAITS_FREE);
		facts.held_bytes += MB;
		EXPECT_EQ(policy_waits(&facts), WAITS_CHEAP);
	}
}

TEST(a_program_that_has_no_time_yet_makes_no_cheap_waits_if_it_is_late)
{
	struct request_facts facts = request_where(1000000, 0, 0);

	EXPECT_EQ(policy_waits(&facts), WAITS_CHEAP);
	facts.late_ns = 1;
	EXPECT_EQ(policy_waits(&facts), WAITS_FREE);
}

TEST(the_budget_is_less_by_the_time_that_the_host_has_lost)
{
	static const struct {
		uint64_t elapsed_ms;
		uint64_t lost_us;
		uint64_t late_us;
		bool is_late;
		uint64_t any_us;
	} rows[] = {
		{ 1000, 1000, 0, false, 4000 },
		{ 1000, 5000, 0, false, 0 },
		{ 1000, 5001, 0, true, 0 },
		{ 1000, 4000, 700, false, 300 },
		{ 1000, 4000, 1001, true, 0 },
		/* The bound is of what is left. */
		{ 100000, 250000, 0, false, 50000 },
		{ 100000, 497000, 0, false, 3000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts =
		    request_where(2000, rows[i].elapsed_ms, rows[i].late_us);

		facts.lost_ns = rows[i].lost_us * US;
		EXPECT_EQ(policy_budgets_spent(&facts) > 1, rows[i].is_late);
		EXPECT_EQ((policy_wait_prices(&facts).any_ns + US / 2) / US,
		    rows[i].any_us);
	}
}

TEST(lateness_within_the_slack_does_not_count)
{
	static const struct {
		uint64_t late_us;
		uint64_t slack_us;
		bool is_late;
		uint64_t any_us;
	} rows[] = {
		{ 6000, 0, true, 0 },
		{ 6000, 1000, false, 0 },
		{ 6000, 2000, false, 1000 },
		{ 5000, 5000, false, 5000 },
		/* It is credited up to the largest budget. */
		{ 6000, 90000, false, 5000 },
		{ 55000, 90000, false, 0 },
		{ 55001, 90000, true, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts =
		    request_where(2000, 1000, rows[i].late_us);

		facts.slack_ns = rows[i].slack_us * US;
		EXPECT_EQ(policy_budgets_spent(&facts) > 1, rows[i].is_late);
		EXPECT_EQ((policy_wait_prices(&facts).any_ns + US / 2) / US,
		    rows[i].any_us);
	}
}

TEST(where_no_wait_of_the_program_is_seen_a_late_stream_waits_by_place)
{
	struct request_facts facts = request_where(2000, 1000, 16000);

	EXPECT_EQ(policy_waits(&facts), WAITS_FREE);
	facts.sees_waits = false;
	EXPECT_EQ(policy_waits(&facts), WAITS_CHEAP);
	EXPECT_EQ(policy_wait_prices(&facts).any_ns, 0);
	facts.delay_percent = 0;
	EXPECT_EQ(policy_waits(&facts), WAITS_NONE);
}

/* They took longer than the largest budget, 50 ms, and made streams late by
 * less than one part in 200 of that. */
TEST(where_waits_were_harmless_forecasts_do_not_count)
{
	static const struct {
		uint64_t waited_ms;
		uint64_t felt_us;
		bool is_harmless;
	} rows[] = {
		{ 50, 0, false },
		{ 51, 0, true },
		{ 500, 2499, true },
		{ 500, 2500, false },
		{ 500, 400000, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request_facts facts = request_where(2000, 1000, 0);

		facts.evidence.waited_ns = rows[i].waited_ms * MS;
		facts.evidence.felt_ns = rows[i].felt_us * US;
		EXPECT_EQ(policy_wait_prices(&facts).any_ns,
		    rows[i].is_harmless ? UINT64_MAX / 4 : 5000 * US);
		facts.late_ns = 5001 * US; /* later than the budget */
		EXPECT_EQ(policy_wait_prices(&facts).any_ns, 0);
	}
}

TEST(a_wait_for_the_same_place_is_worth_what_the_budget_allows)
{
	struct request_facts facts = request_where(1000, 5000, 0);

	/* Memory is cheap here. */
	EXPECT_EQ(policy_wait_prices(&facts).any_ns, 0);
	EXPECT_EQ(policy_place_price(&facts), 25000 * US);
	facts.late_ns = 20000 * US;
	EXPECT_EQ(policy_place_price(&facts), 5000 * US);
	facts.late_ns = 30000 * US;
	EXPECT_EQ(policy_place_price(&facts), 0);
	facts.late_ns = 0;
	facts.evidence = (struct evidence){ 60000 * US, 0 };
	EXPECT_GT(policy_place_price(&facts), 1000000 * US);
	facts.is_captured = true;
	EXPECT_EQ(policy_place_price(&facts), 0);
	facts.is_captured = false;
	facts.prefer = PREFER_SPEED;
	EXPECT_EQ(policy_place_price(&facts), 0);
	facts.prefer = PREFER_BALANCE;
	facts.delay_percent = 0;
	EXPECT_EQ(policy_place_price(&facts), 0);
}

TEST(evidence_adds_up_and_old_evidence_counts_half)
{
	struct evidence evidence = { 0 };

	policy_add_evidence(&evidence, 6000LL * MS, 5 * MS);
	policy_add_evidence(&evidence, 4000LL * MS, -2 * MS);
	EXPECT_EQ(evidence.waited_ns, 10000LL * MS);
	EXPECT_EQ(evidence.felt_ns, 3 * MS);
	policy_add_evidence(&evidence, 0, -4 * MS);
	EXPECT_EQ(evidence.felt_ns, 0);
	policy_add_evidence(&evidence, 2 * MS, 6 * MS);
	EXPECT_EQ(evidence.waited_ns, 5001LL * MS);
	EXPECT_EQ(evidence.felt_ns, 3 * MS);
}

TEST(only_large_requests_of_balance_have_prices_and_no_capture)
{
	for (int prefer = PREFER_SPEED; prefer <= PREFER_MEMORY; prefer++) {
		struct request_facts facts = request_where(2000, 1000, 0);
		bool has = prefer == PREFER_BALANCE;

		facts.prefer = (enum prefer)prefer;
		EXPECT_EQ(policy_wait_prices(&facts).any_ns > 0, has);
		EXPECT_EQ(policy_wait_prices(&facts).near_ns > 0, has);
		facts.is_captured = true;
		EXPECT_EQ(policy_wait_prices(&facts).any_ns, 0);
		EXPECT_EQ(policy_wait_prices(&facts).near_ns, 0);
		facts.is_captured = false;
		facts.is_small = true;
		EXPECT_EQ(policy_wait_prices(&facts).any_ns, 0);
		EXPECT_EQ(policy_wait_prices(&facts).near_ns, 0);
	}
}

TEST(a_wait_is_worth_its_price_at_once_or_near_its_end)
{
	const struct wait_prices prices = { .near_ns = 10 * MS,
		.any_ns = 2 * MS };

	EXPECT(policy_is_worth(&prices, 0, 0));
	EXPECT(policy_is_worth(&prices, 2 * MS, 0));
	EXPECT(!policy_is_worth(&prices, 2 * MS + 1, 0));
	EXPECT(!policy_is_worth(&prices, 3 * MS, 3 * MS - 1));
	EXPECT(policy_is_worth(&prices, 3 * MS, 3 * MS));
	EXPECT(policy_is_worth(&prices, 10 * MS, 20 * MS));
	EXPECT(!policy_is_worth(&prices, 10 * MS + 1, 20 * MS));
}

TEST(a_forecast_is_the_longest_latency_less_the_age)
{
	EXPECT_EQ(policy_forecast(0, 0, 0), MS);
	EXPECT_EQ(policy_forecast(0, 0, 400 * US), 600 * US);
	EXPECT_EQ(policy_forecast(8 * MS, 0, 3 * MS), 5 * MS);
	EXPECT_EQ(policy_forecast(8 * MS, 20 * MS, 3 * MS), 17 * MS);
	EXPECT_EQ(policy_forecast(8 * MS, 20 * MS, 20 * MS), 0);
	EXPECT_EQ(policy_forecast(8 * MS, 9 * MS, 30 * MS), 0);
}
