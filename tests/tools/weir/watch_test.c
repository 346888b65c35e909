/*
 * weir watch: looking at programs that know nothing of weir, while they run.
 */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* A program of ours that does what it is told: driver_steps. */
struct program {
	pid_t pid;
	FILE *to;
	FILE *from;
};

static char pid_text[32];

/* Programs start from nothing; a sanitizer's runtime comes with them, so not
 * first, and sleeps at their ends. */
static void
plain_environment(void)
{
	unsetenv("WEIR_CONF");
	unsetenv("WEIR_REPORT");
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 1);
}

static const char *
runtime_folder(void)
{
	static char path[4096];
	char *file = test_file("x", "", 0);

	snprintf(path, sizeof(path), "%s", file);
	*strrchr(path, '/') = '\0';
	setenv("XDG_RUNTIME_DIR", path, 1);
	free(file);
	plain_environment();
	return path;
}

static void
run_program(const char *flag)
{
	char *weir = test_build("bin/weir");
	char *steps = test_build("tests/programs/driver_steps");

	execl(weir, "weir", "run", "--quiet", "--sim", flag, "--", steps,
	    (char *)NULL);
	_exit(127);
}

/* Start it under `weir run` with this flag. */
static struct program
start(const char *flag)
{
	struct program program;
	int to[2];
	int from[2];

	EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
	EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	program.pid = fork();
	if (program.pid == 0) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		run_program(flag);
	}
	close(to[0]);
	close(from[1]);
	program.to = fdopen(to[1], "w");
	program.from = fdopen(from[0], "r");
	snprintf(pid_text, sizeof(pid_text), "%ld", (long)program.pid);
	return program;
}

/* What the system calls it; valgrind is there under a name of its own. */
static const char *
name_of(const struct program *program)
{
	static char name[32];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)program->pid);
	file = fopen(path, "r");
	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(fgets(name, sizeof(name), file));
	fclose(file);
	name[strcspn(name, "\n")] = '\0';
	return name;
}

/* Have it do one thing; its answer is checked. */
static void
step(const struct program *program, char letter, int answer)
{
	char line[32];
	char expected[32];

	fprintf(program->to, "%c\n", letter);
	fflush(program->to);
	EXPECT_NOT_NULL(fgets(line, sizeof(line), program->from));
	snprintf(expected, sizeof(expected), "%c %d\n", letter, answer);
	EXPECT_STR_EQ(line, expected);
}

/* Let it end; its exit status. */
static int
finish(struct program *program)
{
	int status;

	fclose(program->to);
	EXPECT_EQ(waitpid(program->pid, &status, 0), program->pid);
	fclose(program->from);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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
	command_free(&result);
	return json;
}

static void
expect_no(const char *pid, const char *why)
{
	struct command_result result =
	    command_weir("watch", pid, "--once", NULL);

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, why);
	command_free(&result);
}

TEST(a_running_program_is_looked_at)
{
	struct program program;
	json_t *json;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
	step(&program, 'a', 0);
	json = look();
	EXPECT_EQ(json_integer_value(json_object_get(json, "pid")),
	    (long long)program.pid);
	EXPECT_STR_EQ(json_string_value(json_object_get(json, "program")),
	    name_of(&program));
	EXPECT_EQ(number(json, "memory", "live_bytes"), 2 << 20);
	EXPECT_EQ(number(json, "memory", "live_blocks"), 2);
	EXPECT_GE(number(json, "memory", "held_bytes"), 2 << 20);
	json_decref(json);
	step(&program, 'f', 0);
	step(&program, 'h', 0);
	json = look();
	EXPECT_EQ(number(json, "memory", "live_bytes"), 1 << 20);
	EXPECT_EQ(number(json, "memory", "frees"), 1);
	EXPECT_EQ(number(json, "pinned", "live_bytes"), 1 << 20);
	json_decref(json);
	EXPECT_EQ(finish(&program), 0);
}

TEST(text_names_streams_pools_and_rates)
{
	struct program program;
	struct command_result result;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
	result = command_weir("watch", pid_text, "--once", NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_STR_HAS(result.out, name_of(&program));
	EXPECT_STR_HAS(result.out, "live 1.00 MiB in 1 blocks");
	EXPECT_STR_HAS(result.out, "allocations -, frees -");
	EXPECT_STR_HAS(result.out, "no stream");
	EXPECT_NULL(strchr(result.out, '\033'));
	command_free(&result);
	EXPECT_EQ(finish(&program), 0);
}

/* One that goes on: a line of JSON each time, with rates from the second on. */
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
	step(&program, 'a', 0);
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
	EXPECT_EQ(finish(&program), 0);
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
	step(&program, 'a', 0);
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
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "/no/such/folder/x: cannot be written");
	command_free(&result);
	EXPECT_EQ(finish(&program), 0);
}

TEST(several_watch_one_program)
{
	struct program program;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
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
	step(&program, 'f', 0);
	EXPECT_EQ(finish(&program), 0);
}

TEST(processes_that_can_be_watched_are_listed)
{
	struct program program;
	struct command_result result;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
	result = command_weir("watch", NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_HAS(result.out, pid_text);
	EXPECT_STR_HAS(result.out, name_of(&program));
	command_free(&result);
	EXPECT_EQ(finish(&program), 0);
	result = command_weir("watch", NULL);
	EXPECT_NULL(strstr(result.out, pid_text));
	command_free(&result);
}

TEST(what_cannot_be_watched_is_told_apart)
{
	struct program program;

	runtime_folder();
	program = start("--history");
	step(&program, 'a', 0);
	expect_no(pid_text, "cannot be watched: it was not started by");
	EXPECT_EQ(finish(&program), 0);
	expect_no(pid_text, "there is no process");
	expect_no("2147483647", "there is no process 2147483647");
}

TEST(a_killed_program_leaves_nothing_that_is_believed)
{
	struct program program;
	int status;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
	json_decref(look());
	EXPECT_EQ(kill(program.pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(program.pid, &status, 0), program.pid);
	expect_no(pid_text, "was watched, and is gone");
	/* The socket that was left has been removed. */
	expect_no(pid_text, "there is no process");
}

TEST(a_program_that_ends_by_itself_takes_its_socket_along)
{
	struct program program;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
	json_decref(look());
	EXPECT_EQ(finish(&program), 0);
	expect_no(pid_text, "there is no process");
}

TEST(a_child_of_a_watched_program_disturbs_nothing)
{
	struct program program;

	runtime_folder();
	program = start("--watch");
	step(&program, 'a', 0);
	step(&program, 'k', 7);
	json_decref(look());
	step(&program, 'f', 0);
	EXPECT_EQ(finish(&program), 0);
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
		{ "0", "PID is a process, not '0'" },
		{ "x", "PID is a process, not 'x'" },
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
	/* The exercise asks once for more than there is; who did has a name.*/
	EXPECT_STR_HAS(result.out, "try_limits (cuda.c:");
	command_free(&result);
	result = command_weir("check", path, NULL);
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(steps);
}

/* A copy that waits, and waits for streams, in the snapshot of a program that
 * knows nothing of weir. */
TEST(run_notes_in_the_history_what_the_program_waits_for)
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

TEST(run_refuses_what_cannot_be_told_to_the_program)
{
	struct command_result result =
	    command_weir("run", "--sim", "--snapshot=a,b", "--", "true", NULL);

	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "a,b: a comma in the name");
	command_free(&result);
	result =
	    command_weir("run", "--sim", "--history=much", "--", "true", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "option history: 'much'");
	command_free(&result);
}
