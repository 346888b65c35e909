/*
 * plan_steady.h: which round of a recording is worth repeating.
 */
#include "tools/weir/plan/plan_steady.h"

#include <stdio.h>

#include "tests/support/test.h"

enum { MIB = 1 << 20 };

/* A round of two requests, one after the other. */
struct played {
	unsigned ms;    /* until the next round */
	unsigned place; /* of the second request: 0, that of the first */
};

/* The round that is chosen. */
static uint32_t
steady_of(const struct played *rounds, unsigned count)
{
	static const struct budget budget = { 0 };
	struct plan_requests requests;
	struct trace_error error;
	struct trace trace;
	char text[65536];
	size_t n = (size_t)snprintf(
	    text, sizeof(text), "action,addr,size,stream,time_us\n");
	unsigned us = 0;
	uint32_t round;

	for (unsigned i = 0; i < count; i++) {
		unsigned place = 0x1000000 * (1 + rounds[i].place);

		n += (size_t)snprintf(text + n, sizeof(text) - n,
		    "a,1000000,%d,0,%u\nf,1000000,%d,0,%u\n"
		    "a,%x,%d,0,%u\nf,%x,%d,0,%u\n",
		    4 * MIB, us, 4 * MIB, us, place, 5 * MIB, us, place,
		    5 * MIB, us);
		EXPECT_LT(n, sizeof(text));
		us += rounds[i].ms * 1000;
	}
	EXPECT(trace_read_text("it", text, n, &budget, &trace, &error));
	EXPECT(plan_requests_make(&trace, &requests));
	EXPECT_EQ(requests.length, 2);
	EXPECT(plan_steady_round(&trace, &requests, &round));
	plan_requests_drop(&requests);
	trace_drop(&trace);
	return round;
}

TEST(a_round_that_lies_in_few_bytes_is_worth_repeating)
{
	static const struct played rounds[] = {
		{ 5, 0 }, /* the host is ahead */
		{ 5, 0 },
		{ 100, 0 }, /* the next round lies elsewhere */
		{ 100, 1 },
		{ 100, 1 },
		{ 104, 0 }, /* it takes longer than others */
		{ 100, 0 },
		{ 100, 0 },
		{ 100, 2 },
		{ 100, 2 },
		{ 100, 2 },
	};

	EXPECT_EQ(steady_of(rounds, 11), 6);
}

TEST(of_equal_rounds_the_latest_one_with_a_next_one_counts)
{
	static const struct played rounds[] = { { 9, 1 }, { 9, 1 }, { 9, 1 },
		{ 9, 1 } };

	EXPECT_EQ(steady_of(rounds, 4), 2);
	EXPECT_EQ(steady_of(rounds, 2), 0);
}

TEST(without_a_steady_round_the_last_but_one_counts)
{
	static const struct played rounds[] = { { 9, 0 }, { 9, 1 }, { 9, 0 },
		{ 9, 1 }, { 9, 0 } };

	EXPECT_EQ(steady_of(rounds, 5), 3);
}
