/*
 * Programs that do not know weir print the same with and without it, and are
 * served by it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/host.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

TEST(a_program_linked_with_the_driver_is_served)
{
	serves("linked_driver", NULL);
}

TEST(a_program_that_looks_names_up_is_served)
{
	serves("driver_dlsym", NULL);
}

TEST(a_program_that_queries_entries_is_served)
{
	serves("driver_query", NULL);
}

TEST(the_old_form_of_the_query_serves_too)
{
	serves("driver_query", "old");
}

/* The driver's interface has not changed for such a program, so it is
 * served. */
TEST(a_program_of_a_newer_toolkit_is_served)
{
	/* On a GPU the driver has its real version. */
	serves_as((struct start){ .program = "driver_query",
	    .argument = "new",
	    .machine = "version:15000" });
}

/* Every query of the program has the same result, however its frees are
 * served. */
TEST_TIMEOUT(random_programs_are_answered_as_without_weir, 300)
{
	static const char *const variables[] = { NULL,
		"WEIR_PRELOAD_FREE=strict", "WEIR_PRELOAD_FREE=fast",
		"WEIR_CONF=expandable_segments:False", "WEIR_CONF=tcache:0" };
	uint64_t programs = start_simulated() ? test_effort(5) : 5;

	for (uint64_t i = 0; i < programs; i++) {
		char seed[24];

		snprintf(seed, sizeof(seed), "%llu", 1000 + 7ull * i);
		serves_as((struct start){ .program = "driver_random",
		    .argument = seed,
		    .variable = variables[i % 5],
		    .machine = "hold_ns:100000" });
	}
}

TEST(a_program_with_threads_is_served)
{
	serves("driver_threads", NULL);
}

TEST(a_program_whose_threads_have_the_smallest_stack_is_served)
{
	if (test_is_watched())
		SKIP("what watches the program takes stack of its own");
	serves("driver_small_stack", NULL);
}

TEST(a_program_on_the_runtime_is_served)
{
	serves("runtime_api", NULL);
}

TEST(a_program_with_managed_memory_and_peers_is_served)
{
	serves_as((struct start){
	    .program = "runtime_managed", .machine = "devices:2" });
}

/* Rows of every width are served, except for the empty and too large ones. */
TEST(a_program_with_two_and_three_dimensions_is_served)
{
	json_t *report = start_twice("runtime_pitched", NULL);
	const json_t *calls = json_object_get(report, "calls");

	EXPECT_EQ(report_number(
		      json_object_get(calls, "cuMemAllocPitch_v2"), "served"),
	    11 * 4 + 1);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

/* All calls are served, except for 20 blocks of a pool whose reuse is
 * restricted, and wrong calls. (A GPU's runtime makes one call more than the
 * program.) */
TEST(a_program_with_memory_pools_is_served)
{
	/* A GPU's driver counts a free some time after the call. */
	json_t *report =
	    start_twice("runtime_pools", start_simulated() ? "exact" : NULL);
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemAllocFromPoolAsync");

	long long others =
	    report_number(alloc, "seen") - report_number(alloc, "served");
	EXPECT_GE(others, 20 + 2);
	EXPECT_LE(others, start_simulated() ? 20 + 2 : 20 + 3);
	EXPECT_GT(report_number(alloc, "served"), 800);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

/* Facts about a stream that earlier requests found become outdated. Everything
 * is served except a block of a pool whose reuse is restricted for each of two
 * streams, two allocations in a capture, wrong calls, and calls at the end. */
TEST(a_program_that_changes_the_pools_of_its_streams_is_served)
{
	/* A GPU's driver counts a free some time after the call. */
	json_t *report =
	    start_twice("driver_known", start_simulated() ? "exact" : NULL);
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemAllocAsync");

	EXPECT_EQ(report_number(alloc, "seen"),
	    report_number(alloc, "served") + 2 * 3 + 2 + 1 + 1);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

TEST(a_program_that_goes_between_devices_is_served)
{
	if (!start_simulated())
		SKIP("this machine may have one GPU");
	json_t *report = start_twice_as((struct start){
	    .program = "driver_known",
	    .argument = "two",
	    .machine = "devices:2",
	});
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemAllocAsync");

	/* Also after the other device got access to the pool. */
	EXPECT_EQ(report_number(alloc, "seen"), report_number(alloc, "served"));
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

/* The driver serves the one block that is shared with a child. */
TEST(a_program_that_shares_a_pool_is_served_beside_it)
{
	json_t *report = start_twice("driver_pools", NULL);

	EXPECT_EQ(report_number(report, "allocations_served"), 3 + 1 + 100);
	EXPECT_EQ(report_number(report, "frees_served"), 3 + 1 + 100);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

TEST(a_program_with_a_default_stream_for_each_thread_is_served)
{
	json_t *report = start_twice("runtime_per_thread", NULL);
	const json_t *calls = json_object_get(report, "calls");

	EXPECT_NOT_NULL(json_object_get(calls, "cuMemAllocAsync_ptsz"));
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

/* weir sees each capture begin and end, so it queries no stream for a capture:
 * at a free it would have to query all streams. */
TEST(no_stream_is_asked_whether_it_is_captured)
{
	json_t *report = start_twice("driver_threads", NULL);
	const json_t *calls = json_object_get(report, "driver_calls");

	EXPECT_GT(report_number(calls, "cuCtxRecordEvent"), 0);
	EXPECT_NULL(json_object_get(calls, "cuStreamIsCapturing"));
	json_decref(report);
}

/* The 20 allocations in a captured stream are left to the driver. */
TEST(a_program_that_captures_graphs_is_served)
{
	json_t *report = start_twice("runtime_capture", NULL);
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemAllocAsync");
	const json_t *release = json_object_get(calls, "cuMemFreeAsync");

	EXPECT_EQ(
	    report_number(alloc, "seen"), report_number(alloc, "served") + 20);
	EXPECT_EQ(report_number(release, "seen"),
	    report_number(release, "served") + 20);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

/* The runtime is linked into the program, and finds the driver by dlsym(). */
TEST(a_program_with_the_runtime_in_it_is_served)
{
	serves("static_runtime", NULL);
}

TEST(a_program_that_orders_its_streams_by_events_is_served)
{
	json_t *report = start_twice("driver_order", NULL);

	EXPECT_EQ(report_number(report, "allocations_served"), 200);
	EXPECT_EQ(report_number(report, "frees_served"), 200);
	json_decref(report);
}

/* The device has space for one block. One stream can use a block that the other
 * has freed at once, because it is known to be ordered after it. In the first
 * turn this is not known, because weir has met only one of the streams. */
TEST(streams_that_take_turns_share_memory_without_a_wait)
{
	json_t *report;
	const json_t *calls;

	if (!start_simulated())
		SKIP("the simulated device can be that small");
	report = start_twice_as((struct start){ .program = "driver_order",
	    .argument = "3000000 turns",
	    .machine = "memory_mb:16,hold_ns:100000" });
	calls = json_object_get(report, "driver_calls");
	EXPECT_EQ(report_number(report, "allocations_served"), 100);
	EXPECT_EQ(report_number(report, "host_waits"), 0);
	EXPECT_LE(report_number(report, "gpu_waits"), 2);
	/* Memory is not created for every turn. In a full device it is created
	 * in pieces of 2 MiB, six for a block, and the first turn may create
	 * them twice. */
	EXPECT_LE(report_number(calls, "cuMemCreate"), 12);
	json_decref(report);
}

/* The streams look ordered, and are not. */
TEST(streams_that_miss_their_turns_do_not_share_memory_early)
{
	json_t *report;

	if (!start_simulated())
		SKIP("the simulated device can be that small");
	report = start_twice_as((struct start){ .program = "driver_order",
	    .argument = "3000000",
	    .machine = "memory_mb:16,hold_ns:100000" });
	EXPECT_EQ(report_number(report, "allocations_served"), 200);
	json_decref(report);
}

/* Each reset frees the memory that the program left behind. */
TEST(a_program_that_resets_its_device_is_served)
{
	json_t *report = start_twice("runtime_reset", NULL);

	EXPECT_EQ(report_number(report, "allocations_served"), 48);
	EXPECT_EQ(report_number(report, "frees_served"), 24);
	EXPECT_EQ(report_number(report, "live_bytes_at_exit"), 0);
	json_decref(report);
}

TEST(a_program_with_two_contexts_is_served_in_the_primary_one)
{
	serves("driver_contexts", NULL);
}

TEST(a_program_that_forks_is_served_and_its_children_are_let_be)
{
	serves("driver_fork", NULL);
}

TEST(a_program_that_becomes_another_is_served)
{
	serves("driver_exec", NULL);
}

/* The driver can use weir's unused memory for its own needs. */
TEST(weir_gives_back_memory_that_the_driver_needs)
{
	struct start how = { .program = "driver_room" };
	struct command_result bare;
	struct command_result loaded;

	if (!start_simulated())
		SKIP("only the simulated driver can be made to fail");
	bare = start(&how);
	how.preload = true;
	loaded = start(&how);
	EXPECT_STR_EQ(bare.out,
	    "nothing to give back: 2\nsomething to give back: 2\n"
	    "at last: 0\n");
	EXPECT_STR_EQ(loaded.out,
	    "nothing to give back: 2\nsomething to give back: 0\n"
	    "at last: 0\n");
	EXPECT_EQ(loaded.status, 0);
	command_free(&bare);
	command_free(&loaded);
}

TEST(a_limit_is_what_the_program_sees_from_its_first_query_on)
{
	struct command_result result =
	    start(&(struct start){ .program = "driver_limit",
		.preload = true,
		.variable = "WEIR_CONF=memory_limit_mb:2048" });

	EXPECT_STR_EQ(
	    result.out, "first: 2048 of 2048 MiB\nthen: 1984 of 2048 MiB\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

/* The example writes its time to stderr. On a GPU its kernels are compiled by
 * nvcc. */
TEST(the_pipeline_example_is_right_with_weir)
{
	char *path = report_path();
	char *program = test_build(
	    start_simulated() ? "examples/pipeline" : "examples/pipeline-cuda");
	struct start how = { .program = program, .argument = "60" };
	struct command_result bare = start(&how);
	struct command_result loaded;
	json_t *report;

	if (!start_simulated() && access(program, X_OK) != 0)
		SKIP("the example has not been built by nvcc");
	how.preload = true;
	how.report = path;
	loaded = start(&how);
	EXPECT_EQ(bare.status, 0);
	EXPECT_EQ(loaded.status, 0);
	EXPECT_STR_EQ(loaded.out, bare.out);
	EXPECT_STR_HAS(loaded.out, "wrong words 0\n");
	report = report_read(path);
	EXPECT_EQ(report_number(report, "allocations_served"), 2 * 60 * 4);
	EXPECT_EQ(report_number(report, "frees_served"), 2 * 60 * 4);
	json_decref(report);
	command_free(&bare);
	command_free(&loaded);
	free(program);
	free(path);
}

/* Frees in handlers and destructors, with threads in the middle of a call. A
 * GPU takes a second to start. */
TEST_TIMEOUT(a_thousand_programs_start_and_end, 300)
{
	uint64_t starts = start_simulated() ? test_effort(1000) : 40;

	for (uint64_t i = 0; i < starts; i++) {
		struct start how = { .program = "driver_exit",
			.argument = i % 2 == 0 ? NULL : "last",
			.preload = true };
		struct command_result result = start(&how);

		EXPECT_STR_EQ(result.err, "");
		EXPECT_EQ(result.status, 0);
		EXPECT_STR_EQ(result.out, "leaving\n");
		command_free(&result);
	}
}

/* All calls are served except for wrong ones, which the driver has to
 * refuse. */
TEST(a_program_with_pinned_host_memory_is_served)
{
	json_t *report = start_twice("driver_host", NULL);
	const json_t *calls = json_object_get(report, "calls");
	const json_t *alloc = json_object_get(calls, "cuMemHostAlloc");
	const json_t *release = json_object_get(calls, "cuMemFreeHost");

	EXPECT_EQ(report_number(alloc, "served"), 24 + 1 + 1 + 40 + 300);
	EXPECT_EQ(report_number(release, "served"), 24 + 1 + 1 + 1 + 40 + 300);
	json_decref(report);
}

TEST(the_report_has_the_source_and_the_times_of_pinned_memory)
{
	static const char *const sources[] = { "handles", "system", "driver" };
	enum weir_host_source best;

	EXPECT_EQ(weir_host_source(0, &best), WEIR_OK);
	for (int i = (int)best; i < 3; i++) {
		char conf[64];

		snprintf(conf, sizeof(conf), "WEIR_CONF=pinned_source:%s",
		    sources[i]);
		json_t *report = start_twice_as((struct start){
		    .program = "driver_host", .variable = conf });
		EXPECT_STR_EQ(
		    json_string_value(json_object_get(report, "pinned_source")),
		    sources[i]);
		EXPECT_GT(
		    report_number(report, "pinned_peak_held_bytes"), 5 << 20);
		EXPECT_GT(report_number(report, "pin_ns"), 0);
		EXPECT_GE(report_number(report, "unpin_ns"), 0);
		EXPECT_GE(report_number(report, "pin_delay_ns"), 0);
		json_decref(report);
	}
}

TEST(the_text_has_a_part_for_pinned_memory_if_there_is_some)
{
	struct start how = { .program = "driver_host",
		.preload = true,
		.report = "-",
		.variable = "WEIR_CONF=pinned_source:system" };
	struct command_result result = start(&how);

	EXPECT_STR_HAS(result.err, "page-locked memory\n");
	EXPECT_STR_HAS(result.err, "pinned_source: system\n");
	EXPECT_STR_HAS(result.err, "  pinning  ");
	command_free(&result);
	how.program = "runtime_report";
	how.argument = "leak";
	result = start(&how);
	EXPECT_STR_HAS(result.err, "memory\n");
	EXPECT_NULL(strstr(result.err, "page-locked memory"));
	command_free(&result);
}

TEST(pinned_host_memory_is_freed_as_other_memory_is)
{
	serves_as((struct start){
	    .program = "driver_host", .variable = "WEIR_PRELOAD_FREE=strict" });
	serves_as((struct start){
	    .program = "driver_host", .variable = "WEIR_PRELOAD_FREE=fast" });
}
