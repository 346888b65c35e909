/*
 * Playing a trace: facts that only a caller in the same process can see.
 * replay_test.c tests the rest.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tests/support/command.h"
#include "tests/support/device.h"
#include "tests/support/test.h"
#include "tools/weir/replay/player.h"

/* Returns the peak of held bytes. */
static uint64_t
play_rows(const char *rows, size_t events, bool touch)
{
	const struct play_choices choices = {
		.limit_bytes = UINT64_MAX, .speed = 1, .touch = touch
	};
	char *path = test_file("rows.csv", rows, strlen(rows));
	struct trace_error error;
	struct figures figures;
	struct trace trace;

	if (!trace_read(path, &trace, &error))
		FAIL("%s", error.text);
	EXPECT(play(&trace, &choices, &figures));
	EXPECT_EQ(figures.events, events);
	EXPECT_EQ(figures.mismatches, 0);
	json_decref(figures.driver_calls);
	trace_drop(&trace);
	free(path);
	return figures.peak_held_bytes;
}

static void
play_some(void)
{
	play_rows("action,addr,size,stream,time_us\n"
		  "a,1000,4096,0,0\n"
		  "f,1000,4096,0,10\n",
	    2, false);
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

TEST(decay_happens_if_it_is_requested)
{
	conf("decay_ms:7");
	play_some();
	expect_decay("7");
}

/* The block belongs to stream 1 then. It serves stream 1 at once, although
 * stream 0 is busy for longer than the trace lasts. */
TEST(a_block_is_freed_on_the_stream_of_its_free_row)
{
	uint64_t peak = play_rows("action,addr,size,stream,time_us\n"
				  "k,0,1000000,0,0\n"
				  "a,1000,67108864,0,0\n"
				  "f,1000,67108864,1,10\n"
				  "a,2000,67108864,1,20\n"
				  "f,2000,67108864,1,30\n",
	    5, false);

	EXPECT_EQ(peak, 64 * MIB);
}

TEST(the_stream_that_frees_a_block_checks_its_pattern)
{
	play_rows("action,addr,size,stream,time_us\n"
		  "a,1000,4194304,0,0\n"
		  "w,0,0,1,5\n"
		  "f,1000,4194304,1,10\n"
		  "a,2000,4194304,1,20\n"
		  "f,2000,4194304,1,30\n",
	    5, true);
}
