/*
 * weir sleep and weir wake: the memory of running programs that do not know
 * weir, whose launches wait meanwhile.
 */
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"

static struct program
start_sleeper(void)
{
	struct program program;

	runtime_folder();
	program = program_start("--may-sleep");
	program_step(&program, 'a', 0);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)program.pid);
	return program;
}

/* `weir VERB PID FLAG` succeeds, and prints `out` among others. */
static void
expect_verb(const char *verb, const char *flag, const char *out)
{
	struct command_result result =
	    command_weir(verb, program_pid, flag, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, out);
	command_free(&result);
}

static void
expect_refused(const char *verb, const char *flag, const char *err)
{
	struct command_result result =
	    command_weir(verb, program_pid, flag, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, err);
	command_free(&result);
}

static void
expect_value(const char *path, const char *value)
{
	struct command_result result =
	    command_weir("ctl", program_pid, path, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, value);
	command_free(&result);
}

static bool
answers(const struct program *program, int timeout_ms)
{
	struct pollfd fd = { .fd = fileno(program->from), .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

TEST_TIMEOUT(a_program_sleeps_and_its_launches_wait_until_it_wakes, 60)
{
	struct program program = start_sleeper();
	char line[32];

	program_step(&program, 'w', 0);
	program_step(&program, 'r', 42);
	expect_value("sleep.state", "awake\n");
	expect_verb("sleep", NULL, "given back                        2.0 MiB");
	expect_value("sleep.state", "asleep\n");
	expect_value("stats.held", "0\n");
	expect_value("stats.live", "1048576\n");
	fprintf(program.to, "r\n");
	fflush(program.to);
	EXPECT(!answers(&program, 300));
	expect_verb("wake", NULL, "copied back                       1.0 MiB");
	EXPECT_NOT_NULL(fgets(line, sizeof(line), program.from));
	EXPECT_STR_EQ(line, "r 42\n");
	/* Requests wait, too. */
	expect_verb("sleep", NULL, "time");
	fprintf(program.to, "a\n");
	fflush(program.to);
	EXPECT(!answers(&program, 300));
	expect_verb("wake", "--wait=1000", "mapped");
	EXPECT_NOT_NULL(fgets(line, sizeof(line), program.from));
	EXPECT_STR_EQ(line, "a 0\n");
	program_step(&program, 'w', 0);
	program_step(&program, 'r', 42);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST_TIMEOUT(launches_and_requests_fail_if_that_is_asked_for, 60)
{
	struct program program = start_sleeper();

	expect_verb("sleep", "--fail", "copied");
	program_step(&program, 'w', 600);
	expect_verb("wake", "--json", "\"state\": \"awake\"");
	program_step(&program, 'w', 0);
	program_step(&program, 'r', 42);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST_TIMEOUT(the_error_of_a_refused_sleep_names_the_reason, 60)
{
	struct program program = start_sleeper();

	expect_refused("sleep", "--discard=77", "no pool 77");
	expect_refused("sleep", "--discard=0x10+4", "not in memory of weir's");
	expect_refused("sleep", "--discard=x", "'discard=x' is no option");
	expect_value("sleep.state", "awake\n");
	program_step(&program, 'w', 0);
	EXPECT_EQ(program_finish(&program), 0);
	program = program_start_watched();
	expect_refused("sleep", NULL, "start it with weir run --may-sleep");
	EXPECT_EQ(program_finish(&program), 0);
}
