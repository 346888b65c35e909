/*
 * When memory of cuMemFree() is used again: WEIR_PRELOAD_FREE, drivers that
 * cannot record an event on a context, late completions, and work of other
 * contexts. The simulated device ends a program whose memory is used again too
 * early.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

/* Programs that free memory while it is in use, in many ways. */
static const char *const busy[] = { "driver_dlsym", "driver_threads",
	"runtime_api", "runtime_capture", "runtime_per_thread",
	"driver_contexts" };

/* Where cases are left out, each call tries two of the six programs. */
static void
all_are_served(const char *variable, const char *machine)
{
	const size_t step = test_stride() > 1 ? 3 : 1;

	for (size_t i = test_offset() % step; i < sizeof(busy) / sizeof(*busy);
	     i += step) {
		json_t *report =
		    start_twice_as((struct start){ .program = busy[i],
			.variable = variable,
			.machine = machine });

		EXPECT_GT(report_number(report, "allocations_served"), 0);
		EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
		json_decref(report);
	}
}

TEST(memory_waits_for_all_work_by_default)
{
	all_are_served("WEIR_PRELOAD_FREE=deferred", "hold_ns:200000");
}

TEST(a_strict_free_waits_as_the_driver_does)
{
	all_are_served("WEIR_PRELOAD_FREE=strict", NULL);
}

TEST(a_fast_free_is_right_too)
{
	all_are_served("WEIR_PRELOAD_FREE=fast", "hold_ns:200000");
}

TEST(drivers_before_12_5_serve)
{
	all_are_served(NULL, "version:12040");
	all_are_served(NULL, "version:11040");
}

/* The driver calls of weir in a run of the program with the default stream. */
static json_t *
calls_of(const char *argument, const char *variable)
{
	json_t *report =
	    start_twice_as((struct start){ .program = "driver_default",
		.argument = argument,
		.variable = variable,
		.machine = "hold_ns:200000" });
	json_t *calls = json_incref(json_object_get(report, "driver_calls"));

	EXPECT_GE(report_number(report, "allocations_served"), 200);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
	return calls;
}

TEST(the_order_of_one_stream_is_enough_for_fast_frees)
{
	json_t *calls = calls_of(NULL, "WEIR_PRELOAD_FREE=fast");

	EXPECT_NULL(json_object_get(calls, "cuCtxRecordEvent"));
	EXPECT_NULL(json_object_get(calls, "cuCtxSynchronize"));
	EXPECT_NULL(json_object_get(calls, "cuEventRecord"));
	json_decref(calls);
}

TEST(fast_frees_are_deferred_from_the_second_stream_on)
{
	json_t *calls = calls_of("streams", "WEIR_PRELOAD_FREE=fast");

	EXPECT_NOT_NULL(json_object_get(calls, "cuCtxRecordEvent"));
	json_decref(calls);
}

TEST(deferred_frees_share_events_and_do_not_wait)
{
	json_t *calls = calls_of("streams", NULL);

	EXPECT_GT(report_number(calls, "cuCtxRecordEvent"), 0);
	EXPECT_LE(report_number(calls, "cuCtxRecordEvent"), 100);
	EXPECT_NULL(json_object_get(calls, "cuCtxSynchronize"));
	json_decref(calls);
}

TEST(strict_frees_wait_each_time)
{
	json_t *calls = calls_of(NULL, "WEIR_PRELOAD_FREE=strict");

	EXPECT_EQ(report_number(calls, "cuCtxSynchronize"), 200);
	EXPECT_NULL(json_object_get(calls, "cuCtxRecordEvent"));
	json_decref(calls);
}

TEST(a_wrong_setting_of_frees_is_reported)
{
	struct start how = { .program = "driver_dlsym",
		.preload = true,
		.variable = "WEIR_PRELOAD_FREE=never" };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "WEIR_PRELOAD_FREE: \"never\"");
	command_free(&result);
}

TEST(a_program_with_two_devices_is_served)
{
	if (!start_simulated())
		SKIP("this machine may have one GPU");
	serves_as((struct start){
	    .program = "driver_peers", .machine = "devices:2" });
}

/* The memory is mapped or in an allocation of the driver, and the context of
 * the other device was created before or after it. The program's queries of
 * peer access return what the program has set. */
TEST(another_device_reaches_all_memory_of_a_pool_it_may_use)
{
	static const char *const arguments[] = { "pool", "pool first" };
	static const char *const confs[] = {
		"WEIR_CONF=expandable_segments:True",
		"WEIR_CONF=expandable_segments:False"
	};

	if (!start_simulated())
		SKIP("this machine may have one GPU");
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			serves_as((struct start){ .program = "driver_peers",
			    .argument = arguments[i],
			    .variable = confs[k],
			    .machine = "devices:2" });
}

/* A graph's copy node that was made for memory with a context refuses mapped
 * memory later, and so does one for memory that other devices may use. */
TEST(memory_of_a_pool_or_a_call_replaces_all_of_it_in_a_graph)
{
	static const char *const arguments[] = { NULL, "late" };

	if (!start_simulated())
		SKIP("this machine may have one GPU");
	for (int i = 0; i < 2; i++) {
		struct start how = { .program = "driver_graph_memory",
			.argument = arguments[i],
			.preload = true,
			.machine = "devices:2" };
		struct command_result result = start(&how);

		EXPECT_EQ(result.status, 0);
		EXPECT_STR_HAS(result.out, "opened pool: 0 refused");
		EXPECT_STR_HAS(result.out, "wrong words: 0\n");
		command_free(&result);
		serves_as((struct start){ .program = "driver_graph_memory",
		    .argument = arguments[i],
		    .machine = "devices:2" });
	}
}

/* The simulated driver waits for the context that has the memory, and reports
 * work of other contexts on it as a fault. weir waits for those as well. */
TEST(memory_waits_for_the_work_of_other_contexts)
{
	static const char *const ways[] = { "WEIR_PRELOAD_FREE=deferred",
		"WEIR_PRELOAD_FREE=strict" };

	if (!start_simulated())
		SKIP("this machine may have one GPU");
	for (int i = 0; i < 2; i++) {
		struct start how = { .program = "driver_peers",
			.argument = "late",
			.preload = true,
			.variable = ways[i],
			.machine = "devices:2,hold_ns:200000" };
		struct command_result result = start(&how);

		EXPECT_STR_EQ(result.err, "");
		EXPECT_EQ(result.status, 0);
		EXPECT_STR_HAS(result.out, "wrong words: 0\n");
		command_free(&result);
	}
}

/* The driver refuses the call and breaks the capture. With weir the capture
 * goes on, even if weir has to get more memory from the driver. Freed memory
 * waits for the end of the capture, whatever a free waits for otherwise. */
TEST(plain_memory_comes_and_goes_in_a_capture)
{
	static const char *const modes[] = { "deferred", "strict", "fast" };
	static const char served[] = ": malloc cudaSuccess, free cudaSuccess, "
				     "malloc cudaSuccess, the same 0, "
				     "status 1, end cudaSuccess\n";
	struct start how = { .program = "runtime_capture_plain" };
	struct command_result result = start(&how);
	char expected[1024];

	if (start_simulated()) {
		EXPECT_EQ(result.status, 0);
		EXPECT_STR_HAS(result.out,
		    "global: malloc cudaErrorStreamCaptureUnsupported, ");
		EXPECT_STR_HAS(result.out, "relaxed: malloc cudaSuccess, ");
	}
	command_free(&result);
	snprintf(expected, sizeof(expected),
	    "global%sthread%srelaxed%swrong bytes: 0\n", served, served,
	    served);
	how.preload = true;
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		char variable[64];

		snprintf(variable, sizeof(variable), "WEIR_PRELOAD_FREE=%s",
		    modes[i]);
		how.variable = variable;
		result = start(&how);
		EXPECT_STR_EQ(result.err, "");
		EXPECT_STR_EQ(result.out, expected);
		EXPECT_EQ(result.status, 0);
		command_free(&result);
	}
}

/* Frees and requests on other threads do not break captures either, whenever
 * these begin. Without a capture they change no thread's mode. */
TEST(captures_begin_and_end_while_other_threads_free_plain_memory)
{
	struct start how = { .program = "runtime_capture_threads",
		.preload = true };
	struct command_result result = start(&how);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "captures: 300 of 300\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}
