/*
 * Counting instructions: the part of callgrind's output that is counted, and
 * the rise that counts as one. `make bench-instructions` runs callgrind itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* Run scripts/bench-instructions. */
static struct command_result
script(const char *first, const char *second, const char *third)
{
	char path[4096];
	const char *const argv[] = { path, first, second, third, NULL };

	snprintf(path, sizeof(path), "%s/../../scripts/bench-instructions",
	    test_build_dir());
	return command_run(argv);
}

static char *
file_of(const char *name, const char *text)
{
	return test_file(name, text, strlen(text));
}

static struct command_result
compared(const char *kept, const char *new)
{
	char *a = file_of("kept.txt", kept);
	char *b = file_of("new.txt", new);
	struct command_result result = script("--compare", a, b);

	free(a);
	free(b);
	return result;
}

/* weir has 10 + 5 instructions. It calls the C library (20) and the driver
 * (1,000), which calls the C library too (300, within its 1,000). */
static const char output[] = "events: Ir\n"
			     "\n"
			     "ob=(1) /build/lib/libweir.so.0\n"
			     "fn=(1) weir_malloc\n"
			     "10 10\n"
			     "cob=(2) /lib/libc.so.6\n"
			     "cfn=(2) pthread_mutex_lock\n"
			     "calls=1 0\n"
			     "+1 20\n"
			     "cob=(3) /build/lib/sim/libcuda.so.1\n"
			     "cfn=(3) cuEventRecord\n"
			     "calls=7 0\n"
			     "* 1000\n"
			     "-2 5\n"
			     "\n"
			     "ob=(2)\n"
			     "fn=(2)\n"
			     "5 320\n"
			     "\n"
			     "ob=(3)\n"
			     "fn=(3)\n"
			     "5 600\n"
			     "cfn=(4) inside\n"
			     "calls=1 0\n"
			     "6 100\n"
			     "cob=(2)\n"
			     "cfn=(2)\n"
			     "calls=1 0\n"
			     "7 300\n"
			     "\n"
			     "fn=(4)\n"
			     "9 100\n";

TEST(instructions_of_the_driver_and_its_callees_are_not_counted)
{
	char *path = file_of("callgrind.out", output);
	struct command_result result = script("--count", path, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, "35\n");
	command_free(&result);
	free(path);
}

TEST(an_output_without_instructions_is_an_error)
{
	char *path = file_of("callgrind.out", "events: Ir\n");
	struct command_result result = script("--count", path, NULL);

	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(result.err, "no instructions were counted");
	command_free(&result);
	free(path);
}

TEST(a_rise_of_five_per_cent_is_let_pass)
{
	struct command_result result =
	    compared("x86_64 gcc-12 release pair 100\n",
		"x86_64 gcc-12 release pair 105\n");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "pair: 105, kept 100 (+5.0 %)");
	command_free(&result);
}

TEST(a_greater_rise_fails_and_names_the_path_and_both_numbers)
{
	struct command_result result = compared(
	    "x86_64 gcc-12 release cycle 7\nx86_64 gcc-12 release pair 100\n",
	    "x86_64 gcc-12 release cycle 7\nx86_64 gcc-12 release pair 106\n");

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err,
	    "x86_64 gcc-12 release pair: 106 instructions, 100 are kept");
	EXPECT_STR_HAS(result.err, "ACCEPT=1");
	command_free(&result);
}

TEST(a_fall_is_no_failure)
{
	struct command_result result =
	    compared("x86_64 gcc-12 release pair 100\n",
		"x86_64 gcc-12 release pair 20\n");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "(-80.0 %)");
	command_free(&result);
}

TEST(another_compiler_machine_or_build_is_not_compared)
{
	struct command_result result = compared(
	    "x86_64 gcc-12 release pair 100\naarch64 gcc-13 release pair 100\n"
	    "x86_64 gcc-13 debug pair 100\n",
	    "x86_64 gcc-13 release pair 900\n");

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "no number is kept");
	command_free(&result);
}

TEST(a_kept_path_that_is_no_longer_counted_is_a_failure)
{
	struct command_result result = compared(
	    "x86_64 gcc-12 release pair 100\nx86_64 gcc-12 release cycle 7\n",
	    "x86_64 gcc-12 release pair 100\n");

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "cycle: 7 are kept, but none were counted");
	command_free(&result);
}

TEST(a_line_that_is_no_number_is_an_error_with_its_place)
{
	struct command_result result = compared("# kept\nx86_64 pair\n", "");

	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(result.err, "kept.txt:2: not 'machine compiler");
	command_free(&result);
}

TEST(a_wrong_command_line_is_refused)
{
	struct command_result result = script("--nonesuch", "x", "y");

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "usage:");
	command_free(&result);
}
