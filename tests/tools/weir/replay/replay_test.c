/*
 * weir replay: the figures of known traces, and all failures.
 *
 * The expected sums of the recorded traces were counted from their rows; see
 * tests/data/README.md. Traces of a few rows are written here.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

#define HEADER "action,addr,size,stream,time_us\n"
#define MIB UINT64_C(1048576)

static json_t *
parsed(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);

	if (json == NULL)
		FAIL("not JSON: %s\n%s", error.text, text);
	return json;
}

static uint64_t
number(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	if (!json_is_integer(value))
		FAIL("no number '%s'", key);
	return (uint64_t)json_integer_value(value);
}

static double
real(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	if (!json_is_real(value))
		FAIL("no real number '%s'", key);
	return json_real_value(value);
}

static char *
trace_of(const char *rows)
{
	char *text;
	char *path;
	int length = asprintf(&text, HEADER "%s", rows);

	EXPECT_GT(length, 0);
	path = test_file("rows.csv", text, (size_t)length);
	free(text);
	return path;
}

/* Replay one trace with --check and a flag, or NULL. The replay must succeed.
 */
static json_t *
replayed_with(const char *path, const char *flag)
{
	struct command_result result =
	    command_weir("replay", "--json", "--check", path, flag, NULL);
	json_t *json;

	if (result.status != 0)
		FAIL("exit status %d: %s", result.status, result.err);
	EXPECT_STR_EQ(result.err, "");
	json = parsed(result.out);
	command_free(&result);
	return json;
}

static json_t *
replayed(const char *rows)
{
	char *path = trace_of(rows);
	json_t *json = replayed_with(path, NULL);

	free(path);
	return json;
}

/* Device memory over time is exact on the simulated device only. */
static bool
simulated(const json_t *json)
{
	return json_is_true(json_object_get(json, "simulated"));
}

/* ---- Figures --------------------------------------------------------- */

TEST(a_trace_of_several_streams_has_the_figures_of_its_rows)
{
	char *path = test_data("fsdp_prefetch.csv.xz");
	json_t *json = replayed_with(path, NULL);

	EXPECT_STR_EQ(
	    json_string_value(json_object_get(json, "name")), "fsdp_prefetch");
	EXPECT_EQ(number(json, "events"), 11607);
	EXPECT_EQ(number(json, "allocs"), 3553);
	EXPECT_EQ(number(json, "peak_live_bytes"), 1905000448);
	EXPECT_EQ(number(json, "recorded_held_bytes"), 10533994496);
	EXPECT_EQ(number(json, "ooms"), 0);
	EXPECT_GE(number(json, "peak_active_bytes"), 1905000448);
	EXPECT_GE(
	    number(json, "peak_held_bytes"), number(json, "peak_active_bytes"));
	EXPECT_GE(number(json, "peak_held_driver_bytes"),
	    number(json, "peak_live_bytes"));
	EXPECT_GT(number(json, "device_allocs"), 0);
	/* The recorded allocator held 10.5 GB. */
	EXPECT_LT(number(json, "peak_held_bytes"), 10533994496);
	json_decref(json);
	free(path);
}

TEST(a_trace_of_one_stream_has_the_figures_of_its_rows)
{
	char *path = test_data("moe_start.csv");
	json_t *json = replayed_with(path, NULL);

	EXPECT_STR_EQ(
	    json_string_value(json_object_get(json, "name")), "moe_start");
	EXPECT_EQ(number(json, "events"), 2400);
	EXPECT_EQ(number(json, "allocs"), 955);
	EXPECT_EQ(number(json, "peak_live_bytes"), 6082170576);
	EXPECT_EQ(number(json, "peak_pending_bytes"), 0);
	EXPECT_EQ(number(json, "host_waits"), 0);
	EXPECT_EQ(number(json, "gpu_waits"), 0);
	EXPECT_NULL(json_object_get(json, "recorded_held_bytes"));
	json_decref(json);
	free(path);
}

TEST(efficiency_is_peak_live_over_peak_held)
{
	json_t *json = replayed("a,1000,1048576,0,0\n"
				"a,2000,20971520,0,1\n"
				"f,1000,1048576,0,2\n"
				"a,3000,524288,0,3\n"
				"f,2000,20971520,0,4\n");

	EXPECT_EQ(number(json, "peak_live_bytes"), 21 * MIB);
	EXPECT_EQ(number(json, "peak_active_bytes"), 21 * MIB);
	EXPECT_EQ((uint64_t)(1e6 * real(json, "efficiency")),
	    1000000 * number(json, "peak_live_bytes") /
		number(json, "peak_held_bytes"));
	EXPECT(real(json, "seconds") >= 0);
	json_decref(json);
}

TEST(a_trace_without_rows_has_figures_of_zero)
{
	json_t *json = replayed("");

	EXPECT_EQ(number(json, "events"), 0);
	EXPECT_EQ(number(json, "peak_held_bytes"), 0);
	EXPECT_EQ(number(json, "device_allocs"), 0);
	EXPECT(real(json, "efficiency") == 0);
	json_decref(json);
}

TEST(driver_calls_are_those_of_weir_by_entry_point)
{
	json_t *json = replayed("a,1000,20971520,0,0\n"
				"f,1000,20971520,0,1\n"
				"a,1000,20971520,0,2\n"
				"f,1000,20971520,0,3\n");
	json_t *calls = json_object_get(json, "driver_calls");

	if (!simulated(json)) {
		EXPECT(json_is_null(calls));
		SKIP("driver calls are counted on the simulated device only");
	}
	EXPECT(json_is_object(calls));
	EXPECT_GE(number(calls, "cuMemCreate"), 1);
	EXPECT_EQ(number(calls, "cuMemCreate"), number(calls, "cuMemMap"));
	/* The replay's own calls of the driver do not count. */
	EXPECT_NULL(json_object_get(calls, "cuLaunchKernel"));
	EXPECT_NULL(json_object_get(calls, "cuMemGetInfo"));
	json_decref(json);
}

/* ---- What memory costs ----------------------------------------------- */

TEST(map_calls_are_those_of_the_driver)
{
	char *path = test_data("fsdp_prefetch.csv.xz");
	json_t *json = replayed_with(path, NULL);
	json_t *calls = json_object_get(json, "driver_calls");

	EXPECT_GT(number(json, "map_calls"), 0);
	EXPECT_LT(number(json, "map_calls_late"), number(json, "map_calls"));
	if (simulated(json)) {
		EXPECT_EQ(number(json, "map_calls"), number(calls, "cuMemMap"));
		EXPECT_EQ(number(json, "unmap_calls"),
		    (uint64_t)json_integer_value(
			json_object_get(calls, "cuMemUnmap")));
	}
	json_decref(json);
	free(path);
}

TEST(late_map_calls_come_after_the_first_tenth_of_the_rows)
{
	/* Row 3 of 20 is the first late row. */
	json_t *early = replayed("a,1000,20971520,0,0\n"
				 "k,0,1,0,1\nk,0,1,0,1\nk,0,1,0,1\n"
				 "k,0,1,0,1\nk,0,1,0,1\nk,0,1,0,1\n"
				 "k,0,1,0,1\nk,0,1,0,1\nk,0,1,0,1\n");
	json_t *late = replayed("k,0,1,0,1\n"
				"k,0,1,0,1\nk,0,1,0,1\nk,0,1,0,1\n"
				"k,0,1,0,1\nk,0,1,0,1\nk,0,1,0,1\n"
				"k,0,1,0,1\nk,0,1,0,1\n"
				"a,1000,20971520,0,2\n");

	EXPECT_GT(number(early, "map_calls"), 0);
	EXPECT_EQ(number(early, "map_calls_late"), 0);
	EXPECT_EQ(number(late, "map_calls"), number(early, "map_calls"));
	EXPECT_EQ(number(late, "map_calls_late"), number(late, "map_calls"));
	json_decref(early);
	json_decref(late);
}

TEST(the_duration_ends_with_the_last_work)
{
	json_t *json = replayed("k,0,30000,0,0\n"
				"k,0,30000,0,0\n"
				"k,0,20000,1,1000\n"
				"k,0,10,2,2000\n"
				"w,0,0,3,2000\n"
				"k,0,5000,3,2000\n");

	EXPECT_GE(number(json, "duration_us"), 65000);
	EXPECT_LT(number(json, "duration_us"), 80000);
	if (simulated(json)) {
		EXPECT_LT(number(json, "duration_us"), 65100);
		/* The program's own order does not count as a wait of weir. */
		EXPECT_EQ(number(json, "gpu_wait_us"), 0);
		EXPECT_EQ(number(json, "gpu_stall_us"), 0);
	} else {
		EXPECT(json_is_null(json_object_get(json, "gpu_wait_us")));
		EXPECT(json_is_null(json_object_get(json, "gpu_stall_us")));
	}
	EXPECT_EQ(number(json, "gpu_waits"), 0);
	json_decref(json);
}

/* As memory of PyTorch's graphs. */
TEST(the_memory_of_a_private_pool_serves_no_other_request)
{
	static const char rows[] = "a,1000,20971520,1,0\n"
				   "f,1000,20971520,1,0\n"
				   "p,0,0,1,0\n"
				   "a,2000,20971520,1,0\n"
				   "f,2000,20971520,1,0\n";
	char *text;
	json_t *json = replayed(rows);

	EXPECT_EQ(number(json, "peak_held_bytes"), 20 * MIB);
	json_decref(json);
	EXPECT_GT(asprintf(&text, "p,0,3,1,0\n%s", rows), 0);
	json = replayed(text);
	EXPECT_EQ(number(json, "peak_held_bytes"), 40 * MIB);
	json_decref(json);
	free(text);
}

/* The host is 29 ms behind after its wait, and so is the last row. */
TEST(rows_behind_a_wait_of_the_host_are_as_late_as_it)
{
	json_t *json = replayed("k,0,30000,0,0\n"
				"h,0,0,0,1000\n"
				"k,0,10000,1,2000\n");

	EXPECT_GE(number(json, "duration_us"), 41000);
	if (simulated(json))
		EXPECT_LT(number(json, "duration_us"), 41100);
	json_decref(json);
}

TEST(a_wait_of_the_host_for_what_is_over_moves_no_row)
{
	json_t *json = replayed("k,0,3000,0,0\n"
				"h,0,0,0,5000\n"
				"k,0,10000,1,6000\n");

	EXPECT_GE(number(json, "duration_us"), 16000);
	if (simulated(json))
		EXPECT_LT(number(json, "duration_us"), 16100);
	json_decref(json);
}

/* Under this policy weir waits on the GPU where it could have grown. */
TEST(a_wait_stalls_a_stream_and_delays_the_work_behind_it)
{
	char *path = trace_of("a,1000,20971520,0,0\n"
			      "k,0,50000,1,0\n"
			      "r,1000,20971520,1,0\n"
			      "f,1000,20971520,0,0\n"
			      "a,2000,20971520,0,10000\n"
			      "k,0,1000,0,20000\n"
			      "f,2000,20971520,0,20000\n"
			      "c,1000,20971520,0,50000\n");
	json_t *json = replayed_with(path, "--conf=prefer:memory");

	EXPECT_EQ(number(json, "peak_held_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "gpu_waits"), 1);
	EXPECT_EQ(number(json, "host_waits"), 0);
	EXPECT_GE(number(json, "duration_us"), 51000);
	if (simulated(json)) {
		EXPECT_GE(number(json, "gpu_stall_us"), 39900);
		EXPECT_LE(number(json, "gpu_stall_us"), 40100);
	}
	json_decref(json);
	free(path);
}

TEST(work_keeps_the_using_stream_busy_where_there_is_any)
{
	/* The work ends long before the recorded completion. */
	json_t *json = replayed("a,1000,20971520,0,0\n"
				"k,0,5000,1,0\n"
				"r,1000,20971520,1,1000\n"
				"f,1000,20971520,0,1000\n"
				"a,2000,20971520,0,300000\n"
				"c,1000,20971520,0,900000\n");

	EXPECT_EQ(number(json, "peak_active_bytes"), 20 * MIB);
	json_decref(json);
}

/* ---- Streams that end ------------------------------------------------ */

TEST(a_stream_ends_and_its_number_comes_again)
{
	char *path = trace_of("a,1000,20971520,1,0\n"
			      "k,0,1000,1,0\n"
			      "f,1000,20971520,1,1\n"
			      "e,0,0,1,2\n"
			      "a,2000,20971520,1,5000\n"
			      "f,2000,20971520,1,5001\n"
			      "e,0,0,1,5002\n"
			      "e,0,0,1,5003\n");
	json_t *json = replayed_with(path, "--touch");

	EXPECT_EQ(number(json, "allocs"), 2);
	/* The first stream's memory serves the second stream. */
	EXPECT_EQ(number(json, "peak_active_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "mismatches"), 0);
	json_decref(json);
	free(path);
}

TEST(a_block_may_outlive_its_stream)
{
	char *path = trace_of("a,1000,20971520,1,0\n"
			      "a,2000,512,1,0\n"
			      "w,0,1,0,1\n"
			      "e,0,0,1,2\n"
			      "k,0,1000,0,3\n"
			      "r,1000,20971520,0,4\n"
			      "f,1000,20971520,1,4\n"
			      "a,3000,20971520,1,5\n"
			      "c,1000,20971520,1,1000\n"
			      "f,3000,20971520,1,2000\n");
	json_t *json = replayed_with(path, "--touch");

	EXPECT_EQ(number(json, "allocs"), 3);
	EXPECT_EQ(number(json, "mismatches"), 0);
	json_decref(json);
	free(path);
}

/* The `c` row says that the block was in use after its free. */
TEST(another_stream_frees_a_block_after_its_last_use)
{
	static const char *const uses[] = { "", "r,1000,10244,2,5\n" };

	for (size_t i = 0; i < sizeof(uses) / sizeof(*uses); i++) {
		char rows[256];
		snprintf(rows, sizeof(rows),
		    "a,1000,10244,1,5\n"
		    "%s"
		    "f,1000,10244,0,5\n"
		    "a,2000,512,0,7\n"
		    "c,1000,10244,0,660\n",
		    uses[i]);
		char *path = trace_of(rows);
		json_t *json = replayed_with(path, "--touch");

		EXPECT_EQ(number(json, "allocs"), 2);
		EXPECT_EQ(number(json, "mismatches"), 0);
		json_decref(json);
		free(path);
	}
}

/* ---- Streams --------------------------------------------------------- */

TEST(a_recorded_block_is_pending_until_its_completion)
{
	json_t *json = replayed("a,1000,20971520,0,0\n"
				"r,1000,20971520,1,1000\n"
				"f,1000,20971520,0,1000\n"
				"a,2000,20971520,2,20000\n"
				"c,1000,20971520,0,50000\n"
				"f,2000,20971520,2,60000\n");

	EXPECT_EQ(number(json, "peak_pending_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "peak_live_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "host_waits"), 0);
	json_decref(json);
}

TEST(a_recorded_block_serves_its_stream_after_its_completion)
{
	json_t *json = replayed("a,1000,20971520,0,0\n"
				"r,1000,20971520,1,1000\n"
				"f,1000,20971520,0,1000\n"
				"c,1000,20971520,0,20000\n"
				"a,2000,20971520,0,90000\n"
				"f,2000,20971520,0,90001\n");

	EXPECT_EQ(number(json, "peak_pending_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "peak_active_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "gpu_waits"), 0);
	EXPECT_EQ(number(json, "host_waits"), 0);
	json_decref(json);
}

TEST(a_use_on_a_stream_that_is_not_named_keeps_a_block_pending)
{
	json_t *json = replayed("a,1000,20971520,0,0\n"
				"f,1000,20971520,0,1000\n"
				"a,2000,512,0,1001\n"
				"c,1000,20971520,0,50000\n"
				"f,2000,512,0,60000\n");

	EXPECT_EQ(number(json, "peak_pending_bytes"), 20 * MIB);
	json_decref(json);
}

TEST(a_completion_in_the_same_call_as_the_free_is_no_use)
{
	json_t *json = replayed("a,1000,20971520,0,0\n"
				"f,1000,20971520,0,1000\n"
				"c,1000,20971520,0,1002\n"
				"a,2000,512,0,2000\n");

	EXPECT_EQ(number(json, "peak_pending_bytes"), 0);
	json_decref(json);
}

TEST(many_uses_at_once_end_at_different_times)
{
	enum { USES = 100 };
	char rows[USES * 200];
	size_t length = 0;
	json_t *json;

	for (unsigned i = 0; i < USES; i++)
		length += (size_t)sprintf(rows + length,
		    "a,%x,2097152,0,%u\nr,%x,2097152,%u,%u\n"
		    "f,%x,2097152,0,%u\n",
		    0x1000 * (i + 1), i, 0x1000 * (i + 1), 1 + i, i,
		    0x1000 * (i + 1), i);
	/* The uses end in the reverse of their order, which one timer cannot
	 * follow. */
	for (unsigned i = USES; i-- > 0;)
		length += (size_t)sprintf(rows + length, "c,%x,2097152,0,%u\n",
		    0x1000 * (i + 1), 100000 - i);
	json = replayed(rows);
	EXPECT_EQ(number(json, "allocs"), USES);
	EXPECT_EQ(number(json, "ooms"), 0);
	EXPECT_EQ(number(json, "peak_live_bytes"), 2 * MIB);
	json_decref(json);
}

/* ---- Options --------------------------------------------------------- */

TEST(a_limit_leads_to_failed_requests_and_the_rest_goes_on)
{
	char *path = trace_of("a,1000,20971520,0,0\n"
			      "a,2000,83886080,0,1\n"
			      "r,2000,83886080,1,2\n"
			      "f,2000,83886080,0,2\n"
			      "c,2000,83886080,0,3\n"
			      "a,3000,1048576,0,4\n"
			      "f,1000,20971520,0,5\n"
			      "f,3000,1048576,0,6\n");
	json_t *json = replayed_with(path, "--limit=64M");

	EXPECT_EQ(number(json, "ooms"), 1);
	EXPECT_EQ(number(json, "allocs"), 3);
	EXPECT_EQ(number(json, "limit_bytes"), 64 * MIB);
	EXPECT_EQ(number(json, "peak_live_bytes"), 21 * MIB);
	EXPECT_LE(number(json, "peak_held_bytes"), 64 * MIB);
	json_decref(json);
	free(path);
}

TEST(a_limit_holds_over_a_whole_trace)
{
	char *path = test_data("moe_start.csv");
	json_t *json = replayed_with(path, "--limit=3G");

	EXPECT_GT(number(json, "ooms"), 0);
	EXPECT_LE(number(json, "peak_held_bytes"), UINT64_C(3) << 30);
	EXPECT_LE(number(json, "peak_held_driver_bytes"),
	    (UINT64_C(3) << 30) + 64 * MIB);
	json_decref(json);
	free(path);
}

TEST(options_change_the_replay)
{
	char *path = trace_of("a,1000,512,0,0\nf,1000,512,0,1\n");
	json_t *json = replayed_with(path, "--conf=expandable_segments:False");

	EXPECT_STR_EQ(json_string_value(json_object_get(json, "conf")),
	    "expandable_segments:False");
	/* One driver segment of the small pool. */
	EXPECT_EQ(number(json, "peak_held_bytes"), 2 * MIB);
	if (simulated(json))
		EXPECT_NULL(json_object_get(
		    json_object_get(json, "driver_calls"), "cuMemCreate"));
	json_decref(json);
	free(path);
}

TEST(speed_moves_the_rows_and_their_uses_together)
{
	char *path = trace_of("a,1000,20971520,0,0\n"
			      "r,1000,20971520,1,1000\n"
			      "f,1000,20971520,0,1000\n"
			      "c,1000,20971520,0,400000\n"
			      "a,2000,20971520,0,500000\n");
	json_t *json = replayed_with(path, "--speed=10");

	EXPECT_EQ(number(json, "peak_pending_bytes"), 20 * MIB);
	EXPECT_EQ(number(json, "peak_active_bytes"), 20 * MIB);
	if (!simulated(json))
		EXPECT_GE((uint64_t)(1e3 * real(json, "seconds")), 50);
	json_decref(json);
	free(path);
}

/* The first row is a fifth of a second late on average. */
TEST(rows_are_late_at_random_by_no_more_than_is_asked_for)
{
	char *path = trace_of("a,1000,20971520,0,0\n"
			      "f,1000,20971520,0,10\n"
			      "a,2000,20971520,0,20\n");
	uint64_t duration[4];

	for (int i = 0; i < 4; i++) {
		char seed[32];

		snprintf(seed, sizeof(seed), "--seed=%d", i);
		struct command_result result = command_weir("replay", "--json",
		    "--sim", "--late=400000", seed, path, NULL);
		json_t *json = parsed(result.out);
		duration[i] = number(json, "duration_us");
		EXPECT_LE(duration[i], 400020);
		EXPECT_EQ(number(json, "allocs"), 2);
		json_decref(json);
		command_free(&result);
	}
	EXPECT(duration[0] != duration[1] || duration[0] != duration[2]);
	EXPECT_GT(
	    duration[0] + duration[1] + duration[2] + duration[3], 100000);
	free(path);
}

/* ---- Content, and the smallest limit --------------------------------- */

TEST(bytes_written_to_blocks_stay_until_their_free)
{
	static const char *const traces[] = { "fsdp_prefetch.csv.xz",
		"moe_start.csv" };

	for (size_t i = 0; i < 2; i++) {
		char *path = test_data(traces[i]);
		json_t *json = replayed_with(path, "--touch");
		json_t *calls = json_object_get(json, "driver_calls");

		EXPECT_EQ(number(json, "mismatches"), 0);
		/* Calls that verify patterns do not count as calls of weir. */
		EXPECT_NULL(json_object_get(calls, "cuLaunchKernel"));
		json_decref(json);
		free(path);
	}
}

TEST(without_touch_content_is_not_reported)
{
	json_t *json = replayed("a,1000,512,0,0\n");

	EXPECT_NULL(json_object_get(json, "mismatches"));
	EXPECT_NULL(json_object_get(json, "fit_bytes"));
	json_decref(json);
}

/* The number of requests that fail at this limit. */
static uint64_t
ooms_at(const char *path, uint64_t limit)
{
	char flag[64];
	json_t *json;
	uint64_t ooms;

	snprintf(flag, sizeof(flag), "--limit=%ju", (uintmax_t)limit);
	json = replayed_with(path, flag);
	ooms = number(json, "ooms");
	json_decref(json);
	return ooms;
}

TEST(a_trace_runs_at_the_limit_that_fits_and_not_below)
{
	char *path = test_data("moe_start.csv");
	json_t *json = replayed_with(path, "--fit");
	uint64_t fit = number(json, "fit_bytes");

	EXPECT_GE(fit, number(json, "peak_live_bytes"));
	/* Near a limit, memory arrives in smaller pieces than without one, and
	 * lies at other addresses. This may need a little more. */
	uint64_t held = number(json, "peak_held_bytes");
	EXPECT_LE(fit, held + held / 100);
	EXPECT_EQ(fit % (2 * MIB), 0);
	/* The figures are those without a limit. */
	EXPECT_EQ(number(json, "events"), 2400);
	EXPECT_EQ(number(json, "ooms"), 0);
	EXPECT_EQ(ooms_at(path, fit), 0);
	EXPECT_GT(ooms_at(path, fit - 2 * MIB), 0);
	json_decref(json);
	free(path);
}

TEST(a_search_on_a_terminal_shows_how_far_it_is)
{
	char *weir = test_build("bin/weir");
	char *path = test_data("moe_start.csv");
	char *text = command_on_terminal((const char *const[]){
	    weir, "replay", "--sim", "--fit", path, NULL });

	EXPECT_STR_HAS(text, "\r\033[Kfit: limit ");
	EXPECT_STR_HAS(text, ", trial 3 of about ");
	/* The line is removed at the end. */
	EXPECT_STR_EQ(text + strlen(text) - strlen("\r\033[K"), "\r\033[K");
	free(text);
	free(path);
	free(weir);
}

TEST(a_trace_that_never_runs_has_no_limit_that_fits)
{
	char *path = trace_of("a,1000,1125899906842624,0,0\n");
	json_t *json = replayed_with(path, "--fit");

	EXPECT_EQ(number(json, "ooms"), 1);
	EXPECT(json_is_null(json_object_get(json, "fit_bytes")));
	json_decref(json);
	free(path);
}

TEST(the_limit_that_fits_is_in_the_table)
{
	char *path = trace_of("a,1000,20971520,0,0\n");
	struct command_result result =
	    command_weir("replay", "--fit", path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "fit/live");
	EXPECT_STR_HAS(result.out, "20.00 MiB     1.000");
	command_free(&result);
	result = command_weir("replay", path, NULL);
	EXPECT_NULL(strstr(result.out, "fit"));
	command_free(&result);
	free(path);
}

/* ---- Efficiency ------------------------------------------------------ */

/* Live bytes must be at least this share of the held bytes at their peak, in
 * percent. */
static void
expect_efficiency(const char *name, const char *flag, double percent)
{
	char *path = test_data(name);
	json_t *json = replayed_with(path, flag);

	if (100 * real(json, "efficiency") < percent)
		FAIL("%s: %.1f %% of what is held is alive, not %.0f %%", name,
		    100 * real(json, "efficiency"), percent);
	EXPECT_EQ(number(json, "host_waits"), 0);
	EXPECT_EQ(number(json, "ooms"), 0);
	json_decref(json);
	free(path);
}

TEST(one_stream_holds_little_more_than_the_live_bytes)
{
	expect_efficiency("moe_start.csv", NULL, 97);
	expect_efficiency("moe_start.csv", "--conf=prefer:memory", 98);
}

TEST(several_streams_hold_little_more_if_memory_is_preferred)
{
	expect_efficiency("fsdp_prefetch.csv.xz", NULL, 65);
	expect_efficiency("fsdp_prefetch.csv.xz", "--late=1000", 65);
	expect_efficiency("fsdp_prefetch.csv.xz", "--conf=prefer:memory", 90);
}

/* weir waits for all free memory and uses the place that leaves least. It need
 * not map so much memory that the program keeps calling the driver: a call for
 * a hundred events. */
TEST(memory_that_is_preferred_is_seldom_mapped_once_the_program_runs)
{
	char *path = test_data("fsdp_prefetch.csv.xz");
	json_t *json = replayed_with(path, "--conf=prefer:memory");

	EXPECT_LE(number(json, "map_calls_late") * 100, number(json, "events"));
	json_decref(json);
	free(path);
}

/* ---- Again -------------------------------------------------------------- */

/* The figures of one replay, without its time on the host. */
static char *
figures(const char *trace, const char *layout)
{
	char *weir = test_build("bin/weir");
	const char *const argv[] = { "sh", "-c", layout, weir, trace, NULL };
	struct command_result result = command_run(argv);
	json_t *json;
	char *text;

	if (result.status != 0)
		FAIL("%s: %s", layout, result.err);
	json = parsed(result.out);
	if (!simulated(json))
		SKIP("a GPU takes its own time");
	EXPECT_EQ(json_object_del(json, "seconds"), 0);
	text = json_dumps(json, JSON_SORT_KEYS);
	EXPECT_NOT_NULL(text);
	json_decref(json);
	command_free(&result);
	free(weir);
	return text;
}

/* A replay depends on its trace only, and not on the addresses of the process,
 * which are different each time. */
TEST(a_replay_gives_the_same_figures_each_time)
{
	static const char *const layouts[] = { "exec \"$0\" replay --json $1",
		"exec \"$0\" replay --json $1",
		"A=$(printf %9000d 1) exec \"$0\" replay --json $1" };
	struct command_result trace =
	    command_weir("generate", "--events=20000", "reduce", NULL);
	char *path = test_file("reduce.csv", trace.out, strlen(trace.out));
	char *first = NULL;

	EXPECT_EQ(trace.status, 0);
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		char *again = figures(path, layouts[i]);

		if (first == NULL)
			first = strdup(again);
		EXPECT_STR_EQ(again, first);
		free(again);
	}
	command_free(&trace);
	free(first);
	free(path);
}

/* ---- Several traces -------------------------------------------------- */

TEST(each_trace_is_a_line_and_starts_from_an_empty_arena)
{
	char *big = test_data("moe_start.csv");
	char *small = trace_of("a,1000,512,0,0\nf,1000,512,0,1\n");
	struct command_result result =
	    command_weir("replay", "--json", big, small, NULL);
	char *line = strtok(result.out, "\n");
	json_t *json;

	EXPECT_EQ(result.status, 0);
	json = parsed(line);
	EXPECT_EQ(number(json, "events"), 2400);
	json_decref(json);
	line = strtok(NULL, "\n");
	EXPECT_NOT_NULL(line);
	json = parsed(line);
	EXPECT_EQ(number(json, "events"), 2);
	EXPECT_EQ(number(json, "peak_live_bytes"), 512);
	EXPECT_LE(number(json, "peak_held_bytes"), 64 * MIB);
	EXPECT_NULL(strtok(NULL, "\n"));
	json_decref(json);
	command_free(&result);
	free(big);
	free(small);
}

TEST(a_bad_trace_does_not_lose_the_others)
{
	char *good = trace_of("a,1000,512,0,0\n");
	struct command_result result =
	    command_weir("replay", "--json", "/nonexistent/a.csv", good, NULL);
	json_t *json;

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(
	    result.err, "/nonexistent/a.csv: No such file or directory");
	json = parsed(result.out);
	EXPECT_EQ(number(json, "events"), 1);
	json_decref(json);
	command_free(&result);
	free(good);
}

TEST(text_is_a_table_with_a_line_a_trace)
{
	char *moe = test_data("moe_start.csv");
	char *one = trace_of("a,1000,512,0,0\n");
	struct command_result result = command_weir("replay", moe, one, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "peak held");
	EXPECT_STR_HAS(result.out, "\nmoe_start ");
	EXPECT_STR_HAS(result.out, "\nrows ");
	EXPECT_STR_HAS(result.out, "5.66 GiB");
	EXPECT_NULL(strchr(result.out, '\033'));
	/* Details are printed for a single trace only. */
	EXPECT_NULL(strstr(result.out, "peak pending"));
	command_free(&result);
	result = command_weir("replay", one, NULL);
	EXPECT_STR_HAS(result.out, "peak pending");
	command_free(&result);
	free(moe);
	free(one);
}

/* ---- How requests were served ---------------------------------------- */

/* The second block waits for stream 1's work on the first. The third block is
 * larger, so that weir polls all events and sees that the wait is over. */
static const char waiting[] = "a,1000,20971520,0,0\n"
			      "k,0,50000,1,0\n"
			      "r,1000,20971520,1,0\n"
			      "f,1000,20971520,0,0\n"
			      "a,2000,20971520,0,10000\n"
			      "k,0,1000,0,20000\n"
			      "f,2000,20971520,0,20000\n"
			      "c,1000,20971520,0,50000\n"
			      "a,3000,33554432,0,90000\n";

/* The sum of a key over all ways. */
static uint64_t
sum_of_ways(const json_t *json, const char *key)
{
	const json_t *way;
	uint64_t sum = 0;
	size_t i;

	json_array_foreach(json_object_get(json, "served"), i, way)
	{
		sum += number(way, key);
	}
	return sum;
}

TEST(a_request_that_waited_has_the_stream_and_the_time)
{
	struct command_result result;
	char *path = trace_of(waiting);
	const json_t *costliest;
	const char *text;
	uint64_t us = 0;
	int end = 0;
	json_t *json;

	result = command_weir("replay", "--json", "--explain", path,
	    "--conf=prefer:memory,decay_ms:off", NULL);
	EXPECT_EQ(result.status, 0);
	json = parsed(result.out);
	if (!simulated(json))
		SKIP("times are exact on the simulated device only");
	costliest = json_array_get(json_object_get(json, "costliest"), 0);
	EXPECT_EQ(number(costliest, "row"), 5);
	EXPECT_EQ(number(costliest, "size_bytes"), 20 * MIB);
	EXPECT_EQ(number(costliest, "stream"), 0);
	us = number(costliest, "measured_wait_us");
	EXPECT_GE(us, 39000);
	EXPECT_LE(us, 41000);
	text = json_string_value(json_object_get(costliest, "served_by"));
	EXPECT_EQ(sscanf(text, "wait %*u us for stream 1%n", &end), 0);
	EXPECT_EQ((size_t)end, strlen(text));
	json_decref(json);
	command_free(&result);
	free(path);
}

TEST(every_request_was_served_in_one_way)
{
	struct command_result result;
	char *path = test_data("fsdp_prefetch.csv.xz");
	json_t *json;

	result = command_weir("replay", "--json", "--explain=3", path, NULL);
	EXPECT_EQ(result.status, 0);
	json = parsed(result.out);
	EXPECT_EQ(sum_of_ways(json, "requests"), number(json, "allocs"));
	EXPECT_EQ(sum_of_ways(json, "gpu_waits"), number(json, "gpu_waits"));
	EXPECT_EQ(sum_of_ways(json, "host_waits"), number(json, "host_waits"));
	EXPECT_GE(
	    sum_of_ways(json, "grown_bytes"), number(json, "peak_held_bytes"));
	EXPECT_GT(sum_of_ways(json, "measured_waits"), 0);
	EXPECT_LE(
	    sum_of_ways(json, "measured_waits"), number(json, "gpu_waits"));
	EXPECT_EQ(json_array_size(json_object_get(json, "costliest")), 3);
	command_free(&result);
	/* The playback is the same as without --explain. */
	result = command_weir("replay", "--json", path, NULL);
	EXPECT_EQ(result.status, 0);
	json_t *other = parsed(result.out);
	EXPECT_EQ(
	    number(json, "peak_held_bytes"), number(other, "peak_held_bytes"));
	EXPECT_EQ(number(json, "gpu_waits"), number(other, "gpu_waits"));
	EXPECT_EQ(number(json, "map_calls"), number(other, "map_calls"));
	json_decref(json);
	json_decref(other);
	command_free(&result);
	free(path);
}

TEST(a_request_that_failed_has_the_tried_steps)
{
	char *path = trace_of("a,1000,20971520,0,0\n"
			      "a,2000,20971520,0,1\n");
	struct command_result result = command_weir(
	    "replay", "--json", "--explain", "--limit=32M", path, NULL);
	json_t *json = parsed(result.out);
	const json_t *failed =
	    json_array_get(json_object_get(json, "served"), 1);

	EXPECT_STR_EQ(
	    json_string_value(json_object_get(failed, "way")), "out of memory");
	EXPECT_EQ(number(failed, "requests"), 1);
	EXPECT_STR_HAS(result.out, "out of memory; tried: ready run, ");
	json_decref(json);
	command_free(&result);
	free(path);
}

TEST(people_see_the_ways_and_the_costliest_requests)
{
	char *path = trace_of(waiting);
	struct command_result result =
	    command_weir("replay", "--explain", path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "served by");
	EXPECT_STR_HAS(result.out, "\ngrown 20.00 MiB ");
	command_free(&result);
	result = command_weir("replay", "--explain=0", path, NULL);
	EXPECT_STR_HAS(result.out, "served by");
	EXPECT_NULL(strstr(result.out, "costliest"));
	command_free(&result);
	result = command_weir("replay", path, NULL);
	EXPECT_NULL(strstr(result.out, "served by"));
	command_free(&result);
	result = command_weir("replay", "--explain", path, path, NULL);
	EXPECT_STR_HAS(result.out, "\nrows\nserved by");
	command_free(&result);
	free(path);
}

/* ---- Programs that repeat -------------------------------------------- */

TEST(a_request_at_another_address_than_in_the_round_before_is_counted)
{
	/* The second round gets the same addresses as the first. In the third
	 * round one block of the round before is still live, so that its
	 * request gets another address; the last request has another size and
	 * is not compared. */
	json_t *json = replayed("n,0,0,0,0\n"
				"a,1000,4194304,0,1\n"
				"a,2000,6291456,0,1\n"
				"f,1000,4194304,0,1\n"
				"f,2000,6291456,0,1\n"
				"n,0,0,0,2\n"
				"a,3000,4194304,0,3\n"
				"a,4000,6291456,0,3\n"
				"f,4000,6291456,0,3\n"
				"n,0,0,0,4\n"
				"a,5000,4194304,0,5\n"
				"a,6000,8388608,0,5\n");

	EXPECT_EQ(number(json, "repeated_allocs"), 3);
	EXPECT_EQ(number(json, "moved_allocs"), 1);
	json_decref(json);
}

TEST(rounds_of_streams_are_their_own)
{
	json_t *json = replayed("n,0,0,0,0\n"
				"a,1000,4194304,0,1\n"
				"a,2000,4194304,1,1\n"
				"f,1000,4194304,0,1\n"
				"n,0,0,0,2\n"
				"a,3000,4194304,0,3\n"
				"a,4000,4194304,1,3\n");

	/* Stream 1 has no rounds. */
	EXPECT_EQ(number(json, "repeated_allocs"), 1);
	EXPECT_EQ(number(json, "moved_allocs"), 0);
	json_decref(json);
}

TEST(a_trace_without_rounds_has_no_share_of_moved_requests)
{
	json_t *json = replayed("a,1000,4194304,0,1\n");

	EXPECT_NULL(json_object_get(json, "repeated_allocs"));
	json_decref(json);
}

/* The addresses settle for any times of the rows. */
TEST(a_program_of_one_stream_gets_the_same_addresses_in_each_round)
{
	static const char *const late[] = { NULL, "--late=300",
		"--late=10000" };
	struct command_result trace = command_weir(
	    "generate", "train", "--repeat=1", "--events=20000", NULL);
	char *path = test_file("train.csv", trace.out, strlen(trace.out));

	for (size_t i = 0; i < 3; i++) {
		json_t *json = replayed_with(path, late[i]);

		EXPECT_GT(number(json, "repeated_allocs"), 1000);
		EXPECT_EQ(number(json, "moved_allocs"), 0);
		json_decref(json);
	}
	command_free(&trace);
	struct command_result result = command_weir("replay", path, NULL);
	EXPECT_STR_HAS(result.out, "at another address");
	EXPECT_STR_HAS(result.out, "0 (0.0 %)");
	command_free(&result);
	free(path);
}

/* Two streams pass memory to each other, and which memory is ready depends on
 * the times. The addresses settle all the same. */
TEST(a_program_of_two_streams_gets_the_same_addresses_in_nearly_all_rounds)
{
	static const char *const kinds[] = { "prefetch", "reduce" };
	static const char *const late[] = { NULL, "--late=300", "--late=3000" };

	for (size_t k = 0; k < 2; k++) {
		struct command_result trace = command_weir(
		    "generate", kinds[k], "--repeat=1", "--events=50000", NULL);
		char *path =
		    test_file("rounds.csv", trace.out, strlen(trace.out));

		for (size_t i = 0; i < 3; i++) {
			json_t *json = replayed_with(path, late[i]);
			double all = number(json, "repeated_allocs");

			EXPECT_GT(all, 5000);
			EXPECT_LT(number(json, "moved_allocs"), all / 20);
			json_decref(json);
		}
		command_free(&trace);
		free(path);
	}
}

/* ---- Failures -------------------------------------------------------- */

TEST(a_damaged_trace_is_named_with_its_line)
{
	char *path = trace_of("a,1000,512,0,0\nf,2000,512,0,1\n");
	struct command_result result =
	    command_weir("replay", "--json", path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, path);
	EXPECT_STR_HAS(
	    result.err, ":3: 'f' of address 2000, which is not allocated");
	command_free(&result);
	free(path);
}

TEST(a_request_larger_than_the_device_is_a_failed_request)
{
	json_t *json = replayed("a,1000,1125899906842624,0,0\n"
				"f,1000,1125899906842624,0,1\n"
				"a,2000,512,0,2\n");

	EXPECT_EQ(number(json, "ooms"), 1);
	EXPECT_EQ(number(json, "peak_live_bytes"), 512);
	json_decref(json);
}

TEST(wrong_flags_are_usage_errors_that_name_them)
{
	static const char *const flags[][2] = {
		{ "--limit=many", "'many'" },
		{ "--limit=", "''" },
		{ "--limit=-1", "'-1'" },
		{ "--limit=99999999999999999999", "'99999999999999999999'" },
		{ "--speed=0", "'0'" },
		{ "--speed=-2", "'-2'" },
		{ "--speed=fast", "'fast'" },
		{ "--speed=inf", "'inf'" },
		{ "--speed=nan", "'nan'" },
		{ "--late=-1", "'-1'" },
		{ "--seed=some", "'some'" },
		{ "--seed=1.5", "'1.5'" },
		{ "--explain=all", "'all'" },
		{ "--fit", "--limit" },
		{ "--conf=no_such_option:1", "no_such_option" },
		{ "--conf=expandable_segments:perhaps", "perhaps" },
	};
	char *path = trace_of("a,1000,512,0,0\n");

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct command_result result =
		    command_weir("replay", flags[i][0], path,
			strcmp(flags[i][0], "--fit") == 0 ? "--limit=1G" : path,
			NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, flags[i][1]);
		command_free(&result);
	}
	free(path);
}

TEST(no_trace_is_a_usage_error)
{
	struct command_result result = command_weir("replay", "--json", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "no TRACE");
	command_free(&result);
}

TEST(a_driver_that_is_named_and_missing_is_reported)
{
	char *path = trace_of("a,1000,512,0,0\n");
	struct command_result result;

	setenv("WEIR_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
	result = command_weir("replay", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "/nonexistent/libcuda.so.1");
	command_free(&result);
	free(path);
}
