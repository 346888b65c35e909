/*
 * weir replay: rows of page-locked memory.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/device.h"
#include "tests/support/test.h"

static char *
file_of(const char *rows)
{
	char *text;
	char *path;

	if (asprintf(&text, "action,addr,size,stream,time_us\n%s", rows) < 0)
		FAIL("out of memory");
	path = test_file("rows.csv", text, strlen(text));
	free(text);
	return path;
}

static double
figure(const json_t *json, const char *key)
{
	json_t *value = json_object_get(json, key);

	if (!json_is_number(value))
		FAIL("no number '%s'", key);
	return json_number_value(value);
}

/* Replay a file with a flag, or NULL. */
static json_t *
replayed_file(const char *path, const char *flag)
{
	struct command_result result =
	    command_weir("replay", "--json", "--check", path, flag, NULL);
	json_t *json;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json);
	command_free(&result);
	return json;
}

static json_t *
replayed(const char *rows, const char *flag)
{
	char *path = file_of(rows);
	json_t *json = replayed_file(path, flag);

	free(path);
	return json;
}

TEST(page_locked_memory_has_figures_of_its_own)
{
	json_t *json = replayed("a,1000,4096,0,0\n"
				"A,2000,100000000,0,10\n"
				"A,3000,50000000,0,20\n"
				"F,2000,100000000,0,30\n"
				"A,4000,25000000,0,40\n",
	    NULL);

	EXPECT_EQ(figure(json, "allocs"), 1);
	EXPECT_EQ(figure(json, "peak_live_bytes"), 4096);
	EXPECT_EQ(figure(json, "pinned_allocs"), 3);
	EXPECT_EQ(figure(json, "pinned_peak_live_bytes"), 150000000);
	EXPECT_GE(figure(json, "pinned_peak_held_bytes"), 150000000);
	EXPECT_LE(figure(json, "pinned_peak_held_bytes"), 170000000);
	EXPECT_GT(figure(json, "pinned_efficiency"), 0.88);
	EXPECT_GT(figure(json, "pinned_driver_calls"), 0);
	EXPECT_GT(figure(json, "pin_us"), 0);
	json_decref(json);
}

TEST(a_trace_without_page_locked_memory_has_no_such_figures)
{
	json_t *json = replayed("a,1000,4096,0,0\n", NULL);

	EXPECT_NULL(json_object_get(json, "pinned_allocs"));
	EXPECT_NULL(json_object_get(json, "pin_delay_us"));
	json_decref(json);
}

/* The first pinning of memory is no delay, in one request or in several. */
TEST(memory_that_is_pinned_for_the_first_time_is_no_delay)
{
	json_t *json = replayed("A,1000,100000000,0,0\n"
				"A,2000,50000000,0,10\n"
				"A,3000,200000000,0,20\n"
				"A,4000,200000000,0,30\n"
				"A,5000,70000000,0,40\n",
	    NULL);

	EXPECT_GT(figure(json, "pin_us"), 0);
	EXPECT_EQ(figure(json, "pin_delay_us"), 0);
	EXPECT_EQ(figure(json, "pin_delay_share"), 0);
	json_decref(json);
}

/* How much is held if a second block is allocated at a time. The first one was
 * freed before, and stream 0 used it. */
static double
held_with_second(const char *use, const char *time_us)
{
	char rows[300];
	json_t *json;
	double held;

	snprintf(rows, sizeof(rows),
	    "A,1000,100000000,0,0\n"
	    "%s"
	    "F,1000,100000000,0,900000\n"
	    "A,2000,100000000,0,%s\n",
	    use, time_us);
	json = replayed(rows, NULL);
	held = figure(json, "pinned_peak_held_bytes");
	json_decref(json);
	return held;
}

TEST(a_recorded_block_is_not_used_again_before_its_work_is_done)
{
	device_need_sim("times are exact there");
	EXPECT_LT(held_with_second("k,0,5000000,0,10\n", "900001"), 120e6);
	EXPECT_GT(
	    held_with_second("k,0,5000000,0,10\nR,1000,1,0,20\n", "900001"),
	    200e6);
	EXPECT_LT(
	    held_with_second("k,0,5000000,0,10\nR,1000,1,0,20\n", "8000000"),
	    120e6);
}

TEST(without_rows_of_work_a_use_lasts_until_the_completion)
{
	char rows[] = "A,1000,100000000,0,0\n"
		      "R,1000,100000000,0,10\n"
		      "F,1000,100000000,0,900000\n"
		      "A,2000,100000000,0,900001\n"
		      "C,1000,100000000,0,2000000\n"
		      "A,3000,100000000,0,2500000\n";
	json_t *json;

	device_need_sim("times are exact there");
	json = replayed(rows, NULL);
	EXPECT_GT(figure(json, "pinned_peak_held_bytes"), 200e6);
	EXPECT_LT(figure(json, "pinned_peak_held_bytes"), 240e6);
	json_decref(json);
}

TEST(bytes_of_page_locked_blocks_stay_until_their_free)
{
	json_t *json = replayed("A,1000,10000001,0,0\n"
				"A,2000,67,0,0\n"
				"k,0,5000,1,10\n"
				"R,1000,1,1,20\n"
				"R,2000,1,1,20\n"
				"F,1000,1,0,30\n"
				"F,2000,1,0,30\n"
				"A,3000,10000000,0,40\n"
				"A,4000,64,0,40\n"
				"F,3000,1,0,90000\n",
	    "--touch");

	EXPECT_EQ(figure(json, "mismatches"), 0);
	json_decref(json);
}

TEST(page_locked_memory_that_there_is_not_is_a_failed_request)
{
	json_t *json = replayed("A,1000,100000000000000,0,0\n"
				"R,1000,1,0,1\n"
				"F,1000,1,0,2\n"
				"A,2000,4096,0,3\n",
	    NULL);

	EXPECT_EQ(figure(json, "ooms"), 1);
	EXPECT_EQ(figure(json, "pinned_peak_live_bytes"), 4096);
	json_decref(json);
}

TEST(people_see_a_table_of_page_locked_memory)
{
	char *path = file_of("A,1000,104857600,0,0\n");
	char *other = file_of("A,1000,104857600,0,0\n");
	struct command_result result =
	    command_weir("replay", path, other, NULL);

	EXPECT_STR_HAS(result.out, "\npage-locked ");
	EXPECT_STR_HAS(result.out, "100.00 MiB");
	EXPECT_STR_HAS(result.out, "of the time");
	command_free(&result);
	free(path);
	free(other);
}

/* ---- Programs -------------------------------------------------------- */

enum { SEEDS = 8 };

/* Run a program with other seeds. Never may driver calls take more than a
 * hundredth of its time, however short it is. Returns how much is held over
 * what is live, in the mean. */
static double
held_over_live(const char *kind, const char *events, const char *conf)
{
	double sum = 0;

	for (int n = 1; n <= SEEDS; n++) {
		char seed[20];
		snprintf(seed, sizeof(seed), "--seed=%d", n);
		struct command_result made =
		    command_weir("generate", kind, events, seed, NULL);
		char *path = test_file("made.csv", made.out, strlen(made.out));
		json_t *json = replayed_file(path, conf);

		EXPECT_EQ(made.status, 0);
		EXPECT_EQ(figure(json, "ooms"), 0);
		EXPECT_LE(figure(json, "pin_delay_us"),
		    0.01 * figure(json, "duration_us"));
		sum += figure(json, "pinned_peak_held_bytes") /
		    figure(json, "pinned_peak_live_bytes");
		json_decref(json);
		command_free(&made);
		free(path);
	}
	return sum / SEEDS;
}

TEST(a_training_that_offloads_holds_hardly_more_than_is_live)
{
	device_need_sim("its machine has the memory, and exact times");
	EXPECT_LE(held_over_live("offload", "--events=20000", NULL), 1.05);
}

TEST(a_loader_holds_little_more_than_is_live)
{
	device_need_sim("times are exact there");
	EXPECT_LE(held_over_live("loader", "--events=50000", NULL), 1.2);
}

TEST(a_loader_of_few_seconds_holds_little_more_than_is_live)
{
	device_need_sim("times are exact there");
	EXPECT_LE(held_over_live("loader", "--events=20000", NULL), 1.2);
}

/* Pages that cannot be moved are given back and pinned again, which takes
 * longer, so more is held. */
TEST(without_handles_a_loader_holds_more_and_is_delayed_as_little)
{
	device_need_sim("times are exact there");
	EXPECT_LE(held_over_live("loader", "--events=20000",
		      "--conf=pinned_source:system"),
	    1.5);
	EXPECT_LE(held_over_live("loader", "--events=20000",
		      "--conf=pinned_source:driver"),
	    1.5);
}

/* Blocks of up to 192 MiB, of any size: a segment has room for several. (Pages
 * of `system` would take memory of this machine.) */
TEST(without_handles_a_training_that_offloads_holds_little_more)
{
	device_need_sim("its machine has the memory, and exact times");
	EXPECT_LE(held_over_live("offload", "--events=20000",
		      "--conf=pinned_source:driver"),
	    1.3);
}

/* Pages are moved and given back in the first rounds only. */
TEST(a_loader_that_repeats_its_sizes_soon_makes_no_driver_calls)
{
	struct command_result made = command_weir(
	    "generate", "loader", "--repeat=16", "--events=50000", NULL);
	char *path = test_file("made.csv", made.out, strlen(made.out));
	json_t *json = replayed_file(path, NULL);

	device_need_sim("times are exact there");
	EXPECT_EQ(figure(json, "pinned_driver_calls_late"), 0);
	json_decref(json);
	command_free(&made);
	free(path);
}
