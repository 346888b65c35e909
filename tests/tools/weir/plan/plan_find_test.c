/*
 * plan_find.h: a plan helps if it costs neither memory nor time.
 */
#include "tools/weir/plan/plan_find.h"

#include "tests/support/test.h"
#include "tools/weir/plan/tuning.h"

enum { SECOND_US = 1000000, HELD = 1000 };

/* A plan whose replay does as the one without does. */
static struct plan_found
found_alike(struct plan *plan)
{
	struct plan_figures figures = { .held = HELD,
		.waits = 100,
		.delay_us = 5000,
		.duration_us = SECOND_US };

	return (struct plan_found){
		.plan = plan, .with = figures, .without = figures
	};
}

TEST(a_plan_that_changes_nothing_helps)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	EXPECT(plan_helps(&found));
	found.plan = NULL;
	EXPECT(!plan_helps(&found));
}

/* A wait for work that is over costs the host's calls only. */
TEST(more_waits_that_delay_nothing_are_no_reason_against_a_plan)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	found.with.waits *= 10;
	EXPECT(plan_helps(&found));
	found.with.waits = 100 +
	    (uint64_t)SECOND_US / PLANNED_COST_SHARE * 1000 / PLANNED_WAIT_NS;
	EXPECT(plan_helps(&found));
	found.with.waits++;
	EXPECT(!plan_helps(&found));
}

/* Each of them counts as what it is in the recording's time. */
TEST(a_plan_by_which_streams_are_held_back_does_not_help)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	found.with.waits = 1;
	found.with.delay_us = 50000;
	EXPECT(!plan_helps(&found));
	found.without.delay_us = 50000;
	EXPECT(plan_helps(&found));
}

/* Less work may be delayed, but some that the program needs. */
TEST(a_plan_with_which_the_program_takes_longer_does_not_help)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	found.with.delay_us = 0;
	found.with.duration_us += (uint64_t)SECOND_US / PLANNED_COST_SHARE;
	EXPECT(plan_helps(&found));
	found.with.duration_us++;
	EXPECT(!plan_helps(&found));
}

/* The program takes as long. */
TEST(a_plan_may_delay_work_if_fewer_addresses_change)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	found.with.delay_us = 50000;
	found.with.repeated = found.without.repeated = 1000;
	found.without.moved = 1000 / PLANNED_MOVED_SHARE;
	EXPECT(!plan_helps(&found));
	found.without.moved++;
	EXPECT(plan_helps(&found));
	found.with.duration_us += (uint64_t)SECOND_US / PLANNED_COST_SHARE + 1;
	EXPECT(!plan_helps(&found));
}

TEST(a_plan_that_holds_more_or_lets_the_host_wait_does_not_help)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	found.with.held++;
	EXPECT(!plan_helps(&found));
	found = found_alike(&plan);
	found.with.host_waits++;
	EXPECT(!plan_helps(&found));
	found = found_alike(&plan);
	found.with.ooms++;
	EXPECT(!plan_helps(&found));
}

/* A replay of what weir recorded does not know which waits were free. */
TEST(a_plan_for_a_recording_of_weir_may_wait_as_long_as_the_program_did)
{
	struct plan plan = { 0 };
	struct plan_found found = found_alike(&plan);

	found.is_of_weir = true;
	found.without.stall_us = 30000;
	found.with.waits *= 1000;
	found.with.stall_us = 30000 + (uint64_t)SECOND_US / PLANNED_COST_SHARE;
	EXPECT(plan_helps(&found));
	found.with.stall_us++;
	EXPECT(!plan_helps(&found));
}
