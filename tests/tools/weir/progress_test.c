/*
 * The line of progress appears on a terminal only, and is removed at the end.
 * And the commands that show it.
 */
#include "tools/weir/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

/* Connect stderr to a terminal. Returns the end that reads it. */
static int
stderr_to_terminal(void)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	int other;

	EXPECT(terminal >= 0);
	EXPECT_EQ(grantpt(terminal), 0);
	EXPECT_EQ(unlockpt(terminal), 0);
	other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	EXPECT(other >= 0);
	EXPECT_EQ(dup2(other, STDERR_FILENO), STDERR_FILENO);
	close(other);
	return terminal;
}

enum { TEXT_SIZE = 256 };

/* Read the terminal's output until a word. */
static void
read_until(int terminal, const char *last, char text[TEXT_SIZE])
{
	size_t length = 0;

	memset(text, 0, TEXT_SIZE);
	while (strstr(text, last) == NULL)
		length += (size_t)read(
		    terminal, text + length, TEXT_SIZE - 1 - length);
}

TEST(a_line_is_written_anew_and_removed)
{
	int terminal = stderr_to_terminal();
	struct progress progress;
	char text[TEXT_SIZE];

	progress_begin(&progress, 0);
	EXPECT(progress_due(&progress));
	progress_show(&progress, "row %d", 1);
	progress_show(&progress, "row %d", 2);
	progress_end(&progress);
	progress_show(&progress, "row %d", 3);
	fputs("done", stderr);
	fflush(stderr);
	read_until(terminal, "done", text);
	EXPECT_STR_EQ(text, "\r\033[Krow 1\r\033[Krow 2\r\033[Kdone");
}

TEST(a_part_prints_its_progress_and_the_time_that_remains)
{
	int terminal = stderr_to_terminal();
	struct progress progress;
	char text[TEXT_SIZE];

	progress_begin(&progress, 0);
	progress_part(&progress, "reading", 0,
	    8); /* no work is done, so that the speed is unknown */
	EXPECT(!progress.shown);
	progress_part(&progress, "reading", 2, 8);
	read_until(terminal, "left", text);
	EXPECT_STR_EQ(text, "\r\033[Kreading: 25 %, about 0 s left");
	progress_end(&progress);
}

/* A path, or the name of a trace, may contain hostile text. */
TEST(no_control_of_a_name_reaches_the_terminal)
{
	int terminal = stderr_to_terminal();
	struct progress progress;
	char text[TEXT_SIZE];

	progress_begin(&progress, 0);
	progress_show(&progress, "playing %s", "a\033]0;b\007\nc\302\233d end");
	read_until(terminal, "end", text);
	EXPECT_STR_HAS(text, "\r\033[Kplaying a");
	EXPECT_NULL(strpbrk(text + strlen("\r\033[K"), "\033\007\n\r"));
	EXPECT_NULL(strstr(text, "\302\233"));
	progress_end(&progress);
}

TEST(no_line_comes_before_its_time)
{
	struct progress progress;

	(void)stderr_to_terminal();
	progress_begin(&progress, 1000000);
	EXPECT(!progress_due(&progress));
	progress_end(&progress);
	EXPECT(!progress.shown);
}

TEST(nothing_is_shown_where_nobody_looks)
{
	struct progress progress;
	int file = open("/dev/null", O_WRONLY);

	EXPECT(file >= 0);
	EXPECT_EQ(dup2(file, STDERR_FILENO), STDERR_FILENO);
	progress_begin(&progress, 0);
	EXPECT(!progress_due(&progress));
	progress_show(&progress, "row");
	EXPECT(!progress.shown);
	progress_end(&progress);
}

TEST(short_parts_of_long_work_show_a_line_too)
{
	struct progress first;
	struct progress second;

	(void)stderr_to_terminal();
	progress_start();
	progress_begin(&first, PROGRESS_AFTER_MS);
	progress_end(&first);
	progress_begin(&second, PROGRESS_AFTER_MS);
	EXPECT_EQ(second.next_ms, first.next_ms);
}

TEST(a_line_does_not_cut_output_on_the_terminal)
{
	int terminal = stderr_to_terminal();
	FILE *screen = fdopen(dup(STDERR_FILENO), "w");
	FILE *file = tmpfile();
	struct progress progress;

	EXPECT_NOT_NULL(screen);
	EXPECT_NOT_NULL(file);
	progress_begin_output(&progress, screen);
	EXPECT(!progress.shows);
	progress_begin_output(&progress, file);
	EXPECT(progress.shows);
	fclose(file);
	fclose(screen);
	close(terminal);
}

/* ---- Commands ---------------------------------------------------------- */

/* A snapshot with enough blocks and events for a line. The caller frees it. */
static char *
large_snapshot(size_t *length)
{
	enum { ROWS = 3 * PROGRESS_STEPS };
	char *text = NULL;
	FILE *out = open_memstream(&text, length);

	EXPECT_NOT_NULL(out);
	fprintf(out,
	    "{\"segments\": [{\"device\": 0, \"address\": 0, "
	    "\"total_size\": %d, \"stream\": 0, \"segment_type\": "
	    "\"large\", \"blocks\": [",
	    ROWS * 512);
	for (int i = 0; i < ROWS; i++)
		fprintf(out,
		    "%s{\"address\": %d, \"size\": 512, \"requested_size\": "
		    "512, \"state\": \"active_allocated\"}",
		    i == 0 ? "" : ", ", i * 512);
	fputs("]}], \"device_traces\": [[", out);
	for (int i = 0; i < ROWS; i++)
		fprintf(out,
		    "%s{\"action\": \"alloc\", \"addr\": %d, \"size\": 512, "
		    "\"stream\": 0, \"time_us\": %d}",
		    i == 0 ? "" : ", ", i * 512, i + 1);
	fputs("]]}", out);
	EXPECT_EQ(fclose(out), 0);
	return text;
}

/* The output of `weir ARGUMENTS SNAPSHOT >out` on a terminal. The snapshot
 * arrives through a pipe, more than a second after the command has opened it.
 */
static char *
written_by(const char *arguments, const char *out)
{
	static const char script[] =
	    "rm -f \"$2\" && mkfifo \"$2\" && "
	    "{ (exec >\"$2\"; sleep 1.2; exec cat \"$1\") & } && "
	    "eval \"\\\"$0\\\" $3 \\\"$2\\\" $4\" && wait && rm \"$2\"";
	char *weir = test_build("bin/weir");
	size_t length;
	char *text = large_snapshot(&length);
	char *snapshot = test_file("large.json", text, length);
	char *pipe = test_file("pipe", "", 0);
	char *written = command_on_terminal((const char *const[]){
	    "sh", "-c", script, weir, snapshot, pipe, arguments, out, NULL });

	free(pipe);
	free(snapshot);
	free(text);
	free(weir);
	return written;
}

/* The line appears, and is removed at the end. */
static void
expect_line(const char *arguments, const char *out, const char *line)
{
	char *written = written_by(arguments, out);

	EXPECT_STR_HAS(written, line);
	EXPECT_STR_HAS(written, "%, about ");
	EXPECT_STR_EQ(
	    written + strlen(written) - strlen("\r\033[K"), "\r\033[K");
	free(written);
}

TEST_TIMEOUT(commands_that_write_much_show_how_far_they_are, 120)
{
	char *file = test_file("out", "", 0);
	char *out = NULL;
	char *merge = NULL;

	EXPECT_GT(asprintf(&out, ">\"%s\"", file), 0);
	EXPECT_GT(asprintf(&merge, "merge -o \"%s\" \"$1\"", file), 0);
	expect_line("trace", out, "\r\033[Kwriting: ");
	expect_line("trace --json", out, "\r\033[Kwriting: ");
	expect_line("export -f json", out, "\r\033[Kwriting: ");
	expect_line("export -f chrome", out, "\r\033[Kwriting device 0: ");
	expect_line("export -f folded", out, "\r\033[Kwriting: ");
	expect_line("export -f csv", out, "\r\033[Kwriting rows: ");
	expect_line(merge, ">/dev/null", "\r\033[Kwriting: ");
	free(merge);
	free(out);
	free(file);
}

TEST_TIMEOUT(a_long_trace_of_a_profiler_is_read_with_a_line, 60)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	char *trace;
	char *arguments = NULL;

	EXPECT_NOT_NULL(out);
	fputs("[{\"ph\": \"X\", \"ts\": 0, \"dur\": 1000000}", out);
	for (int i = 0; i < 2 * PROGRESS_STEPS; i++)
		fprintf(out, ", {\"ph\": \"X\", \"ts\": %d}", i);
	fputs("]", out);
	EXPECT_EQ(fclose(out), 0);
	trace = test_file("profile.json", text, length);
	EXPECT_GT(
	    asprintf(&arguments, "export -f chrome --join \"%s\"", trace), 0);
	expect_line(arguments, ">/dev/null", "\r\033[Kreading the trace: ");
	free(arguments);
	free(trace);
	free(text);
}

TEST(a_pager_is_not_written_over)
{
	char *written = written_by("trace", "| cat >/dev/null");

	EXPECT_NULL(strstr(written, "writing"));
	free(written);
}
