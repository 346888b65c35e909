/*
 * weir watch: running programs that do not know weir.
 */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"

static char pid_text[32];

/* Start driver_steps under `weir run` with this flag. */
static struct program
start(const char *flag)
{
	struct program program = program_start(flag);

	snprintf(pid_text, sizeof(pid_text), "%ld", (long)program.pid);
	return program;
}

static json_t *
json_of(const char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);

	if (json == NULL)
		FAIL("%s: %s", error.text, text);
	return json;
}

static long long
number(const json_t *json, const char *part, const char *key)
{
	const json_t *device =
	    json_array_get(json_object_get(json, "devices"), 0);
	const json_t *value =
	    json_object_get(json_object_get(device, part), key);

	EXPECT(json_is_integer(value));
	return json_integer_value(value);
}

/* `weir watch PID --once --json` */
static json_t *
look(void)
{
	struct command_result result =
	    command_weir("watch", pid_text, "--once", "--json", NULL);
	json_t *json;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	json = json_of(result.out);
	EXPECT_EQ(
	    json_integer_value(json_object_get(json, "format_version")), 1);
	command_free(&result);
	return json;
}

/* True if the system shows which process is `weir run`. Under valgrind every
 * process has valgrind's own program. */
static bool
is_known_as_weir(const struct program *program)
{
	char *weir = test_build("bin/weir");
	char path[64];
	struct stat wanted;
	struct stat found;
	bool known;

	snprintf(path, sizeof(path), "/proc/%ld/exe", (long)program->pid);
	EXPECT_EQ(stat(weir, &wanted), 0);
	EXPECT_EQ(stat(path, &found), 0);
	known = wanted.st_dev == found.st_dev && wanted.st_ino == found.st_ino;
	free(weir);
	return known;
}

/* `weir run` stays for the report, and the shell knows its number, not the
 * program's. */
TEST(a_program_is_found_by_the_number_of_its_weir_run)
{
	struct program program;
	json_t *json;

	runtime_folder();
	program_report = "/dev/null";
	program = start("--watch");
	program_step(&program, 'a', 0);
	if (!is_known_as_weir(&program)) {
		EXPECT(test_is_watched());
		EXPECT_EQ(program_finish(&program), 0);
		SKIP("valgrind hides which program a process runs");
	}
	json = look();
	EXPECT_STR_EQ(json_string_value(json_object_get(json, "program")),
	    "driver_steps");
	EXPECT_NE(json_integer_value(json_object_get(json, "pid")),
	    (long long)program.pid);
	EXPECT_EQ(number(json, "memory", "live_bytes"), 1 << 20);
	json_decref(json);
	EXPECT_EQ(program_finish(&program), 0);
}

static void
expect_no(const char *pid, const char *why)
{
	struct command_result result =
	    command_weir("watch", pid, "--once", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, why);
	command_free(&result);
}

/* A process of another user: one that this test starts if it may, or the
 * system's first. */
static pid_t
other_user_s_process(void)
{
	pid_t pid = 1;

	if (geteuid() == 0) {
		pid = fork();
		if (pid == 0) {
			if (setuid(65534) != 0)
				_exit(1);
			sleep(60);
			_exit(0);
		}
		usleep(100000);
	}
	return pid;
}

TEST(the_process_of_another_user_is_called_so)
{
	pid_t pid = other_user_s_process();
	char path[32];
	char why[64];

	runtime_folder();
	snprintf(path, sizeof(path), "%ld", (long)pid);
	snprintf(why, sizeof(why), "belongs to another user (uid %d)",
	    pid == 1 ? 0 : 65534);
	expect_no(path, why);
	struct command_result result = command_weir("ctl", path, NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, why);
	EXPECT_NULL(strstr(result.err, "--watch"));
	command_free(&result);
	if (pid != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

TEST(a_running_program_is_looked_at)
{
	struct program program;
	json_t *json;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	program_step(&program, 'a', 0);
	json = look();
	EXPECT_EQ(json_integer_value(json_object_get(json, "pid")),
	    (long long)program.pid);
	EXPECT_STR_EQ(json_string_value(json_object_get(json, "program")),
	    program_name(&program));
	EXPECT_EQ(number(json, "memory", "live_bytes"), 2 << 20);
	EXPECT_EQ(number(json, "memory", "live_blocks"), 2);
	EXPECT_GE(number(json, "memory", "held_bytes"), 2 << 20);
	json_decref(json);
	program_step(&program, 'f', 0);
	program_step(&program, 'h', 0);
	json = look();
	EXPECT_EQ(number(json, "memory", "live_bytes"), 1 << 20);
	EXPECT_EQ(number(json, "memory", "frees"), 1);
	EXPECT_EQ(number(json, "pinned", "live_bytes"), 1 << 20);
	/* The driver pinned this much for the first time. */
	EXPECT_GT(number(json, "pinned", "pin_ns"), 0);
	EXPECT_EQ(number(json, "pinned", "pin_delay_ns"), 0);
	json_decref(json);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(text_names_streams_pools_and_rates)
{
	struct program program;
	struct command_result result;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	result = command_weir("watch", pid_text, "--once", NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_HAS(result.out, program_name(&program));
	EXPECT_STR_HAS(result.out, "live 1.00 MiB in 1 block");
	EXPECT_STR_HAS(result.out, "allocations -, frees -");
	EXPECT_STR_HAS(result.out, "no stream");
	EXPECT_NULL(strchr(result.out, '\033'));
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}

/* The program requests no memory, so that weir does not query the device. */
TEST(pending_memory_of_an_idle_program_is_reported_as_of_its_last_request)
{
	static const char note[] = "pending memory may be complete by now";
	struct program program;
	struct command_result result;
	char command[4096];
	char line[1024];
	char *weir = test_build("bin/weir");
	FILE *watch;
	unsigned lines = 0;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	program_step(&program, 'f', 0);
	result = command_weir("watch", pid_text, "--once", NULL);
	EXPECT_STR_HAS(result.out, "pending 1.00 MiB");
	EXPECT_NULL(strstr(result.out, note)); /* nothing to compare with */
	command_free(&result);
	snprintf(command, sizeof(command), "%s watch %s --interval 0.05 2>&1",
	    weir, pid_text);
	watch = popen(command, "r");
	EXPECT_NOT_NULL(watch);
	do
		EXPECT_NOT_NULL(fgets(line, sizeof(line), watch));
	while (strstr(line, note) == NULL && ++lines < 100);
	EXPECT_STR_HAS(line, note);
	EXPECT_EQ(program_finish(&program), 0);
	pclose(watch);
	free(weir);
}

/* A watch that goes on prints a line of JSON each time, with rates from the
 * second line on. */
TEST(looking_goes_on_until_the_program_ends)
{
	struct program program;
	char command[4096];
	char line[16384];
	char *weir = test_build("bin/weir");
	FILE *watch;
	json_t *json;
	const json_t *device;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	snprintf(command, sizeof(command),
	    "%s watch %s --json --interval 0.05 2>&1", weir, pid_text);
	watch = popen(command, "r");
	EXPECT_NOT_NULL(watch);
	EXPECT_NOT_NULL(fgets(line, sizeof(line), watch));
	json = json_of(line);
	device = json_array_get(json_object_get(json, "devices"), 0);
	EXPECT(json_is_null(json_object_get(device, "allocations_per_s")));
	json_decref(json);
	EXPECT_NOT_NULL(fgets(line, sizeof(line), watch));
	json = json_of(line);
	device = json_array_get(json_object_get(json, "devices"), 0);
	EXPECT(json_is_real(json_object_get(device, "allocations_per_s")));
	json_decref(json);
	EXPECT_EQ(program_finish(&program), 0);
	while (fgets(line, sizeof(line), watch) != NULL && line[0] == '{')
		;
	EXPECT_STR_HAS(line, "has ended");
	EXPECT_EQ(pclose(watch), 0);
	free(weir);
}

TEST(a_snapshot_is_fetched_from_a_running_program)
{
	const char *folder = runtime_folder();
	struct program program = start("--watch");
	struct command_result result;
	struct stat about;
	char path[4200];

	snprintf(path, sizeof(path), "%s/fetched.pickle", folder);
	umask(0);
	program_step(&program, 'a', 0);
	result = command_weir("watch", pid_text, "--snapshot", path, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_mode & 07777, 0600);
	result = command_weir("show", path, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, "1.00 MiB");
	command_free(&result);
	result = command_weir(
	    "watch", pid_text, "--snapshot", "/no/such/folder/x", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "/no/such/folder/x: cannot be written");
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(several_watch_one_program)
{
	struct program program;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	for (int i = 0; i < 4; i++) {
		fflush(NULL);
		if (fork() == 0) {
			for (int k = 0; k < 5; k++)
				json_decref(look());
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++) {
		int status;
		pid_t child = waitpid(-1, &status, 0);

		EXPECT_NE(child, program.pid);
		EXPECT_EQ(status, 0);
	}
	program_step(&program, 'f', 0);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(processes_that_can_be_watched_are_listed)
{
	struct program program;
	struct command_result result;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	result = command_weir("watch", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, pid_text);
	EXPECT_STR_HAS(result.out, program_name(&program));
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
	result = command_weir("watch", NULL);
	EXPECT_NULL(strstr(result.out, pid_text));
	command_free(&result);
}

TEST(the_reason_why_a_process_cannot_be_watched_is_reported)
{
	struct program program;

	runtime_folder();
	program = start("--history");
	program_step(&program, 'a', 0);
	expect_no(pid_text, "cannot be watched: it was not started by");
	EXPECT_EQ(program_finish(&program), 0);
	expect_no(pid_text, "there is no process");
	expect_no("2147483647", "there is no process 2147483647");
}

TEST(data_of_a_killed_program_is_not_trusted)
{
	struct program program;
	int status;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	json_decref(look());
	EXPECT_EQ(kill(program.pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(program.pid, &status, 0), program.pid);
	expect_no(pid_text, "was watched, and is gone");
	/* The old socket has been removed. */
	expect_no(pid_text, "there is no process");
}

TEST(a_program_that_ends_by_itself_takes_its_socket_along)
{
	struct program program;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	json_decref(look());
	EXPECT_EQ(program_finish(&program), 0);
	expect_no(pid_text, "there is no process");
}

TEST(a_child_of_a_watched_program_disturbs_nothing)
{
	struct program program;

	runtime_folder();
	program = start("--watch");
	program_step(&program, 'a', 0);
	program_step(&program, 'k', 7);
	json_decref(look());
	program_step(&program, 'f', 0);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(a_folder_of_others_is_not_used)
{
	const char *folder = runtime_folder();
	char path[4200];

	snprintf(path, sizeof(path), "%s/weir", folder);
	EXPECT_EQ(mkdir(path, 0700), 0);
	EXPECT_EQ(chmod(path, 0755), 0);
	expect_no("1", "others may use it (mode 755): not used");
}

TEST(wrong_arguments_are_named)
{
	static const char *const wrong[][2] = {
		{ "0", "PID is the number of a process, not '0'" },
		{ "x", "PID is the number of a process, not 'x'" },
		{ "--interval=0", "--interval is a number of seconds" },
		{ "--interval=nan", "--interval is a number of seconds" },
		{ "--snapshot=x", "no PID" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct command_result result =
		    command_weir("watch", wrong[i][0], NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_HAS(result.err, wrong[i][1]);
		command_free(&result);
	}
}

/* ---- weir run ---------------------------------------------------------- */

TEST(run_keeps_the_history_and_writes_a_snapshot_at_the_end)
{
	const char *folder = runtime_folder();
	char *steps = test_build("tests/programs/driver_dlsym");
	struct command_result result;
	char flag[4300];
	char path[4200];

	snprintf(path, sizeof(path), "%s/end.pickle", folder);
	snprintf(flag, sizeof(flag), "--snapshot=%s", path);
	result = command_weir(
	    "run", "--quiet", "--sim", "--history", flag, "--", steps, NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	result = command_weir("trace", path, "--action", "oom", NULL);
	EXPECT_EQ(result.status, 0);
	/* The exercise requests once more memory than the device has; the
	 * snapshot names the caller. */
	EXPECT_STR_HAS(result.out, "try_limits (cuda.c:");
	command_free(&result);
	result = command_weir("check", path, NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(steps);
}

/* A copy that waits, and waits for streams, in the snapshot of a program that
 * does not know weir. */
TEST(run_records_the_program_s_waits_in_the_history)
{
	const char *folder = runtime_folder();
	char *program = test_build("tests/programs/driver_dlsym");
	struct command_result result;
	json_error_t error;
	json_t *snapshot;
	const json_t *note;
	char flag[4300];
	char path[4200];
	int starts = 0;
	int ends = 0;
	size_t i;

	snprintf(path, sizeof(path), "%s/end.json", folder);
	snprintf(flag, sizeof(flag), "--snapshot=%s", path);
	result = command_weir("run", "--quiet", "--sim", "--history=none", flag,
	    "--", program, NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	snapshot = json_load_file(path, 0, &error);
	EXPECT_NOT_NULL(snapshot);
	json_array_foreach(
	    json_object_get(snapshot, "external_annotations"), i, note)
	{
		const char *stage =
		    json_string_value(json_object_get(note, "stage"));

		if (strcmp(json_string_value(json_object_get(note, "name")),
			"cuMemcpyDtoH") != 0)
			continue;
		starts += strcmp(stage, "START") == 0;
		ends += strcmp(stage, "END") == 0;
		EXPECT_EQ(starts, ends + (strcmp(stage, "START") == 0));
	}
	EXPECT_GT(starts, 0);
	EXPECT_EQ(starts, ends);
	json_decref(snapshot);
	free(program);
}

/* The number of annotations of this stage with a name. */
static int
notes(const json_t *snapshot, const char *name, const char *stage)
{
	const json_t *note;
	int count = 0;
	size_t i;

	json_array_foreach(
	    json_object_get(snapshot, "external_annotations"), i, note)
	{
		count +=
		    strcmp(json_string_value(json_object_get(note, "name")),
			name) == 0 &&
		    strcmp(json_string_value(json_object_get(note, "stage")),
			stage) == 0;
	}
	return count;
}

TEST(ranges_of_nvtx_are_annotations_of_the_history)
{
	static const char *const names[] = { "outer", "inner", "registered",
		"described", "long" };
	const char *folder = runtime_folder();
	char *program = test_build("tests/programs/nvtx_ranges");
	struct command_result result;
	json_t *snapshot;
	char flag[4300];
	char path[4200];

	unsetenv("NVTX_INJECTION64_PATH");
	snprintf(path, sizeof(path), "%s/nvtx.json", folder);
	snprintf(flag, sizeof(flag), "--snapshot=%s", path);
	result = command_weir("run", "--quiet", "--sim", "--history=none", flag,
	    "--", program, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_EQ(result.out,
	    "tool 1\npush 0\npush 1\npop 1\npop 0\npop -1\nrange 1\n"
	    "elsewhere -1\ndeep 0\nchild 0\n");
	command_free(&result);
	snapshot = json_load_file(path, 0, NULL);
	EXPECT_NOT_NULL(snapshot);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		EXPECT_EQ(notes(snapshot, names[i], "START"), 1);
		EXPECT_EQ(notes(snapshot, names[i], "END"), 1);
	}
	EXPECT_EQ(notes(snapshot, "deep", "START"), 32);
	EXPECT_EQ(notes(snapshot, "deep", "END"), 32);
	json_decref(snapshot);
	free(program);
}

TEST(a_profiler_of_nvtx_keeps_its_place)
{
	struct command_result result;

	runtime_folder();
	setenv("NVTX_INJECTION64_PATH", "/a/profiler.so", 1);
	result = command_weir("run", "--quiet", "--sim", "--history", "--",
	    "/bin/sh", "-c", "echo $NVTX_INJECTION64_PATH", NULL);
	EXPECT_STR_EQ(result.out, "/a/profiler.so\n");
	command_free(&result);
}

TEST(run_refuses_flags_that_cannot_be_passed_to_the_program)
{
	struct command_result result =
	    command_weir("run", "--sim", "--snapshot=a,b", "--", "true", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "a,b: a comma in the name");
	command_free(&result);
	result =
	    command_weir("run", "--sim", "--history=much", "--", "true", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(
	    result.err, "--history is none, state, alloc or all, not 'much'");
	command_free(&result);
}
