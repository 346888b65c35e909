/*
 * Memory of the program's own handles leaves a device that sleeps, and comes
 * back: tests/programs/driver_leaving.c does it and checks it.
 */
#include "tests/support/start.h"
#include "tests/support/test.h"

static void
is_right(const char *argument, const char *conf, const char *machine)
{
	struct command_result result =
	    start(&(struct start){ .program = "driver_leaving",
		.argument = argument,
		.preload = true,
		.variable = "WEIR_MAY_SLEEP=1",
		.second = conf,
		.machine = machine });

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "right\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

TEST(memory_of_the_programs_handles_leaves_and_comes_back)
{
	is_right("back", "WEIR_CONF=may_sleep:True", NULL);
}

TEST(its_contents_may_be_in_a_file)
{
	is_right("back", "WEIR_CONF=may_sleep:True,sleep_folder:/tmp", NULL);
	is_right("asleep", "WEIR_CONF=may_sleep:True,sleep_folder:/tmp", NULL);
}

TEST(what_is_shared_or_mapped_otherwise_stays_and_is_named)
{
	is_right("stays", "WEIR_CONF=may_sleep:True", NULL);
}

TEST(what_another_device_may_use_stays)
{
	if (!start_simulated())
		SKIP("two devices are simulated");
	is_right("peer", "WEIR_CONF=may_sleep:True", "devices:2");
}

TEST(the_program_gives_memory_back_while_it_is_away)
{
	is_right("asleep", "WEIR_CONF=may_sleep:True", NULL);
}

TEST(other_calls_on_memory_that_is_away_wait)
{
	is_right("waits", "WEIR_CONF=may_sleep:True", NULL);
}

TEST(the_numbers_of_handles_stay_valid)
{
	is_right("numbers", "WEIR_CONF=may_sleep:True", NULL);
}

TEST(the_numbers_of_handles_stay_valid_where_the_driver_uses_them_again)
{
	if (!start_simulated())
		SKIP("the driver is made to use numbers again");
	is_right("numbers", "WEIR_CONF=may_sleep:True", "reuse:1");
	is_right("asleep", "WEIR_CONF=may_sleep:True", "reuse:1");
	is_right("back", "WEIR_CONF=may_sleep:True", "reuse:1");
}

TEST_TIMEOUT(each_call_may_fail_once_or_from_then_on, 60)
{
	if (!start_simulated())
		SKIP("calls of the driver are made to fail");
	is_right("faults", "WEIR_CONF=may_sleep:True", NULL);
}
