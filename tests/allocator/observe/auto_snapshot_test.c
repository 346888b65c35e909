/*
 * Options by which weir acts on its own: history from the first allocation on,
 * and snapshots at the end, at a failure and at a signal.
 */
#include "allocator/observe/auto_snapshot.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/trace.h>

#include "allocator/memory/arena.h"
#include "tests/support/command.h"
#include "tests/support/device.h"

static char folder[] = "/tmp/weir-attend-XXXXXX";

/* A file of the test's folder, which is made by the first call. */
static const char *
in_folder(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next % 4];

	if (next++ == 0)
		EXPECT_NOT_NULL(mkdtemp(folder));
	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

/* Return the names in the folder, empty it and remove it. */
static const char *
names_left(void)
{
	static char all[1024];
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);

	all[0] = '\0';
	for (int i = 0; i < n; i++) {
		if (entries[i]->d_name[0] != '.') {
			strcat(all, entries[i]->d_name);
			strcat(all, " ");
			unlink(in_folder(entries[i]->d_name));
		}
		free(entries[i]);
	}
	free(entries);
	rmdir(folder);
	return all;
}

/* Set options in the environment, with the path of a file for "@". */
static void
ask_for(const char *options, const char *path)
{
	char text[512];
	const char *at = strchr(options, '@');

	if (at == NULL)
		snprintf(text, sizeof(text), "%s", options);
	else
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - options),
		    options, path, at + 1);
	setenv("WEIR_CONF", text, 1);
}

/* Return the stderr of a child that runs `body` and ends by exit(). */
static char *
child_says(void (*body)(void), int *status)
{
	static char said[4096];
	size_t used = 0;
	ssize_t n;
	int ends[2];
	pid_t child;

	EXPECT_EQ(pipe(ends), 0);
	fflush(NULL);
	child = fork();
	EXPECT_GE(child, 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		body();
		exit(3);
	}
	close(ends[1]);
	while ((n = read(ends[0], said + used, sizeof(said) - used - 1)) > 0)
		used += (size_t)n;
	said[used] = '\0';
	close(ends[0]);
	EXPECT_EQ(waitpid(child, status, 0), child);
	return said;
}

static json_t *
snapshot_of(const char *path)
{
	json_error_t error;
	json_t *json = json_load_file(path, 0, &error);

	if (json == NULL)
		FAIL("%s: %s", path, error.text);
	return json;
}

/* Count the events of an action on the first device. */
static int
events_of(const json_t *snapshot, const char *action)
{
	const json_t *events =
	    json_array_get(json_object_get(snapshot, "device_traces"), 0);
	size_t i;
	const json_t *event;
	int n = 0;

	json_array_foreach(events, i, event) n +=
	    strcmp(json_string_value(json_object_get(event, "action")),
		action) == 0;
	return n;
}

/* Weir's threads have names, and a driver has threads of its own. */
static int
threads_of_weir(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	EXPECT_NOT_NULL(tasks);
	while ((entry = readdir(tasks)) != NULL) {
		char path[300];
		char name[32] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
		    entry->d_name);
		FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (file == NULL)
			continue;
		n += fgets(name, sizeof(name), file) != NULL &&
		    strncmp(name, "weir-", 5) == 0;
		fclose(file);
	}
	closedir(tasks);
	return n;
}

/* ---- History ----------------------------------------------------------- */

TEST(the_history_begins_before_the_first_allocation)
{
	struct weir_history_info info = { .struct_size = sizeof(info) };
	json_t *snapshot;

	ask_for("history:alloc,history_entries:77", NULL);
	give(take(MIB, NULL));
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(info.on);
	EXPECT_EQ(info.level, WEIR_HISTORY_ALLOC);
	EXPECT_OK(weir_snapshot_write(
	    in_folder("now.json"), WEIR_SNAPSHOT_JSON, NULL));
	snapshot = snapshot_of(in_folder("now.json"));
	EXPECT_EQ(events_of(snapshot, "alloc"), 1);
	EXPECT_EQ(events_of(snapshot, "free_completed"), 1);
	EXPECT_GT(events_of(snapshot, "segment_map") +
		events_of(snapshot, "segment_alloc"),
	    0);
	EXPECT_EQ(
	    json_integer_value(json_object_get(
		json_object_get(json_object_get(snapshot, "weir"), "history"),
		"max_entries")),
	    77);
	json_decref(snapshot);
	EXPECT_STR_EQ(names_left(), "now.json ");
}

/* The first event of a kind of device 0, or NULL. */
static const json_t *
first_event(const json_t *snapshot, const char *action)
{
	const json_t *events =
	    json_array_get(json_object_get(snapshot, "device_traces"), 0);
	const json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		if (strcmp(json_string_value(json_object_get(event, "action")),
			action) == 0)
			return event;
	}
	return NULL;
}

static size_t
frames_of(const json_t *object)
{
	return json_array_size(json_object_get(object, "frames"));
}

TEST(the_first_allocation_of_a_process_has_a_stack)
{
	const json_t *segment;
	json_t *snapshot;

	ask_for("history:all", NULL);
	void *block = take(MIB, NULL);
	EXPECT_OK(weir_snapshot_write(
	    in_folder("now.json"), WEIR_SNAPSHOT_JSON, NULL));
	snapshot = snapshot_of(in_folder("now.json"));
	EXPECT_GT(frames_of(first_event(snapshot, "alloc")), 0);
	segment = json_array_get(json_object_get(snapshot, "segments"), 0);
	EXPECT_GT(frames_of(segment), 0);
	EXPECT_GT(
	    frames_of(json_array_get(json_object_get(segment, "blocks"), 0)),
	    0);
	give(block);
	json_decref(snapshot);
	EXPECT_STR_EQ(names_left(), "now.json ");
}

TEST(without_an_option_nothing_begins)
{
	struct weir_history_info info = { .struct_size = sizeof(info) };

	give(take(MIB, NULL));
	EXPECT_OK(weir_history_info(0, &info));
	EXPECT(!info.on);
	EXPECT_EQ(threads_of_weir(), 0);
}

TEST(a_thread_of_weir_s_has_its_name)
{
	ask_for("watch:True", NULL);
	give(take(MIB, NULL));
	EXPECT_SOON(threads_of_weir() == 1);
}

/* ---- At the end -------------------------------------------------------- */

static void
hold_one(void)
{
	take(3 * MIB, NULL);
}

TEST(a_snapshot_is_written_when_the_process_ends)
{
	const char *path = in_folder("end.json");
	struct stat about;
	json_t *snapshot;
	json_t *segment;
	int status;

	umask(0);
	ask_for("snapshot:@,history:state", path);
	EXPECT_STR_EQ(child_says(hold_one, &status), "");
	EXPECT_EQ(WEXITSTATUS(status), 3);
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_mode & 07777, 0600);
	snapshot = snapshot_of(path);
	segment = json_array_get(json_object_get(snapshot, "segments"), 0);
	EXPECT_EQ(
	    json_integer_value(json_object_get(segment, "requested_size")),
	    3 * MIB);
	EXPECT_EQ(events_of(snapshot, "alloc"), 1);
	json_decref(snapshot);
	EXPECT_STR_EQ(names_left(), "end.json ");
}

static void
ask_nothing(void)
{
	weir_init();
}

TEST(a_process_that_asks_for_no_memory_writes_none)
{
	int status;

	ask_for("snapshot:@", in_folder("end.json"));
	EXPECT_STR_EQ(child_says(ask_nothing, &status), "");
	EXPECT_STR_EQ(names_left(), "");
}

TEST(a_link_in_the_place_of_the_snapshot_is_replaced)
{
	const char *path = in_folder("end");
	const char *target = in_folder("target");
	struct stat about;
	int status;

	EXPECT_EQ(symlink(target, path), 0);
	ask_for("snapshot:@", path);
	child_says(hold_one, &status);
	EXPECT_EQ(lstat(path, &about), 0);
	EXPECT(S_ISREG(about.st_mode));
	EXPECT_STR_EQ(names_left(), "end ");
}

static void
leave_folder(void)
{
	hold_one();
	if (chdir("/") != 0)
		_exit(1);
}

TEST(a_relative_name_is_of_the_folder_at_the_first_allocation)
{
	int status;

	in_folder("");
	EXPECT_EQ(chdir(folder), 0);
	ask_for("snapshot:here-%p.pickle", NULL);
	EXPECT_STR_EQ(child_says(leave_folder, &status), "");
	EXPECT_EQ(chdir("/"), 0);
	EXPECT_STR_HAS(names_left(), "here-");
}

TEST(a_snapshot_that_cannot_be_written_is_reported_and_changes_nothing)
{
	int status;
	char *said;

	ask_for("snapshot:@", in_folder("none/end.json"));
	said = child_says(hold_one, &status);
	EXPECT_STR_HAS(said, "weir: snapshot: ");
	EXPECT_STR_HAS(said, "none/end.json: cannot be written: No such file");
	EXPECT_EQ(WEXITSTATUS(status), 3);
	EXPECT_STR_EQ(names_left(), "");
}

static void
fork_and_end(void)
{
	int status;
	pid_t child;

	hold_one();
	child = fork();
	if (child == 0)
		exit(0);
	waitpid(child, &status, 0);
	_exit(WEXITSTATUS(status));
}

TEST(a_forked_child_writes_none)
{
	int status;

	ask_for("snapshot:@,watch:True", in_folder("end-%p.json"));
	/* A sanitizer may miss the thread, which the child does not have. */
	EXPECT_NULL(strstr(child_says(fork_and_end, &status), "weir:"));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	EXPECT_STR_EQ(names_left(), "");
}

/* ---- At a failure ------------------------------------------------------ */

static void
fail_twice(void)
{
	void *kept = take(MIB, NULL);

	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 50, NULL), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "CUDA out of memory");
	give(kept);
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 50, NULL), WEIR_ENOMEM);
}

TEST(the_first_failure_is_kept_and_not_replaced_at_the_end)
{
	const char *path = in_folder("one.json");
	json_t *snapshot;
	char *said;
	int status;

	ask_for("snapshot:@,history:none", path);
	said = child_says(fail_twice, &status);
	EXPECT_STR_HAS(said, "weir: snapshot (oom): wrote ");
	EXPECT_NULL(strstr(strstr(said, "wrote ") + 1, "wrote "));
	snapshot = snapshot_of(path);
	EXPECT_EQ(events_of(snapshot, "oom"), 1);
	EXPECT_EQ(events_of(snapshot, "free_completed"), 0);
	json_decref(snapshot);
	EXPECT_STR_EQ(names_left(), "one.json ");
}

TEST(both_are_kept_under_separate_names)
{
	json_t *snapshot;
	int status;

	ask_for("snapshot:@,history:none", in_folder("at-%w.json"));
	child_says(fail_twice, &status);
	snapshot = snapshot_of(in_folder("at-exit.json"));
	EXPECT_EQ(events_of(snapshot, "oom"), 2);
	json_decref(snapshot);
	EXPECT_STR_EQ(names_left(), "at-exit.json at-oom.json ");
}

/* ---- At a signal ------------------------------------------------------- */

/* Another process of the run has written under the name. */
static void
ends_beside_another(void)
{
	FILE *file;

	give(take(MIB, NULL));
	file = fopen(in_folder("both.json"), "w");
	EXPECT_NOT_NULL(file);
	fputs("another's", file);
	fclose(file);
}

TEST(a_snapshot_of_another_process_of_the_run_is_kept)
{
	char first[16] = "";
	char *said;
	int status;
	FILE *file;

	ask_for("snapshot:@", in_folder("both.json"));
	said = child_says(ends_beside_another, &status);
	EXPECT_EQ(WEXITSTATUS(status), 3);
	/* Its own snapshot has the process in its name, which is logged. */
	EXPECT_STR_HAS(said, "snapshot (exit): wrote ");
	file = fopen(in_folder("both.json"), "r");
	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(fgets(first, sizeof(first), file));
	fclose(file);
	EXPECT_STR_EQ(first, "another's");
	const char *names = names_left();

	EXPECT_STR_HAS(names, "both.json ");
	EXPECT_EQ(sscanf(names, "both.%*u.jso%c", first), 1);
}

static void
ends_with_memory(void)
{
	give(take(MIB, NULL));
}

TEST(a_snapshot_of_an_earlier_run_is_replaced)
{
	FILE *file = fopen(in_folder("old.json"), "w");
	char *said;
	int status;

	EXPECT_NOT_NULL(file);
	fputs("old", file);
	fclose(file);
	usleep(20000);
	ask_for("snapshot:@", in_folder("old.json"));
	said = child_says(ends_with_memory, &status);
	EXPECT_EQ(WEXITSTATUS(status), 3);
	EXPECT_STR_EQ(said, "");
	json_decref(snapshot_of(in_folder("old.json")));
	EXPECT_STR_EQ(names_left(), "old.json ");
}

TEST(a_signal_has_a_snapshot_written)
{
	const char *path = in_folder("signal.json");

	ask_for("snapshot:@,snapshot_signal:USR2", in_folder("%w.json"));
	/* At its end the folder is gone, which is logged. */
	setenv("WEIR_LOG", "error", 1);
	give(take(MIB, NULL));
	EXPECT_NE(access(path, F_OK), 0);
	raise(SIGUSR2);
	EXPECT_SOON(access(path, F_OK) == 0);
	EXPECT_EQ(unlink(path), 0);
	raise(SIGUSR2);
	EXPECT_SOON(access(path, F_OK) == 0);
	json_decref(snapshot_of(path));
	EXPECT_STR_EQ(names_left(), "signal.json ");
}

/* ---- At SIGTERM -------------------------------------------------------- */

static void
terminate_itself(void)
{
	signal(SIGTERM, SIG_DFL); /* as in most programs */
	take(MIB, NULL);
	kill(getpid(), SIGTERM);
	for (;;)
		pause();
}

TEST(sigterm_has_the_last_snapshot_written_and_ends_the_process)
{
	json_t *snapshot;
	int status;

	ask_for("snapshot:@,history:none", in_folder("%w.json"));
	EXPECT_STR_EQ(child_says(terminate_itself, &status), "");
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGTERM);
	snapshot = snapshot_of(in_folder("exit.json"));
	EXPECT_EQ(events_of(snapshot, "alloc"), 1);
	json_decref(snapshot);
	EXPECT_STR_EQ(names_left(), "exit.json ");
}

static void
terminate_child(void)
{
	pid_t child;
	int status;

	signal(SIGTERM, SIG_DFL);
	take(MIB, NULL);
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	kill(child, SIGTERM);
	waitpid(child, &status, 0);
	_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 5 : 6);
}

TEST(sigterm_ends_a_forked_child_at_once)
{
	int status;

#if defined(__SANITIZE_THREAD__)
	SKIP("ThreadSanitizer's own locks may be held when it forks");
#endif
	ask_for("snapshot:@", in_folder("%w.json"));
	child_says(terminate_child, &status);
	EXPECT_EQ(WEXITSTATUS(status), 5);
	EXPECT_STR_EQ(names_left(), "");
}

static volatile sig_atomic_t handled;

static void
handle(int number)
{
	(void)number;
	handled = 1;
}

static void
catch_term_itself(void)
{
	signal(SIGTERM, handle);
	give(take(MIB, NULL));
	raise(SIGTERM);
	_exit(handled ? 5 : 6);
}

TEST(sigterm_stays_the_programs_where_it_is_handled)
{
	int status;

	ask_for("snapshot:@", in_folder("x"));
	EXPECT_STR_EQ(child_says(catch_term_itself, &status), "");
	EXPECT_EQ(WEXITSTATUS(status), 5);
	EXPECT_STR_EQ(names_left(), "");
}

/* The writing thread cannot take the arena's lock. */
static void
terminate_held_up(void)
{
	signal(SIGTERM, SIG_DFL); /* as in most programs */
	take(MIB, NULL);
	lock_enter(&arena_peek(0)->lock);
	kill(getpid(), SIGTERM);
	for (;;)
		pause();
}

TEST(sigterm_ends_the_process_although_no_snapshot_can_be_written)
{
	int status;

	ask_for("snapshot:@", in_folder("x"));
	child_says(terminate_held_up, &status);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGTERM);
	/* It ended while the file was not complete. */
	EXPECT_NE(access(in_folder("x"), F_OK), 0);
}

static void
use_signal_itself(void)
{
	signal(SIGUSR2, handle);
	give(take(MIB, NULL));
	raise(SIGUSR2);
	_exit(handled ? 5 : 6);
}

TEST(a_signal_that_the_program_handles_is_left_to_it)
{
	int status;

	ask_for("snapshot:@,snapshot_signal:USR2", in_folder("x"));
	EXPECT_STR_HAS(child_says(use_signal_itself, &status),
	    "the program has a use for that signal");
	EXPECT_EQ(WEXITSTATUS(status), 5);
	EXPECT_STR_EQ(names_left(), "");
}

static void
signal_in_child(void)
{
	pid_t child;
	int status;

	give(take(MIB, NULL));
	child = fork();
	if (child == 0) {
		raise(SIGUSR2);
		_exit(9);
	}
	waitpid(child, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

TEST(a_signal_to_a_child_does_nothing)
{
	int status;

	ask_for("snapshot:@,snapshot_signal:USR2", in_folder("x"));
	EXPECT_STR_EQ(child_says(signal_in_child, &status), "");
	EXPECT_EQ(WEXITSTATUS(status), 9);
	EXPECT_STR_EQ(names_left(), "");
}

/* ---- Options ----------------------------------------------------------- */

TEST(wrong_values_of_these_options_are_named)
{
	EXPECT_STATUS(weir_options_set("history:some"), WEIR_EINVAL);
	EXPECT_STR_HAS(
	    weir_last_error(), "option history is invalid: 'some' is not off");
	EXPECT_STATUS(weir_options_set("history_entries:0"), WEIR_EINVAL);
	EXPECT_STATUS(weir_options_set("snapshot_signal:KILL"), WEIR_EINVAL);
	EXPECT_STATUS(weir_options_set("snapshot_signal:USR1"), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "there is no option snapshot");
	EXPECT_OK(weir_options_set("snapshot_signal:USR1,snapshot:/tmp/x"));
	EXPECT_STATUS(weir_options_set("snapshot:none"), WEIR_EINVAL);
	EXPECT_OK(weir_options_set("snapshot_signal:off,snapshot:none"));
	EXPECT_STATUS(weir_options_set("snapshot:"), WEIR_EINVAL);
}
