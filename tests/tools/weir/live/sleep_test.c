/*
 * weir sleep and weir wake: the memory of running programs that do not know
 * weir, whose launches wait meanwhile; and that of all members of a group.
 */
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/device.h"
#include "tests/support/peers.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"
#include "tests/tools/weir/strict_metrics.h"

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
	expect_refused("sleep", "--discard=x", "no pool 'x' to discard");
	expect_value("sleep.state", "awake\n");
	program_step(&program, 'w', 0);
	EXPECT_EQ(program_finish(&program), 0);
	program = program_start_watched();
	expect_refused("sleep", NULL, "start it with weir run --may-sleep");
	EXPECT_EQ(program_finish(&program), 0);
}

/* ---- A group ------------------------------------------------------------ */

/* Run `weir VERB g FLAG` for the group of the peers' folder. */
static struct command_result
change_group(const char *verb, const char *flag)
{
	return command_weir(verb, "--folder", peers_folder, "g", flag, NULL);
}

/* The command ends with this status and complaint, "" for none. */
static void
expect_change(const char *verb, const char *flag, int status, const char *err)
{
	struct command_result result = change_group(verb, flag);

	EXPECT_STR_HAS(result.err, err);
	if (*err == '\0')
		EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, status);
	command_free(&result);
}

static const char *member_priority = "100";
static const char *member_more = "";

/* Start a program as a member of group g. */
static struct program
start_member(const char *flag)
{
	char conf[128];
	struct program program;

	snprintf(conf, sizeof(conf),
	    "group:g,group_folder:%s,group_priority:%s%s", peers_folder,
	    member_priority, member_more);
	setenv("WEIR_CONF", conf, 1);
	program = program_start(flag);
	program_step(&program, 'a', 0);
	program_step(&program, 'w', 0);
	return program;
}

static void
expect_state(long pid, const char *state)
{
	snprintf(program_pid, sizeof(program_pid), "%ld", pid);
	expect_value("sleep.state", state);
}

/* The object of the member whose program is at the other end. */
static json_t *
member_of(json_t *object, size_t i)
{
	json_t *member = json_array_get(json_object_get(object, "members"), i);

	EXPECT_NOT_NULL(member);
	return member;
}

TEST_TIMEOUT(all_members_of_a_group_sleep_and_wake, 60)
{
	struct command_result result;
	struct program programs[2];

	share_device();
	runtime_folder();
	for (int i = 0; i < 2; i++)
		programs[i] = start_member("--may-sleep");
	result = change_group("sleep", NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(
	    result.out, "driver_steps: given back 2.00 MiB, copied 1.00 MiB, ");
	EXPECT_EQ(strchr(result.out, '\n') + 1 < strrchr(result.out, '\n'), 1);
	command_free(&result);
	for (int i = 0; i < 2; i++)
		expect_state(programs[i].pid, "asleep\n");
	result = change_group("wake", "--wait=1000");
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "mapped 2.00 MiB, copied back 1.00 MiB, ");
	command_free(&result);
	for (int i = 0; i < 2; i++) {
		expect_state(programs[i].pid, "awake\n");
		program_step(&programs[i], 'r', 42);
		EXPECT_EQ(program_finish(&programs[i]), 0);
	}
	drop_device();
}

/* A device of 256 MiB. One program sleeps with 120 MiB of its own, while
 * another one holds 200 MiB that it does not use. */
TEST_TIMEOUT(a_wake_of_the_programs_own_memory_asks_the_group, 60)
{
	struct program sleeper;
	struct program idle;

	share_device();
	runtime_folder();
	member_more = ",lend_ms:20000";
	sleeper = start_member("--may-sleep");
	program_step(&sleeper, 'f', 0);
	program_step(&sleeper, 'm', 0);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)sleeper.pid);
	expect_verb("sleep", NULL, "given back                      120.0 MiB");
	idle = start_member("--watch");
	for (int i = 0; i < 5; i++)
		program_step(&idle, 'l', 0);
	for (int i = 0; i < 5; i++)
		program_step(&idle, 'f', 0);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)sleeper.pid);
	expect_verb("wake", NULL, "mapped                          120.0 MiB");
	program_step(&sleeper, 'n', 0);
	EXPECT_EQ(program_finish(&sleeper), 0);
	EXPECT_EQ(program_finish(&idle), 0);
	drop_device();
}

/* With limit_counts:all the group's limit covers it. */
TEST_TIMEOUT(the_programs_own_memory_wakes_within_the_limit_that_counts_it, 60)
{
	struct program sleeper;
	struct program other;

	share_device();
	runtime_folder();
	member_more = ",group_limit_mb:200,lend_ms:2000,limit_counts:all";
	sleeper = start_member("--may-sleep");
	program_step(&sleeper, 'm', 0);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)sleeper.pid);
	expect_verb("sleep", NULL, "given back                      122.0 MiB");
	member_more = ",lend_ms:20000";
	other = start_member("--watch");
	for (int i = 0; i < 3; i++)
		program_step(&other, 'l', 0);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)sleeper.pid);
	expect_refused("wake", NULL, "not free in the group");
	for (int i = 0; i < 3; i++)
		program_step(&other, 'f', 0);
	expect_verb("wake", NULL, "mapped                          122.0 MiB");
	program_step(&sleeper, 'n', 0);
	EXPECT_EQ(program_finish(&sleeper), 0);
	EXPECT_EQ(program_finish(&other), 0);
	drop_device();
}

/* The metric of the first program's membership says whether it sleeps. */
static double
asleep_metric(const struct program *program)
{
	struct command_result result =
	    command_weir("group", "--metrics", "--folder", peers_folder, NULL);
	char label[32];
	double value;

	snprintf(label, sizeof(label), "pid=\"%ld\"", (long)program->pid);
	value = strict_metrics_value(result.out, "weir_member_asleep", label);
	EXPECT_NULL(strict_metrics_fault(result.out));
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	return value;
}

TEST_TIMEOUT(metrics_tell_who_sleeps_also_of_a_stopped_program, 60)
{
	struct program programs[2];

	share_device();
	runtime_folder();
	for (int i = 0; i < 2; i++)
		programs[i] = start_member("--may-sleep");
	snprintf(
	    program_pid, sizeof(program_pid), "%ld", (long)programs[0].pid);
	expect_verb("sleep", NULL, "given back");
	EXPECT_EQ(asleep_metric(&programs[0]), 1);
	EXPECT_EQ(asleep_metric(&programs[1]), 0);
	kill(programs[1].pid, SIGSTOP);
	EXPECT_EQ(asleep_metric(&programs[0]), 1);
	EXPECT_EQ(asleep_metric(&programs[1]), 0);
	kill(programs[1].pid, SIGCONT);
	expect_verb("wake", NULL, "mapped");
	EXPECT_EQ(asleep_metric(&programs[0]), 0);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(program_finish(&programs[i]), 0);
	drop_device();
}

TEST_TIMEOUT(a_member_that_refuses_is_named_and_the_others_sleep, 60)
{
	struct command_result result;
	struct program sleeper;
	struct program refuser;
	json_t *object;
	json_t *members[2];
	int refused;

	share_device();
	runtime_folder();
	sleeper = start_member("--may-sleep");
	refuser = start_member("--watch");
	result = change_group("sleep", NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.out, "driver_steps: given back 2.00 MiB");
	EXPECT_STR_HAS(result.err, ": start it with weir run --may-sleep");
	command_free(&result);
	expect_state(sleeper.pid, "asleep\n");
	expect_state(refuser.pid, "awake\n");

	result = change_group("sleep", "--json");
	EXPECT_EQ(result.status, 1);
	object = json_loads(result.out, 0, NULL);
	EXPECT_STR_EQ(json_string_value(json_object_get(object, "group")), "g");
	for (size_t i = 0; i < 2; i++)
		members[i] = member_of(object, i);
	refused = json_object_get(members[0], "refused") == NULL;
	EXPECT_STR_HAS(
	    json_string_value(json_object_get(members[refused], "refused")),
	    "--may-sleep");
	EXPECT_STR_EQ(
	    json_string_value(json_object_get(members[!refused], "state")),
	    "asleep");
	json_decref(object);
	command_free(&result);
	expect_change("wake", NULL, 0, "");
	EXPECT_EQ(program_finish(&sleeper), 0);
	EXPECT_EQ(program_finish(&refuser), 0);
	expect_change("sleep", NULL, 0, "");
	drop_device();
}

/* The process that the next line is about. */
static int
next_line(FILE *out)
{
	char line[256];

	EXPECT_NOT_NULL(fgets(line, sizeof(line), out));
	return atoi(line);
}

TEST_TIMEOUT(a_stopped_member_does_not_keep_the_others_awake, 60)
{
	struct program programs[2];
	char *weir = test_build("bin/weir");
	char command[4200];
	pid_t stopped;
	FILE *out;

	share_device();
	runtime_folder();
	for (int i = 0; i < 2; i++)
		programs[i] = start_member("--may-sleep");
	stopped = programs[0].pid;
	kill(stopped, SIGSTOP);
	snprintf(command, sizeof(command), "%s sleep --folder %s g", weir,
	    peers_folder);
	out = popen(command, "r");
	EXPECT_EQ(next_line(out), programs[1].pid);
	kill(stopped, SIGCONT);
	EXPECT_EQ(next_line(out), stopped);
	EXPECT_EQ(pclose(out), 0);
	expect_change("wake", NULL, 0, "");
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(program_finish(&programs[i]), 0);
	free(weir);
	drop_device();
}

TEST_TIMEOUT(the_member_with_the_highest_priority_wakes_first, 60)
{
	static const char *const priorities[] = { "50", "200" };
	struct program programs[2];
	char text[160];

	share_device();
	runtime_folder();
	snprintf(
	    text, sizeof(text), "memory_mb:64,shared_device:%s", peers_device);
	setenv("SIMCUDA_CONF", text, 1);
	for (int i = 0; i < 2; i++) {
		member_priority = priorities[i];
		programs[i] = start_member("--may-sleep");
		for (int block = 1; block < 40; block++)
			program_step(&programs[i], 'a', 0);
		expect_change("sleep", NULL, 0, "");
	}
	/* The device has room for one of them. */
	expect_change("wake", NULL, 1, "not free in the group on device 0");
	expect_state(programs[0].pid, "asleep\n");
	expect_state(programs[1].pid, "awake\n");
	EXPECT_EQ(program_finish(&programs[1]), 0);
	expect_change("wake", NULL, 0, "");
	expect_state(programs[0].pid, "awake\n");
	EXPECT_EQ(program_finish(&programs[0]), 0);
	drop_device();
}

/* Users of a folder for several can name any process in a ledger. */
TEST_TIMEOUT(a_process_that_denies_its_membership_is_left_alone, 60)
{
	struct program other;
	struct program member;
	struct ledger_slot *slot;

	share_device();
	EXPECT_EQ(chmod(peers_folder, 01777), 0);
	runtime_folder();
	other = program_start("--may-sleep");
	program_step(&other, 'a', 0);
	member = start_member("--may-sleep");
	expect_change("sleep", NULL, 0, "");
	expect_change("wake", NULL, 0, "");
	join_with("");
	EXPECT_NOT_NULL(weir_malloc(MIB, NULL));
	slot = ledger_own_slot(ledger_here());
	atomic_store(&slot->pid, (uint64_t)other.pid);
	expect_change("sleep", NULL, 1, "does not say that it is a member");
	expect_state(other.pid, "awake\n");
	expect_state(member.pid, "asleep\n");
	atomic_fetch_add(&slot->pid_space, 1);
	expect_change("wake", NULL, 1, "in another container");
	expect_state(member.pid, "awake\n");
	EXPECT_EQ(program_finish(&member), 0);
	EXPECT_EQ(program_finish(&other), 0);
	drop_device();
}

static void
expect_wrong(const char *flag, const char *target, const char *err)
{
	struct command_result result =
	    command_weir("sleep", flag, target, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, err);
	command_free(&result);
}

TEST(a_group_that_there_is_not_and_flags_of_processes_are_trouble)
{
	char folder[128];

	share_device();
	runtime_folder();
	snprintf(folder, sizeof(folder), "--folder=%s", peers_folder);
	expect_wrong(folder, "none", "no group none");
	expect_wrong("--folder=/dev/null", "none", "/dev/null");
	expect_wrong(folder, "2147483646", "--folder is of a GROUP");
	expect_wrong("--json", "2147483646", "no process 2147483646");
	expect_wrong("--discard=3", "g", "--discard is of one process");
	expect_wrong("--json", "a/b", "not 'a/b'");
	expect_wrong("--json", "", "not ''");
	expect_wrong("g", "h", "more than one PID or GROUP");
	expect_wrong("--json", NULL, "no PID or GROUP");
	drop_device();
}
