/*
 * --check-streams reports a block that a stream uses or frees without an order
 * after its allocation or its uses, with the places. A program that keeps order
 * gets no report.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/start.h"
#include "tests/support/test.h"

/* Run a program with --check-streams. The caller frees the result. */
static struct command_result
check(const char *program, const char *argument)
{
	struct start how = { .program = program,
		.argument = argument,
		.preload = true,
		.variable = "WEIR_CHECK_STREAMS=1" };
	struct command_result result = start(&how);

	EXPECT_EQ(result.status, 0);
	return result;
}

static void
expect_silence(const char *program, const char *argument)
{
	struct command_result result = check(program, argument);

	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}

static void
expect_report(const char *argument, const char *first, const char *second)
{
	struct command_result result = check("driver_races", argument);

	EXPECT_STR_HAS(result.err, first);
	EXPECT_STR_HAS(result.err, second);
	EXPECT_STR_HAS(result.err, "of 4096 bytes");
	EXPECT_STR_HAS(result.err, "  used at ");
	EXPECT_STR_HAS(result.err, "  allocated at ");
	EXPECT_STR_HAS(result.err, "driver_races");
	EXPECT_STR_EQ(result.out, "done\n");
	command_free(&result);
}

TEST(a_program_that_keeps_order_gets_no_report)
{
	expect_silence("driver_races", "ordered");
	expect_silence("driver_races", "ordered copy");
	expect_silence("driver_races", "waited");
}

TEST(default_streams_keep_order)
{
	expect_silence("driver_races", "ordered legacy");
}

/* Later streams are checked as well. */
TEST(streams_may_come_and_go)
{
	expect_silence("driver_races", "ordered many");
	expect_report("unordered many", "a fill on stream",
	    "is not ordered after its allocation");
}

TEST(a_kernel_that_keeps_order_is_not_reported)
{
	expect_silence("driver_races", "ordered kernel");
}

TEST(a_fill_that_is_not_ordered_after_the_allocation_is_reported)
{
	expect_report("unordered fill", "a fill on stream",
	    "is not ordered after its allocation");
}

TEST(a_copy_that_is_not_ordered_after_the_allocation_is_reported)
{
	expect_report("unordered copy", "a copy on stream",
	    "is not ordered after its allocation");
}

TEST(a_kernel_that_is_not_ordered_after_the_allocation_is_reported)
{
	expect_report("unordered kernel", "a kernel on stream",
	    "is not ordered after its allocation");
}

TEST(a_free_that_is_not_ordered_after_a_use_is_reported)
{
	expect_report("early", "is freed on stream",
	    "which is not ordered after its use on stream");
}

TEST(a_use_after_a_free_is_reported)
{
	expect_report("late", "a fill on stream", "after it was freed");
}

TEST(a_kernel_that_uses_a_freed_block_is_reported)
{
	expect_report(
	    "late kernel", "a kernel on stream", "after it was freed");
}

/* Bytes in a large structure that look like an address may be stale. */
TEST(a_freed_block_in_a_large_parameter_is_not_reported)
{
	expect_silence("driver_races", "late structure");
	expect_silence("driver_races", "late structure packed");
	expect_silence("driver_races", "late structure huge");
	expect_silence("driver_races", "unordered structure huge");
}

TEST(a_live_block_in_a_large_parameter_is_looked_at)
{
	expect_report("unordered structure", "a kernel on stream",
	    "is not ordered after its allocation");
	expect_report("unordered structure packed", "a kernel on stream",
	    "is not ordered after its allocation");
}

/* Correct test programs with many threads and streams. */
TEST(correct_programs_get_no_report)
{
	static const char *const programs[] = { "driver_dlsym",
		"driver_threads", "driver_order", "driver_pools",
		"driver_query", "driver_steps" };

	for (size_t i = test_offset();
	     i < sizeof(programs) / sizeof(programs[0]); i += test_stride())
		expect_silence(programs[i], NULL);
}

TEST(weir_run_asks_for_it)
{
	char *program = test_build("tests/programs/driver_races");

	/* The sanitizer's runtime is loaded with the program, so it is not
	 * first. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	struct command_result result = command_weir("run", "--quiet",
	    "--check-streams", "--sim", program, "unordered fill", NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.err, "is not ordered after its allocation");
	command_free(&result);
	free(program);
}
