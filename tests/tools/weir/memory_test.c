/*
 * Every allocation of every command fails once: the command complains and ends
 * with status 2, or its output is complete. The same holds for its output.
 *
 * Each command is run once to count its allocations. Then it is run once for
 * each of them. Of a command that makes many, the first ones and a sample of
 * the others are tried; `make test-memory` tries all of them.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/fake/short_malloc.h"
#include "tests/tools/weir/answer.h"
#include "tests/tools/weir/stepped.h"

enum { WORDS = 12, FIRST = 4, SAMPLE = 9 };

/* The command line without "weir". "SNAPSHOT", "OTHER", "JSON", "TRACE",
 * "NSYS", "OUT" and "PID" are replaced. */
struct case_line {
	const char *words[WORDS];
};

/* The result of a run of the command. */
struct run_result {
	struct command_result command;
	char *file; /* contents of OUT; NULL if there is none */
	size_t file_bytes;
};

static struct short_malloc *shared;
static const char *folder; /* OUT is in it, and nothing else */
static char out_path[4200];
static const char *out_name = "out";

/* ---- Running a command ------------------------------------------------- */

static void
share_allocator(void)
{
	static const struct short_malloc none;
	const char *path = written("shared", &none, sizeof(none));
	int fd = open(path, O_RDWR | O_CLOEXEC);

	EXPECT(fd >= 0);
	shared = mmap(
	    NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(shared != MAP_FAILED);
	close(fd);
	setenv("SHORT_MALLOC", path, 1);
}

static void
prepare(void)
{
	static char made[4100];
	char *file;

	if (test_is_watched())
		SKIP("a sanitizer and valgrind have allocators of their own");
	runtime_folder();
	share_allocator();
	file = test_file("x", "", 0);
	*strrchr(file, '/') = '\0';
	snprintf(made, sizeof(made), "%s/outputs", file);
	free(file);
	EXPECT_EQ(mkdir(made, 0700), 0);
	folder = made;
}

static const char *
word_of(const char *word)
{
	if (strcmp(word, "SNAPSHOT") == 0)
		return snapshot_data("train0.pickle");
	if (strcmp(word, "OTHER") == 0)
		return snapshot_data("train1.pickle");
	if (strcmp(word, "BROKEN") == 0)
		return snapshot_data("broken.pickle");
	if (strcmp(word, "JSON") == 0)
		return snapshot_data("train.json");
	if (strcmp(word, "TRACE") == 0)
		return snapshot_data("../moe_start.csv");
	if (strcmp(word, "NSYS") == 0)
		return snapshot_data("../nsys/made_up.sqlite");
	if (strcmp(word, "PID") == 0)
		return program_pid;
	return strcmp(word, "OUT") == 0 ? out_path : word;
}

static void
resolve(const struct case_line *line, const char *argv[WORDS + 2])
{
	static char *weir;
	size_t n = 0;

	if (weir == NULL)
		weir = test_build("bin/weir");
	snprintf(out_path, sizeof(out_path), "%s/%s", folder, out_name);
	argv[n++] = weir;
	for (size_t i = 0; i < WORDS && line->words[i] != NULL; i++)
		argv[n++] = word_of(line->words[i]);
	argv[n] = NULL;
}

/* The contents of OUT, which is removed. The folder must then be empty. */
static char *
take_file(size_t *bytes)
{
	FILE *file = fopen(out_path, "rb");
	char *text = NULL;
	struct dirent *entry;
	DIR *directory;

	*bytes = 0;
	if (file != NULL) {
		EXPECT_EQ(fseek(file, 0, SEEK_END), 0);
		*bytes = (size_t)ftell(file);
		rewind(file);
		text = malloc(*bytes + 1);
		EXPECT_EQ(fread(text, 1, *bytes, file), *bytes);
		fclose(file);
		unlink(out_path);
	}
	directory = opendir(folder);
	EXPECT_NOT_NULL(directory);
	while ((entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			FAIL("'%s' was left", entry->d_name);
	closedir(directory);
	return text;
}

static struct run_result
run_short(const char *const argv[], unsigned at, int lasts)
{
	char *library = test_build("tests/tools/fake/short_malloc.so");
	struct run_result result;

	shared->count = 0;
	shared->at = at;
	shared->lasts = lasts;
	setenv("LD_PRELOAD", library, 1);
	result.command = command_run(argv);
	unsetenv("LD_PRELOAD");
	free(library);
	result.file = take_file(&result.file_bytes);
	return result;
}

static void
drop(struct run_result *result)
{
	command_free(&result->command);
	free(result->file);
}

/* ---- Judging ----------------------------------------------------------- */

/* The programs that a command starts write to its stderr as well, and numbers
 * of processes differ; so of stderr only the complaint is asked for. */
static bool
is_whole(const struct run_result *result, const struct run_result *good)
{
	return result->command.status == good->command.status &&
	    result->command.signal == good->command.signal &&
	    strcmp(result->command.out, good->command.out) == 0 &&
	    (result->file == NULL) == (good->file == NULL) &&
	    result->file_bytes == good->file_bytes;
}

static void
judge(const char *const argv[], unsigned at, struct run_result *result,
    const struct run_result *good)
{
	const struct command_result *command = &result->command;
	bool complains = strstr(command->err, "weir: ") != NULL &&
	    strstr(command->err, "out of memory") != NULL;

	if (command->status == 2 && complains)
		return;
	if (is_whole(result, good) && (complains || shared->count < at))
		return;
	FAIL("weir %s %s, allocation %u of %u: status %d, signal %d, %zu bytes "
	     "of output where %zu are complete; stderr: %.400s",
	    argv[1], argv[2] != NULL ? argv[2] : "", at, shared->count,
	    command->status, command->signal, strlen(command->out),
	    strlen(good->command.out), command->err);
}

/* The next allocation to fail: each of the first, then every stride-th. */
static unsigned
step(unsigned at, unsigned count)
{
	unsigned sample = (unsigned)test_effort(SAMPLE);
	unsigned stride = count / (sample > 0 ? sample : 1) + 1;

	return at + (at < FIRST ? 1 : stride);
}

static void
sweep(const struct case_line *line, int status)
{
	const char *argv[WORDS + 2];
	struct run_result good;
	unsigned count;
	int lasts = 0;

	resolve(line, argv);
	good = run_short(argv, 0, 0);
	count = shared->count;
	if (good.command.status != status)
		FAIL("weir %s: status %d, signal %d: %s", argv[1],
		    good.command.status, good.command.signal, good.command.err);
	EXPECT_GT(count, 0);
	for (unsigned at = 1; at <= count; at = step(at, count)) {
		struct run_result result = run_short(argv, at, lasts);

		judge(argv, at, &result, &good);
		drop(&result);
		lasts = !lasts;
	}
	drop(&good);
}

static void
sweep_all(const struct case_line *lines, size_t n)
{
	prepare();
	for (size_t i = 0; i < n; i++)
		sweep(&lines[i], 0);
}

#define SWEEP(...)                                                             \
	static const struct case_line lines[] = { __VA_ARGS__ };               \
	sweep_all(lines, sizeof(lines) / sizeof(lines[0]))

/* ---- The commands ------------------------------------------------------ */

TEST(reports_are_complete_or_refused_without_memory)
{
	SWEEP({ { "stats", "SNAPSHOT" } },
	    { { "stats", "--json", "SNAPSHOT" } }, { { "show", "SNAPSHOT" } },
	    { { "show", "--json", "SNAPSHOT" } }, { { "top", "SNAPSHOT" } },
	    { { "top", "--json", "SNAPSHOT" } }, { { "frag", "SNAPSHOT" } },
	    { { "frag", "--json", "SNAPSHOT" } });
}

TEST(answers_are_complete_or_refused_without_memory)
{
	SWEEP({ { "oom", "SNAPSHOT" } }, { { "oom", "--json", "SNAPSHOT" } },
	    { { "trace", "SNAPSHOT" } }, { { "trace", "--json", "SNAPSHOT" } },
	    { { "check", "SNAPSHOT" } }, { { "check", "--json", "JSON" } });
}

/* Status 1 is the answer that there is something. */
TEST(findings_are_complete_or_refused_without_memory)
{
	static const struct case_line lines[] = {
		{ { "check", "BROKEN" } },
		{ { "check", "--json", "BROKEN" } },
		{ { "check", "--max-peak=1M", "--no-leaks", "SNAPSHOT" } },
		{ { "leaks", "SNAPSHOT" } },
		{ { "leaks", "--json", "SNAPSHOT" } },
	};

	prepare();
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		sweep(&lines[i], 1);
}

TEST(comparisons_are_complete_or_refused_without_memory)
{
	SWEEP({ { "diff", "SNAPSHOT", "OTHER" } },
	    { { "diff", "--json", "SNAPSHOT", "OTHER" } },
	    { { "merge", "SNAPSHOT", "OTHER" } },
	    { { "merge", "--json", "SNAPSHOT", "OTHER" } },
	    { { "merge", "-o", "OUT", "SNAPSHOT", "OTHER" } });
}

TEST(exports_are_complete_or_refused_without_memory)
{
	SWEEP({ { "export", "SNAPSHOT" } }, { { "export", "JSON" } },
	    { { "export", "-f", "chrome", "SNAPSHOT" } },
	    { { "export", "-f", "folded", "SNAPSHOT" } },
	    { { "export", "-f", "csv", "SNAPSHOT" } },
	    { { "export", "-o", "OUT", "SNAPSHOT" } },
	    { { "export", "-f", "chrome", "-J", "NSYS", "-o", "OUT",
		"SNAPSHOT" } });
}

TEST(compressed_files_are_complete_or_refused_without_memory)
{
	out_name = "out.gz";
	SWEEP({ { "export", "-o", "OUT", "SNAPSHOT" } },
	    { { "export", "-f", "csv", "-o", "OUT", "SNAPSHOT" } });
}

TEST(the_page_is_complete_or_refused_without_memory)
{
	need_page();
	out_name = "out.html";
	SWEEP({ { "view", "-o", "OUT", "SNAPSHOT" } });
}

TEST(small_commands_are_complete_or_refused_without_memory)
{
	SWEEP({ { "help" } }, { { "version" } }, { { "top", "--help" } },
	    { { "generate", "--help" } }, { { "options" } },
	    { { "options", "--json" } }, { { "info" } },
	    { { "info", "--json" } }, { { "completion", "bash" } },
	    { { "completion", "zsh" } }, { { "completion", "fish" } },
	    { { "generate", "--events=300", "serve" } },
	    { { "run", "-q", "true" } }, { { "run", "--sim", "true" } });
}

/* ---- Output that cannot be written ------------------------------------- */

/* Run the command by the shell, which redirects its output. */
static struct command_result
run_redirected(const struct case_line *line, const char *script)
{
	const char *argv[WORDS + 2];
	const char *shell[WORDS + 6] = { "sh", "-c", script };

	resolve(line, argv);
	memcpy(shell + 3, argv, sizeof(argv));
	return command_run(shell);
}

static const struct case_line printing[] = {
	{ { "stats", "SNAPSHOT" } },
	{ { "stats", "--json", "SNAPSHOT" } },
	{ { "show", "SNAPSHOT" } },
	{ { "show", "--json", "SNAPSHOT" } },
	{ { "top", "SNAPSHOT" } },
	{ { "top", "--json", "SNAPSHOT" } },
	{ { "frag", "SNAPSHOT" } },
	{ { "frag", "--json", "SNAPSHOT" } },
	{ { "oom", "SNAPSHOT" } },
	{ { "oom", "--json", "SNAPSHOT" } },
	{ { "trace", "SNAPSHOT" } },
	{ { "trace", "--json", "SNAPSHOT" } },
	{ { "check", "SNAPSHOT" } },
	{ { "check", "BROKEN" } },
	{ { "check", "--json", "BROKEN" } },
	{ { "leaks", "SNAPSHOT" } },
	{ { "leaks", "--json", "SNAPSHOT" } },
	{ { "diff", "SNAPSHOT", "OTHER" } },
	{ { "diff", "--json", "SNAPSHOT", "OTHER" } },
	{ { "merge", "SNAPSHOT", "OTHER" } },
	{ { "merge", "--json", "SNAPSHOT", "OTHER" } },
	{ { "export", "SNAPSHOT" } },
	{ { "export", "-f", "chrome", "SNAPSHOT" } },
	{ { "export", "-f", "folded", "SNAPSHOT" } },
	{ { "export", "-f", "csv", "SNAPSHOT" } },
	{ { "generate", "--events=30", "serve" } },
	{ { "replay", "--sim", "TRACE" } },
	{ { "replay", "--sim", "--json", "TRACE" } },
	{ { "options" } },
	{ { "options", "--json" } },
	{ { "info" } },
	{ { "info", "--json" } },
	{ { "completion", "bash" } },
	{ { "version" } },
	{ { "help" } },
	{ { "help", "top" } },
};

TEST(output_that_is_lost_gives_status_2)
{
	static const char *const ways[] = {
		"exec \"$0\" \"$@\" >/dev/full",
		"exec \"$0\" \"$@\" >&-",
		"ulimit -f 1; exec \"$0\" \"$@\" >>\"$LIMITED\"",
	};

	/* A file of the largest size already, in blocks of sh. */
	static const char filled[1024];

	runtime_folder();
	setenv("LIMITED", written("limited", filled, sizeof(filled)), 1);
	folder = "/nonexistent";
	for (size_t i = 0; i < sizeof(printing) / sizeof(printing[0]); i++)
		for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
			/* The limit holds for the simulated memory, too. */
			if (w == 2 &&
			    strcmp(printing[i].words[0], "replay") == 0)
				continue;
			struct command_result result =
			    run_redirected(&printing[i], ways[w]);

			if (result.status != 2 ||
			    strstr(result.err, "cannot write ") == NULL)
				FAIL("weir %s %s: %s: status %d, signal %d: %s",
				    printing[i].words[0],
				    printing[i].words[1] != NULL ?
					printing[i].words[1] :
					"",
				    ways[w], result.status, result.signal,
				    result.err);
			command_free(&result);
		}
}

/* The limit of the size of files is the program's affair. */
TEST(a_program_under_weir_run_has_the_usual_signal_of_a_file_that_is_too_large)
{
	char *weir = test_build("bin/weir");
	const char *path = written("limited", "", 0);
	const char *script = "ulimit -f 0; exec \"$0\" run -q -- sh -c "
			     "'kill -XFSZ $$; echo survived >&2'";
	const char *const argv[] = { "sh", "-c", script, weir, path, NULL };
	struct command_result result;

	if (test_is_watched())
		SKIP("a sanitized library needs sanitized programs");
	runtime_folder();
	result = command_run(argv);
	EXPECT_EQ(result.signal, SIGXFSZ);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	free(weir);
}

TEST(wrong_command_lines_are_refused_without_memory)
{
	static const struct case_line lines[] = {
		{ { "repaly" } },
		{ { "stats", "--jsno" } },
		{ { "top", "-n", "x", "SNAPSHOT" } },
	};

	prepare();
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		sweep(&lines[i], 2);
}

TEST(replays_are_complete_or_refused_without_memory)
{
	SWEEP({ { "replay", "--sim", "TRACE" } });
}

TEST(a_running_program_is_shown_or_the_command_refuses_without_memory)
{
	struct program program;
	static const struct case_line lines[] = {
		{ { "watch" } },
		{ { "watch", "--json" } },
		{ { "watch", "--once", "PID" } },
		{ { "watch", "--once", "--json", "PID" } },
		{ { "watch", "--once", "--openmetrics=-", "PID" } },
		{ { "watch", "--once", "--openmetrics", "OUT" } },
		{ { "watch", "--snapshot", "OUT", "PID" } },
		{ { "ctl", "PID" } },
		{ { "ctl", "--json", "PID" } },
	};

	prepare();
	program = program_start_watched();
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		sweep(&lines[i], 0);
	EXPECT_EQ(program_finish(&program), 0);
}

/* The status of a program that a signal ended is the program's, also if there
 * is no memory for its report. */
TEST(a_report_without_memory_does_not_change_the_status_of_the_program)
{
	char *ends = test_build("tests/programs/driver_ends");
	const struct case_line line = { { "run", "--sim", "--report", "OUT",
	    ends, "kill" } };
	const char *argv[WORDS + 2];
	struct run_result good;
	unsigned count;
	unsigned lost = 0;

	prepare();
	resolve(&line, argv);
	good = run_short(argv, 0, 0);
	count = shared->count;
	EXPECT_EQ(good.command.signal, SIGKILL);
	EXPECT_NOT_NULL(good.file);
	for (unsigned at = 1; at <= count; at++) {
		struct run_result result = run_short(argv, at, 0);

		if (result.command.signal == SIGKILL && result.file == NULL) {
			EXPECT_STR_HAS(result.command.err, "out of memory");
			lost++;
		} else if (result.command.signal != SIGKILL) {
			EXPECT_EQ(result.command.status, 2);
		}
		drop(&result);
	}
	EXPECT_GT(lost, 0);
	drop(&good);
	free(ends);
}
