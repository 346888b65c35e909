/*
 * weir run --group --may-sleep: programs that know nothing of weir share a
 * device that is too small for them. Who is idle sleeps for the other one, and
 * wakes by its next call.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"

/* A program may sleep for others after this time without a call. It waits for
 * others as long as a slow machine needs. */
#define DECAY "decay_ms:40,lend_ms:20000"

/* Longer than it takes weir to see that nothing was called. */
enum { IDLE_US = 100 * 1000 };

/* A device of 256 MiB that programs share, and a folder of the test's own for
 * the group. */
static void
share_small_device(void)
{
	char *device = test_file("device", "", 0);
	char text[600];

	runtime_folder();
	snprintf(text, sizeof(text), "memory_mb:256,shared_device:%s", device);
	setenv("SIMCUDA_CONF", text, 1);
	free(device);
}

/* A member of a group of 64 MiB. */
static struct program
start_member(const char *conf, bool may_sleep)
{
	const char *flags[] = { "--group", "turns", "--limit", "64M", "--conf",
		conf, may_sleep ? "--may-sleep" : "--watch", NULL };

	return program_start_with(flags);
}

/* One that holds 40 MiB with contents, and is idle. */
static struct program
start_idle(bool may_sleep)
{
	struct program program = start_member(DECAY, may_sleep);

	program_step(&program, 'l', 0);
	program_step(&program, 'p', 0);
	usleep(IDLE_US);
	return program;
}

static void
expect_sleep_state(const struct program *program, const char *state)
{
	char pid[32];
	struct command_result result;

	snprintf(pid, sizeof(pid), "%ld", (long)program->pid);
	result = command_weir("ctl", pid, "sleep.state", NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out, state);
	command_free(&result);
}

static void
expect_verb_works(const char *verb, const struct program *program)
{
	char pid[32];
	struct command_result result;

	snprintf(pid, sizeof(pid), "%ld", (long)program->pid);
	result = command_weir(verb, pid, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

static void
expect_consistent_group(void)
{
	struct command_result result =
	    command_weir("group", "turns", "--check", NULL);

	EXPECT_STR_EQ(result.out, "group turns: consistent\n");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
}

TEST_TIMEOUT(an_idle_program_sleeps_for_another_one_and_wakes_by_a_launch, 60)
{
	share_small_device();
	struct program idle = start_idle(true);
	struct program busy = start_member("lend_ms:20000", true);

	program_step(&busy, 'l', 0);
	expect_sleep_state(&idle, "asleep\n");
	expect_sleep_state(&busy, "awake\n");
	program_step(&busy, 'p', 0);
	program_step(&busy, 'c', 0);
	program_step(&busy, 'f', 0);
	program_step(&idle, 'c', 0);
	expect_sleep_state(&idle, "awake\n");
	expect_consistent_group();
	EXPECT_EQ(program_finish(&busy), 0);
	EXPECT_EQ(program_finish(&idle), 0);
}

TEST_TIMEOUT(an_idle_program_without_may_sleep_is_left_alone, 60)
{
	share_small_device();
	struct program idle = start_idle(false);
	struct program busy = start_member("lend_ms:2000", true);

	program_step(&busy, 'l', 2);
	expect_sleep_state(&idle, "awake\n");
	program_step(&idle, 'c', 0);
	EXPECT_EQ(program_finish(&busy), 0);
	EXPECT_EQ(program_finish(&idle), 0);
}

/* Both hold 40 of 64 MiB, and neither frees any. */
TEST_TIMEOUT(two_programs_take_turns, 120)
{
	share_small_device();
	struct program first = start_idle(true);
	struct program second = start_member(DECAY, true);

	program_step(&second, 'l', 0);
	program_step(&second, 'p', 0);
	for (int i = 0; i < 4; i++) {
		program_step(&first, 'c', 0);
		program_step(&second, 'c', 0);
	}
	expect_consistent_group();
	EXPECT_EQ(program_finish(&first), 0);
	EXPECT_EQ(program_finish(&second), 0);
}

static bool
has_answer(const struct program *program, int timeout_ms)
{
	struct pollfd fd = { .fd = fileno(program->from), .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

TEST_TIMEOUT(a_program_that_the_user_puts_to_sleep_wakes_by_the_user_only, 60)
{
	char line[32];

	share_small_device();
	struct program idle = start_idle(true);
	struct program busy = start_member("lend_ms:20000", true);

	program_step(&busy, 'l', 0);
	program_step(&busy, 'f', 0);
	expect_sleep_state(&idle, "asleep\n");
	expect_verb_works("sleep", &idle);
	fprintf(idle.to, "c\n");
	fflush(idle.to);
	EXPECT(!has_answer(&idle, 300));
	expect_verb_works("wake", &idle);
	EXPECT_NOT_NULL(fgets(line, sizeof(line), idle.from));
	EXPECT_STR_EQ(line, "c 0\n");
	EXPECT_EQ(program_finish(&busy), 0);
	EXPECT_EQ(program_finish(&idle), 0);
}

static void
kill_program(struct program *program)
{
	kill(program->pid, SIGKILL);
	EXPECT_EQ(waitpid(program->pid, NULL, 0), program->pid);
	fclose(program->to);
	fclose(program->from);
}

TEST_TIMEOUT(a_program_killed_while_it_falls_asleep_gives_its_memory_back, 120)
{
	share_small_device();
	struct program busy = start_member("lend_ms:20000,wait_ms:20000", true);

	program_step(&busy, 'a', 0);
	for (unsigned i = 0; i < 8; i++) {
		struct program idle = start_idle(true);
		char line[32];

		fprintf(busy.to, "l\n");
		fflush(busy.to);
		usleep(400 * i);
		kill_program(&idle);
		EXPECT_NOT_NULL(fgets(line, sizeof(line), busy.from));
		EXPECT_STR_EQ(line, "l 0\n");
		program_step(&busy, 'p', 0);
		program_step(&busy, 'c', 0);
		program_step(&busy, 'f', 0);
	}
	expect_consistent_group();
	EXPECT_EQ(program_finish(&busy), 0);
}

TEST_TIMEOUT(a_program_whose_asker_is_killed_wakes_with_its_contents, 120)
{
	share_small_device();
	struct program idle = start_idle(true);

	for (unsigned i = 0; i < 8; i++) {
		struct program busy = start_member("lend_ms:20000", true);

		program_step(&busy, 'a', 0);
		fprintf(busy.to, "l\n");
		fflush(busy.to);
		usleep(400 * i);
		kill_program(&busy);
		program_step(&idle, 'c', 0);
		usleep(IDLE_US);
	}
	EXPECT_EQ(program_finish(&idle), 0);
}
