/*
 * Playing a trace, where that is seen from within the process only: how it is
 * played is tested by replay_test.c.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tests/support/command.h"
#include "tests/support/device.h"
#include "tests/support/test.h"
#include "tools/weir/player.h"

static void
play_some(void)
{
	static const char rows[] = "action,addr,size,stream,time_us\n"
				   "a,1000,4096,0,0\n"
				   "f,1000,4096,0,10\n";
	const struct play_choices choices = { .limit_bytes = UINT64_MAX,
		.speed = 1 };
	char *path = test_file("rows.csv", rows, sizeof(rows) - 1);
	struct trace_error error;
	struct figures figures;
	struct trace trace;

	if (!trace_read(path, &trace, &error))
		FAIL("%s", error.text);
	EXPECT(play(&trace, &choices, &figures));
	EXPECT_EQ(figures.events, 2);
	json_decref(figures.driver_calls);
	trace_drop(&trace);
	free(path);
}

static void
expect_decay(const char *value)
{
	struct weir_option option = { .key = "" };

	for (size_t i = 0; strcmp(option.key, "decay_ms") != 0; i++)
		EXPECT_OK(weir_option_at(i, &option));
	EXPECT_STR_EQ(option.value, value);
}

TEST(the_figures_of_a_simulated_device_do_not_hang_on_the_clock_of_the_host)
{
	device_need_sim("on a GPU memory decays as it does in a program");
	play_some();
	expect_decay("off");
}

TEST(who_asks_for_decay_gets_it)
{
	conf("decay_ms:7");
	play_some();
	expect_decay("7");
}
